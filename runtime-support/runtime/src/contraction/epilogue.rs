//! What happens to a finished tile: bias, residual, clamp as data, anything else as a closure over the tile.
use crate::blocks::blocks_mut;
use crate::raw::Src;

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
    /// Called for every finished tile before it is written, on several threads at once if there is a team.
    pub then: Option<Then<'a>>,
}

impl<'a> Epilogue<'a> {
    /// Nothing.
    pub const NONE: Epilogue<'a> = Epilogue { bias: None, residual: None, accumulate: false, clamp: None, then: None };
}

/// A finished block of output rows and columns, still in registers' reach.
pub struct Tile<'t> {
    /// Batch indices.
    pub batch: [usize; 2],
    /// Flattened index of the first output row.
    pub first_row: usize,
    /// First output column.
    pub first_col: usize,
    pub(crate) cols: usize,
    pub(crate) stride: usize,
    pub(crate) data: &'t mut [f32],
}

impl Tile<'_> {
    /// Columns of the tile.
    #[inline(always)]
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The rows: (flattened output row, its columns from `first_col` on).
    #[inline(always)]
    pub fn rows(&mut self) -> impl Iterator<Item = (usize, &mut [f32])> {
        let (first, cols) = (self.first_row, self.cols);
        let rows = blocks_mut(self.data, self.stride);
        rows.enumerate().map(move |(i, row)| {
            let cols = cols.min(row.len());
            (first + i, row.get_mut(..cols).unwrap_or_default())
        })
    }
}
