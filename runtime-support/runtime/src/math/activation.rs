//! Activation functions of neural networks in `f32`.
use super::{erf, exp, exp_m1, poly, sigmoid};

/// max(x, 0); NaN stays NaN.
#[inline(always)]
#[must_use]
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// x limited to [low, high]; NaN stays NaN.
#[inline(always)]
#[must_use]
pub fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// x limited to [low, high]; NaN stays NaN.
#[inline(always)]
#[must_use]
pub fn clamp_f64(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// Gaussian error linear unit: x/2 * (1 + erf(x / sqrt 2)).
#[inline(always)]
#[must_use]
pub fn gelu_erf(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * core::f32::consts::FRAC_1_SQRT_2))
}

/// Its approximation: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), where (1 + tanh(u)) / 2 is the sigmoid of 2u and
/// loses nothing near -1.
#[inline(always)]
#[must_use]
pub fn gelu_tanh(x: f32) -> f32 {
    x * sigmoid(1.595_769 * (x + 0.044_715 * x * x * x))
}

/// ln(1 + e^x), without overflow, at most 3 ULP off.
#[inline(always)]
#[must_use]
pub fn softplus(x: f32) -> f32 {
    // ln(1 + u) = 2 atanh(u / (2 + u)); u is in (0, 1], the argument of atanh in (0, 1/3].
    let u = exp(-x.abs());
    let s = u / (2.0 + u);
    let z = s * s;
    let series = poly!(z, 0.333_333_37, 0.199_994_44, 0.143_083_08, 0.107_152_6, 0.121_452);
    let rest = 2.0 * (s + s * z * series);
    (if x > 0.0 { x } else { 0.0 }) + rest
}

/// x * tanh(softplus(x)).
#[inline(always)]
#[must_use]
pub fn mish(x: f32) -> f32 {
    // tanh(ln(1 + e)) = (e^2 + 2e) / (e^2 + 2e + 2); from 20 on it is 1.
    let e = exp(if x > 20.0 { 20.0 } else { x });
    let n = e * (e + 2.0);
    let value = x * (n / (n + 2.0));
    if x > 20.0 {
        x
    } else if x < -104.0 {
        -0.0
    } else {
        value
    }
}

/// x * sigmoid(beta * x).
#[inline(always)]
#[must_use]
pub fn swish(x: f32, beta: f32) -> f32 {
    let value = x * sigmoid(beta * x);
    // Not -inf * 0.
    if x == f32::NEG_INFINITY && beta > 0.0 { -0.0 } else { value }
}

/// min(max(x + 3, 0), 6) / 6.
#[inline(always)]
#[must_use]
pub fn hsigmoid(x: f32) -> f32 {
    clamp(x + 3.0, 0.0, 6.0) / 6.0
}

/// x * min(max(x + 3, 0), 6) / 6.
#[inline(always)]
#[must_use]
pub fn hswish(x: f32) -> f32 {
    x * (clamp(x + 3.0, 0.0, 6.0) / 6.0)
}

/// x if positive, else alpha * (e^x - 1).
#[inline(always)]
#[must_use]
pub fn elu(x: f32, alpha: f32) -> f32 {
    let negative = alpha * exp_m1(x);
    if x < 0.0 { negative } else { x }
}

/// lambda * elu(x, alpha).
#[inline(always)]
#[must_use]
pub fn selu(x: f32, alpha: f32, lambda: f32) -> f32 {
    lambda * elu(x, alpha)
}
