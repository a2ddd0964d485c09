//! Copies of lines of pixels, as kernels read them, such as plane by plane: a line that several lines of outputs read is copied once.
// Vectors of a square are indexed by constants, as those of register tiles.
#![allow(clippy::needless_range_loop)]
// Other targets have no such kernels.
#![cfg_attr(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")), allow(dead_code))]

use super::kernel::LINE;
use super::line::TapAt;
use super::narrow::MOST_TAPS;
use super::narrow_kernel::NarrowArgs;
use crate::math::{ceil_div_usize, floor_div_usize};
use crate::simd::{Simd, WithSimd};
use crate::transpose::{SQUARE, square};
use core::mem::MaybeUninit;
use core::ptr::null;

/// Floats of all copies: nine rows of a window of nine, for two vectors of outputs.
pub(super) const COPY: usize = 9 * LINE * 40;
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

/// Lines of so many floats for which there is room.
pub(super) fn places(size: usize) -> usize {
    floor_div_usize(COPY, size.max(1)).min(PLACES)
}

/// Floats of a line in planes, of up to [`LINE`] channels at a time.
pub(super) fn planes(pitch: usize, stride: usize, depth: usize) -> usize {
    pitch.saturating_mul(stride).saturating_mul(depth.min(LINE))
}

/// Pixels from one plane of the copy to the next: of each channel, those that begin with pixel 0, 1, .. of a stride are planes.
#[inline(always)]
pub(super) fn pitch(outputs: usize, span: usize, stride: usize) -> usize {
    ceil_div_usize(outputs.saturating_add(ceil_div_usize(span, stride)), SQUARE).saturating_mul(SQUARE)
}

impl Held {
    /// No lines yet, in so many places: more than a window reads only take time. Without places every line is copied again.
    #[inline(always)]
    pub fn new(places: usize) -> Self {
        let (copy, lines) = ([MaybeUninit::uninit(); COPY], [null(); MOST_TAPS]);
        Held { copy, lines, places, from: [null(); PLACES], read: [0; PLACES], now: 0 }
    }

    /// Room for [`COPY`] floats, where no lines are held.
    pub fn room(&mut self) -> *mut f32 {
        self.copy.as_mut_ptr().cast()
    }

    /// Other lines follow, or others of their outputs.
    pub fn forget(&mut self) {
        self.from = [null(); PLACES];
    }

    /// Finds the lines of these taps, as far as they are held, in places of so many floats.
    #[inline(always)]
    pub fn find(&mut self, first: *const f32, taps: &[TapAt], size: usize) {
        self.now = self.now.wrapping_add(1);
        let copy = self.copy.as_mut_ptr().cast::<f32>();
        for (line, tap) in self.lines.iter_mut().zip(taps) {
            let at = first.wrapping_offset(tap.at);
            let held = self.from.iter().take(self.places).position(|from| *from == at);
            *line = held.map_or(null(), |place| copy.wrapping_add(place * size).cast_const());
            self.read.iter_mut().skip(held.unwrap_or(PLACES)).take(1).for_each(|read| *read = self.now);
        }
    }

    /// Gives the line of tap `i` a place if it has none: that of what was read least lately. Where the line is, and is to be copied to.
    #[inline(always)]
    pub fn place(&mut self, (i, at): (usize, *const f32), size: usize) -> Option<*mut f32> {
        let line = self.lines.get_mut(i).filter(|line| line.is_null())?;
        let held = self.from.iter_mut().zip(&mut self.read).take(self.places).enumerate();
        let place = match held.min_by_key(|(_, (_, read))| **read) {
            Some((place, (from, read))) => {
                (*from, *read) = (at, self.now);
                place
            }
            None => i,
        };
        let to = self.copy.as_mut_ptr().cast::<f32>().wrapping_add(place * size);
        *line = to.cast_const();
        Some(to)
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
        let (args, channel) = (self.lines.args, self.lines.channels.0);
        let size = planes(self.lines.pitch, args.stride, args.depth);
        let first = args.at().wrapping_add(channel);
        self.held.find(first, args.taps, size);
        for (i, tap) in args.taps.iter().enumerate() {
            let at = first.wrapping_offset(tap.at);
            if let Some(to) = self.held.place((i, at), size) {
                // SAFETY: promised by whoever made this.
                unsafe { self.lines.copy(s, at, to) };
            }
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
        let (first, end) = args.inside((self.count - 1) * stride + args.span());
        for phase in 0..stride {
            let of_phase = |pixel: usize| ceil_div_usize(pixel.saturating_sub(phase), stride);
            let pixels = (of_phase(first), of_phase(end));
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
                let wide = S::LANES > SQUARE && len >= S::LANES;
                let rest = if wide { self.blocks(s, a, to, (first, end)) } else { first };
                return self.squares(a, to, (rest, end));
            }
            for channel in 0..len {
                for p in first..end {
                    *to.wrapping_add(channel * pitch + p) = *a.wrapping_add(p * pixel + channel);
                }
            }
        }
    }

    /// Those of the pixels that are whole vectors, of as many channels at a time, of which the last overlap those before them.
    /// Returns the first of the others.
    ///
    /// # Safety
    /// As `line`; there are channels enough for a vector.
    #[inline(always)]
    unsafe fn blocks<S: Simd>(&self, s: S, a: *const f32, to: *mut f32, (mut first, end): (usize, usize)) -> usize {
        while end - first >= S::LANES {
            for channel in (0..self.channels.1).step_by(S::LANES) {
                let channel = channel.min(self.channels.1 - S::LANES);
                let from = a.wrapping_add(first * self.distance() + channel);
                let to = to.wrapping_add(channel * self.pitch + first);
                let mut pixels = [s.splat(0.0); LINE];
                // SAFETY: promised by the caller.
                unsafe {
                    for (i, pixel) in pixels.iter_mut().enumerate().take(S::LANES) {
                        *pixel = s.load(from.wrapping_add(i * self.distance()));
                    }
                    for (i, channel) in s.turned(pixels).iter().enumerate().take(S::LANES) {
                        s.store(to.wrapping_add(i * self.pitch), *channel);
                    }
                }
            }
            first += S::LANES;
        }
        first
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
