//! Minimal filtering (Winograd) for convolutions of stride 1, and with windows of 4 to 8 pixels along an axis of stride 2: fewer products,
//! between transforms of data and result.
//!
//! A tile of t x t output pixels of a window of w x w needs `(t + w - 1)^2` products per channel instead of `(t w)^2`: the input
//! under the tile and the weights are transformed, multiplied position by position (a matrix product over channels per position), and the
//! sums are transformed back. Weights are transformed when they are packed. Rounding errors are a small multiple of the
//! direct sum's.
//!
//! A window of more than five pixels along an axis is several of three or four, the last ones filled with zeros: as so many times as
//! many channels, which are those of pixels that are three or four pixels apart. A window that moves two pixels at a time is four windows
//! of half its size: those of pixels in even and odd lines and columns, on which it moves one at a time.
//!
//! Pixels that are as far apart as the taps of a dilated window are an image of their own, in which windows have no gaps.
//!
//! A window of one line is filtered along it, every line of the result by itself.
//!
//! Convolutions of volumes are filtered in every slice; position by position, the products of a slice's neighbours are
//! added up, which is a convolution along the slices.
mod driver;
mod pack;
#[cfg(feature = "threads")]
mod portions;
#[cfg(test)]
mod tests;
mod transform;

pub use pack::pack_winograd;

use crate::contraction::packed::padded;
use crate::contraction::{Bound, Contraction, Epilogue, RowAxis, Tap, packed_len};
use crate::cx::Cx;
use crate::math::ceil_div_usize;
use crate::raw::{Dst, Extent, Src};

/// Floats between the planes of different positions, so that these do not compete for the same lines of a cache; at least
/// a vector, because the last tile's sums are read by whole vectors.
const GAP: usize = 16;

/// Pixels along an axis of the largest windows that have no pieces.
const WHOLE: usize = 5;
/// Points along an axis at which pieces of larger ones are multiplied.
const POINTS: usize = 6;

/// The slices of a volume, along which tap axis 1 slides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slices {
    /// Their row axis, slower than those of the slices' pixels.
    pub axis: u8,
    /// Slices of the result that are computed at once.
    pub block: usize,
}

/// A convolution that is computed by minimal filtering. Plain data, so that generated code writes it as a `const`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Winograd {
    /// The convolution, with tap axes 2 and 3 as its window, of at most 8x8 with stride 2, or one line of such; its batches are groups.
    /// `panel` is that of the packed weights.
    pub product: Contraction,
    /// The row axes along which tap axes 2 and 3 slide: neighbours, which only axes of extent 1 follow. The first one is
    /// [`Bound::NO_AXIS`] for a window of one line.
    pub axes: [u8; 2],
    /// For convolutions of volumes; without them, tap axis 1 has one index.
    pub slices: Option<Slices>,
    /// Output pixels of a tile along each axis: 4 for windows, or pieces of one, whose longer axis has 3 pixels (or 2, but for a line),
    /// 2 for 5, 3 for 4, and for 2, or 5 for 2 in a line. It says how large the pieces of a window of more than 5 pixels are.
    pub tile: usize,
    /// Tiles that are multiplied at once, in every slice of a block of them.
    pub block: usize,
    /// Columns that are multiplied at once; a multiple of the panel.
    pub chunk: usize,
}

impl Winograd {
    /// Positions of a transformed tile.
    #[must_use]
    pub const fn positions(&self) -> usize {
        let [y, x] = self.size();
        y.saturating_mul(x)
    }

    /// Whether the window is one line.
    const fn is_line(&self) -> bool {
        self.product.taps[2].extent == 1
    }

    /// Pixels of a tile along both axes.
    const fn tile(&self) -> [usize; 2] {
        [if self.is_line() { 1 } else { self.tile }, self.tile]
    }

    /// Pixels of the data under a tile along both axes.
    const fn size(&self) -> [usize; 2] {
        let size = self.tile.saturating_add(self.piece()).saturating_sub(1);
        [if self.is_line() { 1 } else { size }, size]
    }

    /// The row axes along both axes of a tile.
    const fn lines(&self) -> [RowAxis; 2] {
        let (rows, [y, x]) = (&self.product.rows, self.axes);
        [if self.is_line() { RowAxis::ONE } else { rows[(y & 3) as usize] }, rows[(x & 3) as usize]]
    }

    /// How far the window moves along an axis, and its taps are apart.
    const fn steps(&self, axis: usize) -> [isize; 2] {
        [self.product.rows[(self.axes[axis & 1] & 3) as usize].a, self.product.taps[2 + (axis & 1)].a]
    }

    /// Pixels by which the window moves along each axis: 1 or 2.
    const fn stride(&self) -> usize {
        let [moves, tap] = self.steps(1);
        if tap != 0 && matches!(tap.checked_mul(2), Some(pixels) if pixels == moves) { 2 } else { 1 }
    }

    /// Pixels that taps are apart along an axis; 0 if these are no whole ones, or more than one of a window that moves by two.
    const fn gap(&self, axis: usize) -> usize {
        let [moves, tap] = self.steps(axis);
        if self.is_line() && axis == 0 {
            return 1;
        }
        if self.stride() == 2 {
            return matches!(tap.checked_mul(2), Some(pixels) if pixels == moves) as usize;
        }
        match (tap.checked_div(moves), tap.checked_rem(moves)) {
            (Some(gap), Some(0)) if gap > 0 => gap as usize,
            (None, _) if tap == moves => 1,
            _ => 0,
        }
    }

    /// Taps of the window along its longer axis; it is filtered as if it had as many along the other.
    const fn window(&self) -> usize {
        let [.., y, x] = &self.product.taps;
        if y.extent > x.extent { y.extent } else { x.extent }
    }

    /// Taps of a window, or of a piece of one, along each axis.
    const fn piece(&self) -> usize {
        let window = self.window();
        if self.stride() == 2 {
            return window.div_ceil(2);
        }
        if window > WHOLE { POINTS.saturating_sub(self.tile) + 1 } else { window }
    }

    /// Pieces of a window along both axes.
    const fn pieces(&self) -> [usize; 2] {
        let [.., y, x] = &self.product.taps;
        if self.stride() == 2 {
            return [if self.is_line() { 1 } else { 2 }, 2];
        }
        let whole = self.window() <= WHOLE;
        if whole { [1, 1] } else { [ceil_div_usize(y.extent, self.piece()), ceil_div_usize(x.extent, self.piece())] }
    }

    /// Whether there are several pieces.
    const fn has_pieces(&self) -> bool {
        self.stride() == 2 || self.window() > WHOLE
    }

    /// Taps between the first ones of two pieces along an axis.
    const fn apart(&self) -> usize {
        if self.stride() == 2 { 1 } else { self.piece() }
    }

    /// Channels of the data, of all pieces: whole vectors of each if there are several.
    const fn depth(&self) -> usize {
        let (depth, [y, x]) = (self.product.depth, self.pieces());
        if self.has_pieces() { padded(depth).saturating_mul(y).saturating_mul(x) } else { depth }
    }

    /// Floats of the transformed and packed weights of a batch. Saturates.
    #[must_use]
    pub const fn weights_len(&self) -> usize {
        packed_len(self.product.cols, self.sum(), self.product.panel).saturating_mul(self.positions())
    }

    /// Floats of working memory. Saturates.
    #[must_use]
    pub const fn scratch_len(&self) -> usize {
        self.data_plane().saturating_add(self.sums_plane()).saturating_mul(self.positions())
    }

    /// Products of a sum at one position.
    const fn sum(&self) -> usize {
        self.product.taps[1].extent.saturating_mul(self.depth())
    }

    /// Slices of a block of the result.
    const fn slices(&self) -> usize {
        match self.slices {
            Some(slices) => slices.block,
            None => 1,
        }
    }

    /// Slices of the data that a block of the result reads.
    const fn data_slices(&self) -> usize {
        self.slices().saturating_add(self.product.taps[1].extent).saturating_sub(1)
    }

    /// Floats of the transformed data of one tile, in all slices of a block, at one position.
    const fn data_len(&self) -> usize {
        self.data_slices().saturating_mul(padded(self.depth()))
    }

    /// Floats of the sums of one tile, in all slices of a block, at one position.
    const fn sums_len(&self) -> usize {
        self.slices().saturating_mul(self.width(0))
    }

    /// Floats of the transformed data of one position.
    const fn data_plane(&self) -> usize {
        self.block.saturating_mul(self.data_len()).saturating_add(GAP)
    }

    /// Floats of the sums of one position.
    const fn sums_plane(&self) -> usize {
        self.block.saturating_mul(self.sums_len()).saturating_add(GAP)
    }

    /// Chunks of columns.
    const fn chunks(&self) -> usize {
        ceil_div_usize(self.product.cols, self.chunk)
    }

    /// Columns with padding of the chunk that starts at column `first`.
    const fn width(&self, first: usize) -> usize {
        let left = self.product.cols.saturating_sub(first);
        packed_len(if left < self.chunk { left } else { self.chunk }, 1, self.product.panel)
    }

    /// Whether the convolution is of the form, all addresses stay inside operands of these extents, and packed weights
    /// and working memory are long enough.
    #[must_use]
    pub const fn fits(&self, a: Extent, w_len: usize, scratch_len: usize, out: Extent) -> bool {
        let c = &self.product;
        self.has_form()
            && self.weights_len() < usize::MAX
            && c.weights_fit(self.weights_len(), w_len)
            && self.scratch_len() <= scratch_len
            && self.scratch_len() < usize::MAX
            && c.fits(a, usize::MAX, out)
    }

    const fn has_form(&self) -> bool {
        let (c, [y, x]) = (&self.product, self.axes);
        let is_line = self.is_line();
        let has_tile = match (self.stride(), self.tile, self.window()) {
            (1, 4, 3) | (1, 3, 4) | (1, 2, 5) | (1, 3 | 4, 6..) | (2, 4, 5 | 6) | (2, 3, 7 | 8) => true,
            (1, 3, 2) | (1, 2, 3) | (2, 3, 4) | (2, 2, 5 | 6) => !is_line,
            (1, 5, 2) | (2, 5, 4) => is_line,
            _ => false,
        };
        let has_axes = if is_line { y == Bound::NO_AXIS } else { y.wrapping_add(1) == x };
        if !has_tile || self.block == 0 || self.chunk == 0 || x >= 4 || !has_axes {
            return false;
        }
        let taps = c.taps;
        let mut axis = x as usize + 1;
        while axis < 4 {
            if c.rows[axis].extent != 1 {
                return false;
            }
            axis += 1;
        }
        matches!(c.panel, 16 | 32)
            && self.chunk.is_multiple_of(c.panel)
            && is_one(taps[0])
            && self.has_slices()
            && (is_line || taps[2].extent > 1 && self.gap(0) > 0)
            && taps[3].extent > 1
            && self.gap(1) > 0
            && self.has_bound(&c.bounds[0])
            && self.has_bound(&c.bounds[1])
            && self.has_bound(&c.bounds[2])
    }

    /// Whether tap axis 1 has one index, or slides without gaps along its row axis.
    const fn has_slices(&self) -> bool {
        let (c, tap) = (&self.product, self.product.taps[1]);
        match self.slices {
            None => is_one(tap),
            Some(_) if self.has_pieces() || self.is_line() => false,
            Some(Slices { axis, block }) => {
                block > 0 && tap.extent > 0 && axis < self.axes[0] && c.rows[(axis & 3) as usize].a == tap.a
            }
        }
    }

    /// Whether a bound is that of one of the axes.
    const fn has_bound(&self, bound: &Bound) -> bool {
        let steps = match (self.slices, bound.tap) {
            (Some(slices), 1) if bound.row == slices.axis => (1, 1),
            (_, 2) if !self.is_line() && bound.row == self.axes[0] => (self.stride() as isize, self.gap(0) as isize),
            (_, 3) if bound.row == self.axes[1] => (self.stride() as isize, self.gap(1) as isize),
            _ => (0, 0),
        };
        bound.limit == 0 || bound.stride == steps.0 && bound.dilation == steps.1
    }

    /// Computes the convolution. Returns without writing if an operand does not fit.
    pub fn run(
        &self,
        cx: Cx<'_>,
        a: Src<'_, f32>,
        w: &[f32],
        scratch: &mut [f32],
        out: Dst<'_, f32>,
        epilogue: Epilogue<'_>,
    ) {
        let fits = self.fits(a.extent(), w.len(), scratch.len(), out.extent());
        if !(fits && self.product.fits_epilogue(&epilogue)) || self.product.is_empty() {
            return;
        }
        // SAFETY: all addresses were just checked.
        unsafe { driver::run(self, cx, a, w, scratch, out, epilogue) }
    }
}

const fn is_one(tap: Tap) -> bool {
    tap.extent == 1
}
