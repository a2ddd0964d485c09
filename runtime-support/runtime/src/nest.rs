//! Loop combinators of generated nests: tight inner loops, and reductions whose order of association is fixed and documented.
//!
//! Everything is `#[inline(always)]` so that closures vectorise inside [`crate::cx::Cx::vectorize`].

mod combine;
mod number;
mod reduce;
mod repeated;

pub use number::Number;
pub use reduce::{
    LANES, Lanes, all, all_rows, any, any_rows, max, max_rows, min, min_rows, prod, prod_rows, sum, sum_rows,
};
pub use repeated::Repeated;

use crate::pod::Pod;
use core::sync::atomic::{Ordering, compiler_fence};

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
    spread_every::<T, N, M, 1>(elements)
}

/// Of `N` elements every one at a distance of `STEP`, the last one among them, as often as fills `M`.
#[inline(always)]
#[must_use]
pub fn spread_every<T: Pod, const N: usize, const M: usize, const STEP: usize>(elements: &[T; N]) -> [T; M] {
    const { assert!(STEP > 0 && N % STEP == 1 % STEP && M.is_multiple_of(N.div_ceil(STEP))) };
    let (mut all, times) = ([T::ZERO; M], const { M / N.div_ceil(STEP) });
    for (part, element) in all.chunks_exact_mut(times).zip(elements.iter().step_by(STEP)) {
        part.fill(*element);
        // Else many long parts are written at once, their elements scattered.
        if times > 8 {
            compiler_fence(Ordering::SeqCst);
        }
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

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

    #[test]
    fn folds_go_in_turn() {
        assert_eq!(fold(5, 1, |a, i| a * 2 + i), 58);
    }
}
