//! Conversions at their edges and over all bit patterns.
use super::*;

#[test]
fn float_to_integer_truncates_and_wraps() {
    assert_eq!(
        (f32_to_i8(-300.7), f32_to_u8(300.0), f32_to_u8(-1.5), f32_to_i8(127.6), f32_to_u8(255.5)),
        (-44, 44, 255, 127, 255)
    );
    for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(
            (f32_to_i8(x), f32_to_u8(x), f32_to_i16(x), f32_to_u16(x), f32_to_i32(x), f32_to_i64(x)),
            (0, 0, 0, 0, i32::MIN, i64::MIN)
        );
        assert_eq!((f32_to_u32(x), f32_to_u64(x), f32_to_bool(x)), (0, 1 << 63, 1));
    }
    assert_eq!((f32_to_bool(0.3), f32_to_bool(-0.5), f32_to_bool(-0.0)), (1, 1, 0));
    assert_eq!(
        (f64_to_u64(1e19), f32_to_u64(-1.0), f64_to_i64(-1e19)),
        (10_000_000_000_000_000_000, u64::MAX, i64::MIN)
    );
    for i in 0..20_000i64 {
        let x = (i * 7_777_777_777 - 60_000_000_000_000) as f64 * 0.37;
        let want = x.trunc() as i64;
        assert_eq!(
            (f64_to_i8(x), f64_to_u16(x), f64_to_i32(x), f64_to_u32(x), f64_to_i64(x)),
            (want as i8, want as u16, i32::try_from(want).unwrap_or(i32::MIN), want as u32, want)
        );
        let y = x as f32;
        let want = y.trunc() as i64;
        assert_eq!(
            (f32_to_u8(y), f32_to_i16(y), f32_to_i32(y), f32_to_u32(y), f32_to_i64(y)),
            (want as u8, want as i16, i32::try_from(want).unwrap_or(i32::MIN), want as u32, want)
        );
    }
}

#[test]
fn bytes_of_f32_are_the_lowest_ones_of_the_integer() {
    // Steps that pass every exponent, both signs, and the numbers around 2^31.
    let around = (-300..300i32).map(|i| 0x4f00_0000u32.wrapping_add_signed(i));
    for bits in (0..u32::MAX).step_by(4099).chain(around.clone()).chain(around.map(|bits| bits | 1 << 31)) {
        let x = f32::from_bits(bits);
        // Beyond 2^63 all numbers are multiples of 2^8, where a conversion saturates.
        let want = if x.abs() < 9.2e18 { x.trunc() as i64 } else { 0 };
        assert_eq!((f32_to_u8(x), f32_to_i8(x)), (want as u8, want as i8), "{x:e}");
    }
}

/// Every finite value, the middles between neighbours and a bit beside them, round as they should.
fn rounds_to_nearest_even(codes: u32, decode: impl Fn(u32) -> f32, encode: impl Fn(f32) -> u32) {
    for code in 0..codes {
        let x = decode(code);
        assert_eq!(
            (encode(x), encode(-x) & (codes.next_power_of_two() * 2 - 1).max(codes)),
            (code, encode(-x)),
            "{code}"
        );
        if code + 1 < codes {
            let middle = (f64::from(x) + f64::from(decode(code + 1))) / 2.0;
            let middle = middle as f32;
            assert_eq!(encode(middle), code + (code & 1), "middle above {code}");
            assert_eq!(encode(f32::from_bits(middle.to_bits() - 1)), code, "below the middle above {code}");
            assert_eq!(encode(f32::from_bits(middle.to_bits() + 1)), code + 1, "above the middle above {code}");
        }
    }
}

#[test]
fn narrow_floats_round_to_nearest_even() {
    rounds_to_nearest_even(0x7c00, |c| f16_bits_to_f32(c as u16), |x| u32::from(f32_to_f16_bits(x)));
    rounds_to_nearest_even(0x7f80, |c| bf16_bits_to_f32(c as u16), |x| u32::from(f32_to_bf16_bits(x)));
    rounds_to_nearest_even(0x7f, |c| f8e4m3_bits_to_f32(c as u8), |x| u32::from(f32_to_f8e4m3_bits(x)));
    rounds_to_nearest_even(0x7c, |c| f8e5m2_bits_to_f32(c as u8), |x| u32::from(f32_to_f8e5m2_bits(x)));
    rounds_to_nearest_even(8, |c| f4e2m1_bits_to_f32(c as u8), |x| u32::from(f32_to_f4e2m1_bits(x)));
}

#[test]
fn narrow_floats_overflow_as_specified() {
    assert_eq!(
        (f32_to_f16_bits(65519.0), f32_to_f16_bits(65520.0), f32_to_f16_bits(1e-8), f32_to_f16_bits(6e-8)),
        (0x7bff, 0x7c00, 0, 1)
    );
    assert_eq!(
        (f32_to_f16_bits(f32::INFINITY), f32_to_f16_bits(-f32::INFINITY), f32_to_f16_bits(-1.0)),
        (0x7c00, 0xfc00, 0xbc00)
    );
    assert!(
        f16_bits_to_f32(0x7e00).is_nan()
            && f16_bits_to_f32(f32_to_f16_bits(f32::NAN)).is_nan()
            && bf16_bits_to_f32(f32_to_bf16_bits(f32::NAN)).is_nan()
    );
    assert_eq!(f32_to_f8e4m3_bits(449.0), 0x7e);
    for x in [500.0, -1e9, f32::INFINITY, f32::NAN] {
        assert!(f8e4m3_bits_to_f32(f32_to_f8e4m3_bits(x)).is_nan());
    }
    assert_eq!(
        (f8e5m2_bits_to_f32(f32_to_f8e5m2_bits(1e9)), f8e5m2_bits_to_f32(0xfc)),
        (f32::INFINITY, f32::NEG_INFINITY)
    );
    assert_eq!((f4e2m1_bits_to_f32(f32_to_f4e2m1_bits(-100.0)), f4e2m1_bits_to_f32(3)), (-6.0, 1.5));
    for code in 0..255u8 {
        assert_eq!(f32_to_f8e8m0_bits(f8e8m0_bits_to_f32(code)), code);
    }
    assert_eq!(
        (f32_to_f8e8m0_bits(1.4), f32_to_f8e8m0_bits(1.6), f32_to_f8e8m0_bits(3.0), f32_to_f8e8m0_bits(-1.0)),
        (127, 128, 128, 0)
    );
    for code in 0..16 {
        assert_eq!(f32_to_nf4_bits(nf4_bits_to_f32(code)), code);
    }
    assert_eq!((f32_to_nf4_bits(-5.0), f32_to_nf4_bits(9.0), f32_to_nf4_bits(0.03)), (0, 15, 7));
    assert_eq!((F16::from_f32(1.5).to_f32(), f32::from(Bf16::from_f32(-2.0)), F8e5m2(0x3c).to_f32()), (1.5, -2.0, 1.0));
}

#[test]
fn rounding_a_double_to_odd_first_rounds_once() {
    let once = |x: f64| f32_to_f16_bits(f64_to_f32_odd(x));
    // Just above the middle between two halves: at single precision it is the middle.
    let above = 1.0 + f64::powi(2.0, -11) + f64::powi(2.0, -40);
    assert_eq!((f32_to_f16_bits(above as f32), once(above), once(-above)), (0x3c00, 0x3c01, 0xbc01));
    assert_eq!((once(1.0 + f64::powi(2.0, -11)), once(65_519.999_999_999), once(65520.0)), (0x3c00, 0x7bff, 0x7c00));
    assert_eq!((once(1e300), once(1e-300), once(-0.0), once(f64::NEG_INFINITY)), (0x7c00, 0, 0x8000, 0xfc00));
    assert!(f64_to_f32_odd(f64::NAN).is_nan());
    assert_eq!(f64_to_f32_odd(1e300), f32::MAX);
}

#[test]
fn packed_layouts() {
    let bits = |f: fn(&[u8], usize) -> u8, n: usize, bytes: &[u8]| -> [u8; 8] {
        core::array::from_fn(|i| if i < n { f(bytes, i) } else { 0 })
    };
    assert_eq!(bits(unpack_u1, 8, &[0x1b]), [0, 0, 0, 1, 1, 0, 1, 1]);
    assert_eq!(bits(unpack_u2, 4, &[0x1b]), [3, 2, 1, 0, 0, 0, 0, 0]);
    // Values 0..8: low bits 00 01 10 11 twice, high bits 00001111.
    assert_eq!(bits(unpack_u3, 8, &[0x1b, 0x1b, 0x0f]), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(bits(unpack_u4, 4, &[0x21, 0xf3]), [1, 2, 3, 15, 0, 0, 0, 0]);
    // Values 1, 18, 35, 63: low halves 1 2 3 15, upper bits 0 1 2 3.
    assert_eq!(bits(unpack_u6, 4, &[0x12, 0x3f, 0x1b]), [1, 18, 35, 63, 0, 0, 0, 0]);
    assert_eq!((unpack_i4(&[0x8f], 0), unpack_i4(&[0x8f], 1), unpack_i4(&[0x8f], 2)), (-1, -8, 0));
    assert_eq!(
        (unpack_nf4(&[0xf0], 0), unpack_nf4(&[0xf0], 1), unpack_nf4(&[0xf0], 2), unpack_f4e2m1(&[0xf1], 1)),
        (-1.0, 1.0, 0.0, -6.0)
    );
}
