//! Windows that reach far beyond their data, as dilated ones of small images do: places of the window that see nothing but padding
//! are left out, everywhere or for the lines of which it is true.

use super::blocks::split_nests;
use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim, Interval, floor_div};
use crate::options::{Kernels, Options};
use crate::program::Program;
use crate::program::edit::move_axes;
use crate::program::nest::{Bound, Nest, Node, Scalar};
use crate::program::recognise;

/// Products that are worth steps of their own.
const MANY: i64 = 4 * 1024 * 1024;
/// Lines are divided where no more than so many hundredths of the products remain.
const REMAIN: i64 = 75;
/// Places of a line of a window, at most, where it is divided.
const MOST_TAPS: i64 = 64;
/// How many times the weights may be stored.
const COPIES: i64 = 2;

/// Leaves out such places.
pub fn trim_windows(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if options.kernels == Kernels::Reference {
        return;
    }
    split_nests(program, |program, nest| {
        let data = data_of(program, nest)?;
        let trimmed = trimmed(nest, data);
        let whole = trimmed.as_ref().unwrap_or(nest);
        let mut pieces = match recognise::product(program, whole) {
            Some(_) if options.isa.has_vectors() => pieces(whole, data).unwrap_or_default(),
            _ => Vec::new(),
        };
        let last = pieces.pop().or(trimmed)?;
        Some((pieces, last))
    });
}

/// The load of a product or a window reduction to which padding adds nothing.
fn data_of(program: &Program, nest: &Nest) -> Option<Node> {
    let known = nest.axes.iter().all(|axis| axis.extent.as_const().is_some_and(|extent| extent > 0));
    let product = || recognise::product(program, nest).map(|product| product.data);
    let window = || recognise::window(program, nest).map(|window| window.data);
    product().or_else(window).filter(|_| known)
}

fn bounds_of(nest: &Nest, data: Node) -> &[Bound] {
    match nest.nodes.get(data as usize) {
        Some(Scalar::Load { bounds, .. }) => bounds,
        _ => &[],
    }
}

fn extent(nest: &Nest, axis: usize) -> i64 {
    nest.axes.get(axis).and_then(|axis| axis.extent.as_const()).unwrap_or(1)
}

/// The values of an index where axes have their ranges.
fn range(nest: &Nest, index: &Dim) -> Interval {
    index.range_with(&|atom| match atom {
        Atom::Axis(axis) => Interval { min: 0, max: extent(nest, *axis as usize) - 1 },
        _ => Interval { min: i64::MIN, max: i64::MAX },
    })
}

/// The first iteration of an axis in which a bound may hold, and the one behind the last: `step * i + rest` is inside. Nothing
/// where there is none.
fn inside(step: i64, rest: Interval, limit: i64, count: i64) -> (i64, i64) {
    // Upwards the values from -max to the last one, downwards from there to max.
    let last = limit.saturating_sub(1).saturating_sub(rest.min);
    let (low, high) = match step > 0 {
        true => (floor_div(rest.max, step).saturating_neg(), floor_div(last, step)),
        false => (floor_div(last, step.saturating_neg()).saturating_neg(), floor_div(rest.max, step.saturating_neg())),
    };
    let (first, behind) = (low.max(0), high.saturating_add(1).min(count));
    if first < behind { (first, behind) } else { (0, 0) }
}

/// Without the places that see padding alone, and without bounds that always hold. `None` if there are none.
fn trimmed(nest: &Nest, data: Node) -> Option<Nest> {
    let mut out = nest.clone();
    let mut changed = false;
    for axis in nest.maps..nest.axes.len() {
        let ranges = bounds_of(nest, data).iter().filter_map(|bound| {
            let step = bound.value.coefficient(axis).filter(|step| *step != 0)?;
            let limit = bound.limit.as_const()?;
            Some(inside(step, range(nest, &bound.value.without(axis)), limit, extent(nest, axis)))
        });
        let (first, behind) = ranges.fold((0, extent(nest, axis)), |a, b| (a.0.max(b.0), a.1.min(b.1)));
        if first < behind && behind - first < extent(nest, axis) {
            out = part(&out, axis, (first, behind));
            changed = true;
        }
    }
    changed.then(|| without_bounds(out, data))
}

/// Some iterations of an axis.
fn part(nest: &Nest, axis: usize, (first, behind): (i64, i64)) -> Nest {
    let mut part = nest.clone();
    move_axes(&mut part, &|old| if old == axis { Dim::axis(old) + first } else { Dim::axis(old) });
    if let Some(axis) = part.axes.get_mut(axis) {
        axis.extent = Dim::constant(behind - first);
    }
    part
}

/// Without the bounds of the data that always hold.
fn without_bounds(mut nest: Nest, data: Node) -> Nest {
    let whole = nest.clone();
    let holds = |bound: &Bound| {
        let values = range(&whole, &bound.value);
        values.min >= 0 && bound.limit.as_const().is_some_and(|limit| values.max < limit)
    };
    if let Some(Scalar::Load { bounds, otherwise, .. }) = nest.nodes.get_mut(data as usize) {
        bounds.retain(|bound| !holds(bound));
        if bounds.is_empty() {
            *otherwise = None;
        }
    }
    nest
}

/// The nest divided by lines, each with the places of the window that its lines need, where this saves much.
fn pieces(nest: &Nest, data: Node) -> Option<Vec<Nest>> {
    let products = (0..nest.axes.len()).fold(1i64, |n, axis| n.saturating_mul(extent(nest, axis)));
    if products < MANY {
        return None;
    }
    let divisions = bounds_of(nest, data).iter().filter_map(|bound| division(nest, bound));
    let Division { row, parts, .. } = divisions.min_by_key(|division| division.remain)?;
    let pieces = parts.into_iter().map(|range| {
        let piece = part(nest, row, range);
        trimmed(&piece, data).unwrap_or_else(|| without_bounds(piece, data))
    });
    Some(pieces.collect())
}

/// How lines are divided.
struct Division {
    /// Places of a line of the window, for all lines.
    remain: i64,
    /// The axis of the lines, and ranges of it that see the same places.
    row: usize,
    parts: Vec<(i64, i64)>,
}

/// How a bound divides lines. `None` where that saves little.
fn division(nest: &Nest, bound: &Bound) -> Option<Division> {
    let only = |mut axes: std::ops::Range<usize>| {
        let first = axes.find(|axis| bound.value.uses_axis(*axis))?;
        axes.all(|axis| !bound.value.uses_axis(axis)).then_some(first)
    };
    let (row, tap) = (only(0..nest.maps)?, only(nest.maps..nest.axes.len())?);
    let (rows, taps) = (extent(nest, row), extent(nest, tap));
    let (step, dilation) = (bound.value.coefficient(row)?, bound.value.coefficient(tap)?);
    let (limit, rest) = (bound.limit.as_const()?, bound.value.without(row).without(tap).as_const()?);
    // Windows that reach less far miss less than a quarter.
    let reach = dilation.checked_abs()?.checked_mul(taps - 1)?.checked_mul(2)?;
    if taps > MOST_TAPS || reach < rows.checked_mul(step.checked_abs()?)? {
        return None;
    }
    // The lines that each place sees.
    let lines = (0..taps).map(|tap| {
        let at = dilation.checked_mul(tap)?.checked_add(rest)?;
        Some(inside(step, Interval { min: at, max: at }, limit, rows))
    });
    let lines: Vec<(i64, i64)> = lines.collect::<Option<_>>()?;
    let mut cuts: Vec<i64> = lines.iter().flat_map(|(first, behind)| [*first, *behind]).chain([0, rows]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let parts: Vec<(i64, i64)> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let needed = |part: &(i64, i64)| lines.iter().filter(|seen| seen.0 < part.1 && part.0 < seen.1).count() as i64;
    let remain: i64 = parts.iter().map(|part| needed(part) * (part.1 - part.0)).sum();
    let copies: i64 = parts.iter().map(needed).sum();
    let worth = remain.saturating_mul(100) <= rows.saturating_mul(taps).saturating_mul(REMAIN)
        && copies <= taps * COPIES
        && parts.iter().all(|p| needed(p) > 0);
    worth.then_some(Division { remain, row, parts })
}
