//! Scattered elements whose places follow each other, as where indices of nodes are repeated for all of their features: rows go
//! to rows, and a place is found once for each.

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::options::{Kernels, Options};
use crate::program::edit::prune;
use crate::program::nest::{Nest, Scalar};
use crate::program::{BufferId, Call, Program, Role, Step, StepKind};
use crate::tensor::Tensor;

/// Gives such updates whole rows.
pub fn scatter_rows(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if options.kernels == Kernels::Reference {
        return;
    }
    for_each_block(program, &mut |program, mut steps, outside| {
        let users = Users::of(program, steps.iter().enumerate());
        let found: Vec<Scatter> =
            (0..steps.len()).filter_map(|at| Scatter::of(program, &steps, (&users, outside), at)).collect();
        let mut dropped = Vec::new();
        for scatter in found {
            dropped.extend(scatter.reshape);
            scatter.apply(program, &mut steps);
        }
        let mut at = 0..steps.len();
        steps.retain(|_| at.next().is_some_and(|at| !dropped.contains(&at)));
        steps
    });
}

/// A call that scatters elements, and what says where they go.
struct Scatter {
    call: usize,
    places: usize,
    reshape: Option<usize>,
    /// What finds the place of every row.
    nest: Nest,
    /// Elements of a row.
    row: Dim,
}

impl Scatter {
    fn of(program: &Program, steps: &[Step], (users, outside): (&Users, &Outside), at: usize) -> Option<Scatter> {
        let (data, places) = elements(&steps.get(at)?.kind)?;
        // Who writes a buffer that has one reader.
        let writer = |buffer: BufferId, reader: usize| -> Option<usize> {
            let storage = program.buffer(buffer).layout.storage;
            let own = program.buffer(storage).role == Role::Temporary && !outside.sees(program, storage);
            match users.writers(storage) {
                [writer] if own && users.readers(storage) == [reader] => Some(*writer),
                _ => None,
            }
        };
        let mut places = writer(places, at)?;
        let mut reshape = None;
        if let StepKind::Reshape { from, .. } = steps.get(places)?.kind {
            reshape = Some(places);
            places = writer(from, places)?;
        }
        let StepKind::Nest(nest) = &steps.get(places)?.kind else { return None };
        let stored = |(i, dim): (usize, &Dim)| *dim == Dim::axis(i);
        if nest.maps != nest.axes.len() || !nest.store.index.iter().enumerate().all(stored) {
            return None;
        }
        let (nest, row) = rows(program, nest, &program.buffer(data).dims)?;
        Some(Scatter { call: at, places, reshape, nest, row })
    }

    fn apply(mut self, program: &mut Program, steps: &mut [Step]) {
        let counted: Vec<Dim> = self.nest.axes.iter().map(|axis| axis.extent.clone()).collect();
        let Some(Step { kind: StepKind::Call(call), .. }) = steps.get_mut(self.call) else { return };
        let ([data, places, ..], [_, counts, ..]) = (&mut *call.inputs, &mut *call.outputs) else { return };
        let rows: Vec<Dim> = program.buffer(*data).dims.iter().take(counted.len()).cloned().collect();
        *places = program.add_buffer("", ElementType::I64, counted, Role::Temporary);
        *counts = program.add_buffer("", ElementType::I32, rows, Role::Temporary);
        self.nest.store.buffer = *places;
        call.integers[0] = self.row;
        if let Some(step) = steps.get_mut(self.places) {
            step.kind = StepKind::Nest(self.nest);
        }
    }
}

/// Data and places of a call that combines single elements.
fn elements(step: &StepKind) -> Option<(BufferId, BufferId)> {
    let StepKind::Call(Call { function, inputs, integers, .. }) = step else { return None };
    let single = function.name == "scatter_reduce" && integers.first().is_some_and(|block| block.is(1));
    Some((*inputs.first()?, *inputs.get(1)?)).filter(|_| single)
}

/// The nest that finds the places of rows, and the elements of a row: the last axes along which places follow each other in
/// data of these dimensions, all of it.
fn rows(program: &Program, nest: &Nest, dims: &[Dim]) -> Option<(Nest, Dim)> {
    let Scalar::Select(outside, nowhere, place) = *nest.nodes.get(nest.result as usize)? else { return None };
    let (Scalar::Const(_), Scalar::Index(index)) = (nest.nodes.get(nowhere as usize)?, nest.nodes.get(place as usize)?)
    else {
        return None;
    };
    let mut nest = nest.clone();
    let (mut rest, mut row, mut kept) = (index.clone(), Dim::constant(1), dims.len());
    while kept > 1 {
        let axis = kept - 1;
        let whole = nest.axes.get(axis).map(|axis| &axis.extent) == dims.get(axis);
        if !whole || rest.stride(axis).as_ref() != Some(&row) {
            break;
        }
        let (mut fewer, without) = (nest.clone(), rest.without(axis));
        read_once(program, &mut fewer, axis);
        fewer.nodes[place as usize] = Scalar::Index(without.clone());
        let depends = fewer.depends_on(axis);
        if [outside, place].iter().any(|node| depends.get(*node as usize) != Some(&false)) {
            break;
        }
        (nest, rest, kept) = (fewer, without, axis);
        row = product(dims.get(kept..)?);
    }
    if kept == dims.len() {
        return None;
    }
    nest.nodes[place as usize] = Scalar::Index(rest.quotient(&row)?);
    nest.axes.truncate(kept);
    nest.maps = kept;
    nest.store.index.truncate(kept);
    prune(&mut nest);
    Some((nest, row))
}

/// Reads the first of constant elements that are the same along an axis.
fn read_once(program: &Program, nest: &mut Nest, axis: usize) {
    for node in &mut nest.nodes {
        let Scalar::Load { access, .. } = node else { continue };
        let Some(tensor) = program.buffer(access.buffer).constant() else { continue };
        for (dimension, dim) in access.index.iter_mut().enumerate() {
            if *dim == Dim::axis(axis) && is_same_along(tensor, dimension) {
                *dim = Dim::constant(0);
            }
        }
    }
}

/// Whether integers do not change along a dimension.
fn is_same_along(tensor: &Tensor, dimension: usize) -> bool {
    let Some(values) = tensor.to_i64s() else { return false };
    let inner: usize = tensor.dims.iter().skip(dimension + 1).product();
    let size = tensor.dims.get(dimension).copied().unwrap_or(1);
    if inner == 0 || size == 0 {
        return false;
    }
    values.chunks(inner * size).all(|block| block.iter().skip(inner).zip(block).all(|(next, this)| next == this))
}
