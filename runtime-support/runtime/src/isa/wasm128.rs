//! WebAssembly `simd128`: 128 bits, no fused multiply-add.
use crate::simd::{Simd, operations};
use core::arch::wasm32::*;

/// WebAssembly `simd128`.
#[derive(Clone, Copy)]
pub(crate) struct Wasm128;

// SAFETY: the vectors are plain data of exactly that many elements.
unsafe impl Simd for Wasm128 {
    type F32 = v128;
    type I32 = v128;
    type I64 = [v128; 2];
    type U8 = u32;
    type Mask = v128;
    const LANES: usize = 4;

    operations! { self;
        mask_from_bits(bits: u32) -> Self::Mask = {
            let bit = i32x4(1, 2, 4, 8);
            i32x4_eq(v128_and(i32x4_splat(bits as i32), bit), bit)
        };
        mask_bits(m: Self::Mask) -> u32 = u32::from(i32x4_bitmask(m));
        mask_and(a: Self::Mask, b: Self::Mask) -> Self::Mask = v128_and(a, b);
        mask_or(a: Self::Mask, b: Self::Mask) -> Self::Mask = v128_or(a, b);
        mask_not(a: Self::Mask) -> Self::Mask = v128_not(a);
        splat(x: f32) -> Self::F32 = f32x4_splat(x);
        add(a: Self::F32, b: Self::F32) -> Self::F32 = f32x4_add(a, b);
        sub(a: Self::F32, b: Self::F32) -> Self::F32 = f32x4_sub(a, b);
        mul(a: Self::F32, b: Self::F32) -> Self::F32 = f32x4_mul(a, b);
        div(a: Self::F32, b: Self::F32) -> Self::F32 = f32x4_div(a, b);
        max(a: Self::F32, b: Self::F32) -> Self::F32 = f32x4_pmax(b, a);
        min(a: Self::F32, b: Self::F32) -> Self::F32 = f32x4_pmin(b, a);
        keep_nan(a: Self::F32, b: Self::F32) -> Self::F32 = v128_bitselect(b, a, f32x4_eq(a, a));
        abs(a: Self::F32) -> Self::F32 = f32x4_abs(a);
        sqrt(a: Self::F32) -> Self::F32 = f32x4_sqrt(a);
        floor(a: Self::F32) -> Self::F32 = f32x4_floor(a);
        round_half_even(a: Self::F32) -> Self::F32 = f32x4_nearest(a);
        eq(a: Self::F32, b: Self::F32) -> Self::Mask = f32x4_eq(a, b);
        lt(a: Self::F32, b: Self::F32) -> Self::Mask = f32x4_lt(a, b);
        le(a: Self::F32, b: Self::F32) -> Self::Mask = f32x4_le(a, b);
        select(m: Self::Mask, a: Self::F32, b: Self::F32) -> Self::F32 = v128_bitselect(a, b, m);
        splat_i32(x: i32) -> Self::I32 = i32x4_splat(x);
        eq_i32(a: Self::I32, b: Self::I32) -> Self::Mask = i32x4_eq(a, b);
        lt_i32(a: Self::I32, b: Self::I32) -> Self::Mask = i32x4_lt(a, b);
        select_i32(m: Self::Mask, a: Self::I32, b: Self::I32) -> Self::I32 = v128_bitselect(a, b, m);
        add_i32(a: Self::I32, b: Self::I32) -> Self::I32 = i32x4_add(a, b);
        sub_i32(a: Self::I32, b: Self::I32) -> Self::I32 = i32x4_sub(a, b);
        mul_i32(a: Self::I32, b: Self::I32) -> Self::I32 = i32x4_mul(a, b);
        max_i32(a: Self::I32, b: Self::I32) -> Self::I32 = i32x4_max(a, b);
        min_i32(a: Self::I32, b: Self::I32) -> Self::I32 = i32x4_min(a, b);
        and_i32(a: Self::I32, b: Self::I32) -> Self::I32 = v128_and(a, b);
        or_i32(a: Self::I32, b: Self::I32) -> Self::I32 = v128_or(a, b);
        xor_i32(a: Self::I32, b: Self::I32) -> Self::I32 = v128_xor(a, b);
        shl_i32(a: Self::I32, n: u32) -> Self::I32 = i32x4_shl(a, n);
        shr_i32(a: Self::I32, n: u32) -> Self::I32 = i32x4_shr(a, n);
        shr_logical_i32(a: Self::I32, n: u32) -> Self::I32 = u32x4_shr(a, n);
        splat_i64(x: i64) -> Self::I64 = [i64x2_splat(x); 2];
        and_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [v128_and(a[0], b[0]), v128_and(a[1], b[1])];
        or_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [v128_or(a[0], b[0]), v128_or(a[1], b[1])];
        xor_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [v128_xor(a[0], b[0]), v128_xor(a[1], b[1])];
        add_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [i64x2_add(a[0], b[0]), i64x2_add(a[1], b[1])];
        sub_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [i64x2_sub(a[0], b[0]), i64x2_sub(a[1], b[1])];
        mul_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [i64x2_mul(a[0], b[0]), i64x2_mul(a[1], b[1])];
        shl_i64(a: Self::I64, n: u32) -> Self::I64 = [i64x2_shl(a[0], n), i64x2_shl(a[1], n)];
        shr_i64(a: Self::I64, n: u32) -> Self::I64 = [i64x2_shr(a[0], n), i64x2_shr(a[1], n)];
        shr_logical_i64(a: Self::I64, n: u32) -> Self::I64 = [u64x2_shr(a[0], n), u64x2_shr(a[1], n)];
        and_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a & b;
        or_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a | b;
        xor_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a ^ b;
        f32_to_bits(a: Self::F32) -> Self::I32 = a;
        bits_to_f32(a: Self::I32) -> Self::F32 = a;
        i32_to_f32(a: Self::I32) -> Self::F32 = f32x4_convert_i32x4(a);
        f32_to_i32(a: Self::F32) -> Self::I32 = i32x4_trunc_sat_f32x4(a);
        i32_to_i64(a: Self::I32) -> Self::I64 = [i64x2_extend_low_i32x4(a), i64x2_extend_high_i32x4(a)];
        i64_to_i32(a: Self::I64) -> Self::I32 = i32x4_shuffle::<0, 2, 4, 6>(a[0], a[1]);
        u8_to_i32(a: Self::U8) -> Self::I32 = i32x4_extend_low_i16x8(u16x8_extend_low_u8x16(u32x4_splat(a)));
        i32_to_u8(a: Self::I32) -> Self::U8 = {
            let halves = i16x8_narrow_i32x4(a, a);
            u32x4_extract_lane::<0>(u8x16_narrow_i16x8(halves, halves))
        };
    }
}
