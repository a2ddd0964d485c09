//! Micro-kernels for lines of convolutions with so few columns that vectors of these would be mostly empty: vectors hold pixels, and
//! weights are broadcast.
//!
//! What a tile reads is copied plane by plane, with zeros for padding. [`LINE`] channels of all taps are summed after the other.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
// Other targets have none of these kernels.
#![cfg_attr(
    not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")),
    allow(dead_code, unused_macros)
)]

use super::kernel::LINE;
use super::narrow_kernel::{NarrowArgs, NarrowKernel, Tiling};
use super::results::Results;
use crate::isa::Isa;
use crate::math::ceil_div_usize;
use crate::simd::{Simd, WithSimd};
use crate::transpose::{SQUARE, square};
use core::mem::MaybeUninit;

/// Floats of the copy: nine rows of a window of nine, for two vectors of outputs.
const COPY: usize = 9 * LINE * 40;

/// A kernel for so many outputs, and columns at most.
pub(super) struct Planar {
    cols: usize,
    outputs: usize,
    kernel: NarrowKernel,
}

/// What decides how long a line takes.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub cols: usize,
    pub outputs: usize,
    /// Pixels from one output to the next.
    pub stride: usize,
    /// Rows of the window, taps of each, and channels.
    pub taps: usize,
    pub window: usize,
    pub depth: usize,
}

/// The kernel with which a line takes least time, and this time: products of vectors for each of a sum.
pub(super) fn choose(isa: Isa, shape: Shape) -> Option<(usize, Tiling)> {
    let fits = |kernel: &&Planar| kernel.cols >= shape.cols && kernel.length(shape) <= COPY;
    let tiling = |planar: &Planar| Tiling { outputs: planar.outputs, kernel: planar.kernel, copy: None };
    let fitting = of(isa).iter().filter(fits).map(|kernel| (kernel.time(shape), tiling(kernel)));
    fitting.min_by_key(|(time, _)| *time)
}

impl Planar {
    /// Floats of the copy.
    fn length(&self, shape: Shape) -> usize {
        let planes = shape.depth.min(LINE).saturating_mul(shape.stride).saturating_mul(shape.taps);
        pitch(self.outputs, shape.window, shape.stride).saturating_mul(planes)
    }

    fn time(&self, shape: Shape) -> usize {
        let vectors = self.outputs / LINE;
        // Fewer sums wait for each other.
        let products = (self.cols * vectors).max(8) + vectors;
        // Squares of pixels and channels are transposed, and what is left is copied one by one.
        let pixels = pitch(self.outputs, shape.window, shape.stride).saturating_mul(shape.stride);
        let cycles = pixels.saturating_mul(if shape.depth < SQUARE { 24 } else { 6 });
        let copy = ceil_div_usize(cycles, shape.window.saturating_mul(LINE).max(1));
        let sum = shape.taps.saturating_mul(shape.window).saturating_mul(shape.depth);
        let finish = ceil_div_usize(self.outputs * 8, sum.max(1));
        ceil_div_usize(shape.outputs, self.outputs).saturating_mul(products + copy + finish)
    }
}

/// Pixels from one plane of the copy to the next: of each channel, those that begin with pixel 0, 1, .. of a stride are planes.
#[inline(always)]
fn pitch(outputs: usize, window: usize, stride: usize) -> usize {
    ceil_div_usize(outputs.saturating_add(ceil_div_usize(window, stride)), SQUARE) * SQUARE
}

/// NV vectors of outputs, NC columns.
///
/// # Safety
/// As [`NarrowKernel`]; the caller is compiled for the instruction set of `S`, and the copy fits.
#[inline(always)]
unsafe fn outputs<S: Simd, const NV: usize, const NC: usize>(s: S, args: &NarrowArgs<'_>) {
    let mut copy = [MaybeUninit::<f32>::uninit(); COPY];
    let copy = copy.as_mut_ptr().cast::<f32>();
    let (stride, outputs) = (args.stride, NV * S::LANES);
    let (pitch, count) = (pitch(outputs, args.window, stride), args.outputs.min(outputs));
    let (mut acc, mut channel) = ([[s.splat(0.0); NV]; NC], 0);
    // SAFETY: promised by the caller.
    unsafe {
        while channel < args.depth {
            let len = LINE.min(args.depth - channel);
            s.apart(Copied { args, to: copy, pitch, count, channels: (channel, len) });
            let mut row = copy.cast_const();
            for tap in args.taps {
                for phase in 0..stride {
                    // A step that is no constant could panic.
                    let (mut t, mut pixels) = (phase, row);
                    while t < args.window {
                        let w = args.w.wrapping_add(((tap.index + t) * args.depth + channel) * LINE);
                        products::<S, NV, NC>(s, &mut acc, (pixels, pitch), w, len);
                        (t, pixels) = (t + stride, pixels.wrapping_add(1));
                    }
                    row = row.wrapping_add(len * pitch);
                }
            }
            channel += len;
        }
        // Nobody reads the copy any more. Squares of the sums, from every output on, are read whole.
        for j in 0..ceil_div_usize(NC, SQUARE) * SQUARE + 1 {
            for v in 0..NV {
                let sums = if j < NC { acc[j][v] } else { s.splat(0.0) };
                s.store(copy.wrapping_add((j * NV + v) * S::LANES), sums);
            }
        }
        s.apart(Sums { from: copy, pitch: NV * S::LANES, to: args.to, start: args.start, count });
    }
}

/// `len` products of every output, from planes `pitch` apart.
///
/// # Safety
/// So many elements of the planes, and weights, are valid.
#[inline(always)]
unsafe fn products<S: Simd, const NV: usize, const NC: usize>(
    s: S,
    acc: &mut [[S::F32; NV]; NC],
    (mut row, pitch): (*const f32, usize),
    mut w: *const f32,
    len: usize,
) {
    for _ in 0..len {
        // SAFETY: promised by the caller.
        unsafe {
            let x: [S::F32; NV] = core::array::from_fn(|v| s.load(row.wrapping_add(v * S::LANES)));
            for j in 0..NC {
                let weight = s.splat(*w.add(j));
                for v in 0..NV {
                    acc[j][v] = s.mul_add(x[v], weight, acc[j][v]);
                }
            }
        }
        (row, w) = (row.wrapping_add(pitch), w.wrapping_add(LINE));
    }
}

/// The copy of some channels of the pixels of all rows of the window, once for all kernels of an instruction set. Whoever makes it
/// promises that they are valid where they are not in the padding, and that there is room for them.
struct Copied<'t> {
    args: &'t NarrowArgs<'t>,
    to: *mut f32,
    pitch: usize,
    /// Outputs that exist.
    count: usize,
    /// The first channel, and how many.
    channels: (usize, usize),
}

impl WithSimd for Copied<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (args, stride, mut to) = (self.args, self.args.stride, self.to);
        let low = args.first.wrapping_add((args.start * stride) as isize);
        // `clamp` could panic.
        let inside = |at: isize| at.max(0).min(((self.count - 1) * stride + args.window) as isize) as usize;
        let (first, end) = (inside(low.saturating_neg()), inside(args.limit.wrapping_sub(low)));
        let start = ((args.start * stride) as isize).wrapping_mul(args.pixel);
        for tap in args.taps {
            let a = args.a.wrapping_offset(tap.at.wrapping_add(start)).wrapping_add(self.channels.0);
            for phase in 0..stride {
                let of_phase = |pixel: usize| ceil_div_usize(pixel.saturating_sub(phase), stride);
                let pixels = (of_phase(first), of_phase(end.max(first)));
                // SAFETY: promised by whoever made this.
                unsafe { self.line(s, a.wrapping_offset(phase as isize * args.pixel), to, pixels) };
                to = to.wrapping_add(self.channels.1 * self.pitch);
            }
        }
    }
}

impl Copied<'_> {
    /// Elements from a pixel of a plane to the next.
    #[inline(always)]
    fn distance(&self) -> usize {
        self.args.pixel as usize * self.args.stride
    }

    /// Pixels `first..end` of a line, of which outputs take each first, or each second, and zeros around them.
    ///
    /// # Safety
    /// As of the whole copy.
    #[inline(always)]
    unsafe fn line<S: Simd>(&self, s: S, a: *const f32, to: *mut f32, (first, end): (usize, usize)) {
        let (pixel, pitch, len) = (self.distance(), self.pitch, self.channels.1);
        // SAFETY: promised by whoever made this: planes are longer than a vector. What zeros are too many is written next.
        unsafe {
            for channel in 0..len {
                let plane = to.wrapping_add(channel * pitch);
                for p in (0..first).step_by(S::LANES).chain((end..pitch).step_by(S::LANES)) {
                    s.store(plane.wrapping_add(p.min(pitch - S::LANES)), s.splat(0.0));
                }
            }
            if end - first >= SQUARE && len >= SQUARE {
                return self.squares(a, to, (first, end));
            }
            for channel in 0..len {
                for p in first..end {
                    *to.wrapping_add(channel * pitch + p) = *a.wrapping_add(p * pixel + channel);
                }
            }
        }
    }

    /// The same pixels in squares, of which the last overlap those before them.
    ///
    /// # Safety
    /// As `line`; there are enough for a square.
    #[inline(always)]
    unsafe fn squares(&self, a: *const f32, to: *mut f32, (first, end): (usize, usize)) {
        let (pixel, pitch, len) = (self.distance(), self.pitch, self.channels.1);
        for p in (first..end).step_by(SQUARE) {
            let p = p.min(end - SQUARE);
            for channel in (0..len).step_by(SQUARE) {
                let channel = channel.min(len - SQUARE);
                let (from, to) = (a.wrapping_add(p * pixel + channel), to.wrapping_add(channel * pitch + p));
                // SAFETY: promised by the caller.
                unsafe {
                    square(from, pixel, to, pitch);
                }
            }
        }
    }
}

/// Sums of planes `pitch` apart become rows of the result. Whoever makes it promises that there are so many.
struct Sums {
    from: *const f32,
    pitch: usize,
    to: Results,
    start: usize,
    count: usize,
}

impl WithSimd for Sums {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let mut done = 0;
        while done + SQUARE <= self.count {
            // SAFETY: promised by whoever made this.
            unsafe { self.rows::<S, SQUARE>(s, done) };
            done += SQUARE;
        }
        while done < self.count {
            // SAFETY: promised by whoever made this.
            unsafe { self.rows::<S, 1>(s, done) };
            done += 1;
        }
    }
}

impl Sums {
    /// N rows of the result. The planes of others that follow them are read, too.
    ///
    /// # Safety
    /// They exist.
    #[inline(always)]
    unsafe fn rows<S: Simd, const N: usize>(&self, s: S, first: usize) {
        let mut rows = [[0.0f32; LINE]; SQUARE];
        // SAFETY: promised by whoever made this: there are four pixels from the last one on in the copy.
        unsafe {
            for column in (0..self.to.cols.min(LINE)).step_by(SQUARE) {
                let to = rows.as_mut_ptr().cast::<f32>().wrapping_add(column);
                let from = self.from.wrapping_add(column * self.pitch + first);
                square(from, self.pitch, to, LINE);
            }
            for column in (0..LINE).step_by(S::LANES) {
                let Some(to) = self.to.from(column) else { return };
                let mut acc: [[S::F32; 1]; N] =
                    core::array::from_fn(|i| [s.load(rows.as_ptr().cast::<f32>().wrapping_add(i * LINE + column))]);
                to.finish::<S, N, 1>(s, self.start + first, &mut acc);
            }
        }
    }
}

/// Instantiates `outputs`: `kernels!(name, token, lanes, attribute, columns: vectors...; ...)`.
macro_rules! kernels {
    ($name:ident, $token:expr, $lanes:literal, $attribute:meta, $($columns:literal: $($vectors:literal)*);*) => {
        static $name: &[Planar] = &[$($({
            /// # Safety
            /// As [`NarrowKernel`].
            #[$attribute]
            unsafe fn kernel(args: &NarrowArgs<'_>) {
                // SAFETY: promised by the caller; this function has the target features.
                unsafe { outputs::<_, $vectors, $columns>($token, args) }
            }
            Planar { cols: $columns, outputs: $vectors * $lanes, kernel }
        }),*),*];
    };
}

#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod x86 {
    use super::*;
    use crate::isa::avx512::Avx512;

    kernels!(
        AVX512, Avx512::new(), 16, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"),
        2: 4 1; 4: 4 2 1; 6: 4 2 1; 8: 3 2 1; 10: 2 1; 12: 2 1
    );

    pub(super) fn of(isa: Isa) -> &'static [Planar] {
        if isa == Isa::Avx512 { AVX512 } else { &[] }
    }
}

/// The kernels of an instruction set, if it has any.
fn of(isa: Isa) -> &'static [Planar] {
    #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
    return x86::of(isa);
    #[cfg(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")))]
    {
        let _ = isa;
        &[]
    }
}
