//! Proof that affine addresses, restricted by bounds, stay inside an operand.
use super::Bound;
use crate::raw::Extent;

/// Indices that a bound's axes may have: larger windows are refused, because the kernels keep them in 16 bits.
const MOST_TAPS: usize = 65_535;

/// Least and greatest of a sum; `None` if it overflows.
#[derive(Clone, Copy)]
struct Interval {
    least: i64,
    greatest: i64,
}

impl Interval {
    const fn add(self, other: Interval) -> Option<Interval> {
        let (Some(least), Some(greatest)) =
            (self.least.checked_add(other.least), self.greatest.checked_add(other.greatest))
        else {
            return None;
        };
        Some(Interval { least, greatest })
    }
}

/// Values of `index * stride` for index in 0..extent (extent > 0).
const fn along(extent: i64, stride: i64) -> Option<Interval> {
    let Some(end) = (extent - 1).checked_mul(stride) else {
        return None;
    };
    Some(if end < 0 { Interval { least: end, greatest: 0 } } else { Interval { least: 0, greatest: end } })
}

/// ceil(a / b) for b > 0.
const fn ceil_div(a: i64, b: i64) -> i64 {
    if b == 1 {
        return a;
    }
    let (quotient, rest) = divide(a, b);
    if rest == 0 { quotient } else { quotient + 1 }
}

/// Floored quotient and remainder for b > 0, of which the optimiser does not know and would keep a panic.
const fn divide(a: i64, b: i64) -> (i64, i64) {
    match (a.checked_div_euclid(b), a.checked_rem_euclid(b)) {
        (Some(quotient), Some(rest)) => (quotient, rest),
        _ => (0, 0),
    }
}

/// Values of `row * row_stride + tap * tap_stride` over index pairs that satisfy `bound`. `Err` if that overflows or the
/// bound is malformed, `Ok(None)` if no pair satisfies it.
const fn within(bound: &Bound, row: (i64, i64), tap: (i64, i64)) -> Result<Option<Interval>, ()> {
    if bound.stride < 0 || bound.limit as u64 > i64::MAX as u64 {
        return Err(());
    }
    let (step, limit) = (bound.stride as i64, bound.limit as i64);
    let mut result: Option<Interval> = None;
    let mut t = 0;
    while t < tap.0 {
        let Some(position) = t.checked_mul(bound.dilation as i64) else {
            return Err(());
        };
        let Some(position) = position.checked_add(bound.offset as i64) else {
            return Err(());
        };
        let (Some(low), Some(high)) = (position.checked_neg(), limit.checked_sub(position)) else {
            return Err(());
        };
        let (mut first, mut end) = if step > 0 {
            (ceil_div(low, step), ceil_div(high, step))
        } else if low <= 0 && high > 0 {
            (0, row.0)
        } else {
            (0, 0)
        };
        first = if first < 0 { 0 } else { first };
        end = if end > row.0 { row.0 } else { end };
        if first < end {
            let (Some(a), Some(b), Some(c)) =
                (first.checked_mul(row.1), (end - 1).checked_mul(row.1), t.checked_mul(tap.1))
            else {
                return Err(());
            };
            let (a, b) = if a < b { (a, b) } else { (b, a) };
            let (Some(mut least), Some(mut greatest)) = (a.checked_add(c), b.checked_add(c)) else {
                return Err(());
            };
            if let Some(old) = result {
                least = if old.least < least { old.least } else { least };
                greatest = if old.greatest > greatest { old.greatest } else { greatest };
            }
            result = Some(Interval { least, greatest });
        }
        t += 1;
    }
    Ok(result)
}

/// Whether `offset + sum of index * stride + 0..run` stays inside `extent` for all indices that satisfy `bounds`.
///
/// `axes` are (extent, stride): four row axes, four tap axes, two batches. Each axis may be restricted by several
/// bounds; only the first is used for the proof, which errs on the safe side.
pub(crate) const fn reach(
    extent: Extent,
    offset: isize,
    run: usize,
    axes: &[(usize, isize); 10],
    bounds: &[Bound; 3],
) -> bool {
    let contiguous = extent.contiguous_len();
    let Some(pitch) = (if contiguous.is_some() { Some(i64::MAX) } else { positive(extent.stride) }) else {
        return false;
    };
    // Offsets split into whole rows of the operand and columns; a contiguous operand is all columns: `whole` is 0.
    let mut steps = [(0, 0); 10];
    let (mut columns, mut i) = (0i64, 0);
    while i < 10 {
        let (count, stride) = axes[i];
        let (Some(count), true) = (positive(count), i < 4 || i >= 8 || count <= MOST_TAPS) else {
            return count == 0;
        };
        let (whole, part) = split(stride as i64, pitch, contiguous.is_some());
        steps[i] = (count, whole);
        let Some(reach) = (count - 1).checked_mul(part) else {
            return false;
        };
        let Some(sum) = columns.checked_add(reach) else {
            return false;
        };
        columns = sum;
        i += 1;
    }
    let (whole, part) = split(offset as i64, pitch, contiguous.is_some());
    let Some(lines) = total(whole, &steps, bounds) else {
        return false;
    };
    let Some(lines) = lines else { return true };
    let (Some(columns), Ok(run)) = (columns.checked_add(part), to_i64(run)) else {
        return false;
    };
    let Some(end) = columns.checked_add(run) else {
        return false;
    };
    match contiguous {
        Some(len) => match lines.greatest.checked_add(run) {
            Some(end) => run == 0 || lines.least >= 0 && end as u64 <= len as u64,
            None => false,
        },
        None => lines.least >= 0 && (lines.greatest as u64) < extent.rows as u64 && end as u64 <= extent.row as u64,
    }
}

const fn to_i64(x: usize) -> Result<i64, ()> {
    if x as u64 > i64::MAX as u64 { Err(()) } else { Ok(x as i64) }
}

const fn positive(x: usize) -> Option<i64> {
    match to_i64(x) {
        Ok(x) if x > 0 => Some(x),
        _ => None,
    }
}

/// A stride in whole rows and remaining columns.
const fn split(stride: i64, pitch: i64, contiguous: bool) -> (i64, i64) {
    if contiguous { (stride, 0) } else { divide(stride, pitch) }
}

/// Least and greatest sum of `offset` and all axes; `None` if it overflows, `Some(None)` if no index satisfies the bounds.
const fn total(offset: i64, axes: &[(i64, i64); 10], bounds: &[Bound; 3]) -> Option<Option<Interval>> {
    let mut sum = Interval { least: offset, greatest: offset };
    let mut used = [false; 10];
    let mut b = 0;
    while b < 3 {
        let bound = &bounds[b];
        b += 1;
        if bound.limit == 0 {
            continue;
        }
        if bound.row != Bound::NO_AXIS && bound.row >= 4 || bound.tap != Bound::NO_AXIS && bound.tap >= 4 {
            return None;
        }
        // Masked, so that the optimiser sees that both are inside.
        let (row, tap) = (bound.row as usize & 3, 4 + (bound.tap as usize & 3));
        let row_used = bound.row != Bound::NO_AXIS && used[row];
        let tap_used = bound.tap != Bound::NO_AXIS && used[tap];
        if row_used || tap_used {
            continue;
        }
        let mut pair = [(1, 0); 2];
        if bound.row != Bound::NO_AXIS {
            (pair[0], used[row]) = (axes[row], true);
        }
        if bound.tap != Bound::NO_AXIS {
            (pair[1], used[tap]) = (axes[tap], true);
        }
        match within(bound, pair[0], pair[1]) {
            Err(()) => return None,
            Ok(None) => return Some(None),
            Ok(Some(part)) => match sum.add(part) {
                Some(next) => sum = next,
                None => return None,
            },
        }
    }
    let mut i = 0;
    while i < 10 {
        if !used[i] {
            let Some(part) = along(axes[i].0, axes[i].1) else {
                return None;
            };
            let Some(next) = sum.add(part) else {
                return None;
            };
            sum = next;
        }
        i += 1;
    }
    Some(Some(sum))
}
