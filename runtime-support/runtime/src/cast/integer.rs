//! Float to integer: truncation toward zero, then wrapping modulo 2^N for 8 and 16 bits and u32.
//!
//! NaN and infinities give 0 there, and like everything out of range the least value of i32 and i64, and 2^63 for u64.
use crate::math::{trunc, trunc_f64};

macro_rules! floats {
    ($f:ty, $trunc:ident, $low8:ident, $low16:ident, $low32:ident,
     $i8:ident $u8:ident $i16:ident $u16:ident $i32:ident $u32:ident $i64:ident $u64:ident $bool:ident) => {
        /// The integer part modulo 2^16 up to sign: scaling by a power of two, truncation and difference are exact.
        #[inline(always)]
        fn $low16(x: $f) -> i32 {
            let y = x - $trunc(x * (1.0 / 65536.0)) * 65536.0;
            let y = if y.is_nan() { 0.0 } else { y };
            // SAFETY: |y| < 65536. (A saturating conversion would not vectorise.)
            unsafe { y.to_int_unchecked::<i32>() }
        }

        /// The integer part modulo 2^32, in the range of i32; NaN for NaN and infinities.
        #[inline(always)]
        fn $low32(x: $f) -> $f {
            const RANGE: $f = 4_294_967_296.0;
            let x = $trunc(x);
            let y = x - $trunc(x * (1.0 / RANGE)) * RANGE;
            let y = if y >= RANGE / 2.0 { y - RANGE } else { y };
            if y < RANGE / -2.0 { y + RANGE } else { y }
        }

        /// To i8.
        #[inline(always)]
        #[must_use]
        pub fn $i8(x: $f) -> i8 {
            $low8(x) as i8
        }

        /// To u8.
        #[inline(always)]
        #[must_use]
        pub fn $u8(x: $f) -> u8 {
            $low8(x) as u8
        }

        /// To i16.
        #[inline(always)]
        #[must_use]
        pub fn $i16(x: $f) -> i16 {
            $low16(x) as i16
        }

        /// To u16.
        #[inline(always)]
        #[must_use]
        pub fn $u16(x: $f) -> u16 {
            $low16(x) as u16
        }

        /// To i32; everything out of range gives the least value.
        #[inline(always)]
        #[must_use]
        pub fn $i32(x: $f) -> i32 {
            const LIMIT: $f = 2_147_483_648.0;
            let x = $trunc(x);
            let inside = (-LIMIT..LIMIT).contains(&x);
            let number = if inside { x } else { -LIMIT };
            // SAFETY: -2^31 <= number < 2^31. (A saturating conversion would not vectorise.)
            unsafe { number.to_int_unchecked::<i32>() }
        }

        /// To u32.
        #[inline(always)]
        #[must_use]
        pub fn $u32(x: $f) -> u32 {
            let y = $low32(x);
            let y = if y.is_nan() { 0.0 } else { y };
            // SAFETY: `low32` gives -2^31 <= y < 2^31 or NaN.
            (unsafe { y.to_int_unchecked::<i32>() }) as u32
        }

        /// To i64; everything out of range gives the least value.
        #[inline(always)]
        #[must_use]
        pub fn $i64(x: $f) -> i64 {
            if x.abs() < 9_223_372_036_854_775_808.0 { x as i64 } else { i64::MIN }
        }

        /// To u64; negative numbers wrap, everything out of range gives 2^63.
        #[inline(always)]
        #[must_use]
        pub fn $u64(x: $f) -> u64 {
            if (9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&x) {
                x as u64
            } else {
                $i64(x) as u64
            }
        }

        /// To boolean: anything but zero is true, NaN too.
        #[inline(always)]
        #[must_use]
        pub fn $bool(x: $f) -> u8 {
            u8::from(x != 0.0)
        }
    };
}

/// The integer part modulo 2^8: from 2^31 on, numbers are multiples of 2^8.
#[inline(always)]
fn low8(x: f32) -> i32 {
    let x = if x.abs() < 2_147_483_648.0 { x } else { 0.0 };
    // SAFETY: |x| < 2^31. (A saturating conversion would not vectorise.)
    unsafe { x.to_int_unchecked::<i32>() }
}

floats!(f32, trunc, low8, low16, low32, f32_to_i8 f32_to_u8 f32_to_i16 f32_to_u16 f32_to_i32 f32_to_u32 f32_to_i64 f32_to_u64 f32_to_bool);
floats!(f64, trunc_f64, low16_f64, low16_f64, low32_f64, f64_to_i8 f64_to_u8 f64_to_i16 f64_to_u16 f64_to_i32 f64_to_u32 f64_to_i64 f64_to_u64 f64_to_bool);
