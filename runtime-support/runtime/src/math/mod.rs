//! Deterministic scalar functions: branch-free, without FMA and without the standard library's float functions.
//!
//! The same bits on every machine and instruction set, because only IEEE basic operations are used, and LLVM may
//! vectorise loops over them (selects, no calls). Functions that end in `_f64` call `libm`.
//! Accuracy, in units in the last place (ULP) of `f32`, is asserted by the tests over sweeps of the whole range.
mod activation;
pub(crate) mod exponential;
mod hyperbolic;
mod integer;
mod logarithm;
pub mod near;
mod power;
mod rounding;
mod special;
mod trigonometric;
mod wide;

pub use activation::{clamp, clamp_f64, elu, gelu_erf, gelu_tanh, hsigmoid, hswish, mish, relu, selu, softplus, swish};
pub use exponential::{exp, exp_m1, exp_or_zero, exp2, sigmoid, tanh};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub use integer::*;
pub use logarithm::{ln, ln_1p, log2, log10};
pub use power::{pow, rem, rem_f64, sqrt, sqrt_f64};
pub use rounding::{
    abs, abs_f64, ceil, ceil_f64, floor, floor_f64, max, max_f64, min, min_f64, round_half_away, round_half_away_f64,
    round_half_even, round_half_even_f64, sign, sign_f64, trunc, trunc_f64,
};
pub use special::erf;
pub use trigonometric::{acos, asin, atan, cos, sin, tan};

macro_rules! libm_twins {
    ($($name:ident $libm:ident)*) => { $(
        #[doc = concat!("`", stringify!($libm), "` of `libm`.")]
        #[inline]
        #[must_use]
        pub fn $name(x: f64) -> f64 {
            libm::$libm(x)
        }
    )* };
}
libm_twins! {
    exp_f64 exp exp2_f64 exp2 ln_f64 log log2_f64 log2 log10_f64 log10 ln_1p_f64 log1p exp_m1_f64 expm1 tanh_f64 tanh
    erf_f64 erf sin_f64 sin cos_f64 cos tan_f64 tan asin_f64 asin acos_f64 acos atan_f64 atan sinh_f64 sinh
    cosh_f64 cosh asinh_f64 asinh acosh_f64 acosh atanh_f64 atanh
}

/// e^x, 0 below -708, where it is about to become subnormal.
#[inline]
#[must_use]
pub fn exp_or_zero_f64(x: f64) -> f64 {
    if x < -708.0 { 0.0 } else { exp_f64(x) }
}

/// `x` to the power `y`, by `libm`.
#[inline]
#[must_use]
pub fn pow_f64(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// 1 / (1 + e^-x).
#[inline]
#[must_use]
pub fn sigmoid_f64(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// ln(1 + e^x), without overflow.
#[inline]
#[must_use]
pub fn softplus_f64(x: f64) -> f64 {
    x.max(0.0) + libm::log1p(libm::exp(-x.abs()))
}

/// `a` where the condition holds, else `b`. For operands that are loaded: behind a branch, loops would choose an address for every
/// element, and load one by one.
#[inline(always)]
#[must_use]
pub fn select<T>(condition: bool, a: T, b: T) -> T {
    core::hint::select_unpredictable(condition, a, b)
}

/// Evaluates a polynomial, lowest coefficient first, by Horner's rule.
macro_rules! poly {
    ($x:expr, $last:expr) => { $last };
    ($x:expr, $first:expr, $($rest:expr),+) => { $first + $x * poly!($x, $($rest),+) };
}
pub(crate) use poly;

#[cfg(test)]
mod tests;
