//! Copies between two orders of the dimensions: squares that are read along one of them and written along the other.
//!
//! A loop over the result alone would touch a cache line of the operand for every element.
use crate::contraction::parts::are_apart;
use crate::contraction::{Bound, reach};
use crate::cx::Cx;
use crate::isa::transposed;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use crate::pod::Pod;
use crate::raw::{Dst, Extent, Src};
use core::ops::Range;

/// Elements of a square that is copied at once, along both dimensions: cache lines of 4-byte elements.
const BLOCK: usize = 16;
/// Rows and columns that registers transpose.
pub(crate) const SQUARE: usize = 4;
/// Elements of a tile along the result's contiguous axis, or along the operand's where the result has too few side by side for
/// squares: what several tiles read stays in the cache.
const LONG: usize = 512;
/// Lines at distances of multiples of this many bytes share few sets of the first-level cache.
const SET: usize = 512;
/// Elements that take a microsecond.
const WORK: usize = 2048;

/// One axis of the copy. Steps in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyAxis {
    /// Number of indices.
    pub extent: usize,
    /// Step of the operand.
    pub a: usize,
    /// Step of the result.
    pub out: usize,
}

impl CopyAxis {
    /// No axis.
    pub const ONE: CopyAxis = CopyAxis { extent: 1, a: 0, out: 0 };
}

/// A copy whose operand and result are contiguous along different axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transpose {
    /// All other axes, slowest first.
    pub outer: [CopyAxis; 3],
    /// The axis along which the operand is contiguous.
    pub along_a: CopyAxis,
    /// The axis along which the result is contiguous.
    pub along_out: CopyAxis,
    /// First element of the operand.
    pub a_offset: usize,
    /// First element of the result.
    pub out_offset: usize,
}

/// Where the copy reads and writes, for all threads.
struct Operands<T>(*const T, *mut T);

// SAFETY: the operand is shared, and parts of the copy write different elements of the result.
unsafe impl<T: Pod> Sync for Operands<T> {}

impl Transpose {
    const fn axes(&self) -> [CopyAxis; 5] {
        let [a, b, c] = self.outer;
        [a, b, c, self.along_a, self.along_out]
    }

    /// Whether all elements lie inside an operand and a result of these extents, and axes are contiguous as they say.
    #[must_use]
    pub const fn fits(&self, a: Extent, out: Extent) -> bool {
        let (mut from, mut to, axes) = ([(1, 0); 10], [(1, 0); 10], self.axes());
        let mut i = 0;
        while i < axes.len() {
            // Rows and batches: kernels keep the indices of taps in 16 bits. A step beyond isize turns negative, and is refused.
            let at = if i < 4 { i } else { i + 4 };
            from[at] = (axes[i].extent, axes[i].a as isize);
            to[at] = (axes[i].extent, axes[i].out as isize);
            i += 1;
        }
        let none = [Bound::NONE; 3];
        self.along_a.a == 1
            && self.along_out.out == 1
            && reach(a, self.a_offset as isize, 1, &from, &none)
            && reach(out, self.out_offset as isize, 1, &to, &none)
    }

    /// Whether no element of the result is written twice.
    fn is_apart(&self) -> bool {
        are_apart(self.axes().iter().map(|axis| (axis.extent, axis.out)), 1)
    }

    /// Copies. Returns without writing if an operand does not fit.
    pub fn run<T: Pod>(&self, cx: Cx<'_>, a: Src<'_, T>, mut out: Dst<'_, T>) {
        let outer = self.outer.iter().fold(1, |n: usize, axis| n.saturating_mul(axis.extent));
        let tiles = Tiles::of(self);
        let count = outer.saturating_mul(tiles.along_out).saturating_mul(tiles.along_a);
        if count == 0 || !self.fits(a.extent(), out.extent()) {
            return;
        }
        let operands = Operands(a.as_ptr().wrapping_add(self.a_offset), out.as_mut_ptr().wrapping_add(self.out_offset));
        let cx = if cx.threads() == 1 || self.is_apart() { cx } else { cx.alone() };
        let elements = self.along_out.extent.saturating_mul(self.along_a.extent);
        let parts = cx.parts(outer.saturating_mul(elements), WORK).min(count);
        cx.split(parts, |range| {
            let Operands(from, to) = &operands;
            for part in range {
                let tile = |part: usize| floor_div_usize(count.saturating_mul(part), parts);
                // SAFETY: all elements were just checked; parts have other tiles each.
                cx.vectorize(
                    #[inline(always)]
                    || unsafe { self.tiles(tile(part)..tile(part + 1), &tiles, *from, *to) },
                );
            }
        });
    }

    /// Some of the tiles of all outer indices.
    ///
    /// # Safety
    /// The descriptor fits what `from` and `to` point to.
    #[inline(always)]
    unsafe fn tiles<T: Pod>(&self, range: Range<usize>, tiles: &Tiles, from: *const T, to: *mut T) {
        let [o0, o1, o2] = self.outer;
        let extents = [o0.extent, o1.extent, o2.extent, tiles.along_out, tiles.along_a];
        let (mut index, mut rest) = ([0; 5], range.start);
        for (index, extent) in index.iter_mut().rev().zip(extents.into_iter().rev()) {
            (rest, *index) = (floor_div_usize(rest, extent), floor_mod_usize(rest, extent));
        }
        for _ in range {
            let [i0, i1, i2, j, i] = index;
            let (i, j) = (i * tiles.block, j * LONG);
            let at = |steps: [usize; 5]| {
                let terms = steps.into_iter().zip([i0, i1, i2, i, j]);
                terms.fold(0usize, |sum, (step, index)| sum.wrapping_add(step.wrapping_mul(index)))
            };
            let from = from.wrapping_add(at([o0.a, o1.a, o2.a, 1, self.along_out.a]));
            let to = to.wrapping_add(at([o0.out, o1.out, o2.out, self.along_a.out, 1]));
            let (rows, n) = (tiles.block.min(self.along_a.extent - i), LONG.min(self.along_out.extent - j));
            // SAFETY: promised by the caller.
            unsafe { self.tile(from, to, rows, n) };
            for (index, extent) in index.iter_mut().rev().zip(extents.into_iter().rev()) {
                *index += 1;
                if *index < extent {
                    break;
                }
                *index = 0;
            }
        }
    }

    /// One tile: `rows` elements along the contiguous axis of the operand, `n` along that of the result.
    ///
    /// # Safety
    /// They are valid.
    #[inline(always)]
    unsafe fn tile<T: Pod>(&self, from: *const T, to: *mut T, rows: usize, n: usize) {
        let (a, out) = (self.along_out.a, self.along_a.out);
        // SAFETY: promised by the caller; what lies side by side is dense.
        unsafe {
            match (rows, n) {
                (_, 2) if out == 2 => return join::<T, 2>(from, a, to, rows),
                (_, 3) if out == 3 => return join::<T, 3>(from, a, to, rows),
                (2, _) if a == 2 => return part::<T, 2>(from, to, out, n),
                (3, _) if a == 3 => return part::<T, 3>(from, to, out, n),
                _ => {}
            }
        }
        if rows < SQUARE || n < SQUARE {
            for i in 0..rows {
                for j in 0..n {
                    // SAFETY: inside the tile.
                    unsafe { *to.wrapping_add(i * out + j) = *from.wrapping_add(j * a + i) };
                }
            }
            return;
        }
        // The last squares overlap those before them.
        let copy = |i: usize, j: usize| {
            let (i, j) = (i.min(rows - SQUARE), j.min(n - SQUARE));
            // SAFETY: squares inside the tile.
            unsafe { square(from.wrapping_add(j * a + i), a, to.wrapping_add(j + i * out), out) }
        };
        if floor_mod_usize(out * size_of::<T>(), SET) == 0 {
            // Lines of the result that share a set of the cache are finished one after the other.
            for first in (0..n).step_by(BLOCK) {
                for i in (0..rows).step_by(SQUARE) {
                    (first..n.min(first + BLOCK)).step_by(SQUARE).for_each(|j| copy(i, j));
                }
            }
        } else {
            for j in (0..n).step_by(SQUARE) {
                (0..rows).step_by(SQUARE).for_each(|i| copy(i, j));
            }
        }
    }
}

/// How many tiles there are along both axes.
struct Tiles {
    along_out: usize,
    along_a: usize,
    /// Elements of a tile along the operand's contiguous axis.
    block: usize,
}

impl Tiles {
    fn of(t: &Transpose) -> Tiles {
        let block = if t.along_out.extent < SQUARE { LONG } else { BLOCK };
        Tiles {
            along_out: ceil_div_usize(t.along_out.extent, LONG),
            along_a: ceil_div_usize(t.along_a.extent, block),
            block,
        }
    }
}

/// N lines of `len` elements that lie `a` apart, side by side: the colours of a picture.
///
/// # Safety
/// All elements are valid.
#[inline(always)]
unsafe fn join<T: Pod, const N: usize>(from: *const T, a: usize, to: *mut T, len: usize) {
    // SAFETY: promised by the caller; arrays have the alignment of their elements.
    let points = unsafe { core::slice::from_raw_parts_mut(to.cast::<[T; N]>(), len) };
    // SAFETY: promised by the caller.
    let lines: [&[T]; N] =
        core::array::from_fn(|j| unsafe { core::slice::from_raw_parts(from.wrapping_add(j * a), len) });
    for (i, point) in points.iter_mut().enumerate() {
        *point = lines.map(|line| line.get(i).copied().unwrap_or(T::ZERO));
    }
}

/// The reverse: `len` points of N elements, as N lines that lie `out` apart.
///
/// # Safety
/// All elements are valid, and no two of the result's are the same.
#[inline(always)]
unsafe fn part<T: Pod, const N: usize>(from: *const T, to: *mut T, out: usize, len: usize) {
    // SAFETY: promised by the caller; arrays have the alignment of their elements.
    let points = unsafe { core::slice::from_raw_parts(from.cast::<[T; N]>(), len) };
    for j in 0..N {
        // SAFETY: promised by the caller.
        let line = unsafe { core::slice::from_raw_parts_mut(to.wrapping_add(j * out), len) };
        for (x, point) in line.iter_mut().zip(points) {
            *x = point[j];
        }
    }
}

/// A square: `SQUARE` rows that lie `a` apart become columns of rows that lie `out` apart.
///
/// # Safety
/// All its elements are valid.
#[inline(always)]
pub(crate) unsafe fn square<T: Pod>(from: *const T, a: usize, to: *mut T, out: usize) {
    if size_of::<T>() == size_of::<u32>() {
        // SAFETY: promised by the caller; elements are plain data of this size.
        return unsafe {
            square_of_words(
                from.cast(),
                a,
                to.cast(),
                out,
                #[inline(always)]
                |x| x,
            )
        };
    }
    for i in 0..SQUARE {
        for j in 0..SQUARE {
            // SAFETY: promised by the caller.
            unsafe { *to.wrapping_add(i * out + j) = *from.wrapping_add(j * a + i) };
        }
    }
}

/// The same of words, changed by `f` on their way. They need no alignment.
///
/// # Safety
/// As [`square`].
#[inline(always)]
pub(crate) unsafe fn square_of_words(
    from: *const u32,
    a: usize,
    to: *mut u32,
    out: usize,
    f: impl Fn(u32) -> u32 + Copy,
) {
    let rows = core::array::from_fn(|j| {
        // SAFETY: promised by the caller.
        unsafe { from.wrapping_add(j * a).cast::<[u32; SQUARE]>().read_unaligned() }.map(f)
    });
    // An iterator over an array by value is not always unrolled: it keeps the array in memory.
    let columns = transposed(rows);
    for (i, column) in columns.iter().enumerate() {
        // SAFETY: promised by the caller.
        unsafe { to.wrapping_add(i * out).cast::<[u32; SQUARE]>().write_unaligned(*column) };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::contraction::tests::Random;
    use crate::view::{View, ViewMut};
    use std::vec;
    use std::vec::Vec;

    fn check<T: Pod + PartialEq + core::fmt::Debug>(cx: Cx<'_>, t: &Transpose, a: &[T], len: usize) {
        let (mut got, mut want) = (vec![T::ZERO; len], vec![T::ZERO; len]);
        let [o0, o1, o2, i, j] = t.axes();
        for x0 in 0..o0.extent {
            for x1 in 0..o1.extent {
                for x2 in 0..o2.extent {
                    for y in 0..i.extent {
                        for z in 0..j.extent {
                            let at = |s: [usize; 5]| s[0] * x0 + s[1] * x1 + s[2] * x2 + s[3] * y + s[4] * z;
                            want[t.out_offset + at([o0.out, o1.out, o2.out, i.out, j.out])] =
                                a[t.a_offset + at([o0.a, o1.a, o2.a, i.a, j.a])];
                        }
                    }
                }
            }
        }
        t.run(cx, a.src(), got[..].dst());
        assert_eq!(got, want, "{t:?} {:?}", cx.isa());
    }

    #[test]
    fn elements_are_where_a_loop_puts_them() {
        let mut r = Random(0x7a45_0b05);
        for _ in 0..60 {
            let (m, n, outer) = (1 + r.below(70), 1 + r.below(70), [1 + r.below(3), 1 + r.below(3), 1 + r.below(2)]);
            let (pitch, wide, gap) = (m + r.below(5), n + r.below(5), r.below(3));
            let mut axis = (n * pitch + gap, m * wide + gap);
            let outer = outer.map(|extent| {
                let own = CopyAxis { extent, a: axis.0, out: axis.1 };
                axis = (axis.0 * extent, axis.1 * extent);
                own
            });
            let t = Transpose {
                outer,
                along_a: CopyAxis { extent: m, a: 1, out: wide },
                along_out: CopyAxis { extent: n, a: pitch, out: 1 },
                a_offset: gap,
                out_offset: 2 * gap,
            };
            let (words, len): (Vec<u32>, usize) = ((0..axis.0 + gap).map(|i| i as u32).collect(), axis.1 + 2 * gap);
            for cx in crate::isa::Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                check(cx, &t, &words, len);
                check(cx, &t, &words.iter().map(|x| *x as u8).collect::<Vec<_>>(), len);
                check(cx, &t, &words.iter().map(|x| i64::from(*x)).collect::<Vec<_>>(), len);
                #[cfg(feature = "threads")]
                check(cx.with_team(&crate::team::Team::new(3)), &t, &words, len);
            }
            // Neither a shorter operand nor a shorter result is touched.
            let mut out = vec![7; len];
            let used = t.a_offset + t.axes().iter().map(|axis| (axis.extent - 1) * axis.a).sum::<usize>();
            t.run(Cx::detect(), words[..used].src(), out[..].dst());
            assert!(out.iter().all(|x| *x == 7));
        }
    }
}
