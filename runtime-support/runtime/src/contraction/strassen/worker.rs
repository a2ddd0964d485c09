//! What one thread computes of a block: results of the columns of two panels, of one, or of those that fill none.
use super::super::fetches::Fetches;
use super::super::job::Place;
use super::super::kernel::{Args, LINE};
use super::super::packed_kernel::{PackedSet, PackedTile};
use super::super::packed_kernels;
use super::{A11, A12, A21, A22, Halves, S1, S2, S3, S4};
use crate::cx::Cx;
use core::ptr::{null, null_mut};

/// A thread at work on a block, with memory of its own.
pub(super) struct Worker<'h> {
    halves: &'h Halves<'h>,
    cx: Cx<'h>,
    /// Sums of quarters of panels.
    weights: [*mut f32; 2],
    /// Sums of products of half the rows, in the columns of a panel.
    sums: [*mut f32; 3],
}

/// Weights that a left operand is multiplied with: a quarter of a panel.
#[derive(Clone, Copy)]
enum Weights {
    Given(*const f32),
    /// To be formed at the first address by the kernel of the first tile: those at the second one less those at the third.
    Difference(*mut f32, *const f32, *const f32),
}

/// What becomes of sums.
#[derive(Clone, Copy)]
enum To {
    /// They wait there.
    Wait(*mut f32),
    /// With all that is added to them, they are results of the upper or the lower rows, from this column on.
    Finish { lower: bool, column: usize },
}

/// What is fetched meanwhile, one after the other: what is left of the first pair, and the panels of the next one.
struct Ahead([Fetches; 4]);

impl Ahead {
    /// For the products of a tile: what is to be fetched, and for how many products a cache line.
    fn next(&mut self, w: *const f32, products: usize) -> (*const f32, usize) {
        self.0.iter_mut().find(|fetches| !fetches.is_done()).map_or((w, LINE), |fetches| fetches.next(w, products))
    }
}

impl<'h> Worker<'h> {
    /// A thread with the memory that begins there.
    pub fn new(halves: &'h Halves<'h>, cx: Cx<'h>, memory: *mut f32) -> Self {
        let width = halves.job.c.panel;
        let (panel, sums) = (halves.k() * width, halves.half() * width);
        let weights = [memory, memory.wrapping_add(panel)];
        let sums = core::array::from_fn(|i| memory.wrapping_add(2 * panel + i * sums));
        Worker { halves, cx, weights, sums }
    }

    /// The upper and the lower quarter of a panel.
    fn quarters(&self, panel: usize) -> [*const f32; 2] {
        let (c, k) = (self.halves.job.c, self.halves.k());
        let upper = self.halves.job.w.wrapping_add(panel * c.panel * c.k());
        [upper, upper.wrapping_add(k * c.panel)]
    }

    /// Weights that are to be fetched meanwhile, of so many products each: with a product of quarters as many as it multiplies with.
    fn ahead(&self, weights: [(*const f32, usize); 4]) -> Option<Ahead> {
        let Halves { job, tiles, sets, .. } = self.halves;
        let set = sets.first()?;
        Some(Ahead(weights.map(|(at, products)| Fetches::new(at, products, job.c.panel, tiles.count(), set))))
    }

    /// The results of the columns of two panels, so many panels apart: seven products. Of the first pair, nothing has been fetched yet.
    ///
    /// # Safety
    /// The descriptor fits all operands; the rows are packed, and the memory is this thread's.
    pub unsafe fn pair(&self, (panel, is_first): (usize, bool), pairs: usize) {
        let ([b11, b21], [b12, b22]) = (self.quarters(panel), self.quarters(panel + pairs));
        let [left, right] = [panel, panel + pairs].map(|panel| panel * self.halves.job.c.panel);
        let ([t, u], [x, y, z]) = (self.weights, self.sums);
        let finish = |lower, column| To::Finish { lower, column };
        let (k, last) = (self.halves.job.c.k(), panel + 1 == pairs);
        let (own, next) = (if is_first { k } else { 0 }, if last { 0 } else { k });
        let [next_left, next_right] = [b11, b12].map(|at| at.wrapping_add(k * self.halves.job.c.panel));
        let weights = [(b21, own / 2), (b12, own), (next_left, next), (next_right, next)];
        let Some(ahead) = &mut self.ahead(weights) else { return };
        // SAFETY: promised by the caller.
        unsafe {
            self.product(A11, Weights::Given(b11), None, To::Wait(x), ahead);
            self.product(A12, Weights::Given(b21), Some(x), finish(false, left), ahead);
            self.product(S1, Weights::Difference(t, b12, b11), None, To::Wait(y), ahead);
            self.product(S2, Weights::Difference(u, b22, t), Some(x), To::Wait(x), ahead);
            self.add(z, x, y);
            self.product(S4, Weights::Given(b22), Some(z), finish(false, right), ahead);
            self.product(S3, Weights::Difference(t, b22, b12), Some(x), To::Wait(x), ahead);
            self.add(y, x, y);
            self.products((A11, 0), Weights::Given(b11), Some(y), finish(true, right), ahead);
            self.product(A22, Weights::Difference(t, b21, u), Some(x), finish(true, left), ahead);
        }
    }

    /// The results of the columns of one panel: plain sums.
    ///
    /// # Safety
    /// As `pair`.
    pub unsafe fn panel(&self, panel: usize) {
        let ([upper, lower], x, column) = (self.quarters(panel), self.sums[0], panel * self.halves.job.c.panel);
        let Some(ahead) = &mut self.ahead([(null(), 0); 4]) else { return };
        for (first, second, is_lower) in [(A11, A12, false), (A21, A22, true)] {
            // SAFETY: promised by the caller.
            unsafe {
                self.product(first, Weights::Given(upper), None, To::Wait(x), ahead);
                self.product(second, Weights::Given(lower), Some(x), To::Finish { lower: is_lower, column }, ahead);
            }
        }
    }

    /// The results of the columns from one on, which fill no panel.
    ///
    /// # Safety
    /// As `pair`.
    pub unsafe fn columns(&self, first: usize) {
        let Halves { job, rows, first_row, direct, then, .. } = self.halves;
        // SAFETY: promised by the caller.
        unsafe { job.panels(direct, (*first_row, rows), first..job.c.cols, *then) }
    }

    /// A product of quarters, added to sums that wait.
    ///
    /// # Safety
    /// As `pair`; the addresses are those of quarters of panels, and of sums.
    unsafe fn product(&self, operand: usize, weights: Weights, from: Option<*mut f32>, to: To, ahead: &mut Ahead) {
        // SAFETY: promised by the caller.
        unsafe { self.products((operand, self.halves.k()), weights, from, to, ahead) }
    }

    /// So many products of each sum of a product of quarters.
    ///
    /// # Safety
    /// As `product`.
    unsafe fn products(
        &self,
        (operand, len): (usize, usize),
        weights: Weights,
        from: Option<*mut f32>,
        to: To,
        ahead: &mut Ahead,
    ) {
        let (sets, width) = (self.halves.sets, self.halves.job.c.panel);
        let mut at = 0;
        while let Some(set) = packed_kernels::suited(sets, width - at, width - at).filter(|_| at < width) {
            // SAFETY: promised by the caller.
            unsafe { self.tiles((set, at), (operand, len), weights, from, to, ahead) };
            at += set.cols;
        }
    }

    /// All tiles times the columns of a kernel, from one of a panel on.
    ///
    /// # Safety
    /// As `product`; there is a kernel that forms the weights.
    unsafe fn tiles(
        &self,
        (set, at): (&PackedSet, usize),
        (operand, len): (usize, usize),
        weights: Weights,
        from: Option<*mut f32>,
        to: To,
        ahead: &mut Ahead,
    ) {
        let Halves { job, rows: table, first_row, tiles, then, .. } = self.halves;
        let (width, half) = (job.c.panel, self.halves.half());
        let (waiting, first, column, then) = match to {
            To::Wait(sums) => (sums, 0, 0, None),
            To::Finish { lower, column } => (from.unwrap_or(null_mut()), if lower { half } else { 0 }, column, *then),
        };
        let (mut forming, mut w, minus, difference) = match weights {
            Weights::Given(w) => (None, w, null(), null_mut()),
            Weights::Difference(to, a, b) => {
                (set.forming(tiles.range(0).len()), a, b.wrapping_add(at), to.wrapping_add(at))
            }
        };
        w = w.wrapping_add(at);
        for rows in tiles.ranges(0..tiles.count()) {
            let (next, each) = ahead.next(w, len);
            let place = first + rows.start..first + rows.end;
            let (first_row, first_col) = (first_row + place.start, column + at);
            let args = Args {
                a: self.halves.operand(operand, rows.start),
                w,
                w_stride: width,
                next,
                ..job.args(table.get(place).unwrap_or_default(), first_col, set.cols)
            };
            let tile = PackedTile {
                args,
                len,
                sums: (waiting.wrapping_add(rows.start * width + at), width),
                resumes: from.is_some(),
                suspends: matches!(to, To::Wait(_)),
                minus,
                difference,
                each: each.max(set.least),
            };
            let plain = rows.len().checked_sub(1).and_then(|i| set.kernels.get(i)).copied();
            if forming.is_some() {
                w = difference.cast_const();
            }
            let Some(kernel) = forming.take().or(plain) else { return };
            // SAFETY: promised by the caller; the kernels are of the context's instruction set.
            unsafe { kernel(&tile) };
            if let Some(then) = then {
                let place = Place { direct: true, rows: rows.len(), cols: set.cols, first_row, first_col };
                // SAFETY: promised by the caller.
                unsafe { job.finished(&args, &place, then) };
            }
        }
    }

    /// Adds sums that wait.
    ///
    /// # Safety
    /// As `product`; what is read is not written, but at the same place.
    unsafe fn add(&self, to: *mut f32, a: *const f32, b: *const f32) {
        let n = self.halves.half() * self.halves.job.c.panel;
        self.cx.vectorize(
            #[inline(always)]
            || {
                for at in (0..n).step_by(LINE) {
                    // SAFETY: promised by the caller; panels are whole chunks wide.
                    unsafe {
                        let mut sums = *a.wrapping_add(at).cast::<[f32; LINE]>();
                        let others = *b.wrapping_add(at).cast::<[f32; LINE]>();
                        for i in 0..LINE {
                            sums[i] += others[i];
                        }
                        *to.wrapping_add(at).cast::<[f32; LINE]>() = sums;
                    }
                }
            },
        );
    }
}
