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

/// `x` to the power `y`, at most 1 ULP off, or 2.5 where few instructions compute it. As IEEE `pow`: 0^0 = 1, a negative `x` needs
/// an integral `y`.
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
    let value = if y == 0.0 || x == 1.0 { 1.0 } else { value };
    simple(x, y, value)
}

/// The powers that take a few instructions, else what is known otherwise: of a constant exponent one of them remains.
#[inline(always)]
fn simple(x: f32, y: f32, otherwise: f32) -> f32 {
    // The roots of IEEE differ: sqrt(-0) is -0, sqrt(-inf) is NaN.
    let root = if x < 0.0 && x != f32::NEG_INFINITY { f32::NAN } else { sqrt(x.abs()) };
    let value = if y == 0.5 { root } else { otherwise };
    let value = if y == -0.5 { 1.0 / root } else { value };
    let value = if y == 0.25 { sqrt(root) } else { value };
    let value = if y == 0.75 { root * sqrt(root) } else { value };
    let value = if y == 1.5 { x.abs() * root } else { value };
    let value = if y == -1.0 { 1.0 / x } else { value };
    let value = if y == -2.0 { (1.0 / x) * (1.0 / x) } else { value };
    let value = if y == 1.0 { x } else { value };
    let (square, cube) = (x * x, x * x * x);
    let value = if y == 2.0 { square } else { value };
    let value = if y == 3.0 { cube } else { value };
    if y == 4.0 { square * square } else { value }
}

/// Declares the remainder of one float type by long division of the mantissas, which is exact. `libm` has the same, with
/// panics that the optimiser does not remove.
macro_rules! remainder {
    ($name:ident, $float:ty, $bits:ty) => {
        /// Remainder of the truncated quotient (C `fmod`), exact; the sign of `x`.
        #[inline]
        #[must_use]
        pub fn $name(x: $float, y: $float) -> $float {
            const MANTISSA: u32 = <$float>::MANTISSA_DIGITS - 1;
            const HIDDEN: $bits = 1 << MANTISSA;
            let sign = x.to_bits() & !(<$bits>::MAX >> 1);
            let (a, b) = (x.abs(), y.abs());
            if x.is_nan() || y.is_nan() || a == <$float>::INFINITY || b == 0.0 {
                return <$float>::NAN;
            }
            if a < b {
                return x;
            }
            // Value = mantissa * 2^(exponent - 1), up to a constant; subnormal numbers have the least exponent.
            let split = |bits: $bits| match bits >> MANTISSA {
                0 => (u64::from(bits), 1),
                exponent => (u64::from(bits & (HIDDEN - 1) | HIDDEN), exponent),
            };
            let ((mut rest, exponent), (divisor, least)) = (split(a.to_bits()), split(b.to_bits()));
            let mut left = exponent - least;
            while left > 0 && rest != 0 {
                // As many digits at once as 64 bits have room for.
                let digits = left.min(<$bits>::from(63 - MANTISSA as u8));
                rest = (rest << digits).checked_rem(divisor).unwrap_or(0);
                left -= digits;
            }
            rest = rest.checked_rem(divisor).unwrap_or(0);
            // Back to a normal number, as far as the exponent allows.
            let room = (rest.leading_zeros() as $bits).saturating_sub(<$bits>::from(63 - MANTISSA as u8));
            let shift = room.min(least - 1);
            let (mantissa, exponent) = ((rest as $bits) << shift, least - shift);
            let magnitude = if mantissa >= HIDDEN { mantissa - HIDDEN + (exponent << MANTISSA) } else { mantissa };
            <$float>::from_bits(magnitude | sign)
        }
    };
}
remainder!(rem, f32, u32);
remainder!(rem_f64, f64, u64);
