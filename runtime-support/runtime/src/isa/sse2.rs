//! x86-64 baseline: 128 bits, no fused multiply-add.
use crate::simd::Simd;
use core::arch::x86_64::*;

/// x86-64 baseline: 128 bits, no fused multiply-add. Made only where the machine has it.
#[derive(Clone, Copy)]
pub(crate) struct Sse2(());

impl Sse2 {
    /// # Safety
    /// The machine has the instruction set, and the caller is compiled for it.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Sse2(())
    }
}

impl Simd for Sse2 {
    type F32 = __m128;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> __m128 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m128 {
        // SAFETY: the token proves the instruction set, the caller the pointer.
        unsafe { _mm_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m128) {
        // SAFETY: the token proves the instruction set, the caller the pointer.
        unsafe { _mm_storeu_ps(p, v) }
    }
    #[inline(always)]
    fn add(self, a: __m128, b: __m128) -> __m128 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm_add_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m128, b: __m128) -> __m128 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm_mul_ps(a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m128, b: __m128, c: __m128) -> __m128 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm_add_ps(_mm_mul_ps(a, b), c) }
    }
    #[inline(always)]
    fn max(self, a: __m128, b: __m128) -> __m128 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m128, b: __m128) -> __m128 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm_min_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m128, b: __m128) -> __m128 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm_div_ps(a, b) }
    }
    #[inline(always)]
    fn keep_nan(self, a: __m128, b: __m128) -> __m128 {
        // SAFETY: the token proves the instruction set.
        unsafe {
            let nan = _mm_cmpunord_ps(a, a);
            _mm_or_ps(_mm_and_ps(nan, a), _mm_andnot_ps(nan, b))
        }
    }
}
