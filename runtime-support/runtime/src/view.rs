//! Views of regions: flat element access that cannot panic, and contiguous runs.
use crate::pod::Pod;
use crate::raw::{Dst, Extent, Src};
use core::marker::PhantomData;

/// Read access by physical flat element index relative to the view's start.
pub trait View {
    /// Element type.
    type Elem: Pod;
    /// Element `i`, or zero if `i` is outside.
    fn at(&self, i: usize) -> Self::Elem;
    /// Up to `n` contiguous elements from `i`, clipped at the end of the view and of the row.
    fn span(&self, i: usize, n: usize) -> &[Self::Elem];
    /// The view as a kernel operand.
    fn src(&self) -> Src<'_, Self::Elem>;
}

/// Write access by physical flat element index relative to the view's start.
pub trait ViewMut: View {
    /// Sets element `i`; nothing happens if `i` is outside.
    fn put(&mut self, i: usize, value: Self::Elem);
    /// Up to `n` contiguous elements from `i`, clipped at the end of the view and of the row.
    fn span_mut(&mut self, i: usize, n: usize) -> &mut [Self::Elem];
    /// The view as a kernel result.
    fn dst(&mut self) -> Dst<'_, Self::Elem>;
}

/// Contiguous runs of constant length.
pub trait ViewRow: View {
    /// The `N` elements from `i`. `N` is checked at compile time; a start too far is clamped.
    fn row<const N: usize>(&self, i: usize) -> &[Self::Elem; N];
}

/// Mutable contiguous runs of constant length.
pub trait ViewRowMut: ViewRow + ViewMut {
    /// The `N` elements from `i`. `N` is checked at compile time; a start too far is clamped.
    fn row_mut<const N: usize>(&mut self, i: usize) -> &mut [Self::Elem; N];
}

impl<T: Pod> View for [T] {
    type Elem = T;
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        match self.get(i) {
            Some(value) => *value,
            None => T::ZERO,
        }
    }
    #[inline(always)]
    fn span(&self, i: usize, n: usize) -> &[T] {
        let tail = self.get(i..).unwrap_or(&[]);
        tail.get(..n).unwrap_or(tail)
    }
    #[inline(always)]
    fn src(&self) -> Src<'_, T> {
        Src::from_slice(self)
    }
}

impl<T: Pod> ViewMut for [T] {
    #[inline(always)]
    fn put(&mut self, i: usize, value: T) {
        if let Some(slot) = self.get_mut(i) {
            *slot = value;
        }
    }
    #[inline(always)]
    fn span_mut(&mut self, i: usize, n: usize) -> &mut [T] {
        let tail = self.get_mut(i..).unwrap_or_default();
        let n = n.min(tail.len());
        tail.get_mut(..n).unwrap_or_default()
    }
    #[inline(always)]
    fn dst(&mut self) -> Dst<'_, T> {
        Dst::from_slice(self)
    }
}

impl<T: Pod, const L: usize> View for [T; L] {
    type Elem = T;
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        self.as_slice().at(i)
    }
    #[inline(always)]
    fn span(&self, i: usize, n: usize) -> &[T] {
        self.as_slice().span(i, n)
    }
    #[inline(always)]
    fn src(&self) -> Src<'_, T> {
        Src::from_slice(self)
    }
}

impl<T: Pod, const L: usize> ViewMut for [T; L] {
    #[inline(always)]
    fn put(&mut self, i: usize, value: T) {
        self.as_mut_slice().put(i, value);
    }
    #[inline(always)]
    fn span_mut(&mut self, i: usize, n: usize) -> &mut [T] {
        self.as_mut_slice().span_mut(i, n)
    }
    #[inline(always)]
    fn dst(&mut self) -> Dst<'_, T> {
        Dst::from_slice(self)
    }
}

impl<T: Pod, const L: usize> ViewRow for [T; L] {
    #[inline(always)]
    fn row<const N: usize>(&self, i: usize) -> &[T; N] {
        const { assert!(N <= L, "run longer than the array") };
        let start = if i > L - N { L - N } else { i };
        // SAFETY: start + N <= L, and an array of N elements is N consecutive elements.
        unsafe { &*self.as_ptr().add(start).cast::<[T; N]>() }
    }
}

impl<T: Pod, const L: usize> ViewRowMut for [T; L] {
    #[inline(always)]
    fn row_mut<const N: usize>(&mut self, i: usize) -> &mut [T; N] {
        const { assert!(N <= L, "run longer than the array") };
        let start = if i > L - N { L - N } else { i };
        // SAFETY: start + N <= L, and an array of N elements is N consecutive elements; `self` is borrowed exclusively.
        unsafe { &mut *self.as_mut_ptr().add(start).cast::<[T; N]>() }
    }
}

macro_rules! through_reference {
    ($($reference:ty),*) => { $(
        impl<V: View + ?Sized> View for $reference {
            type Elem = V::Elem;
            #[inline(always)]
            fn at(&self, i: usize) -> V::Elem {
                (**self).at(i)
            }
            #[inline(always)]
            fn span(&self, i: usize, n: usize) -> &[V::Elem] {
                (**self).span(i, n)
            }
            #[inline(always)]
            fn src(&self) -> Src<'_, V::Elem> {
                (**self).src()
            }
        }
        impl<V: ViewRow + ?Sized> ViewRow for $reference {
            #[inline(always)]
            fn row<const N: usize>(&self, i: usize) -> &[V::Elem; N] {
                (**self).row(i)
            }
        }
    )* };
}
through_reference!(&V, &mut V);

impl<V: ViewMut + ?Sized> ViewMut for &mut V {
    #[inline(always)]
    fn put(&mut self, i: usize, value: V::Elem) {
        (**self).put(i, value);
    }
    #[inline(always)]
    fn span_mut(&mut self, i: usize, n: usize) -> &mut [V::Elem] {
        (**self).span_mut(i, n)
    }
    #[inline(always)]
    fn dst(&mut self) -> Dst<'_, V::Elem> {
        (**self).dst()
    }
}

impl<V: ViewRowMut + ?Sized> ViewRowMut for &mut V {
    #[inline(always)]
    fn row_mut<const N: usize>(&mut self, i: usize) -> &mut [V::Elem; N] {
        (**self).row_mut(i)
    }
}

/// `ROWS` rows of `ROW` elements, `STRIDE` elements apart: a column block of a larger buffer, read.
#[derive(Clone, Copy)]
pub struct Rows<'a, T, const ROW: usize, const STRIDE: usize, const ROWS: usize>(*const T, PhantomData<&'a T>);

/// `ROWS` rows of `ROW` elements, `STRIDE` elements apart: a column block of a larger buffer, written.
pub struct RowsMut<'a, T, const ROW: usize, const STRIDE: usize, const ROWS: usize>(*mut T, PhantomData<&'a mut T>);

// SAFETY: stands for shared references to plain data.
unsafe impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> Send for Rows<'_, T, ROW, STRIDE, ROWS> {}
// SAFETY: stands for shared references to plain data.
unsafe impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> Sync for Rows<'_, T, ROW, STRIDE, ROWS> {}
// SAFETY: stands for exclusive references to plain data.
unsafe impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> Send
    for RowsMut<'_, T, ROW, STRIDE, ROWS>
{
}
// SAFETY: a shared `RowsMut` only reads.
unsafe impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> Sync
    for RowsMut<'_, T, ROW, STRIDE, ROWS>
{
}

/// The clamped element offset of a run of `n <= row` elements that starts at flat index `i`.
#[inline(always)]
const fn clamped(i: usize, n: usize, row: usize, stride: usize, rows: usize) -> usize {
    let (r, c) = (i / stride, i % stride);
    let r = if r < rows { r } else { rows - 1 };
    let c = if c > row - n { row - n } else { c };
    r * stride + c
}

/// The length of a run of at most `n` elements from flat index `i` that stays in its row; 0 outside.
#[inline(always)]
const fn clipped(i: usize, n: usize, row: usize, stride: usize, rows: usize) -> usize {
    let (r, c) = (i / stride, i % stride);
    if r >= rows || c >= row {
        0
    } else if n < row - c {
        n
    } else {
        row - c
    }
}

impl<'a, T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> Rows<'a, T, ROW, STRIDE, ROWS> {
    /// # Safety
    /// For `'a`, all elements of all rows from `start` are valid, aligned and not written.
    #[inline(always)]
    pub(crate) const unsafe fn new(start: *const T) -> Self {
        Rows(start, PhantomData)
    }

    /// The rows in order.
    #[inline(always)]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [T; ROW]> + use<'a, T, ROW, STRIDE, ROWS> {
        let start = self.0;
        // SAFETY: row i < ROWS of a valid view.
        (0..ROWS).map(move |i| unsafe { &*start.add(i * STRIDE).cast::<[T; ROW]>() })
    }
}

impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> RowsMut<'_, T, ROW, STRIDE, ROWS> {
    /// # Safety
    /// For the view's lifetime, all elements of all rows from `start` are valid, aligned and used by nobody else.
    #[inline(always)]
    pub(crate) const unsafe fn new(start: *mut T) -> Self {
        RowsMut(start, PhantomData)
    }

    /// The same rows, read.
    #[inline(always)]
    pub fn as_rows(&self) -> Rows<'_, T, ROW, STRIDE, ROWS> {
        // SAFETY: the shared borrow of `self` keeps writers away.
        unsafe { Rows::new(self.0) }
    }

    /// The rows in order.
    #[inline(always)]
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [T; ROW]> {
        let start = self.0;
        // SAFETY: row i < ROWS of a valid view; rows do not overlap (STRIDE >= ROW was proved), each is handed out once.
        (0..ROWS).map(move |i| unsafe { &mut *start.add(i * STRIDE).cast::<[T; ROW]>() })
    }
}

impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> View for Rows<'_, T, ROW, STRIDE, ROWS> {
    type Elem = T;
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        if i / STRIDE < ROWS && i % STRIDE < ROW {
            // SAFETY: inside a row of a valid view.
            unsafe { *self.0.add(i) }
        } else {
            T::ZERO
        }
    }
    #[inline(always)]
    fn span(&self, i: usize, n: usize) -> &[T] {
        let n = clipped(i, n, ROW, STRIDE, ROWS);
        let i = if n == 0 { 0 } else { i };
        // SAFETY: `n` elements from `i` lie inside one row.
        unsafe { core::slice::from_raw_parts(self.0.add(i), n) }
    }
    #[inline(always)]
    fn src(&self) -> Src<'_, T> {
        // SAFETY: the extent of a valid view, borrowed through `self`.
        unsafe { Src::new(self.0, Extent { row: ROW, stride: STRIDE, rows: ROWS }) }
    }
}

impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> ViewRow for Rows<'_, T, ROW, STRIDE, ROWS> {
    #[inline(always)]
    fn row<const N: usize>(&self, i: usize) -> &[T; N] {
        const { assert!(N <= ROW, "run longer than a row") };
        // SAFETY: `clamped` keeps the run inside one row.
        unsafe { &*self.0.add(clamped(i, N, ROW, STRIDE, ROWS)).cast::<[T; N]>() }
    }
}

impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> View for RowsMut<'_, T, ROW, STRIDE, ROWS> {
    type Elem = T;
    #[inline(always)]
    fn at(&self, i: usize) -> T {
        self.as_rows().at(i)
    }
    #[inline(always)]
    fn span(&self, i: usize, n: usize) -> &[T] {
        let n = clipped(i, n, ROW, STRIDE, ROWS);
        let i = if n == 0 { 0 } else { i };
        // SAFETY: `n` elements from `i` lie inside one row.
        unsafe { core::slice::from_raw_parts(self.0.add(i), n) }
    }
    #[inline(always)]
    fn src(&self) -> Src<'_, T> {
        // SAFETY: the extent of a valid view, borrowed through `self`.
        unsafe { Src::new(self.0, Extent { row: ROW, stride: STRIDE, rows: ROWS }) }
    }
}

impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> ViewRow for RowsMut<'_, T, ROW, STRIDE, ROWS> {
    #[inline(always)]
    fn row<const N: usize>(&self, i: usize) -> &[T; N] {
        const { assert!(N <= ROW, "run longer than a row") };
        // SAFETY: `clamped` keeps the run inside one row.
        unsafe { &*self.0.add(clamped(i, N, ROW, STRIDE, ROWS)).cast::<[T; N]>() }
    }
}

impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> ViewMut for RowsMut<'_, T, ROW, STRIDE, ROWS> {
    #[inline(always)]
    fn put(&mut self, i: usize, value: T) {
        if i / STRIDE < ROWS && i % STRIDE < ROW {
            // SAFETY: inside a row of a valid view, borrowed exclusively.
            unsafe { *self.0.add(i) = value };
        }
    }
    #[inline(always)]
    fn span_mut(&mut self, i: usize, n: usize) -> &mut [T] {
        let n = clipped(i, n, ROW, STRIDE, ROWS);
        let i = if n == 0 { 0 } else { i };
        // SAFETY: `n` elements from `i` lie inside one row, borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.0.add(i), n) }
    }
    #[inline(always)]
    fn dst(&mut self) -> Dst<'_, T> {
        // SAFETY: the extent of a valid view, borrowed exclusively through `self`.
        unsafe { Dst::new(self.0, Extent { row: ROW, stride: STRIDE, rows: ROWS }) }
    }
}

impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize> ViewRowMut
    for RowsMut<'_, T, ROW, STRIDE, ROWS>
{
    #[inline(always)]
    fn row_mut<const N: usize>(&mut self, i: usize) -> &mut [T; N] {
        const { assert!(N <= ROW, "run longer than a row") };
        // SAFETY: `clamped` keeps the run inside one row; `self` is borrowed exclusively.
        unsafe { &mut *self.0.add(clamped(i, N, ROW, STRIDE, ROWS)).cast::<[T; N]>() }
    }
}
