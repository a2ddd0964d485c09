//! e^x and its closest relatives in `f32`.
use super::poly;

/// 1.5 * 2^23: adding it rounds to the nearest integer (ties to even), which then stands in the low bits.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has 9 significant bits, so that its product with an exponent is exact.
pub(crate) const LN2_HIGH: f32 = 0.693_359_4;
pub(crate) const LN2_LOW: f32 = -2.121_944_4e-4;

/// Coefficients of q(r) = (e^r - 1 - r) / r^2.
pub(crate) const REST: [f32; 5] = [0.499_999_94, 0.166_665_2, 0.041_668_408, 0.008_368_914, 0.001_381_418_9];

/// Powers of the square, from the first one on, in the numerator and the denominator of the hyperbolic tangent over x.
pub(crate) const TANH: [(f32, f32); 4] = [
    (0.134_467_86, 0.467_801_16),
    (3.574_301_5e-3, 2.617_476e-2),
    (2.193_892e-5, 3.415_699e-4),
    (1.529_215_8e-8, 8.547_575_6e-7),
];

/// From here on the quotient is at least 1, whatever the rounding; to it the result is limited.
pub(crate) const TANH_END: f32 = 8.7;

/// The exponent of 1 in a float: `ROUND + BIAS` rounds to an integer n, and leaves the exponent of 2^n in the low bits.
const BIAS: f32 = 127.0;

/// 2^n, of which the low bits hold the exponent.
#[inline(always)]
fn power(exponent: u32) -> f32 {
    f32::from_bits(exponent << 23)
}

/// 2^n * e^r for |r| <= ln(2)/2, in two scalings so that neither overflows and subnormals appear. The low bits of `rounded`
/// hold n and twice the bias.
#[inline(always)]
fn scaled(r: f32, rounded: f32) -> f32 {
    let n = rounded.to_bits();
    let half = n >> 1;
    near_one(r) * power(half) * power(n.wrapping_sub(half))
}

/// e^r for |r| <= ln(2)/2.
#[inline(always)]
fn near_one(r: f32) -> f32 {
    1.0 + (r + r * r * quadratic_rest(r))
}

/// x / ln 2 rounded to an integer n plus `round`, and x - n ln 2.
#[inline(always)]
fn reduced(x: f32, round: f32) -> (f32, f32) {
    let rounded = x * core::f32::consts::LOG2_E + round;
    let n = rounded - round;
    (rounded, x - n * LN2_HIGH - n * LN2_LOW)
}

/// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2, relative error of e^r 3e-9.
#[inline(always)]
fn quadratic_rest(r: f32) -> f32 {
    let [c0, c1, c2, c3, c4] = REST;
    let low = c0 + r * c1;
    low + r * r * ((c2 + r * c3) + r * r * c4)
}

/// e^x, at most 1 ULP off; infinity from 88.73 on, subnormals correct to 1 of their units, 0 below -104.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    // Selects of this form leave NaN alone.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let (rounded, r) = reduced(x, ROUND + 2.0 * BIAS);
    scaled(r, rounded)
}

/// e^x for x in [-87, 89], infinite from 88.37 on, else as near as [`exp`]: one scaling does.
#[inline(always)]
fn exp_bounded(x: f32) -> f32 {
    let (rounded, r) = reduced(x, ROUND + BIAS);
    near_one(r) * power(rounded.to_bits())
}

/// e^x, at most 1 ULP off; 0 below -87, where it is about to become subnormal, and infinite from 88.37 on.
#[inline(always)]
#[must_use]
pub fn exp_or_zero(x: f32) -> f32 {
    let bounded = if x > 89.0 { 89.0 } else { x };
    let power = exp_bounded(bounded);
    if x < -87.0 { 0.0 } else { power }
}

/// 2^x, at most 1 ULP off.
#[inline(always)]
#[must_use]
pub fn exp2(x: f32) -> f32 {
    let x = if x > 129.0 { 129.0 } else { x };
    let x = if x < -151.0 { -151.0 } else { x };
    let rounded = x + (ROUND + 2.0 * BIAS);
    let n = rounded - (ROUND + 2.0 * BIAS);
    scaled((x - n) * core::f32::consts::LN_2, rounded)
}

/// e^x - 1, at most 2 ULP off, also near zero.
#[inline(always)]
#[must_use]
pub fn exp_m1(x: f32) -> f32 {
    // 2^n e^r - 1 = 2^n (e^r - 1) + (2^n - 1), where the last term is exact or negligible. From 20 on the 1 is lost.
    let y = if x > 89.0 { 89.0 } else { x };
    let y = if y < -20.0 { -20.0 } else { y };
    let (rounded, r) = reduced(y, ROUND + 2.0 * BIAS);
    let n = rounded.to_bits();
    let (half, whole) = (n >> 1, power(n.wrapping_sub(BIAS as u32)));
    let rest = r + r * r * quadratic_rest(r);
    let small = whole * rest + (whole - 1.0);
    // Keeps the sign of zero.
    let small = if x == 0.0 { x } else { small };
    let large = (1.0 + rest) * power(half) * power(n.wrapping_sub(half));
    if x > 20.0 { large } else { small }
}

/// 1 / (1 + e^-x), at most 2.5 ULP off; 0 where the result would be subnormal (x below -88.37).
#[inline(always)]
#[must_use]
pub fn sigmoid(x: f32) -> f32 {
    let x = if x < -89.0 { -89.0 } else { x };
    let x = if x > 87.0 { 87.0 } else { x };
    1.0 / (1.0 + exp_bounded(-x))
}

/// Hyperbolic tangent, at most 6 ULP off: `x p(x^2) / q(x^2)`, from 8.7 on 1.
#[inline(always)]
#[must_use]
pub fn tanh(x: f32) -> f32 {
    let x = if x > TANH_END { TANH_END } else { x };
    let x = if x < -TANH_END { -TANH_END } else { x };
    let z = x * x;
    let [(p1, q1), (p2, q2), (p3, q3), (p4, q4)] = TANH;
    let y = x * poly!(z, 1.0, p1, p2, p3, p4) / poly!(z, 1.0, q1, q2, q3, q4);
    let y = if y > 1.0 { 1.0 } else { y };
    if y < -1.0 { -1.0 } else { y }
}
