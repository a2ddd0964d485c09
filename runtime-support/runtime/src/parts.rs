//! Nests in parts: every thread gets a range of the slowest iterations and the elements of the result that they store.
use crate::cx::Cx;
use crate::math::{floor_div_usize, floor_mod_usize};
use crate::pod::Pod;
use crate::raw::{Dst, Src};
use crate::view::{View, ViewMut, ViewRow, ViewRowMut};
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

/// Cost of iterations that take a microsecond.
const WORK: usize = 16 * 1024;

/// The elements of a result that belong to one part, addressed as in the whole; at least `STRIDE`.
pub struct Part<'a, T, const STRIDE: usize> {
    /// Start of the whole.
    start: *mut T,
    first: usize,
    len: usize,
    borrow: PhantomData<&'a mut T>,
}

/// The start of a result whose parts do not overlap.
struct Whole<T>(*mut T);

// SAFETY: every thread makes one part of it at a time, and parts have no element in common.
unsafe impl<T: Pod> Sync for Whole<T> {}

/// Computes `n` iterations, of which iteration `i` stores elements `i * STRIDE..(i + 1) * STRIDE` of `y` and each takes about
/// `cost` operations: all at once without a team, else in ranges on the threads that are free. Stores elsewhere have no effect.
///
/// Returns without computing if `y` has gaps or is too short.
#[inline(always)]
pub fn split<T: Pod, const STRIDE: usize>(
    cx: Cx<'_>,
    n: usize,
    cost: usize,
    mut y: Dst<'_, T>,
    f: impl Fn(Range<usize>, &mut Part<'_, T, STRIDE>) + Sync,
) {
    let len = y.extent().contiguous_len().unwrap_or(0);
    if STRIDE == 0 || n == 0 || n.checked_mul(STRIDE).is_none_or(|end| end > len) {
        return;
    }
    let whole = Whole(y.as_mut_ptr());
    let parts = cx.parts(n.saturating_mul(cost), WORK).min(n);
    if parts == 1 {
        return f(0..n, &mut Part { start: whole.0, first: 0, len, borrow: PhantomData });
    }
    cx.split(parts, |range| {
        let whole = &whole;
        for part in range {
            let (first, end) = (portion(n, part, parts), portion(n, part + 1, parts));
            // Parts have iterations, and so elements, of their own, all of them inside `y`, which is borrowed exclusively.
            let (at, len) = (first * STRIDE, (end - first) * STRIDE);
            f(first..end, &mut Part { start: whole.0, first: at, len, borrow: PhantomData });
        }
    });
}

/// Computes rows of `stride` elements of `y`, in parts of `least` rows or more, where each takes `cost` of which `work` take a
/// microsecond: all at once without a team, else on the threads that are free. `f` gets rows and their elements; whether it was
/// true for all.
#[inline(always)]
pub(crate) fn split_rows<T: Pod>(
    cx: Cx<'_>,
    y: &mut [T],
    stride: usize,
    [least, cost]: [usize; 2],
    work: usize,
    f: impl Fn(Range<usize>, &mut [T]) -> bool + Sync,
) -> bool {
    let n = y.len().checked_div(stride).unwrap_or(0);
    let parts = cx.parts(n.saturating_mul(cost), work).min(n.checked_div(least).unwrap_or(1)).max(1);
    if parts == 1 {
        return f(0..n, y);
    }
    let whole = Whole(y.as_mut_ptr());
    split_all(cx, n, parts, |rows| {
        let whole = &whole;
        // SAFETY: parts have rows of their own, all of them inside `y`, which is borrowed exclusively.
        let part = unsafe {
            core::slice::from_raw_parts_mut(whole.0.add(rows.start * stride), (rows.end - rows.start) * stride)
        };
        f(rows, part)
    })
}

/// Computes `n` iterations in so many parts, each once; whether `f` was true for all of them.
#[inline(always)]
pub(crate) fn split_all(cx: Cx<'_>, n: usize, parts: usize, f: impl Fn(Range<usize>) -> bool + Sync) -> bool {
    let all = AtomicBool::new(true);
    cx.split(parts, |range| {
        for part in range {
            if !f(portion(n, part, parts)..portion(n, part + 1, parts)) {
                all.store(false, Ordering::Relaxed);
            }
        }
    });
    all.into_inner()
}

/// Elements of which every thread writes others.
pub(crate) struct Apart<'a, T> {
    whole: Whole<T>,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T: Pod> Apart<'a, T> {
    #[inline(always)]
    pub fn new(y: &'a mut [T]) -> Self {
        Apart { whole: Whole(y.as_mut_ptr()), len: y.len(), borrow: PhantomData }
    }

    /// Writes elements from `at` on; nothing if they do not fit.
    ///
    /// # Safety
    /// No other thread writes them at the same time.
    #[inline(always)]
    pub unsafe fn put(&self, at: usize, values: &[T]) {
        if at.checked_add(values.len()).is_some_and(|end| end <= self.len) {
            // SAFETY: inside the slice, which is borrowed exclusively.
            unsafe { core::ptr::copy_nonoverlapping(values.as_ptr(), self.whole.0.add(at), values.len()) };
        }
    }
}

/// Where a part of n iterations begins: the numbers of parts differ by one at most.
#[inline(always)]
fn portion(n: usize, part: usize, parts: usize) -> usize {
    let (size, rest) = (floor_div_usize(n, parts), floor_mod_usize(n, parts));
    (part * size + floor_div_usize(part * rest, parts)).min(n)
}

/// Calls `f` for a range of the index tuples in row-major order.
#[inline(always)]
pub fn for_each<const RANK: usize>(part: Range<usize>, extents: [usize; RANK], mut f: impl FnMut([usize; RANK])) {
    let mut index = [0; RANK];
    let mut rest = part.start;
    // Slices: the optimiser knows that both have the same length, and leaves no panic for others.
    for (i, extent) in index.iter_mut().zip(&extents).rev() {
        (rest, *i) = (floor_div_usize(rest, *extent), floor_mod_usize(rest, *extent));
    }
    for _ in part {
        f(index);
        for (i, extent) in index.iter_mut().zip(&extents).rev() {
            *i += 1;
            if *i < *extent {
                break;
            }
            *i = 0;
        }
    }
}

impl<T, const STRIDE: usize> Part<'_, T, STRIDE> {
    /// The start of `n` elements from `i`, moved into the part if they are outside.
    #[inline(always)]
    const fn clamped(&self, i: usize, n: usize) -> usize {
        let last = self.first + (self.len - n);
        if i < self.first {
            self.first
        } else if i > last {
            last
        } else {
            i
        }
    }

    /// `n` elements from `i`, cut at the end of the part; none if they begin outside.
    #[inline(always)]
    fn cut(&self, i: usize, n: usize) -> (usize, usize) {
        let left = self.len.saturating_sub(i.wrapping_sub(self.first));
        if left == 0 { (self.first, 0) } else { (i, n.min(left)) }
    }
}

impl<T: Pod, const STRIDE: usize> View for Part<'_, T, STRIDE> {
    type Elem = T;
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        // SAFETY: inside the part.
        if i.wrapping_sub(self.first) < self.len { unsafe { *self.start.add(i) } } else { T::ZERO }
    }
    #[inline(always)]
    fn span(&self, i: usize, n: usize) -> &[T] {
        let (i, n) = self.cut(i, n);
        // SAFETY: `n` elements from `i` are inside the part.
        unsafe { core::slice::from_raw_parts(self.start.add(i), n) }
    }
    #[inline(always)]
    fn src(&self) -> Src<'_, T> {
        Src::from_slice(self.span(self.first, self.len))
    }
}

impl<T: Pod, const STRIDE: usize> ViewMut for Part<'_, T, STRIDE> {
    #[inline(always)]
    fn put(&mut self, i: usize, value: T) {
        if i.wrapping_sub(self.first) < self.len {
            // SAFETY: inside the part, which is borrowed exclusively.
            unsafe { *self.start.add(i) = value };
        }
    }
    #[inline(always)]
    fn span_mut(&mut self, i: usize, n: usize) -> &mut [T] {
        let (i, n) = self.cut(i, n);
        // SAFETY: `n` elements from `i` are inside the part, which is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(i), n) }
    }
    #[inline(always)]
    fn dst(&mut self) -> Dst<'_, T> {
        let (first, len) = (self.first, self.len);
        Dst::from_slice(self.span_mut(first, len))
    }
}

impl<T: Pod, const STRIDE: usize> ViewRow for Part<'_, T, STRIDE> {
    #[inline(always)]
    fn row<const N: usize>(&self, i: usize) -> &[T; N] {
        const { assert!(N <= STRIDE, "run longer than what one iteration stores") };
        // SAFETY: a part has at least STRIDE elements, so N from the clamped start are inside.
        unsafe { &*self.start.add(self.clamped(i, N)).cast::<[T; N]>() }
    }
}

impl<T: Pod, const STRIDE: usize> ViewRowMut for Part<'_, T, STRIDE> {
    #[inline(always)]
    fn row_mut<const N: usize>(&mut self, i: usize) -> &mut [T; N] {
        const { assert!(N <= STRIDE, "run longer than what one iteration stores") };
        // SAFETY: as in `row`, and the part is borrowed exclusively.
        unsafe { &mut *self.start.add(self.clamped(i, N)).cast::<[T; N]>() }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn ranges_of_tuples_follow_each_other() {
        let all = |parts: &[usize]| {
            let mut seen = Vec::new();
            parts.windows(2).for_each(|p| for_each(p[0]..p[1], [2, 3, 5], |i| seen.push(i)));
            seen
        };
        let mut want = Vec::new();
        crate::nest::for_each([2, 3, 5], |i| want.push(i));
        assert_eq!(all(&[0, 30]), want);
        assert_eq!(all(&[0, 1, 7, 29, 30]), want);
    }

    fn check(cx: Cx<'_>) {
        for n in [1, 2, 7, 100, 1001] {
            let mut y = vec![-1i32; n * 3 + 2];
            split::<_, 3>(cx, n, 1 << 20, Dst::from_slice(&mut y), |range, y| {
                for i in range {
                    *y.row_mut::<2>(i * 3) = [i as i32, 1];
                    y.put(i * 3 + 2, y.at(i * 3) * 2);
                }
            });
            let want: Vec<i32> = (0..n as i32).flat_map(|i| [i, 1, 2 * i]).chain([-1, -1]).collect();
            assert_eq!(y, want, "{n}");
        }
        let mut short = [0u8; 5];
        split::<_, 3>(cx, 2, 1, Dst::from_slice(&mut short), |_, y| y.put(0, 1));
        split::<_, 3>(cx, usize::MAX, 1, Dst::from_slice(&mut short), |_, y| y.put(0, 1));
        assert_eq!(short, [0; 5]);
    }

    #[test]
    fn every_iteration_stores_its_elements() {
        check(Cx::detect());
        #[cfg(feature = "threads")]
        for threads in [2, 5] {
            check(Cx::detect().with_team(&crate::team::Team::new(threads)));
        }
    }

    #[test]
    fn nothing_leaves_a_part() {
        let mut whole = [0u8; 40];
        let mut part = Part::<u8, 4> { start: whole.as_mut_ptr(), first: 8, len: 8, borrow: PhantomData };
        for i in (0..60).chain([usize::MAX - 3, usize::MAX]) {
            part.put(i, 1);
            part.row_mut::<4>(i).fill(2);
            part.span_mut(i, 5).fill(3);
            assert!(part.row::<3>(i).len() == 3 && part.span(i, 9).len() <= 8 && part.at(i) <= 3);
        }
        assert_eq!(part.src().extent().row + part.dst().extent().row, 16);
        assert!(whole[..8].iter().chain(&whole[16..]).all(|x| *x == 0));
    }
}
