//! Whole slices at a time: images and token numbers into tensors and back, the place of the greatest score.
use super::{Simd, WithSimd};
use crate::cx::Cx;

/// Calls `f` at every multiple of `lanes` below `n`.
#[inline(always)]
fn steps(n: usize, lanes: usize, mut f: impl FnMut(usize)) {
    let mut i = 0;
    while i < n {
        f(i);
        i += lanes;
    }
}

struct FromBytes<'a>(&'a [u8], &'a mut [f32], f32, f32);

impl WithSimd for FromBytes<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let FromBytes(from, to, scale, shift) = self;
        let (scale, shift) = (s.splat(scale), s.splat(shift));
        steps(from.len().min(to.len()), S::LANES, |i| {
            let x = s.i32_to_f32(s.u8_to_i32(s.load_partial_u8(&from[i..])));
            s.store_partial(&mut to[i..], s.add(s.mul(x, scale), shift));
        });
    }
}

/// `to = from * scale + shift`, up to the shorter length: the pixels of an image as an input. Same on every machine.
pub fn from_bytes(cx: Cx<'_>, from: &[u8], to: &mut [f32], scale: f32, shift: f32) {
    cx.dispatch(FromBytes(from, to, scale, shift));
}

struct ToBytes<'a>(&'a [f32], &'a mut [u8], f32, f32);

impl WithSimd for ToBytes<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ToBytes(from, to, scale, shift) = self;
        let (scale, shift) = (s.splat(scale), s.splat(shift));
        steps(from.len().min(to.len()), S::LANES, |i| {
            let x = s.round_half_even(s.add(s.mul(s.load_partial(&from[i..]), scale), shift));
            s.store_partial_u8(&mut to[i..], s.i32_to_u8(s.f32_to_i32(x)));
        });
    }
}

/// `to = from * scale + shift`, rounded half to even and cut to 0..=255; NaN gives 0. Up to the shorter length.
pub fn to_bytes(cx: Cx<'_>, from: &[f32], to: &mut [u8], scale: f32, shift: f32) {
    cx.dispatch(ToBytes(from, to, scale, shift));
}

struct Widen<'a>(&'a [i32], &'a mut [i64]);

impl WithSimd for Widen<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Widen(from, to) = self;
        steps(from.len().min(to.len()), S::LANES, |i| {
            s.store_partial_i64(&mut to[i..], s.i32_to_i64(s.load_partial_i32(&from[i..])));
        });
    }
}

/// Numbers of tokens for inputs of 64 bits. Up to the shorter length.
pub fn widen(cx: Cx<'_>, from: &[i32], to: &mut [i64]) {
    cx.dispatch(Widen(from, to));
}

struct ArgMax<'a>(&'a [f32]);

impl WithSimd for ArgMax<'_> {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        let scores = self.0;
        let mut best = s.splat(f32::NEG_INFINITY);
        steps(scores.len(), S::LANES, |i| {
            // Zeros behind the end must not win.
            let inside = s.mask_first(scores.len() - i);
            best = s.select(
                s.mask_and(inside, s.lt(best, s.load_partial(&scores[i..]))),
                s.load_partial(&scores[i..]),
                best,
            );
        });
        let best = s.splat(s.greatest(best));
        let mut found = 0;
        while found < scores.len() {
            let inside = s.mask_first(scores.len() - found);
            let bits = s.mask_bits(s.mask_and(inside, s.eq(best, s.load_partial(&scores[found..]))));
            if bits != 0 {
                return found + bits.trailing_zeros() as usize;
            }
            found += S::LANES;
        }
        0
    }
}

/// Where the greatest score is, the first of several; NaN is passed over. 0 if there is none.
#[must_use]
pub fn arg_max(cx: Cx<'_>, scores: &[f32]) -> usize {
    cx.dispatch(ArgMax(scores))
}
