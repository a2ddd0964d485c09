//! Hyperbolic functions and their inverses, through double precision.
use super::power::sqrt_f64;
use super::wide;

/// Hyperbolic sine, at most 1 ULP off.
#[inline(always)]
#[must_use]
pub fn sinh(x: f32) -> f32 {
    let w = f64::from(x);
    let e = wide::exp(w);
    let far = (0.5 * (e - 1.0 / e)) as f32;
    let near = (w + w * w * w * (1.0 / 6.0)) as f32;
    if x.abs() < 0.01 { near } else { far }
}

/// Hyperbolic cosine, at most 1 ULP off.
#[inline(always)]
#[must_use]
pub fn cosh(x: f32) -> f32 {
    let e = wide::exp(f64::from(x));
    (0.5 * (e + 1.0 / e)) as f32
}

/// Inverse hyperbolic sine, at most 1 ULP off.
#[inline(always)]
#[must_use]
pub fn asinh(x: f32) -> f32 {
    let w = f64::from(x.abs());
    let far = wide::ln(w + sqrt_f64(w * w + 1.0)) as f32;
    let near = (w - w * w * w * (1.0 / 6.0)) as f32;
    (if w < 0.01 { near } else { far }).copysign(x)
}

/// Inverse hyperbolic cosine, at most 1 ULP off; NaN below 1.
#[inline(always)]
#[must_use]
pub fn acosh(x: f32) -> f32 {
    let d = f64::from(x) - 1.0;
    let t = d + sqrt_f64(d * (d + 2.0));
    // ln(1 + t): t cancels nothing, but 1 + t loses digits of a small t.
    let near = t - t * t * (0.5 - t * (1.0 / 3.0 - t * 0.25));
    let value = if t < 1e-3 { near } else { wide::ln(1.0 + t) };
    if x < 1.0 { f32::NAN } else { value as f32 }
}

/// Inverse hyperbolic tangent, at most 1 ULP off; infinite at ±1, NaN outside.
#[inline(always)]
#[must_use]
pub fn atanh(x: f32) -> f32 {
    let w = f64::from(x);
    let far = (0.5 * wide::ln((1.0 + w) / (1.0 - w))) as f32;
    let near = (w + w * w * w * (1.0 / 3.0)) as f32;
    if x.abs() < 0.01 { near } else { far }
}
