//! Rounding, sign, extremes. Zero keeps its sign, NaN stays NaN.
macro_rules! rounding {
    ($t:ty, $big:expr, $floor:ident $ceil:ident $trunc:ident $even:ident $away:ident $abs:ident $sign:ident $max:ident $min:ident) => {
        /// Nearest integer, ties to the even one.
        #[inline(always)]
        #[must_use]
        pub fn $even(x: $t) -> $t {
            // From 2^(mantissa bits) on every number is an integer; below, adding that drops the fraction.
            let a = x.abs();
            let rounded = ((a + $big) - $big).copysign(x);
            if a < $big { rounded } else { x }
        }

        /// Greatest integer that is not greater.
        #[inline(always)]
        #[must_use]
        pub fn $floor(x: $t) -> $t {
            let r = $even(x);
            (r - if r > x { 1.0 } else { 0.0 }).copysign(x)
        }

        /// Least integer that is not less.
        #[inline(always)]
        #[must_use]
        pub fn $ceil(x: $t) -> $t {
            let r = $even(x);
            (r + if r < x { 1.0 } else { 0.0 }).copysign(x)
        }

        /// The integer part.
        #[inline(always)]
        #[must_use]
        pub fn $trunc(x: $t) -> $t {
            let a = x.abs();
            let r = $even(a);
            (r - if r > a { 1.0 } else { 0.0 }).copysign(x)
        }

        /// Nearest integer, ties away from zero.
        #[inline(always)]
        #[must_use]
        pub fn $away(x: $t) -> $t {
            let a = x.abs();
            let t = $trunc(a);
            // a - t is exact.
            (t + if a - t >= 0.5 { 1.0 } else { 0.0 }).copysign(x)
        }

        /// Absolute value.
        #[inline(always)]
        #[must_use]
        pub fn $abs(x: $t) -> $t {
            x.abs()
        }

        /// -1, 0 or 1; NaN stays NaN.
        #[inline(always)]
        #[must_use]
        pub fn $sign(x: $t) -> $t {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                x
            }
        }

        /// The greater one; NaN if either is NaN.
        #[inline(always)]
        #[must_use]
        pub fn $max(a: $t, b: $t) -> $t {
            crate::nest::Number::max(a, b)
        }

        /// The lesser one; NaN if either is NaN.
        #[inline(always)]
        #[must_use]
        pub fn $min(a: $t, b: $t) -> $t {
            crate::nest::Number::min(a, b)
        }
    };
}
rounding!(f32, 8_388_608.0, floor ceil trunc round_half_even round_half_away abs sign max min);
rounding!(f64, 4_503_599_627_370_496.0, floor_f64 ceil_f64 trunc_f64 round_half_even_f64 round_half_away_f64 abs_f64 sign_f64 max_f64 min_f64);
