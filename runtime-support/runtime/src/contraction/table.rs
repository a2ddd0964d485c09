//! Addresses and valid taps of a block of output rows.
use super::{Bound, Contraction};
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use core::ops::Range;

/// Rows of a block whose addresses are tabled; also bounds the stack that a contraction takes.
pub(crate) const BLOCK: usize = if cfg!(target_pointer_width = "64") { 240 } else { 24 };

/// Address and valid taps of one output row.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Element of the left operand at tap 0.
    pub a: isize,
    /// Element of the result.
    pub out: usize,
    /// Element of the residual.
    pub residual: usize,
    /// Per bound: first valid index of its tap axis ...
    pub first: [u16; 3],
    /// ... and the number of valid ones.
    pub count: [u16; 3],
    /// Whether all taps are valid.
    pub inside: bool,
}

impl Row {
    /// Not tabled yet; all taps valid.
    pub const START: Row = Row { a: 0, out: 0, residual: 0, first: [0; 3], count: [0; 3], inside: true };

    /// Whether this index of the tap axis of bound `b` is valid.
    #[inline(always)]
    fn has(&self, b: usize, index: usize) -> bool {
        let (first, count) = self.valid(b);
        (index as u16).wrapping_sub(first) < count
    }

    /// Whether the row is not in the padding at this index of a tap axis.
    #[inline(always)]
    pub fn has_tap(&self, bounds: &[Bound; 3], axis: usize, index: usize) -> bool {
        self.inside
            || bounds
                .iter()
                .enumerate()
                .all(|(b, bound)| bound.limit == 0 || bound.tap_axis() != axis || self.has(b, index))
    }

    /// First valid index of the tap axis of bound `b`, and the number of valid ones.
    #[inline(always)]
    pub fn valid(&self, b: usize) -> (u16, u16) {
        self.first.get(b).zip(self.count.get(b)).map_or((0, 0), |(first, count)| (*first, *count))
    }
}

/// The rows of one block.
pub(crate) type Block = [Row; BLOCK];

/// Nothing tabled yet.
pub(crate) const EMPTY: Block = [Row::START; BLOCK];

/// The places of the bits that are set, in order.
#[inline(always)]
pub(crate) fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (first < u32::BITS).then_some(first as usize)
    })
}

/// Bit i set: row i misses some taps. There are at most 32 rows.
#[inline(always)]
pub(crate) fn rows_outside(rows: &[Row]) -> u32 {
    rows.iter().enumerate().fold(0, |set, (i, row)| set | u32::from(!row.inside) << i)
}

/// Bit i set: row i, one of those `outside`, is in the padding at this index of a tap axis.
#[inline(always)]
pub(crate) fn rows_missing(rows: &[Row], outside: u32, bounds: &[Bound; 3], axis: usize, index: usize) -> u32 {
    let mut missing = 0;
    for (b, bound) in bounds.iter().enumerate() {
        if bound.limit != 0 && bound.tap_axis() == axis {
            for i in bits(outside) {
                let is_missing = rows.get(i).is_some_and(|row| !row.has(b, index));
                missing |= u32::from(is_missing) << i;
            }
        }
    }
    missing
}

/// index * stride, wrapping.
pub(crate) fn step(index: usize, stride: isize) -> isize {
    (index as isize).wrapping_mul(stride)
}

/// Tables the addresses of rows `first..first + n`.
pub(crate) fn fill(c: &Contraction, block: &mut [Row], first: usize, n: usize) {
    fill_but(c, block, (first, n), |_| 0..0);
}

/// The same without some rows between the ends of every line: `skip` says which of those from a row on.
pub(super) fn fill_but(
    c: &Contraction,
    block: &mut [Row],
    (first, n): (usize, usize),
    skip: impl Fn(usize) -> Range<usize>,
) {
    let [_, r1, r2, r3] = c.rows;
    let (rest, i3) = divide(first, r3.extent);
    let (rest, i2) = divide(rest, r2.extent);
    let (i0, i1) = divide(rest, r1.extent);
    let mut index = [i0, i1, i2, i3];
    // A line: rows that differ in the fastest axis only.
    let fast = c.rows.iter().rposition(|axis| axis.extent != 1).unwrap_or(3) & 3;
    let mut rest = block.get_mut(..n).unwrap_or_default();
    let mut row = first;
    while !rest.is_empty() {
        let count = c.rows[fast].extent.saturating_sub(index[fast]).max(1).min(rest.len());
        let Some((line, after)) = rest.split_at_mut_checked(count) else { return };
        fill_line(c, fast, &index, line, skip(row));
        (rest, row) = (after, row + count);
        index[fast] = 0;
        for (axis, index) in c.rows.iter().zip(&mut index).take(fast).rev() {
            *index += 1;
            if *index < axis.extent {
                break;
            }
            *index = 0;
        }
    }
}

/// Tables the rows from `index` on, along axis `fast`, but for some that all taps leave inside.
fn fill_line(c: &Contraction, fast: usize, index: &[usize; 4], line: &mut [Row], skip: Range<usize>) {
    let mut row = Row::START;
    for (axis, index) in c.rows.iter().zip(index) {
        // Wrapping: intermediate sums may leave the address space of small machines, the final ones do not.
        row.a = row.a.wrapping_add(step(*index, axis.a));
        row.out = index.wrapping_mul(axis.out).wrapping_add(row.out);
        row.residual = index.wrapping_mul(axis.residual).wrapping_add(row.residual);
    }
    for (b, bound) in c.bounds.iter().enumerate() {
        if bound.limit != 0 && usize::from(bound.row) != fast {
            row.restrict(c, b, bound, index);
        } else if let Some(count) = row.count.get_mut(b) {
            *count = bound.taps(c) as u16;
        }
    }
    let (axis, bounded) = (c.rows[fast & 3], c.bounds.iter().any(|bound| bound.limit != 0));
    let ahead = |row: &mut Row, steps: usize| {
        row.a = row.a.wrapping_add(step(steps, axis.a));
        row.out = row.out.wrapping_add(steps.wrapping_mul(axis.out));
        row.residual = row.residual.wrapping_add(steps.wrapping_mul(axis.residual));
    };
    let ends = if skip.is_empty() { [0..line.len(), 0..0] } else { [0..skip.start, skip.end..line.len()] };
    for part in ends {
        for slot in line.get_mut(part).unwrap_or_default() {
            (slot.a, slot.out, slot.residual) = (row.a, row.out, row.residual);
            // Rows without bounds are as they were made.
            if bounded {
                (slot.first, slot.count, slot.inside) = (row.first, row.count, row.inside);
            }
            ahead(&mut row, 1);
        }
        ahead(&mut row, skip.len());
    }
    for (b, bound) in c.bounds.iter().enumerate() {
        if bound.limit != 0 && usize::from(bound.row) == fast {
            let (first, inside) = (index[fast & 3], bound.inside(c));
            let [before, behind] = [inside.start, inside.end].map(|at| at.saturating_sub(first).min(line.len()));
            let mut at = *index;
            for i in (0..before).chain(behind.max(before)..line.len()) {
                at[fast & 3] = first + i;
                if let Some(row) = line.get_mut(i) {
                    row.restrict(c, b, bound, &at);
                }
            }
        }
    }
}

impl Row {
    /// Notes which taps bound `b` leaves to the row at `index`.
    #[inline(always)]
    fn restrict(&mut self, c: &Contraction, b: usize, bound: &Bound, index: &[usize; 4]) {
        let (first, end, taps) = valid_of_row(c, bound, index);
        if let Some((least, count)) = self.first.get_mut(b).zip(self.count.get_mut(b)) {
            (*least, *count) = (first as u16, (end - first) as u16);
        }
        self.inside &= first == 0 && end == taps;
    }
}

impl Bound {
    /// Indices of its tap axis.
    pub(super) fn taps(&self, c: &Contraction) -> usize {
        if self.tap == Bound::NO_AXIS { 1 } else { c.taps[usize::from(self.tap & 3)].extent }
    }

    /// The rows that all its taps leave inside.
    pub(super) fn inside(&self, c: &Contraction) -> Range<usize> {
        let reach = isize::try_from(self.taps(c).saturating_sub(1)).ok().and_then(|n| n.checked_mul(self.dilation));
        let (Some(reach), true) = (reach, self.stride > 0 && self.dilation >= 0) else { return 0..0 };
        // The first row whose first tap is not below 0, and the first whose last tap is beyond the limit.
        let first = ceil_div_usize(usize::try_from(self.offset.saturating_neg()).unwrap_or(0), self.stride as usize);
        let room = (self.limit as isize).checked_sub(reach).and_then(|n| n.checked_sub(self.offset));
        let end = ceil_div_usize(room.and_then(|n| usize::try_from(n).ok()).unwrap_or(0), self.stride as usize);
        first..end
    }
}

/// Quotient and remainder. Extents are not zero here, but the optimiser does not know and would keep a panic.
fn divide(a: usize, b: usize) -> (usize, usize) {
    (floor_div_usize(a, b), floor_mod_usize(a, b))
}

/// The valid taps of the row at `index`, and how many taps the bound's axis has.
pub(crate) fn valid_of_row(c: &Contraction, bound: &Bound, index: &[usize; 4]) -> (isize, isize, isize) {
    let taps = bound.taps(c);
    let row = if bound.row == Bound::NO_AXIS { 0 } else { index[usize::from(bound.row & 3)] };
    let (first, end) = valid(bound, row as isize, taps as isize);
    (first, end, taps as isize)
}

/// The tap indices first..end for which `0 <= offset + row * stride + tap * dilation < limit`.
pub(super) fn valid(bound: &Bound, row: isize, taps: isize) -> (isize, isize) {
    let position = row.checked_mul(bound.stride).and_then(|x| x.checked_add(bound.offset));
    // An overflow is far outside: nothing is valid.
    let Some((low, high)) = position.and_then(|x| Some((x.checked_neg()?, (bound.limit as isize).checked_sub(x)?)))
    else {
        return (0, 0);
    };
    let reach = (taps - 1).saturating_mul(bound.dilation);
    if low <= 0 && reach >= 0 && reach < high {
        return (0, taps);
    }
    let (first, end) = match bound.dilation {
        0 if low <= 0 && high > 0 => (0, taps),
        0 => (0, 0),
        1 => (low, high),
        // A division takes as long as some products.
        step if step > 0 => {
            (if low <= 0 { 0 } else { ceil_div(low, step) }, if reach < high { taps } else { ceil_div(high, step) })
        }
        // position + tap * step >= 0 and < limit, with the signs turned.
        step => (
            ceil_div(high.saturating_neg().saturating_add(1), step.saturating_neg()),
            ceil_div(low.saturating_neg().saturating_add(1), step.saturating_neg()),
        ),
    };
    let first = first.max(0).min(taps);
    (first, end.max(first).min(taps))
}

/// ceil(a / b) for b > 0.
fn ceil_div(a: isize, b: isize) -> isize {
    let (quotient, rest) = (a.checked_div_euclid(b), a.checked_rem_euclid(b));
    quotient.unwrap_or(0) + isize::from(rest.is_some_and(|rest| rest != 0))
}
