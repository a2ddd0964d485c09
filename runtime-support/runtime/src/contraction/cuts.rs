//! Where tiles of rows end: where what the window has in the padding changes, as at the ends of lines, if that is much. A tile
//! leaves out what lies in the padding for all of its rows.
use super::Contraction;
use super::job::MOST_ROWS;
use super::table::valid;
use crate::isa::VECTORS;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};

/// The least part of the products that must lie in the padding of other dimensions.
const PART: usize = 10;
/// Least products per sum: tiles of short sums take time for their addresses, and of fewer rows more of it.
const LEAST: usize = 192;
/// Rows along a dimension of which the taps are counted, at most.
const MOST_COUNTED: usize = 128;
/// Least rows of a tile that ends with a line: sums of fewer wait for each other.
const ROWS: usize = 7;
/// Least rows of a part of a line; at its ends, a third of the products or more are left out.
const ROWS_OF_PART: usize = 6;

/// The line of rows with the ends of whose parts tiles end.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// Ends of the parts, ascending; the last one is that of the line, or 0 if tiles end anywhere.
    ends: [usize; 3],
}

impl Line {
    /// Tiles end anywhere.
    pub const NONE: Line = Line { ends: [0; 3] };

    pub(super) fn of(c: &Contraction) -> Line {
        let Some(fast) = c.rows.iter().rposition(|axis| axis.extent != 1) else { return Line::NONE };
        let line = c.rows.get(fast).map_or(0, |axis| axis.extent);
        if !VECTORS || c.k() < LEAST || line < ROWS_OF_PART {
            return Line::NONE;
        }
        let parts = parts(c, fast, line);
        match parts {
            Some(ends) => Line { ends },
            None if least(line) >= ROWS && many_outside(c, fast) => Line { ends: [line; 3] },
            None => Line::NONE,
        }
    }

    /// Where the tile of at most `most` rows ends that begins with a row of `rows`: row `first` of a batch is the first of
    /// these. Tiles of a part have about the same size.
    pub(super) fn end(&self, row: usize, (first, rows): (usize, usize), most: usize) -> usize {
        let left = rows.saturating_sub(row);
        let at = self.ends.last().filter(|line| **line > 0).map(|line| floor_mod_usize(first + row, *line));
        let end = at.and_then(|at| self.ends.iter().find(|end| **end > at).map(|end| left.min(*end - at)));
        let left = end.unwrap_or(left);
        if left <= most {
            return row + left.max(1);
        }
        row + floor_div_usize(left, ceil_div_usize(left, most).max(1)).max(1)
    }
}

/// Rows of the least tile of so many.
fn least(rows: usize) -> usize {
    floor_div_usize(rows, ceil_div_usize(rows, MOST_ROWS).max(1))
}

/// The ends of a line's parts: of what has taps before the data, and what has them behind it. None where these are too short.
fn parts(c: &Contraction, fast: usize, line: usize) -> Option<[usize; 3]> {
    let bound = c.bounds.iter().find(|bound| bound.limit != 0 && usize::from(bound.row) == fast && bound.tap == 3)?;
    let inside = bound.inside(c);
    let (start, end) = (inside.start, inside.end.min(line));
    let are_long = start < end && [start, end - start, line - end].into_iter().all(|n| least(n) >= ROWS_OF_PART);
    are_long.then_some([start, end, line])
}

/// Whether many products are in the padding of the dimensions that whole lines have in common.
fn many_outside(c: &Contraction, fast: usize) -> bool {
    let others = c.bounds.iter().filter(|bound| bound.limit != 0 && usize::from(bound.row) != fast && bound.tap != 3);
    let (mut inside, mut all) = (1usize, 1usize);
    for bound in others {
        let (rows, taps) = (c.rows.get(usize::from(bound.row)).map_or(1, |axis| axis.extent), bound.taps(c));
        // Where there are many, few products are in the padding.
        if rows > MOST_COUNTED {
            return false;
        }
        let count = |row| {
            let (first, end) = valid(bound, row as isize, taps as isize);
            (end - first) as usize
        };
        inside = inside.saturating_mul((0..rows).map(count).sum());
        all = all.saturating_mul(rows.saturating_mul(taps));
    }
    all.saturating_sub(inside) >= floor_div_usize(all, PART).max(1)
}
