//! AArch64 baseline: 128 bits with fused multiply-add.
use crate::simd::Simd;
use core::arch::aarch64::*;

/// AArch64 baseline.
#[derive(Clone, Copy)]
pub(crate) struct Neon;

impl Simd for Neon {
    type F32 = float32x4_t;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        // SAFETY: NEON is part of the target.
        unsafe { vdupq_n_f32(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> float32x4_t {
        // SAFETY: promised by the caller.
        unsafe { vld1q_f32(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: float32x4_t) {
        // SAFETY: promised by the caller.
        unsafe { vst1q_f32(p, v) }
    }
    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: NEON is part of the target.
        unsafe { vaddq_f32(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: NEON is part of the target.
        unsafe { vmulq_f32(a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // SAFETY: NEON is part of the target.
        unsafe { vfmaq_f32(c, a, b) }
    }
    #[inline(always)]
    fn max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: NEON is part of the target. (`vmaxq` would return NaN if either is.)
        unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) }
    }
    #[inline(always)]
    fn min(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: NEON is part of the target.
        unsafe { vbslq_f32(vcltq_f32(a, b), a, b) }
    }
    #[inline(always)]
    fn div(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: NEON is part of the target.
        unsafe { vdivq_f32(a, b) }
    }
    #[inline(always)]
    fn keep_nan(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: NEON is part of the target.
        unsafe { vbslq_f32(vceqq_f32(a, a), b, a) }
    }
}
