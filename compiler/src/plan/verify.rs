//! Checks a plan without trusting the allocator: what is live together does not overlap.

use super::{ALIGN, Plan, Space};
use crate::program::{BufferId, Program};

/// Checks that simultaneously live storages of one memory do not overlap and lie inside it.
///
/// # Errors
/// Names the first two storages that collide.
pub fn verify(program: &Program, plan: &Plan) -> Result<(), String> {
    for space in [Space::Arena, Space::State] {
        let limit = if space == Space::Arena { plan.arena_bytes } else { plan.state_bytes };
        // Sweep by offset: neighbours in memory are few, so this stays near linear.
        let mut sorted: Vec<_> = plan.storages.iter().filter(|(_, p)| p.space == space).collect();
        sorted.sort_by_key(|(id, p)| (p.offset, **id));
        for (i, (id, placement)) in sorted.iter().enumerate() {
            let end = placement.offset + placement.bytes;
            if end > limit || placement.offset % ALIGN != 0 {
                return Err(format!("b{} lies outside its memory or is misaligned", id.0));
            }
            for (other, next) in sorted.iter().skip(i + 1).take_while(|(_, next)| next.offset < end) {
                let together = placement.first <= next.last && next.first <= placement.last;
                if together || space == Space::State {
                    return Err(format!("b{} and b{} overlap at byte {}", id.0, other.0, next.offset));
                }
            }
        }
    }
    let missing = |buffer: &BufferId| plan.placement(program, *buffer).is_none();
    match program.outputs.iter().map(|(buffer, _)| buffer).find(|buffer| missing(buffer)) {
        Some(buffer) => Err(format!("output b{} has no memory", buffer.0)),
        None => Ok(()),
    }
}
