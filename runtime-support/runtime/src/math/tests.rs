//! Accuracy sweeps against double-precision `libm`.
use super::*;

/// Distance of `got` from `want` in units in the last place of the `f32` nearest to `want`.
fn ulp(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if got.is_nan() || near.is_nan() {
        return if got.is_nan() && near.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == near {
        return if got.is_infinite() { 0.0 } else { ((f64::from(got) - want) / unit(near)).abs() };
    }
    if got.is_infinite() || near.is_infinite() {
        return f64::INFINITY;
    }
    (f64::from(got) - want).abs() / unit(near)
}

fn unit(x: f32) -> f64 {
    let a = x.abs().max(f32::MIN_POSITIVE);
    f64::from(f32::from_bits(a.to_bits() + 1)) - f64::from(a)
}

/// Greatest error over all bit patterns at a stride, limited to |x| <= `limit`, and where.
fn worst(limit: f32, f: impl Fn(f32) -> f32, reference: impl Fn(f64) -> f64) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    for bits in (0..0x7f80_0000u32).step_by(1009) {
        for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
            if x.abs() <= limit {
                let error = ulp(f(x), reference(f64::from(x)));
                if error > worst.0 {
                    worst = (error, x);
                }
            }
        }
    }
    worst
}

macro_rules! accuracy {
    ($($test:ident: $f:expr, $reference:expr, $limit:expr, $bound:expr;)*) => { $(
        #[test]
        fn $test() {
            let (error, at) = worst($limit, $f, $reference);
            assert!(error <= $bound, "{error} ULP at {at:e}: {:e}", $f(at));
        }
    )* };
}
const ALL: f32 = f32::MAX;
accuracy! {
    exp_accuracy: exp, libm::exp, ALL, 1.1;
    exp_or_zero_accuracy: exp_or_zero, libm::exp, 87.0, 1.1;
    exp2_accuracy: exp2, libm::exp2, ALL, 1.1;
    exp_m1_accuracy: exp_m1, libm::expm1, ALL, 2.0;
    ln_accuracy: ln, libm::log, ALL, 1.1;
    log2_accuracy: log2, libm::log2, ALL, 0.51;
    log10_accuracy: log10, libm::log10, ALL, 0.51;
    ln_1p_accuracy: ln_1p, libm::log1p, ALL, 1.0;
    tanh_accuracy: tanh, libm::tanh, ALL, 6.0;
    erf_accuracy: erf, libm::erf, ALL, 2.0;
    sinh_accuracy: sinh, libm::sinh, ALL, 0.6;
    cosh_accuracy: cosh, libm::cosh, ALL, 0.6;
    asinh_accuracy: asinh, libm::asinh, ALL, 0.6;
    acosh_accuracy: acosh, |x: f64| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, ALL, 0.6;
    atanh_accuracy: atanh, libm::atanh, ALL, 0.6;
    sin_accuracy: sin, libm::sin, 67_108_864.0, 0.6;
    cos_accuracy: cos, libm::cos, 67_108_864.0, 0.6;
    tan_accuracy: tan, libm::tan, 67_108_864.0, 0.6;
    atan_accuracy: atan, libm::atan, ALL, 0.6;
    asin_accuracy: asin, libm::asin, ALL, 0.6;
    acos_accuracy: acos, libm::acos, ALL, 0.6;
    sqrt_accuracy: sqrt, libm::sqrt, ALL, 0.51;
    sigmoid_accuracy: sigmoid, |x: f64| 1.0 / (1.0 + libm::exp(-x)), 88.0, 2.5;
    softplus_accuracy: softplus, |x: f64| libm::log1p(libm::exp(x.min(700.0))) + (x - 700.0).max(0.0), ALL, 3.0;
    floor_is_exact: floor, libm::floor, ALL, 0.0;
    ceil_is_exact: ceil, libm::ceil, ALL, 0.0;
    trunc_is_exact: trunc, libm::trunc, ALL, 0.0;
    round_half_even_is_exact: round_half_even, libm::rint, ALL, 0.0;
    round_half_away_is_exact: round_half_away, libm::round, ALL, 0.0;
}

#[test]
fn pow_accuracy_and_special_cases() {
    let mut error: f64 = 0.0;
    for i in 0..2000 {
        for j in 0..200 {
            let (x, y) = (f32::from_bits(0x3000_0000 + i * 200_003), (j as f32 - 100.0) * 0.37);
            error = error.max(ulp(pow(x, y), libm::pow(f64::from(x), f64::from(y))));
        }
    }
    assert!(error <= 0.6, "{error}");
    for (y, most) in [(0.5, 0.51), (-1.0, 0.51), (2.0, 0.51), (0.25, 2.5), (-0.5, 2.5), (0.75, 2.5), (1.5, 2.5)]
        .into_iter()
        .chain([(-2.0, 2.5), (3.0, 2.5), (4.0, 2.5)])
    {
        for i in 0..40_000 {
            let x = f32::from_bits(i * 53_003);
            let error = ulp(pow(x, y), libm::pow(f64::from(x), f64::from(y)));
            assert!(error <= most, "{x}^{y} is {error} off");
        }
    }
    let inf = f32::INFINITY;
    let values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.5,
        -0.5,
        3.0,
        -3.0,
        2.5,
        inf,
        -inf,
        f32::NAN,
        1e30,
        -1e30,
        16_777_217.0,
        0.25,
        0.75,
        1.5,
        4.0,
    ];
    for x in values {
        for y in values {
            let (got, want) = (pow(x, y), libm::powf(x, y));
            assert!(
                ulp(got, f64::from(want)) <= 1.0 && got.is_sign_negative() == want.is_sign_negative()
                    || got.is_nan() && want.is_nan(),
                "{x}^{y} = {got}, not {want}"
            );
        }
    }
}

#[test]
fn remainders_are_exact() {
    let mut seed = 1u64;
    let mut bits = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed ^ seed >> 29
    };
    let specials = [0, 1, 2, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000];
    let mut values: std::vec::Vec<u32> = (0..600).map(|_| bits() as u32).collect();
    values.extend(specials.iter().flat_map(|bits| [*bits, bits | 1 << 31]));
    for x in &values {
        for y in &values {
            let (x, y) = (f32::from_bits(*x), f32::from_bits(*y));
            let (got, want) = (rem(x, y), libm::fmodf(x, y));
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x} % {y} = {got}, not {want}");
        }
    }
    for i in 0..40_000 {
        // Half of the pairs with exponents near each other, half anywhere.
        let (x, y) = (bits(), bits());
        let y = if i % 2 == 0 { y } else { y & !(0x7f0 << 52) | x & (0x7f0 << 52) };
        let (x, y) = (f64::from_bits(x), f64::from_bits(y));
        let (got, want) = (rem_f64(x, y), libm::fmod(x, y));
        assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{x} % {y} = {got}, not {want}");
    }
}

/// NaN gives NaN.
#[rustfmt::skip]
const KEEP_NAN: &[fn(f32) -> f32] = &[
    exp, exp_or_zero, exp2, exp_m1, ln, log2, ln_1p, tanh, erf, sigmoid, sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh,
    atanh, sqrt, floor, ceil, trunc, round_half_even, round_half_away, sign, relu, gelu_erf, gelu_tanh, softplus, mish,
    hswish, hsigmoid,
];
/// -0 gives -0.
#[rustfmt::skip]
const KEEP_NEGATIVE_ZERO: &[fn(f32) -> f32] = &[
    exp_m1, ln_1p, tanh, erf, sin, tan, asin, atan, sinh, asinh, atanh, floor, ceil, trunc, round_half_even,
    round_half_away, sign,
];

#[test]
fn nan_and_negative_zero_pass_through() {
    for (i, f) in KEEP_NAN.iter().enumerate() {
        assert!(f(f32::NAN).is_nan(), "{i}");
    }
    for (i, f) in KEEP_NEGATIVE_ZERO.iter().enumerate() {
        assert_eq!(f(-0.0).to_bits(), (-0.0f32).to_bits(), "{i}");
    }
    assert!(max(f32::NAN, 1.0).is_nan() && max(1.0, f32::NAN).is_nan() && min(1.0, f32::NAN).is_nan());
    assert!(clamp(f32::NAN, 0.0, 1.0).is_nan());
}

#[test]
fn values_outside_the_domain_are_nan() {
    assert!(ln(-1.0).is_nan() && sqrt(-1.0).is_nan() && asin(1.1).is_nan());
    assert!(acos(-1.1).is_nan() && acosh(0.5).is_nan() && sin(f32::INFINITY).is_nan());
}

#[test]
fn infinities_give_limits() {
    let inf = f32::INFINITY;
    assert_eq!((exp(inf), exp(-inf), exp(0.0), exp(88.8)), (inf, 0.0, 1.0, inf));
    assert_eq!([inf, 89.0, 0.0, -87.1, -104.0, -1e30, -inf].map(exp_or_zero), [inf, inf, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!([f64::INFINITY, 0.0, -709.0, f64::NEG_INFINITY].map(exp_or_zero_f64), [f64::INFINITY, 1.0, 0.0, 0.0]);
    assert!((f64::from(exp(88.5)) / 2.723_087_7e38 - 1.0).abs() < 1e-6);
    assert_eq!((ln(inf), ln(0.0), ln(1.0)), (inf, -inf, 0.0));
    assert_eq!((tanh(inf), tanh(-inf), erf(inf), erf(-inf)), (1.0, -1.0, 1.0, -1.0));
    assert_eq!((sigmoid(-inf), sigmoid(inf), atan(inf)), (0.0, 1.0, core::f32::consts::FRAC_PI_2));
    assert_eq!((sinh(-inf), cosh(-inf), asinh(-inf), atanh(1.0), acosh(inf)), (-inf, inf, -inf, inf, inf));
    assert_eq!((softplus(inf), softplus(-inf), mish(inf), mish(-inf), swish(-inf, 1.0)), (inf, 0.0, inf, 0.0, 0.0));
}

#[test]
fn roundings_and_hard_activations_at_their_corners() {
    assert_eq!((round_half_even(2.5), round_half_even(-3.5)), (2.0, -4.0));
    assert_eq!((round_half_away(2.5), round_half_away(-0.5)), (3.0, -1.0));
    assert_eq!(ceil(-0.5).to_bits(), (-0.0f32).to_bits());
    assert_eq!((rem(-7.0, 3.0), relu(-1.0), sign(-3.0)), (-1.0, 0.0, -1.0));
    assert_eq!((hswish(1.0), hsigmoid(-4.0)), (4.0 / 6.0, 0.0));
}

#[test]
fn activations_match_their_definitions() {
    for i in -1200..1200 {
        let x = i as f32 * 0.01;
        let w = f64::from(x);
        let close = |got: f32, want: f64| {
            (f64::from(got) - want).abs() <= 4e-7 * want.abs().max(0.3 * f64::from(x.abs())).max(0.1)
        };
        assert!(close(gelu_erf(x), 0.5 * w * (1.0 + libm::erf(w / core::f64::consts::SQRT_2))), "{x}");
        assert!(
            close(
                gelu_tanh(x),
                0.5 * w * (1.0 + libm::tanh((2.0 / core::f64::consts::PI).sqrt() * (w + 0.044715 * w * w * w)))
            ),
            "{x}"
        );
        assert!(close(mish(x), w * libm::tanh(libm::log1p(libm::exp(w)))), "{x}");
        assert!(close(swish(x, 1.5), w / (1.0 + libm::exp(-1.5 * w))), "{x}");
        assert!(close(elu(x, 0.7), if x < 0.0 { 0.7 * libm::expm1(w) } else { w }), "{x}");
        assert!(close(selu(x, 1.6732, 1.0507), 1.0507 * if x < 0.0 { 1.6732 * libm::expm1(w) } else { w }), "{x}");
    }
}

#[test]
fn integer_division_never_fails() {
    assert_eq!(
        (floor_div_i64(-7, 3), trunc_div_i64(-7, 3), floor_mod_i64(-7, 3), trunc_mod_i64(-7, 3)),
        (-3, -2, 2, -1)
    );
    assert_eq!(
        (floor_div_i32(7, -3), floor_mod_i32(7, -3), floor_div_i32(6, -3), floor_mod_i32(6, -3)),
        (-3, -2, -2, 0)
    );
    assert_eq!(
        (trunc_div_i32(5, 0), floor_mod_i64(5, 0), trunc_div_i32(i32::MIN, -1), floor_div_i64(i64::MIN, -1)),
        (0, 0, i32::MIN, i64::MIN)
    );
    assert_eq!(
        (pow_i32(2, 10), pow_i32(2, -1), pow_i64(-1, -3), pow_i32(0, 0), pow_i32(3, 40), pow_i64(-2, 63)),
        (1024, 0, -1, 1, 3i32.wrapping_pow(40), i64::MIN)
    );
}
