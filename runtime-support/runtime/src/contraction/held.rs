//! Lines of pixels, plane by plane, as kernels of planes read them: a line that several lines of outputs read is copied once.
// Other targets have no kernels of planes.
#![cfg_attr(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")), allow(dead_code))]

use super::kernel::LINE;
use super::narrow::MOST_TAPS;
use super::narrow_kernel::NarrowArgs;
use crate::math::{ceil_div_usize, floor_div_usize};
use crate::simd::{Simd, WithSimd};
use crate::transpose::{SQUARE, square};
use core::mem::MaybeUninit;
use core::ptr::null;

/// Floats of all copies: nine rows of a window of nine, for two vectors of outputs.
const COPY: usize = 9 * LINE * 40;
/// Most lines.
const PLACES: usize = 32;

/// Copies of lines of the same data, from the same output on.
pub(super) struct Held {
    copy: [MaybeUninit<f32>; COPY],
    /// Where the rows of the window are that were asked for last.
    pub lines: [*const f32; MOST_TAPS],
    places: usize,
    /// Where the pixels of the line in every place come from, or null, and when they were read.
    from: [*const f32; PLACES],
    read: [u32; PLACES],
    now: u32,
}

/// Lines for which there is room, of up to [`LINE`] channels at a time.
pub(super) fn places(pitch: usize, stride: usize, depth: usize) -> usize {
    let size = pitch.saturating_mul(stride).saturating_mul(depth.min(LINE));
    floor_div_usize(COPY, size.max(1)).min(PLACES)
}

/// Pixels from one plane of the copy to the next: of each channel, those that begin with pixel 0, 1, .. of a stride are planes.
#[inline(always)]
pub(super) fn pitch(outputs: usize, window: usize, stride: usize) -> usize {
    ceil_div_usize(outputs.saturating_add(ceil_div_usize(window, stride)), SQUARE) * SQUARE
}

impl Held {
    /// No lines yet, in so many places: more than a window reads only take time. Without places every line is copied again.
    #[inline(always)]
    pub fn new(places: usize) -> Self {
        let (copy, lines) = ([MaybeUninit::uninit(); COPY], [null(); MOST_TAPS]);
        Held { copy, lines, places, from: [null(); PLACES], read: [0; PLACES], now: 0 }
    }

    /// Other lines follow, or others of their outputs.
    pub fn forget(&mut self) {
        self.from = [null(); PLACES];
    }
}

/// Some channels of the pixels of all rows of the window.
#[derive(Clone, Copy)]
pub(super) struct Lines<'t> {
    pub args: &'t NarrowArgs<'t>,
    pub pitch: usize,
    /// Outputs that exist.
    pub count: usize,
    /// The first channel, and how many.
    pub channels: (usize, usize),
}

/// Sees to it that they are held, once for all kernels of an instruction set. Whoever makes it promises that the pixels are valid
/// where they are not in the padding, and that there is room for so many rows.
pub(super) struct Hold<'t> {
    pub lines: Lines<'t>,
    pub held: &'t mut Held,
}

impl WithSimd for Hold<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Held { copy, lines, places, from, read, now } = self.held;
        let (copy, args) = (copy.as_mut_ptr().cast::<f32>(), self.lines.args);
        let size = self.lines.pitch * args.stride * args.depth.min(LINE);
        let start = ((args.start * args.stride) as isize).wrapping_mul(args.pixel);
        let first = args.a.wrapping_offset(start).wrapping_add(self.lines.channels.0);
        let taps = || args.taps.iter().map(|tap| first.wrapping_offset(tap.at));
        *now = now.wrapping_add(1);
        for (i, (line, at)) in lines.iter_mut().zip(taps()).enumerate() {
            let held = from.iter().take(*places).position(|from| *from == at);
            *line = held.map_or(null(), |place| copy.wrapping_add(place * size).cast_const());
            read.iter_mut().skip(held.unwrap_or(PLACES)).take(1).for_each(|read| *read = *now);
            if *places == 0 {
                let to = copy.wrapping_add(i * size);
                // SAFETY: promised by whoever made this.
                unsafe { self.lines.copy(s, at, to) };
                *line = to.cast_const();
            }
        }
        for (line, at) in lines.iter_mut().zip(taps()).filter(|(line, _)| line.is_null()) {
            // What was read least lately makes way.
            let held = from.iter_mut().zip(&mut *read).take(*places).enumerate();
            let Some((place, (from, read))) = held.min_by_key(|(_, (_, read))| **read) else { return };
            let to = copy.wrapping_add(place * size);
            (*from, *read, *line) = (at, *now, to.cast_const());
            // SAFETY: promised by whoever made this.
            unsafe { self.lines.copy(s, at, to) };
        }
    }
}

impl Lines<'_> {
    /// A line, plane by plane.
    ///
    /// # Safety
    /// As of [`Hold`].
    #[inline(always)]
    unsafe fn copy<S: Simd>(&self, s: S, a: *const f32, mut to: *mut f32) {
        let (args, stride) = (self.args, self.args.stride);
        let low = args.first.wrapping_add((args.start * stride) as isize);
        // `clamp` could panic.
        let inside = |at: isize| at.max(0).min(((self.count - 1) * stride + args.window) as isize) as usize;
        let (first, end) = (inside(low.saturating_neg()), inside(args.limit.wrapping_sub(low)));
        for phase in 0..stride {
            let of_phase = |pixel: usize| ceil_div_usize(pixel.saturating_sub(phase), stride);
            let pixels = (of_phase(first), of_phase(end.max(first)));
            // SAFETY: promised by the caller.
            unsafe { self.line(s, a.wrapping_offset(phase as isize * args.pixel), to, pixels) };
            to = to.wrapping_add(self.channels.1 * self.pitch);
        }
    }

    /// Elements from a pixel of a plane to the next.
    #[inline(always)]
    fn distance(&self) -> usize {
        self.args.pixel as usize * self.args.stride
    }

    /// Pixels `first..end` of a line, of which outputs take each first, or each second, and zeros around them.
    ///
    /// # Safety
    /// As `copy`.
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
