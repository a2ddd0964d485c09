//! AVX2 with FMA: 256 bits.
use crate::simd::Simd;
use core::arch::x86_64::*;

/// AVX2 with FMA: 256 bits. Made only where the machine has it.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The machine has the instruction set, and the caller is compiled for it.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Avx2(())
    }
}

impl Simd for Avx2 {
    type F32 = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m256 {
        // SAFETY: the token proves the instruction set, the caller the pointer.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m256) {
        // SAFETY: the token proves the instruction set, the caller the pointer.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        // SAFETY: a hint never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }
    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    fn keep_nan(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the instruction set.
        unsafe { _mm256_blendv_ps(b, a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)) }
    }
}
