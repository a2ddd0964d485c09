//! The softmax of rows of scores, in place.
use crate::blocks::blocks_mut;
use crate::contraction::activation::exp;
use crate::simd::{Simd, WithSimd};

/// Exponentials of less than this would soon be subnormal: they count as zero.
const LEAST: f32 = -87.0;
/// Vectors that are computed at once.
const GROUP: usize = 4;

/// The work: rows of `keys` scores, at a distance that leaves room for whole vectors.
pub(super) struct Softmax<'a> {
    pub rows: &'a mut [f32],
    pub pitch: usize,
    pub keys: usize,
}

impl WithSimd for Softmax<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.keys.div_ceil(16).saturating_mul(16);
        for row in blocks_mut(self.rows, self.pitch) {
            let Some(row) = row.get_mut(..width) else { return };
            row.get_mut(self.keys..).unwrap_or_default().fill(f32::NEG_INFINITY);
            let most = greatest(s, row);
            let sum = exponentials(s, row, most);
            multiply(s, row, 1.0 / sum);
        }
    }
}

/// Vector number `i` of the group at `at`.
#[inline(always)]
fn vector<S: Simd>(row: *mut f32, at: usize, i: usize) -> *mut f32 {
    row.wrapping_add(at + i * S::LANES)
}

/// The greatest of whole vectors. A NaN may go unnoticed: the sum is NaN anyway.
#[inline(always)]
fn greatest<S: Simd>(s: S, row: &mut [f32]) -> f32 {
    let (start, end, step) = (row.as_mut_ptr(), row.len(), GROUP * S::LANES);
    let mut most = [s.splat(f32::NEG_INFINITY); GROUP];
    let mut at = 0;
    // SAFETY: whole vectors of the row.
    unsafe {
        while at + step <= end {
            for (i, most) in most.iter_mut().enumerate() {
                *most = s.max(*most, s.load(vector::<S>(start, at, i)));
            }
            at += step;
        }
        while at + S::LANES <= end {
            most[0] = s.max(most[0], s.load(vector::<S>(start, at, 0)));
            at += S::LANES;
        }
    }
    let [a, b, c, d] = most;
    s.greatest(s.max(s.max(a, b), s.max(c, d)))
}

/// The exponentials of the differences from the greatest score, and their sum.
#[inline(always)]
fn exponentials<S: Simd>(s: S, row: &mut [f32], most: f32) -> f32 {
    let (start, end, step) = (row.as_mut_ptr(), row.len(), GROUP * S::LANES);
    let most = s.splat(most);
    let mut sums = [s.splat(0.0); GROUP];
    let mut at = 0;
    // SAFETY: whole vectors of the row.
    unsafe {
        while at + step <= end {
            let mut x = [most; GROUP];
            for (i, x) in x.iter_mut().enumerate() {
                *x = s.sub(s.load(vector::<S>(start, at, i)), most);
            }
            let y = powers(s, x);
            for (i, (sum, y)) in sums.iter_mut().zip(y).enumerate() {
                s.store(vector::<S>(start, at, i), y);
                *sum = s.add(*sum, y);
            }
            at += step;
        }
        while at + S::LANES <= end {
            let p = vector::<S>(start, at, 0);
            let [y] = powers(s, [s.sub(s.load(p), most)]);
            s.store(p, y);
            sums[0] = s.add(sums[0], y);
            at += S::LANES;
        }
    }
    let [a, b, c, d] = sums;
    s.sum(s.add(s.add(a, b), s.add(c, d)))
}

/// e^x, 0 for very small ones.
#[inline(always)]
fn powers<S: Simd, const N: usize>(s: S, x: [S::F32; N]) -> [S::F32; N] {
    let mut y = exp(s, x);
    for (y, x) in y.iter_mut().zip(x) {
        *y = s.select(s.lt(x, s.splat(LEAST)), s.splat(0.0), *y);
    }
    y
}

#[inline(always)]
fn multiply<S: Simd>(s: S, row: &mut [f32], by: f32) {
    let (start, end, by) = (row.as_mut_ptr(), row.len(), s.splat(by));
    let mut at = 0;
    while at + S::LANES <= end {
        let p = vector::<S>(start, at, 0);
        // SAFETY: a whole vector of the row.
        unsafe { s.store(p, s.mul(s.load(p), by)) };
        at += S::LANES;
    }
}
