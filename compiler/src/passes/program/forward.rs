//! Lets the step that computes an output write into it, instead of copying at the end.

use crate::diag::Diagnostics;
use crate::options::Options;
use crate::program::{BufferId, Program, Role, StepKind};

/// A copy of a temporary of the same shape into an output is dropped: the temporary becomes the output.
pub fn forward_outputs(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    let mut renamed: Vec<Option<BufferId>> = vec![None; program.buffers.len()];
    let mut kept = Vec::new();
    for step in std::mem::take(&mut program.root.steps) {
        if let StepKind::Reshape { from, to } = &step.kind {
            let (source, target) = (program.buffer(*from), program.buffer(*to));
            let output = matches!(target.role, Role::Output(_)) && source.layout.storage == *from;
            let slot = &mut renamed[from.0 as usize];
            if output && source.role == Role::Temporary && source.dims == target.dims && slot.is_none() {
                *slot = Some(*to);
                continue;
            }
        }
        kept.push(step);
    }
    for step in &mut kept {
        step.rename_buffers(&|buffer| renamed.get(buffer.0 as usize).copied().flatten().unwrap_or(buffer));
    }
    program.root.steps = kept;
}
