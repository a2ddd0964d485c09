//! AArch64 baseline: 128 bits with fused multiply-add.
use crate::simd::{Simd, operations};
use core::arch::aarch64::*;

/// AArch64 baseline.
#[derive(Clone, Copy)]
pub(crate) struct Neon;

// SAFETY: the vectors are plain data of exactly that many elements.
unsafe impl Simd for Neon {
    type F32 = float32x4_t;
    type I32 = int32x4_t;
    type I64 = [int64x2_t; 2];
    type U8 = u32;
    type Mask = uint32x4_t;
    const LANES: usize = 4;

    operations! { self;
        mask_from_bits(bits: u32) -> Self::Mask = {
            let bit = vld1q_u32([1, 2, 4, 8].as_ptr());
            vtstq_u32(vdupq_n_u32(bits), bit)
        };
        mask_bits(m: Self::Mask) -> u32 = vaddvq_u32(vandq_u32(m, vld1q_u32([1, 2, 4, 8].as_ptr())));
        mask_and(a: Self::Mask, b: Self::Mask) -> Self::Mask = vandq_u32(a, b);
        mask_or(a: Self::Mask, b: Self::Mask) -> Self::Mask = vorrq_u32(a, b);
        mask_not(a: Self::Mask) -> Self::Mask = vmvnq_u32(a);
        splat(x: f32) -> Self::F32 = vdupq_n_f32(x);
        mul_add(a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 = vfmaq_f32(c, a, b);
        add(a: Self::F32, b: Self::F32) -> Self::F32 = vaddq_f32(a, b);
        sub(a: Self::F32, b: Self::F32) -> Self::F32 = vsubq_f32(a, b);
        mul(a: Self::F32, b: Self::F32) -> Self::F32 = vmulq_f32(a, b);
        div(a: Self::F32, b: Self::F32) -> Self::F32 = vdivq_f32(a, b);
        max(a: Self::F32, b: Self::F32) -> Self::F32 = vbslq_f32(vcgtq_f32(a, b), a, b);
        min(a: Self::F32, b: Self::F32) -> Self::F32 = vbslq_f32(vcltq_f32(a, b), a, b);
        keep_nan(a: Self::F32, b: Self::F32) -> Self::F32 = vbslq_f32(vceqq_f32(a, a), b, a);
        abs(a: Self::F32) -> Self::F32 = vabsq_f32(a);
        sqrt(a: Self::F32) -> Self::F32 = vsqrtq_f32(a);
        floor(a: Self::F32) -> Self::F32 = vrndmq_f32(a);
        round_half_even(a: Self::F32) -> Self::F32 = vrndnq_f32(a);
        eq(a: Self::F32, b: Self::F32) -> Self::Mask = vceqq_f32(a, b);
        lt(a: Self::F32, b: Self::F32) -> Self::Mask = vcltq_f32(a, b);
        le(a: Self::F32, b: Self::F32) -> Self::Mask = vcleq_f32(a, b);
        select(m: Self::Mask, a: Self::F32, b: Self::F32) -> Self::F32 = vbslq_f32(m, a, b);
        splat_i32(x: i32) -> Self::I32 = vdupq_n_s32(x);
        eq_i32(a: Self::I32, b: Self::I32) -> Self::Mask = vceqq_s32(a, b);
        lt_i32(a: Self::I32, b: Self::I32) -> Self::Mask = vcltq_s32(a, b);
        select_i32(m: Self::Mask, a: Self::I32, b: Self::I32) -> Self::I32 = vbslq_s32(m, a, b);
        add_i32(a: Self::I32, b: Self::I32) -> Self::I32 = vaddq_s32(a, b);
        sub_i32(a: Self::I32, b: Self::I32) -> Self::I32 = vsubq_s32(a, b);
        mul_i32(a: Self::I32, b: Self::I32) -> Self::I32 = vmulq_s32(a, b);
        max_i32(a: Self::I32, b: Self::I32) -> Self::I32 = vmaxq_s32(a, b);
        min_i32(a: Self::I32, b: Self::I32) -> Self::I32 = vminq_s32(a, b);
        and_i32(a: Self::I32, b: Self::I32) -> Self::I32 = vandq_s32(a, b);
        or_i32(a: Self::I32, b: Self::I32) -> Self::I32 = vorrq_s32(a, b);
        xor_i32(a: Self::I32, b: Self::I32) -> Self::I32 = veorq_s32(a, b);
        shl_i32(a: Self::I32, n: u32) -> Self::I32 = vshlq_s32(a, vdupq_n_s32((n & 31) as i32));
        shr_i32(a: Self::I32, n: u32) -> Self::I32 = vshlq_s32(a, vdupq_n_s32(-((n & 31) as i32)));
        shr_logical_i32(a: Self::I32, n: u32) -> Self::I32 = vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(-((n & 31) as i32))));
        splat_i64(x: i64) -> Self::I64 = [vdupq_n_s64(x); 2];
        and_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [vandq_s64(a[0], b[0]), vandq_s64(a[1], b[1])];
        or_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [vorrq_s64(a[0], b[0]), vorrq_s64(a[1], b[1])];
        xor_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [veorq_s64(a[0], b[0]), veorq_s64(a[1], b[1])];
        add_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [vaddq_s64(a[0], b[0]), vaddq_s64(a[1], b[1])];
        sub_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [vsubq_s64(a[0], b[0]), vsubq_s64(a[1], b[1])];
        shl_i64(a: Self::I64, n: u32) -> Self::I64 = [vshlq_s64(a[0], vdupq_n_s64(i64::from(n & 63))), vshlq_s64(a[1], vdupq_n_s64(i64::from(n & 63)))];
        shr_i64(a: Self::I64, n: u32) -> Self::I64 = [vshlq_s64(a[0], vdupq_n_s64(-i64::from(n & 63))), vshlq_s64(a[1], vdupq_n_s64(-i64::from(n & 63)))];
        and_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a & b;
        or_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a | b;
        xor_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a ^ b;
        f32_to_bits(a: Self::F32) -> Self::I32 = vreinterpretq_s32_f32(a);
        bits_to_f32(a: Self::I32) -> Self::F32 = vreinterpretq_f32_s32(a);
        i32_to_f32(a: Self::I32) -> Self::F32 = vcvtq_f32_s32(a);
        f32_to_i32(a: Self::F32) -> Self::I32 = vcvtq_s32_f32(a);
        i32_to_i64(a: Self::I32) -> Self::I64 = [vmovl_s32(vget_low_s32(a)), vmovl_high_s32(a)];
        i64_to_i32(a: Self::I64) -> Self::I32 = vcombine_s32(vmovn_s64(a[0]), vmovn_s64(a[1]));
        u8_to_i32(a: Self::U8) -> Self::I32 = {
            let bytes = vreinterpret_u8_u32(vdup_n_u32(a));
            vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))))
        };
        i32_to_u8(a: Self::I32) -> Self::U8 = {
            let halves = vqmovun_s32(a);
            vget_lane_u32::<0>(vreinterpret_u32_u8(vqmovn_u16(vcombine_u16(halves, halves))))
        };
    }
}
