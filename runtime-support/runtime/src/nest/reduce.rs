//! Reductions of a fixed, documented association order.
//!
//! Reductions keep [`LANES`] accumulators: the value at innermost index `i` goes to lane `i % LANES`, lanes persist over
//! outer indices, and at the end lanes are folded in halves (lane `l` with lane `l + 8`, then 4, 2, 1). Of 4096 innermost
//! indices and more, all but the last few go to four times as many, which are folded into the lanes of the row. The order
//! depends on the extents only, so every instruction set gives the same bits.

use super::combine::{All, Any, Combine, Max, Min, Prod, Sum};
use super::{Number, for_each};
use core::sync::atomic::{Ordering, compiler_fence};

/// Accumulators of a reduction: one AVX-512 register of `f32`.
pub const LANES: usize = 16;
/// Half of them: a vector of AVX2.
const HALF: usize = LANES / 2;
/// Lanes of long rows: each waits for its last sum, and several vectors of them do so at the same time.
const WIDE: usize = 4 * LANES;
/// Elements of a long row: others, as of a layer normalisation, are in the first-level cache and begin anew often.
const LONG: usize = 4096;

/// What a reduction has combined of the rows that it has taken.
#[derive(Debug)]
pub struct Lanes<C: Combine> {
    lanes: [C::Lane; LANES],
    /// How many values it has taken.
    taken: usize,
}

impl<C: Combine> Lanes<C> {
    #[inline(always)]
    fn new() -> Self {
        Self { lanes: [C::neutral(); LANES], taken: 0 }
    }

    /// Takes `f(0)`, ..., `f(n - 1)`: a row along the innermost axis.
    #[inline(always)]
    pub fn row(&mut self, n: usize, f: impl FnMut(usize) -> C::Value) {
        // Windows have short rows, which padding cuts: there, one more question takes longer than it saves.
        self.take::<false>(n, f);
    }

    /// The same; with `HALVES`, eight elements that are left are a vector.
    #[inline(always)]
    fn take<const HALVES: bool>(&mut self, n: usize, mut f: impl FnMut(usize) -> C::Value) {
        self.taken = self.taken.wrapping_add(n);
        let lanes = &mut self.lanes;
        let mut done = 0;
        if n >= LONG {
            let mut wide: [C::Lane; WIDE] = core::array::from_fn(
                #[inline(always)]
                |l| C::lane(f(l)),
            );
            done = WIDE;
            while n - done >= WIDE {
                wide = core::array::from_fn(
                    #[inline(always)]
                    |l| {
                        // SAFETY: this many are left.
                        unsafe { core::hint::assert_unchecked(done + l < n) };
                        C::combine(wide[l], C::lane(f(done + l)))
                    },
                );
                done += WIDE;
            }
            let (parts, _) = wide.as_chunks::<LANES>();
            for part in parts {
                for (lane, value) in lanes.iter_mut().zip(part) {
                    *lane = C::combine(*lane, *value);
                }
            }
        }
        while n - done >= LANES {
            for (l, lane) in lanes.iter_mut().enumerate() {
                // SAFETY: this many are left.
                unsafe { core::hint::assert_unchecked(done + l < n) };
                *lane = C::combine(*lane, C::lane(f(done + l)));
            }
            // Vectors are made of the lanes, not of turns of the loop.
            compiler_fence(Ordering::SeqCst);
            done += LANES;
        }
        // In terms of `n` alone, so that nothing is left to decide where it is known.
        let (done, rest) = (n - n % LANES, n % LANES);
        // Half of the lanes are a vector, too. A row that is no longer than one is made of elements of other rows instead.
        if HALVES && crate::isa::VECTORS && n > HALF && rest >= HALF {
            let (first, second) = lanes.split_at_mut(HALF);
            for (l, lane) in first.iter_mut().enumerate() {
                // SAFETY: this many are left.
                unsafe { core::hint::assert_unchecked(done + l < n) };
                *lane = C::combine(*lane, C::lane(f(done + l)));
            }
            compiler_fence(Ordering::SeqCst);
            for (l, lane) in second.iter_mut().enumerate().take(rest - HALF) {
                *lane = C::combine(*lane, C::lane(f(done + HALF + l)));
            }
            return;
        }
        for (l, lane) in lanes.iter_mut().enumerate().take(rest) {
            *lane = C::combine(*lane, C::lane(f(done + l)));
        }
    }

    /// The value of everything that was taken.
    #[inline(always)]
    fn total(self) -> C::Value {
        let lanes = if self.taken > LANES { C::held(self.lanes) } else { self.lanes };
        C::value(fold_lanes(lanes, C::combine))
    }
}

/// Folds the lanes in halves. Written out, so that they stay in registers.
#[inline(always)]
fn fold_lanes<T: Copy>(lanes: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = lanes;
    let [a0, a1, a2, a3] = [f(a0, b0), f(a1, b1), f(a2, b2), f(a3, b3)];
    let [b0, b1, b2, b3] = [f(a4, b4), f(a5, b5), f(a6, b6), f(a7, b7)];
    let [a0, a1, a2, a3] = [f(a0, b0), f(a1, b1), f(a2, b2), f(a3, b3)];
    f(f(a0, a2), f(a1, a3))
}

/// Reduces one row.
#[inline(always)]
fn reduce<C: Combine>(n: usize, f: impl FnMut(usize) -> C::Value) -> C::Value {
    // A loop around a row of few elements is made of vectors, each of an element of as many rows; of longer ones these are
    // gathered.
    if n > HALF {
        compiler_fence(Ordering::SeqCst);
    }
    let mut lanes = Lanes::<C>::new();
    lanes.take::<true>(n, f);
    lanes.total()
}

/// Reduces the rows that `f` has taken at every outer index tuple.
#[inline(always)]
fn reduce_rows<C: Combine, const RANK: usize>(
    extents: [usize; RANK],
    mut f: impl FnMut(&mut Lanes<C>, [usize; RANK]),
) -> C::Value {
    let mut lanes = Lanes::new();
    for_each(
        extents,
        #[inline(always)]
        |outer| f(&mut lanes, outer),
    );
    lanes.total()
}

/// Sum of `f(0)`, ..., `f(n - 1)`.
#[inline(always)]
pub fn sum<T: Number>(n: usize, f: impl FnMut(usize) -> T) -> T {
    reduce::<Sum<T>>(n, f)
}

/// Sum of the rows that `f` adds at every outer index tuple.
#[inline(always)]
pub fn sum_rows<T: Number, const RANK: usize>(
    extents: [usize; RANK],
    f: impl FnMut(&mut Lanes<Sum<T>>, [usize; RANK]),
) -> T {
    reduce_rows(extents, f)
}

/// Product of `f(0)`, ..., `f(n - 1)`.
#[inline(always)]
pub fn prod<T: Number>(n: usize, f: impl FnMut(usize) -> T) -> T {
    reduce::<Prod<T>>(n, f)
}

/// Product of the rows that `f` adds at every outer index tuple.
#[inline(always)]
pub fn prod_rows<T: Number, const RANK: usize>(
    extents: [usize; RANK],
    f: impl FnMut(&mut Lanes<Prod<T>>, [usize; RANK]),
) -> T {
    reduce_rows(extents, f)
}

/// Greatest value of `f(0)`, ..., `f(n - 1)`.
#[inline(always)]
pub fn max<T: Number>(n: usize, f: impl FnMut(usize) -> T) -> T {
    reduce::<Max<T>>(n, f)
}

/// Greatest value of the rows that `f` adds at every outer index tuple.
#[inline(always)]
pub fn max_rows<T: Number, const RANK: usize>(
    extents: [usize; RANK],
    f: impl FnMut(&mut Lanes<Max<T>>, [usize; RANK]),
) -> T {
    reduce_rows(extents, f)
}

/// Least value of `f(0)`, ..., `f(n - 1)`.
#[inline(always)]
pub fn min<T: Number>(n: usize, f: impl FnMut(usize) -> T) -> T {
    reduce::<Min<T>>(n, f)
}

/// Least value of the rows that `f` adds at every outer index tuple.
#[inline(always)]
pub fn min_rows<T: Number, const RANK: usize>(
    extents: [usize; RANK],
    f: impl FnMut(&mut Lanes<Min<T>>, [usize; RANK]),
) -> T {
    reduce_rows(extents, f)
}

/// Whether any of `f(0)`, ..., `f(n - 1)` hold. Evaluates every one.
#[inline(always)]
pub fn any(n: usize, f: impl FnMut(usize) -> bool) -> bool {
    reduce::<Any>(n, f)
}

/// Whether any of the rows that `f` adds at every outer index tuple hold. Evaluates every one.
#[inline(always)]
pub fn any_rows<const RANK: usize>(extents: [usize; RANK], f: impl FnMut(&mut Lanes<Any>, [usize; RANK])) -> bool {
    reduce_rows(extents, f)
}

/// Whether all of `f(0)`, ..., `f(n - 1)` hold. Evaluates every one.
#[inline(always)]
pub fn all(n: usize, f: impl FnMut(usize) -> bool) -> bool {
    reduce::<All>(n, f)
}

/// Whether all of the rows that `f` adds at every outer index tuple hold. Evaluates every one.
#[inline(always)]
pub fn all_rows<const RANK: usize>(extents: [usize; RANK], f: impl FnMut(&mut Lanes<All>, [usize; RANK])) -> bool {
    reduce_rows(extents, f)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn long_rows_take_every_element_once() {
        for n in [LONG - 1, LONG, LONG + 1, LONG + LANES + 3, LONG + WIDE - 1, 3 * LONG + 77] {
            let mut seen = std::vec![0; n];
            let total = sum(n, |i| {
                seen[i] += 1;
                i as i64
            });
            assert_eq!(total, (n * (n - 1) / 2) as i64);
            assert!(seen.iter().all(|count| *count == 1), "{n}");
            assert_eq!(sum_rows([2], |lanes, [a]| lanes.row(n, |i| (a * i) as i64)), total);
            for at in [0, n / 2, n - 1] {
                assert_eq!(max(n, |i| if i == at { 1.0f32 } else { -1.0 }), 1.0);
            }
        }
    }

    /// The documented order, written another way.
    fn documented_sum(rows: &[Vec<f32>]) -> f32 {
        let mut lanes = [0.0f32; 16];
        for row in rows {
            for (i, x) in row.iter().enumerate() {
                lanes[i % 16] += x;
            }
        }
        let a: [f32; 8] = core::array::from_fn(|l| lanes[l] + lanes[l + 8]);
        let b: [f32; 4] = core::array::from_fn(|l| a[l] + a[l + 4]);
        (b[0] + b[2]) + (b[1] + b[3])
    }

    #[test]
    fn sums_follow_the_documented_order() {
        let x = |i: usize| ((i * 7919) % 1013) as f32 * 0.37 - 180.0;
        for n in 0..70 {
            let row: Vec<f32> = (0..n).map(x).collect();
            assert_eq!(sum(n, x).to_bits(), documented_sum(&[row]).to_bits(), "{n}");
            let rows: Vec<Vec<f32>> = (0..6).map(|j| (0..n).map(|i| x(j * n + i)).collect()).collect();
            let got = sum_rows([2, 3], |lanes, [a, b]| lanes.row(n, |c| x((a * 3 + b) * n + c)));
            assert_eq!(got.to_bits(), documented_sum(&rows).to_bits(), "{n}");
        }
    }

    #[test]
    fn extremes_keep_nan_and_empty_is_neutral() {
        let x = [1.0f32, f32::NAN, 3.0];
        assert!(max(3, |i| x[i]).is_nan() && min(3, |i| x[i]).is_nan());
        assert_eq!(
            (max(0, |_| 0.0f32), min(0, |_| 0i32), sum(0, |_| 0u8), prod(0, |_| 2i64)),
            (f32::NEG_INFINITY, i32::MAX, 0, 1)
        );
        assert_eq!(sum(300, |_| 1u8), 44);
        assert!(any(40, |i| i == 39) && !all(40, |i| i != 17) && all(0, |_| false) && !any(0, |_| true));
    }
}
