//! Double-precision cores, good to about 1e-11, behind single-precision functions that need the extra digits.
use super::poly;

/// 1.5 * 2^52: adding it rounds to the nearest integer, which then stands in the low bits.
pub(super) const ROUND: f64 = 6_755_399_441_055_744.0;

/// The integer in the low bits after adding [`ROUND`].
#[inline(always)]
pub(super) fn integer(t: f64) -> i64 {
    (t.to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64)
}

/// Logarithm to base 2; infinities, zero and negative numbers as usual.
#[inline(always)]
pub(super) fn log2(x: f64) -> f64 {
    let shifted = (x.to_bits() as i64).wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let m = f64::from_bits((shifted & 0x000f_ffff_ffff_ffff).wrapping_add(0x3fe6_a09e_667f_3bcd) as u64);
    // Arithmetic shift and conversion in 32 bits: vector units have no 64-bit ones before AVX-512.
    let e = f64::from(((shifted as u64 >> 32) as i32) >> 20);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let series = poly!(z, 1.0, 1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0);
    let value = e + s * series * (2.0 * core::f64::consts::LOG2_E);
    let value = if x == f64::INFINITY { f64::INFINITY } else { value };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x < 0.0 || x.is_nan() { f64::NAN } else { value }
}

/// Natural logarithm.
#[inline(always)]
pub(super) fn ln(x: f64) -> f64 {
    log2(x) * core::f64::consts::LN_2
}

/// 2^x, saturating at 2^±1000, which no `f32` can tell from 0 and infinity.
#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    let x = if x > 1000.0 { 1000.0 } else { x };
    let x = if x < -1000.0 { -1000.0 } else { x };
    let t = x + ROUND;
    let r = (x - (t - ROUND)) * core::f64::consts::LN_2;
    let p = poly!(
        r,
        1.0,
        1.0,
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0
    );
    p * f64::from_bits((integer(t).wrapping_add(1023) as u64) << 52)
}

/// e^x.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    exp2(x * core::f64::consts::LOG2_E)
}
