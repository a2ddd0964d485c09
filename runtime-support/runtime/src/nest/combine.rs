//! What reductions do with the values that they take.

use super::{LANES, Number};
use core::marker::PhantomData;

/// How a reduction combines values: associative but for rounding.
pub trait Combine {
    /// What it takes and gives.
    type Value: Copy;
    /// What it holds of them.
    type Lane: Copy;
    /// The neutral element.
    #[must_use]
    fn neutral() -> Self::Lane;
    /// What it holds of one value.
    #[must_use]
    fn lane(value: Self::Value) -> Self::Lane;
    /// Two of them combined.
    #[must_use]
    fn combine(a: Self::Lane, b: Self::Lane) -> Self::Lane;
    /// The value of what it holds.
    #[must_use]
    fn value(lane: Self::Lane) -> Self::Value;
    /// Many lanes before they are folded.
    #[inline(always)]
    #[must_use]
    fn held(lanes: [Self::Lane; LANES]) -> [Self::Lane; LANES] {
        lanes
    }
}

macro_rules! of_numbers {
    ($($(#[$doc:meta])* $name:ident by $combine:ident from $neutral:ident)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(PhantomData<T>);

        impl<T: Number> Combine for $name<T> {
            type Value = T;
            type Lane = T;
            #[inline(always)]
            fn neutral() -> T {
                T::$neutral
            }
            #[inline(always)]
            fn lane(value: T) -> T {
                value
            }
            #[inline(always)]
            fn combine(a: T, b: T) -> T {
                a.$combine(b)
            }
            #[inline(always)]
            fn value(lane: T) -> T {
                lane
            }
            #[inline(always)]
            fn held(lanes: [T; LANES]) -> [T; LANES] {
                T::held(lanes)
            }
        }
    )* };
}
of_numbers! {
    /// Their sum.
    Sum by add from ZERO
    /// Their product.
    Prod by mul from ONE
}

macro_rules! of_orders {
    ($($(#[$doc:meta])* $name:ident by $combine:ident of $order:ident from $neutral:ident)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(PhantomData<T>);

        impl<T: Number> Combine for $name<T> {
            type Value = T;
            type Lane = T::Order;
            #[inline(always)]
            fn neutral() -> T::Order {
                T::$neutral.$order()
            }
            #[inline(always)]
            fn lane(value: T) -> T::Order {
                value.$order()
            }
            #[inline(always)]
            fn combine(a: T::Order, b: T::Order) -> T::Order {
                a.$combine(b)
            }
            #[inline(always)]
            fn value(lane: T::Order) -> T {
                T::of_order(lane)
            }
        }
    )* };
}
of_orders! {
    /// The greatest.
    Max by max of or_greatest from LOWEST
    /// The least.
    Min by min of or_least from HIGHEST
}

macro_rules! of_bools {
    ($($(#[$doc:meta])* $name:ident by $combine:tt from $neutral:literal)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Combine for $name {
            type Value = bool;
            type Lane = bool;
            #[inline(always)]
            fn neutral() -> bool {
                $neutral
            }
            #[inline(always)]
            fn lane(value: bool) -> bool {
                value
            }
            #[inline(always)]
            fn combine(a: bool, b: bool) -> bool {
                a $combine b
            }
            #[inline(always)]
            fn value(lane: bool) -> bool {
                lane
            }
        }
    )* };
}
of_bools! {
    /// Whether all hold. Looks at every one.
    All by & from true
    /// Whether any holds. Looks at every one.
    Any by | from false
}
