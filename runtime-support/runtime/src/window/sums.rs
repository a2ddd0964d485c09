//! Sums of all pixels: one row of outputs from many taps. The input is read once, in order; sums wait in the result.
use super::Divisor;
use super::kernel::LIST;
use crate::contraction::job::Job;
use crate::contraction::table::step;
use crate::contraction::{Contraction, Epilogue, Then, Tile};
use crate::cx::Cx;
use crate::isa::VECTORS;
use crate::simd::{Simd, WithSimd, load_first, store_first};
use core::ops::Range;

/// Partial sums of each column, which every instruction set makes alike: additions that do not wait for each other.
const WAYS: usize = 4;

/// Adds pixels at equal distances to the sums.
struct Add {
    a: *const f32,
    step: isize,
    count: usize,
    sums: *mut f32,
    cols: usize,
    /// There are no sums yet.
    first: bool,
}

impl WithSimd for Add {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (pair, mut column) = (2 * S::LANES, 0);
        while column < self.cols {
            let left = self.cols - column;
            // SAFETY: promised by the caller of `run`.
            unsafe {
                if left >= pair {
                    self.columns::<S, 2>(s, column, pair);
                    column += pair;
                } else {
                    self.columns::<S, 1>(s, column, left);
                    column += S::LANES;
                }
            }
        }
    }
}

impl Add {
    /// NV vectors of columns from `column` on, of which `left` exist.
    ///
    /// # Safety
    /// These columns are valid in all pixels and in the sums.
    #[inline(always)]
    unsafe fn columns<S: Simd, const NV: usize>(&self, s: S, column: usize, left: usize) {
        let left = |v: usize| left.saturating_sub(v * S::LANES);
        let mut partial = [[s.splat(0.0); NV]; WAYS];
        let (mut at, mut done) = (self.a.wrapping_add(column), 0);
        // SAFETY: promised by the caller.
        unsafe {
            while done < self.count {
                let ways = (self.count - done).min(WAYS);
                for sums in partial.iter_mut().take(ways) {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = s.add(*sum, load_first(s, at.wrapping_add(v * S::LANES), left(v)));
                    }
                    at = at.wrapping_offset(self.step);
                }
                done += WAYS;
            }
            let [p0, p1, p2, p3] = partial;
            for v in 0..NV {
                let sums = self.sums.wrapping_add(column + v * S::LANES);
                let sum = s.add(s.add(p0[v], p1[v]), s.add(p2[v], p3[v]));
                let sum = if self.first { sum } else { s.add(load_first(s, sums, left(v)), sum) };
                store_first(s, sums, left(v), sum);
            }
        }
    }
}

/// Whether an average is such a sum: of at least a list of taps, none in the padding, with nothing but a closure behind it.
pub(super) fn fits(c: &Contraction, divisor: Divisor, epilogue: &Epilogue<'_>) -> bool {
    let taps = c.taps.iter().fold(1usize, |taps, tap| taps.saturating_mul(tap.extent));
    let plain = epilogue.bias.is_none() && epilogue.residual.is_none() && epilogue.clamp.is_none();
    let all = c.bounds.iter().all(|bound| bound.limit == 0);
    VECTORS && c.m() == 1 && taps >= LIST && all && plain && !epilogue.accumulate && divisor == Divisor::Fixed(1.0)
}

/// The sums of all taps of the only row, in some columns.
///
/// # Safety
/// The geometry fits all operands of the job, and [`fits`] it.
pub(super) unsafe fn run(job: &Job<'_>, cx: Cx<'_>, part: Range<usize>, then: Option<Then<'_>>) {
    let (a, sums) = (job.a.wrapping_add(part.start), job.out.wrapping_add(part.start));
    let (cols, [t0, t1, t2, t3]) = (part.len(), job.c.taps);
    // Lines that follow each other are one.
    let whole = t2.extent == 1 || t2.a == step(t3.extent, t3.a);
    let (lines, count) = if whole { (1, t2.extent.saturating_mul(t3.extent)) } else { (t2.extent, t3.extent) };
    let mut first = true;
    for i0 in 0..t0.extent {
        for i1 in 0..t1.extent {
            for i2 in 0..lines {
                let at = step(i0, t0.a).wrapping_add(step(i1, t1.a)).wrapping_add(step(i2, t2.a));
                cx.dispatch(Add { a: a.wrapping_offset(at), step: t3.a, count, sums, cols, first });
                first = false;
            }
        }
    }
    if let Some(then) = then {
        // SAFETY: the only row of the result, which `run` of the window borrows.
        then(unsafe { Tile::in_steps(job.batch, (0, part.start), sums, (1, cols), cols) });
    }
}
