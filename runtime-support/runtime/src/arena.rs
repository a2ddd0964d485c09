//! Statically sized arena whose regions are proved in bounds, aligned and disjoint at compile time.
use crate::pod::Pod;
use crate::view::{Rows, RowsMut};
use core::marker::PhantomData;

/// Alignment in bytes of every arena and weights blob: the largest alignment a region may ask for.
pub const ALIGN: usize = 64;

/// Byte footprint of one region: `rows` rows of `row` bytes, `stride` bytes apart.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    off: usize,
    row: usize,
    stride: usize,
    rows: usize,
    align: usize,
    write: bool,
}

impl Span {
    pub(crate) const fn new<T>(off: usize, row: usize, stride: usize, rows: usize, write: bool) -> Span {
        // Checked: a const fn of a release-built crate wraps silently, and a wrapped size would pass the bounds test.
        let (row, stride) = match (row.checked_mul(size_of::<T>()), stride.checked_mul(size_of::<T>())) {
            (Some(row), Some(stride)) => (row, stride),
            _ => panic!("region size overflows"),
        };
        Span { off, row, stride, rows, align: align_of::<T>(), write }
    }

    const fn end(&self) -> usize {
        if let Some(n) = self.stride.checked_mul(self.rows - 1)
            && let Some(n) = n.checked_add(self.row)
            && let Some(n) = n.checked_add(self.off)
        {
            return n;
        }
        panic!("region size overflows")
    }

    const fn disjoint(&self, other: &Span) -> bool {
        if self.end() <= other.off || other.end() <= self.off {
            return true;
        }
        if self.stride != other.stride {
            return false;
        }
        // Interleaved: same pitch, and every row of the other one lies between two rows of this one.
        let stride = self.stride;
        let distance = match other.off >= self.off {
            true => (other.off - self.off) % stride,
            false => (stride - (self.off - other.off) % stride) % stride,
        };
        distance >= self.row && distance + other.row <= stride
    }
}

/// Panics (at compile time) unless all spans lie in `bytes`, are aligned, and written ones overlap nothing.
pub(crate) const fn check(spans: &[Span], bytes: usize) {
    let mut i = 0;
    while i < spans.len() {
        let a = &spans[i];
        assert!(a.row > 0 && a.rows > 0 && a.stride >= a.row, "empty region or overlapping rows");
        assert!(a.end() <= bytes, "region outside the arena");
        assert!(a.align <= ALIGN && a.off.is_multiple_of(a.align), "misaligned region");
        let mut j = 0;
        while j < i {
            let free = !(a.write || spans[j].write) || a.disjoint(&spans[j]);
            assert!(free, "a written region overlaps another region");
            j += 1;
        }
        i += 1;
    }
}

/// Panics (at compile time) if a span is written.
pub(crate) const fn check_read_only(spans: &[Span]) {
    let mut i = 0;
    while i < spans.len() {
        assert!(!spans[i].write, "a region to write of a shared arena");
        i += 1;
    }
}

/// A marker type that describes one region of an arena.
///
/// # Safety
/// `make` touches only what `SPAN` says; `SPAN` is a write exactly if it hands out `&mut`.
pub unsafe trait Region {
    /// The borrowed form of the region.
    type Ref<'a>;
    /// Its bytes.
    const SPAN: Span;
    /// Borrows the region.
    ///
    /// # Safety
    /// `base` is valid for `'a`, and `SPAN` was checked against it and its neighbours.
    unsafe fn make<'a>(base: *mut u8) -> Self::Ref<'a>;
}

/// Read region: `&T` at byte `OFF`. Reads may overlap each other.
pub struct R<T, const OFF: usize>(PhantomData<T>);
/// Write or in-place region: `&mut T` at byte `OFF`.
pub struct W<T, const OFF: usize>(PhantomData<T>);
/// Read region of `ROWS` rows of `ROW` elements `T`, `STRIDE` elements apart, from byte `OFF`: a column block (concat, slice).
pub struct RS<T, const ROW: usize, const STRIDE: usize, const ROWS: usize, const OFF: usize>(PhantomData<T>);
/// Write region of `ROWS` rows of `ROW` elements `T`, `STRIDE` elements apart, from byte `OFF`.
pub struct WS<T, const ROW: usize, const STRIDE: usize, const ROWS: usize, const OFF: usize>(PhantomData<T>);

// SAFETY: hands out exactly the `size_of::<T>()` bytes at OFF, shared.
unsafe impl<T: Pod, const OFF: usize> Region for R<T, OFF> {
    type Ref<'a> = &'a T;
    const SPAN: Span = Span::new::<T>(OFF, 1, 1, 1, false);
    #[inline(always)]
    unsafe fn make<'a>(base: *mut u8) -> &'a T {
        // SAFETY: in bounds, aligned and unwritten by the caller's check of SPAN; `T` is plain data.
        unsafe { &*base.add(OFF).cast::<T>() }
    }
}

// SAFETY: hands out exactly the `size_of::<T>()` bytes at OFF, exclusively.
unsafe impl<T: Pod, const OFF: usize> Region for W<T, OFF> {
    type Ref<'a> = &'a mut T;
    const SPAN: Span = Span::new::<T>(OFF, 1, 1, 1, true);
    #[inline(always)]
    unsafe fn make<'a>(base: *mut u8) -> &'a mut T {
        // SAFETY: in bounds, aligned and disjoint from all others by the caller's check of SPAN; `T` is plain data.
        unsafe { &mut *base.add(OFF).cast::<T>() }
    }
}

// SAFETY: `Rows` reads only inside its rows.
unsafe impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize, const OFF: usize> Region
    for RS<T, ROW, STRIDE, ROWS, OFF>
{
    type Ref<'a> = Rows<'a, T, ROW, STRIDE, ROWS>;
    const SPAN: Span = Span::new::<T>(OFF, ROW, STRIDE, ROWS, false);
    #[inline(always)]
    unsafe fn make<'a>(base: *mut u8) -> Self::Ref<'a> {
        // SAFETY: all rows are in bounds, aligned and unwritten by the caller's check of SPAN.
        unsafe { Rows::new(base.add(OFF).cast::<T>()) }
    }
}

// SAFETY: `RowsMut` touches only the inside of its rows.
unsafe impl<T: Pod, const ROW: usize, const STRIDE: usize, const ROWS: usize, const OFF: usize> Region
    for WS<T, ROW, STRIDE, ROWS, OFF>
{
    type Ref<'a> = RowsMut<'a, T, ROW, STRIDE, ROWS>;
    const SPAN: Span = Span::new::<T>(OFF, ROW, STRIDE, ROWS, true);
    #[inline(always)]
    unsafe fn make<'a>(base: *mut u8) -> Self::Ref<'a> {
        // SAFETY: all rows are in bounds, aligned and disjoint from other regions by the caller's check of SPAN.
        unsafe { RowsMut::new(base.add(OFF).cast::<T>()) }
    }
}

/// A tuple of regions borrowed together by one step.
///
/// # Safety
/// `SPANS` lists every region that `make` hands out.
pub unsafe trait Regions {
    /// The borrowed forms, in order.
    type Refs<'a>;
    /// The bytes of all regions.
    const SPANS: &'static [Span];
    /// Borrows all regions.
    ///
    /// # Safety
    /// As [`Region::make`], for all of `SPANS`.
    unsafe fn make<'a>(base: *mut u8) -> Self::Refs<'a>;
}

macro_rules! tuples {
    () => {};
    ($first:ident $($rest:ident)*) => {
        // SAFETY: SPANS is built from the same list as the references.
        unsafe impl<$first: Region, $($rest: Region),*> Regions for ($first, $($rest,)*) {
            type Refs<'a> = ($first::Ref<'a>, $($rest::Ref<'a>,)*);
            const SPANS: &'static [Span] = &[$first::SPAN, $($rest::SPAN),*];
            #[inline(always)]
            unsafe fn make<'a>(base: *mut u8) -> Self::Refs<'a> {
                // SAFETY: the caller checked all of SPANS.
                unsafe { ($first::make(base), $($rest::make(base),)*) }
            }
        }
        tuples!($($rest)*);
    };
}
tuples! {
    A B C D E F G H I J K L M N O P Q S T U V X Y Z
    A1 B1 C1 D1 E1 F1 G1 H1 I1 J1 K1 L1 M1 N1 O1 P1 Q1 S1 T1 U1 V1 X1 Y1 Z1
}

/// Zeroed working memory. Put it in a `static` (it lands in .bss) or in any place the caller owns.
#[repr(C, align(64))]
pub struct Arena<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Arena<BYTES> {
    /// An arena of zero bytes.
    #[must_use]
    pub const fn new() -> Self {
        Arena([0; BYTES])
    }

    /// Borrows the regions of one step. No run-time check: a bad plan does not compile.
    ///
    /// ```
    /// # use include_ir_runtime::__private::v1::*;
    /// let mut arena = Arena::<128>::new();
    /// let (x, y) = arena.get::<(R<[f32; 16], 0>, W<[f32; 16], 64>)>();
    /// *y = *x;
    /// ```
    /// Out of bounds:
    /// ```compile_fail,E0080
    /// # use include_ir_runtime::__private::v1::*;
    /// let mut arena = Arena::<128>::new();
    /// let (x, y) = arena.get::<(R<[f32; 16], 0>, W<[f32; 17], 64>)>();
    /// ```
    /// Overlapping a written region:
    /// ```compile_fail,E0080
    /// # use include_ir_runtime::__private::v1::*;
    /// let mut arena = Arena::<128>::new();
    /// let (x, y) = arena.get::<(R<[f32; 16], 0>, W<[f32; 16], 60>)>();
    /// ```
    /// Misaligned:
    /// ```compile_fail,E0080
    /// # use include_ir_runtime::__private::v1::*;
    /// let mut arena = Arena::<128>::new();
    /// let (x,) = arena.get::<(R<[f32; 4], 2>,)>();
    /// ```
    /// Columns that touch within interleaved rows:
    /// ```compile_fail,E0080
    /// # use include_ir_runtime::__private::v1::*;
    /// let mut arena = Arena::<128>::new();
    /// let (left, right) = arena.get::<(WS<f32, 3, 8, 4, 0>, WS<f32, 6, 8, 4, 8>)>();
    /// ```
    #[inline(always)]
    pub fn get<S: Regions>(&mut self) -> S::Refs<'_> {
        const { check(S::SPANS, BYTES) };
        // SAFETY: just proved for exactly these types; the borrow of `self` covers all of them.
        unsafe { S::make(self.0.as_mut_ptr()) }
    }

    /// Borrows regions to read. No run-time check: one to write does not compile.
    ///
    /// ```compile_fail,E0080
    /// # use include_ir_runtime::__private::v1::*;
    /// let arena = Arena::<128>::new();
    /// let (x,) = arena.read::<(W<[f32; 16], 0>,)>();
    /// ```
    #[inline(always)]
    pub fn read<S: Regions>(&self) -> S::Refs<'_> {
        const {
            check(S::SPANS, BYTES);
            check_read_only(S::SPANS);
        }
        // SAFETY: just proved for exactly these types; all of them are shared references, as the borrow of `self` is.
        unsafe { S::make(self.0.as_ptr().cast_mut()) }
    }

    /// Makes all bytes zero.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }
}

impl<const BYTES: usize> Default for Arena<BYTES> {
    fn default() -> Self {
        Arena::new()
    }
}

#[cfg(test)]
#[path = "arena_tests.rs"]
mod tests;
