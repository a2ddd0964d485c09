//! Text form of a plan: `--emit plan`.

use super::{Placement, Plan, Space};
use crate::program::Program;
use std::fmt;

/// A plan with the program it belongs to, to print.
#[derive(Debug)]
pub struct Table<'a> {
    plan: &'a Plan,
    program: &'a Program,
}

impl Plan {
    /// The text form: one line per storage with memory, offset, bytes and life, then totals.
    pub fn table<'a>(&'a self, program: &'a Program) -> Table<'a> {
        Table { plan: self, program }
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan;
        writeln!(f, "plan {:?}", self.program.name)?;
        writeln!(f, "  {:<8} {:<8} {:>12} {:>12} {:>13}  contents", "buffer", "memory", "offset", "bytes", "life")?;
        for (id, Placement { space, offset, bytes, first, last }) in &plan.storages {
            let memory = match space {
                Space::Arena => "arena".to_owned(),
                Space::State => "state".to_owned(),
                Space::Weights => "weights".to_owned(),
                Space::Input(i) => format!("input {i}"),
                Space::Nowhere => "-".to_owned(),
            };
            let buffer = self.program.buffer(*id);
            let dims: Vec<String> = buffer.dims.iter().map(ToString::to_string).collect();
            let life = format!("{first}..{last}");
            writeln!(
                f,
                "  b{:<7} {memory:<8} {offset:>12} {bytes:>12} {life:>13}  {}[{}] {:?}",
                id.0,
                buffer.element,
                dims.join(", "),
                buffer.name
            )?;
        }
        let gap = plan.arena_bytes - plan.peak_live_bytes.min(plan.arena_bytes);
        let percent = gap as f64 * 100.0 / (plan.peak_live_bytes.max(1)) as f64;
        writeln!(
            f,
            "  arena {} bytes, peak live {} bytes, gap {gap} bytes ({percent:.1} %)",
            plan.arena_bytes, plan.peak_live_bytes
        )?;
        writeln!(f, "  state {} bytes", plan.state_bytes)?;
        writeln!(f, "  weights {} bytes, {} constants shared", plan.weight_bytes, plan.shared_constants)
    }
}
