//! Parts of a concatenation are computed where they end up: the copies into it disappear.

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim, Interval, Variable, product};
use crate::options::Options;
use crate::program::nest::{Nest, Scalar};
use crate::program::recognise::{self, FEWEST_COLUMNS, run_of_columns};
use crate::program::{BufferId, Layout, Program, Role, Step, StepKind, shape_of};
use std::collections::{BTreeMap, BTreeSet};

/// Copies of a buffer into another one: how far, how many elements, and the last step that makes them.
struct Copied {
    from: BufferId,
    to: BufferId,
    distance: Vec<i64>,
    points: Dim,
    last: usize,
    steps: usize,
}

/// A temporary all elements of which are copied, at one distance, into another buffer becomes a view into that buffer.
/// Its readers read it there (YOLOv8's C2f adds one part to the next), its producer writes it there. A buffer all of which is
/// then copied from one place, in one form, is a view of that place (each layer of DenseNet reads all before it).
pub fn embed_parts(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    let fixed = program.fixed_layouts();
    for_each_block(program, &mut |program, steps, outside| embed_block(program, steps, outside, &fixed));
}

fn embed_block(program: &mut Program, mut steps: Vec<Step>, outside: &Outside, fixed: &[bool]) -> Vec<Step> {
    let copied = copies(&steps);
    if copied.is_empty() {
        return steps;
    }
    let before = Before::new(program, &steps);
    let free = |program: &Program, id: BufferId| !fixed[id.0 as usize] && !outside.sees(program, id);
    let scattered = scattered(program, &copied, &before, &steps);
    embed(program, &copied, &before, &|program, id| free(program, id) && !scattered.contains(&id));
    share(program, &copied, &before, &free);
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

/// Whether nothing but the steps of the block needs a buffer where it is.
type Free<'a> = dyn Fn(&Program, BufferId) -> bool + 'a;

/// What is copied whole lies in its target.
fn embed(program: &mut Program, copied: &[Copied], before: &Before, free: &Free) {
    let mut embedded: BTreeMap<BufferId, BufferId> = BTreeMap::new();
    // Backwards: what is copied on lies in its own target before parts are put into it, and of several targets the last one,
    // which mostly has more parts than the others, gets them.
    for copy in copied.iter().rev() {
        let mut targets = std::iter::successors(Some(copy.to), |to| embedded.get(to).copied());
        if copy.points == program.buffer(copy.from).len()
            && !embedded.contains_key(&copy.from)
            && free(program, copy.from)
            && may_embed(program, copy.from, copy.to)
            && targets.all(|to| before.allows(program, copy, to))
        {
            let index: Vec<Dim> = copy.distance.iter().map(|d| Dim::constant(*d)).collect();
            let offset = program.address(copy.to, &index);
            let target = &program.buffer(copy.to).layout;
            let layout = Layout { storage: target.storage, offset, strides: target.strides.clone() };
            program.buffer_mut(copy.from).layout = layout;
            embedded.insert(copy.from, copy.to);
        }
    }
}

/// Results of products whose columns follow each other where they are, and would lie apart where they are copied: a copy takes
/// less than a product without a kernel.
fn scattered(program: &Program, copied: &[Copied], before: &Before, steps: &[Step]) -> BTreeSet<BufferId> {
    let scatters = |copy: &&Copied| {
        before.writers(copy.from).iter().any(|at| {
            let Some(StepKind::Nest(nest)) = steps.get(*at).map(|step| &step.kind) else { return false };
            let Some(product) = recognise::product(program, nest) else { return false };
            let run = |nest: &Nest| run_of_columns(program, nest, &product.parts).0.range().min;
            let mut moved = nest.clone();
            moved.store.buffer = copy.to;
            run(nest) >= FEWEST_COLUMNS && run(&moved) < FEWEST_COLUMNS
        })
    };
    copied.iter().filter(scatters).map(|copy| copy.from).collect()
}

/// What was copied together from parts that now lie together is a view of them.
fn share(program: &mut Program, copied: &[Copied], before: &Before, free: &Free) {
    let mut parts: BTreeMap<BufferId, Vec<&Copied>> = BTreeMap::new();
    copied.iter().for_each(|copy| parts.entry(copy.to).or_default().push(copy));
    for (whole, parts) in parts {
        if free(program, whole)
            && may_be_view(program, whole)
            && before.has_only(whole, &parts)
            && let Some(layout) = common_place(program, whole, &parts)
        {
            program.buffer_mut(whole).layout = layout;
        }
    }
}

/// All copies, those between the same buffers at the same distance as one, in order of their last steps.
fn copies(steps: &[Step]) -> Vec<Copied> {
    let mut found: BTreeMap<(BufferId, BufferId, Vec<i64>), Copied> = BTreeMap::new();
    for (last, step) in steps.iter().enumerate() {
        let StepKind::Nest(nest) = &step.kind else { continue };
        let Some((from, to, distance)) = shifted_copy(nest) else { continue };
        let points = product(&nest.axes.iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>());
        let copy = found.entry((from, to, distance.clone()));
        let copy = copy.or_insert(Copied { from, to, distance, points: Dim::constant(0), last, steps: 0 });
        (copy.points, copy.last, copy.steps) = (copy.points.clone() + &points, last, copy.steps + 1);
    }
    let mut found: Vec<Copied> = found.into_values().collect();
    found.sort_by_key(|copy| copy.last);
    found
}

/// Which steps of a block use which memory before anything is embedded.
struct Before {
    users: Users,
    /// Which memory every buffer was in.
    storages: Vec<BufferId>,
    /// Run-time sizes that steps set.
    sets: Vec<(usize, Variable)>,
}

impl Before {
    fn new(program: &Program, steps: &[Step]) -> Self {
        let sets = steps.iter().enumerate();
        let sets = sets.flat_map(|(i, step)| step.sets().into_iter().map(move |variable| (i, variable)));
        Before {
            users: Users::of(program, steps.iter().enumerate()),
            storages: program.buffers.iter().map(|buffer| buffer.layout.storage).collect(),
            sets: sets.collect(),
        }
    }

    fn readers(&self, buffer: BufferId) -> &[usize] {
        self.storages.get(buffer.0 as usize).map_or(&[], |storage| self.users.readers(*storage))
    }

    fn writers(&self, buffer: BufferId) -> &[usize] {
        self.storages.get(buffer.0 as usize).map_or(&[], |storage| self.users.writers(*storage))
    }

    /// From the step that first writes the copied buffer to the one that copies it, no step reads what `to` held before, or
    /// finds where elements of `to` lie. Nothing is written afterwards that its copy would not see.
    fn allows(&self, program: &Program, copy: &Copied, to: BufferId) -> bool {
        let held = self.writers(copy.from).first().copied().unwrap_or(0)..=copy.last;
        let sizes: Vec<Variable> =
            self.sets.iter().filter(|(step, _)| held.contains(step)).map(|(_, variable)| *variable).collect();
        let layout = &program.buffer(to).layout;
        self.is_done(copy)
            && !self.readers(to).iter().any(|step| held.contains(step))
            && !layout.strides.iter().chain([&layout.offset]).any(|dim| dim.uses_any(&sizes))
    }

    /// Whether nothing is written to the copied buffer when it has been copied.
    fn is_done(&self, copy: &Copied) -> bool {
        self.writers(copy.from).last().is_none_or(|step| *step < copy.last)
    }

    /// Whether a buffer holds copies of its parts only, as they stay.
    fn has_only(&self, whole: BufferId, parts: &[&Copied]) -> bool {
        let copies: usize = parts.iter().map(|part| part.steps).sum();
        self.writers(whole).len() == copies && parts.iter().all(|part| self.is_done(part))
    }
}

/// Where a buffer lies if its parts lie, as in it, in one other buffer.
fn common_place(program: &Program, whole: BufferId, parts: &[&Copied]) -> Option<Layout> {
    let place = |part: &&Copied| {
        let layout = program.buffer(part.from).layout.clone();
        let before = layout.strides.iter().zip(&part.distance).map(|(stride, distance)| stride.clone() * *distance);
        let offset = before.fold(layout.offset.clone(), |offset, before| offset - &before);
        Layout { offset, ..layout }
    };
    let points = parts.iter().fold(Dim::constant(0), |sum, part| sum + &part.points);
    let first = parts.first().map(place)?;
    let (target, owner) = (program.buffer(whole), program.buffer(first.storage));
    let elsewhere = first.storage != whole && parts.iter().all(|part| part.from != first.storage);
    let fits = elsewhere
        && matches!(owner.role, Role::Temporary | Role::Output(_))
        && owner.element == target.element
        && stay_neighbours(&target.layout, &first, &target.dims)
        && points == target.len()
        && parts.iter().all(|part| place(part) == first);
    fits.then_some(first)
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

/// Whether a buffer is a temporary in memory of its own, into which nothing else looks.
pub(super) fn may_be_view(program: &Program, id: BufferId) -> bool {
    let names = program.buffers.iter().filter(|buffer| buffer.layout.storage == id).count();
    program.buffer(id).role == Role::Temporary && program.buffer(id).layout.storage == id && names == 1
}

/// Whether elements that are neighbours in one layout are neighbours in the other one.
fn stay_neighbours(a: &Layout, b: &Layout, dims: &[Dim]) -> bool {
    let mut strides = a.strides.iter().zip(&b.strides).zip(dims);
    strides.all(|((a, b), dim)| dim.is(1) || a.is(1) == b.is(1))
}

/// Whether steps can borrow just these elements: what lies at several distances would take its surroundings along, in which
/// other parts are written.
fn can_be_borrowed(layout: &Layout, dims: &[Dim]) -> bool {
    let known = dims.iter().chain(&layout.strides).all(|dim| dim.as_usize().is_some());
    !known || shape_of(dims, &layout.strides).is_some()
}

/// Nothing else looks into the part, and elements that were neighbours stay neighbours.
fn may_embed(program: &Program, from: BufferId, to: BufferId) -> bool {
    let (part, whole) = (program.buffer(from), program.buffer(to));
    let target = program.buffer(whole.layout.storage);
    may_be_view(program, from)
        && matches!(target.role, Role::Temporary | Role::Output(_))
        && stay_neighbours(&part.layout, &whole.layout, &part.dims)
        && can_be_borrowed(&whole.layout, &part.dims)
        && part.element == whole.element
        && whole.layout.storage != from
}
