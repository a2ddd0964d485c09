//! Logarithms in `f32`.
use super::poly;

const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Splits a positive finite x into m * 2^e with m in [sqrt(1/2), sqrt(2)): (m - 1, e). Subnormals included.
#[inline(always)]
fn split(x: f32) -> (f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let x = if tiny { x * 8_388_608.0 } else { x };
    let bits = x.to_bits() as i32;
    // 0x3f3504f3 is sqrt(1/2): the exponent changes there instead of at 1.
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let e = shifted >> 23;
    let m = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(0x3f35_04f3) as u32);
    (m - 1.0, e as f32 - if tiny { 23.0 } else { 0.0 })
}

/// (ln(1 + f) - f + f^2/2) / f^3 for the f of `split`.
#[inline(always)]
fn cubic_rest(f: f32) -> f32 {
    poly!(
        f,
        0.333_333_13,
        -0.250_000_1,
        0.200_021_19,
        -0.166_679_96,
        0.142_195_5,
        -0.124_055_915,
        0.118_881_75,
        -0.116_756_41,
        0.067_466_01
    )
}

/// Puts the special values in: zero, negative, infinite, NaN.
#[inline(always)]
fn special(x: f32, value: f32) -> f32 {
    let value = if x == f32::INFINITY { f32::INFINITY } else { value };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    if x < 0.0 || x.is_nan() { f32::NAN } else { value }
}

/// Natural logarithm, at most 1 ULP off.
#[inline(always)]
#[must_use]
pub fn ln(x: f32) -> f32 {
    let (f, e) = split(x);
    let z = f * f;
    let low = f * z * cubic_rest(f) + e * LN2_LOW - 0.5 * z;
    special(x, (f + low) + e * LN2_HIGH)
}

/// Logarithm to base 2, at most 2 ULP off; exact for powers of two.
#[inline(always)]
#[must_use]
pub fn log2(x: f32) -> f32 {
    super::wide::log2(f64::from(x)) as f32
}

/// Logarithm to base 10, at most 1 ULP off.
#[inline(always)]
#[must_use]
pub fn log10(x: f32) -> f32 {
    (super::wide::log2(f64::from(x)) * core::f64::consts::LOG10_2) as f32
}

/// ln(1 + x), at most 1 ULP off, also near zero.
#[inline(always)]
#[must_use]
pub fn ln_1p(x: f32) -> f32 {
    let sum = 1.0 + x;
    // What the sum lost: the derivative there makes it good.
    let lost = x - (sum - 1.0);
    let (f, e) = split(sum);
    let z = f * f;
    let low = f * z * cubic_rest(f) + e * LN2_LOW - 0.5 * z + lost / sum;
    let value = special(sum, (f + low) + e * LN2_HIGH);
    if x == 0.0 { x } else { value }
}
