//! Batches whose intermediate results no near cache holds are computed some images at a time: a loop around the steps that
//! hand them on, with memory for these images.

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::edit::move_axes;
use crate::program::nest::{Access, Nest, Node, Scalar};
use crate::program::{Block, BufferId, Layout, Loop, Program, Role, Step, StepKind, recognise};
use std::ops::Range;

/// Elements of a whole batch from which a result that is handed on is worth a loop: twice the second-level cache.
const LEAST: i64 = 512 * 1024;
/// Elements that such a result has in one iteration, at most, unless an image has more: the second-level cache. Threads divide
/// steps of fewer images less well.
const CHUNK: i64 = 256 * 1024;
/// Elements that such a result has of one image, at least: kernels in chains take smaller ones some at a time themselves.
const IMAGE: i64 = 64 * 1024;
/// Constants of a step, in elements, that are read again in every iteration at no cost; others may be half of what an image
/// has.
const CONSTANTS: i64 = 64 * 1024;

/// Makes such loops.
pub fn loop_over_images(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, there are no caches.
    if !options.has_vector_kernels() {
        return;
    }
    for_each_block(program, &mut |program, steps, outside| {
        let users = Users::of(program, steps.iter().enumerate());
        let mut out = Vec::with_capacity(steps.len());
        let mut run = Run::default();
        for (i, step) in steps.into_iter().enumerate() {
            let images = images_of(program, &step);
            if images != Some(run.images) || run.shares(program, &step) {
                run.close(program, &users, outside, &mut out);
                run = Run { images: images.unwrap_or(0), start: i, steps: Vec::new() };
            }
            match images {
                Some(_) => run.steps.push(step),
                None => out.push(step),
            }
        }
        run.close(program, &users, outside, &mut out);
        out
    });
}

/// How many images a step computes, each from what belongs to it alone, with few constants.
fn images_of(program: &Program, step: &Step) -> Option<i64> {
    let StepKind::Nest(nest) = &step.kind else { return None };
    let axis = image_axis(nest)?;
    let images = nest.axes.get(axis)?.extent.as_const().filter(|images| *images > 1)?;
    let whole = |access: &Access| program.buffer(access.buffer).dims.first().is_some_and(|dim| dim.is(images));
    let mut apart = nest.is_direct() && whole(&nest.store) && is_of_image(&nest.store, axis);
    let mut constants = 0i64;
    for node in &nest.nodes {
        let Scalar::Load { access, bounds, .. } = node else {
            node.for_each_dim(&mut |dim| apart &= !dim.uses_axis(axis));
            continue;
        };
        apart &= !uses(access, axis) || whole(access) && is_of_image(access, axis);
        apart &= !bounds.iter().any(|bound| bound.value.uses_axis(axis) || bound.limit.uses_axis(axis));
        apart &= uses(access, axis) || access.buffer != nest.store.buffer;
        let buffer = program.buffer(access.buffer);
        if buffer.constant().is_some() {
            // Kernels want constants at known places.
            apart &= !uses(access, axis);
            constants = constants.saturating_add(buffer.len().as_const()?);
        }
    }
    // Attention never writes its products out.
    apart &= recognise::product(program, nest).is_none_or(|product| is_constant(program, nest, product.weights));
    let image = program.buffer(nest.store.buffer).len().as_const()? / images;
    (apart && constants <= CONSTANTS.max(image / 2)).then_some(images)
}

fn is_constant(program: &Program, nest: &Nest, node: Node) -> bool {
    match nest.nodes.get(node as usize) {
        Some(Scalar::Load { access, .. }) => program.buffer(access.buffer).constant().is_some(),
        _ => false,
    }
}

/// The map axis that counts the slowest dimension of the result.
fn image_axis(nest: &Nest) -> Option<usize> {
    let first = nest.store.index.first()?;
    (0..nest.maps).find(|axis| *first == Dim::axis(*axis))
}

fn store_of(step: &Step) -> Option<BufferId> {
    match &step.kind {
        StepKind::Nest(nest) => Some(nest.store.buffer),
        _ => None,
    }
}

/// The buffers of which every image reads the same elements.
fn read_whole(step: &Step) -> impl Iterator<Item = BufferId> {
    let nest = if let StepKind::Nest(nest) = &step.kind { Some(nest) } else { None };
    let found = nest.and_then(|nest| Some((nest, image_axis(nest)?)));
    found.into_iter().flat_map(|(nest, axis)| nest.loads().filter(move |access| !uses(access, axis)).map(|a| a.buffer))
}

fn uses(access: &Access, axis: usize) -> bool {
    access.index.iter().any(|index| index.uses_axis(axis))
}

/// Whether the axis counts the slowest dimension, and nothing else.
fn is_of_image(access: &Access, axis: usize) -> bool {
    let rest = access.index.iter().skip(1).any(|index| index.uses_axis(axis));
    access.index.first() == Some(&Dim::axis(axis)) && !rest
}

/// Steps that follow each other and compute the same number of images.
#[derive(Default)]
struct Run {
    images: i64,
    /// The place of the first one in its block.
    start: usize,
    steps: Vec<Step>,
}

/// Steps of a run that are worth a loop.
struct Handed {
    range: Range<usize>,
    /// What they alone use.
    inner: Vec<BufferId>,
    /// How many images fit.
    chunk: i64,
}

impl Run {
    /// Whether a step reads for every image what the run computes for a certain one, or writes what others of the run read so.
    fn shares(&self, program: &Program, step: &Step) -> bool {
        let storage = |id: BufferId| program.buffer(id).layout.storage;
        let read: Vec<BufferId> = read_whole(step).map(storage).collect();
        let mut written = self.stores(0..self.steps.len()).chain(store_of(step)).map(storage);
        let own = store_of(step).map(storage);
        written.any(|id| read.contains(&id))
            || self.steps.iter().flat_map(read_whole).any(|id| Some(storage(id)) == own)
    }

    /// What the steps of a range write.
    fn stores(&self, range: Range<usize>) -> impl Iterator<Item = BufferId> {
        self.steps.get(range).unwrap_or_default().iter().filter_map(store_of)
    }

    /// Appends the steps. Those from the first to the last that hand on large results become a loop.
    fn close(&mut self, program: &mut Program, users: &Users, outside: &Outside, out: &mut Vec<Step>) {
        let Some(Handed { range, inner, chunk }) = self.worthwhile(program, users, outside) else {
            return out.append(&mut self.steps);
        };
        let after = self.steps.split_off(range.end);
        let body = self.steps.split_off(range.start);
        out.append(&mut self.steps);
        out.push(looped(program, body, &inner, (self.images, chunk)));
        out.extend(after);
    }

    /// Which steps those are, and one behind them, which takes the last result from the cache.
    fn worthwhile(&self, program: &Program, users: &Users, outside: &Outside) -> Option<Handed> {
        let inner = |range: &Range<usize>| -> Vec<BufferId> {
            let within = |step: &usize| range.contains(&step.wrapping_sub(self.start));
            let is_inner = |id: &BufferId| {
                let buffer = program.buffer(*id);
                let views = program.buffers.iter().filter(|buffer| buffer.layout.storage == *id).count();
                let own = buffer.role == Role::Temporary && buffer.layout.storage == *id && views == 1;
                own && !outside.sees(program, *id) && users.readers(*id).iter().chain(users.writers(*id)).all(within)
            };
            let mut inner: Vec<BufferId> = self.stores(range.clone()).filter(is_inner).collect();
            inner.sort_unstable();
            inner.dedup();
            inner
        };
        let elements = |id: &BufferId| program.buffer(*id).len().as_const().unwrap_or(0);
        let large = inner(&(0..self.steps.len())).into_iter().filter(|id| elements(id) >= LEAST);
        let range = large.fold(None, |range: Option<Range<usize>>, id| {
            let first = users.writers(id).first()?.checked_sub(self.start)?;
            let end = users.readers(id).last()?.checked_sub(self.start)? + 1;
            Some(range.map_or(first..end, |range| range.start.min(first)..range.end.max(end)))
        })?;
        let range = range.start..(range.end + 1).min(self.steps.len());
        let inner = inner(&range);
        let image = inner.iter().map(elements).max()? / self.images;
        let fits = |chunk: &i64| self.images % chunk == 0 && chunk.saturating_mul(image) <= CHUNK;
        let chunk = (1..self.images).rev().find(fits).unwrap_or(1);
        (image >= IMAGE).then_some(Handed { range, inner, chunk })
    }
}

/// A loop over the images, `chunk` at a time. The `inner` buffers hold these only.
fn looped(program: &mut Program, mut body: Vec<Step>, inner: &[BufferId], (images, chunk): (i64, i64)) -> Step {
    let iteration = program.add_size("images", 0, images / chunk - 1);
    let first = Dim::variable(iteration) * &Dim::constant(chunk);
    for step in &mut body {
        if let StepKind::Nest(nest) = &mut step.kind {
            take_images(nest, chunk, &|buffer| if inner.contains(&buffer) { Dim::constant(0) } else { first.clone() });
        }
    }
    for id in inner {
        let mut dims = program.buffer(*id).dims.clone();
        dims.iter_mut().take(1).for_each(|dim| *dim = Dim::constant(chunk));
        let buffer = program.buffer_mut(*id);
        buffer.layout = Layout::row_major(*id, &dims);
        buffer.dims = dims;
    }
    let origins = body.iter().flat_map(|step| step.origins.clone()).collect();
    let count = Dim::constant(images / chunk);
    Step { kind: StepKind::Loop(Box::new(Loop::counted(iteration, count, Block { steps: body }))), origins }
}

/// Makes a nest compute so many images only. `first` says where the first one lies in a buffer.
fn take_images(nest: &mut Nest, chunk: i64, first: &dyn Fn(BufferId) -> Dim) {
    let Some(axis) = image_axis(nest) else { return };
    let place = |access: &mut Access| {
        let from = first(access.buffer);
        access.index.iter_mut().take(1).filter(|index| index.uses_axis(axis)).for_each(|index| {
            *index = if chunk == 1 { from.clone() } else { from.clone() + &Dim::axis(axis) };
        });
    };
    nest.nodes.iter_mut().for_each(|node| {
        if let Scalar::Load { access, .. } = node {
            place(access);
        }
    });
    place(&mut nest.store);
    if chunk == 1 {
        move_axes(nest, &|old| Dim::axis(if old > axis { old - 1 } else { old }));
        nest.axes.remove(axis);
        nest.maps -= 1;
    } else if let Some(axis) = nest.axes.get_mut(axis) {
        axis.extent = Dim::constant(chunk);
    }
}
