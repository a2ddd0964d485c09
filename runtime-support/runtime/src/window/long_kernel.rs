//! Micro-kernels for lines of any number of taps, in groups of which registers hold the weights.
//!
//! Of a stride, taps that are as far apart are a row of their own: neighbouring outputs share its pixels.
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

/// The taps of each phase of a stride: those of the first ones, of which there are so many, are one more.
#[derive(Clone, Copy)]
struct Phases {
    first: Groups,
    others: Groups,
    firsts: usize,
}

impl Phases {
    fn of(taps: usize, stride: usize) -> Self {
        let (least, firsts) = (floor_div_usize(taps, stride), floor_mod_usize(taps, stride));
        Phases { first: Groups::of(least + 1), others: Groups::of(least), firsts }
    }
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
    let (phases, mut column) = (Phases::of(args.along, args.stride), 0);
    while column < args.to.cols {
        let at = column.min(args.to.cols - S::LANES);
        let mut done = 0;
        while done < args.outputs {
            // SAFETY: promised by the caller.
            unsafe { tile::<S, MR>(s, args, (args.start + done.min(args.outputs - MR), at), phases) };
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
unsafe fn tile<S: Simd, const MR: usize>(s: S, args: &LineArgs<'_>, (start, column): (usize, usize), phases: Phases) {
    let skipped = start.wrapping_mul(args.stride);
    // Pixels of the tile that are not in the padding.
    let low = args.first.wrapping_add(skipped as isize);
    let (first, end) = (low.saturating_neg().max(0).unsigned_abs(), args.limit.wrapping_sub(low).max(0).unsigned_abs());
    // SAFETY: the caller promises a vector of channels at all pixels that are not in the padding, and at all outputs.
    unsafe {
        let mut ends = Ends::<S>::new(s, args, (start, column));
        let mut acc = [ends.bias; MR];
        for phase in 0..args.stride {
            // Pixels of those that are a stride apart.
            let of = |n: usize| match args.stride {
                1 => n as isize,
                stride => ceil_div_usize(n.saturating_sub(phase), stride) as isize,
            };
            let (groups, first, end) =
                (if phase < phases.firsts { phases.first } else { phases.others }, of(first), of(end));
            for tap in args.taps {
                let mut done = 0;
                for group in 0..groups.count {
                    let (from, at) = (phase + done * args.stride, done as isize);
                    let pixel = ((skipped + from) as isize).wrapping_mul(args.pixel);
                    let part = TapAt { at: tap.at.wrapping_add(pixel), index: tap.index + from };
                    let inside = (first.saturating_sub(at), end.saturating_sub(at));
                    let taps = groups.least + usize::from(group < groups.larger);
                    match taps {
                        1 => products::<S, 1, MR>(s, args, &mut acc, (&part, column), inside),
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
    /// Of a row of taps that are as far apart as outputs.
    const STRIDE: usize = 1;
    let pixels = (MR + K - 1) as isize;
    if inside.0 >= pixels || inside.1 <= 0 {
        return;
    }
    let border = inside.0 > 0 || inside.1 < pixels;
    // SAFETY: promised by the caller.
    let Row { weights, pixel } = unsafe { Row::<S, K>::new(s, args, (part, args.stride), column) };
    let step = args.pixel.wrapping_mul(args.stride as isize);
    if border {
        pixels!(p in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22] {
            if inside.0 <= p as isize && (p as isize) < inside.1 {
                // SAFETY: promised by the caller.
                let x = unsafe { s.load(pixel.wrapping_offset(p as isize * step)) };
                add(s, acc, x, &weights, p, STRIDE);
            }
        });
    } else {
        pixels!(p in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22] {
            // SAFETY: promised by the caller.
            let x = unsafe { s.load(pixel.wrapping_offset(p as isize * step)) };
            add(s, acc, x, &weights, p, STRIDE);
        });
    }
}
