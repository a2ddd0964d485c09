//! Micro-kernels for lines: neighbouring outputs share the pixels that they read, and each weight is loaded once for all.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
// Targets without vectors have none of these kernels.
#![cfg_attr(
    not(any(
        all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"),
        all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"),
        all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128")
    )),
    allow(dead_code, unused_macros)
)]

use super::long_kernel;
use super::one_vector::one_vector_sets;
use crate::contraction::activation::bent;
use crate::contraction::bend::Slope;
use crate::contraction::job::offset;
use crate::contraction::line::TapAt;
use crate::contraction::results::Results;
use crate::isa::Isa;
use crate::simd::Simd;

/// Outputs that are computed at once, and the same for short lines.
const OUTPUTS: usize = 7;
const FEW_OUTPUTS: usize = 4;

/// Some outputs of one line: `outputs` from `start` on, `to.cols` channels. Both are at least as many as the kernel computes
/// at once; the last ones overlap those before them.
#[derive(Clone, Copy)]
pub(super) struct LineArgs<'a> {
    /// Where the line's window rows lie that are not in the padding, and the index of their first weights.
    pub taps: &'a [TapAt],
    /// Pixel 0: the first one that output 0 reads.
    pub a: *const f32,
    /// Distance of pixels.
    pub pixel: isize,
    /// Pixels from one output to the next: STRIDE, where the kernel has a number of its own.
    pub stride: usize,
    /// Taps along the line: K, where the kernel has a number of its own.
    pub along: usize,
    /// Pixels `-first..limit - first` are not in the padding, which reaches at most K - 1 pixels of a window with K taps along
    /// the line.
    pub first: isize,
    pub limit: isize,
    pub w: *const f32,
    pub w_stride: usize,
    /// All outputs of the line.
    pub to: Results,
    /// Slopes of what is below zero, from the first channel on: other functions would take the kernels too long to tell apart.
    pub slope: Option<Slope>,
    pub start: usize,
    pub outputs: usize,
}

/// # Safety
/// The machine has the instruction set; all addresses are valid for the outputs, channels and taps.
pub(super) type LineKernel = unsafe fn(&LineArgs<'_>);

/// Kernels of one vector width.
pub(super) struct LineSet {
    /// Channels of a vector.
    pub cols: usize,
    /// By form: many outputs, few outputs.
    kernels: [[LineKernel; 2]; 6],
    /// For any number of taps, and strides that are less.
    long: [LineKernel; 2],
}

impl LineSet {
    /// The kernel for a stride, a number of taps along the line, and a length of lines.
    pub fn kernel(&self, stride: usize, taps: usize, outputs: usize) -> Option<LineKernel> {
        let long = || of_outputs(&self.long, outputs, (long_kernel::OUTPUTS, long_kernel::FEW_OUTPUTS));
        let [s1k3, s2k3, s1k5, s2k5, s1k7, s1k9] = &self.kernels;
        let kernels = match (stride, taps) {
            (1, 3) => s1k3,
            (2, 3) => s2k3,
            (1, 5) => s1k5,
            (2, 5) => s2k5,
            (1, 7) => s1k7,
            (1, 9) => s1k9,
            (1, 2..) => return long(),
            // Of windows that are longer than the line, most taps are in the padding.
            (2.., _) if stride < taps && taps <= stride.saturating_mul(outputs) => return long(),
            _ => return None,
        };
        of_outputs(kernels, outputs, (OUTPUTS, FEW_OUTPUTS))
    }
}

/// The kernel of many outputs, or the one of few, if there are as many.
fn of_outputs([many, few]: &[LineKernel; 2], outputs: usize, least: (usize, usize)) -> Option<LineKernel> {
    match outputs {
        _ if outputs >= least.0 => Some(*many),
        _ if outputs >= least.1 => Some(*few),
        _ => None,
    }
}

/// All channels, for each all outputs.
///
/// # Safety
/// As [`LineKernel`]; the caller is compiled for the instruction set of `S`.
#[inline(always)]
unsafe fn line<S: Simd, const STRIDE: usize, const K: usize, const MR: usize>(s: S, args: &LineArgs<'_>) {
    let mut column = 0;
    while column < args.to.cols {
        let at = column.min(args.to.cols - S::LANES);
        // SAFETY: promised by the caller.
        unsafe {
            match args.taps {
                // Where there are registers enough, they hold the weights of a small window.
                [first, second, third] if const { K == 3 && (S::LANES >= 16 || by_columns::<S>(MR)) } => {
                    let rows = [first, second, third].map(|tap| Row::<S, K>::new(s, args, (tap, 1), at));
                    outputs::<S, STRIDE, K, MR, 3>(s, args, at, Some(&rows));
                }
                _ => outputs::<S, STRIDE, K, MR, 0>(s, args, at, None),
            }
        }
        column += S::LANES;
    }
}

/// Whether so many outputs of a small window are computed column by column: sixteen registers hold its weights and few outputs.
/// Measured with AVX2; short lines are not worth the code.
const fn by_columns<S: Simd>(outputs: usize) -> bool {
    S::LANES == 8 && outputs == OUTPUTS
}

/// A row of the window, or a part of it: its weights for a vector of channels, and the pixel of output 0 under the first of them.
#[derive(Clone, Copy)]
pub(super) struct Row<S: Simd, const K: usize> {
    pub weights: [S::F32; K],
    pub pixel: *const f32,
}

impl<S: Simd, const K: usize> Row<S, K> {
    /// From a tap on, at steps of so many.
    ///
    /// # Safety
    /// As [`LineKernel`].
    #[inline(always)]
    pub unsafe fn new(s: S, args: &LineArgs<'_>, (tap, step): (&TapAt, usize), column: usize) -> Self {
        let (first, each) = (args.w.wrapping_add(tap.index * args.w_stride + column), step.wrapping_mul(args.w_stride));
        let mut weights = [s.splat(0.0); K];
        for (t, weight) in weights.iter_mut().enumerate() {
            // SAFETY: promised by the caller.
            *weight = unsafe { s.load(first.wrapping_add(t.wrapping_mul(each))) };
        }
        Row { weights, pixel: args.a.wrapping_offset(tap.at).wrapping_add(column) }
    }
}

/// All outputs of one vector of channels, from all rows of the window or those that are given.
///
/// # Safety
/// As [`line`].
#[inline(always)]
unsafe fn outputs<S: Simd, const STRIDE: usize, const K: usize, const MR: usize, const ROWS: usize>(
    s: S,
    args: &LineArgs<'_>,
    column: usize,
    rows: Option<&[Row<S, K>; ROWS]>,
) {
    let mut done = 0;
    while done < args.outputs {
        let start = args.start + done.min(args.outputs - MR);
        // Pixels of the tile that are not in the padding.
        let low = args.first.wrapping_add((start * STRIDE) as isize);
        let (first, end) = (low.saturating_neg(), args.limit.wrapping_sub(low));
        let border = first > 0 || end < ((MR - 1) * STRIDE + K) as isize;
        // SAFETY: promised by the caller.
        unsafe {
            match (rows, border) {
                (Some(rows), false) if const { by_columns::<S>(MR) } => {
                    columns::<S, STRIDE, K, MR, ROWS, false>(s, args, (start, column), rows, (0, 0));
                }
                (Some(rows), true) if const { by_columns::<S>(MR) } => {
                    columns::<S, STRIDE, K, MR, ROWS, true>(s, args, (start, column), rows, (first, end));
                }
                (_, false) => tile::<S, STRIDE, K, MR, ROWS, false>(s, args, (start, column), rows, (0, 0)),
                (_, true) => tile::<S, STRIDE, K, MR, ROWS, true>(s, args, (start, column), rows, (first, end)),
            }
        }
        done += MR;
    }
}

/// A block for each pixel of a tile: those of the numbers that are before its end. The block is there for no other.
macro_rules! pixels {
    ($p:ident in [$($number:literal)*] $block:block) => {
        $(if const { $number < (MR - 1) * STRIDE + K } { let $p: usize = $number; $block })*
    };
}

pub(super) use pixels;

/// MR outputs of one vector of channels.
///
/// # Safety
/// As [`line`].
#[inline(always)]
unsafe fn tile<S: Simd, const STRIDE: usize, const K: usize, const MR: usize, const ROWS: usize, const BORDER: bool>(
    s: S,
    args: &LineArgs<'_>,
    (start, column): (usize, usize),
    rows: Option<&[Row<S, K>; ROWS]>,
    inside: (isize, isize),
) {
    // SAFETY: the caller promises a vector of channels at all pixels that are not in the padding, and at all outputs.
    unsafe {
        let mut ends = Ends::<S>::new(s, args, (start, column));
        let mut acc = [ends.bias; MR];
        let skipped = (start * STRIDE) as isize * args.pixel;
        match rows {
            Some(rows) => {
                for row in rows {
                    let pixel = row.pixel.wrapping_offset(skipped);
                    products::<S, STRIDE, K, MR, BORDER>(s, &mut acc, &row.weights, (pixel, args.pixel), inside);
                }
            }
            None => {
                for tap in args.taps {
                    let row = Row::<S, K>::new(s, args, (tap, 1), column);
                    let pixel = row.pixel.wrapping_offset(skipped);
                    products::<S, STRIDE, K, MR, BORDER>(s, &mut acc, &row.weights, (pixel, args.pixel), inside);
                }
            }
        }
        for x in acc {
            ends.finish(s, args, x);
        }
    }
}

/// MR outputs of one vector of channels, a column of the window's pixels after the other: each column reaches few outputs.
///
/// # Safety
/// As [`line`].
#[inline(always)]
unsafe fn columns<
    S: Simd,
    const STRIDE: usize,
    const K: usize,
    const MR: usize,
    const ROWS: usize,
    const BORDER: bool,
>(
    s: S,
    args: &LineArgs<'_>,
    (start, column): (usize, usize),
    rows: &[Row<S, K>; ROWS],
    inside: (isize, isize),
) {
    // SAFETY: the caller promises a vector of channels at all pixels that are not in the padding, and at all outputs.
    unsafe {
        let mut ends = Ends::<S>::new(s, args, (start, column));
        let mut acc = [ends.bias; MR];
        let skipped = (start * STRIDE) as isize * args.pixel;
        let mut pixels = rows.map(|row| row.pixel.wrapping_offset(skipped));
        pixels!(p in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14] {
            if !(BORDER && padded::<STRIDE, K, MR>(p, inside)) {
                for r in 0..ROWS {
                    let x = s.load(pixels[r]);
                    add(s, &mut acc, x, &rows[r].weights, p, STRIDE);
                }
            }
            for r in 0..ROWS {
                pixels[r] = pixels[r].wrapping_offset(args.pixel);
            }
            if p + 1 >= K && (p + 1 - K).is_multiple_of(STRIDE) {
                ends.finish(s, args, acc[(p + 1 - K) / STRIDE]);
            }
        });
    }
}

/// What outputs begin with, and where the next one ends.
pub(super) struct Ends<S: Simd> {
    pub bias: S::F32,
    low: S::F32,
    high: S::F32,
    /// Slopes of what is below zero, if any.
    slopes: Option<S::F32>,
    residual: *const f32,
    out: *mut f32,
}

impl<S: Simd> Ends<S> {
    /// Of a vector of channels from output `start` on.
    ///
    /// # Safety
    /// As [`line`].
    #[inline(always)]
    pub unsafe fn new(s: S, args: &LineArgs<'_>, (start, column): (usize, usize)) -> Self {
        let to = &args.to;
        let (low, high) = to.clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        Ends {
            // SAFETY: promised by the caller.
            bias: if to.bias.is_null() { s.splat(0.0) } else { unsafe { s.load(to.bias.add(column)) } },
            // SAFETY: promised by the caller.
            slopes: args.slope.map(|slope| unsafe { slope.vector(s, column, S::LANES) }),
            low: s.splat(low),
            high: s.splat(high),
            residual: offset(to.residual, start * to.residual_step + column),
            out: to.out.wrapping_add(start * to.out_step + column),
        }
    }

    /// Stores the next output.
    ///
    /// # Safety
    /// As [`line`]; there are so many outputs.
    #[inline(always)]
    pub unsafe fn finish(&mut self, s: S, args: &LineArgs<'_>, mut x: S::F32) {
        // SAFETY: promised by the caller.
        unsafe {
            if !self.residual.is_null() {
                x = s.add(x, s.load(self.residual));
                self.residual = self.residual.wrapping_add(args.to.residual_step);
            }
            // The second operand wins if it is NaN.
            x = s.min(self.high, s.max(self.low, x));
            if let Some(slopes) = self.slopes {
                x = bent(s, x, slopes);
            }
            s.store(self.out, x);
            self.out = self.out.wrapping_add(args.to.out_step);
        }
    }
}

/// The products of pixel `p` of a tile, for each output that it reaches.
#[inline(always)]
pub(super) fn add<S: Simd, const K: usize, const MR: usize>(
    s: S,
    acc: &mut [S::F32; MR],
    x: S::F32,
    weights: &[S::F32; K],
    p: usize,
    stride: usize,
) {
    for i in (p + 1).saturating_sub(K).div_ceil(stride)..MR.min(p / stride + 1) {
        acc[i] = s.mul_add(x, weights[p - i * stride], acc[i]);
    }
}

/// Whether a pixel of a tile is in the padding, which is shorter than a row of the window: the compiler sees which pixels it may
/// reach.
#[inline(always)]
fn padded<const STRIDE: usize, const K: usize, const MR: usize>(p: usize, inside: (isize, isize)) -> bool {
    p + 1 < K && (p as isize) < inside.0 || p > (MR - 1) * STRIDE && p as isize >= inside.1
}

/// The products of one row of the window, from its first pixel on, at a distance of `step`; at the border those from
/// `inside.0` to before `inside.1`.
///
/// # Safety
/// As [`line`].
#[inline(always)]
unsafe fn products<S: Simd, const STRIDE: usize, const K: usize, const MR: usize, const BORDER: bool>(
    s: S,
    acc: &mut [S::F32; MR],
    weights: &[S::F32; K],
    (pixel, step): (*const f32, isize),
    inside: (isize, isize),
) {
    // Unrolled by hand, so that all accumulators are registers.
    pixels!(p in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16] {
        if !(BORDER && padded::<STRIDE, K, MR>(p, inside)) {
            // SAFETY: promised by the caller.
            let x = unsafe { s.load(pixel.wrapping_offset(p as isize * step)) };
            add(s, acc, x, weights, p, STRIDE);
        }
    });
}

/// Instantiates `line` for all forms: `kernels!(name, token, columns, attribute)`.
macro_rules! kernels {
    ($name:ident, $token:expr, $cols:literal, $attribute:meta) => {
        pub(super) static $name: LineSet = LineSet {
            cols: $cols,
            kernels: [
                [
            kernels!(@one $token, 1, 3, OUTPUTS, $attribute),
            kernels!(@one $token, 1, 3, FEW_OUTPUTS, $attribute),
                ],
                [
            kernels!(@one $token, 2, 3, OUTPUTS, $attribute),
            kernels!(@one $token, 2, 3, FEW_OUTPUTS, $attribute),
                ],
                [
            kernels!(@one $token, 1, 5, OUTPUTS, $attribute),
            kernels!(@one $token, 1, 5, FEW_OUTPUTS, $attribute),
                ],
                [
            kernels!(@one $token, 2, 5, OUTPUTS, $attribute),
            kernels!(@one $token, 2, 5, FEW_OUTPUTS, $attribute),
                ],
                [
            kernels!(@one $token, 1, 7, OUTPUTS, $attribute),
            kernels!(@one $token, 1, 7, FEW_OUTPUTS, $attribute),
                ],
                [
            kernels!(@one $token, 1, 9, OUTPUTS, $attribute),
            kernels!(@one $token, 1, 9, FEW_OUTPUTS, $attribute),
                ],
            ],
            long: [
        kernels!(@long $token, long_kernel::OUTPUTS, $attribute),
        kernels!(@long $token, long_kernel::FEW_OUTPUTS, $attribute),
            ],
        };
    };
    (@long $token:expr, $outputs:expr, $attribute:meta) => {{
        /// # Safety
        /// As [`LineKernel`].
        #[$attribute]
        unsafe fn kernel(args: &LineArgs<'_>) {
            // SAFETY: promised by the caller; this function has the target features.
            unsafe { long_kernel::line::<_, { $outputs }>($token, args) }
        }
        kernel
    }};
    (@one $token:expr, $stride:literal, $taps:literal, $outputs:expr, $attribute:meta) => {{
        /// # Safety
        /// As [`LineKernel`].
        #[$attribute]
        unsafe fn kernel(args: &LineArgs<'_>) {
            // SAFETY: promised by the caller; this function has the target features.
            unsafe { line::<_, $stride, $taps, $outputs>($token, args) }
        }
        kernel
    }};
}

one_vector_sets!(LineSet);
