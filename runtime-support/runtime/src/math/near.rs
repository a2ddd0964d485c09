//! Division and remainder by vectors, for operands whose quotients are small: bits are those of the functions for all.
//!
//! A loop over a row looks first whether that is so in the whole row. It never is on machines without vectors.
use super::wide::{ROUND, integer};

/// Machines of which every processor has vectors.
const VECTORS: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "wasm32"));

/// Adding it rounds to the nearest integer, which then stands in the low bits.
const ROUND_F32: f32 = super::exponential::ROUND;
/// Adding it rounds to a multiple of 2^11.
const COARSE: f32 = ROUND_F32 * 2048.0;
/// 2^126: twice a number below it is finite.
const GREATEST: f32 = f32::from_bits((126 + 127) << 23);
/// The greatest dividend times the reciprocal of the least divisor, rounded upwards, stays below 2^31.
const REDUCED: f32 = 1.0 - 4.0 * f32::EPSILON;

/// Whether functions of this module are those of `math` for these operands.
#[inline(always)]
#[must_use]
pub fn is_near_f32(x: f32, y: f32) -> bool {
    // False for zero divisors, infinite dividends and NaN. Multiples of the divisor next to larger dividends might overflow.
    VECTORS && (x.abs() < y.abs() * 4_194_304.0) & (x.abs() < GREATEST)
}

/// Whether functions of this module are those of `math` for these operands.
#[inline(always)]
#[must_use]
pub fn is_near_i32(_: i32, _: i32) -> bool {
    VECTORS
}

/// Whether functions of this module are those of `math` for these operands.
#[inline(always)]
#[must_use]
pub fn is_near_i64(a: i64, b: i64) -> bool {
    let small = |value: i64| (value.wrapping_add(1 << 51) as u64) < 1 << 52;
    VECTORS && small(a) & small(b)
}

/// `math::rem`.
#[inline(always)]
#[must_use]
pub fn rem(x: f32, y: f32) -> f32 {
    let (a, b) = (x.abs(), y.abs());
    // Adding 2^23 rounds a number below 2^22 to an integer, which is next to the quotient.
    let quotient = (a / b + 8_388_608.0) - 8_388_608.0;
    let coarse = (quotient + COARSE) - COARSE;
    let fine = quotient - coarse;
    let high = f32::from_bits(b.to_bits() & !0xfff);
    let low = b - high;
    // Every product has at most 12 bits of each factor, and every difference is a multiple of what both its operands are
    // multiples of, at most 2^24 times as great: all are exact.
    let rest = ((a - coarse * high) - coarse * low - fine * high) - fine * low;
    let rest = if rest < 0.0 { rest + b } else { rest };
    // An infinite divisor has no parts.
    let rest = if a < b { a } else { rest };
    rest.copysign(x)
}

/// Quotient rounded toward zero, and the remainder, of integers below 2^51: the quotient of two such numbers is no nearer to
/// the next integer than f64 can tell.
#[inline(always)]
fn divided(a: f64, b: f64) -> (f64, f64) {
    let quotient = a / b;
    let size = quotient.abs();
    let whole = (size + ROUND) - ROUND;
    let whole = if whole > size { whole - 1.0 } else { whole }.copysign(quotient);
    (whole, a - whole * b)
}

/// Whether the remainder has not the sign of the divisor.
#[inline(always)]
fn is_below(rest: f64, b: f64) -> bool {
    (rest != 0.0) & ((rest < 0.0) != (b < 0.0))
}

/// Quotient and remainder of integers of 32 bits, the remainder between halves of the divisor: the reciprocal in f32 gives the
/// quotient up to 1500 more or less, and that of the rest the nearest one. No difference overflows: quotients below 2 are found at once.
#[inline(always)]
fn divided_i32(a: i32, b: i32) -> (i32, i32) {
    let reciprocal = REDUCED / b as f32;
    // SAFETY: below 2^31, because `REDUCED` is so much below 1; `divisor` is not zero.
    let first = unsafe { (a as f32 * reciprocal).to_int_unchecked::<i32>() };
    let rest = a.wrapping_sub(first.wrapping_mul(b));
    let nearest = rest as f32 * reciprocal + ROUND_F32;
    let second = (nearest.to_bits() as i32).wrapping_sub(ROUND_F32.to_bits() as i32);
    (first.wrapping_add(second), rest.wrapping_sub(second.wrapping_mul(b)))
}

/// The divisor, or 1 instead of zero.
#[inline(always)]
fn divisor(b: i32) -> i32 {
    if b == 0 { 1 } else { b }
}

/// `math::floor_div` and `math::floor_mod` of a divisor that is not zero.
#[inline(always)]
fn floor_i32(a: i32, b: i32) -> (i32, i32) {
    let (quotient, rest) = divided_i32(a, b);
    let below = (rest != 0) & ((rest ^ b) < 0);
    (quotient.wrapping_sub(i32::from(below)), if below { rest.wrapping_add(b) } else { rest })
}

/// `math::trunc_div` and `math::trunc_mod` of a divisor that is not zero.
#[inline(always)]
fn trunc_i32(a: i32, b: i32) -> (i32, i32) {
    let (quotient, rest) = divided_i32(a, b);
    let other = (rest != 0) & ((rest ^ a) < 0);
    let (step, back) = if (rest ^ b) < 0 { (-1, b) } else { (1, b.wrapping_neg()) };
    (quotient.wrapping_add(if other { step } else { 0 }), if other { rest.wrapping_add(back) } else { rest })
}

/// `math::trunc_div_i32`.
#[inline(always)]
#[must_use]
pub fn trunc_div_i32(a: i32, b: i32) -> i32 {
    if b == 0 { 0 } else { trunc_i32(a, divisor(b)).0 }
}

/// `math::trunc_mod_i32`.
#[inline(always)]
#[must_use]
pub fn trunc_mod_i32(a: i32, b: i32) -> i32 {
    // Nothing is left of a division by 1.
    trunc_i32(a, divisor(b)).1
}

/// `math::floor_div_i32`.
#[inline(always)]
#[must_use]
pub fn floor_div_i32(a: i32, b: i32) -> i32 {
    if b == 0 { 0 } else { floor_i32(a, divisor(b)).0 }
}

/// `math::floor_mod_i32`.
#[inline(always)]
#[must_use]
pub fn floor_mod_i32(a: i32, b: i32) -> i32 {
    floor_i32(a, divisor(b)).1
}

/// The number as f64, without the instruction that vectors lack.
#[inline(always)]
fn small(value: i64) -> f64 {
    f64::from_bits(value.wrapping_add(ROUND.to_bits() as i64) as u64) - ROUND
}

/// `math::trunc_div_i64`.
#[inline(always)]
#[must_use]
pub fn trunc_div_i64(a: i64, b: i64) -> i64 {
    let (quotient, _) = divided(small(a), small(b));
    if b == 0 { 0 } else { integer(quotient + ROUND) }
}

/// `math::trunc_mod_i64`.
#[inline(always)]
#[must_use]
pub fn trunc_mod_i64(a: i64, b: i64) -> i64 {
    let (_, rest) = divided(small(a), small(b));
    if b == 0 { 0 } else { integer(rest + ROUND) }
}

/// `math::floor_div_i64`.
#[inline(always)]
#[must_use]
pub fn floor_div_i64(a: i64, b: i64) -> i64 {
    let divisor = small(b);
    let (quotient, rest) = divided(small(a), divisor);
    let quotient = if is_below(rest, divisor) { quotient - 1.0 } else { quotient };
    if b == 0 { 0 } else { integer(quotient + ROUND) }
}

/// `math::floor_mod_i64`.
#[inline(always)]
#[must_use]
pub fn floor_mod_i64(a: i64, b: i64) -> i64 {
    let divisor = small(b);
    let (_, rest) = divided(small(a), divisor);
    let rest = if is_below(rest, divisor) { rest + divisor } else { rest };
    if b == 0 { 0 } else { integer(rest + ROUND) }
}

#[cfg(test)]
mod tests {
    use super::super as math;
    use super::*;

    #[test]
    fn remainders_of_near_numbers_are_those_of_all() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state
        };
        let edges =
            [0.0, -0.0, 1.0, 3.0, 1e-45, -1e-38, 0.1, 8_388_607.0, 16_777_215.0, f32::MAX, f32::INFINITY, f32::NAN];
        let mut near = 0;
        for i in 0..400_000u32 {
            let (a, b) = (next(), next());
            let edge = |n: u32| edges.get(n as usize % edges.len()).copied().unwrap_or(0.0);
            let y = if i % 7 == 0 { edge(b) } else { f32::from_bits(b) };
            let x = match i % 5 {
                0 => f32::from_bits(a),
                // Next to a multiple.
                1 => f32::from_bits((y * (a % 5_000_000) as f32).to_bits().wrapping_add(b % 3).wrapping_sub(1)),
                2 => edge(a),
                _ => y * (a as f32 / 65_536.0),
            };
            if is_near_f32(x, y) {
                near += 1;
                assert_eq!(rem(x, y).to_bits(), math::rem(x, y).to_bits(), "{x:e} {y:e}");
            }
        }
        assert!(near > 100_000 || !VECTORS, "{near}");
    }

    #[test]
    fn quotients_of_near_integers_are_those_of_all() {
        let mut state = 1u64;
        let mut next = |bits: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state as i64) >> (64 - 1 - (state >> 32) % bits)
        };
        for i in 0..100_000 {
            let (a, b) = (next(52), next(52));
            // Next to a multiple as well.
            let a = if i % 3 == 0 { (a / b.max(1)).wrapping_mul(b).wrapping_add(i % 2 - 1) } else { a };
            let (m, n) = (a as i32, b as i32);
            let (wide, multiple) =
                (next(31) as i32, (n / 2).wrapping_mul(next(3) as i32).wrapping_add(i as i32 % 3 - 1));
            let edges = [
                (wide, n),
                (wide, n % 100),
                (multiple, n / 2),
                (i32::MIN, n % 9),
                (i32::MAX, i32::MIN),
                (m, n),
                (i32::MIN, n),
                (i32::MAX, n),
                (m, 0),
                (i32::MIN, -1),
                (m, i32::MIN),
                (m, 1),
            ];
            for (m, n) in edges {
                assert_eq!(trunc_div_i32(m, n), math::trunc_div_i32(m, n), "{m} {n}");
                assert_eq!(trunc_mod_i32(m, n), math::trunc_mod_i32(m, n), "{m} {n}");
                assert_eq!(floor_div_i32(m, n), math::floor_div_i32(m, n), "{m} {n}");
                assert_eq!(floor_mod_i32(m, n), math::floor_mod_i32(m, n), "{m} {n}");
            }
            for (a, b) in [(a, b), (a, 0), ((1 << 51) - 1, b), (-(1 << 51), b), (a, 1), (a, -1)] {
                if is_near_i64(a, b) {
                    assert_eq!(trunc_div_i64(a, b), math::trunc_div_i64(a, b), "{a} {b}");
                    assert_eq!(trunc_mod_i64(a, b), math::trunc_mod_i64(a, b), "{a} {b}");
                    assert_eq!(floor_div_i64(a, b), math::floor_div_i64(a, b), "{a} {b}");
                    assert_eq!(floor_mod_i64(a, b), math::floor_mod_i64(a, b), "{a} {b}");
                }
            }
        }
    }
}
