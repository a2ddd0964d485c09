//! The functions themselves, of several vectors at a time.
use super::Function;
use crate::math::exponential::{LN2_HIGH, LN2_LOW, REST, ROUND, TANH, TANH_END};
use crate::simd::Simd;

/// One operation on all vectors, so that none waits for the one before. No closure: one that is not inlined would be
/// compiled for other machines.
macro_rules! map {
    ($a:ident in $x:expr => $value:expr) => {{
        let mut out = $x;
        for slot in &mut out {
            let $a = *slot;
            *slot = $value;
        }
        out
    }};
    ($a:ident, $b:ident in $x:expr, $y:expr => $value:expr) => {{
        let mut out = $x;
        for (slot, $b) in out.iter_mut().zip($y) {
            let $a = *slot;
            *slot = $value;
        }
        out
    }};
}

/// At most 3 ULP off; from -87 downwards the result is that of -87.
#[derive(Clone, Copy)]
pub(super) struct Sigmoid;

impl Function for Sigmoid {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let (one, limit) = (s.splat(1.0), s.splat(-LIMIT));
        // The second operand wins if it is NaN.
        let x = map!(x in x => s.max(limit, x));
        let power = exp(s, map!(x in x => s.sub(s.splat(-0.0), x)));
        map!(power in power => s.div(one, s.add(one, power)))
    }
}

/// Of a positive beta, at most 4 ULP off, the rounding of `beta * x` apart; where that is below -87 the result is that of -87,
/// which is about -1e-36 over beta.
#[derive(Clone, Copy)]
pub(super) struct Swish(pub f32);

impl Function for Swish {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let (one, beta, limit) = (s.splat(1.0), s.splat(-self.0), s.splat(-LIMIT / self.0));
        // The second operand wins if it is NaN.
        let x = map!(x in x => s.max(limit, x));
        let power = exp(s, map!(x in x => s.mul(x, beta)));
        map!(x, power in x, power => s.div(x, s.add(one, power)))
    }
}

/// With `e = e^x` the gate is `e (e + 2) / (e (e + 2) + 2)`, which is 1 long before e^2 overflows. At most 6 ULP off; from -87
/// downwards the result is that of -87, which is about -1e-36.
#[derive(Clone, Copy)]
pub(super) struct Mish;

impl Function for Mish {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let (two, least, greatest) = (s.splat(2.0), s.splat(-LIMIT), s.splat(20.0));
        // The second operand wins if it is NaN.
        let x = map!(x in x => s.max(least, x));
        let e = exp(s, map!(x in x => s.min(greatest, x)));
        let numerator = map!(e in e => s.mul(e, s.add(e, two)));
        let gate = map!(n in numerator => s.div(n, s.add(n, two)));
        map!(x, gate in x, gate => s.mul(x, gate))
    }
}

/// At most 2 ULP off, the factor's rounding apart.
#[derive(Clone, Copy)]
pub(super) struct Elu(pub f32);

impl Function for Elu {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let (zero, least, one, alpha) = (s.splat(0.0), s.splat(-20.0), s.splat(1.0), s.splat(self.0));
        // From -20 on it is -1.
        let y = map!(x in x => s.max(least, s.min(zero, x)));
        let (bits, r) = reduced(s, y);
        // 2^n e^r - 1 = 2^n (e^r - 1) + (2^n - 1): near zero n is zero and nothing cancels.
        let [c0, c1, c2, c3, c4] = REST;
        let mut p = [s.splat(c4); N];
        for c in [c3, c2, c1, c0] {
            let c = s.splat(c);
            p = map!(p, r in p, r => s.mul_add(p, r, c));
        }
        let square = map!(r in r => s.mul(r, r));
        let p = map!(p, square in p, square => s.mul(p, square));
        let p = map!(p, r in p, r => s.add(p, r));
        let power = powers(s, bits);
        let y = map!(p, power in p, power => s.mul_add(p, power, s.sub(power, one)));
        map!(x, y in x, y => s.select(s.lt(x, zero), s.mul(alpha, y), x))
    }
}

/// The product of the definition, bit by bit.
#[derive(Clone, Copy)]
pub(super) struct LeakyRelu(pub f32);

impl Function for LeakyRelu {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let slope = s.splat(self.0);
        map!(x in x => bent(s, x, slope))
    }
}

/// `x`, below zero `slope * x`. Factors are chosen, not results: of a choice between new and old elements the compiler makes a
/// masked store, which takes many times as long with AVX2 on AMD processors.
#[inline(always)]
pub(crate) fn bent<S: Simd>(s: S, x: S::F32, slope: S::F32) -> S::F32 {
    s.mul(x, s.select(s.lt(x, s.splat(0.0)), slope, s.splat(1.0)))
}

/// `x p(x^2) / q(x^2)` up to 8.7, from where on it is 1. At most 6 ULP off.
#[derive(Clone, Copy)]
pub(super) struct Tanh;

impl Function for Tanh {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let (one, least, end) = (s.splat(1.0), s.splat(-1.0), TANH_END);
        // The second operand wins if it is NaN.
        let x = map!(x in x => s.max(s.splat(-end), s.min(s.splat(end), x)));
        let square = map!(x in x => s.mul(x, x));
        let [rest @ .., (p, q)] = TANH;
        let (mut p, mut q) = ([s.splat(p); N], [s.splat(q); N]);
        for (c, d) in rest.into_iter().rev().chain([(1.0, 1.0)]) {
            let (c, d) = (s.splat(c), s.splat(d));
            p = map!(p, square in p, square => s.mul_add(p, square, c));
            q = map!(q, square in q, square => s.mul_add(q, square, d));
        }
        let p = map!(p, x in p, x => s.mul(p, x));
        map!(p, q in p, q => s.max(least, s.min(one, s.div(p, q))))
    }
}

/// At most 1 ULP off.
#[derive(Clone, Copy)]
pub(super) struct HardSigmoid;

impl Function for HardSigmoid {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let (zero, three, six, sixth) = (s.splat(0.0), s.splat(3.0), s.splat(6.0), s.splat(1.0 / 6.0));
        // The second operand wins if it is NaN.
        let clipped = map!(x in x => s.min(six, s.max(zero, s.add(x, three))));
        map!(x in clipped => s.mul(x, sixth))
    }
}

/// At most 2 ULP off.
#[derive(Clone, Copy)]
pub(super) struct HardSwish;

impl Function for HardSwish {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        map!(x in x => hard_swish(s, x))
    }
}

/// `x * (min(max(x + 3, 0), 6) / 6)`
#[inline(always)]
pub(crate) fn hard_swish<S: Simd>(s: S, x: S::F32) -> S::F32 {
    let [gate] = HardSigmoid.of(s, [x]);
    s.mul(x, gate)
}

/// Up to here `e^x` and `e^-x` are normal numbers.
const LIMIT: f32 = 87.0;

/// e^x for x from -87 to 87, to which it is limited: [`crate::math::exp`] without infinity and subnormals.
#[inline(always)]
pub(crate) fn exp<S: Simd, const N: usize>(s: S, x: [S::F32; N]) -> [S::F32; N] {
    // The second operand wins if it is NaN.
    let x = map!(x in x => s.max(s.splat(-LIMIT), s.min(s.splat(LIMIT), x)));
    let (bits, r) = reduced(s, x);
    let mut p = [s.splat(REST[4]); N];
    for c in [REST[3], REST[2], REST[1], REST[0], 1.0, 1.0] {
        let c = s.splat(c);
        p = map!(p, r in p, r => s.mul_add(p, r, c));
    }
    map!(p, power in p, powers(s, bits) => s.mul(p, power))
}

/// e^x = 2^n e^r: n, in the low bits, and r.
#[inline(always)]
fn reduced<S: Simd, const N: usize>(s: S, x: [S::F32; N]) -> ([S::F32; N], [S::F32; N]) {
    let (round, log2_e) = (s.splat(ROUND), s.splat(core::f32::consts::LOG2_E));
    let (high, low) = (s.splat(-LN2_HIGH), s.splat(-LN2_LOW));
    let bits = map!(x in x => s.mul_add(x, log2_e, round));
    let n = map!(bits in bits => s.sub(bits, round));
    let r = map!(x, n in x, n => s.mul_add(n, high, x));
    (bits, map!(r, n in r, n => s.mul_add(n, low, r)))
}

/// 2^n, of which the low bits hold n.
#[inline(always)]
fn powers<S: Simd, const N: usize>(s: S, bits: [S::F32; N]) -> [S::F32; N] {
    let bias = s.splat_i32(127);
    map!(bits in bits => s.bits_to_f32(s.shl_i32(s.add_i32(s.f32_to_bits(bits), bias), 23)))
}

/// `x * (1/2 + x * p(x^2))`, where the second term is an odd function that approaches 1/2: at most 3e-7 |x| off.
#[derive(Clone, Copy)]
pub(super) struct Gelu {
    /// Half of the greatest square for which the polynomial is right. The term reaches 1/2 there and is limited to it.
    middle: f32,
    /// Powers of `x^2 - middle`, the highest first.
    p: [f32; 14],
}

/// `erf(x / sqrt(2)) / 2 = x * p(x^2)` for |x| <= 5.1 within 4.5e-8.
pub(super) const GELU_ERF: Gelu = Gelu {
    middle: 13.005,
    p: [
        -1.154_010_4e-18,
        4.078_128e-17,
        -5.679_387_7e-16,
        1.179_687_1e-14,
        -3.912_657_1e-13,
        9.280_640_5e-12,
        -1.842_070_4e-10,
        3.544_679e-9,
        -6.481_245_4e-8,
        1.110_874_1e-6,
        -1.828_130_6e-5,
        3.002_354_6e-4,
        -5.305_917e-3,
        0.138_605_33,
    ],
};

/// `tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)) / 2 = x * p(x^2)` for |x| <= 4.9 within 1.2e-7.
pub(super) const GELU_TANH: Gelu = Gelu {
    middle: 12.005,
    p: [
        1.491_087_1e-18,
        3.816_669_2e-17,
        -2.681_448_2e-15,
        4.109_813_3e-14,
        -4.619_25e-13,
        1.144_794_8e-11,
        -2.703_656e-10,
        5.064_493e-9,
        -8.880_929e-8,
        1.486_259_4e-6,
        -2.349_937_1e-5,
        3.634_219_2e-4,
        -5.972_453e-3,
        0.144_248_59,
    ],
};

impl Function for Gelu {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let (middle, half, least) = (s.splat(self.middle), s.splat(0.5), s.splat(-0.5));
        let down = s.splat(-self.middle);
        // The second operand wins if it is NaN.
        let t = map!(x in x => s.min(middle, s.mul_add(x, x, down)));
        // Even and odd powers apart: twice as many chains, half as long.
        let square = map!(t in t => s.mul(t, t));
        let [first, second, rest @ ..] = self.p;
        let (mut odd, mut even) = ([s.splat(first); N], [s.splat(second); N]);
        for pair in rest.chunks_exact(2) {
            if let [c, d] = *pair {
                let (c, d) = (s.splat(c), s.splat(d));
                odd = map!(p, square in odd, square => s.mul_add(p, square, c));
                even = map!(p, square in even, square => s.mul_add(p, square, d));
            }
        }
        let p = map!(odd, t in odd, t => s.mul(odd, t));
        let p = map!(p, even in p, even => s.add(p, even));
        let odd = map!(x, p in x, p => s.max(least, s.min(half, s.mul(x, p))));
        map!(x, odd in x, odd => s.mul(x, s.add(half, odd)))
    }
}
