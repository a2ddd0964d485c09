//! Results that several products write a part each of, in another order than the memory they are for has.

use super::{Choosing, copy_nest};
use crate::dim::{Dim, product};
use crate::graph::Origin;
use crate::program::nest::{Access, Nest};
use crate::program::{BufferId, Program, Step, StepKind};
use std::collections::BTreeMap;

/// What lies in temporaries and is still to be copied, by the buffer that it is for.
#[derive(Default)]
pub(super) struct Parts(BTreeMap<BufferId, Waiting>);

struct Waiting {
    temporary: BufferId,
    copies: Vec<(Nest, Vec<Origin>)>,
}

impl Parts {
    /// The temporary in which other parts of the buffer wait.
    pub(super) fn temporary(&self, buffer: BufferId) -> Option<BufferId> {
        self.0.get(&buffer).map(|waiting| waiting.temporary)
    }
}

impl Choosing {
    /// Has the part that a nest writes to a temporary copied to `buffer` before anything else looks at it.
    pub(super) fn copy_later(&mut self, nest: &Nest, buffer: BufferId, origins: &[Origin]) {
        let temporary = nest.store.buffer;
        let copy = (copy_part(nest, temporary, buffer), origins.to_vec());
        let waiting = self.block.parts.0.entry(buffer);
        waiting.or_insert_with(|| Waiting { temporary, copies: Vec::new() }).copies.push(copy);
    }

    /// Copies what waits for memory that a step reads, or writes other than by a part of its own.
    pub(super) fn copy_parts_before(&mut self, program: &Program, step: &Step) {
        if self.block.parts.0.is_empty() {
            return;
        }
        let (reads, writes) = step.accesses();
        let is_nest = matches!(step.kind, StepKind::Nest(_));
        let storage = |buffer: BufferId| program.buffer(buffer).layout.storage;
        let touches = |buffers: &[BufferId], of: BufferId| buffers.iter().any(|other| storage(*other) == storage(of));
        let more = |of: BufferId| is_nest && writes.contains(&of);
        let touched = |of: BufferId| touches(&reads, of) || (touches(&writes, of) && !more(of));
        let due: Vec<BufferId> = self.block.parts.0.keys().copied().filter(|of| touched(*of)).collect();
        due.into_iter().for_each(|buffer| self.copy_parts(program, buffer));
    }

    /// Copies what nothing of this block will add to.
    pub(super) fn copy_parts_after(&mut self, program: &Program) {
        let at = self.block.at;
        let last = |buffer: &BufferId| self.block.last_write.get(&program.buffer(*buffer).layout.storage);
        let complete = |buffer: &BufferId| last(buffer).is_none_or(|last| *last <= at);
        let due: Vec<BufferId> = self.block.parts.0.keys().copied().filter(complete).collect();
        due.into_iter().for_each(|buffer| self.copy_parts(program, buffer));
    }

    /// Copies the parts of a buffer: at once where they are all of it.
    pub(super) fn copy_parts(&mut self, program: &Program, buffer: BufferId) {
        let Some(Waiting { temporary, copies }) = self.block.parts.0.remove(&buffer) else { return };
        let dims = &program.buffer(buffer).dims;
        let elements =
            |(nest, _): &(Nest, _)| product(&nest.axes.iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>());
        let copied = copies.iter().map(elements).fold(Dim::constant(0), |sum, part| sum + part);
        let all = self.block.writers.get(&buffer).is_some_and(|writers| *writers == copies.len());
        if all && self.depth == 1 && copied == product(dims) {
            let origins = copies.into_iter().next().map(|(_, origins)| origins).unwrap_or_default();
            self.push_nest(copy_nest(dims, temporary, buffer), origins);
            return;
        }
        for (copy, origins) in copies {
            self.push_nest(copy, origins);
        }
    }
}

/// A nest that copies the elements that a nest writes to `from` to the same places of `to`.
fn copy_part(nest: &Nest, from: BufferId, to: BufferId) -> Nest {
    let index = nest.store.index.clone();
    let axes = nest.axes.iter().take(nest.maps).cloned().collect();
    Nest::moving(axes, Access { buffer: from, index: index.clone() }, Access { buffer: to, index })
}
