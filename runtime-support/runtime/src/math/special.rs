//! The error function.
use super::{exp, poly};

/// Error function, at most 2 ULP off.
#[inline(always)]
#[must_use]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    let z = x * x;
    // The part beyond x itself: its rounding errors weigh less.
    let rest = poly!(
        z,
        0.128_379_17,
        -0.376_126_26,
        0.112_835_854,
        -0.026_853_81,
        0.005_188_327_7,
        -0.000_801_019_25,
        7.853_858e-5
    );
    let near = x + x * rest;
    // From 4 on the result rounds to 1.
    let b = if a > 4.0 { 4.0 } else { a };
    let exponent = poly!(
        b,
        0.000_300_428_34,
        1.127_251_5,
        0.637_883_07,
        0.103_327_35,
        -0.021_940_43,
        0.002_972_442,
        -0.000_188_823_61
    );
    let far = (1.0 - exp(-exponent)).copysign(x);
    if a < 1.0 { near } else { far }
}
