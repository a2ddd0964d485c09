//! What happens to a finished tile: bias, residual, clamp as data, anything else as a closure over the tile.
use super::bend::Bend;
use super::table::Row;
use crate::raw::Src;
use core::cell::Cell;

/// Something that happens to finished tiles.
pub type Then<'a> = &'a (dyn Fn(Tile<'_>) + Sync);

/// Applied to every output element in this order: + bias, + residual, + old output, clamp, `then`.
#[derive(Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// One float per column, plus the batches' bias strides.
    pub bias: Option<&'a [f32]>,
    /// Added, at the residual strides.
    pub residual: Option<Src<'a, f32>>,
    /// Adds the old content of the output (an in-place residual).
    pub accumulate: bool,
    /// Least and greatest value; NaN stays NaN.
    pub clamp: Option<(f32, f32)>,
    /// Called for every finished tile, on several threads at once if there is a team.
    pub then: Option<Then<'a>>,
}

impl<'a> Epilogue<'a> {
    /// Nothing.
    pub const NONE: Epilogue<'a> = Epilogue { bias: None, residual: None, accumulate: false, clamp: None, then: None };
}

/// A finished block of output rows and columns, still in the nearest cache.
pub struct Tile<'t> {
    /// Batch indices.
    pub batch: [usize; 2],
    /// Flattened index of the first output row.
    pub first_row: usize,
    /// First output column.
    pub first_col: usize,
    /// From a row to the next one.
    row_step: usize,
    rows: Rows<'t>,
    out: *mut f32,
    cols: usize,
}

/// Where the rows of a tile begin, in floats.
#[derive(Clone, Copy)]
enum Rows<'t> {
    /// In the result.
    Table(&'t [Row]),
    /// In a buffer: this many, at this distance.
    Steps(usize, usize),
    /// None: the closure is asked whether it only multiplies what is below zero.
    Question(&'t Cell<Option<Bend>>),
}

impl Rows<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        match self {
            Rows::Table(rows) => rows.len(),
            Rows::Steps(count, _) => count,
            Rows::Question(_) => 0,
        }
    }

    #[inline(always)]
    fn start(self, i: usize) -> usize {
        match self {
            Rows::Table(rows) => rows.get(i).map_or(0, |row| row.out),
            Rows::Steps(_, step) => i * step,
            Rows::Question(_) => 0,
        }
    }
}

/// How many of the first rows have no gaps between them.
// Compiled once, here: the compiler makes much of this loop.
#[inline(never)]
fn adjacent(rows: &[Row], cols: usize) -> usize {
    let mut pairs = rows.iter().zip(rows.iter().skip(1));
    pairs.position(|(row, next)| next.out != row.out + cols).map_or(rows.len(), |i| i + 1)
}

impl<'t> Tile<'t> {
    /// A tile that lies in the result.
    ///
    /// # Safety
    /// `cols` floats at `out` plus each row's place are borrowed mutably for `'t`, and no two of the rows overlap.
    pub(super) unsafe fn in_place(
        batch: [usize; 2],
        (first_row, first_col): (usize, usize),
        rows: &'t [Row],
        out: *mut f32,
        cols: usize,
    ) -> Self {
        Tile { batch, first_row, first_col, row_step: 1, rows: Rows::Table(rows), out, cols }
    }

    /// A tile of `cols` columns in a buffer, whose rows are `step` floats apart.
    #[cfg(test)]
    pub(crate) fn in_buffer(
        batch: [usize; 2],
        (first_row, first_col): (usize, usize),
        data: &'t mut [f32],
        step: usize,
        cols: usize,
    ) -> Self {
        let rows = Rows::Steps(data.len().checked_div(step).unwrap_or(0), step);
        Tile { batch, first_row, first_col, row_step: 1, rows, out: data.as_mut_ptr(), cols: cols.min(step) }
    }

    /// A tile of so many rows, which are `step` floats apart.
    ///
    /// # Safety
    /// As [`Tile::in_place`].
    pub(crate) unsafe fn in_steps(
        batch: [usize; 2],
        (first_row, first_col): (usize, usize),
        out: *mut f32,
        (rows, step): (usize, usize),
        cols: usize,
    ) -> Self {
        Tile { batch, first_row, first_col, row_step: 1, rows: Rows::Steps(rows, step), out, cols }
    }

    /// Shows a closure so many rows, each `row_step` behind the one before, at equal distances: one by one if they may overlap.
    ///
    /// # Safety
    /// The columns of all rows are inside a result that is borrowed.
    pub(crate) unsafe fn show(
        then: Then<'_>,
        batch: [usize; 2],
        (first_row, first_col): (usize, usize),
        out: *mut f32,
        (rows, row_step, step): (usize, usize, usize),
        cols: usize,
    ) {
        let together = if step >= cols { rows.max(1) } else { 1 };
        for row in (0..rows).step_by(together) {
            let (place, out) = ((first_row + row * row_step, first_col), out.wrapping_add(row * step));
            // SAFETY: promised by the caller; no two of these rows overlap.
            let tile = unsafe { Tile::in_steps(batch, place, out, (together, step), cols) };
            then(Tile { row_step, ..tile });
        }
    }

    /// No rows of so many columns, and where the answer goes.
    pub(super) fn question(answer: &'t Cell<Option<Bend>>, cols: usize) -> Self {
        let out = core::ptr::NonNull::dangling().as_ptr();
        Tile { batch: [0; 2], first_row: 0, first_col: 0, row_step: 1, rows: Rows::Question(answer), out, cols }
    }

    /// Whether there are no rows, and [`answer`](Self::answer) is heard.
    #[inline(always)]
    pub(super) fn is_question(&self) -> bool {
        matches!(self.rows, Rows::Question(_))
    }

    /// All that the closure does. Slopes of columns are valid as long as it is, for as many columns as the tile has.
    pub(super) fn answer(&self, bend: Bend) {
        if let Rows::Question(answer) = self.rows {
            answer.set(Some(bend));
        }
    }

    /// Columns of the tile.
    #[inline(always)]
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The same elements as one row, where rows at equal distances have no gaps between them.
    #[inline(always)]
    pub(super) fn in_one_row(self) -> Self {
        match self.rows {
            Rows::Steps(rows, step) if step == self.cols => {
                Tile { rows: Rows::Steps(1, rows * step), cols: rows * step, ..self }
            }
            _ => self,
        }
    }

    /// The elements, in as few rows as possible: those between which there are no gaps are one.
    #[inline(always)]
    pub fn runs(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let (cols, out, rows) = (self.cols, self.out, self.rows);
        let mut next = 0;
        core::iter::from_fn(move || {
            let (start, left) = (rows.start(next), rows.count() - next);
            let count = match rows {
                Rows::Table(rows) => adjacent(rows.get(next..).unwrap_or_default(), cols),
                // All rows, or each of them.
                Rows::Steps(_, step) => {
                    if step == cols {
                        left
                    } else {
                        left.min(1)
                    }
                }
                Rows::Question(_) => 0,
            };
            next += count;
            // SAFETY: the rows are inside what the tile borrows, as promised or checked when it was made, and follow each other;
            // they are visited once while the tile is borrowed.
            (count > 0).then(|| unsafe { core::slice::from_raw_parts_mut(out.add(start), count * cols) })
        })
    }

    /// The rows: (flattened output row, its columns from `first_col` on).
    #[inline(always)]
    pub fn rows(&mut self) -> impl Iterator<Item = (usize, &mut [f32])> {
        let (first, step, cols, out, rows) = (self.first_row, self.row_step, self.cols, self.out, self.rows);
        (0..rows.count()).map(move |i| {
            // SAFETY: inside what the tile borrows, as promised or checked when it was made; rows do not overlap and
            // are visited once while the tile is borrowed.
            (first + i * step, unsafe { core::slice::from_raw_parts_mut(out.add(rows.start(i)), cols) })
        })
    }
}
