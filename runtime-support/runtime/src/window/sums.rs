//! Sums of all pixels: one row of outputs from many taps. The input is read once, in order; sums wait in the result.
use super::Divisor;
use super::kernel::{LIST, TapAt};
use crate::contraction::job::Job;
use crate::contraction::table::step;
use crate::contraction::{Contraction, Epilogue, Then, Tile};
use crate::cx::Cx;
use crate::isa::VECTORS;
use crate::simd::{Simd, WithSimd, load_first, store_first};

/// Taps that are added before sums go back to the result.
const GROUP: usize = 8;

/// Adds the taps of a list to the sums.
struct Add<'a> {
    a: *const f32,
    taps: &'a [TapAt],
    sums: *mut f32,
    cols: usize,
    /// There are no sums yet.
    first: bool,
}

impl WithSimd for Add<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (groups, rest) = self.taps.as_chunks::<GROUP>();
        let mut first = self.first;
        for group in groups {
            // SAFETY: promised by the caller of `run`.
            unsafe { self.add(s, group, first) };
            first = false;
        }
        for tap in rest {
            // SAFETY: as above.
            unsafe { self.add(s, core::array::from_ref(tap), first) };
            first = false;
        }
    }
}

impl Add<'_> {
    /// # Safety
    /// All columns are valid at all taps and in the sums.
    #[inline(always)]
    unsafe fn add<S: Simd, const N: usize>(&self, s: S, taps: &[TapAt; N], first: bool) {
        let mut column = 0;
        while column < self.cols {
            let (left, sums) = (self.cols - column, self.sums.wrapping_add(column));
            // SAFETY: promised by the caller.
            unsafe {
                let mut sum = if first { s.splat(0.0) } else { load_first(s, sums, left) };
                for tap in taps {
                    let at = self.a.wrapping_offset(tap.at).wrapping_add(column);
                    sum = s.add(sum, load_first(s, at, left));
                }
                store_first(s, sums, left, sum);
            }
            column += S::LANES;
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

/// The sums of all taps of the only row.
///
/// # Safety
/// The geometry fits all operands of the job, and [`fits`] it.
pub(super) unsafe fn run(job: &Job<'_>, cx: Cx<'_>, then: Option<Then<'_>>) {
    let (a, sums, cols, [t0, t1, t2, t3]) = (job.a, job.out, job.c.cols, job.c.taps);
    let mut list = [TapAt { at: 0, index: 0 }; LIST];
    let (mut used, mut first) = (0, true);
    for i0 in 0..t0.extent {
        for i1 in 0..t1.extent {
            for i2 in 0..t2.extent {
                let at = step(i0, t0.a).wrapping_add(step(i1, t1.a)).wrapping_add(step(i2, t2.a));
                for i3 in 0..t3.extent {
                    if let Some(slot) = list.get_mut(used) {
                        slot.at = at.wrapping_add(step(i3, t3.a));
                    }
                    used += 1;
                    if used == LIST {
                        cx.dispatch(Add { a, taps: &list, sums, cols, first });
                        (used, first) = (0, false);
                    }
                }
            }
        }
    }
    cx.dispatch(Add { a, taps: list.get(..used).unwrap_or_default(), sums, cols, first });
    if let Some(then) = then {
        // SAFETY: the only row of the result, which `run` of the window borrows.
        then(unsafe { Tile::in_steps(job.batch, (0, 0), sums, (1, cols), cols) });
    }
}
