//! `Src` and `Dst`: lifetime-carrying raw operands of kernels, with the extent that descriptors are checked against.
use crate::pod::Pod;
use core::marker::PhantomData;

/// Valid element offsets of an operand: `rows` rows of `row` elements, `stride` elements apart.
///
/// A contiguous operand of `n` elements is one row of `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Elements in one row.
    pub row: usize,
    /// Elements from the start of a row to the start of the next.
    pub stride: usize,
    /// Number of rows.
    pub rows: usize,
}

impl Extent {
    /// `n` contiguous elements.
    #[must_use]
    pub const fn contiguous(n: usize) -> Self {
        Extent { row: n, stride: n, rows: 1 }
    }

    /// The contiguous length, if rows leave no gap between them.
    #[must_use]
    pub const fn contiguous_len(&self) -> Option<usize> {
        if self.rows == 1 {
            Some(self.row)
        } else if self.rows == 0 {
            Some(0)
        } else if self.row == self.stride {
            self.row.checked_mul(self.rows)
        } else {
            None
        }
    }

    /// Whether `offset + i * a + j * b` is valid for all i below m and j below n, with axes (m, a) and (n, b).
    pub(crate) fn holds(&self, offset: usize, axes: [(usize, usize); 2]) -> bool {
        // Steps are whole rows and columns; a contiguous operand is all columns.
        let (row, pitch) = match self.contiguous_len() {
            Some(len) => (len, usize::MAX),
            None => (self.row, self.stride),
        };
        let [(m, a), (n, b)] = axes;
        let farthest =
            [(2, offset), (m, a), (n, b)].into_iter().try_fold((0usize, 0usize), |(rows, columns), (n, step)| {
                let last = n.saturating_sub(1);
                let (whole, rest) =
                    (step.checked_div(pitch)?.checked_mul(last)?, step.checked_rem(pitch)?.checked_mul(last)?);
                Some((rows.checked_add(whole)?, columns.checked_add(rest)?))
            });
        farthest.is_some_and(|(rows, columns)| rows < self.rows && columns < row)
    }
}

/// A read operand of a kernel.
#[derive(Clone, Copy)]
pub struct Src<'a, T> {
    ptr: *const T,
    extent: Extent,
    borrow: PhantomData<&'a T>,
}

/// A written operand of a kernel.
pub struct Dst<'a, T> {
    ptr: *mut T,
    extent: Extent,
    borrow: PhantomData<&'a mut T>,
}

// SAFETY: stands for shared references to plain data.
unsafe impl<T: Pod> Send for Src<'_, T> {}
// SAFETY: stands for shared references to plain data.
unsafe impl<T: Pod> Sync for Src<'_, T> {}
// SAFETY: stands for exclusive references to plain data.
unsafe impl<T: Pod> Send for Dst<'_, T> {}

impl<'a, T: Pod> Src<'a, T> {
    /// # Safety
    /// All elements of `extent` from `ptr` are valid to read for `'a`, and nobody writes them.
    #[inline(always)]
    pub(crate) const unsafe fn new(ptr: *const T, extent: Extent) -> Self {
        Src { ptr, extent, borrow: PhantomData }
    }

    /// A contiguous operand.
    #[inline(always)]
    #[must_use]
    pub const fn from_slice(slice: &'a [T]) -> Self {
        Src { ptr: slice.as_ptr(), extent: Extent::contiguous(slice.len()), borrow: PhantomData }
    }

    /// The valid offsets.
    #[inline(always)]
    #[must_use]
    pub const fn extent(&self) -> Extent {
        self.extent
    }

    /// The whole operand as a slice, if it is contiguous.
    #[inline(always)]
    #[must_use]
    pub const fn as_slice(&self) -> Option<&'a [T]> {
        match self.extent.contiguous_len() {
            // SAFETY: all `n` elements are valid for `'a`.
            Some(n) => Some(unsafe { core::slice::from_raw_parts(self.ptr, n) }),
            None => None,
        }
    }

    #[inline(always)]
    pub(crate) const fn as_ptr(&self) -> *const T {
        self.ptr
    }
}

impl<'a, T: Pod> Dst<'a, T> {
    /// # Safety
    /// All elements of `extent` from `ptr` are valid for `'a`, and nobody else uses them.
    #[inline(always)]
    pub(crate) const unsafe fn new(ptr: *mut T, extent: Extent) -> Self {
        Dst { ptr, extent, borrow: PhantomData }
    }

    /// A contiguous operand.
    #[inline(always)]
    #[must_use]
    pub const fn from_slice(slice: &'a mut [T]) -> Self {
        Dst { ptr: slice.as_mut_ptr(), extent: Extent::contiguous(slice.len()), borrow: PhantomData }
    }

    /// The valid offsets.
    #[inline(always)]
    #[must_use]
    pub const fn extent(&self) -> Extent {
        self.extent
    }

    #[inline(always)]
    pub(crate) const fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }

    /// The same operand for a shorter time.
    #[inline(always)]
    #[must_use]
    pub const fn dst(&mut self) -> Dst<'_, T> {
        Dst { ptr: self.ptr, extent: self.extent, borrow: PhantomData }
    }
}

impl<T: Pod> Src<'_, T> {
    /// Element at flat offset `i`; zero outside.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, i: usize) -> T {
        let Extent { row, stride, rows } = self.extent;
        let inside = if rows == 1 { i < row } else { stride > 0 && i % stride < row && i / stride < rows };
        // SAFETY: inside a row of the operand.
        if inside { unsafe { *self.ptr.add(i) } } else { T::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_holds_what_a_list_of_its_elements_has() {
        for extent in
            [Extent::contiguous(24), Extent { row: 3, stride: 5, rows: 4 }, Extent { row: 3, stride: 3, rows: 4 }]
        {
            let valid = |at: usize| at % extent.stride < extent.row && at / extent.stride < extent.rows;
            for offset in 0..8 {
                for (m, a, n, b) in
                    [(1, 9, 3, 1), (3, 1, 4, 5), (4, 5, 2, 1), (2, 10, 3, 1), (5, 5, 1, 1), (0, 1, 3, 1)]
                {
                    let all = (0..m.max(1)).all(|i| (0..n.max(1)).all(|j| valid(offset + i * a + j * b)));
                    let held = extent.holds(offset, [(m, a), (n, b)]);
                    assert!(all || !held, "{extent:?} {offset} {m} {a} {n} {b}");
                    assert!(held || !all || extent.contiguous_len().is_none(), "{extent:?} {offset} {m} {a} {n} {b}");
                }
            }
        }
        let qkv = Extent { row: 192, stride: 576, rows: 197 };
        assert!(qkv.holds(128, [(64, 1), (197, 576)]) && qkv.holds(128, [(197, 576), (64, 1)]));
        assert!(!qkv.holds(129, [(64, 1), (197, 576)]) && !qkv.holds(576, [(64, 1), (197, 576)]));
        assert!(!qkv.holds(usize::MAX, [(usize::MAX, usize::MAX), (2, 1)]));
    }
}
