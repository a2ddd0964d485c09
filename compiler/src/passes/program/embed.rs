//! Parts of a concatenation are computed where they end up: the copies into it disappear.

use super::blocks::{Outside, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim, Interval, Variable, product};
use crate::options::Options;
use crate::program::nest::{Nest, Scalar};
use crate::program::{BufferId, Layout, Program, Role, Step, StepKind};
use std::collections::BTreeMap;

/// Copies of one buffer: into which one, how far, how many elements, and which step makes them.
struct Copied {
    to: BufferId,
    distance: Vec<i64>,
    points: Dim,
    step: usize,
}

/// A temporary all elements of which are copied, at one distance, into another buffer becomes a view into that buffer.
/// Its readers read it there (YOLOv8's C2f adds one part to the next), its producer writes it there.
pub fn embed_parts(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    let fixed = program.fixed_layouts();
    for_each_block(program, &mut |program, steps, outside| embed_block(program, steps, outside, &fixed));
}

fn embed_block(program: &mut Program, mut steps: Vec<Step>, outside: &Outside, fixed: &[bool]) -> Vec<Step> {
    let mut copied: BTreeMap<BufferId, Vec<Copied>> = BTreeMap::new();
    for (step, nest) in nests(&steps) {
        if let Some((from, to, distance)) = shifted_copy(nest) {
            let points = product(&nest.axes.iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>());
            copied.entry(from).or_default().push(Copied { to, distance, points, step });
        }
    }
    let readers = Readers::new(program, &steps);
    for (from, copies) in copied {
        let Some(Copied { to, distance, .. }) = copies.first() else { continue };
        let one_target = copies.iter().all(|copy| copy.to == *to && copy.distance == *distance);
        let points = copies.iter().fold(Dim::constant(0), |sum, copy| sum + &copy.points);
        let last = copies.iter().map(|copy| copy.step).max().unwrap_or(0);
        if one_target
            && !fixed[from.0 as usize]
            && !outside.sees(program, from)
            && points == program.buffer(from).len()
            && may_embed(program, from, *to)
            && !readers.between(program, from, *to, last)
            && !readers.sizes_change(program, from, *to, last)
        {
            let index: Vec<Dim> = distance.iter().map(|d| Dim::constant(*d)).collect();
            let offset = program.address(*to, &index);
            let target = &program.buffer(*to).layout;
            let layout = Layout { storage: target.storage, offset, strides: target.strides.clone() };
            program.buffer_mut(from).layout = layout;
        }
    }
    for step in &mut steps {
        if let StepKind::Nest(nest) = &mut step.kind {
            narrow_store(program, nest);
        }
    }
    let is_identity = |step: &Step| match &step.kind {
        StepKind::Nest(nest) => copies_onto_itself(program, nest),
        _ => false,
    };
    steps.into_iter().filter(|step| !is_identity(step)).collect()
}

fn nests(steps: &[Step]) -> impl Iterator<Item = (usize, &Nest)> {
    steps.iter().enumerate().filter_map(|(i, step)| match &step.kind {
        StepKind::Nest(nest) => Some((i, nest)),
        _ => None,
    })
}

/// Which steps of a block look into which memory, before anything is embedded.
struct Readers {
    /// By storage.
    reads: BTreeMap<BufferId, Vec<usize>>,
    /// First step that writes a storage.
    first_write: BTreeMap<BufferId, usize>,
    /// Run-time sizes that steps set.
    sets: Vec<(usize, Variable)>,
}

impl Readers {
    fn new(program: &Program, steps: &[Step]) -> Self {
        let mut readers = Readers { reads: BTreeMap::new(), first_write: BTreeMap::new(), sets: Vec::new() };
        for (i, step) in steps.iter().enumerate() {
            readers.sets.extend(step.sets().into_iter().map(|variable| (i, variable)));
            let (reads, writes) = step.accesses();
            for buffer in reads {
                readers.reads.entry(program.buffer(buffer).layout.storage).or_default().push(i);
            }
            for buffer in writes {
                readers.first_write.entry(program.buffer(buffer).layout.storage).or_insert(i);
            }
        }
        readers
    }

    /// Whether a step reads what `to` held before, when elements of `from` already lie there: from the step that first
    /// writes them to the one that copies them.
    fn between(&self, program: &Program, from: BufferId, to: BufferId, last: usize) -> bool {
        let (from, to) = (program.buffer(from).layout.storage, program.buffer(to).layout.storage);
        let first = self.first_write.get(&from).copied().unwrap_or(0);
        self.reads.get(&to).is_some_and(|steps| steps.iter().any(|step| (first..=last).contains(step)))
    }

    /// Whether it is found in the same time where elements of `to` lie.
    fn sizes_change(&self, program: &Program, from: BufferId, to: BufferId, last: usize) -> bool {
        let first = self.first_write.get(&program.buffer(from).layout.storage).copied().unwrap_or(0);
        let inside = self.sets.iter().filter(|(step, _)| (first..=last).contains(step));
        let sizes: Vec<Variable> = inside.map(|(_, variable)| *variable).collect();
        let layout = &program.buffer(to).layout;
        layout.strides.iter().chain([&layout.offset]).any(|dim| dim.uses_any(&sizes))
    }
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
