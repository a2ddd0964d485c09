//! WebAssembly `simd128`: 128 bits, no fused multiply-add.
use crate::simd::Simd;
use core::arch::wasm32::*;

/// WebAssembly `simd128`.
#[derive(Clone, Copy)]
pub(crate) struct Wasm128;

impl Simd for Wasm128 {
    type F32 = v128;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> v128 {
        f32x4_splat(x)
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> v128 {
        // SAFETY: promised by the caller; the instruction takes any alignment.
        unsafe { v128_load(p.cast()) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: v128) {
        // SAFETY: promised by the caller; the instruction takes any alignment.
        unsafe { v128_store(p.cast(), v) }
    }
    #[inline(always)]
    fn add(self, a: v128, b: v128) -> v128 {
        f32x4_add(a, b)
    }
    #[inline(always)]
    fn mul(self, a: v128, b: v128) -> v128 {
        f32x4_mul(a, b)
    }
    #[inline(always)]
    fn mul_add(self, a: v128, b: v128, c: v128) -> v128 {
        f32x4_add(f32x4_mul(a, b), c)
    }
    #[inline(always)]
    fn max(self, a: v128, b: v128) -> v128 {
        // pmax(x, y) is y if x < y, else x.
        f32x4_pmax(b, a)
    }
    #[inline(always)]
    fn min(self, a: v128, b: v128) -> v128 {
        f32x4_pmin(b, a)
    }
    #[inline(always)]
    fn div(self, a: v128, b: v128) -> v128 {
        f32x4_div(a, b)
    }
    #[inline(always)]
    fn keep_nan(self, a: v128, b: v128) -> v128 {
        v128_bitselect(b, a, f32x4_eq(a, a))
    }
}
