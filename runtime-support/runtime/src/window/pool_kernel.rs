//! Micro-kernels for lines of pooling windows: what lies above each other is combined first, once for all windows that have it in
//! common, then neighbours of that.
// Targets without vectors have none of these kernels.
#![cfg_attr(
    not(any(
        all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"),
        all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"),
        all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128")
    )),
    allow(dead_code, unused_macros)
)]

use super::line_kernel::{Ends, LineArgs, LineKernel};
use super::one_vector::one_vector_sets;
use crate::contraction::line::TapAt;
use crate::isa::Isa;
use crate::math::floor_div_usize;
use crate::simd::Simd;
use core::mem::MaybeUninit;

/// Pixels of a line whose columns wait for their neighbours.
pub(super) const PIXELS: usize = 64;
/// Most taps along a line: as many columns, but one, are combined again for the next outputs.
const MOST: usize = 16;

/// Kernels of one vector width, in sets of their own: programs that pool need not have the kernels of depthwise convolutions.
pub(super) struct PoolSet {
    /// Channels of a vector.
    pub cols: usize,
    max: LineKernel,
    sum: LineKernel,
}

impl PoolSet {
    /// The kernel for the greatest element, or the sum, of windows of so many taps along the line.
    pub fn kernel(&self, max: bool, taps: usize) -> Option<LineKernel> {
        (2..=MOST).contains(&taps).then_some(if max { self.max } else { self.sum })
    }
}

/// NaN stays NaN.
#[inline(always)]
pub(super) fn combine<S: Simd, const MAX: bool>(s: S, a: S::F32, b: S::F32) -> S::F32 {
    if MAX { s.keep_nan(a, s.max(a, b)) } else { s.add(a, b) }
}

/// All channels, for each all outputs.
///
/// # Safety
/// As [`LineKernel`]; the caller is compiled for the instruction set of `S`.
#[inline(always)]
unsafe fn line<S: Simd, const MAX: bool>(s: S, args: &LineArgs<'_>) {
    let most = floor_div_usize(PIXELS.saturating_sub(args.along), args.stride) + 1;
    let mut column = 0;
    while column < args.to.cols {
        // The last channels overlap those before them.
        let at = column.min(args.to.cols - S::LANES);
        let mut done = 0;
        while done < args.outputs {
            let count = most.min(args.outputs - done);
            // SAFETY: promised by the caller.
            unsafe { outputs::<S, MAX>(s, args, (args.start + done, at), count) };
            done += count;
        }
        column += S::LANES;
    }
}

/// `count` outputs from `start` on of a vector of channels.
///
/// # Safety
/// As [`line`]; what so many outputs read is not more than `PIXELS`.
#[inline(always)]
unsafe fn outputs<S: Simd, const MAX: bool>(s: S, args: &LineArgs<'_>, (start, column): (usize, usize), count: usize) {
    let mut columns = [MaybeUninit::<S::F32>::uninit(); PIXELS];
    let (columns, none) = (columns.as_mut_ptr().cast::<S::F32>(), neutral::<S, MAX>(s));
    let (first, pixels) = (start * args.stride, ((count - 1) * args.stride + args.along).min(PIXELS));
    let low = args.first.wrapping_add(first as isize);
    // `clamp` could panic.
    let inside = |at: isize| at.max(0).min(pixels as isize) as usize;
    let from = inside(low.saturating_neg());
    let end = inside(args.limit.wrapping_sub(low)).max(from);
    let end = if args.taps.is_empty() { from } else { end };
    for p in (0..from).chain(end..pixels) {
        // SAFETY: there are not more pixels than columns.
        unsafe { columns.add(p).write(none) };
    }
    let a = args.a.wrapping_offset((first + from) as isize * args.pixel).wrapping_add(column);
    for (i, rows) in args.taps.chunks(3).enumerate() {
        let columns = (columns.wrapping_add(from), end - from);
        // SAFETY: promised by the caller: these pixels are not in the padding. Other rows were there before.
        unsafe {
            match rows {
                [r0, r1, r2] => above::<S, MAX, 3>(s, columns, (a, args.pixel), [r0, r1, r2], i > 0),
                [r0, r1] => above::<S, MAX, 2>(s, columns, (a, args.pixel), [r0, r1], i > 0),
                [r0, ..] => above::<S, MAX, 1>(s, columns, (a, args.pixel), [r0], i > 0),
                [] => {}
            }
        }
    }
    // SAFETY: all columns are there, of padding and of other pixels; the outputs are valid.
    unsafe {
        let ends = Ends::<S>::new(s, args, (start, column));
        match args.along {
            2 => beside::<S, MAX, 2>(s, args, ends, columns, count),
            3 => beside::<S, MAX, 3>(s, args, ends, columns, count),
            _ => beside::<S, MAX, 0>(s, args, ends, columns, count),
        }
    }
}

/// What changes nothing.
#[inline(always)]
pub(super) fn neutral<S: Simd, const MAX: bool>(s: S) -> S::F32 {
    s.splat(if MAX { f32::NEG_INFINITY } else { 0.0 })
}

/// Combines N rows of the window for each of some pixels, with what is there already if there is something.
///
/// # Safety
/// There are so many columns, and a vector is valid at all these pixels of the rows.
#[inline(always)]
unsafe fn above<S: Simd, const MAX: bool, const N: usize>(
    s: S,
    (columns, count): (*mut S::F32, usize),
    (a, pixel): (*const f32, isize),
    rows: [&TapAt; N],
    more: bool,
) {
    let mut at = rows.map(|row| a.wrapping_offset(row.at));
    for p in 0..count {
        // SAFETY: promised by the caller; with `more`, the column was written before.
        unsafe {
            let mut x = s.load(at[0]);
            for row in at.iter().skip(1) {
                x = combine::<S, MAX>(s, x, s.load(*row));
            }
            let column = columns.add(p);
            if more {
                // The column second: of a choice of what is there already the compiler would make a masked store.
                x = combine::<S, MAX>(s, x, *column);
            }
            column.write(x);
        }
        at = at.map(|row| row.wrapping_offset(pixel));
    }
}

/// Combines K neighbouring columns for each output; with K = 0 as many as the window has.
///
/// # Safety
/// The columns are there, and so many outputs are valid.
#[inline(always)]
unsafe fn beside<S: Simd, const MAX: bool, const K: usize>(
    s: S,
    args: &LineArgs<'_>,
    mut ends: Ends<S>,
    columns: *const S::F32,
    count: usize,
) {
    let taps = if K == 0 { args.along } else { K };
    let mut first = columns;
    for _ in 0..count {
        // SAFETY: promised by the caller.
        unsafe {
            let mut x = *first;
            for t in 1..taps {
                x = combine::<S, MAX>(s, x, *first.add(t));
            }
            if !args.to.bias.is_null() {
                x = s.add(x, ends.bias);
            }
            ends.finish(s, args, x);
        }
        first = first.wrapping_add(args.stride);
    }
}

/// Instantiates `line` for both operations: `kernels!(name, token, columns, attribute)`.
macro_rules! kernels {
    ($name:ident, $token:expr, $cols:literal, $attribute:meta) => {
        pub(super) static $name: PoolSet = PoolSet {
            cols: $cols,
    max: kernels!(@one $token, true, $attribute),
    sum: kernels!(@one $token, false, $attribute),
        };
    };
    (@one $token:expr, $max:literal, $attribute:meta) => {{
        /// # Safety
        /// As [`LineKernel`].
        #[$attribute]
        unsafe fn kernel(args: &LineArgs<'_>) {
            // SAFETY: promised by the caller; this function has the target features.
            unsafe { line::<_, $max>($token, args) }
        }
        kernel
    }};
}

one_vector_sets!(PoolSet);
