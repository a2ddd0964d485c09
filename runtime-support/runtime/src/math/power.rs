//! Powers, square root and remainder.
use super::wide;

/// Square root, correctly rounded.
#[inline(always)]
#[must_use]
pub fn sqrt(x: f32) -> f32 {
    // The standard library's is an instruction that vectorises; libm's is bit-identical (both are correctly rounded).
    #[cfg(feature = "std")]
    return x.sqrt();
    #[cfg(not(feature = "std"))]
    libm::sqrtf(x)
}

/// Square root, correctly rounded.
#[inline(always)]
#[must_use]
pub fn sqrt_f64(x: f64) -> f64 {
    #[cfg(feature = "std")]
    return x.sqrt();
    #[cfg(not(feature = "std"))]
    libm::sqrt(x)
}

/// `x` to the power `y`, at most 1 ULP off. As IEEE `pow`: 0^0 = 1, a negative `x` needs an integral `y`.
#[inline(always)]
#[must_use]
pub fn pow(x: f32, y: f32) -> f32 {
    let a = f64::from(x.abs());
    let w = f64::from(y);
    let magnitude = wide::exp2(w * wide::log2(a)) as f32;
    let whole = super::trunc(y) == y;
    let half = y * 0.5;
    let odd = whole && super::trunc(half) != half;
    let negative = x.is_sign_negative();
    let signed = if negative && odd { -magnitude } else { magnitude };
    let infinite = y.abs() == f32::INFINITY;
    let value = if x < 0.0 && !whole && x != f32::NEG_INFINITY { f32::NAN } else { signed };
    let value = if infinite && a == 1.0 { 1.0 } else { value };
    let value = if x.is_nan() || y.is_nan() { f32::NAN } else { value };
    if y == 0.0 || x == 1.0 { 1.0 } else { value }
}

/// Remainder of the truncated quotient (C `fmod`), exact; the sign of `x`.
#[inline(always)]
#[must_use]
pub fn rem(x: f32, y: f32) -> f32 {
    libm::fmodf(x, y)
}

/// Remainder of the truncated quotient (C `fmod`), exact; the sign of `x`.
#[inline(always)]
#[must_use]
pub fn rem_f64(x: f64, y: f64) -> f64 {
    libm::fmod(x, y)
}
