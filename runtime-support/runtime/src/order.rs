//! Floats by the order of integers.

/// Bits of floats, in the order of the numbers.
pub(crate) trait Turned {
    /// All bits but the sign turned where that is set. No shift with the sign: LLVM 22 makes it a mask of vectors, and reads such a
    /// mask from a wrong register where more than 16 are in use (VMOVMSKPS of XMM16 and above, which has no encoding).
    fn turned(self) -> Self;
}

macro_rules! turned {
    ($($order:ty as $bits:ty)*) => { $(
        impl Turned for $order {
            #[inline(always)]
            fn turned(self) -> Self {
                let sign = self as $bits >> (<$bits>::BITS - 1);
                self ^ (sign << (<$bits>::BITS - 1)).wrapping_sub(sign) as $order
            }
        }
    )* };
}
turned!(i32 as u32 i64 as u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_the_order_of_their_numbers() {
        let numbers = [f64::NEG_INFINITY, -3e38, -1.5, -1e-44, -0.0, 0.0, 1e-44, 1.5, 3e38, f64::INFINITY];
        for pair in numbers.windows(2) {
            let [long, other] = [pair[0], pair[1]].map(|x| (x.to_bits() as i64).turned());
            let [short, next] = [pair[0], pair[1]].map(|x| ((x as f32).to_bits() as i32).turned());
            assert!(long < other && short < next, "{pair:?}");
            assert_eq!((long.turned() as u64, short.turned() as u32), (pair[0].to_bits(), (pair[0] as f32).to_bits()));
        }
    }
}
