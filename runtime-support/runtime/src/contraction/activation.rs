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

/// One operation on all vectors, so that none waits for the one before.
#[inline(always)]
fn map<T: Copy, const N: usize>(a: [T; N], f: impl Fn(T) -> T) -> [T; N] {
    map2(a, a, |a, _| f(a))
}

/// The same with two operands.
#[inline(always)]
fn map2<T: Copy, const N: usize>(a: [T; N], b: [T; N], f: impl Fn(T, T) -> T) -> [T; N] {
    let mut out = a;
    for (a, b) in out.iter_mut().zip(b) {
        *a = f(*a, b);
    }
    out
}

#[derive(Clone, Copy)]
struct Sigmoid;

impl Function for Sigmoid {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let one = s.splat(1.0);
        let power = exp(s, map(x, |x| s.sub(s.splat(-0.0), x)));
        map(map(power, |power| s.add(one, power)), |sum| s.div(one, sum))
    }
}

#[derive(Clone, Copy)]
struct Swish;

impl Function for Swish {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        map2(x, Sigmoid.of(s, x), |x, gate| s.mul(x, gate))
    }
}

#[derive(Clone, Copy)]
struct HardSigmoid;

impl Function for HardSigmoid {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        let six = s.splat(6.0);
        // The second operand wins if it is NaN.
        let clipped = map(x, |x| s.min(six, s.max(s.splat(0.0), s.add(x, s.splat(3.0)))));
        // Vectors of 8 and more have fused products, which take less time than a division. What they give is the quotient,
        // correctly rounded: no number but 0 is so small that the rest is not exact.
        let sixth = s.splat(1.0 / 6.0);
        map(clipped, |x| {
            if S::LANES < 8 {
                return s.div(x, six);
            }
            let near = s.mul(x, sixth);
            s.mul_add(s.mul_add(near, s.splat(-6.0), x), sixth, near)
        })
    }
}

#[derive(Clone, Copy)]
struct HardSwish;

impl Function for HardSwish {
    #[inline(always)]
    fn of<S: Simd, const N: usize>(self, s: S, x: [S::F32; N]) -> [S::F32; N] {
        map2(x, HardSigmoid.of(s, x), |x, gate| s.mul(x, gate))
    }
}

/// [`crate::math::exp`], operation by operation.
#[inline(always)]
fn exp<S: Simd, const N: usize>(s: S, x: [S::F32; N]) -> [S::F32; N] {
    use crate::math::exponential::{LN2_HIGH, LN2_LOW, REST, ROUND};
    let [c0, c1, c2, c3, c4] = REST.map(|c| s.splat(c));
    let (round, one) = (s.splat(ROUND), s.splat(1.0));
    // The second operand wins if it is NaN.
    let x = map(x, |x| s.max(s.splat(-105.0), s.min(s.splat(89.0), x)));
    let n = map(x, |x| s.sub(s.add(s.mul(x, s.splat(core::f32::consts::LOG2_E)), round), round));
    let r = map2(x, n, |x, n| s.sub(x, s.mul(n, s.splat(LN2_HIGH))));
    let r = map2(r, n, |r, n| s.sub(r, s.mul(n, s.splat(LN2_LOW))));
    let square = map(r, |r| s.mul(r, r));
    let low = map(r, |r| s.add(c0, s.mul(r, c1)));
    let high = map2(map(r, |r| s.add(c2, s.mul(r, c3))), square, |high, square| s.add(high, s.mul(square, c4)));
    let rest = map2(low, map2(square, high, |square, high| s.mul(square, high)), |low, high| s.add(low, high));
    let p = map2(r, map2(square, rest, |square, rest| s.mul(square, rest)), |r, rest| s.add(r, rest));
    map2(map(p, |p| s.add(one, p)), n, |p, n| s.scale(p, n))
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
