//! Micro-kernels for lines of at most eight columns, of which a vector holds two products each: those of two channels.
//!
//! Processors that compute vectors whole take as long for half of one. Sums of even and of odd channels are apart until the end.
use super::super::kernel::LINE;
use super::{NarrowArgs, begin, end};
use crate::math::ceil_div_usize;
use crate::simd::Simd;

/// Most columns.
pub(super) const COLUMNS: usize = LINE / 2;

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
    let (pixels, chunks) = ((MR - 1) * STRIDE + args.span(), ceil_div_usize(args.depth, LINE));
    let pairs: [i32; LINE] = core::array::from_fn(|lane| (lane / 2 + lane % 2 * LINE) as i32);
    // SAFETY: promised by the caller.
    unsafe {
        let pairs = s.load_i32(pairs.as_ptr());
        let mut acc = begin::<S, MR>(s, args, 0);
        for (tap, row) in args.taps.iter().zip(lines) {
            let mut w = args.w.wrapping_add(tap.index * args.depth * LINE);
            for t in 0..args.window {
                for chunk in 0..chunks {
                    let from = row.wrapping_add((chunk * pixels + t * args.gap) * LINE);
                    let len = LINE.min(args.depth - chunk * LINE);
                    w = products::<S, STRIDE, MR>(s, &mut acc, (from, w), len, pairs);
                }
            }
        }
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
unsafe fn add_pairs<S: Simd, const MR: usize>(s: S, acc: &mut [[S::F32; 1]; MR]) {
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::super::line::TapAt;
    use super::super::super::results::Results;
    use super::super::super::tests::Random;
    use super::*;
    use crate::isa::Isa;
    use crate::isa::avx512::Avx512;
    use core::ptr::{null, null_mut};
    use std::vec;
    use std::vec::Vec;

    const OUTPUTS: usize = 7;
    const WINDOW: usize = 3;

    /// # Safety
    /// As [`outputs`], of every second pixel; the machine has AVX-512.
    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2")]
    unsafe fn kernel(args: &NarrowArgs<'_>, lines: &[*const f32]) {
        // SAFETY: promised by the caller.
        unsafe { outputs::<_, 2, OUTPUTS>(Avx512::new(), args, lines) }
    }

    /// Every number of channels and of columns; the second row of the window adds to sums of the first one, which wait.
    #[test]
    fn pairs_of_products_make_the_sums() {
        if !Isa::Avx512.is_available() {
            return;
        }
        let mut r = Random(0x0009_a125);
        for (depth, cols) in (1..=35).flat_map(|depth| (1..=COLUMNS).map(move |cols| (depth, cols))) {
            let pixels = (OUTPUTS - 1) * 2 + WINDOW;
            let mut rows = [(); 2].map(|()| vec![0.0; ceil_div_usize(depth, LINE) * pixels * LINE]);
            let at = |pixel: usize, channel: usize| (channel / LINE * pixels + pixel) * LINE + channel % LINE;
            for (row, pixel) in (0..2).flat_map(|row| (0..pixels).map(move |pixel| (row, pixel))) {
                (0..depth).for_each(|channel| rows[row][at(pixel, channel)] = r.floats(1)[0]);
            }
            let mut w = r.floats(2 * WINDOW * depth * LINE);
            w.iter_mut().enumerate().filter(|(i, _)| i % LINE >= cols).for_each(|(_, w)| *w = 0.0);
            let (mut out, mut sums) = (vec![f32::NAN; OUTPUTS * cols], vec![f32::NAN; OUTPUTS * LINE]);
            let to = Results {
                out: out.as_mut_ptr(),
                out_step: cols,
                bias: null(),
                residual: null(),
                residual_step: 0,
                clamp: None,
                cols,
            };
            let waiting = sums.as_mut_ptr();
            for (row, sums) in [(null(), waiting), (waiting.cast_const(), null_mut())].into_iter().enumerate() {
                let args = NarrowArgs {
                    taps: &[TapAt { at: 0, index: row * WINDOW }],
                    a: null(),
                    pixel: 0,
                    stride: 2,
                    gap: 1,
                    first: 0,
                    limit: 0,
                    depth,
                    channels: (0, depth),
                    window: WINDOW,
                    w: w.as_ptr(),
                    width: 0,
                    sums,
                    to,
                    start: 0,
                    outputs: OUTPUTS,
                };
                // SAFETY: the machine has AVX-512; the copy, the weights, the sums and the result are as large as they have to be.
                unsafe { kernel(&args, &[rows[row].as_ptr()]) };
            }
            for (i, got) in out.iter().enumerate() {
                let (output, col) = (i / cols, i % cols);
                let products: Vec<f64> = (0..2 * WINDOW * depth)
                    .map(|k| {
                        let (row, tap, channel) = (k / depth / WINDOW, k / depth % WINDOW, k % depth);
                        f64::from(rows[row][at(output * 2 + tap, channel)]) * f64::from(w[k * LINE + col])
                    })
                    .collect();
                let (sum, size) = (products.iter().sum::<f64>(), products.iter().map(|x| x.abs()).sum::<f64>());
                assert!((f64::from(*got) - sum).abs() <= 1e-6 * (size + 1.0), "{got} {sum} {depth} {cols}");
            }
        }
    }
}
