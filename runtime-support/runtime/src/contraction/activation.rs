//! Activation functions of finished tiles: several vectors at a time, because each is a long chain of operations.
//!
//! Every function has the bits of the expression that it stands for, on every instruction set.
use super::Tile;
use crate::cx::Cx;
use crate::simd::{Simd, WithSimd, load_first, store_first};

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
    let (mut group, mut waiting) = ([core::ptr::null_mut(); GROUP], 0);
    for (_, row) in tile.rows() {
        let mut at = 0;
        while at < row.len() {
            let (left, start) = (row.len() - at, row.as_mut_ptr().wrapping_add(at));
            at += S::LANES;
            if left < S::LANES {
                // SAFETY: `left` elements of the row.
                unsafe {
                    let [y] = f.of(s, [load_first(s, start, left)]);
                    store_first(s, start, left, y);
                }
                continue;
            }
            if let Some(slot) = group.get_mut(waiting) {
                *slot = start;
            }
            waiting += 1;
            if waiting == GROUP {
                // SAFETY: whole vectors of rows that the tile borrows.
                unsafe { replace(s, group, f) };
                waiting = 0;
            }
        }
    }
    for start in group.into_iter().take(waiting) {
        // SAFETY: as above.
        unsafe { replace(s, [start], f) };
    }
}

/// # Safety
/// A vector at each pointer is valid, and borrowed exclusively.
#[inline(always)]
unsafe fn replace<S: Simd, const N: usize>(s: S, at: [*mut f32; N], f: impl Function) {
    let mut x = [s.splat(0.0); N];
    // SAFETY: promised by the caller.
    unsafe {
        for (x, at) in x.iter_mut().zip(at) {
            *x = s.load(at);
        }
        for (y, at) in f.of(s, x).into_iter().zip(at) {
            s.store(at, y);
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

#[derive(Clone, Copy)]
struct Sigmoid;

impl Function for Sigmoid {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let one = s.splat(1.0);
        let power = exp(s, map!(x in x => s.sub(s.splat(-0.0), x)));
        let sum = map!(power in power => s.add(one, power));
        map!(sum in sum => s.div(one, sum))
    }
}

#[derive(Clone, Copy)]
struct Swish;

impl Function for Swish {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        map!(x, gate in x, Sigmoid.of(s, x) => s.mul(x, gate))
    }
}

#[derive(Clone, Copy)]
struct HardSigmoid;

impl Function for HardSigmoid {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let (six, sixth) = (s.splat(6.0), s.splat(1.0 / 6.0));
        // The second operand wins if it is NaN.
        let clipped = map!(x in x => s.min(six, s.max(s.splat(0.0), s.add(x, s.splat(3.0)))));
        if S::LANES < 8 {
            return map!(x in clipped => s.div(x, six));
        }
        // Vectors of 8 and more have fused products, which take less time than a division. What they give is the quotient,
        // correctly rounded: no number but 0 is so small that the rest is not exact.
        let near = map!(x in clipped => s.mul(x, sixth));
        let rest = map!(x, near in clipped, near => s.mul_add(near, s.splat(-6.0), x));
        map!(rest, near in rest, near => s.mul_add(rest, sixth, near))
    }
}

#[derive(Clone, Copy)]
struct HardSwish;

impl Function for HardSwish {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        map!(x, gate in x, HardSigmoid.of(s, x) => s.mul(x, gate))
    }
}

/// [`crate::math::exp`], operation by operation.
#[inline(always)]
pub(crate) fn exp<S: Simd, const N: usize>(s: S, x: [S::F32; N]) -> [S::F32; N] {
    use crate::math::exponential::{LN2_HIGH, LN2_LOW, REST, ROUND};
    let [c0, c1, c2, c3, c4] =
        [s.splat(REST[0]), s.splat(REST[1]), s.splat(REST[2]), s.splat(REST[3]), s.splat(REST[4])];
    let (round, one, log2_e) = (s.splat(ROUND), s.splat(1.0), s.splat(core::f32::consts::LOG2_E));
    let (high, low) = (s.splat(LN2_HIGH), s.splat(LN2_LOW));
    // The second operand wins if it is NaN.
    let x = map!(x in x => s.max(s.splat(-105.0), s.min(s.splat(89.0), x)));
    let n = map!(x in x => s.sub(s.add(s.mul(x, log2_e), round), round));
    let r = map!(x, n in x, n => s.sub(x, s.mul(n, high)));
    let r = map!(r, n in r, n => s.sub(r, s.mul(n, low)));
    let square = map!(r in r => s.mul(r, r));
    let first = map!(r in r => s.add(c0, s.mul(r, c1)));
    let second = map!(r in r => s.add(c2, s.mul(r, c3)));
    let second = map!(second, square in second, square => s.add(second, s.mul(square, c4)));
    let rest = map!(square, second in square, second => s.mul(square, second));
    let rest = map!(first, rest in first, rest => s.add(first, rest));
    let p = map!(square, rest in square, rest => s.mul(square, rest));
    let p = map!(r, p in r, p => s.add(one, s.add(r, p)));
    map!(p, n in p, n => s.scale(p, n))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::isa::Isa;
    use crate::math;
    use std::vec::Vec;

    fn expected(activation: Activation, x: f32) -> f32 {
        let gate = math::min(math::max(x + 3.0, 0.0), 6.0) / 6.0;
        match activation {
            Activation::Sigmoid => math::sigmoid(x),
            Activation::Swish => x * math::sigmoid(x),
            Activation::HardSigmoid => gate,
            Activation::HardSwish => x * gate,
        }
    }

    #[test]
    fn bits_are_those_of_the_expressions_on_every_isa() {
        let special = [0.0, -0.0, -3.0, 3.0, 1e-40, 88.72, 88.73, 89.0, 1e30, f32::INFINITY, f32::NAN];
        let all: Vec<f32> = (0..120_000).map(|i| f32::from_bits(i * 35_791)).chain(special).collect();
        let near = (0..20_000).map(|i| i as f32 * 0.0007 - 7.0);
        let all: Vec<f32> = all.iter().flat_map(|x| [*x, -*x]).chain(near).collect();
        for activation in [Activation::Sigmoid, Activation::Swish, Activation::HardSigmoid, Activation::HardSwish] {
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                for (cols, step) in [(37, 41), (32, 32), (3, 5)] {
                    let mut data: Vec<f32> = all.clone();
                    data.truncate(data.len() / step * step);
                    activation.on_tiles(cx)(Tile::in_buffer([0; 2], (0, 0), &mut data, step, cols));
                    for (i, (got, x)) in data.iter().zip(&all).enumerate() {
                        let want = if i % step < cols { expected(activation, *x) } else { *x };
                        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                        assert!(same, "{activation:?} {:?} of {x}: {got} not {want}", cx.isa());
                    }
                }
            }
        }
    }
}
