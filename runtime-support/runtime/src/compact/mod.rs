//! Contractions whose weights are stored in fewer bits than they are computed with: halves, or numbers on a grid of 4 or 8 bits.
//!
//! Few rows are as fast as memory hands out weights: half the bytes take half the time. Weights become f32 in registers; where
//! rows are many, that goes on beside the products of the row before. Sums are those of [`Contraction`] up to the order of
//! their terms.
mod codes;
mod driver;
mod pack;
#[cfg(test)]
mod tests;
mod tile;

pub use pack::pack_compact;

use crate::contraction::packed::padded;
use crate::contraction::table::BLOCK;
use crate::contraction::{Contraction, Epilogue, panel_width};
use crate::cx::Cx;
use crate::math::ceil_div_usize;
use crate::raw::{Dst, Extent, Src};

/// Products of a sum whose codes lie together.
const STEP: usize = 4;

/// How a weight is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// As a 16-bit float.
    Halves,
    /// As `(code - zero) * scale` with a code from 0 to 255 and a whole zero up to 2^16.
    Bytes,
    /// The same with a code from 0 to 15.
    Nibbles,
}

impl Form {
    /// Bits of a weight.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Form::Halves => 16,
            Form::Bytes => 8,
            Form::Nibbles => 4,
        }
    }
}

/// A contraction with compact weights. Plain data, so that generated code writes it as a `const`.
///
/// Of every panel of columns there follow, group by group of products, the scales of all columns, their zeros, both as f32, and
/// the codes, product by product; without a grid, just the codes. Numbers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compact {
    /// The contraction. Its batches have the same weights; `panel` is that of the compact weights: 16 or 32.
    pub product: Contraction,
    /// How weights are stored.
    pub form: Form,
    /// Products of a sum that have one scale: a divisor of their number, and a multiple of 4 unless it is all of them, as it is
    /// without a grid.
    pub group: usize,
}

impl Compact {
    /// Groups of products.
    const fn groups(&self) -> usize {
        ceil_div_usize(self.product.k(), self.group)
    }

    /// Bytes of the grid of a group and a panel of so many columns. Saturates.
    const fn grid_bytes(&self, width: usize) -> usize {
        match self.form {
            Form::Halves => 0,
            Form::Bytes | Form::Nibbles => width.saturating_mul(2 * size_of::<f32>()),
        }
    }

    /// Bytes of a group of products and a panel of so many columns. Saturates.
    const fn group_bytes(&self, width: usize) -> usize {
        let (steps, bits) = (ceil_div_usize(self.group, STEP), STEP * self.form.bits());
        self.grid_bytes(width).saturating_add(steps.saturating_mul(width).saturating_mul(bits / 8))
    }

    /// Bytes of a panel of so many columns. Saturates.
    const fn panel_bytes(&self, width: usize) -> usize {
        self.groups().saturating_mul(self.group_bytes(width))
    }

    /// Bytes of the weights. Saturates.
    #[must_use]
    pub const fn weights_len(&self) -> usize {
        let (cols, panel) = (self.product.cols, self.product.panel);
        if panel == 0 || cols == 0 {
            return 0;
        }
        let last = (ceil_div_usize(cols, panel) - 1).saturating_mul(panel);
        let whole = ceil_div_usize(cols, panel) - 1;
        let rest = self.panel_bytes(panel_width(cols, last, panel));
        whole.saturating_mul(self.panel_bytes(panel)).saturating_add(rest)
    }

    /// Floats of working memory. Saturates.
    #[must_use]
    pub const fn scratch_len(&self) -> usize {
        let m = self.product.m();
        padded(self.product.k()).saturating_mul(if m < BLOCK { m } else { BLOCK })
    }

    /// Whether the descriptor is of the form, all addresses stay inside operands of these extents, and weights and working memory
    /// are long enough.
    #[must_use]
    pub const fn fits(&self, a: Extent, w_len: usize, scratch_len: usize, out: Extent) -> bool {
        let (c, k) = (&self.product, self.product.k());
        // Without products there would be no group, but kernels read the scales of one.
        let whole = self.group > 0
            && (self.group == k
                || !matches!(self.form, Form::Halves)
                    && self.group.is_multiple_of(STEP)
                    && k.is_multiple_of(self.group));
        let shared = c.batches[0].w == 0 && c.batches[1].w == 0;
        matches!(c.panel, 16 | 32)
            && whole
            && k > 0
            && (shared || c.batches[0].extent <= 1 && c.batches[1].extent <= 1)
            && self.weights_len() <= w_len
            && self.weights_len() < usize::MAX
            && self.scratch_len() <= scratch_len
            && self.scratch_len() < usize::MAX
            && c.fits(a, usize::MAX, out)
    }

    /// Computes the contraction. Returns without writing if an operand does not fit.
    // Compiled where a model calls it, not for all models.
    #[inline]
    pub fn run(
        &self,
        cx: Cx<'_>,
        a: Src<'_, f32>,
        w: &[u8],
        scratch: &mut [f32],
        out: Dst<'_, f32>,
        epilogue: Epilogue<'_>,
    ) {
        let fits = self.fits(a.extent(), w.len(), scratch.len(), out.extent());
        if fits && self.product.fits_epilogue(&epilogue) && !self.product.is_empty() {
            // SAFETY: all addresses were just checked.
            unsafe { driver::run(self, cx, a, w, scratch, out, epilogue) }
        }
    }
}

/// The columns of a panel with those that fill its last unit.
const fn width(c: &Contraction, panel: usize) -> usize {
    panel_width(c.cols, panel * c.panel, c.panel)
}
