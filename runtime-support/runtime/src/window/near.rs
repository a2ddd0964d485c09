//! Copies of the lines that are read next, where pixels lie at distances that share few sets of the first-level cache: 512
//! channels, for one.
use crate::contraction::Contraction;
use crate::contraction::kernel::LINE;
use crate::contraction::line::{Line, MOST_TAPS, TapAt};
use core::mem::MaybeUninit;

/// Floats of all copies.
const COPY: usize = 3584;
/// Bytes after which sets of the first-level cache repeat, and lines that a set holds: of most processors.
const PERIOD: usize = 4096;
const WAYS: usize = 8;
/// How many sets the pixels share, at most: with more, other channels of the same pixels make up for it.
const SETS: usize = 4;
/// How many times as many lines as these sets hold pay for the copies: at 1.7 they cost a quarter, at 2.8 they save a tenth,
/// at 5 they save more than half.
const CROWD: usize = 2;
/// How many sets pixels share, at most, that are to lie at another distance: that costs a few cache lines.
const SPREAD_SETS: usize = 8;

/// What is copied.
#[derive(Clone, Copy)]
pub(super) struct Copies {
    /// How many lines are there at a time.
    rows: usize,
    /// Floats of a line.
    pitch: usize,
    /// Pixels of a line that are not in the padding.
    pixels: (usize, usize),
}

/// Some channels of some lines, pixel by pixel.
pub(super) struct Near {
    floats: [MaybeUninit<f32>; COPY],
    /// Where each line that is here lies in the operand.
    held: [Option<isize>; MOST_TAPS],
    copies: Copies,
}

/// Lines of an operand: pixel 0 of those at offset 0, and the distance of pixels.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub a: *const f32,
    pub pixel: isize,
    /// Channels, at most [`LINE`].
    pub width: usize,
}

impl Copies {
    /// Of the lines of a window that reads so many pixels of each, if they do not stay in the cache where they are, and fit.
    pub fn of(c: &Contraction, pixels: usize, inside: (usize, usize)) -> Option<Self> {
        let rows = c.taps[0].extent * c.taps[1].extent * c.taps[2].extent;
        let (crowded, sets) = crowd(rows.saturating_mul(pixels), c.taps[3].a);
        let crowded = crowded && sets <= SETS;
        let fits = rows <= MOST_TAPS && rows.saturating_mul(pixels).saturating_mul(LINE) <= COPY;
        (crowded && fits).then(|| Copies { rows, pitch: pixels * LINE, pixels: inside })
    }
}

/// Whether so many pixels, at such a distance in floats, push each other out of the few sets of the first-level cache that they
/// share, so that they had better lie at another distance.
pub fn shares_sets(pixels: usize, distance: isize) -> bool {
    let sets = sets(distance);
    sets <= SPREAD_SETS && pixels > WAYS * sets
}

/// Whether copies of so many pixels pay, and how many sets of the first-level cache those share.
fn crowd(pixels: usize, distance: isize) -> (bool, usize) {
    let sets = sets(distance);
    (pixels > CROWD * WAYS * sets, sets)
}

/// How many sets of the first-level cache pixels at such a distance share.
fn sets(distance: isize) -> usize {
    let bytes = distance.unsigned_abs().wrapping_mul(size_of::<f32>());
    PERIOD >> bytes.trailing_zeros().min(PERIOD.trailing_zeros())
}

/// Whether pixels of the lines of a window, so many of each, do not stay in the first-level cache where they are, so that to take
/// them line by line does not pay: where they share few sets, or nothing is combined across lines.
pub(super) fn are_crowded(c: &Contraction, pixels: usize) -> bool {
    let lines = c.taps.iter().take(3).fold(1, |lines: usize, tap| lines.saturating_mul(tap.extent));
    let (crowded, sets) = crowd(lines.saturating_mul(pixels), c.taps[3].a);
    crowded && (sets <= SETS || lines == 1)
}

impl Near {
    /// Room for copies.
    pub fn new(copies: Copies) -> Self {
        Near { floats: [MaybeUninit::uninit(); COPY], held: [None; MOST_TAPS], copies }
    }

    /// Pixel 0 of the first copy.
    pub fn as_ptr(&self) -> *const f32 {
        self.floats.as_ptr().cast()
    }

    /// Other channels come next.
    pub fn clear(&mut self) {
        self.held = [None; MOST_TAPS];
    }

    /// Where the rows of the window of a line lie among the copies: those that are not there yet are made.
    ///
    /// # Safety
    /// All pixels of these rows that are not in the padding are valid.
    pub unsafe fn taps(&mut self, line: &Line, source: Source) -> ([TapAt; MOST_TAPS], usize) {
        let (mut taps, wanted) = ([TapAt { at: 0, index: 0 }; MOST_TAPS], line.taps());
        let place = |tap: &TapAt| line.a.wrapping_add(tap.at);
        for (slot, tap) in taps.iter_mut().zip(wanted) {
            let found = self.held.iter().position(|held| *held == Some(place(tap)));
            let at = found.unwrap_or_else(|| {
                let free = |held: &Option<isize>| held.is_none_or(|held| !wanted.iter().any(|tap| place(tap) == held));
                let at = self.held.iter().take(self.copies.rows).position(free).unwrap_or(0);
                // SAFETY: promised by the caller.
                unsafe { self.copy(at, source.a.wrapping_offset(place(tap)), source) };
                if let Some(held) = self.held.get_mut(at) {
                    *held = Some(place(tap));
                }
                at
            });
            *slot = TapAt { at: (at * self.copies.pitch) as isize, index: tap.index };
        }
        (taps, wanted.len())
    }

    /// Makes a copy of the line whose pixel 0 is `a`.
    ///
    /// # Safety
    /// As [`Near::taps`].
    unsafe fn copy(&mut self, at: usize, a: *const f32, source: Source) {
        let to = self.floats.as_mut_ptr().cast::<f32>().wrapping_add(at * self.copies.pitch);
        for p in self.copies.pixels.0..self.copies.pixels.1 {
            let (a, to) = (a.wrapping_offset(p as isize * source.pixel), to.wrapping_add(p * LINE));
            // SAFETY: promised by the caller; there is room for a line of pixels at every place, as checked when this was made.
            unsafe {
                match source.width {
                    LINE => core::ptr::copy_nonoverlapping(a, to, LINE),
                    width => core::ptr::copy_nonoverlapping(a, to, width.min(LINE)),
                }
            }
        }
    }
}
