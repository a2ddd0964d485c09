//! Narrow float element types: transparent newtypes over their bits.
use super::narrow::*;
use crate::pod::Pod;

macro_rules! element {
    ($($(#[$doc:meta])* $name:ident($bits:ty) $from:ident $to:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $bits);

        // SAFETY: transparent over an integer.
        unsafe impl Pod for $name {
            const ZERO: Self = $name(0);
        }

        impl $name {
            /// Rounds to nearest, ties to even.
            #[inline(always)]
            #[must_use]
            pub fn from_f32(x: f32) -> Self {
                $name($from(x))
            }

            /// Exact.
            #[inline(always)]
            #[must_use]
            pub fn to_f32(self) -> f32 {
                $to(self.0)
            }
        }

        impl From<$name> for f32 {
            #[inline(always)]
            fn from(x: $name) -> f32 {
                x.to_f32()
            }
        }
    )* };
}
element! {
    /// IEEE half precision.
    F16(u16) f32_to_f16_bits f16_bits_to_f32;
    /// Bfloat16: the upper half of an `f32`.
    Bf16(u16) f32_to_bf16_bits bf16_bits_to_f32;
    /// Eight bits, four of exponent, three of mantissa; no infinities, greatest 448.
    F8e4m3(u8) f32_to_f8e4m3_bits f8e4m3_bits_to_f32;
    /// Eight bits, five of exponent, two of mantissa.
    F8e5m2(u8) f32_to_f8e5m2_bits f8e5m2_bits_to_f32;
    /// Eight bits of exponent: powers of two.
    F8e8m0(u8) f32_to_f8e8m0_bits f8e8m0_bits_to_f32;
}
