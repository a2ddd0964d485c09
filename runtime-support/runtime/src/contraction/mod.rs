//! One indirect matrix product for convolutions, matrix products, transposed convolutions and recurrent gates.
//!
//! `out[b, m, n] = epilogue(sum over taps t and depth d of a[address(b, m, t) + d] * w[b][t * depth + d][n])`,
//! where addresses are affine in row, tap and batch indices, and bounds replace taps in the padding by zeros.
pub(crate) mod activation;
pub(crate) mod bend;
pub(crate) mod cuts;
mod driver;
mod epilogue;
mod fetches;
mod fold;
mod held;
pub(crate) mod job;
pub(crate) mod kernel;
pub(crate) mod kernels;
pub(crate) mod line;
mod narrow;
mod narrow_kernel;
mod pack;
pub(crate) mod packed;
pub(crate) mod packed_kernel;
pub(crate) mod packed_kernels;
pub(crate) mod parts;
mod planar_kernel;
mod plane_strip;
mod reach;
pub(crate) mod results;
pub(crate) mod rows;
mod single;
mod steps;
mod strassen;
mod strided;
mod strip;
pub(crate) mod table;

pub use activation::{Activation, Slopes};
pub use epilogue::{Epilogue, Then, Tile};
pub(crate) use pack::panel_width;
pub use pack::{pack, pack_lines, packed_len};
pub(crate) use reach::reach;
pub use strided::pack_strided;

use crate::cx::Cx;
use crate::raw::{Dst, Extent, Src};

/// Upper estimate of the stack that a contraction, a window or a function takes: addresses of a block of rows, lists of taps,
/// the tile buffer or copies of lines and folded weights, the largest elements of some columns, spilled registers and frames.
pub const KERNEL_STACK_BYTES: usize =
    size_of::<table::Block>() + if cfg!(target_pointer_width = "64") { 46 * 1024 } else { 3 * 1024 };

/// An outer axis: images are rows, groups and matrix batches are batches. Strides in elements, `w` in packed floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of batches.
    pub extent: usize,
    /// Step of the left operand.
    pub a: isize,
    /// Step of the packed weights.
    pub w: usize,
    /// Step of the result.
    pub out: usize,
    /// Step of the residual.
    pub residual: usize,
    /// Step of the bias.
    pub bias: usize,
}

impl Batch {
    /// A single batch.
    pub const ONE: Batch = Batch { extent: 1, a: 0, w: 0, out: 0, residual: 0, bias: 0 };
}

/// An axis of the output rows (images, output height, output width). Strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAxis {
    /// Number of indices.
    pub extent: usize,
    /// Step of the left operand.
    pub a: isize,
    /// Step of the result.
    pub out: usize,
    /// Step of the residual.
    pub residual: usize,
}

impl RowAxis {
    /// No axis.
    pub const ONE: RowAxis = RowAxis { extent: 1, a: 0, out: 0, residual: 0 };
}

/// An axis of the kernel window. Stride in elements of the left operand. At most 65535 indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Number of indices.
    pub extent: usize,
    /// Step of the left operand.
    pub a: isize,
}

impl Tap {
    /// No axis.
    pub const ONE: Tap = Tap { extent: 1, a: 0 };
}

/// A condition on one row axis and one tap axis: the element is zero unless
/// `0 <= offset + row_index * stride + tap_index * dilation < limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Which row axis, or [`Bound::NO_AXIS`].
    pub row: u8,
    /// Which tap axis, or [`Bound::NO_AXIS`].
    pub tap: u8,
    /// Coefficient of the row index; not negative.
    pub stride: isize,
    /// Coefficient of the tap index.
    pub dilation: isize,
    /// Constant part: minus the padding.
    pub offset: isize,
    /// Extent of the input axis; 0 if the bound is unused.
    pub limit: usize,
}

impl Bound {
    /// The index does not occur.
    pub const NO_AXIS: u8 = 255;

    /// The tap axis; bounds without one count as bounds of the first.
    #[inline(always)]
    pub(crate) fn tap_axis(&self) -> usize {
        if self.tap == Self::NO_AXIS { 0 } else { usize::from(self.tap) }
    }
    /// No condition.
    pub const NONE: Bound =
        Bound { row: Self::NO_AXIS, tap: Self::NO_AXIS, stride: 0, dilation: 0, offset: 0, limit: 0 };
}

/// A contraction. Everything is plain data, so that generated code writes it as a `const`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// Outer axes: matrix batches, groups.
    pub batches: [Batch; 2],
    /// Axes of the output rows, slowest first.
    pub rows: [RowAxis; 4],
    /// Axes of the window, slowest first.
    pub taps: [Tap; 4],
    /// Padding.
    pub bounds: [Bound; 3],
    /// Element of the left operand at all indices 0; negative with padding.
    pub a_offset: isize,
    /// Element of the result at all indices 0.
    pub out_offset: usize,
    /// Element of the residual at all indices 0.
    pub residual_offset: usize,
    /// Contiguous elements of the left operand per tap.
    pub depth: usize,
    /// Output columns, contiguous.
    pub cols: usize,
    /// Columns per panel of packed weights: 4, 8, 16, 32 or 48.
    pub panel: usize,
}

impl Contraction {
    /// One output element from one product; change what differs.
    pub const NEW: Contraction = Contraction {
        batches: [Batch::ONE; 2],
        rows: [RowAxis::ONE; 4],
        taps: [Tap::ONE; 4],
        bounds: [Bound::NONE; 3],
        a_offset: 0,
        out_offset: 0,
        residual_offset: 0,
        depth: 1,
        cols: 1,
        panel: 32,
    };

    /// Products per output element. Saturates.
    #[must_use]
    pub const fn k(&self) -> usize {
        let [a, b, c, d] = self.taps;
        a.extent.saturating_mul(b.extent).saturating_mul(c.extent).saturating_mul(d.extent).saturating_mul(self.depth)
    }

    /// Rows of the window, each of the taps of the last axis. Saturates.
    pub(crate) const fn window_rows(&self) -> usize {
        let [a, b, c, _] = self.taps;
        a.extent.saturating_mul(b.extent).saturating_mul(c.extent)
    }

    /// Output rows per batch. Saturates.
    #[must_use]
    pub const fn m(&self) -> usize {
        let [a, b, c, d] = self.rows;
        a.extent.saturating_mul(b.extent).saturating_mul(c.extent).saturating_mul(d.extent)
    }

    /// Whether nothing is to be computed.
    pub(crate) const fn is_empty(&self) -> bool {
        self.batches[0].extent == 0 || self.batches[1].extent == 0 || self.m() == 0 || self.cols == 0
    }

    /// Whether all addresses stay inside operands of these extents, and `w_len` floats hold the packed weights.
    #[must_use]
    pub const fn fits(&self, a: Extent, w_len: usize, out: Extent) -> bool {
        if !matches!(self.panel, 4 | 8 | 16 | 32 | 48) {
            return false;
        }
        if self.is_empty() {
            return true;
        }
        self.weights_fit(packed_len(self.cols, self.k(), self.panel), w_len)
            && reach(a, self.a_offset, self.depth, &self.a_axes(), &self.bounds)
            && self.fits_rows(out, false)
    }

    /// Whether `len` floats hold the weights of all batches, `one` each.
    pub(crate) const fn weights_fit(&self, one: usize, len: usize) -> bool {
        let [b0, b1] = self.batches;
        match furthest(&[(b0.extent, b0.w), (b1.extent, b1.w)], 0, one) {
            Some(last) => last <= len,
            None => false,
        }
    }

    /// Whether a bias of `len` floats is long enough.
    #[must_use]
    pub const fn fits_bias(&self, len: usize) -> bool {
        let [b0, b1] = self.batches;
        match furthest(&[(b0.extent, b0.bias), (b1.extent, b1.bias)], 0, self.cols) {
            Some(last) => self.is_empty() || last <= len,
            None => false,
        }
    }

    /// Whether all residual addresses stay inside an operand of this extent.
    #[must_use]
    pub const fn fits_residual(&self, residual: Extent) -> bool {
        self.is_empty() || self.fits_rows(residual, true)
    }

    const fn a_axes(&self) -> [(usize, isize); 10] {
        let ([b0, b1], [r0, r1, r2, r3], [t0, t1, t2, t3]) = (self.batches, self.rows, self.taps);
        [
            (r0.extent, r0.a),
            (r1.extent, r1.a),
            (r2.extent, r2.a),
            (r3.extent, r3.a),
            (t0.extent, t0.a),
            (t1.extent, t1.a),
            (t2.extent, t2.a),
            (t3.extent, t3.a),
            (b0.extent, b0.a),
            (b1.extent, b1.a),
        ]
    }

    const fn fits_rows(&self, extent: Extent, residual: bool) -> bool {
        let mut axes = [(1, 0); 10];
        let mut i = 0;
        while i < 4 {
            let axis = self.rows[i];
            axes[i] = (axis.extent, if residual { axis.residual } else { axis.out } as isize);
            i += 1;
        }
        while i < 6 {
            let axis = self.batches[i - 4];
            axes[i + 4] = (axis.extent, if residual { axis.residual } else { axis.out } as isize);
            i += 1;
        }
        let offset = if residual { self.residual_offset } else { self.out_offset };
        // A stride or offset beyond isize turns negative here, and is refused.
        reach(extent, offset as isize, self.cols, &axes, &[Bound::NONE; 3])
    }

    fn fits_all(&self, a: Extent, w_len: usize, out: Extent, epilogue: &Epilogue<'_>) -> bool {
        self.fits(a, w_len, out) && self.fits_epilogue(epilogue)
    }

    /// Whether bias and residual are long enough.
    #[inline]
    pub(crate) fn fits_epilogue(&self, epilogue: &Epilogue<'_>) -> bool {
        epilogue.bias.is_none_or(|bias| self.fits_bias(bias.len()))
            && epilogue.residual.is_none_or(|residual| self.fits_residual(residual.extent()))
    }

    /// Computes the contraction. Returns without writing if an operand does not fit.
    pub fn run(&self, cx: Cx<'_>, a: Src<'_, f32>, w: &[f32], out: Dst<'_, f32>, epilogue: Epilogue<'_>) {
        if self.is_empty() || !self.fits_all(a.extent(), w.len(), out.extent(), &epilogue) {
            return;
        }
        // SAFETY: all addresses were just checked.
        unsafe { driver::run(self, cx, a, w, out, epilogue) }
    }
}

/// `offset` + sum of (extent - 1) * stride + `run`, unless it overflows.
const fn furthest(axes: &[(usize, usize)], offset: usize, run: usize) -> Option<usize> {
    let Some(mut end) = offset.checked_add(run) else {
        return None;
    };
    let mut i = 0;
    while i < axes.len() {
        let Some(step) = axes[i].0.saturating_sub(1).checked_mul(axes[i].1) else {
            return None;
        };
        let Some(sum) = end.checked_add(step) else {
            return None;
        };
        end = sum;
        i += 1;
    }
    Some(end)
}

#[cfg(test)]
pub(crate) mod tests;
