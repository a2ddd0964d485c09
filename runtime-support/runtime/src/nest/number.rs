//! Numbers that reductions work on: how they combine, which is the greatest, and how their lanes are held.

use super::LANES;
use crate::order::Turned;
use core::hint::black_box;

/// Lanes in memory, aligned so that one vector is stored: the parts of one that crosses lines of the cache wait for it.
#[repr(align(64))]
struct Stored<T>([T; LANES]);

/// Lanes that are in memory before they are folded. Where the compiler sees how the lanes of floats are folded, it makes vectors
/// of two of them, from the last sum back to the first loads; integers, whose sums have no order, become whole vectors.
#[inline(always)]
fn stored<T: Copy>(lanes: [T; LANES]) -> [T; LANES] {
    let vectors = cfg!(any(target_feature = "sse2", target_feature = "neon", target_feature = "simd128"));
    if vectors { black_box(Stored(lanes)).0 } else { lanes }
}

/// Numbers that reductions work on. Integers wrap; float `max` and `min` keep a NaN from either side.
pub trait Number: Copy {
    /// Neutral element of [`Number::add`].
    const ZERO: Self;
    /// Neutral element of [`Number::mul`].
    const ONE: Self;
    /// Neutral element of [`Number::max`].
    const LOWEST: Self;
    /// Neutral element of [`Number::min`].
    const HIGHEST: Self;
    /// Sum.
    #[must_use]
    fn add(self, other: Self) -> Self;
    /// Product.
    #[must_use]
    fn mul(self, other: Self) -> Self;
    /// The greater one.
    #[must_use]
    fn max(self, other: Self) -> Self;
    /// The lesser one.
    #[must_use]
    fn min(self, other: Self) -> Self;
    /// Lanes of sums and products before they are folded.
    #[must_use]
    fn held(lanes: [Self; LANES]) -> [Self; LANES];
    /// An integer, by which maxima are found: one instruction each, where a choice between floats takes several in turn.
    type Order: Number;
    /// Greater for greater numbers, and greatest for NaN.
    #[must_use]
    fn or_greatest(self) -> Self::Order;
    /// Greater for greater numbers, and least for NaN.
    #[must_use]
    fn or_least(self) -> Self::Order;
    /// The number of which it is the order.
    #[must_use]
    fn of_order(order: Self::Order) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => { $(
        impl Number for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self > other { self } else { other }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if self < other { self } else { other }
            }
            #[inline(always)]
            fn held(lanes: [Self; LANES]) -> [Self; LANES] {
                lanes
            }
            type Order = Self;
            #[inline(always)]
            fn or_greatest(self) -> Self {
                self
            }
            #[inline(always)]
            fn or_least(self) -> Self {
                self
            }
            #[inline(always)]
            fn of_order(order: Self) -> Self {
                order
            }
        }
    )* };
}
integers!(i8 u8 i16 u16 i32 u32 i64 u64);

macro_rules! floats {
    ($($t:ty as $order:ty)*) => { $(
        impl Number for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            const HIGHEST: Self = <$t>::INFINITY;
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                // With a constant this is one instruction. A sum is NaN, too: were it the operand, memory with the other one would be
                // written where it changes, with a mask.
                let greater = if other > self { other } else { self };
                if other.is_nan() { self + other } else { greater }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let lesser = if other < self { other } else { self };
                if other.is_nan() { self + other } else { lesser }
            }
            #[inline(always)]
            fn held(lanes: [Self; LANES]) -> [Self; LANES] {
                stored(lanes)
            }
            type Order = $order;
            #[inline(always)]
            fn or_greatest(self) -> $order {
                <$order>::turned(if self.is_nan() { Self::NAN.to_bits() } else { self.to_bits() } as $order)
            }
            #[inline(always)]
            fn or_least(self) -> $order {
                <$order>::turned(if self.is_nan() { (-Self::NAN).to_bits() } else { self.to_bits() } as $order)
            }
            #[inline(always)]
            fn of_order(order: $order) -> Self {
                Self::from_bits(<$order>::turned(order) as _)
            }
        }
    )* };
}
floats!(f32 as i32 f64 as i64);
