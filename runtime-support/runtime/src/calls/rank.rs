//! Elements and their positions as one number each.
use super::Element;
use crate::order::Turned;
use crate::pod::Pod;
use crate::simd::Simd;

/// Elements that are compared.
pub trait Key: Element + Pod + PartialOrd {
    /// Whether an element and a position fit one number.
    const NARROW: bool;
    /// The least and the greatest key of an element that is narrow and not NaN; the least of all integers is left out.
    const RANGE: [i32; 2];
    /// Whether this is not NaN.
    fn is_number(self) -> bool;
    /// A number in the order of the elements, which are narrow and not NaN.
    fn ordered(self) -> i32;
    /// The same of a vector of elements.
    ///
    /// # Safety
    /// So many are valid to read.
    unsafe fn ordered_vector<S: Simd>(s: S, x: *const Self) -> S::I32;
}

macro_rules! key {
    ($($ty:ty, $narrow:literal, $range:expr, $is_number:expr, $ordered:expr, $vector:expr;)*) => {$(
        impl Key for $ty {
            const NARROW: bool = $narrow;
            const RANGE: [i32; 2] = $range;
            #[inline(always)]
            fn is_number(self) -> bool {
                ($is_number)(self)
            }
            #[inline(always)]
            fn ordered(self) -> i32 {
                ($ordered)(self)
            }
            #[inline(always)]
            unsafe fn ordered_vector<S: Simd>(s: S, x: *const Self) -> S::I32 {
                // SAFETY: promised by the caller.
                unsafe { ($vector)(s, x) }
            }
        }
    )*};
}
key! {
    f32, true, [!INFINITY, INFINITY], |x: f32| !x.is_nan(), order_of_bits, order_of_vector;
    i32, true, [-i32::MAX, i32::MAX], |_| true, |x| x, S::load_i32;
    u8, true, [-256, 255], |_| true, i32::from, load_u8;
    f64, false, [0; 2], |x: f64| !x.is_nan(), |_| 0, none;
    i64, false, [0; 2], |_| true, |_| 0, none;
}

/// The bits of infinity.
const INFINITY: i32 = f32::INFINITY.to_bits().cast_signed();

/// Adding zero makes both zeros the same one. Negative numbers have the order of their bits backwards.
#[inline(always)]
fn order_of_bits(x: f32) -> i32 {
    (x + 0.0).to_bits().cast_signed().turned()
}

/// Greater for larger elements, or with `smallest` for smaller ones; of equal ones, for those with smaller positions.
#[inline(always)]
pub fn rank<K: Key>(x: K, position: i32, smallest: bool) -> i64 {
    i64::from(key(x, smallest)) << 32 | i64::from((!position).cast_unsigned())
}

/// # Safety
/// A vector of numbers is valid to read.
#[inline(always)]
unsafe fn load_u8<S: Simd>(s: S, x: *const u8) -> S::I32 {
    // SAFETY: promised by the caller.
    s.u8_to_i32(unsafe { s.load_u8(x) })
}

/// Wide elements are not compared by vectors.
///
/// # Safety
/// None.
#[inline(always)]
unsafe fn none<S: Simd, T>(s: S, _: *const T) -> S::I32 {
    s.splat_i32(0)
}

/// The same of a vector, as [`Turned`] does it.
///
/// # Safety
/// A vector of numbers is valid to read.
#[inline(always)]
unsafe fn order_of_vector<S: Simd>(s: S, x: *const f32) -> S::I32 {
    // SAFETY: promised by the caller.
    let bits = s.f32_to_bits(s.add(unsafe { s.load(x) }, s.splat(0.0)));
    let sign = s.shr_logical_i32(bits, 31);
    s.xor_i32(bits, s.sub_i32(s.shl_i32(sign, 31), sign))
}

/// A number that is greater for larger elements, or with `smallest` for smaller ones.
#[inline(always)]
pub fn key<K: Key>(x: K, smallest: bool) -> i32 {
    if smallest { !x.ordered() } else { x.ordered() }
}

/// The position of an element with this rank.
#[inline(always)]
pub fn position(rank: i64) -> i32 {
    !(rank as i32)
}

/// The element with this rank; 0 for both zeros.
#[inline(always)]
pub fn element(rank: i64) -> f32 {
    f32::from_bits(((rank >> 32) as i32).turned().cast_unsigned())
}

/// A rank from its halves, the lower one first.
#[inline(always)]
pub fn whole([low, high]: [i32; 2]) -> i64 {
    i64::from(high) << 32 | i64::from(low.cast_unsigned())
}

/// The halves of a rank, where nothing that holds it is aligned.
#[inline(always)]
pub fn halves(rank: i64) -> [i32; 2] {
    [rank as i32, (rank >> 32) as i32]
}

/// Sorts numbers by their upper halves, by one byte of them after the other; equal ones keep their order.
#[inline]
pub fn sort_by_upper_half(numbers: &mut [i64], spare: &mut [i64]) {
    let (mut from, mut to) = (numbers, spare);
    for byte in 4..8 {
        // The highest bit is a sign.
        let digit = |number: i64| ((number ^ i64::MIN) >> (8 * byte)) as u8 as usize;
        let mut ends = [0usize; 256];
        for number in from.iter() {
            if let Some(end) = ends.get_mut(digit(*number)) {
                *end += 1;
            }
        }
        let mut start = 0;
        for end in &mut ends {
            start += core::mem::replace(end, start);
        }
        for number in from.iter() {
            if let Some(place) = ends.get_mut(digit(*number)) {
                if let Some(slot) = to.get_mut(*place) {
                    *slot = *number;
                }
                *place += 1;
            }
        }
        core::mem::swap(&mut from, &mut to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn ranks_have_the_order_of_elements_then_positions() {
        let x = [f32::NEG_INFINITY, f32::MIN, -1.5, -1e-40, -0.0, 0.0, 1e-40, 2.0, f32::MAX, f32::INFINITY];
        for (i, a) in (0..).zip(x) {
            for (j, b) in (0..).zip(x) {
                let (larger, smaller) = (rank(a, i, false) > rank(b, j, false), rank(a, i, true) > rank(b, j, true));
                assert_eq!((larger, smaller), (a > b || a == b && i < j, a < b || a == b && i < j), "{a} {b}");
                assert_eq!((position(rank(a, i, true)), position(rank(b, j, false))), (i, j));
            }
        }
        assert!(rank(i32::MIN, 0, false) < rank(-1, 0, false) && rank(-1, 0, false) < rank(i32::MAX, i32::MAX, false));
    }

    #[test]
    fn upper_halves_are_sorted_and_equal_ones_keep_their_order() {
        let numbers: Vec<i64> =
            (0..3000i64).map(|i| ((i * 7919 % 641 - 320) * 13_000_001) << 32 | (i * 31 % 977)).collect();
        let (mut got, mut want, mut spare) = (numbers.clone(), numbers, std::vec![0; 3000]);
        sort_by_upper_half(&mut got, &mut spare);
        want.sort_by_key(|number| number >> 32);
        assert_eq!(got, want);
    }
}
