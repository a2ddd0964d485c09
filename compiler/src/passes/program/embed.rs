//! Parts of a concatenation are computed where they end up: the copies into it disappear.

use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim, Interval, product};
use crate::options::Options;
use crate::program::nest::{Nest, Scalar};
use crate::program::{BufferId, Layout, Program, Role, StepKind};
use std::collections::BTreeMap;

/// A temporary all elements of which are copied, at one distance, into another buffer becomes a view into that buffer.
/// Its readers read it there (YOLOv8's C2f adds one part to the next), its producer writes it there.
pub fn embed_parts(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    let mut copied: BTreeMap<BufferId, Vec<(BufferId, Vec<i64>, Dim)>> = BTreeMap::new();
    for step in &program.root.steps {
        if let StepKind::Nest(nest) = &step.kind
            && let Some((from, to, distance)) = shifted_copy(nest)
        {
            let points = product(&nest.axes.iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>());
            copied.entry(from).or_default().push((to, distance, points));
        }
    }
    let fixed = program.fixed_layouts();
    for (from, copies) in copied {
        let Some((to, distance, _)) = copies.first().cloned() else { continue };
        let one_target = copies.iter().all(|(other, d, _)| *other == to && *d == distance);
        let points = copies.iter().fold(Dim::constant(0), |sum, (_, _, points)| sum + points);
        if one_target && !fixed[from.0 as usize] && points == program.buffer(from).len() && may_embed(program, from, to)
        {
            let index: Vec<Dim> = distance.iter().map(|d| Dim::constant(*d)).collect();
            let offset = program.address(to, &index);
            let target = &program.buffer(to).layout;
            let layout = Layout { storage: target.storage, offset, strides: target.strides.clone() };
            program.buffer_mut(from).layout = layout;
        }
    }
    let mut steps = std::mem::take(&mut program.root.steps);
    for step in &mut steps {
        if let StepKind::Nest(nest) = &mut step.kind {
            narrow_store(program, nest);
        }
    }
    let is_identity = |step: &crate::program::Step| match &step.kind {
        StepKind::Nest(nest) => copies_onto_itself(program, nest),
        _ => false,
    };
    let kept = steps.into_iter().filter(|step| !is_identity(step)).collect();
    program.root.steps = kept;
}

/// Whether a copy reads every element from where it writes it.
fn copies_onto_itself(program: &Program, nest: &Nest) -> bool {
    let [Scalar::Load { access, bounds, .. }] = nest.nodes.as_slice() else { return false };
    let same = program.buffer(access.buffer).layout.storage == program.buffer(nest.store.buffer).layout.storage;
    let from = program.address(access.buffer, &access.index);
    same && bounds.is_empty() && from == program.address(nest.store.buffer, &nest.store.index)
}

/// A nest that writes a block of a buffer writes a view of just that block, so that it may read the rest.
fn narrow_store(program: &mut Program, nest: &mut Nest) {
    let extents: Option<Vec<i64>> = nest.axes.iter().map(|axis| axis.extent.as_const()).collect();
    let Some(extents) = extents else { return };
    let leaf = |atom: &Atom| match atom {
        Atom::Axis(axis) => Interval { min: 0, max: extents.get(*axis as usize).map_or(0, |e| (e - 1).max(0)) },
        _ => Interval::ALL,
    };
    let ranges: Vec<Interval> = nest.store.index.iter().map(|index| index.range_with(&leaf)).collect();
    let buffer = program.buffer(nest.store.buffer).clone();
    let block: Vec<Dim> = ranges.iter().map(|r| Dim::constant(r.max.saturating_sub(r.min).saturating_add(1))).collect();
    let inside =
        ranges.iter().zip(&buffer.dims).all(|(r, dim)| r.min >= 0 && dim.as_const().is_some_and(|d| r.max < d));
    if !inside || block == buffer.dims {
        return;
    }
    let first: Vec<Dim> = ranges.iter().map(|r| Dim::constant(r.min)).collect();
    let offset = program.address(nest.store.buffer, &first);
    let view = program.add_buffer(&buffer.name, buffer.element, block, Role::Temporary);
    program.buffer_mut(view).layout = Layout { storage: buffer.layout.storage, offset, strides: buffer.layout.strides };
    nest.store.buffer = view;
    for (index, range) in nest.store.index.iter_mut().zip(&ranges) {
        *index = index.clone() - range.min;
    }
}

/// A nest that only copies, every index by a constant distance along its dimension.
fn shifted_copy(nest: &Nest) -> Option<(BufferId, BufferId, Vec<i64>)> {
    let [Scalar::Load { access, bounds, .. }] = nest.nodes.as_slice() else { return None };
    if !bounds.is_empty() || access.index.len() != nest.store.index.len() || access.buffer == nest.store.buffer {
        return None;
    }
    let distance = |(to, from): (&Dim, &Dim)| (to.clone() - from).as_const();
    let distance: Option<Vec<i64>> = nest.store.index.iter().zip(&access.index).map(distance).collect();
    let forward = distance?;
    forward.iter().all(|d| *d >= 0).then_some((access.buffer, nest.store.buffer, forward))
}

/// Both own their memory, nothing else looks into the part, and elements that were neighbours stay neighbours.
fn may_embed(program: &Program, from: BufferId, to: BufferId) -> bool {
    let (part, whole) = (program.buffer(from), program.buffer(to));
    let owns = |id: BufferId| program.buffer(id).layout.storage == id;
    let viewed = program.buffers.iter().filter(|b| b.layout.storage == from).count() > 1;
    let target = matches!(whole.role, Role::Temporary | Role::Output(_));
    let neighbours = part.layout.strides.iter().zip(&whole.layout.strides).zip(&part.dims);
    let contiguous = neighbours.into_iter().all(|((a, b), dim)| dim.is(1) || a.is(1) == b.is(1));
    part.role == Role::Temporary
        && target
        && owns(from)
        && owns(to)
        && !viewed
        && contiguous
        && part.element == whole.element
}
