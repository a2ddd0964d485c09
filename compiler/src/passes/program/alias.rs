//! Steps that only rename memory disappear: their result becomes a view of their operand.

use super::blocks::{Outside, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim};
use crate::options::Options;
use crate::program::nest::{Nest, Scalar};
use crate::program::{Layout, Program, Role, Step, StepKind};

/// A nest that moves elements unchanged, and in one piece per element, out of a temporary into another temporary that
/// nothing else writes, is dropped: Slice, Split, Transpose and copies for kernels cost nothing where strides can say them.
pub fn alias(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    let fixed = program.fixed_layouts();
    for_each_block(program, &mut |program, steps, outside| alias_block(program, steps, outside, &fixed));
}

fn alias_block(program: &mut Program, steps: Vec<Step>, outside: &Outside, fixed: &[bool]) -> Vec<Step> {
    let mut writes = vec![0u32; program.buffers.len()];
    let mut last_write = vec![0; program.buffers.len()];
    for (at, step) in steps.iter().enumerate() {
        for buffer in step.accesses().1 {
            writes[buffer.0 as usize] += 1;
            last_write[program.buffer(buffer).layout.storage.0 as usize] = at;
        }
    }
    let mut kept = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        let layout = match &step.kind {
            StepKind::Nest(nest) => {
                let to = nest.store.buffer;
                let free = writes[to.0 as usize] == 1 && !fixed[to.0 as usize] && !outside.sees(program, to);
                // What is written again does not keep the elements that were moved.
                view_of(program, nest).filter(|view| free && last_write[view.storage.0 as usize] <= at)
            }
            _ => None,
        };
        match (layout, &step.kind) {
            (Some(layout), StepKind::Nest(nest)) => program.buffer_mut(nest.store.buffer).layout = layout,
            _ => kept.push(step),
        }
    }
    kept
}

/// The layout that makes the output of a move a view of its operand.
fn view_of(program: &Program, nest: &Nest) -> Option<Layout> {
    let [Scalar::Load { access, bounds, .. }] = nest.nodes.as_slice() else { return None };
    let (source, target) = (program.buffer(access.buffer), program.buffer(nest.store.buffer));
    let owner = program.buffer(source.layout.storage);
    let free = target.role == Role::Temporary && target.layout.storage == nest.store.buffer;
    let shared = program.buffers.iter().filter(|b| b.layout.storage == nest.store.buffer).count() > 1;
    if !bounds.is_empty() || !free || shared || owner.role != Role::Temporary || source.element != target.element {
        return None;
    }
    let address = program.address(access.buffer, &access.index);
    let mut strides = Vec::with_capacity(target.dims.len());
    let mut offset = address.clone();
    for (stored, dim) in nest.store.index.iter().zip(&target.dims) {
        let axis = match stored.parts() {
            ([(product, 1)], 0) => match product.as_slice() {
                [Atom::Axis(axis)] => *axis as usize,
                _ => return None,
            },
            _ if stored.is(0) && dim.is(1) => {
                strides.push(Dim::constant(1));
                continue;
            }
            _ => return None,
        };
        let stride = address.coefficient(axis)?;
        if stride <= 0 && !dim.is(1) || nest.axes[axis].extent != *dim {
            return None;
        }
        strides.push(Dim::constant(stride));
        offset = offset.without(axis);
    }
    (!offset.is_index()).then_some(Layout { storage: source.layout.storage, offset, strides })
}
