//! Micro-kernels for lines of nine to twelve columns: eight in pairs of products, as in [`pairs`](super::pairs), and the others in
//! fours, so that no lane is empty.
use super::super::kernel::LINE;
use super::pairs::{self, add_pairs};
use super::{NarrowArgs, each_chunk};
use crate::simd::Simd;

/// Most columns.
pub(super) const COLUMNS: usize = pairs::COLUMNS + FOUR;
/// Columns of which a vector holds four products each.
const FOUR: usize = LINE / 4;

/// Whether fours of so many channels are nearly all full.
pub(super) const fn fill(depth: usize) -> bool {
    8 * (depth.next_multiple_of(FOUR) - depth) <= depth
}

/// Sums of outputs: of the first columns, and of the others.
type Sums<F, const MR: usize> = [[[F; 1]; MR]; 2];

/// MR outputs, of at most [`COLUMNS`] columns.
///
/// # Safety
/// As [`pairs::outputs`].
#[inline(always)]
pub(super) unsafe fn outputs<S: Simd, const STRIDE: usize, const MR: usize>(
    s: S,
    args: &NarrowArgs<'_>,
    lines: &[*const f32],
) {
    // SAFETY: promised by the caller.
    unsafe {
        let mut acc = begin::<S, MR>(s, args.sums.0);
        each_chunk(
            (args, lines),
            (MR - 1) * STRIDE,
            0,
            #[inline(always)]
            |from, w, len| products::<S, STRIDE, MR>(s, &mut acc, (from, w), len),
        );
        end::<S, MR>(s, args, acc);
    }
}

/// Zeros, or the sums that wait there.
///
/// # Safety
/// If they do, two vectors of each output.
#[inline(always)]
unsafe fn begin<S: Simd, const MR: usize>(s: S, from: *const f32) -> Sums<S::F32, MR> {
    let mut acc = [[[s.splat(0.0)]; MR]; 2];
    if !from.is_null() {
        for (part, sums) in acc.iter_mut().enumerate() {
            for (i, [sum]) in sums.iter_mut().enumerate() {
                // SAFETY: promised by the caller.
                *sum = unsafe { s.load(from.wrapping_add((part * MR + i) * LINE)) };
            }
        }
    }
    acc
}

/// Stores results, or sums for the rows of the window that follow.
///
/// # Safety
/// As [`outputs`].
#[inline(always)]
unsafe fn end<S: Simd, const MR: usize>(s: S, args: &NarrowArgs<'_>, acc: Sums<S::F32, MR>) {
    let (to, [mut first, others]) = (args.sums.1, acc);
    // SAFETY: promised by the caller.
    unsafe {
        if to.is_null() {
            add_pairs(s, &mut first);
            add_fours(s, &mut first, &others);
            return args.to.finish::<S, MR, 1, false>(s, args.start, &mut first);
        }
        for (part, sums) in [&first, &others].into_iter().enumerate() {
            for (i, [sum]) in sums.iter().enumerate() {
                s.store(to.wrapping_add((part * MR + i) * LINE), *sum);
            }
        }
    }
}

/// Adds lanes `4i` to `4i + 3` of every other vector, which become lane `8 + i` of the first one.
///
/// # Safety
/// Vectors have [`LINE`] lanes.
#[inline(always)]
unsafe fn add_fours<S: Simd, const MR: usize>(s: S, first: &mut [[S::F32; 1]; MR], others: &[[S::F32; 1]; MR]) {
    const OF: [[i32; LINE]; 4] = {
        let mut of = [[0; LINE]; 4];
        let mut lane = 0;
        while lane < LINE {
            let four = (4 * lane % LINE) as i32;
            (of[0][lane], of[1][lane], of[2][lane], of[3][lane]) = (four, four + 1, four + 2, four + 3);
            lane += 1;
        }
        of
    };
    // SAFETY: promised by the caller.
    let [a, b, c, d] = OF.each_ref().map(|lanes| unsafe { s.load_i32(lanes.as_ptr()) });
    let is_first = s.mask_first(pairs::COLUMNS);
    for ([sums], [of]) in first.iter_mut().zip(others) {
        let left = s.add(s.lookup(*of, a), s.lookup(*of, b));
        let fours = s.add(left, s.add(s.lookup(*of, c), s.lookup(*of, d)));
        *sums = s.select(is_first, *sums, fours);
    }
}

/// `len` products of every output. Returns the next weights.
///
/// # Safety
/// So many elements of the pixels, and weights, are valid; behind them three more elements.
#[inline(always)]
unsafe fn products<S: Simd, const STRIDE: usize, const MR: usize>(
    s: S,
    acc: &mut Sums<S::F32, MR>,
    (mut from, mut w): (*const f32, *const f32),
    len: usize,
) -> *const f32 {
    let (mut left, zero) = (len, s.splat(0.0));
    // SAFETY: promised by the caller.
    unsafe {
        while left >= 4 {
            let weights = [s.load(w), s.load(w.add(LINE)), s.load(w.add(2 * LINE)), s.load(w.add(3 * LINE))];
            product::<S, STRIDE, MR>(s, acc, from, weights);
            (from, w, left) = (from.wrapping_add(4), w.wrapping_add(4 * LINE), left - 4);
        }
        if left > 0 {
            // The weights behind are those of another tap.
            let second = if left > 1 { s.load(w.add(LINE)) } else { zero };
            let third = if left > 2 { s.load(w.add(2 * LINE)) } else { zero };
            product::<S, STRIDE, MR>(s, acc, from, [s.load(w), second, third, zero]);
            w = w.wrapping_add(left * LINE);
        }
    }
    w
}

/// Four products of every output.
///
/// # Safety
/// Four elements of the pixels are valid.
#[inline(always)]
unsafe fn product<S: Simd, const STRIDE: usize, const MR: usize>(
    s: S,
    acc: &mut Sums<S::F32, MR>,
    from: *const f32,
    [a, b, c, d]: [S::F32; 4],
) {
    const FOURS: [i32; LINE] = {
        let mut of = [0; LINE];
        let mut lane = 0;
        while lane < LINE {
            of[lane] = (pairs::COLUMNS + lane / 4 + lane % 2 * LINE) as i32;
            lane += 1;
        }
        of
    };
    let [first, others] = acc;
    // SAFETY: promised by the caller.
    unsafe {
        let (pairs, fours) = (s.load_i32(pairs::PAIRS.as_ptr()), s.load_i32(FOURS.as_ptr()));
        let weights = s.lookup_in_two(a, b, pairs);
        for i in 0..MR {
            first[i][0] = s.mul_add(s.splat_two(from.add(i * STRIDE * LINE)), weights, first[i][0]);
        }
        let weights = s.lookup_in_two(c, d, pairs);
        for i in 0..MR {
            first[i][0] = s.mul_add(s.splat_two(from.add(i * STRIDE * LINE + 2)), weights, first[i][0]);
        }
        let weights = s.select(s.mask_from_bits(0x3333), s.lookup_in_two(a, b, fours), s.lookup_in_two(c, d, fours));
        for i in 0..MR {
            others[i][0] = s.mul_add(s.splat_four(from.add(i * STRIDE * LINE)), weights, others[i][0]);
        }
    }
}
