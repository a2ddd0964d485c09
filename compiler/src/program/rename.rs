//! Replacement of buffers in steps.

use super::nest::{Nest, Scalar};
use super::{BufferId, Step, StepKind};

impl Step {
    /// Replaces every buffer the step names, inner blocks included.
    pub fn rename_buffers(&mut self, new: &dyn Fn(BufferId) -> BufferId) {
        let mut pending = vec![self];
        while let Some(step) = pending.pop() {
            let each = |buffers: &mut [BufferId]| buffers.iter_mut().for_each(|b| *b = new(*b));
            match &mut step.kind {
                StepKind::Nest(nest) => nest.rename_buffers(new),
                StepKind::Kernel(kernel) => kernel.rename_buffers(new),
                StepKind::Chain(chain) => {
                    chain.stages.iter_mut().for_each(|stage| stage.kernel.rename_buffers(new));
                }
                StepKind::Attention(attention) => attention.rename_buffers(new),
                StepKind::Rows(rows) => rows.nests.iter_mut().for_each(|nest| nest.rename_buffers(new)),
                StepKind::Reshape { from, to } => {
                    *from = new(*from);
                    *to = new(*to);
                }
                StepKind::Call(call) => {
                    each(&mut call.inputs);
                    each(&mut call.outputs);
                }
                StepKind::Size { .. } => {}
                StepKind::If { condition, then, otherwise } => {
                    *condition = new(*condition);
                    pending.extend(then.steps.iter_mut().chain(&mut otherwise.steps));
                }
                StepKind::Loop(step) => {
                    step.condition.iter_mut().for_each(|b| *b = new(*b));
                    for (end, start) in &mut step.carried {
                        *end = new(*end);
                        *start = new(*start);
                    }
                    pending.extend(&mut step.body.steps);
                }
            }
        }
    }
}

impl Nest {
    /// Replaces every buffer the nest names.
    pub fn rename_buffers(&mut self, new: &dyn Fn(BufferId) -> BufferId) {
        for node in &mut self.nodes {
            if let Scalar::Load { access, .. } = node {
                access.buffer = new(access.buffer);
            }
        }
        self.store.buffer = new(self.store.buffer);
    }
}
