//! Activation functions of finished tiles: several vectors at a time, because each is a long chain of operations.
//!
//! Like the sums that they follow, they use fused products where there are any, so that the last bits depend on the
//! instruction set. Each says how far it may be off; the tests compare with `f64`.
use super::Tile;
use crate::cx::Cx;
use crate::simd::{Simd, WithSimd, load_first, store_first};
use core::ptr::NonNull;

/// A function that kernels apply to what they computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `sigmoid(x)`
    Sigmoid,
    /// `x * sigmoid(x)`
    Swish,
    /// `min(max(x + 3, 0), 6) / 6`
    HardSigmoid,
    /// `x * (min(max(x + 3, 0), 6) / 6)`
    HardSwish,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`
    GeluErf,
    /// `x * sigmoid(sqrt(8 / pi) * (x + 0.044715 * x^3))`
    GeluTanh,
}

impl Activation {
    /// What an epilogue does then.
    #[inline(always)]
    pub fn on_tiles(self, cx: Cx<'_>) -> impl Fn(Tile<'_>) + Sync {
        move |tile| self.apply(cx, tile)
    }

    // Compiled once, here.
    #[inline(never)]
    fn apply(self, cx: Cx<'_>, tile: Tile<'_>) {
        cx.dispatch(Apply { activation: self, tile });
    }
}

struct Apply<'t> {
    activation: Activation,
    tile: Tile<'t>,
}

impl WithSimd for Apply<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.activation {
            Activation::Sigmoid => each(s, self.tile, Sigmoid),
            Activation::Swish => each(s, self.tile, Swish),
            Activation::HardSigmoid => each(s, self.tile, HardSigmoid),
            Activation::HardSwish => each(s, self.tile, HardSwish),
            Activation::GeluErf => each(s, self.tile, GELU_ERF),
            Activation::GeluTanh => each(s, self.tile, GELU_TANH),
        }
    }
}

/// Vectors that are computed at once.
const GROUP: usize = 4;

/// A function of some vectors.
trait Function: Copy {
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N];
}

/// Replaces all elements of the tile.
#[inline(always)]
fn each<S: Simd>(s: S, mut tile: Tile<'_>, f: impl Function) {
    let mut runs = tile.runs();
    let (mut start, mut left) = (NonNull::<f32>::dangling().as_ptr(), 0);
    loop {
        // Vectors of several runs, the last one of each perhaps in part. In the last group there may be empty ones.
        let mut group = [(start, 0); GROUP];
        if left >= GROUP * S::LANES {
            // The most frequent case of long runs.
            group = core::array::from_fn(|i| (start.wrapping_add(i * S::LANES), S::LANES));
            (start, left) = (start.wrapping_add(GROUP * S::LANES), left - GROUP * S::LANES);
        } else {
            for slot in &mut group {
                if left == 0 {
                    let Some(run) = runs.next() else { break };
                    (start, left) = (run.as_mut_ptr(), run.len());
                }
                *slot = (start, left);
                (start, left) = (start.wrapping_add(S::LANES), left.saturating_sub(S::LANES));
            }
        }
        if group.iter().all(|(_, left)| *left == 0) {
            return;
        }
        // SAFETY: so many elements of rows that the tile borrows.
        unsafe { replace(s, group, f) };
    }
}

/// Replaces vectors, each of which may have fewer elements than lanes.
///
/// # Safety
/// So many elements at each pointer are valid, and borrowed exclusively.
#[inline(always)]
unsafe fn replace<S: Simd, const N: usize>(s: S, at: [(*mut f32, usize); N], f: impl Function) {
    let whole = at.iter().all(|(_, left)| *left >= S::LANES);
    let mut x = [s.splat(0.0); N];
    // SAFETY: promised by the caller.
    unsafe {
        for (x, (at, left)) in x.iter_mut().zip(at) {
            *x = if whole { s.load(at) } else { load_first(s, at, left) };
        }
        for (y, (at, left)) in f.of(s, x).into_iter().zip(at) {
            if whole {
                s.store(at, y);
            } else {
                store_first(s, at, left, y);
            }
        }
    }
}

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
struct Sigmoid;

impl Function for Sigmoid {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let (one, limit) = (s.splat(1.0), s.splat(-LIMIT));
        let sum = one_and_power(s, map!(x in x => s.max(limit, x)));
        map!(sum in sum => s.div(one, sum))
    }
}

/// At most 4 ULP off; from -87 downwards the result is that of -87, which is about -1e-36.
#[derive(Clone, Copy)]
struct Swish;

impl Function for Swish {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let limit = s.splat(-LIMIT);
        // The second operand wins if it is NaN.
        let x = map!(x in x => s.max(limit, x));
        map!(x, sum in x, one_and_power(s, x) => s.div(x, sum))
    }
}

/// At most 1 ULP off.
#[derive(Clone, Copy)]
struct HardSigmoid;

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
struct HardSwish;

impl Function for HardSwish {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        map!(x, gate in x, HardSigmoid.of(s, x) => s.mul(x, gate))
    }
}

/// Up to here `e^x` and `e^-x` are normal numbers.
const LIMIT: f32 = 87.0;

/// `1 + e^-x`
#[inline(always)]
fn one_and_power<S: Simd, const N: usize>(s: S, x: [S::F32; N]) -> [S::F32; N] {
    let one = s.splat(1.0);
    let power = exp(s, map!(x in x => s.sub(s.splat(-0.0), x)));
    map!(power in power => s.add(one, power))
}

/// e^x for x from -87 to 87, to which it is limited: [`crate::math::exp`] without infinity and subnormals.
#[inline(always)]
pub(crate) fn exp<S: Simd, const N: usize>(s: S, x: [S::F32; N]) -> [S::F32; N] {
    use crate::math::exponential::{LN2_HIGH, LN2_LOW, REST, ROUND};
    let (round, log2_e) = (s.splat(ROUND), s.splat(core::f32::consts::LOG2_E));
    let (high, low, bias) = (s.splat(-LN2_HIGH), s.splat(-LN2_LOW), s.splat_i32(127));
    // The second operand wins if it is NaN.
    let x = map!(x in x => s.max(s.splat(-LIMIT), s.min(s.splat(LIMIT), x)));
    // e^x = 2^n e^r; the low bits of `bits` are n.
    let bits = map!(x in x => s.mul_add(x, log2_e, round));
    let n = map!(bits in bits => s.sub(bits, round));
    let r = map!(x, n in x, n => s.mul_add(n, high, x));
    let r = map!(r, n in r, n => s.mul_add(n, low, r));
    let mut p = [s.splat(REST[4]); N];
    for c in [REST[3], REST[2], REST[1], REST[0], 1.0, 1.0] {
        let c = s.splat(c);
        p = map!(p, r in p, r => s.mul_add(p, r, c));
    }
    map!(p, bits in p, bits => {
        let power = s.shl_i32(s.add_i32(s.f32_to_bits(bits), bias), 23);
        s.mul(p, s.bits_to_f32(power))
    })
}

/// `x * (1/2 + x * p(x^2))`, where the second term is an odd function that approaches 1/2: at most 3e-7 |x| off.
#[derive(Clone, Copy)]
struct Gelu {
    /// Half of the greatest square for which the polynomial is right. The term reaches 1/2 there and is limited to it.
    middle: f32,
    /// Powers of `x^2 - middle`, the highest first.
    p: [f32; 14],
}

/// `erf(x / sqrt(2)) / 2 = x * p(x^2)` for |x| <= 5.1 within 4.5e-8.
const GELU_ERF: Gelu = Gelu {
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
const GELU_TANH: Gelu = Gelu {
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::isa::Isa;
    use std::vec::Vec;

    const ALL: [Activation; 6] = [
        Activation::Sigmoid,
        Activation::Swish,
        Activation::HardSigmoid,
        Activation::HardSwish,
        Activation::GeluErf,
        Activation::GeluTanh,
    ];

    /// The function in `f64`, and how far from it a result may be.
    fn expected(activation: Activation, x: f32) -> (f64, f64) {
        let x = f64::from(x);
        let sigmoid = |x: f64| 1.0 / (1.0 + libm::exp(-x));
        let gate = (x + 3.0).clamp(0.0, 6.0) / 6.0;
        let ulps = |value: f64, n: f64| (value, n * (value.abs() * f64::from(f32::EPSILON)));
        let (value, error) = match activation {
            Activation::Sigmoid => ulps(sigmoid(x), 3.0),
            Activation::Swish => ulps(x * sigmoid(x), 4.0),
            // The sum x + 3 is rounded.
            Activation::HardSigmoid => (gate, 1.2e-7 * gate.max(0.25)),
            Activation::HardSwish => (x * gate, 2.4e-7 * x.abs() * gate.max(0.25)),
            Activation::GeluErf => (x * 0.5 * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2), 3e-7 * x.abs()),
            Activation::GeluTanh => {
                let scale = libm::sqrt(8.0 / core::f64::consts::PI);
                (x * sigmoid(scale * (x + 0.044715 * x * x * x)), 3e-7 * x.abs())
            }
        };
        // Far below zero these are next to nothing.
        let far = if x < -80.0 { 1e-32 } else { 0.0 };
        (value, error + far + f64::from(f32::MIN_POSITIVE) * f64::from(f32::EPSILON))
    }

    fn each_isa(all: &[f32], check: impl Fn(Activation, Isa, f32, f32)) {
        for activation in ALL {
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                for (cols, step) in [(37, 41), (32, 32), (3, 5), (8, 8), (24, 24)] {
                    let mut data: Vec<f32> = all.to_vec();
                    data.truncate(data.len() / step * step);
                    activation.on_tiles(cx)(Tile::in_buffer([0; 2], (0, 0), &mut data, step, cols));
                    for (i, (got, x)) in data.iter().zip(all).enumerate() {
                        if i % step < cols {
                            check(activation, cx.isa(), *x, *got);
                        } else {
                            assert_eq!(got.to_bits(), x.to_bits(), "beyond the columns");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn results_are_near_the_functions_on_every_isa() {
        // All magnitudes, subnormal numbers among them, and many where the functions bend.
        let bits = (0..59_600).map(|i| f32::from_bits(i * 35_791)).filter(|x| x.is_finite());
        let all: Vec<f32> = bits.flat_map(|x| [x, -x]).chain((0..60_000).map(|i| i as f32 * 0.0005 - 15.0)).collect();
        each_isa(&all, |activation, isa, x, got| {
            let (want, error) = expected(activation, x);
            let off = (f64::from(got) - want).abs();
            assert!(off <= error, "{activation:?} {isa:?} of {x}: {got} not {want}, off by {off} of {error}");
        });
    }

    #[test]
    fn what_is_no_number_stays_so_and_zero_keeps_its_sign() {
        let special: Vec<f32> =
            [f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff), f32::INFINITY, 0.0, -0.0].repeat(41);
        each_isa(&special, |activation, isa, x, got| {
            let gate = matches!(activation, Activation::Sigmoid | Activation::HardSigmoid);
            let want = match x {
                x if x.is_nan() => f32::NAN,
                x if gate => {
                    if x == 0.0 {
                        0.5
                    } else {
                        1.0
                    }
                }
                x => x,
            };
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            assert!(same, "{activation:?} {isa:?} of {x}: {got} not {want}");
        });
    }
}
