//! A contraction that adds a residual writes the sum where the residual lies: half the traffic of both, and less memory.

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
use crate::options::Options;
use crate::program::kernel::{Kernel, KernelKind, Method};
use crate::program::nest::Scalar;
use crate::program::{BufferId, Program, Role, Step, StepKind};
use include_ir_runtime::__private::v1::Contraction;

/// The result of a contraction, and all views of it, move to the memory of the residual where nothing reads that again.
pub fn update_in_place(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    let fixed = program.fixed_layouts();
    for_each_block(program, &mut |program, steps, outside| {
        let mut users = Users::of(program, steps.iter().enumerate());
        for (i, step) in steps.iter().enumerate() {
            if let Some(Update { from, to }) = residual_of(program, step)
                && [from, to].iter().all(|storage| is_free(program, *storage, outside, &fixed))
                && is_last(&users, i, from, to)
            {
                users.append(from, to);
                let views = program.buffers.iter_mut().filter(|buffer| buffer.layout.storage == from);
                views.for_each(|buffer| buffer.layout.storage = to);
            }
        }
        steps
    });
}

/// A result, and the memory it may lie in.
struct Update {
    from: BufferId,
    to: BufferId,
}

/// The storages of the result and of the residual of a step whose kernel can update one: every element is added where it
/// lies, and nothing else is read there.
fn residual_of(program: &Program, step: &Step) -> Option<Update> {
    let StepKind::Kernel(kernel) = &step.kind else { return None };
    let nest = &kernel.nest;
    let Scalar::Load { access, bounds, .. } = nest.nodes.get(kernel.epilogue.residual? as usize)? else { return None };
    let storage = |buffer: BufferId| program.buffer(buffer).layout.storage;
    let (from, to) = (storage(nest.store.buffer), storage(access.buffer));
    let loads =
        nest.nodes.iter().filter(|node| matches!(node, Scalar::Load { access, .. } if storage(access.buffer) == to));
    let same_place =
        program.address(access.buffer, &access.index) == program.address(nest.store.buffer, &nest.store.index);
    let same_size = program.buffer(from).len() == program.buffer(to).len()
        && program.buffer(from).element == program.buffer(to).element;
    let fits = from != to && bounds.is_empty() && loads.count() == 1 && same_place && same_size;
    (fits && adds_last(program, kernel)).then_some(Update { from, to })
}

/// Whether the residual is read when a sum is complete, and nothing is written before.
fn adds_last(program: &Program, kernel: &Kernel) -> bool {
    match &kernel.kind {
        KernelKind::Contraction { method: Method::PackedRows { .. } | Method::Strassen { .. }, .. } => {
            let k = kernel.describe(program).and_then(|description| {
                let taps = description.taps.iter().map(|axis| axis.extent.clone());
                product(&taps.chain(description.depth.map(|axis| axis.extent)).collect::<Vec<Dim>>()).as_usize()
            });
            k.is_some_and(Contraction::packs_at_once)
        }
        KernelKind::Contraction { .. } => true,
        KernelKind::Window { .. } => false,
    }
}

/// Whether only the steps of this block look at the memory.
fn is_free(program: &Program, storage: BufferId, outside: &Outside, fixed: &[bool]) -> bool {
    let temporary = program.buffer(storage).role == Role::Temporary;
    temporary && !outside.sees(program, storage) && !fixed.get(storage.0 as usize).copied().unwrap_or(true)
}

/// Whether step `i` is the last one to use the residual, and the first one to use the result.
fn is_last(users: &Users, i: usize, from: BufferId, to: BufferId) -> bool {
    let done = |users: &[usize], own: bool| users.iter().all(|step| *step < i || own && *step == i);
    let new = |users: &[usize], own: bool| users.iter().all(|step| *step > i || own && *step == i);
    let residual_is_done = done(users.readers(to), true) && done(users.writers(to), false);
    residual_is_done && new(users.writers(from), true) && new(users.readers(from), false)
}
