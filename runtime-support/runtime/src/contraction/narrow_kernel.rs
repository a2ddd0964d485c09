//! Micro-kernels for lines of convolutions with few columns: what a tile reads is copied, with zeros for padding, so that all
//! elements lie at distances that are known at compile time.
//!
//! Sums are made in the order of [`tile`](super::kernel::tile): the bits are the same.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
// Other targets have none of these kernels.
#![cfg_attr(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")), allow(dead_code))]

#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod fours;
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod pairs;
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod sets;
#[cfg(all(test, feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod tests;

use super::fold::{FoldKernel, WINDOW, first_of_group};
use super::kernel::LINE;
use super::line::TapAt;
use super::planar_kernel::PlanarKernel;
use super::results::Results;
use crate::isa::Isa;
use crate::math::ceil_div_usize;
use crate::simd::{Simd, load_first};

/// Some outputs of one line.
#[derive(Clone, Copy)]
pub(super) struct NarrowArgs<'a> {
    /// The rows of the window that are not in the padding, and the index of the first tap of each.
    pub taps: &'a [TapAt],
    /// Pixel 0: the first one that output 0 reads.
    pub a: *const f32,
    /// Distance of pixels.
    pub pixel: isize,
    /// Pixels from one output to the next, for a kernel of planes, and from one tap to the next.
    pub stride: usize,
    pub gap: usize,
    /// Pixels `-first..limit - first` are not in the padding.
    pub first: isize,
    pub limit: isize,
    /// Channels.
    pub depth: usize,
    /// Of those whose products a kernel of planes makes, the first and the end.
    pub channels: (usize, usize),
    /// Taps of a row of the window.
    pub window: usize,
    /// Rows of [`LINE`] weights.
    pub w: *const f32,
    /// Channels of a group, for a kernel of groups.
    pub width: usize,
    /// Sums of every output to begin with, or null, and where sums go instead of the result, or null: [`LINE`] columns of each, or
    /// the vectors of a kernel of planes.
    pub sums: (*const f32, *mut f32),
    pub to: Results,
    /// The first output, and how many there are from it on: as many as the kernel computes, or fewer for one of planes.
    pub start: usize,
    pub outputs: usize,
}

impl NarrowArgs<'_> {
    /// Pixels of a row of the window, with those between its taps.
    #[inline(always)]
    pub fn span(&self) -> usize {
        self.window.saturating_sub(1).wrapping_mul(self.gap).wrapping_add(1)
    }

    /// The first pixel that output `start` reads.
    #[inline(always)]
    pub fn at(&self) -> *const f32 {
        self.a.wrapping_offset(((self.start * self.stride) as isize).wrapping_mul(self.pixel))
    }

    /// Which of so many pixels, from the first one that output `start` reads on, are not in the padding.
    #[inline(always)]
    pub fn inside(&self, pixels: usize) -> (usize, usize) {
        let low = self.first.wrapping_add((self.start * self.stride) as isize);
        // `clamp` could panic.
        let inside = |at: isize| at.max(0).min(pixels as isize) as usize;
        let (first, end) = (inside(low.saturating_neg()), inside(self.limit.wrapping_sub(low)));
        (first, end.max(first))
    }
}

/// # Safety
/// The machine has the instruction set; all addresses are valid for the outputs, columns and taps. The rows of the window for these
/// outputs are as [`NarrowCopy`] leaves them.
pub(super) type NarrowKernel = unsafe fn(&NarrowArgs<'_>, &[*const f32]);

/// Copies so many pixels of a row of the window, from the first one that output `start` reads on, which is given, chunk by chunk
/// of [`LINE`] channels, with zeros for padding.
///
/// # Safety
/// The machine has the instruction set; the addresses are valid, and the last pointer has room for so many pixels.
pub(super) type NarrowCopy = unsafe fn(&NarrowArgs<'_>, *const f32, usize, *mut f32);

/// A kernel.
#[derive(Clone, Copy)]
pub(super) struct Tiling {
    /// How many outputs it computes.
    pub outputs: usize,
    pub kernel: Kernel,
}

/// What vectors of a kernel hold.
#[derive(Clone, Copy)]
pub(super) enum Kernel {
    /// Columns; the window is copied for it.
    Columns(NarrowKernel, NarrowCopy),
    /// Pixels.
    Planes(PlanarKernel),
}

/// Eighths of a whole.
pub(super) const WHOLE: usize = 8;

/// How many outputs kernels compute, and the kernels, by stride 1 and 2.
type Kernels = [&'static [(usize, NarrowKernel)]; 2];

/// Kernels of one instruction set.
pub(super) struct NarrowSet {
    /// Whether they gain with any weights: tiles of rows have no more vectors than these.
    pub beats_tiles: bool,
    /// Eighths of the time of a product of vectors of [`LINE`] lanes that one takes, and one of tiles of rows.
    pub eighths: usize,
    pub of_tiles: usize,
    /// Eighths of that time, of a product of whole vectors, which tiles of rows take for an output.
    pub tile: usize,
    /// Of all products.
    pub whole: Kernels,
    /// Of those inside of groups.
    pub groups: Kernels,
    pub fold: FoldKernel,
    pub copy: NarrowCopy,
}

impl NarrowSet {
    /// The kernel of those for a stride with which a line takes least time, and this time: products of vectors for each of a sum.
    pub fn choose(
        &self,
        kernels: &Kernels,
        stride: usize,
        outputs: usize,
        fits: impl Fn(usize) -> bool,
    ) -> Option<(usize, Tiling)> {
        // Sums of fewer outputs than this wait for each other; weights are loaded once for all.
        let time = |rows: usize| {
            let vectors = rows.max(8) + 1;
            ceil_div_usize(ceil_div_usize(outputs, rows).saturating_mul(vectors).saturating_mul(self.eighths), WHOLE)
        };
        let fitting = kernels.get(stride.checked_sub(1)?)?.iter().filter(|(rows, _)| *rows <= outputs && fits(*rows));
        let tiling = |(outputs, kernel): &(usize, NarrowKernel)| Tiling {
            outputs: *outputs,
            kernel: Kernel::Columns(*kernel, self.copy),
        };
        fitting.map(|kernel| (time(kernel.0), tiling(kernel))).min_by_key(|(time, _)| *time)
    }
}

/// Pixels that so many outputs read of a row of the window, and floats of the copy for it.
pub(super) fn row(rows: usize, stride: usize, (span, depth): (usize, usize)) -> (usize, usize) {
    let pixels = rows.saturating_sub(1).saturating_mul(stride).saturating_add(span);
    (pixels, ceil_div_usize(depth, LINE).saturating_mul(pixels).saturating_mul(LINE))
}

/// MR outputs.
///
/// # Safety
/// As [`NarrowKernel`]; the caller is compiled for the instruction set of `S`, whose vectors divide [`LINE`] lanes.
#[inline(always)]
unsafe fn outputs<S: Simd, const STRIDE: usize, const MR: usize>(s: S, args: &NarrowArgs<'_>, lines: &[*const f32]) {
    // SAFETY: promised by the caller.
    unsafe {
        for first in (0..LINE).step_by(S::LANES) {
            let Some(to) = args.to.from(first) else { return };
            let mut acc = begin::<S, MR>(s, args, first);
            each_chunk(
                (args, lines),
                (MR - 1) * STRIDE,
                first,
                #[inline(always)]
                |from, w, len| products::<S, STRIDE, MR>(s, &mut acc, from, w, len),
            );
            end::<S, MR>(s, args, (to, first), &mut acc);
        }
    }
}

/// Calls `products` for every chunk of the channels of every tap: with the first of them in the copy of a line, which has as many
/// pixels as one output reads and `more`, the weights of a column, and how many there are. It returns the next weights.
#[inline(always)]
fn each_chunk(
    (args, lines): (&NarrowArgs<'_>, &[*const f32]),
    more: usize,
    column: usize,
    mut products: impl FnMut(*const f32, *const f32, usize) -> *const f32,
) {
    let (pixels, chunks) = (more + args.span(), ceil_div_usize(args.depth, LINE));
    for (tap, row) in args.taps.iter().zip(lines) {
        let mut w = args.w.wrapping_add(tap.index * args.depth * LINE + column);
        for t in 0..args.window {
            for chunk in 0..chunks {
                let from = row.wrapping_add((chunk * pixels + t * args.gap) * LINE);
                w = products(from, w, LINE.min(args.depth - chunk * LINE));
            }
        }
    }
}

/// Zeros, or the sums of rows of the window that were in the copy before.
///
/// # Safety
/// As [`NarrowKernel`].
#[inline(always)]
unsafe fn begin<S: Simd, const MR: usize>(s: S, args: &NarrowArgs<'_>, first: usize) -> [[S::F32; 1]; MR] {
    let (from, mut acc) = (args.sums.0.wrapping_add(first), [[s.splat(0.0)]; MR]);
    if !args.sums.0.is_null() {
        for i in 0..MR {
            // SAFETY: promised by the caller.
            acc[i][0] = unsafe { s.load(from.wrapping_add(i * LINE)) };
        }
    }
    acc
}

/// Stores a vector of columns of every output: results, or sums for the rows of the window that follow.
///
/// # Safety
/// As [`NarrowKernel`].
#[inline(always)]
unsafe fn end<S: Simd, const MR: usize>(
    s: S,
    args: &NarrowArgs<'_>,
    (to, first): (Results, usize),
    acc: &mut [[S::F32; 1]; MR],
) {
    let sums = args.sums.1.wrapping_add(first);
    // SAFETY: promised by the caller.
    unsafe {
        if args.sums.1.is_null() {
            return to.finish::<S, MR, 1, false>(s, args.start, acc);
        }
        for i in 0..MR {
            s.store(sums.wrapping_add(i * LINE), acc[i][0]);
        }
    }
}

/// Copies pixels of a row of the window.
///
/// # Safety
/// As [`NarrowCopy`].
#[inline(always)]
unsafe fn copy<S: Simd>(s: S, args: &NarrowArgs<'_>, a: *const f32, pixels: usize, mut to: *mut f32) {
    let (first, end) = args.inside(pixels);
    for channel in (0..args.depth).step_by(LINE) {
        // SAFETY: promised by the caller.
        unsafe { copy_chunk(s, args, (a, channel), (first, end, pixels), to) };
        to = to.wrapping_add(pixels * LINE);
    }
}

/// Copies channels `channel..` of pixels of a line, at most [`LINE`] each.
///
/// # Safety
/// As [`NarrowCopy`].
#[inline(always)]
unsafe fn copy_chunk<S: Simd>(
    s: S,
    args: &NarrowArgs<'_>,
    (a, channel): (*const f32, usize),
    (first, end, pixels): (usize, usize, usize),
    to: *mut f32,
) {
    let (a, depth) = (a.wrapping_add(channel), args.depth - channel);
    // SAFETY: promised by the caller: pixels first..end are not in the padding.
    unsafe {
        for v in (0..LINE.min(depth)).step_by(S::LANES) {
            for p in (0..first).chain(end..pixels) {
                s.store(to.wrapping_add(p * LINE + v), s.splat(0.0));
            }
            // Fewer channels may be left.
            let left = depth.saturating_sub(v);
            for p in first..end {
                let x = load_first(s, a.wrapping_offset((p as isize).wrapping_mul(args.pixel)).wrapping_add(v), left);
                s.store(to.wrapping_add(p * LINE + v), x);
            }
        }
    }
}

/// `len` products of every output. Returns the next weights.
///
/// # Safety
/// So many elements of the pixels, and weights, are valid.
#[inline(always)]
unsafe fn products<S: Simd, const STRIDE: usize, const MR: usize>(
    s: S,
    acc: &mut [[S::F32; 1]; MR],
    from: *const f32,
    w: *const f32,
    len: usize,
) -> *const f32 {
    let (mut from, mut w, mut left) = (from, w, len);
    // SAFETY: promised by the caller.
    unsafe {
        // Where two products are made at a time, the instructions of a loop would take the place of some, and so would those
        // with an address of two registers.
        while left >= 4 {
            for k in 0..4 {
                product::<S, STRIDE, MR>(s, acc, from.add(k), w.add(k * LINE));
            }
            (from, w, left) = (from.wrapping_add(4), w.wrapping_add(4 * LINE), left - 4);
        }
        while left > 0 {
            product::<S, STRIDE, MR>(s, acc, from, w);
            (from, w, left) = (from.wrapping_add(1), w.wrapping_add(LINE), left - 1);
        }
    }
    w
}

/// One product of every output.
///
/// # Safety
/// An element of the pixels, and a vector of weights, are valid.
#[inline(always)]
unsafe fn product<S: Simd, const STRIDE: usize, const MR: usize>(
    s: S,
    acc: &mut [[S::F32; 1]; MR],
    from: *const f32,
    w: *const f32,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let weights = s.load(w);
        for i in 0..MR {
            acc[i][0] = s.mul_add(s.splat(*from.add(i * STRIDE * LINE)), weights, acc[i][0]);
        }
    }
}

/// MR outputs of [`WINDOW`] taps a row and [`LINE`] channels, of groups of `width` of them, from folded weights. The copy has room
/// for all rows of the window.
///
/// # Safety
/// As [`outputs`].
#[inline(always)]
unsafe fn grouped<S: Simd, const STRIDE: usize, const MR: usize>(s: S, args: &NarrowArgs<'_>, lines: &[*const f32]) {
    // SAFETY: promised by the caller; no group is divided between two vectors.
    unsafe {
        for first in (0..LINE).step_by(S::LANES) {
            let mut acc = [[s.splat(0.0)]; MR];
            match args.width == S::LANES {
                true => groups::<S, STRIDE, MR, true>(s, (args, lines), first, &mut acc),
                false => groups::<S, STRIDE, MR, false>(s, (args, lines), first, &mut acc),
            }
            let Some(to) = args.to.from(first) else { return };
            to.finish::<S, MR, 1, false>(s, args.start, &mut acc);
        }
    }
}

/// The sums of a vector of columns, which are one group or several.
///
/// # Safety
/// As [`grouped`].
#[inline(always)]
unsafe fn groups<S: Simd, const STRIDE: usize, const MR: usize, const ONE: bool>(
    s: S,
    (args, lines): (&NarrowArgs<'_>, &[*const f32]),
    column: usize,
    acc: &mut [[S::F32; 1]; MR],
) {
    let first: [i32; LINE] = core::array::from_fn(|lane| first_of_group(args.width, lane) as i32);
    // SAFETY: promised by the caller.
    unsafe {
        let first = s.load_i32(first.as_ptr());
        for (tap, row) in args.taps.iter().zip(lines) {
            let row = row.wrapping_add(column);
            let mut w = args.w.wrapping_add(tap.index * args.width * LINE + column);
            for channel in 0..args.width {
                let index = s.add_i32(first, s.splat_i32(channel as i32));
                let weights: [S::F32; WINDOW] = core::array::from_fn(|t| s.load(w.wrapping_add(t * args.width * LINE)));
                for i in 0..MR {
                    for t in 0..WINDOW {
                        // Every lane gets the channel of its group.
                        let pixel = row.wrapping_add((i * STRIDE + t) * LINE);
                        let x = if ONE {
                            s.splat(*pixel.add(channel))
                        } else if S::LANES == LINE {
                            s.lookup(s.load(pixel), index)
                        } else {
                            s.lookup_in_fours(s.load(pixel), index)
                        };
                        acc[i][0] = s.mul_add(x, weights[t], acc[i][0]);
                    }
                }
                w = w.wrapping_add(LINE);
            }
        }
    }
}

/// The kernels of an instruction set for so many columns of so many channels, if it has any.
pub(super) fn of(isa: Isa, cols: usize, depth: usize) -> Option<&'static NarrowSet> {
    #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
    return sets::of(isa, cols, depth);
    #[cfg(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")))]
    return {
        let _ = (isa, cols, depth);
        None
    };
}
