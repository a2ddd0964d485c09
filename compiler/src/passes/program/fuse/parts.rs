//! A pointwise consumer of what several sums write, each in part, as the phases of a transposed convolution do: every one of them
//! continues with it, so that a bias and an activation take no pass of their own.

use super::{Fusing, MAX_NODES, continue_reduction, points};
use crate::dim::{Dim, product};
use crate::program::nest::Nest;
use crate::program::{BufferId, Role, StepKind};
use std::ops::Range;

impl Fusing<'_> {
    /// Applies the rule to one operand of the step, which is gone then; whether there was one.
    pub(super) fn join_parts(&mut self, consumer: usize) -> bool {
        let Some(nest) = self.nest(consumer) else { return false };
        let mut operands: Vec<BufferId> = nest.loads().map(|access| access.buffer).collect();
        operands.dedup();
        let Some(parts) = operands.into_iter().find_map(|buffer| self.parts(consumer, buffer)) else { return false };
        self.unregister(consumer);
        let origins = self.steps[consumer].take().map(|step| step.origins).unwrap_or_default();
        for (writer, part) in parts {
            self.unregister(writer);
            if let Some(step) = &mut self.steps[writer] {
                step.kind = StepKind::Nest(part);
                step.origins.extend(origins.iter().cloned());
            }
            self.register(writer);
        }
        true
    }

    /// The sums that write the buffer, each continued with the step that alone reads it.
    fn parts(&self, consumer: usize, buffer: BufferId) -> Option<Vec<(usize, Nest)>> {
        let (after, storage) = (self.nest(consumer)?, self.storage(buffer));
        let writers = self.writers[storage].as_slice();
        let only_reader = self.readers[storage] == [consumer] && !self.outside.sees(self.program, buffer);
        let temporary = storage == buffer.0 as usize && self.program.buffer(buffer).role == Role::Temporary;
        let between = *writers.iter().min()?..consumer;
        if writers.len() < 2 || !only_reader || !temporary || !self.may_run_earlier(after, buffer, between) {
            return None;
        }
        let mut written = Dim::constant(0);
        let parts = writers.iter().map(|writer| {
            let before = self.nest(*writer).filter(|before| before.reduction.is_some() && *writer < consumer)?;
            written = written.clone() + points(before)?;
            let short = before.nodes.len() + after.nodes.len() <= MAX_NODES && before.store.buffer == buffer;
            let part = short.then(|| continue_reduction(self.program, before, after, buffer)).flatten()?;
            Some((*writer, part))
        });
        let parts: Vec<_> = parts.collect::<Option<_>>()?;
        // As many elements as there are, all of which are read: no element is written twice.
        (written == product(&self.program.buffer(buffer).dims)).then_some(parts)
    }

    /// Whether a step finds its operands, but for one buffer, and its target in these places: no step there writes any of them, or
    /// reads the target.
    fn may_run_earlier(&self, nest: &Nest, but: BufferId, between: Range<usize>) -> bool {
        let target = self.storage(nest.store.buffer);
        let is_free = |steps: &[usize]| !steps.iter().any(|step| between.contains(step));
        let mut others = nest.loads().map(|access| access.buffer).filter(|buffer| *buffer != but);
        others.all(|buffer| self.storage(buffer) != target && is_free(&self.writers[self.storage(buffer)]))
            && is_free(&self.writers[target])
            && is_free(&self.readers[target])
    }
}
