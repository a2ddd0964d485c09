//! Integer division, remainder and power that cannot fail: x / 0 = 0, overflow wraps.
macro_rules! signed {
    ($($t:ty: $floor_div:ident $trunc_div:ident $floor_mod:ident $trunc_mod:ident $pow:ident;)*) => { $(
        /// Quotient rounded toward zero; 0 if `b` is 0.
        #[inline(always)]
        #[must_use]
        pub const fn $trunc_div(a: $t, b: $t) -> $t {
            if b == 0 { 0 } else { a.wrapping_div(b) }
        }

        /// Remainder with the sign of `a`; 0 if `b` is 0.
        #[inline(always)]
        #[must_use]
        pub const fn $trunc_mod(a: $t, b: $t) -> $t {
            if b == 0 { 0 } else { a.wrapping_rem(b) }
        }

        /// Quotient rounded toward negative infinity; 0 if `b` is 0.
        #[inline(always)]
        #[must_use]
        pub const fn $floor_div(a: $t, b: $t) -> $t {
            let (q, r) = ($trunc_div(a, b), $trunc_mod(a, b));
            if r != 0 && (r < 0) != (b < 0) { q.wrapping_sub(1) } else { q }
        }

        /// Remainder with the sign of `b`; 0 if `b` is 0.
        #[inline(always)]
        #[must_use]
        pub const fn $floor_mod(a: $t, b: $t) -> $t {
            let r = $trunc_mod(a, b);
            if r != 0 && (r < 0) != (b < 0) { r.wrapping_add(b) } else { r }
        }

        /// Power, wrapping; a negative exponent gives the truncated reciprocal (2^-1 = 0, (-1)^-3 = -1, 0^-1 = 0).
        #[inline]
        #[must_use]
        pub const fn $pow(base: $t, exponent: $t) -> $t {
            if exponent < 0 {
                return match base {
                    1 => 1,
                    -1 => if exponent & 1 == 0 { 1 } else { -1 },
                    _ => 0,
                };
            }
            let (mut result, mut square, mut rest): ($t, $t, $t) = (1, base, exponent);
            while rest > 0 {
                if rest & 1 == 1 {
                    result = result.wrapping_mul(square);
                }
                square = square.wrapping_mul(square);
                rest >>= 1;
            }
            result
        }
    )* };
}

/// Quotient of sizes, rounded down; 0 if `b` is 0.
#[inline(always)]
#[must_use]
pub const fn floor_div_usize(a: usize, b: usize) -> usize {
    match a.checked_div(b) {
        Some(quotient) => quotient,
        None => 0,
    }
}

/// Quotient of sizes, rounded up; 0 if `b` is 0.
#[inline(always)]
#[must_use]
pub const fn ceil_div_usize(a: usize, b: usize) -> usize {
    match a.checked_div(b) {
        Some(quotient) => quotient + (!a.is_multiple_of(b)) as usize,
        None => 0,
    }
}

/// Remainder of sizes; 0 if `b` is 0.
#[inline(always)]
#[must_use]
pub const fn floor_mod_usize(a: usize, b: usize) -> usize {
    match a.checked_rem(b) {
        Some(rest) => rest,
        None => 0,
    }
}

signed! {
    i32: floor_div_i32 trunc_div_i32 floor_mod_i32 trunc_mod_i32 pow_i32;
    i64: floor_div_i64 trunc_div_i64 floor_mod_i64 trunc_mod_i64 pow_i64;
}

/// Quotient; 0 if `b` is 0.
#[inline(always)]
#[must_use]
pub const fn div_u64(a: u64, b: u64) -> u64 {
    match a.checked_div(b) {
        Some(quotient) => quotient,
        None => 0,
    }
}

/// Remainder; 0 if `b` is 0.
#[inline(always)]
#[must_use]
pub const fn mod_u64(a: u64, b: u64) -> u64 {
    match a.checked_rem(b) {
        Some(rest) => rest,
        None => 0,
    }
}

/// Power, wrapping.
#[inline]
#[must_use]
pub const fn pow_u64(base: u64, exponent: u64) -> u64 {
    let (mut result, mut square, mut rest) = (1u64, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}
