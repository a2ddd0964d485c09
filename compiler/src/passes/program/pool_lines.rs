//! Pooling of planes whose lines lie as an input gives them and an output wants them: kernels run along lines then, where an order
//! by channels would take two copies.

use crate::dim::{Atom, Dim};
use crate::program::kernel::{Divisor, WindowOp};
use crate::program::nest::{Binary, Bound, Const, Nest, Scalar};
use crate::program::recognise::Window;
use crate::program::{BufferId, Program, Role};

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
/// Outputs whose elements are counted, at most.
const MOST_COUNTED: i64 = 64 * 1024;

/// Whether such a kernel takes a pooling window from an input straight to an output.
pub(super) fn takes(program: &Program, nest: &Nest, window: &Window) -> bool {
    let Some(Scalar::Load { access, .. }) = nest.nodes.get(window.data as usize) else { return false };
    let role = |buffer: BufferId| &program.buffer(buffer).role;
    let between = matches!((role(access.buffer), role(nest.store.buffer)), (Role::Input(_), Role::Output(_)));
    let long = nest.maps.checked_sub(1).is_some_and(|line| nest.axes[line].extent.range().min >= LEAST_OF_MANY);
    between && long && operation(nest, window).is_some()
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
    let several = |axes: &[crate::program::nest::Axis]| axes.iter().filter(|axis| !axis.extent.is(1)).count() <= AXES;
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
        Scalar::Const(Const::F32(count)) if *count >= 1.0 && *count == count.trunc() => Divisor::Fixed(*count as u32),
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
    let mut visit = |atom: &Atom| known &= !matches!(atom, Atom::Variable(_) | Atom::Scalar(_));
    size.for_each_atom(&mut visit);
    bounds.iter().for_each(|bound| bound.value.for_each_atom(&mut visit));
    let used = |axis: &usize| size.uses_axis(*axis) || bounds.iter().any(|bound| bound.value.uses_axis(*axis));
    let maps: Vec<usize> = (0..nest.maps).filter(used).collect();
    let extent = |axis: &usize| nest.axes[*axis].extent.as_const();
    let outputs = maps.iter().map(extent).try_fold(1, |n: i64, m| n.checked_mul(m?)).filter(|n| *n <= MOST_COUNTED)?;
    let taps: Vec<usize> = (nest.maps..nest.axes.len()).collect();
    // Each tap axis has one bound, or none.
    let bound = |tap: usize| bounds.iter().filter(move |bound| bound.value.uses_axis(tap));
    known &= taps.iter().all(|tap| bound(*tap).count() <= 1) && !taps.iter().any(|tap| size.uses_axis(*tap));
    known &= bounds.iter().all(|own| taps.iter().filter(|tap| own.value.uses_axis(**tap)).count() == 1);
    if !known {
        return Some(false);
    }
    for output in 0..outputs {
        let mut rest = output;
        let mut at = vec![0; nest.axes.len()];
        for axis in maps.iter().rev() {
            (at[*axis], rest) = (rest % extent(axis)?, rest / extent(axis)?);
        }
        let mut count = 1i64;
        for tap in &taps {
            let inside = match bound(*tap).next() {
                None => extent(tap)?,
                Some(bound) => {
                    let limit = bound.limit.as_const()?;
                    let value = |t: i64| bound.value.evaluate(&|atom| leaf(atom, &at, Some((*tap, t))));
                    (0..extent(tap)?).filter(|t| (0..limit).contains(&value(*t))).count() as i64
                }
            };
            count = count.checked_mul(inside)?;
        }
        if size.evaluate(&|atom| leaf(atom, &at, None)) != count.max(1) {
            return Some(false);
        }
    }
    Some(true)
}

/// The index along an axis.
fn leaf(atom: &Atom, at: &[i64], tap: Option<(usize, i64)>) -> i64 {
    let Atom::Axis(axis) = atom else { return 0 };
    match tap {
        Some((tap, index)) if tap == *axis as usize => index,
        _ => at.get(*axis as usize).copied().unwrap_or(0),
    }
}
