//! Micro-kernels for lines of at most eight columns, of which a vector holds two products each: those of two channels.
//!
//! Processors that compute vectors whole take as long for half of one. Sums of even and of odd channels are apart until the end.
use super::super::kernel::LINE;
use super::{NarrowArgs, begin, each_chunk, end};
use crate::simd::Simd;

/// Most columns.
pub(super) const COLUMNS: usize = LINE / 2;

/// Lane `2i` of column `i` of one row of weights, and lane `2i + 1` of that of another.
pub(super) const PAIRS: [i32; LINE] = {
    let mut pairs = [0; LINE];
    let mut lane = 0;
    while lane < LINE {
        pairs[lane] = (lane / 2 + lane % 2 * LINE) as i32;
        lane += 1;
    }
    pairs
};

/// MR outputs, of at most [`COLUMNS`] columns.
///
/// # Safety
/// As [`NarrowKernel`](super::NarrowKernel); the caller is compiled for the instruction set of `S`, whose vectors have [`LINE`] lanes.
/// The copy has zeros behind the last channel.
#[inline(always)]
pub(super) unsafe fn outputs<S: Simd, const STRIDE: usize, const MR: usize>(
    s: S,
    args: &NarrowArgs<'_>,
    lines: &[*const f32],
) {
    // SAFETY: promised by the caller.
    unsafe {
        let pairs = s.load_i32(PAIRS.as_ptr());
        let mut acc = begin::<S, MR>(s, args, 0);
        each_chunk(
            (args, lines),
            (MR - 1) * STRIDE,
            0,
            #[inline(always)]
            |from, w, len| products::<S, STRIDE, MR>(s, &mut acc, (from, w), len, pairs),
        );
        if args.sums.1.is_null() {
            add_pairs(s, &mut acc);
        }
        end::<S, MR>(s, args, (args.to, 0), &mut acc);
    }
}

/// Adds lanes `2i` and `2i + 1` of every vector to lane `i`.
///
/// # Safety
/// Vectors have [`LINE`] lanes.
#[inline(always)]
pub(super) unsafe fn add_pairs<S: Simd, const MR: usize>(s: S, acc: &mut [[S::F32; 1]; MR]) {
    let [even, odd]: [[i32; LINE]; 2] =
        [0, 1].map(|first| core::array::from_fn(|lane| (2 * lane % LINE) as i32 + first));
    // SAFETY: promised by the caller.
    let (even, odd) = unsafe { (s.load_i32(even.as_ptr()), s.load_i32(odd.as_ptr())) };
    for [sums] in acc {
        *sums = s.add(s.lookup(*sums, even), s.lookup(*sums, odd));
    }
}

/// `len` products of every output. Returns the next weights.
///
/// # Safety
/// So many elements of the pixels, and weights, are valid; behind them another element.
#[inline(always)]
unsafe fn products<S: Simd, const STRIDE: usize, const MR: usize>(
    s: S,
    acc: &mut [[S::F32; 1]; MR],
    (mut from, mut w): (*const f32, *const f32),
    len: usize,
    pairs: S::I32,
) -> *const f32 {
    let mut left = len;
    // SAFETY: promised by the caller.
    unsafe {
        while left >= 4 {
            for k in [0, 2] {
                let weights = s.lookup_in_two(s.load(w.add(k * LINE)), s.load(w.add((k + 1) * LINE)), pairs);
                product::<S, STRIDE, MR>(s, acc, from.add(k), weights);
            }
            (from, w, left) = (from.wrapping_add(4), w.wrapping_add(4 * LINE), left - 4);
        }
        while left >= 2 {
            let weights = s.lookup_in_two(s.load(w), s.load(w.add(LINE)), pairs);
            product::<S, STRIDE, MR>(s, acc, from, weights);
            (from, w, left) = (from.wrapping_add(2), w.wrapping_add(2 * LINE), left - 2);
        }
        if left > 0 {
            // The weights behind are those of another tap.
            let weights = s.lookup_in_two(s.load(w), s.splat(0.0), pairs);
            product::<S, STRIDE, MR>(s, acc, from, weights);
            w = w.wrapping_add(LINE);
        }
    }
    w
}

/// Two products of every output.
///
/// # Safety
/// Two elements of the pixels are valid.
#[inline(always)]
unsafe fn product<S: Simd, const STRIDE: usize, const MR: usize>(
    s: S,
    acc: &mut [[S::F32; 1]; MR],
    from: *const f32,
    weights: S::F32,
) {
    for (i, [sums]) in acc.iter_mut().enumerate() {
        // SAFETY: promised by the caller.
        *sums = unsafe { s.mul_add(s.splat_two(from.add(i * STRIDE * LINE)), weights, *sums) };
    }
}
