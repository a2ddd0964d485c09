//! Activation functions of finished tiles: several vectors at a time, because each is a long chain of operations.
//!
//! Like the sums that they follow, they use fused products where there are any, so that the last bits depend on the
//! instruction set. Each says how far it may be off; the tests compare with `f64`.
mod functions;
mod slopes;

use super::Tile;
use super::bend::{Bend, Slope};
use crate::cx::Cx;
use crate::simd::{Simd, WithSimd, load_first, store_first};
use core::ptr::NonNull;
use functions::{Elu, GELU_ERF, GELU_TANH, HardSigmoid, HardSwish, LeakyRelu, Mish, Sigmoid, Swish, Tanh};
pub(crate) use functions::{bent, exp, hard_swish};
pub use slopes::Slopes;

/// A function that kernels apply to what they computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `sigmoid(x)`
    Sigmoid,
    /// `x * sigmoid(x)`
    Swish,
    /// `x * sigmoid(beta * x)`
    ScaledSwish(f32),
    /// `tanh(x)`
    Tanh,
    /// `x * tanh(ln(1 + e^x))`
    Mish,
    /// `x`, below zero `alpha * (e^x - 1)`
    Elu(f32),
    /// `x`, below zero `slope * x`
    LeakyRelu(f32),
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
        move |tile| match self {
            Activation::LeakyRelu(slope) if tile.is_question() => tile.answer(Bend::Slope(Slope::Every(slope))),
            Activation::HardSwish if tile.is_question() => tile.answer(Bend::HardSwish),
            _ => self.apply(cx, tile),
        }
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
            Activation::Swish => each(s, self.tile, Swish(1.0)),
            Activation::ScaledSwish(beta) => each(s, self.tile, Swish(beta)),
            Activation::Tanh => each(s, self.tile, Tanh),
            Activation::Mish => each(s, self.tile, Mish),
            Activation::Elu(alpha) => each(s, self.tile, Elu(alpha)),
            Activation::LeakyRelu(slope) => by_columns(s, self.tile, LeakyRelu(slope)),
            Activation::HardSigmoid => by_columns(s, self.tile, HardSigmoid),
            Activation::HardSwish => by_columns(s, self.tile, HardSwish),
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
        if left == 0 {
            let Some(run) = runs.next() else { return };
            (start, left) = (run.as_mut_ptr(), run.len());
        }
        // Vectors of several runs, the last one of each perhaps in part. In the last group there may be empty ones, of an address
        // that is mapped: where none is, even an access to nothing takes a trap.
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
        // SAFETY: so many elements of rows that the tile borrows.
        unsafe { replace(s, group, f) };
    }
}

/// The same of few operations, some vectors of columns at a time: these take less time than finding the vectors of several rows.
#[inline(always)]
fn by_columns<S: Simd>(s: S, tile: Tile<'_>, f: impl Function) {
    let (mut tile, mut done) = (tile.in_one_row(), 0);
    let cols = tile.cols();
    // SAFETY: so many columns are left.
    unsafe {
        while cols - done >= 4 * S::LANES {
            done += columns::<S, 4>(s, &mut tile, done, f);
        }
        if cols - done >= 2 * S::LANES {
            done += columns::<S, 2>(s, &mut tile, done, f);
        }
        if cols - done >= S::LANES {
            done += columns::<S, 1>(s, &mut tile, done, f);
        }
        if done < cols {
            for (_, row) in tile.rows() {
                replace(s, [(row.as_mut_ptr().wrapping_add(done), cols - done)], f);
            }
        }
    }
}

/// Replaces N vectors of each row, from a column on, and returns how many columns these are.
///
/// # Safety
/// There are as many.
#[inline(always)]
unsafe fn columns<S: Simd, const N: usize>(s: S, tile: &mut Tile<'_>, first: usize, f: impl Function) -> usize {
    for (_, row) in tile.rows() {
        let mut group = [(row.as_mut_ptr(), S::LANES); N];
        for (i, (at, _)) in group.iter_mut().enumerate() {
            *at = at.wrapping_add(first + i * S::LANES);
        }
        // SAFETY: promised by the caller.
        unsafe { replace(s, group, f) };
    }
    N * S::LANES
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::isa::Isa;
    use std::vec::Vec;

    const ALL: [Activation; 13] = [
        Activation::Sigmoid,
        Activation::Swish,
        Activation::ScaledSwish(1.702),
        Activation::Tanh,
        Activation::Mish,
        Activation::Elu(1.0),
        Activation::Elu(0.3),
        Activation::LeakyRelu(0.1),
        Activation::LeakyRelu(-0.7),
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
            Activation::ScaledSwish(beta) => ulps(x * sigmoid(f64::from(beta * x as f32)), 4.0),
            Activation::Tanh => ulps(libm::tanh(x), 6.0),
            Activation::Mish => ulps(x * libm::tanh(libm::log1p(libm::exp(x))), 6.0),
            Activation::Elu(_) if x >= 0.0 => (x, 0.0),
            Activation::Elu(alpha) => ulps(f64::from(alpha) * libm::expm1(x), 2.5),
            Activation::LeakyRelu(slope) => (if x < 0.0 { f64::from(x as f32 * slope) } else { x }, 0.0),
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
        let far = if x < -45.0 { 1e-32 } else { 0.0 };
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
                x if x > 0.0 && activation == Activation::Tanh => 1.0,
                x if gate => {
                    if x == 0.0 {
                        0.5
                    } else {
                        1.0
                    }
                }
                x => x,
            };
            let near = activation == Activation::Tanh && x > 0.0 && (got - want).abs() < 4e-7;
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan() || near;
            assert!(same, "{activation:?} {isa:?} of {x}: {got} not {want}");
        });
    }
}
