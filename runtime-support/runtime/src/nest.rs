//! Loop combinators of generated nests: tight inner loops and reductions of a fixed, documented association order.
//!
//! Reductions keep [`LANES`] accumulators: the value at innermost index `i` goes to lane `i % LANES`, lanes persist over
//! outer indices, and at the end lanes are folded in halves (lane `l` with lane `l + 8`, then 4, 2, 1). Of 4096 innermost
//! indices and more, all but the last few go to four times as many, which are folded into the lanes of the row. The order
//! depends on the extents only, so every instruction set gives the same bits.
//! Everything is `#[inline(always)]` so that closures vectorise inside [`crate::cx::Cx::vectorize`].

mod number;

pub use number::Number;

use crate::pod::Pod;
use core::sync::atomic::{Ordering, compiler_fence};

/// Accumulators of a reduction: one AVX-512 register of `f32`.
pub const LANES: usize = 16;
/// Lanes of long rows: each waits for its last sum, and several vectors of them do so at the same time.
const WIDE: usize = 4 * LANES;
/// Elements of a long row: others, as of a layer normalisation, are in the first-level cache and begin anew often.
const LONG: usize = 4096;

/// Calls `f` for 0, 1, ..., `n - 1`.
#[inline(always)]
pub fn map(n: usize, mut f: impl FnMut(usize)) {
    for i in 0..n {
        f(i);
    }
}

/// A row of `N` elements again and again: as many as fill `M`.
#[inline(always)]
#[must_use]
pub fn repeat<T: Pod, const N: usize, const M: usize>(row: &[T; N]) -> [T; M] {
    const { assert!(M.is_multiple_of(N)) };
    let mut all = [T::ZERO; M];
    all.as_chunks_mut::<N>().0.iter_mut().for_each(
        #[inline(always)]
        |part| *part = *row,
    );
    all
}

/// Every one of `N` elements as often as fills `M`.
#[inline(always)]
#[must_use]
pub fn spread<T: Pod, const N: usize, const M: usize>(elements: &[T; N]) -> [T; M] {
    const { assert!(M.is_multiple_of(N)) };
    let mut all = [T::ZERO; M];
    for (part, element) in all.chunks_exact_mut(M / N).zip(elements) {
        part.fill(*element);
    }
    all
}

/// Calls `f` for every index tuple in row-major order (the last index is the fastest).
#[inline(always)]
pub fn for_each<const RANK: usize>(extents: [usize; RANK], mut f: impl FnMut([usize; RANK])) {
    rows(
        extents,
        #[inline(always)]
        |mut index, n| {
            for i in 0..n {
                if let Some(last) = index.last_mut() {
                    *last = i;
                }
                f(index);
            }
        },
    );
}

/// Calls `f` with every outer index tuple (last entry 0) and the innermost extent.
#[inline(always)]
fn rows<const RANK: usize>(extents: [usize; RANK], mut f: impl FnMut([usize; RANK], usize)) {
    let Some(innermost) = extents.last().copied() else { return f([0; RANK], 1) };
    if extents.contains(&0) {
        return;
    }
    let mut index = [0; RANK];
    loop {
        f(index, innermost);
        let mut axis = RANK - 1;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            let (Some(i), Some(extent)) = (index.get_mut(axis), extents.get(axis)) else { return };
            *i += 1;
            if *i < *extent {
                break;
            }
            *i = 0;
        }
    }
}

/// Sequential fold over 0, 1, ..., `n - 1` (running sums, recurrences).
#[inline(always)]
pub fn fold<T>(n: usize, init: T, mut f: impl FnMut(T, usize) -> T) -> T {
    let mut acc = init;
    for i in 0..n {
        acc = f(acc, i);
    }
    acc
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

/// One innermost row of a reduction.
#[inline(always)]
fn accumulate<T: Copy>(lanes: &mut [T; LANES], n: usize, mut f: impl FnMut(usize) -> T, combine: &impl Fn(T, T) -> T) {
    let mut done = 0;
    if n >= LONG {
        let mut wide: [T; WIDE] = core::array::from_fn(&mut f);
        done = WIDE;
        while n - done >= WIDE {
            wide = core::array::from_fn(
                #[inline(always)]
                |l| {
                    // SAFETY: this many are left.
                    unsafe { core::hint::assert_unchecked(done + l < n) };
                    combine(wide[l], f(done + l))
                },
            );
            done += WIDE;
        }
        let (parts, _) = wide.as_chunks::<LANES>();
        for part in parts {
            for (lane, value) in lanes.iter_mut().zip(part) {
                *lane = combine(*lane, *value);
            }
        }
    }
    while n - done >= LANES {
        for (l, lane) in lanes.iter_mut().enumerate() {
            // SAFETY: this many are left.
            unsafe { core::hint::assert_unchecked(done + l < n) };
            *lane = combine(*lane, f(done + l));
        }
        // Vectors are made of the lanes, not of turns of the loop.
        compiler_fence(Ordering::SeqCst);
        done += LANES;
    }
    for (l, lane) in lanes.iter_mut().enumerate().take(n - done) {
        *lane = combine(*lane, f(done + l));
    }
}

/// Lanes of `f(0)`, ..., `f(n - 1)`, combined from `neutral` on.
#[inline(always)]
fn lanes<T: Copy>(n: usize, neutral: T, f: impl FnMut(usize) -> T, combine: &impl Fn(T, T) -> T) -> [T; LANES] {
    // Else a loop around this one may be vectorised instead, which gathers from many rows at once.
    compiler_fence(Ordering::SeqCst);
    let mut lanes = [neutral; LANES];
    accumulate(&mut lanes, n, f, combine);
    lanes
}

/// Lanes of `f` over all index tuples, combined from `neutral` on.
#[inline(always)]
fn lanes_nd<T: Copy, const RANK: usize>(
    extents: [usize; RANK],
    neutral: T,
    mut f: impl FnMut([usize; RANK]) -> T,
    combine: &impl Fn(T, T) -> T,
) -> [T; LANES] {
    let mut lanes = [neutral; LANES];
    rows(
        extents,
        #[inline(always)]
        |mut index, n| {
            accumulate(
                &mut lanes,
                n,
                #[inline(always)]
                |i| {
                    if let Some(last) = index.last_mut() {
                        *last = i;
                    }
                    f(index)
                },
                combine,
            );
        },
    );
    lanes
}

/// Reduces `f(0)`, ..., `f(n - 1)` with an associative `combine` whose neutral element is `neutral`.
#[inline(always)]
pub fn reduce<T: Copy>(n: usize, neutral: T, f: impl FnMut(usize) -> T, combine: impl Fn(T, T) -> T) -> T {
    reduce_held(
        n,
        neutral,
        f,
        combine,
        #[inline(always)]
        |lanes| lanes,
    )
}

/// [`reduce`] with lanes that go through `hold` where there are more elements than lanes.
#[inline(always)]
fn reduce_held<T: Copy>(
    n: usize,
    neutral: T,
    mut f: impl FnMut(usize) -> T,
    combine: impl Fn(T, T) -> T,
    hold: impl Fn([T; LANES]) -> [T; LANES],
) -> T {
    if n > LANES {
        return fold_lanes(hold(lanes(n, neutral, f, &combine)), combine);
    }
    // A loop around a short row is made of vectors, each of an element of as many rows; of longer ones these are gathered.
    if n > LANES / 2 {
        compiler_fence(Ordering::SeqCst);
    }
    let mut lanes = [neutral; LANES];
    for (l, lane) in lanes.iter_mut().enumerate().take(n) {
        *lane = combine(*lane, f(l));
    }
    fold_lanes(lanes, combine)
}

/// Reduces `f` over all index tuples with an associative `combine` whose neutral element is `neutral`.
#[inline(always)]
pub fn reduce_nd<T: Copy, const RANK: usize>(
    extents: [usize; RANK],
    neutral: T,
    f: impl FnMut([usize; RANK]) -> T,
    combine: impl Fn(T, T) -> T,
) -> T {
    fold_lanes(lanes_nd(extents, neutral, f, &combine), combine)
}

/// [`reduce_nd`] with lanes that go through `hold` where there are more elements than lanes.
#[inline(always)]
fn reduce_nd_held<T: Copy, const RANK: usize>(
    extents: [usize; RANK],
    neutral: T,
    f: impl FnMut([usize; RANK]) -> T,
    combine: impl Fn(T, T) -> T,
    hold: impl Fn([T; LANES]) -> [T; LANES],
) -> T {
    let lanes = lanes_nd(extents, neutral, f, &combine);
    let many = extents.iter().fold(1usize, |count, extent| count.saturating_mul(*extent)) > LANES;
    fold_lanes(if many { hold(lanes) } else { lanes }, combine)
}

/// Sum of `f(0)`, ..., `f(n - 1)`.
#[inline(always)]
pub fn sum<T: Number>(n: usize, f: impl FnMut(usize) -> T) -> T {
    reduce_held(n, T::ZERO, f, T::add, T::held)
}

/// Sum of `f` over all index tuples.
#[inline(always)]
pub fn sum_nd<T: Number, const RANK: usize>(extents: [usize; RANK], f: impl FnMut([usize; RANK]) -> T) -> T {
    reduce_nd_held(extents, T::ZERO, f, T::add, T::held)
}

/// Product of `f(0)`, ..., `f(n - 1)`.
#[inline(always)]
pub fn prod<T: Number>(n: usize, f: impl FnMut(usize) -> T) -> T {
    reduce_held(n, T::ONE, f, T::mul, T::held)
}

/// Product of `f` over all index tuples.
#[inline(always)]
pub fn prod_nd<T: Number, const RANK: usize>(extents: [usize; RANK], f: impl FnMut([usize; RANK]) -> T) -> T {
    reduce_nd_held(extents, T::ONE, f, T::mul, T::held)
}

/// Greatest value of `f(0)`, ..., `f(n - 1)`.
#[inline(always)]
pub fn max<T: Number>(n: usize, mut f: impl FnMut(usize) -> T) -> T {
    T::of_order(reduce(
        n,
        T::LOWEST.or_greatest(),
        #[inline(always)]
        |i| f(i).or_greatest(),
        T::Order::max,
    ))
}

/// Greatest value of `f` over all index tuples.
#[inline(always)]
pub fn max_nd<T: Number, const RANK: usize>(extents: [usize; RANK], mut f: impl FnMut([usize; RANK]) -> T) -> T {
    T::of_order(reduce_nd(
        extents,
        T::LOWEST.or_greatest(),
        #[inline(always)]
        |i| f(i).or_greatest(),
        T::Order::max,
    ))
}

/// Least value of `f(0)`, ..., `f(n - 1)`.
#[inline(always)]
pub fn min<T: Number>(n: usize, mut f: impl FnMut(usize) -> T) -> T {
    T::of_order(reduce(
        n,
        T::HIGHEST.or_least(),
        #[inline(always)]
        |i| f(i).or_least(),
        T::Order::min,
    ))
}

/// Least value of `f` over all index tuples.
#[inline(always)]
pub fn min_nd<T: Number, const RANK: usize>(extents: [usize; RANK], mut f: impl FnMut([usize; RANK]) -> T) -> T {
    T::of_order(reduce_nd(
        extents,
        T::HIGHEST.or_least(),
        #[inline(always)]
        |i| f(i).or_least(),
        T::Order::min,
    ))
}

/// Whether any of `f(0)`, ..., `f(n - 1)` hold. Evaluates every one.
#[inline(always)]
pub fn any(n: usize, f: impl FnMut(usize) -> bool) -> bool {
    reduce(
        n,
        false,
        f,
        #[inline(always)]
        |a, b| a | b,
    )
}

/// Whether any of `f` hold over the index tuples. Evaluates every one.
#[inline(always)]
pub fn any_nd<const RANK: usize>(extents: [usize; RANK], f: impl FnMut([usize; RANK]) -> bool) -> bool {
    reduce_nd(
        extents,
        false,
        f,
        #[inline(always)]
        |a, b| a | b,
    )
}

/// Whether all of `f(0)`, ..., `f(n - 1)` hold. Evaluates every one.
#[inline(always)]
pub fn all(n: usize, f: impl FnMut(usize) -> bool) -> bool {
    reduce(
        n,
        true,
        f,
        #[inline(always)]
        |a, b| a & b,
    )
}

/// Whether all of `f` hold over the index tuples. Evaluates every one.
#[inline(always)]
pub fn all_nd<const RANK: usize>(extents: [usize; RANK], f: impl FnMut([usize; RANK]) -> bool) -> bool {
    reduce_nd(
        extents,
        true,
        f,
        #[inline(always)]
        |a, b| a & b,
    )
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
            assert_eq!(sum_nd([2, n], |[a, i]| (a * i) as i64), total);
            for at in [0, n / 2, n - 1] {
                assert_eq!(max(n, |i| if i == at { 1.0f32 } else { -1.0 }), 1.0);
            }
        }
    }

    #[test]
    fn for_each_is_row_major() {
        let mut seen = Vec::new();
        for_each([2, 1, 3], |i| seen.push(i));
        assert_eq!(seen, [[0, 0, 0], [0, 0, 1], [0, 0, 2], [1, 0, 0], [1, 0, 1], [1, 0, 2]]);
        let mut calls = 0;
        for_each([], |[]| calls += 1);
        assert_eq!(calls, 1);
        for_each([3, 0, 2], |_| calls += 1);
        assert_eq!(calls, 1);
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
            let got = sum_nd([2, 3, n], |[a, b, c]| x((a * 3 + b) * n + c));
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
        assert_eq!(fold(5, 1, |a, i| a * 2 + i), 58);
    }
}
