//! Steps that only rename memory disappear: their result becomes a view of their operand.

use super::blocks::{Outside, for_each_block};
use super::layout::{along_rows, looked_up, product_of_columns, same_memory};
use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim};
use crate::options::Options;
use crate::program::nest::{Nest, Scalar};
use crate::program::{BufferId, Layout, Program, Role, Step, StepKind, recognise, reshape};
use std::collections::BTreeMap;

/// A nest that moves elements unchanged, and in one piece per element, out of a temporary into another temporary that
/// nothing else writes, is dropped: Slice, Split, Transpose and copies for kernels cost nothing where strides can say them.
pub fn alias(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    let fixed = program.fixed_layouts();
    let vectors = options.has_vector_kernels();
    for_each_block(program, &mut |program, steps, outside| alias_block(program, steps, outside, &fixed, vectors));
}

fn alias_block(program: &mut Program, steps: Vec<Step>, outside: &Outside, fixed: &[bool], vectors: bool) -> Vec<Step> {
    let mut writes = vec![0u32; program.buffers.len()];
    let mut last_write = vec![0; program.buffers.len()];
    for (at, step) in steps.iter().enumerate() {
        for buffer in step.accesses().1 {
            writes[buffer.0 as usize] += 1;
            last_write[program.buffer(buffer).layout.storage.0 as usize] = at;
        }
    }
    let needed = contiguous_dimensions(program, &steps, vectors);
    let mut kept = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        let layouts = match &step.kind {
            StepKind::Nest(nest) => view_of(program, nest)
                // What is written again does not keep the elements that were moved.
                .filter(|view| last_write[view.storage.0 as usize] <= at)
                .and_then(|view| moved(program, nest.store.buffer, &view))
                .filter(|layouts| {
                    layouts.iter().all(|(buffer, view)| {
                        let written = u32::from(*buffer == nest.store.buffer);
                        let free = !fixed[buffer.0 as usize] && !outside.sees(program, *buffer);
                        let kernels = needed.get(buffer).map_or(&[][..], Vec::as_slice);
                        free && writes[buffer.0 as usize] == written && !breaks_up(program, *buffer, view, kernels)
                    })
                }),
            _ => None,
        };
        match layouts {
            Some(layouts) => layouts.into_iter().for_each(|(buffer, view)| program.buffer_mut(buffer).layout = view),
            None => kept.push(step),
        }
    }
    kept
}

/// The layouts of a buffer and of its reshapes if it becomes a view; `None` if one of them needs elements where they were.
fn moved(program: &Program, buffer: BufferId, view: &Layout) -> Option<Vec<(BufferId, Layout)>> {
    let before = program.buffer(buffer);
    let sharing = program.buffers.iter().enumerate().filter(|(_, other)| other.layout.storage == buffer);
    sharing
        .map(|(i, other)| {
            let reshaped = |layout| reshape::view(layout, &before.dims, &other.dims);
            let id = BufferId(i as u32);
            match id == buffer {
                true => Some((id, view.clone())),
                false => {
                    let plain = same_memory(&reshaped(&before.layout)?, &other.layout, &other.dims);
                    plain.then_some((id, reshaped(view)?))
                }
            }
        })
        .collect()
}

/// By buffer, the dimensions along which kernels want its elements next to each other: those that a product sums over, and
/// the channels of a window and of its weights, and those of what is looked up for all of them; and those along which other
/// nests have rows that vectors take.
fn contiguous_dimensions(program: &Program, steps: &[Step], vectors: bool) -> BTreeMap<BufferId, Vec<usize>> {
    let mut needed: BTreeMap<BufferId, Vec<usize>> = BTreeMap::new();
    for step in steps {
        let StepKind::Nest(nest) = &step.kind else { continue };
        let product = product_of_columns(program, nest);
        let rows = if vectors { along_rows(program, nest, product.is_some()) } else { Vec::new() };
        rows.into_iter().for_each(|(from, dim)| needed.entry(from).or_default().push(dim));
        let (loads, axes) = match (&product, recognise::window(program, nest)) {
            (Some(product), _) => ([Some(product.data), None], (nest.maps..nest.axes.len()).collect()),
            (None, Some(window)) => ([Some(window.data), window.weights], window.channels),
            (None, None) => {
                looked_up(program, nest).iter().for_each(|(from, dim)| needed.entry(*from).or_default().push(*dim));
                continue;
            }
        };
        let counts = |index: &Dim, axis: usize| match &product {
            Some(product) => product.counts(index, axis),
            None => index.counts(axis),
        };
        for load in loads.into_iter().flatten() {
            let Some(Scalar::Load { access, .. }) = nest.nodes.get(load as usize) else { continue };
            let moving = |index: &Dim| axes.iter().any(|axis| counts(index, *axis));
            let dims = access.index.iter().enumerate().filter(|(_, index)| moving(index));
            needed.entry(access.buffer).or_default().extend(dims.map(|(dim, _)| dim));
        }
    }
    needed
}

/// Whether neighbours along one of the dimensions would lie apart in a view: the copy was made for a kernel, and is
/// cheaper than a kernel without it.
fn breaks_up(program: &Program, buffer: BufferId, view: &Layout, dims: &[usize]) -> bool {
    let buffer = program.buffer(buffer);
    let stride_is_one = |layout: &Layout, dim: usize| layout.strides.get(dim).is_some_and(|stride| stride.is(1));
    dims.iter().any(|dim| {
        let moves = buffer.dims.get(*dim).is_some_and(|size| !size.is(1));
        moves && stride_is_one(&buffer.layout, *dim) && !stride_is_one(view, *dim)
    })
}

/// The layout that makes the output of a move a view of its operand.
fn view_of(program: &Program, nest: &Nest) -> Option<Layout> {
    let [Scalar::Load { access, bounds, .. }] = nest.nodes.as_slice() else { return None };
    let (source, target) = (program.buffer(access.buffer), program.buffer(nest.store.buffer));
    let owner = program.buffer(source.layout.storage);
    let free = target.role == Role::Temporary && target.layout.storage == nest.store.buffer;
    if !bounds.is_empty() || !free || owner.role != Role::Temporary || source.element != target.element {
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
