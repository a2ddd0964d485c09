//! Micro-kernels for lines of any number of taps, in groups of which registers hold the weights.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
// Targets without vectors have none of these kernels.
#![cfg_attr(
    not(any(
        all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"),
        all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"),
        all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128")
    )),
    allow(dead_code)
)]

use super::line_kernel::{Ends, LineArgs, Row, add, pixels};
use crate::contraction::line::TapAt;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use crate::simd::Simd;

/// Outputs that are computed at once, and the same for short lines.
pub(super) const OUTPUTS: usize = 8;
pub(super) const FEW_OUTPUTS: usize = 4;
/// Taps of a group, at most.
const GROUP: usize = 8;

/// A line of taps in groups of two sizes that differ by one: none is so small that its pixels are loaded for little.
#[derive(Clone, Copy)]
struct Groups {
    count: usize,
    /// Taps of the smaller ones, which come last.
    least: usize,
    /// How many are larger.
    larger: usize,
}

impl Groups {
    fn of(taps: usize) -> Self {
        let count = ceil_div_usize(taps, GROUP).max(1);
        Groups { count, least: floor_div_usize(taps, count), larger: floor_mod_usize(taps, count) }
    }
}

/// All channels, for each all outputs.
///
/// # Safety
/// As [`super::line_kernel::LineKernel`]; the caller is compiled for the instruction set of `S`.
#[inline(always)]
pub(super) unsafe fn line<S: Simd, const MR: usize>(s: S, args: &LineArgs<'_>) {
    let groups = Groups::of(args.along);
    let mut column = 0;
    while column < args.to.cols {
        let at = column.min(args.to.cols - S::LANES);
        let mut done = 0;
        while done < args.outputs {
            // SAFETY: promised by the caller.
            unsafe { tile::<S, MR>(s, args, (args.start + done.min(args.outputs - MR), at), groups) };
            done += MR;
        }
        column += S::LANES;
    }
}

/// MR outputs of one vector of channels.
///
/// # Safety
/// As [`line`].
#[inline(always)]
unsafe fn tile<S: Simd, const MR: usize>(s: S, args: &LineArgs<'_>, (start, column): (usize, usize), groups: Groups) {
    // Pixels of the tile that are not in the padding.
    let low = args.first.wrapping_add(start as isize);
    let (first, end) = (low.saturating_neg(), args.limit.wrapping_sub(low));
    // SAFETY: the caller promises a vector of channels at all pixels that are not in the padding, and at all outputs.
    unsafe {
        let mut ends = Ends::<S>::new(s, args, (start, column));
        let mut acc = [ends.bias; MR];
        for tap in args.taps {
            let mut done = 0;
            for group in 0..groups.count {
                let at = done as isize;
                let pixel = (start as isize + at).wrapping_mul(args.pixel);
                let part = TapAt { at: tap.at.wrapping_add(pixel), index: tap.index + done };
                let inside = (first.saturating_sub(at), end.saturating_sub(at));
                let taps = groups.least + usize::from(group < groups.larger);
                match taps {
                    2 => products::<S, 2, MR>(s, args, &mut acc, (&part, column), inside),
                    3 => products::<S, 3, MR>(s, args, &mut acc, (&part, column), inside),
                    4 => products::<S, 4, MR>(s, args, &mut acc, (&part, column), inside),
                    5 => products::<S, 5, MR>(s, args, &mut acc, (&part, column), inside),
                    6 => products::<S, 6, MR>(s, args, &mut acc, (&part, column), inside),
                    7 => products::<S, 7, MR>(s, args, &mut acc, (&part, column), inside),
                    _ => products::<S, GROUP, MR>(s, args, &mut acc, (&part, column), inside),
                }
                done += taps;
            }
        }
        for x in acc {
            ends.finish(s, args, x);
        }
    }
}

/// The products of a group of K taps, of its pixels from `inside.0` to before `inside.1`.
///
/// # Safety
/// As [`line`].
#[inline(always)]
unsafe fn products<S: Simd, const K: usize, const MR: usize>(
    s: S,
    args: &LineArgs<'_>,
    acc: &mut [S::F32; MR],
    (part, column): (&TapAt, usize),
    inside: (isize, isize),
) {
    const STRIDE: usize = 1;
    let pixels = (MR + K - 1) as isize;
    if inside.0 >= pixels || inside.1 <= 0 {
        return;
    }
    let border = inside.0 > 0 || inside.1 < pixels;
    // SAFETY: promised by the caller.
    let Row { weights, pixel } = unsafe { Row::<S, K>::new(s, args, part, column) };
    if border {
        pixels!(p in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22] {
            if inside.0 <= p as isize && (p as isize) < inside.1 {
                // SAFETY: promised by the caller.
                let x = unsafe { s.load(pixel.wrapping_offset(p as isize * args.pixel)) };
                add(s, acc, x, &weights, p, STRIDE);
            }
        });
    } else {
        pixels!(p in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22] {
            // SAFETY: promised by the caller.
            let x = unsafe { s.load(pixel.wrapping_offset(p as isize * args.pixel)) };
            add(s, acc, x, &weights, p, STRIDE);
        });
    }
}
