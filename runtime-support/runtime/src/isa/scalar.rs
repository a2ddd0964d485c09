//! Plain Rust, four numbers at a time: enough independent accumulators for any pipeline, small code.
use crate::simd::Simd;

/// Plain Rust.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

#[inline(always)]
fn zip(a: [f32; 4], b: [f32; 4], f: impl Fn(f32, f32) -> f32) -> [f32; 4] {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

// SAFETY: arrays are plain data.
unsafe impl Simd for Scalar {
    type F32 = [f32; 4];
    type I32 = [i32; 4];
    type I64 = [i64; 4];
    type U8 = [u8; 4];
    type Mask = u32;
    const LANES: usize = 4;

    #[inline(always)]
    fn mask_from_bits(self, bits: u32) -> u32 {
        bits & 15
    }
    #[inline(always)]
    fn mask_bits(self, m: u32) -> u32 {
        m
    }
    #[inline(always)]
    fn splat(self, x: f32) -> [f32; 4] {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> [f32; 4] {
        // SAFETY: promised by the caller.
        unsafe { p.cast::<[f32; 4]>().read() }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: [f32; 4]) {
        // SAFETY: promised by the caller.
        unsafe { p.cast::<[f32; 4]>().write(v) }
    }
    #[inline(always)]
    fn add(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn mul(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn mul_add(self, a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        self.add(self.mul(a, b), c)
    }
    #[inline(always)]
    fn max(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn div(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn keep_nan(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        zip(a, b, |a, b| if a.is_nan() { a } else { b })
    }
}

/// One number at a time: the last columns.
#[derive(Clone, Copy)]
pub(crate) struct Single;

// SAFETY: arrays are plain data.
unsafe impl Simd for Single {
    type F32 = f32;
    type I32 = i32;
    type I64 = i64;
    type U8 = u8;
    type Mask = u32;
    const LANES: usize = 1;

    #[inline(always)]
    fn mask_from_bits(self, bits: u32) -> u32 {
        bits & 1
    }
    #[inline(always)]
    fn mask_bits(self, m: u32) -> u32 {
        m
    }
    #[inline(always)]
    fn splat(self, x: f32) -> f32 {
        x
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> f32 {
        // SAFETY: promised by the caller.
        unsafe { *p }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: f32) {
        // SAFETY: promised by the caller.
        unsafe { *p = v }
    }
    #[inline(always)]
    fn add(self, a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn mul(self, a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn mul_add(self, a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
    #[inline(always)]
    fn max(self, a: f32, b: f32) -> f32 {
        if a > b { a } else { b }
    }
    #[inline(always)]
    fn min(self, a: f32, b: f32) -> f32 {
        if a < b { a } else { b }
    }
    #[inline(always)]
    fn div(self, a: f32, b: f32) -> f32 {
        a / b
    }
    #[inline(always)]
    fn keep_nan(self, a: f32, b: f32) -> f32 {
        if a.is_nan() { a } else { b }
    }
}

/// The columns of four rows.
#[inline(always)]
#[cfg_attr(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"), allow(dead_code))]
pub(crate) fn transposed([a, b, c, d]: [[u32; 4]; 4]) -> [[u32; 4]; 4] {
    let mut out = [[0; 4]; 4];
    for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *out = [a, b, c, d];
    }
    out
}
