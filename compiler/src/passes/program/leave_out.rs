//! Results of which only every second element along a dimension is read, or every third: what nobody reads is not computed. So
//! it is before strided convolutions of 1x1 and slices with steps.

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::{Kernels, Options};
use crate::program::edit::move_axes;
use crate::program::nest::{Nest, Scalar};
use crate::program::{BufferId, Program, Role, Step, StepKind};

/// Loops over so few elements are unrolled, and then elements at a distance are loaded one by one.
const SHORT: i64 = 48;

/// Leaves out what nobody reads.
pub fn leave_out(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if options.kernels == Kernels::Reference {
        return;
    }
    for_each_block(program, &mut |program, mut steps, outside| {
        let users = Users::of(program, steps.iter().enumerate());
        // Readers come first: what they leave out, their operands need not have.
        for writer in (0..steps.len()).rev() {
            let block = Block { users: &users, outside, steps: &steps, writer };
            let Some((buffer, reads)) = block.partly_read(program) else { continue };
            let (readers, part) = (users.readers(buffer), part(program, buffer, &reads));
            for at in readers.iter().chain([&writer]) {
                let Some(nest) = nest_mut(&mut steps, *at) else { continue };
                if *at == writer {
                    reads.iter().for_each(|read| read.narrow(nest));
                } else {
                    count(nest, buffer, &reads);
                }
                nest.rename_buffers(&|old| if old == buffer { part } else { old });
            }
        }
        steps
    });
}

/// A step of a block, and what is known of the others.
struct Block<'a> {
    users: &'a Users,
    outside: &'a Outside,
    steps: &'a [Step],
    writer: usize,
}

/// Which elements along a dimension are read: `step * i + first` for i below `count`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Read {
    dim: usize,
    step: i64,
    first: i64,
    count: i64,
}

impl Block<'_> {
    /// The result of a nest of which only some elements are read, and which, by dimension.
    fn partly_read(&self, program: &Program) -> Option<(BufferId, Vec<Read>)> {
        let writer = nest(self.steps.get(self.writer)?)?;
        let id = writer.store.buffer;
        let buffer = program.buffer(id);
        let alone = buffer.layout.storage == id && self.users.writers(id) == [self.writer];
        if !alone || buffer.role != Role::Temporary || self.outside.sees(program, id) {
            return None;
        }
        let behind = |at: &usize| self.steps.get(*at).filter(|_| *at > self.writer);
        let readers = self.users.readers(id).iter().map(|at| nest(behind(at)?));
        let readers: Vec<&Nest> = readers.collect::<Option<_>>()?;
        let reads = (0..buffer.dims.len()).filter_map(|dim| {
            let all = readers.iter().flat_map(|nest| loads(nest, id).map(|load| read(nest, load, dim)));
            let read = all.reduce(|a, b| common(a?, b?)).flatten()?;
            let len = buffer.dims.get(dim)?.as_const()?;
            let last = read.count.checked_sub(1)?.checked_mul(read.step)?.checked_add(read.first)?;
            (last >= 0 && last < len && gains(program, writer, read)).then_some(read)
        });
        let reads: Vec<Read> = reads.collect();
        let views = || program.buffers.iter().filter(|other| other.layout.storage == id).count() > 1;
        (!reads.is_empty() && !views()).then_some((id, reads))
    }
}

fn nest(step: &Step) -> Option<&Nest> {
    match &step.kind {
        StepKind::Nest(nest) => Some(nest),
        _ => None,
    }
}

/// The loads of a buffer.
fn loads(nest: &Nest, buffer: BufferId) -> impl Iterator<Item = &Scalar> {
    nest.nodes.iter().filter(move |node| matches!(node, Scalar::Load { access, .. } if access.buffer == buffer))
}

/// What a load reads along a dimension, if not all of it or any.
fn read(nest: &Nest, load: &Scalar, dim: usize) -> Option<Read> {
    let Scalar::Load { access, bounds, .. } = load else { return None };
    let index = access.index.get(dim)?;
    let axis = (0..nest.axes.len()).find(|axis| index.uses_axis(*axis))?;
    let (step, first, count) =
        (index.coefficient(axis)?, index.without(axis).as_const()?, nest.axes[axis].extent.as_const()?);
    let exact = *index == Dim::axis(axis) * step + first;
    let bounded = bounds.iter().any(|bound| bound.value.uses_axis(axis) || bound.limit.uses_axis(axis));
    (exact && !bounded && step > 1 && (0..step).contains(&first)).then_some(Read { dim, step, first, count })
}

/// What two loads read, if it is the same but for how far they read.
fn common(a: Read, b: Read) -> Option<Read> {
    let count = a.count.max(b.count);
    (Read { count, ..a } == Read { count, ..b }).then_some(Read { count, ..a })
}

/// Whether a nest stores all of a dimension along an axis of its own, and loses nothing if its operands, instead of its readers',
/// are read at a distance there: functions of several of them do, and those of short rows.
fn gains(program: &Program, nest: &Nest, read: Read) -> bool {
    let dims = &program.buffer(nest.store.buffer).dims;
    let Some(axis) = nest.store.index.get(read.dim).and_then(|index| own_axis(nest, index)) else { return false };
    let elsewhere = nest.store.index.iter().filter(|index| index.uses_axis(axis)).count() > 1;
    let counted = nest.axes.iter().any(|other| other.extent.uses_axis(axis));
    let mut operands = nest.loads().filter(|access| access.index.iter().any(|index| index.uses_axis(axis)));
    let (first, alone) = (operands.next(), operands.next().is_none());
    // Others have their channels last, as a rule.
    let input = first.is_some_and(|access| matches!(program.buffer(access.buffer).role, Role::Input(_)));
    let short = read.dim + 1 == dims.len() && read.count <= SHORT && input;
    let whole = dims.get(read.dim).is_some_and(|len| *len == nest.axes[axis].extent);
    (nest.reduction.is_some() || alone && !short) && whole && !elsewhere && !counted
}

fn own_axis(nest: &Nest, index: &Dim) -> Option<usize> {
    (0..nest.maps).find(|axis| *index == Dim::axis(*axis))
}

/// A buffer for what is read of another.
fn part(program: &mut Program, buffer: BufferId, reads: &[Read]) -> BufferId {
    let whole = program.buffer(buffer).clone();
    let mut dims = whole.dims;
    for read in reads {
        dims[read.dim] = Dim::constant(read.count);
    }
    program.add_buffer(&whole.name, whole.element, dims, Role::Temporary)
}

fn nest_mut(steps: &mut [Step], at: usize) -> Option<&mut Nest> {
    match &mut steps.get_mut(at)?.kind {
        StepKind::Nest(nest) => Some(nest),
        _ => None,
    }
}

/// Makes a nest read what is read of a buffer one element after the other.
fn count(nest: &mut Nest, buffer: BufferId, reads: &[Read]) {
    let axes = nest.axes.len();
    for node in &mut nest.nodes {
        let Scalar::Load { access, .. } = node else { continue };
        for index in reads.iter().filter(|_| access.buffer == buffer).map(|read| read.dim) {
            if let Some(axis) = (0..axes).find(|axis| access.index[index].uses_axis(*axis)) {
                access.index[index] = Dim::axis(axis);
            }
        }
    }
}

impl Read {
    /// Makes a nest compute what is read.
    fn narrow(&self, nest: &mut Nest) {
        let Some(axis) = own_axis(nest, &nest.store.index[self.dim]) else { return };
        move_axes(nest, &|old| if old == axis { Dim::axis(old) * self.step + self.first } else { Dim::axis(old) });
        nest.axes[axis].extent = Dim::constant(self.count);
        nest.store.index[self.dim] = Dim::axis(axis);
    }
}
