//! Depthwise convolution and pooling: every channel on its own, vectors over contiguous channels.
//!
//! Rows, taps, bounds and addresses are those of [`Contraction`], with `channels` contiguous elements per tap and per
//! output row.
mod driver;
mod kernel;
mod line_kernel;
mod lines;
mod long_kernel;
mod near;
mod one_vector;
mod planes;
mod pool_kernel;
mod sums;

pub use near::shares_sets;

use crate::contraction::{Batch, Bound, Contraction, Epilogue, RowAxis, Tap};
use crate::cx::Cx;
use crate::raw::{Dst, Extent, Src};

/// What a sum over a window is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divisor {
    /// A constant; 1 gives the sum.
    Fixed(f32),
    /// The number of taps that are not in the padding; an output of padding only is 0.
    InBounds,
}

/// A window operation. Everything is plain data, so that generated code writes it as a `const`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Outer axes. `w` is the step of depthwise weights.
    pub batches: [Batch; 2],
    /// Axes of the output rows, slowest first.
    pub rows: [RowAxis; 4],
    /// Axes of the window, slowest first.
    pub taps: [Tap; 4],
    /// Padding.
    pub bounds: [Bound; 3],
    /// Element of the operand at all indices 0; negative with padding.
    pub a_offset: isize,
    /// Element of the result at all indices 0.
    pub out_offset: usize,
    /// Element of the residual at all indices 0.
    pub residual_offset: usize,
    /// Contiguous channels.
    pub channels: usize,
}

/// The operation of a window.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Depthwise,
    Max,
    Average(Divisor),
}

impl Window {
    /// One output element from one input element; change what differs.
    pub const NEW: Window = Window {
        batches: [Batch::ONE; 2],
        rows: [RowAxis::ONE; 4],
        taps: [Tap::ONE; 4],
        bounds: [Bound::NONE; 3],
        a_offset: 0,
        out_offset: 0,
        residual_offset: 0,
        channels: 1,
    };

    /// The addresses as those of a contraction with one weight per tap and column.
    pub(crate) const fn geometry(&self) -> Contraction {
        Contraction {
            batches: self.batches,
            rows: self.rows,
            taps: self.taps,
            bounds: self.bounds,
            a_offset: self.a_offset,
            out_offset: self.out_offset,
            residual_offset: self.residual_offset,
            depth: self.channels,
            cols: self.channels,
            panel: 4,
        }
    }

    /// Taps of the window. Saturates.
    #[must_use]
    pub const fn window(&self) -> usize {
        Contraction { depth: 1, ..self.geometry() }.k()
    }

    /// Whether all addresses stay inside operands of these extents.
    #[must_use]
    pub const fn fits(&self, a: Extent, out: Extent) -> bool {
        let mut geometry = self.geometry();
        // Weights are checked by `fits_weights`.
        (geometry.batches[0].w, geometry.batches[1].w) = (0, 0);
        geometry.fits(a, usize::MAX, out)
    }

    /// Whether `len` floats hold the depthwise weights, `[tap][channel]`.
    #[must_use]
    pub const fn fits_weights(&self, len: usize) -> bool {
        let mut one = self.geometry();
        (one.batches[0].bias, one.batches[1].bias) = (one.batches[0].w, one.batches[1].w);
        one.cols = self.window().saturating_mul(self.channels);
        one.fits_bias(len)
    }

    /// Depthwise convolution with weights `[tap][channel]`. Returns without writing if an operand does not fit.
    pub fn depthwise(&self, cx: Cx<'_>, a: Src<'_, f32>, w: &[f32], out: Dst<'_, f32>, epilogue: Epilogue<'_>) {
        if self.fits_weights(w.len()) {
            self.run(cx, Operation::Depthwise, a, w, out, epilogue);
        }
    }

    /// Greatest value of the window; NaN stays NaN, padding only gives negative infinity. Returns without writing if an
    /// operand does not fit.
    pub fn max(&self, cx: Cx<'_>, a: Src<'_, f32>, out: Dst<'_, f32>, epilogue: Epilogue<'_>) {
        self.run(cx, Operation::Max, a, &[], out, epilogue);
    }

    /// Sum of the window divided by `divisor`. Returns without writing if an operand does not fit.
    pub fn average(&self, cx: Cx<'_>, a: Src<'_, f32>, out: Dst<'_, f32>, divisor: Divisor, epilogue: Epilogue<'_>) {
        self.run(cx, Operation::Average(divisor), a, &[], out, epilogue);
    }

    fn run(
        &self,
        cx: Cx<'_>,
        operation: Operation,
        a: Src<'_, f32>,
        w: &[f32],
        out: Dst<'_, f32>,
        epilogue: Epilogue<'_>,
    ) {
        let geometry = self.geometry();
        let bias_fits = epilogue.bias.is_none_or(|bias| geometry.fits_bias(bias.len()));
        let residual_fits = epilogue.residual.is_none_or(|residual| geometry.fits_residual(residual.extent()));
        let empty = self.channels == 0 || geometry.m() == 0 || self.batches.iter().any(|batch| batch.extent == 0);
        if empty || !(self.fits(a.extent(), out.extent()) && bias_fits && residual_fits) {
            return;
        }
        // SAFETY: all addresses were just checked.
        unsafe { driver::run(&geometry, cx, operation, a, w, out, epilogue) }
    }
}

#[cfg(test)]
mod tests;
