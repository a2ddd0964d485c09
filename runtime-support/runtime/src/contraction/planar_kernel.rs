//! Micro-kernels for lines of convolutions with so few columns that vectors of these would be mostly empty: vectors hold pixels, and
//! weights are broadcast.
//!
//! The lines that a tile reads are copied plane by plane, with zeros for padding. [`LINE`] channels of all taps are summed after the
//! other.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
// Other targets have none of these kernels.
#![cfg_attr(
    not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")),
    allow(dead_code, unused_macros)
)]

use super::held::{Held, Hold, Lines, pitch, places, planes};
use super::job::offset;
use super::kernel::LINE;
use super::narrow_kernel::{Kernel, NarrowArgs, Tiling};
use super::results::Results;
use crate::isa::Isa;
use crate::math::ceil_div_usize;
use crate::simd::{Simd, WithSimd};
use crate::transpose::SQUARE;
use core::mem::MaybeUninit;

/// Floats of the sums of a kernel, at most.
pub(super) const SUMS: usize = 8 * 3 * LINE;

/// Outputs of a vector of half a [`LINE`].
const HALF_LINE: usize = LINE / 2;
/// Floats of the first-level cache.
const NEAR: usize = 8 * 1024;
/// Channels whose lines are read once or twice for all taps, of every pixel.
const FEW: usize = 2 * LINE;
/// Columns that fill half of a vector, or nearly.
const FULL: core::ops::RangeInclusive<usize> = HALF_LINE - 1..=HALF_LINE;
/// What squares take of a pixel, in products of vectors of half a [`LINE`].
const SHORT_SQUARE: usize = 20;
/// What a product takes longer if its operands come from the next cache, of which a kernel of planes reads more than one of
/// columns.
const FAR: usize = 6;

/// # Safety
/// As [`NarrowKernel`](super::narrow_kernel::NarrowKernel); lines of the same data are held, or none.
pub(super) type PlanarKernel = unsafe fn(&NarrowArgs<'_>, &mut Held);

/// A kernel for so many vectors of outputs.
pub(super) struct Planar {
    /// Columns at a time, and so many times at most.
    cols: usize,
    times: usize,
    vectors: usize,
    outputs: usize,
    kernel: PlanarKernel,
}

/// What decides how long a line takes.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub cols: usize,
    pub outputs: usize,
    /// Pixels from one output to the next.
    pub stride: usize,
    /// Rows of the window, those of them that the line before does not read, and so many lines between which they lie.
    pub taps: usize,
    pub new: usize,
    pub rows: usize,
    /// Taps of a row, the pixels of these with those between them, and channels.
    pub window: usize,
    pub span: usize,
    pub depth: usize,
}

impl Shape {
    /// Products of a sum.
    fn sum(self) -> usize {
        self.taps.saturating_mul(self.window).saturating_mul(self.depth)
    }

    /// What a kernel takes longer than so much where vectors are halved, of which the times are: a quarter where a window has gaps
    /// between its lines, an eighth where the other choice are columns that fill half of a vector. Measured with 8 to 128 channels.
    fn halved(self, time: usize) -> usize {
        match self.stride {
            1 if self.rows > self.taps => time / 4,
            1 if FULL.contains(&self.cols) => time / 8,
            _ => 0,
        }
    }
}

/// The kernel with which a line takes least time, and this time: products of vectors for each of a sum.
pub(super) fn choose(isa: Isa, shape: Shape) -> Option<(usize, Tiling)> {
    let fits =
        |kernel: &&Planar| kernel.cols.saturating_mul(kernel.times) >= shape.cols && kernel.places(shape) >= shape.taps;
    let kernel = of(isa).iter().filter(fits).min_by_key(|kernel| kernel.time(shape))?;
    let tiling = Tiling { outputs: kernel.outputs, kernel: Kernel::Planes(kernel.kernel) };
    let time = kernel.time(shape);
    let more = if isa.is_halved() { shape.halved(time) } else { kernel.far(shape) };
    Some((time.saturating_add(more), tiling))
}

impl Planar {
    /// Lines for which there is room.
    fn places(&self, shape: Shape) -> usize {
        places(planes(pitch(self.outputs, shape.span, shape.stride), shape.stride, shape.depth))
    }

    /// Pixels of a line that it reads.
    fn pixels(&self, shape: Shape) -> usize {
        pitch(self.outputs, shape.span, shape.stride).saturating_mul(shape.stride)
    }

    /// Lines that an output reads, so many channels at a time.
    fn all(shape: Shape) -> usize {
        shape.taps.saturating_mul(ceil_div_usize(shape.depth, LINE))
    }

    fn time(&self, shape: Shape) -> usize {
        // Fewer sums wait for each other.
        let step = (self.cols * self.vectors).max(8) + self.vectors;
        let step = step.saturating_mul(ceil_div_usize(shape.cols, self.cols));
        // Squares of pixels and channels are transposed, which takes twice as long of every second pixel, and what is left is
        // copied one by one.
        let square = if self.outputs < self.vectors * LINE { SHORT_SQUARE } else { 6 };
        let cycles = self.pixels(shape).saturating_mul(if shape.depth < SQUARE { 24 } else { square * shape.stride });
        // Neighbours read the same lines, but for new ones.
        let new = if shape.rows <= self.places(shape) { shape.new } else { shape.taps };
        let products = shape.window.saturating_mul(LINE).saturating_mul(shape.taps);
        let copy = ceil_div_usize(cycles.saturating_mul(new), products.max(1));
        let finish = ceil_div_usize(self.outputs * 8, shape.sum().max(1));
        ceil_div_usize(shape.outputs, self.outputs).saturating_mul(step + copy + finish)
    }

    /// What it takes longer where the nearest cache does not hold all lines of many channels and their weights. Lines of a window of one
    /// row are read once.
    fn far(&self, shape: Shape) -> usize {
        let lines = Self::all(shape).min(self.places(shape));
        let lines = lines.saturating_mul(self.pixels(shape)).saturating_mul(shape.depth.min(LINE));
        let is_near = shape.sum().saturating_mul(LINE).saturating_add(lines) <= NEAR;
        if is_near || shape.taps == 1 || shape.depth <= FEW * shape.stride {
            0
        } else {
            ceil_div_usize(shape.outputs, self.outputs).saturating_mul(FAR)
        }
    }
}

/// NV vectors of outputs, NC columns at a time: all columns, or with `ONCE` no more than these.
///
/// # Safety
/// As [`PlanarKernel`]; the caller is compiled for the instruction set of `S`, and there are places for all lines.
#[inline(always)]
unsafe fn outputs<S: Simd, const NV: usize, const NC: usize, const ONCE: bool>(
    s: S,
    args: &NarrowArgs<'_>,
    held: &mut Held,
) {
    let outputs = NV * S::LANES;
    let mut sums = [MaybeUninit::<f32>::uninit(); SUMS];
    let to = if args.sums.1.is_null() { sums.as_mut_ptr().cast::<f32>() } else { args.sums.1 };
    let mut column = 0;
    while column < args.to.cols.min(SUMS / outputs - NC + 1) {
        // SAFETY: promised by the caller; there is room for so many columns.
        unsafe {
            let mut acc = begin::<S, NV, NC>(s, offset(args.sums.0, column * outputs));
            columns::<S, NV, NC>(s, args, held, column, &mut acc);
            store(s, &acc, to.wrapping_add(column * outputs));
        }
        column += NC;
        if ONCE {
            break;
        }
    }
    if args.sums.1.is_null() {
        let count = args.outputs.min(outputs);
        s.apart(Sums { from: to, pitch: outputs, to: args.to, start: args.start, count });
    }
}

/// Adds the products of NC columns, from one on.
///
/// # Safety
/// As [`outputs`].
#[inline(always)]
unsafe fn columns<S: Simd, const NV: usize, const NC: usize>(
    s: S,
    args: &NarrowArgs<'_>,
    held: &mut Held,
    column: usize,
    acc: &mut [[S::F32; NV]; NC],
) {
    let (stride, outputs) = (args.stride, NV * S::LANES);
    let (pitch, count) = (pitch(outputs, args.span(), stride), args.outputs.min(outputs));
    let (mut channel, end) = args.channels;
    while channel < end {
        let len = LINE.min(end - channel);
        s.apart(Hold { lines: Lines { args, pitch, count, channels: (channel, len) }, held });
        for (tap, line) in args.taps.iter().zip(&held.lines) {
            let mut row = *line;
            for phase in 0..stride {
                // A step that is no constant could panic.
                let (mut t, mut pixels) = (phase, row);
                while t < args.window {
                    let w = ((tap.index + t) * args.depth + channel) * LINE + column;
                    // SAFETY: promised by the caller.
                    unsafe { products::<S, NV, NC>(s, acc, (pixels, pitch), args.w.wrapping_add(w), len) };
                    (t, pixels) = (t + stride, pixels.wrapping_add(args.gap));
                }
                row = row.wrapping_add(len * pitch);
            }
        }
        channel += len;
    }
}

/// Zeros, or the sums of the channels before these.
///
/// # Safety
/// There are as many, or the address is null.
#[inline(always)]
unsafe fn begin<S: Simd, const NV: usize, const NC: usize>(s: S, from: *const f32) -> [[S::F32; NV]; NC] {
    let mut acc = [[s.splat(0.0); NV]; NC];
    if !from.is_null() {
        for j in 0..NC {
            for v in 0..NV {
                // SAFETY: promised by the caller.
                acc[j][v] = unsafe { s.load(from.wrapping_add((j * NV + v) * S::LANES)) };
            }
        }
    }
    acc
}

/// Stores all sums.
///
/// # Safety
/// There is room for [`SUMS`].
#[inline(always)]
unsafe fn store<S: Simd, const NV: usize, const NC: usize>(s: S, acc: &[[S::F32; NV]; NC], to: *mut f32) {
    const { assert!(NC * NV * S::LANES <= SUMS) };
    for j in 0..NC {
        for v in 0..NV {
            // SAFETY: promised by the caller.
            unsafe { s.store(to.wrapping_add((j * NV + v) * S::LANES), acc[j][v]) };
        }
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

/// Sums of planes `pitch` apart become rows of the result. Whoever makes it promises that there are so many.
pub(super) struct Sums {
    /// Room for the sums.
    pub from: *mut f32,
    pub pitch: usize,
    pub to: Results,
    /// The first row, and how many.
    pub start: usize,
    pub count: usize,
}

impl WithSimd for Sums {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for first in (0..self.count).step_by(S::LANES) {
            for column in (0..self.to.cols).step_by(S::LANES) {
                // SAFETY: promised by whoever made this.
                unsafe { self.rows(s, first, column) };
            }
        }
    }
}

impl Sums {
    /// Stores these sums, and makes them rows.
    ///
    /// # Safety
    /// There is room for them.
    #[inline(always)]
    pub unsafe fn put<S: Simd, const NV: usize, const NC: usize>(self, s: S, acc: &[[S::F32; NV]; NC]) {
        // SAFETY: promised by the caller.
        unsafe { store(s, acc, self.from) };
        s.apart(self);
    }

    /// The rows of a vector, as far as they exist, and a vector of columns.
    ///
    /// # Safety
    /// There are sums of all of them.
    #[inline(always)]
    unsafe fn rows<S: Simd>(&self, s: S, first: usize, column: usize) {
        let Some(to) = self.to.from(column) else { return };
        let (columns, rows) = (to.cols.min(S::LANES), S::LANES.min(self.count - first));
        let from = self.from.wrapping_add(column * self.pitch + first);
        // SAFETY: promised by the caller.
        unsafe {
            let mut sums = [s.splat(0.0); LINE];
            for (j, sums) in sums.iter_mut().enumerate().take(columns) {
                *sums = s.load(from.wrapping_add(j * self.pitch));
            }
            let turned = s.turned(sums);
            let mut acc = [[s.splat(0.0); 1]; LINE];
            for i in 0..LINE {
                acc[i][0] = turned[i];
            }
            if rows == LINE {
                return to.finish::<S, LINE, 1, false>(s, self.start + first, &mut acc);
            }
            if let (HALF_LINE, Some(acc)) = (rows, acc.first_chunk_mut::<HALF_LINE>()) {
                return to.finish::<S, HALF_LINE, 1, false>(s, self.start + first, acc);
            }
            for i in 0..rows.min(LINE) {
                to.finish::<S, 1, 1, false>(s, self.start + first + i, &mut [acc[i]]);
            }
        }
    }
}

/// Instantiates `outputs`: `kernels!(name, token, lanes, attribute, times, columns: vectors...; ...)`, with columns at most so
/// many times.
macro_rules! kernels {
    ($name:ident, $token:expr, $lanes:literal, $attribute:meta, $times:literal, $($columns:literal: $($vectors:literal)*);*) => {
        static $name: &[Planar] = &[$($({
            /// # Safety
            /// As [`PlanarKernel`].
            #[$attribute]
            unsafe fn kernel(args: &NarrowArgs<'_>, held: &mut Held) {
                // SAFETY: promised by the caller; this function has the target features.
                unsafe { outputs::<_, $vectors, $columns, { $times == 1 }>($token, args, held) }
            }
            let outputs = $vectors * $lanes;
            Planar { cols: $columns, times: $times, vectors: $vectors, outputs, kernel }
        }),*),*];
    };
}

#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod x86 {
    use super::*;
    use crate::isa::{avx2::Avx2, avx512::Avx512};

    kernels!(
        AVX512, Avx512::new(), 16, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"), 1,
        2: 4 1; 4: 4 2 1; 6: 4 2 1; 8: 3 2 1; 10: 2 1; 12: 2 1
    );
    // Sixteen registers hold the sums of few columns: the others follow.
    kernels!(AVX2, Avx2::new(), 8, target_feature(enable = "avx2,fma"), 3, 1: 8; 2: 4; 3: 3; 4: 2 1; 5: 2; 6: 2);

    pub(super) fn of(isa: Isa) -> &'static [Planar] {
        match isa {
            Isa::Avx512 => AVX512,
            Isa::Avx2 => AVX2,
            _ => &[],
        }
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
