//! Pooling of planes whose lines lie as an input gives them and an output wants them: kernels run along lines then, where an order
//! by channels would take two copies.

use crate::dim::{Atom, Dim};
use crate::program::kernel::{Divisor, WindowOp};
use crate::program::nest::{Axis, Binary, Bound, Const, Nest, Scalar};
use crate::program::recognise::Window;
use crate::program::{Program, Role};

/// Outputs of a line, at least, where channels are few, and where a copy by channels is the other choice: of shorter ones, to find
/// their place takes longer.
const LEAST: i64 = 32;
const LEAST_OF_MANY: i64 = 48;
/// Steps between windows, and taps along a line, for which there are kernels.
const STEP: i64 = 2;
const ALONG: i64 = 64;
/// Lines that a window reads, at most.
const ACROSS: i64 = 9;
/// Axes of outputs and of windows, and bounds, that kernels have.
const AXES: usize = 4;
const BOUNDS: usize = 3;
/// Elements of a window by which sums are divided.
const MOST_ELEMENTS: std::ops::RangeInclusive<f32> = 1.0..=65_536.0;
/// Outputs whose elements are counted, at most.
const MOST_COUNTED: i64 = 64 * 1024;

/// Whether such a kernel takes a pooling window from an input straight to an output, of any number of channels.
pub(super) fn takes(program: &Program, nest: &Nest, window: &Window) -> bool {
    let to_output = matches!(program.buffer(nest.store.buffer).role, Role::Output(_));
    let long = nest.maps.checked_sub(1).is_some_and(|line| nest.axes[line].extent.range().min >= LEAST_OF_MANY);
    to_output && long && pads(program, nest, window)
}

/// Whether such a kernel takes a pooling window of an input if that runs along lines, and leaves out what is padding.
pub(super) fn pads(program: &Program, nest: &Nest, window: &Window) -> bool {
    let Some(Scalar::Load { access, .. }) = nest.nodes.get(window.data as usize) else { return false };
    matches!(program.buffer(access.buffer).role, Role::Input(_)) && operation(nest, window).is_some()
}

/// The operation of such a window, if it has the form: lines along the last axes, in steps that kernels take.
pub(super) fn operation(nest: &Nest, window: &Window) -> Option<WindowOp> {
    let Scalar::Load { access, bounds, .. } = nest.nodes.get(window.data as usize)? else { return None };
    let line = nest.maps.checked_sub(1)?;
    let tap = nest.axes.len().checked_sub(1).filter(|tap| *tap > line)?;
    let (index, extent) = (access.index.last()?, |axis: usize| nest.axes[axis].extent.as_const());
    let along = index.coefficient(tap) == Some(1) && (1..=STEP).contains(&index.coefficient(line)?);
    let long = extent(line)? >= LEAST && extent(tap)? <= ALONG && nest.store.index.last()?.counts(line);
    let alone = |dim: &Dim| !dim.uses_axis(line) && !dim.uses_axis(tap);
    let others = access.index.split_last().is_some_and(|(_, others)| others.iter().all(alone));
    let stored = nest.store.index.split_last().is_some_and(|(_, others)| others.iter().all(alone));
    let bounded = bounds.iter().all(|bound| bound.value == *index || alone(&bound.value));
    let several = |axes: &[Axis]| axes.iter().filter(|axis| !axis.extent.is(1)).count() <= AXES;
    let (maps, taps) = nest.axes.split_at(nest.maps);
    let across = taps.iter().rev().skip(1).map(|tap| tap.extent.as_const()).try_fold(1i64, |n, m| n.checked_mul(m?))?;
    let few = several(maps) && several(taps) && bounds.len() <= BOUNDS && across <= ACROSS;
    let form = window.weights.is_none() && along && long && others && stored && bounded && few;
    form.then(|| divided(nest, window, bounds)).flatten()
}

/// The operation with what follows it, if that is nothing but a divisor.
fn divided(nest: &Nest, window: &Window, bounds: &[Bound]) -> Option<WindowOp> {
    let node = |node: u32| nest.nodes.get(node as usize);
    let (sum, divisor) = match node(nest.result)? {
        Scalar::Reduced => return Some(window.op),
        Scalar::Binary(Binary::Div, sum, divisor) if window.op == WindowOp::Sum => (*sum, *divisor),
        _ => return None,
    };
    let divisor = match node(divisor)? {
        Scalar::Const(Const::F32(count)) if MOST_ELEMENTS.contains(count) && *count == count.trunc() => {
            Divisor::Fixed(*count as u32)
        }
        Scalar::Cast(_, count) => match node(*count)? {
            Scalar::Index(count) if counts(nest, bounds, count)? => Divisor::InBounds,
            _ => return None,
        },
        _ => return None,
    };
    matches!(node(sum)?, Scalar::Reduced).then_some(WindowOp::Mean(divisor))
}

/// Whether a size is, for every output, the number of the window's elements inside bounds, or 1.
fn counts(nest: &Nest, bounds: &[Bound], size: &Dim) -> Option<bool> {
    let mut known = true;
    size.for_each_atom(&mut |atom| known &= !matches!(atom, Atom::Variable(_) | Atom::Scalar(_)));
    let extent = |axis: usize| nest.axes[axis].extent.as_const();
    let taps: Vec<Inside> =
        (nest.maps..nest.axes.len()).map(|tap| Inside::of(nest, bounds, tap)).collect::<Option<_>>()?;
    let used = |axis: &usize| size.uses_axis(*axis) || taps.iter().any(|inside| inside.axis == Some(*axis));
    let maps: Vec<usize> = (0..nest.maps).filter(used).collect();
    let outputs = maps.iter().map(|axis| extent(*axis)).try_fold(1, |n: i64, m| n.checked_mul(m?))?;
    if !known || outputs > MOST_COUNTED || (nest.maps..nest.axes.len()).any(|tap| size.uses_axis(tap)) {
        return Some(false);
    }
    let mut at = vec![0; nest.axes.len()];
    for output in 0..outputs {
        let mut rest = output;
        for axis in maps.iter().rev() {
            (at[*axis], rest) = (rest % extent(*axis)?, rest / extent(*axis)?);
        }
        let count = taps.iter().try_fold(1, |n: i64, inside| n.checked_mul(inside.count(&at)?))?;
        if size.evaluate(&|atom| leaf(atom, &at)) != count.max(1) {
            return Some(false);
        }
    }
    Some(true)
}

/// How many taps of an axis are inside its bound, for every index along the axis of outputs that this is about.
struct Inside {
    axis: Option<usize>,
    counts: Vec<i64>,
}

impl Inside {
    /// Of a tap axis, which has one bound or none.
    fn of(nest: &Nest, bounds: &[Bound], tap: usize) -> Option<Self> {
        let taps = nest.axes[tap].extent.as_const()?;
        let mut own = bounds.iter().filter(|bound| bound.value.uses_axis(tap));
        let Some(bound) = own.next() else { return Some(Inside { axis: None, counts: vec![taps] }) };
        let mut axes = (0..nest.axes.len()).filter(|axis| *axis != tap && bound.value.uses_axis(*axis));
        let (axis, limit) = (axes.next().filter(|axis| *axis < nest.maps)?, bound.limit.as_const()?);
        if own.next().is_some() || axes.next().is_some() {
            return None;
        }
        let mut at = vec![0; nest.axes.len()];
        let count = |index: i64| {
            at[axis] = index;
            let inside = |t: i64| {
                at[tap] = t;
                (0..limit).contains(&bound.value.evaluate(&|atom| leaf(atom, &at)))
            };
            (0..taps).map(inside).filter(|inside| *inside).count() as i64
        };
        Some(Inside { axis: Some(axis), counts: (0..nest.axes[axis].extent.as_const()?).map(count).collect() })
    }

    fn count(&self, at: &[i64]) -> Option<i64> {
        let index = self.axis.and_then(|axis| at.get(axis).copied()).unwrap_or(0);
        self.counts.get(usize::try_from(index).ok()?).copied()
    }
}

/// The index along an axis.
fn leaf(atom: &Atom, at: &[i64]) -> i64 {
    let Atom::Axis(axis) = atom else { return 0 };
    at.get(*axis as usize).copied().unwrap_or(0)
}
