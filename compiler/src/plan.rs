//! Where everything lies: lifetimes of storages, offsets in the arena, the layout of the weights.

mod constants;
mod liveness;
mod place;
mod print;
mod verify;

pub use constants::{inline_constant, weights_file};
pub use verify::verify;

use crate::diag::{Diagnostic, codes};
use crate::element::ElementType;
use crate::program::{BufferId, Program, Role};
use std::collections::BTreeMap;

/// Alignment in bytes of everything in arena and weights.
pub const ALIGN: usize = 64;

/// What the planner may be asked for.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Gives every storage its own memory: shows whether a wrong result comes from shared memory.
    pub no_reuse: bool,
}

/// Which memory a storage lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Working memory, reused within a run.
    Arena,
    /// Memory that survives from run to run.
    State,
    /// The weights blob.
    Weights,
    /// The caller's memory: model input with this number.
    Input(usize),
    /// No bytes at all.
    Nowhere,
}

/// Where a storage lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Which memory.
    pub space: Space,
    /// First byte in it.
    pub offset: usize,
    /// Capacity in bytes.
    pub bytes: usize,
    /// First time at which it is live; times count the steps, inner blocks in line.
    pub first: usize,
    /// Last time at which it is live.
    pub last: usize,
}

/// The memory of a program.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Bytes of the state.
    pub state_bytes: usize,
    /// Bytes of the weights payload, a multiple of [`ALIGN`].
    pub weight_bytes: usize,
    /// Every storage that a step or the interface names.
    pub storages: BTreeMap<BufferId, Placement>,
    /// Constants whose bytes are those of another constant.
    pub shared_constants: usize,
    /// Largest sum of bytes that are live at one time: no plan needs less.
    pub peak_live_bytes: usize,
}

/// Bytes that one element takes in memory: types below a byte are unpacked, one value per byte.
pub fn element_bytes(element: ElementType) -> Option<usize> {
    match element.bits() {
        0 => None,
        bits => Some(bits.div_ceil(8) as usize),
    }
}

/// Number of elements for which a storage needs memory.
///
/// # Errors
/// Sizes without bound and sizes that overflow.
pub fn capacity(program: &Program, storage: BufferId) -> Result<usize, Diagnostic> {
    let buffer = program.buffer(storage);
    if let Some(kept) = buffer.kept {
        return Ok(kept);
    }
    // Sizes that share a capacity have a product with a bound of its own; else that of the bounds may be the smaller one.
    let each = buffer.dims.iter().fold(1i64, |size, dim| size.saturating_mul(dim.upper_bound().max(0)));
    let bound = usize::try_from(each.min(buffer.len().upper_bound().max(0))).ok();
    let bound = bound.map(|elements| elements.max(buffer.reach().unwrap_or(0)));
    bound.filter(|elements| *elements < 1 << 40).ok_or_else(|| {
        Diagnostic::error(
            &codes::LIMIT,
            format!("tensor {} has no usable upper bound", crate::diag::quote(&buffer.name)),
        )
        .help("give a bound for the dimension, for example `--shape NAME=1..8,3,224,224`")
    })
}

/// Plans the memory of a program.
///
/// # Errors
/// Sizes without bound, strings, and programs that write to inputs or constants.
pub fn plan(program: &Program, options: &PlanOptions) -> Result<Plan, Diagnostic> {
    let live = liveness::analyse(program);
    let mut plan = Plan::default();
    let mut arena = Vec::new();
    for (storage, life) in &live.storages {
        let mut placement =
            Placement { space: Space::Nowhere, offset: 0, bytes: 0, first: life.first, last: life.last };
        let buffer = program.buffer(*storage);
        let size = element_bytes(buffer.element)
            .ok_or_else(|| Diagnostic::error(&codes::UNSUPPORTED, "string tensors cannot be compiled"))?;
        let bytes = capacity(program, *storage)?.checked_mul(size).filter(|bytes| *bytes < 1 << 40);
        placement.bytes = bytes.ok_or_else(|| Diagnostic::error(&codes::LIMIT, "a tensor is too large"))?;
        let read_only = matches!(buffer.role, Role::Input(_) | Role::Constant(_));
        if read_only && life.written {
            return Err(Diagnostic::internal(format!("b{} is written, but belongs to inputs or constants", storage.0)));
        }
        placement.space = match &buffer.role {
            _ if placement.bytes == 0 => Space::Nowhere,
            Role::Input(i) => Space::Input(*i),
            Role::Constant(_) => Space::Weights,
            Role::State(_) => Space::State,
            Role::Temporary | Role::Output(_) | Role::Scratch => Space::Arena,
        };
        match placement.space {
            Space::Arena => arena.push((*storage, placement)),
            Space::State => {
                placement.offset = plan.state_bytes;
                plan.state_bytes += placement.bytes.next_multiple_of(ALIGN);
            }
            _ => {}
        }
        plan.storages.insert(*storage, placement);
    }
    if options.no_reuse {
        arena.iter_mut().for_each(|(_, placement)| (placement.first, placement.last) = (0, live.end));
    }
    place::place(&mut arena);
    plan.peak_live_bytes = place::peak(&arena);
    for (storage, placement) in arena {
        plan.arena_bytes = plan.arena_bytes.max(placement.offset + placement.bytes.next_multiple_of(ALIGN));
        plan.storages.insert(storage, placement);
    }
    constants::place(program, &mut plan)?;
    verify(program, &plan).map_err(Diagnostic::internal)?;
    Ok(plan)
}

impl Plan {
    /// Where the storage of a buffer lies.
    pub fn placement(&self, program: &Program, buffer: BufferId) -> Option<&Placement> {
        self.storages.get(&program.buffer(buffer).layout.storage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Dim;
    use crate::program::{Block, Loop, Step, StepKind};

    /// A chain of reshapes through buffers of the given sizes, the last one being the output.
    fn chain(sizes: &[i64]) -> Program {
        let mut program = Program::default();
        let buffers: Vec<BufferId> = (0..sizes.len())
            .map(|i| {
                let role = if i + 1 == sizes.len() { Role::Output(0) } else { Role::Temporary };
                program.add_buffer("t", ElementType::F32, vec![Dim::constant(sizes[i])], role)
            })
            .collect();
        for pair in buffers.windows(2) {
            let kind = StepKind::Reshape { from: pair[0], to: pair[1] };
            program.root.steps.push(Step { kind, origins: Vec::new() });
        }
        program.outputs.push((buffers[buffers.len() - 1], Default::default()));
        program
    }

    #[test]
    fn a_chain_needs_two_neighbours_at_a_time() {
        let program = chain(&[16, 32, 16, 48, 16]);
        let plan = plan(&program, &PlanOptions::default()).unwrap();
        assert_eq!((plan.arena_bytes, plan.peak_live_bytes), (256, 256));
        let apart = super::plan(&program, &PlanOptions { no_reuse: true }).unwrap();
        assert_eq!(apart.arena_bytes, 4 * (16 + 32 + 16 + 48 + 16));
    }

    #[test]
    fn an_output_that_a_loop_writes_lives_through_the_loop() {
        let mut program = chain(&[16, 16, 16, 16]);
        let body = Block { steps: std::mem::take(&mut program.root.steps) };
        let iteration = program.add_size("iteration", 0, 2);
        let repeat = Loop::counted(iteration, Dim::constant(3), body);
        program.root.steps.push(Step { kind: StepKind::Loop(Box::new(repeat)), origins: Vec::new() });
        let plan = plan(&program, &PlanOptions::default()).unwrap();
        let (out, temporary) = (plan.storages[&BufferId(3)], plan.storages[&BufferId(1)]);
        assert!(out.first <= temporary.first, "an iteration would overwrite what the last one left");
    }

    #[test]
    fn the_verifier_finds_overlaps() {
        let program = chain(&[16, 16, 16]);
        let mut plan = plan(&program, &PlanOptions::default()).unwrap();
        assert_eq!(verify(&program, &plan), Ok(()));
        plan.storages.values_mut().for_each(|placement| placement.offset = 0);
        assert!(verify(&program, &plan).unwrap_err().contains("overlap"));
    }
}
