//! The softmax of rows of scores, in place.
use crate::blocks::blocks_mut;
use crate::contraction::activation::exp;
use crate::simd::{Simd, WithSimd};

/// Exponentials of less than this would soon be subnormal: they count as zero.
const LEAST: f32 = -87.0;
/// Vectors that are computed at once.
const GROUP: usize = 4;
/// Rows that are seen together, so that none waits for the greatest score or the sum of another.
const ROWS: usize = 8;
/// Most lanes of a vector.
const LANES: usize = 16;

/// The work: rows of `keys` scores, at a distance that leaves room for whole vectors. The first row sees so many of them, every
/// next row one more; what a row does not see weighs nothing.
pub(super) struct Softmax<'a> {
    pub rows: &'a mut [f32],
    pub pitch: usize,
    pub keys: usize,
    pub seen: usize,
}

impl WithSimd for Softmax<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.keys.div_ceil(LANES).saturating_mul(LANES);
        let mut seen = self.seen;
        for rows in blocks_mut(self.rows, self.pitch.saturating_mul(ROWS)) {
            let mut numbers = [0.0; ROWS];
            for (row, number) in blocks_mut(rows, self.pitch).zip(&mut numbers) {
                let Some(row) = row.get_mut(..width) else { return };
                row.get_mut(seen.min(self.keys)..).unwrap_or_default().fill(f32::NEG_INFINITY);
                *number = greatest(s, row);
                seen = seen.saturating_add(1);
            }
            for (row, number) in blocks_mut(rows, self.pitch).zip(&mut numbers) {
                *number = exponentials(s, row.get_mut(..width).unwrap_or_default(), *number);
            }
            for (row, number) in blocks_mut(rows, self.pitch).zip(&numbers) {
                multiply(s, row.get_mut(..width).unwrap_or_default(), 1.0 / *number);
            }
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
    let mut lanes = [f32::NEG_INFINITY; LANES];
    // SAFETY: whole vectors of the row; a vector has at most LANES lanes.
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
        let [a, b, c, d] = most;
        s.store(lanes.as_mut_ptr(), s.max(s.max(a, b), s.max(c, d)));
    }
    let [most] = half::<2, 1>(half::<4, 2>(half::<8, 4>(half::<16, 8>(lanes))));
    most
}

/// The greater ones of both halves.
#[inline(always)]
fn half<const N: usize, const H: usize>(all: [f32; N]) -> [f32; H] {
    let mut out = [f32::NEG_INFINITY; H];
    for (out, (a, b)) in out.iter_mut().zip(all.iter().zip(all.get(H..).unwrap_or_default())) {
        *out = if a > b { *a } else { *b };
    }
    out
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

/// e^x for x up to 0, 0 for very small ones.
#[inline(always)]
fn powers<S: Simd, const N: usize>(s: S, x: [S::F32; N]) -> [S::F32; N] {
    let (least, zero) = (s.splat(LEAST), s.splat(0.0));
    let mut powers = exp(s, x);
    for (power, x) in powers.iter_mut().zip(x) {
        *power = s.select(s.lt(x, least), zero, *power);
    }
    powers
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
