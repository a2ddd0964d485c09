//! AVX-512: 512 bits.
use crate::simd::Simd;
use core::arch::x86_64::*;

/// AVX-512: 512 bits. Made only where the machine has it.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The machine has the instruction set, and the caller is compiled for it.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Avx512(())
    }
}

impl Simd for Avx512 {
    type F32 = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m512 {
        // SAFETY: the token proves the instruction set, the caller the pointer.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m512) {
        // SAFETY: the token proves the instruction set, the caller the pointer.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        // SAFETY: a hint never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn keep_nan(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a) }
    }
}
