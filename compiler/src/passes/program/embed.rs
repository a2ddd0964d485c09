//! Parts of a concatenation are computed where they end up: the copies into it disappear.

use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
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
    for (from, copies) in copied {
        let Some((to, distance, _)) = copies.first().cloned() else { continue };
        let one_target = copies.iter().all(|(other, d, _)| *other == to && *d == distance);
        let points = copies.iter().fold(Dim::constant(0), |sum, (_, _, points)| sum + points);
        if one_target && points == program.buffer(from).len() && may_embed(program, from, to) {
            let index: Vec<Dim> = distance.iter().map(|d| Dim::constant(*d)).collect();
            let offset = program.address(to, &index);
            let target = &program.buffer(to).layout;
            let layout = Layout { storage: target.storage, offset, strides: target.strides.clone() };
            program.buffer_mut(from).layout = layout;
        }
    }
    let steps = std::mem::take(&mut program.root.steps);
    let is_identity = |step: &crate::program::Step| match &step.kind {
        StepKind::Nest(nest) => shifted_copy(nest).is_some_and(|(from, to, distance)| {
            let index: Vec<Dim> = distance.iter().map(|d| Dim::constant(*d)).collect();
            let (a, b) = (&program.buffer(from).layout, &program.buffer(to).layout);
            a.storage == b.storage && a.strides == b.strides && a.offset == program.address(to, &index)
        }),
        _ => false,
    };
    let kept = steps.into_iter().filter(|step| !is_identity(step)).collect();
    program.root.steps = kept;
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
    part.role == Role::Temporary && target && owns(from) && owns(to) && !viewed && contiguous && part.element == whole.element
}
