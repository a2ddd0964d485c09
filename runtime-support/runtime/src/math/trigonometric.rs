//! Trigonometric functions and their inverses, through double precision.
use super::power::sqrt_f64;
use super::{poly, wide};

/// x - n * pi/2 in [-pi/4, pi/4] and n modulo 4. Exact enough for |x| < 2^26; beyond, digits get lost; NaN if infinite.
#[inline(always)]
fn reduce(x: f32) -> (f64, i64) {
    let x = f64::from(x);
    let t = x * core::f64::consts::FRAC_2_PI + wide::ROUND;
    let n = t - wide::ROUND;
    // The first part has 28 trailing zero bits: its product with n is exact for |n| < 2^28.
    let r = x - n * 1.570_796_310_901_641_8 - n * 1.589_325_477_352_819_6e-8;
    (r, wide::integer(t))
}

#[inline(always)]
fn sin_near(r: f64) -> f64 {
    let z = r * r;
    r * poly!(
        z,
        1.0,
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5040.0,
        1.0 / 362_880.0,
        -1.0 / 39_916_800.0,
        1.0 / 6_227_020_800.0
    )
}

#[inline(always)]
fn cos_near(r: f64) -> f64 {
    let z = r * r;
    poly!(z, 1.0, -0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0)
}

/// Sine of the angle r + n * pi/2.
#[inline(always)]
fn sine(r: f64, n: i64) -> f64 {
    let value = if n & 1 == 0 { sin_near(r) } else { cos_near(r) };
    if n & 2 == 0 { value } else { -value }
}

/// Sine, at most 1 ULP off for |x| < 2^26.
#[inline(always)]
#[must_use]
pub fn sin(x: f32) -> f32 {
    let (r, n) = reduce(x);
    let value = sine(r, n) as f32;
    if x == 0.0 { x } else { value }
}

/// Cosine, at most 1 ULP off for |x| < 2^26.
#[inline(always)]
#[must_use]
pub fn cos(x: f32) -> f32 {
    let (r, n) = reduce(x);
    sine(r, n.wrapping_add(1)) as f32
}

/// Tangent, at most 1 ULP off for |x| < 2^26.
#[inline(always)]
#[must_use]
pub fn tan(x: f32) -> f32 {
    let (r, n) = reduce(x);
    let value = (sine(r, n) / sine(r, n.wrapping_add(1))) as f32;
    if x == 0.0 { x } else { value }
}

/// Inverse tangent of a number that is not negative.
#[inline(always)]
fn atan_positive(x: f64) -> f64 {
    use core::f64::consts::{FRAC_PI_2, FRAC_PI_4};
    let steep = x > 1.0;
    let t = if steep { 1.0 / x } else { x };
    // tan(pi/8): above it, pi/4 - atan of a small number.
    let middle = t > 0.414_213_562_373_095;
    let t = if middle { (t - 1.0) / (t + 1.0) } else { t };
    let z = t * t;
    let rest = poly!(
        z,
        -0.333_333_332_956_548_9,
        0.199_999_943_177_990_8,
        -0.142_854_232_865_564_9,
        0.111_039_978_730_663_1,
        -0.089_967_862_130_528_9,
        0.069_909_799_708_113_5,
        -0.037_920_237_443_004_26
    );
    let value = t + t * z * rest + if middle { FRAC_PI_4 } else { 0.0 };
    if steep { FRAC_PI_2 - value } else { value }
}

/// Inverse tangent, at most 1 ULP off.
#[inline(always)]
#[must_use]
pub fn atan(x: f32) -> f32 {
    (atan_positive(f64::from(x.abs())) as f32).copysign(x)
}

/// Inverse sine, at most 1 ULP off; NaN outside [-1, 1].
#[inline(always)]
#[must_use]
pub fn asin(x: f32) -> f32 {
    let a = f64::from(x.abs());
    (atan_positive(a / sqrt_f64((1.0 - a) * (1.0 + a))) as f32).copysign(x)
}

/// Inverse cosine, at most 1 ULP off; NaN outside [-1, 1].
#[inline(always)]
#[must_use]
pub fn acos(x: f32) -> f32 {
    let w = f64::from(x);
    (2.0 * atan_positive(sqrt_f64((1.0 - w) / (1.0 + w)))) as f32
}
