//! Narrow floats as bits: conversion from `f32` rounds to nearest, ties to even.

/// The NF4 table: quantiles of the normal distribution scaled to [-1, 1].
pub const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// From `f64`, rounded to odd: an inexact result has an odd last bit, so that rounding it once more, to a narrow float,
/// gives what rounding once would.
#[inline(always)]
#[must_use]
pub fn f64_to_f32_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let above = u32::from(back.abs() > x.abs());
    let odd = f32::from_bits(nearest.to_bits().wrapping_sub(above) | 1);
    if back == x || x.is_nan() { nearest } else { odd }
}

/// Magnitude bits of |x| with `man` mantissa bits and least normal exponent `emin`; unbounded above.
#[inline(always)]
fn encode(x: f32, man: u32, emin: i32) -> u32 {
    let a = x.to_bits() & 0x7fff_ffff;
    let drop = 23 - man;
    let normal = {
        let rounded = a + ((1 << (drop - 1)) - 1) + (a >> drop & 1);
        (rounded >> drop).wrapping_sub(((126 + emin) as u32) << man)
    };
    // Below the normal range the spacing is constant, 2^(emin - man): that of the numbers from 2^(emin - man + 23) on, to one of
    // which the sum is rounded.
    let first = ((127 + 23 + emin - man as i32) as u32) << 23;
    let subnormal = (f32::from_bits(a) + f32::from_bits(first)).to_bits().wrapping_sub(first);
    if a < ((127 + emin) as u32) << 23 { subnormal } else { normal }
}

/// |x| from magnitude bits; the inverse of `encode`.
#[inline(always)]
fn decode(code: u32, man: u32, emin: i32) -> f32 {
    let unit = f32::from_bits(((127 + emin - man as i32) as u32) << 23);
    let subnormal = code as i32 as f32 * unit;
    let normal = f32::from_bits((code << (23 - man)).wrapping_add(((126 + emin) as u32) << 23));
    if code >> man == 0 { subnormal } else { normal }
}

#[inline(always)]
fn signed(x: f32, negative: bool) -> f32 {
    if negative { -x } else { x }
}

/// To IEEE half precision; overflow gives infinity.
#[inline(always)]
#[must_use]
pub fn f32_to_f16_bits(x: f32) -> u16 {
    let code = encode(x, 10, -14).min(0x7c00);
    let code = if x.is_nan() { 0x7e00 } else { code };
    (code | (x.to_bits() >> 16 & 0x8000)) as u16
}

/// From IEEE half precision.
#[inline(always)]
#[must_use]
pub fn f16_bits_to_f32(bits: u16) -> f32 {
    let code = u32::from(bits & 0x7fff);
    let special = f32::from_bits(0x7f80_0000 | (code & 0x3ff) << 13);
    let x = if code >= 0x7c00 { special } else { decode(code, 10, -14) };
    f32::from_bits(x.to_bits() | u32::from(bits & 0x8000) << 16)
}

/// To bfloat16; overflow gives infinity.
#[inline(always)]
#[must_use]
pub fn f32_to_bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if x.is_nan() { bits >> 16 | 0x40 } else { rounded }) as u16
}

/// From bfloat16.
#[inline(always)]
#[must_use]
pub fn bf16_bits_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// To f8e4m3 (no infinities); beyond 448, rounded, gives NaN.
#[inline(always)]
#[must_use]
pub fn f32_to_f8e4m3_bits(x: f32) -> u8 {
    let code = encode(x, 3, -6).min(0x7f);
    let code = if x.is_nan() { 0x7f } else { code };
    (code | (x.to_bits() >> 24 & 0x80)) as u8
}

/// From f8e4m3.
#[inline(always)]
#[must_use]
pub fn f8e4m3_bits_to_f32(bits: u8) -> f32 {
    let code = u32::from(bits & 0x7f);
    let x = if code == 0x7f { f32::NAN } else { decode(code, 3, -6) };
    signed(x, bits & 0x80 != 0)
}

/// To f8e5m2; overflow gives infinity.
#[inline(always)]
#[must_use]
pub fn f32_to_f8e5m2_bits(x: f32) -> u8 {
    let code = encode(x, 2, -14).min(0x7c);
    let code = if x.is_nan() { 0x7e } else { code };
    (code | (x.to_bits() >> 24 & 0x80)) as u8
}

/// From f8e5m2.
#[inline(always)]
#[must_use]
pub fn f8e5m2_bits_to_f32(bits: u8) -> f32 {
    // The upper half of a half-precision number.
    f16_bits_to_f32(u16::from(bits) << 8)
}

/// To f8e8m0, a power of two: nearest, ties to the even exponent; saturates, so that zero and negative numbers give the
/// least power. NaN gives NaN.
#[inline(always)]
#[must_use]
pub fn f32_to_f8e8m0_bits(x: f32) -> u8 {
    let bits = x.to_bits() & 0x7fff_ffff;
    let subnormal = u32::from(bits > 0x0060_0000);
    let normal = (bits + 0x003f_ffff + (bits >> 23 & 1)) >> 23;
    let code = if bits < 0x0080_0000 { subnormal } else { normal.min(254) };
    let code = if x > 0.0 { code } else { 0 };
    (if x.is_nan() { 255 } else { code }) as u8
}

/// From f8e8m0.
#[inline(always)]
#[must_use]
pub fn f8e8m0_bits_to_f32(bits: u8) -> f32 {
    match bits {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(bits) << 23),
    }
}

/// To f4e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives); saturates, NaN gives 6.
#[inline(always)]
#[must_use]
pub fn f32_to_f4e2m1_bits(x: f32) -> u8 {
    let code = encode(x, 1, 0).min(7);
    let sign = if x.is_nan() { 0 } else { x.to_bits() >> 28 & 8 };
    (code | sign) as u8
}

/// From the low four bits: f4e2m1.
#[inline(always)]
#[must_use]
pub fn f4e2m1_bits_to_f32(bits: u8) -> f32 {
    signed(decode(u32::from(bits & 7), 1, 0), bits & 8 != 0)
}

/// To the nearest NF4 value, the lower one of two equally near; NaN gives 0.
#[inline(always)]
#[must_use]
pub fn f32_to_nf4_bits(x: f32) -> u8 {
    let mut code = 0;
    for pair in NF4.windows(2) {
        code += u8::from(x > 0.5 * (pair[0] + pair[1]));
    }
    code
}

/// From the low four bits: NF4.
#[inline(always)]
#[must_use]
pub fn nf4_bits_to_f32(bits: u8) -> f32 {
    NF4[usize::from(bits & 15)]
}
