//! Convolutions line by line: rows that differ in one axis only, along which the last tap axis runs too.
use super::table::{step, valid_of_row};
use super::{Bound, Contraction, RowAxis};
use crate::math::{floor_div_usize, floor_mod_usize};
use core::ops::Range;

/// Most rows of a window.
pub(crate) const MOST_TAPS: usize = 9;

/// A row of the window, or a tap of it, that is not in the padding.
#[derive(Clone, Copy)]
pub(crate) struct TapAt {
    /// Elements from the tile's rows.
    pub at: isize,
    /// Index among all taps.
    pub index: usize,
}

/// The lines of a convolution.
pub(crate) struct Lines {
    /// The row axis along lines.
    fast: usize,
    /// Elements from a pixel to the next.
    pub pixel: isize,
    /// Pixels from one output to the next: 1 or 2. What neither outputs nor taps begin at is not counted.
    pub stride: usize,
    /// Pixels from one tap to the next: 1 for a stride of 2.
    pub gap: usize,
    /// The bound along lines.
    bound: Option<usize>,
    /// Pixels before `-first` and from `limit - first` on are padding.
    pub first: isize,
    pub limit: isize,
}

/// Where a line lies, and which rows of its window are not in the padding: `ROWS` of them, at most.
#[derive(Clone, Copy)]
pub(crate) struct Line<const ROWS: usize = MOST_TAPS> {
    pub a: isize,
    pub out: usize,
    pub residual: usize,
    taps: [TapAt; ROWS],
    count: usize,
}

impl<const ROWS: usize> Line<ROWS> {
    /// Not known yet.
    pub const NOWHERE: Self = Line { a: 0, out: 0, residual: 0, taps: [TapAt { at: 0, index: 0 }; ROWS], count: 0 };

    /// The rows of its window that are not in the padding, each from its first tap on.
    pub fn taps(&self) -> &[TapAt] {
        self.taps.get(..self.count).unwrap_or_default()
    }
}

impl Lines {
    /// The lines, if the convolution has the form, and a window of so many rows at most.
    pub fn of(c: &Contraction, most: usize) -> Option<Self> {
        let fast = c.rows.iter().rposition(|axis| axis.extent != 1)? & 3;
        let (row, tap) = (c.rows[fast], c.taps[3]);
        let (pixel, stride, gap) = steps(row.a, tap.a)?;
        if c.window_rows() > most {
            return None;
        }
        let along = |bound: &Bound| bound.limit != 0 && (usize::from(bound.row) == fast || bound.tap == 3);
        let mut bounds = c.bounds.iter().enumerate().filter(|(_, bound)| along(bound));
        let (bound, first, limit) = match bounds.next() {
            None => (None, 0, isize::MAX),
            Some((at, bound)) => {
                let plain = usize::from(bound.row) == fast && bound.tap == 3;
                let (first, limit) = counted(bound, (stride, gap))?;
                // No output's window along the line is all in the padding.
                let last = isize::try_from(row.extent.checked_sub(1)?.checked_mul(stride)?).ok()?;
                let window = isize::try_from(span(tap.extent, gap)).ok()?;
                let touches = first.checked_add(window)? > 0 && first.checked_add(last)? < limit;
                if !(plain && touches) {
                    return None;
                }
                (Some(at), first, limit)
            }
        };
        if bounds.next().is_some() {
            return None;
        }
        Some(Lines { fast, pixel, stride, gap, bound, first, limit })
    }

    /// Lines from the first row of the window to the last, with those between them, where lines follow each other in the data; at
    /// least as many as the window has rows.
    pub fn rows(&self, c: &Contraction) -> usize {
        let [t0, t1, t2, _] = c.taps;
        let line = c.rows.iter().take(self.fast).rfind(|axis| axis.extent != 1);
        let gap = line.and_then(|line| t2.a.checked_div(line.a)).and_then(|gap| usize::try_from(gap).ok());
        let planes = t0.extent.saturating_mul(t1.extent);
        gap.map_or(0, |gap| planes.saturating_mul(span(t2.extent, gap))).max(c.window_rows())
    }

    /// Rows of the window that are not those of the line before.
    pub fn new_rows(&self, c: &Contraction) -> usize {
        let [t0, t1, t2, _] = c.taps;
        let line = c.rows.iter().take(self.fast).rfind(|axis| axis.extent != 1);
        let step = line.and_then(|line| line.a.checked_div(t2.a)).and_then(|step| usize::try_from(step).ok());
        let new = step.map_or(t2.extent, |step| step.clamp(1, t2.extent.max(1)));
        t0.extent.saturating_mul(t1.extent).saturating_mul(new)
    }

    /// Pixels of a row of the window, with those between its taps.
    pub fn span(&self, c: &Contraction) -> usize {
        span(c.taps[3].extent, self.gap)
    }

    /// The row axis along lines.
    pub fn axis(&self, c: &Contraction) -> RowAxis {
        c.rows[self.fast & 3]
    }

    /// Outputs of a line.
    pub fn outputs(&self, c: &Contraction) -> usize {
        self.axis(c).extent
    }

    /// Where line number `line` lies.
    pub fn line<const ROWS: usize>(&self, c: &Contraction, line: usize) -> Line<ROWS> {
        let mut found = Line::NOWHERE;
        self.find(c, line, &mut found);
        found
    }

    /// The same, written in the place of another line of this convolution, or of none.
    pub fn find<const ROWS: usize>(&self, c: &Contraction, line: usize, found: &mut Line<ROWS>) {
        self.find_at(c, &self.index(c, line), found);
    }

    /// The indices of line number `line` along the row axes.
    pub fn index(&self, c: &Contraction, line: usize) -> [usize; 4] {
        let (mut index, mut rest) = ([0; 4], line);
        for (axis, index) in c.rows.iter().zip(&mut index).take(self.fast).rev() {
            (rest, *index) = (floor_div_usize(rest, axis.extent), floor_mod_usize(rest, axis.extent));
        }
        index
    }

    /// Those of the next line.
    pub fn advance(&self, c: &Contraction, index: &mut [usize; 4]) {
        for (axis, index) in c.rows.iter().zip(index).take(self.fast).rev() {
            *index += 1;
            if *index < axis.extent {
                return;
            }
            *index = 0;
        }
    }

    /// Where the line at these indices lies.
    pub fn find_at<const ROWS: usize>(&self, c: &Contraction, index: &[usize; 4], found: &mut Line<ROWS>) {
        (found.a, found.out, found.residual) = (0, 0, 0);
        for (axis, index) in c.rows.iter().zip(index) {
            found.a = found.a.wrapping_add(step(*index, axis.a));
            found.out = found.out.wrapping_add(index.wrapping_mul(axis.out));
            found.residual = found.residual.wrapping_add(index.wrapping_mul(axis.residual));
        }
        // Per outer tap axis, the indices that are not in the padding.
        let all = [(0, c.taps[0].extent), (0, c.taps[1].extent), (0, c.taps[2].extent)];
        let mut valid = all;
        for (b, bound) in c.bounds.iter().enumerate() {
            if bound.limit != 0 && Some(b) != self.bound {
                let (first, end, _) = valid_of_row(c, bound, index);
                let (first, end) = (first as usize, end as usize);
                // Bounds without a tap axis are all or nothing: they count as bounds of the first.
                let alone = bound.tap == Bound::NO_AXIS;
                if let Some(axis) = valid.get_mut(if alone { 0 } else { usize::from(bound.tap) }) {
                    let end = if alone && first < end { axis.1 } else { end };
                    *axis = (first.max(axis.0), end.min(axis.1));
                }
            }
        }
        // The line before had all of them as well.
        if valid == all && found.count > 0 && found.count == c.window_rows() {
            return;
        }
        found.count = 0;
        let [(a0, e0), (a1, e1), (a2, e2)] = valid;
        for i0 in a0..e0 {
            for i1 in a1..e1 {
                for i2 in a2..e2 {
                    let at =
                        step(i0, c.taps[0].a).wrapping_add(step(i1, c.taps[1].a)).wrapping_add(step(i2, c.taps[2].a));
                    let index = ((i0 * c.taps[1].extent + i1) * c.taps[2].extent + i2) * c.taps[3].extent;
                    if let Some(slot) = found.taps.get_mut(found.count) {
                        *slot = TapAt { at, index };
                        found.count += 1;
                    }
                }
            }
        }
    }
}

/// Elements from a pixel to the next, and pixels from an output to the next, and from a tap to the next, where one of these is a pixel.
fn steps(row: isize, tap: isize) -> Option<(isize, usize, usize)> {
    match (row.checked_div(tap)?, row.checked_rem(tap)?) {
        _ if row <= 0 || tap <= 0 => None,
        (stride @ 1..=2, 0) => Some((tap, stride as usize, 1)),
        _ if tap.checked_rem(row)? == 0 => Some((row, 1, tap.checked_div(row)? as usize)),
        _ => None,
    }
}

/// Pixels from the first of so many taps to the last.
pub(super) fn span(taps: usize, gap: usize) -> usize {
    taps.saturating_sub(1).saturating_mul(gap).saturating_add(1)
}

/// The offset and limit of a bound in pixels, of which outputs and taps are so many apart.
fn counted(bound: &Bound, (stride, gap): (usize, usize)) -> Option<(isize, isize)> {
    let (stride, gap) = (isize::try_from(stride).ok()?, isize::try_from(gap).ok()?);
    let (pixel, limit) = (bound.dilation.checked_div(gap)?, isize::try_from(bound.limit).ok()?);
    let steps = (pixel.checked_mul(stride)?, pixel.checked_mul(gap)?);
    if pixel < 1 || steps != (bound.stride, bound.dilation) {
        return None;
    }
    // Where the first pixel that is not in the padding begins.
    let behind = bound.offset.checked_rem_euclid(pixel)?;
    let last = limit.checked_sub(1)?.checked_sub(behind)?;
    Some((bound.offset.checked_div_euclid(pixel)?, last.checked_div_euclid(pixel)?.checked_add(1)?))
}

/// Numbers as pieces of lines of this length: lines, and what of each of them.
pub(crate) fn pieces(numbers: Range<usize>, length: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let mut at = numbers.start;
    core::iter::from_fn(move || {
        let (line, first) = (floor_div_usize(at, length), floor_mod_usize(at, length));
        let left = numbers.end.checked_sub(at).filter(|left| *left > 0)?;
        let (lines, part) = if first > 0 || left < length {
            (line..line + 1, first..length.min(first + left))
        } else {
            (line..line + floor_div_usize(left, length), 0..length)
        };
        at += lines.len() * part.len();
        Some((lines, part))
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn pixels_are_what_outputs_and_taps_are_whole_numbers_of_apart() {
        assert_eq!(steps(12, 12), Some((12, 1, 1)));
        assert_eq!(steps(24, 12), Some((12, 2, 1)));
        assert_eq!(steps(12, 36), Some((12, 1, 3)));
        assert_eq!([steps(36, 12), steps(24, 36), steps(0, 12), steps(12, 0), steps(-12, 12)], [None; 5]);
        let bound = |stride, dilation| Bound { row: 1, tap: 3, stride, dilation, offset: -3, limit: 9 };
        assert_eq!(counted(&bound(1, 3), (1, 3)), Some((-3, 9)));
        // Pixels -4, -2, 0, 2, .. that an odd offset begins between: 1, 3, 5 and 7 are not in the padding.
        assert_eq!(counted(&bound(4, 2), (2, 1)), Some((-2, 4)));
        assert_eq!([counted(&bound(2, 3), (1, 3)), counted(&bound(1, 2), (1, 3))], [None; 2]);
    }

    #[test]
    fn pieces_are_whole_lines_and_what_is_left() {
        let all = |rows| pieces(rows, 10).collect::<Vec<_>>();
        assert_eq!(all(0..30), [(0..3, 0..10)]);
        assert_eq!(all(5..10), [(0..1, 5..10)]);
        assert_eq!(all(12..16), [(1..2, 2..6)]);
        assert_eq!(all(5..45), [(0..1, 5..10), (1..4, 0..10), (4..5, 0..5)]);
        assert_eq!(all(7..7), []);
    }
}
