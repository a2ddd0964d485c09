//! Attention: products of queries and keys, their softmax, and the sums of values that it weighs, a few rows at a time, so that
//! scores never leave the near caches.
//!
//! `out[b, m, v] = epilogue(sum over s of softmax over s(scored(scale * sum over e of q[b, m, e] * k[b, e, s])) * v[b, s, v])`
mod driver;
mod pack;
mod softmax;
#[cfg(test)]
mod tests;

use crate::contraction::{Bound, Contraction, Epilogue, RowAxis, Tap, packed_len, reach};
use crate::cx::Cx;
use crate::raw::{Dst, Extent, Src};

/// An operand that is packed for every batch: element (k, n) at `offset + k * self.k + n * self.n`, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Element (0, 0) of the first batch.
    pub offset: usize,
    /// Steps of the batches.
    pub batches: [usize; 2],
    /// Step along the sum.
    pub k: usize,
    /// Step along the columns.
    pub n: usize,
}

/// An attention. Everything is plain data, so that generated code writes it as a `const`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Queries times keys. Rows and batches say nothing of the result: it is working memory.
    pub scores: Contraction,
    /// The keys.
    pub keys: Matrix,
    /// The factor of every score, before the epilogue.
    pub scale: f32,
    /// Weights times values. Rows and batches say nothing of the left operand: it is working memory.
    pub sums: Contraction,
    /// The values.
    pub values: Matrix,
    /// Keys that row 0 sees; every next row sees one more. All see all where it is `ALL`.
    pub seen: usize,
    /// Rows that are computed at once.
    pub height: usize,
    /// Parts that have working memory of their own.
    pub slots: usize,
}

impl Attention {
    /// Every row sees all keys.
    pub const ALL: usize = usize::MAX;

    /// Floats of working memory of one part, with so many keys, products per score, columns of the result, and rows at once.
    /// Saturates.
    #[must_use]
    pub const fn slot_len(keys: usize, depth: usize, cols: usize, panel: usize, height: usize) -> usize {
        let packed = packed_len(keys, depth, panel).saturating_add(packed_len(cols, keys, panel));
        packed.saturating_add(height.saturating_mul(pitch(keys)))
    }

    /// Floats of working memory.
    const fn scratch_len(&self) -> usize {
        let (keys, depth) = (self.scores.cols, self.scores.k());
        self.slots.saturating_mul(Self::slot_len(keys, depth, self.sums.cols, self.scores.panel, self.height))
    }

    /// Keys that a row sees.
    const fn seen(&self, row: usize) -> usize {
        let (seen, keys) = (self.seen.saturating_add(row), self.scores.cols);
        if seen < keys { seen } else { keys }
    }

    /// Distances of neighbours along the row axes, in working memory.
    const fn steps(&self) -> [usize; 4] {
        let ([_, b, c, d], last) = (self.scores.rows, pitch(self.scores.cols));
        let third = last.saturating_mul(d.extent);
        let second = third.saturating_mul(c.extent);
        [second.saturating_mul(b.extent), second, third, last]
    }

    /// Whether the values of a batch already are a panel.
    const fn values_are_panels(&self) -> bool {
        let (cols, panel) = (self.sums.cols, self.sums.panel);
        self.values.n == 1 && self.values.k == cols && matches!(cols, 16 | 32) && cols <= panel
    }

    /// The products of one batch, as they lie in working memory from row 0 on.
    const fn scored(&self) -> Contraction {
        let mut c = self.scores;
        let ([a, b, d, e], [i, j, k, l]) = (c.rows, self.steps());
        c.rows = [RowAxis { out: i, ..a }, RowAxis { out: j, ..b }, RowAxis { out: k, ..d }, RowAxis { out: l, ..e }];
        (c.batches[0].out, c.batches[1].out, c.batches[0].w, c.batches[1].w, c.out_offset) = (0, 0, 0, 0, 0);
        c
    }

    /// The sums of one batch, from working memory.
    const fn summed(&self) -> Contraction {
        let mut c = self.sums;
        let ([a, b, d, e], [i, j, k, l]) = (c.rows, self.steps());
        let (i, j, k, l) = (i as isize, j as isize, k as isize, l as isize);
        c.rows = [RowAxis { a: i, ..a }, RowAxis { a: j, ..b }, RowAxis { a: k, ..d }, RowAxis { a: l, ..e }];
        (c.batches[0].a, c.batches[1].a, c.batches[0].w, c.batches[1].w, c.a_offset) = (0, 0, 0, 0, 0);
        (c.taps, c.bounds, c.depth) = ([Tap::ONE; 4], [Bound::NONE; 3], self.scores.cols);
        c
    }

    const fn is_empty(&self) -> bool {
        let [b0, b1] = self.scores.batches;
        b0.extent == 0 || b1.extent == 0 || self.scores.m() == 0 || self.scores.cols == 0 || self.sums.cols == 0
    }

    /// Whether all addresses stay inside operands of these extents and `scratch` floats of working memory.
    #[must_use]
    pub const fn fits(&self, q: Extent, k: Extent, v: Extent, scratch: usize, out: Extent) -> bool {
        if self.is_empty() {
            return true;
        }
        let (scored, summed) = (self.scored(), self.summed());
        let ([a0, a1], [b0, b1]) = (scored.batches, summed.batches);
        let rows = scored.m();
        let same = a0.extent == b0.extent && a1.extent == b1.extent && summed.m() == rows;
        let panels = scored.panel == summed.panel && self.height > 0 && self.slots > 0 && self.seen > 0;
        let whole = Extent::contiguous(rows.saturating_mul(pitch(scored.cols)));
        let (keys, values) =
            (packed_len(scored.cols, scored.k(), scored.panel), packed_len(summed.cols, summed.depth, summed.panel));
        same && panels
            && self.scratch_len() <= scratch
            && scored.fits(q, keys, whole)
            && summed.fits(whole, values, out)
            && self.keys.fits(k, &scored)
            && self.values.fits(v, &summed)
    }

    /// Computes the attention; `scored` is applied to scores, `finished` to the result. Returns without writing if an operand
    /// does not fit.
    #[allow(clippy::too_many_arguments)]
    pub fn run(
        &self,
        cx: Cx<'_>,
        q: Src<'_, f32>,
        k: Src<'_, f32>,
        v: Src<'_, f32>,
        scratch: &mut [f32],
        out: Dst<'_, f32>,
        scored: Epilogue<'_>,
        finished: Epilogue<'_>,
    ) {
        let fits = |c: Contraction, epilogue: &Epilogue<'_>| {
            epilogue.bias.is_none_or(|bias| c.fits_bias(bias.len()))
                && epilogue.residual.is_none_or(|residual| c.fits_residual(residual.extent()))
        };
        let operands = self.fits(q.extent(), k.extent(), v.extent(), scratch.len(), out.extent());
        if self.scores.cols == 0 {
            // Sums of no values are 0, before what happens to them.
            return self.summed().run(cx, Src::from_slice(scratch), &[], out, finished);
        }
        if self.is_empty() || !operands || !fits(self.scored(), &scored) || !fits(self.summed(), &finished) {
            return;
        }
        // SAFETY: all addresses were just checked.
        unsafe { driver::run(self, cx, (q, k, v), scratch, out, (scored, finished)) }
    }
}

impl Matrix {
    /// Whether the operand of this extent holds all elements that the contraction takes from the matrix.
    const fn fits(&self, extent: Extent, c: &Contraction) -> bool {
        let ([b0, b1], none) = (c.batches, (1, 0));
        let axes = [
            (c.k(), self.k as isize),
            (c.cols, self.n as isize),
            (b0.extent, self.batches[0] as isize),
            (b1.extent, self.batches[1] as isize),
            none,
            none,
            none,
            none,
            none,
            none,
        ];
        // A stride or offset beyond isize turns negative here, and is refused.
        c.k() > 0 && reach(extent, self.offset as isize, 1, &axes, &[Bound::NONE; 3])
    }
}

/// Distance of rows of scores: whole vectors, and an odd number of cache lines, so that rows do not push each other out of the
/// nearest cache.
const fn pitch(keys: usize) -> usize {
    (keys.div_ceil(16) | 1).saturating_mul(16)
}
