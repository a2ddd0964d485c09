//! Reshapes: views of the memory they come from, else a copy into row-major order.

use super::{Choosing, copy_nest};
use crate::graph::Origin;
use crate::program::{BufferId, Layout, Program, Role, Step, StepKind, reshape};

impl Choosing {
    pub(super) fn reshape(&mut self, program: &mut Program, from: BufferId, to: BufferId, origins: Vec<Origin>) {
        let (source, target) = (program.buffer(from).clone(), program.buffer(to).clone());
        let view = reshape::view(&source.layout, &source.dims, &target.dims);
        let free = self.is_free(program, to) && self.may_view(program, to, from);
        if let (Some(layout), true) = (&view, free) {
            program.buffer_mut(to).layout = layout.clone();
            self.decide(to);
            return;
        }
        if self.adopt(program, from, to) {
            return;
        }
        // The elements of `from`, row-major, in the memory of `to`.
        let storage = target.layout.storage;
        let plain = Layout::row_major(storage, &source.dims);
        let alias = program.add_buffer(&source.name, source.element, source.dims.clone(), Role::Temporary);
        program.buffer_mut(alias).layout = Layout { offset: target.layout.offset.clone(), ..plain };
        self.decide(alias);
        self.decide(to);
        self.out.push(Step { kind: StepKind::Nest(copy_nest(&source.dims, from, alias)), origins });
    }

    /// Moves the memory of a temporary in row-major order into that of the output it becomes.
    fn adopt(&self, program: &mut Program, from: BufferId, to: BufferId) -> bool {
        let (source, target) = (program.buffer(from), program.buffer(to));
        let owner = source.layout.storage;
        let temporary = program.buffer(owner).role == Role::Temporary;
        let row_major = super::same_memory(
            &source.layout,
            &Layout { storage: owner, ..Layout::row_major(owner, &source.dims) },
            &source.dims,
        );
        // Sizes that steps find may be bounded differently on both sides: then the memory of one is no room for the other.
        let whole = program.buffer(owner).len() == source.len() && source.len() == target.len();
        if !temporary || !row_major || !whole || target.layout.storage != to || !self.may_join(program, from, to) {
            return false;
        }
        for buffer in &mut program.buffers {
            if buffer.layout.storage == owner {
                buffer.layout.storage = to;
            }
        }
        true
    }
}
