//! Pooling of planes, whose lines are elements that follow each other: lines above each other are combined first, then
//! neighbours of that.
// Vectors of a group are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
use super::driver::WORK;
use super::lines;
use super::pool_kernel::{combine, neutral};
use super::{Divisor, Operation};
use crate::contraction::job::Job;
use crate::contraction::line::{Line, Lines, MOST_TAPS};
use crate::contraction::parts::{Parts, Shared};
use crate::contraction::{Contraction, Epilogue};
use crate::cx::Cx;
use crate::isa::VECTORS;
use crate::math::floor_div_usize;
use crate::simd::{Simd, WithSimd, load_first, store_first};
use core::mem::MaybeUninit;
use core::ops::Range;

/// Elements that wait for their neighbours, and those behind a line's that vectors may read.
const ELEMENTS: usize = 2048;
const BEHIND: usize = 64;
/// Lines that are combined before the first of them is read again: what has just been stored is read slowly where vectors lie across.
const STRIP: usize = 8;
/// Taps along a line, at most.
const MOST: usize = 64;

/// Vectors that are computed at a time, so that none waits for the one before.
const GROUP: usize = 2;

/// Where vectors of a group begin, which starts at `first`: the last ones end where elements do, of which there is a vector.
#[inline(always)]
fn places<S: Simd>(first: usize, end: usize) -> [usize; GROUP] {
    let mut places = [first; GROUP];
    for (i, place) in places.iter_mut().enumerate() {
        *place = (first + i * S::LANES).min(end - S::LANES);
    }
    places
}

/// A vector of elements, or of every second one.
///
/// # Safety
/// As many elements as so many lanes span are valid.
#[inline(always)]
unsafe fn taken<S: Simd, const STRIDE: usize>(s: S, at: *const f32) -> S::F32 {
    const EVEN: [i32; 16] = {
        let mut even = [0; 16];
        let mut lane = 0;
        while lane < even.len() {
            even[lane] = 2 * lane as i32;
            lane += 1;
        }
        even
    };
    // SAFETY: promised by the caller.
    unsafe {
        match STRIDE {
            1 => s.load(at),
            _ => s.lookup_in_two(s.load(at), s.load(at.add(S::LANES)), s.load_i32(EVEN.as_ptr())),
        }
    }
}

/// Stores what changes nothing before the elements that are not in the padding, and behind them, as far as vectors of outputs may read.
///
/// # Safety
/// There is room for so many elements, and [`BEHIND`] more, but for 16.
#[inline(always)]
unsafe fn surround<S: Simd, const MAX: bool, const STRIDE: usize>(s: S, piece: &Piece, combined: *mut f32) {
    let (none, inside) = (neutral::<S, MAX>(s), &piece.inside);
    let before = (0..inside.start).step_by(S::LANES);
    for p in before.chain((inside.end..piece.elements + STRIDE * S::LANES).step_by(S::LANES)) {
        // SAFETY: promised by the caller.
        unsafe { s.store(combined.add(p), none) };
    }
}

/// Pooling windows of planes.
pub(super) struct Planes {
    lines: Lines,
    operation: Operation,
}

impl Planes {
    /// The windows, if they have the form, and nothing but a divisor is behind them.
    pub fn of(c: &Contraction, operation: Operation, epilogue: &Epilogue<'_>) -> Option<Self> {
        let plain = epilogue.bias.is_none() && epilogue.residual.is_none() && epilogue.clamp.is_none();
        let none = plain && epilogue.then.is_none() && !epilogue.accumulate;
        if !VECTORS || c.cols != 1 || !none || matches!(operation, Operation::Depthwise) {
            return None;
        }
        let lines = Lines::of(c, MOST_TAPS)?;
        let dense = lines.pixel == 1 && lines.gap == 1 && lines.axis(c).out == 1;
        (dense && c.taps[3].extent <= MOST).then_some(Planes { lines, operation })
    }

    /// All windows.
    ///
    /// # Safety
    /// The geometry fits all operands.
    pub unsafe fn run(&self, c: &Contraction, cx: Cx<'_>, shared: &Shared<'_>, work: usize) {
        let length = self.lines.outputs(c);
        let (wanted, unit) = lines::division(c, length, cx.parts(work, WORK), cx.threads());
        let parts = Parts::new(c, cx, wanted, unit, unit.0);
        cx.split(parts.count(), |range| {
            for part in range {
                let (batch, rows, _) = parts.part(part);
                let job = Job::new(c, batch, shared.a, shared.w, shared.out, &shared.epilogue);
                let numbers = floor_div_usize(rows.start, length)..floor_div_usize(rows.end, length);
                // SAFETY: promised by the caller; parts are disjoint whole lines.
                let part = unsafe { PlaneLines::new(self, &job, numbers) };
                cx.dispatch(part);
            }
        });
    }
}

/// Some lines of a batch.
struct PlaneLines<'a> {
    planes: &'a Planes,
    job: &'a Job<'a>,
    numbers: Range<usize>,
}

impl<'a> PlaneLines<'a> {
    /// # Safety
    /// These lines, and what their windows read, are valid; nothing else looks at them meanwhile.
    unsafe fn new(planes: &'a Planes, job: &'a Job<'a>, numbers: Range<usize>) -> Self {
        PlaneLines { planes, job, numbers }
    }
}

impl WithSimd for PlaneLines<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: promised by the caller of `new`.
        unsafe {
            match (self.planes.operation, self.planes.lines.stride) {
                (Operation::Max, 2) => self.lines::<S, true, 2>(s),
                (Operation::Max, _) => self.lines::<S, true, 1>(s),
                (_, 2) => self.lines::<S, false, 2>(s),
                _ => self.lines::<S, false, 1>(s),
            }
        }
    }
}

/// How many elements outputs add up along their line.
#[repr(align(64))]
struct Counts([f32; ELEMENTS]);

/// Combined elements, uninitialised at first.
#[repr(align(64))]
struct Combined([MaybeUninit<f32>; ELEMENTS]);

/// Some outputs of a line: the first one, how many, as many elements as they read, and those of these that are not in the padding.
struct Piece {
    start: usize,
    count: usize,
    elements: usize,
    inside: Range<usize>,
}

impl PlaneLines<'_> {
    /// Taps along the line.
    #[inline(always)]
    fn along(&self) -> usize {
        self.job.c.taps[3].extent
    }

    /// All outputs, strip by strip.
    ///
    /// # Safety
    /// As [`PlaneLines::new`].
    #[inline(always)]
    unsafe fn lines<S: Simd, const MAX: bool, const STRIDE: usize>(&self, s: S) {
        let (lines, c) = (&self.planes.lines, self.job.c);
        let most = lines.outputs(c).min((ELEMENTS - BEHIND - MOST) / STRIDE);
        // As many elements as so many outputs read, and vectors behind them.
        let pitch = (most * STRIDE + self.along() + BEHIND).next_multiple_of(16);
        let together = STRIP.min(floor_div_usize(ELEMENTS, pitch)).max(1);
        let mut combined = Combined([const { MaybeUninit::uninit() }; ELEMENTS]);
        let combined = combined.0.as_mut_ptr().cast::<f32>();
        let mut strip = [Line::NOWHERE; STRIP];
        let (mut counts, mut prepared) = (Counts([0.0; ELEMENTS]), usize::MAX);
        let (mut number, mut index) = (self.numbers.start, lines.index(c, self.numbers.start));
        while number < self.numbers.end {
            let strip = strip.get_mut(..together.min(self.numbers.end - number)).unwrap_or_default();
            for line in &mut *strip {
                lines.find_at(c, &index, line);
                lines.advance(c, &mut index);
            }
            let mut start = 0;
            while start < lines.outputs(c) {
                let piece = self.piece(start, most.min(lines.outputs(c) - start));
                // So that what is stored does not lie across cache lines.
                let combined = combined.wrapping_add(piece.inside.start.wrapping_neg() % 16);
                let at = |i: usize| combined.wrapping_add(i * pitch);
                // SAFETY: promised by the caller; there is room for so many lines, and nothing changes what is around elements.
                unsafe {
                    if prepared != start {
                        (0..together).for_each(|i| surround::<S, MAX, STRIDE>(s, &piece, at(i)));
                        self.count(start, &mut counts.0);
                        prepared = start;
                    }
                    for (i, line) in strip.iter().enumerate() {
                        self.above::<S, MAX, STRIDE>(s, line, &piece, at(i));
                    }
                    for (i, line) in strip.iter().enumerate() {
                        self.beside::<S, MAX, STRIDE>(s, line, &piece, (at(i), &counts.0));
                    }
                }
                start += piece.count;
            }
            number += strip.len();
        }
    }

    #[inline(always)]
    fn piece(&self, start: usize, count: usize) -> Piece {
        let (lines, stride) = (&self.planes.lines, self.planes.lines.stride);
        let low = lines.first.wrapping_add((start * stride) as isize);
        let elements = (count - 1) * stride + self.along();
        // `clamp` could panic.
        let inside = |at: isize| at.max(0).min(elements as isize) as usize;
        let from = inside(low.saturating_neg());
        Piece { start, count, elements, inside: from..inside(lines.limit.wrapping_sub(low)).max(from) }
    }

    /// What lies above each other, for each element that the outputs read and that is not in the padding.
    ///
    /// # Safety
    /// As [`PlaneLines::new`]; there is room for these elements.
    #[inline(always)]
    unsafe fn above<S: Simd, const MAX: bool, const STRIDE: usize>(
        &self,
        s: S,
        line: &Line,
        piece: &Piece,
        combined: *mut f32,
    ) {
        let inside = &piece.inside;
        let skipped = (piece.start * STRIDE) as isize;
        let data = self.job.a.wrapping_offset(line.a.wrapping_add(skipped));
        // SAFETY: promised by the caller: elements inside are not in the padding.
        unsafe {
            let (Some((first, rows)), true) = (line.taps().split_first(), inside.len() >= S::LANES) else {
                return self.few_above::<S, MAX>(s, line, (data, inside), combined);
            };
            let first = data.wrapping_offset(first.at);
            for p in inside.clone().step_by(GROUP * S::LANES) {
                // The last vectors overlap those before them.
                let at = places::<S>(p, inside.end);
                let mut x = [s.splat(0.0); GROUP];
                for i in 0..GROUP {
                    x[i] = s.load(first.wrapping_add(at[i]));
                }
                for row in rows {
                    let row = data.wrapping_offset(row.at);
                    for i in 0..GROUP {
                        x[i] = combine::<S, MAX>(s, x[i], s.load(row.wrapping_add(at[i])));
                    }
                }
                for i in 0..GROUP {
                    s.store(combined.add(at[i]), x[i]);
                }
            }
        }
    }

    /// The same of fewer elements than a vector has, or of a window whose rows are all in the padding.
    ///
    /// # Safety
    /// As [`PlaneLines::new`]; there is room for these elements.
    #[inline(always)]
    unsafe fn few_above<S: Simd, const MAX: bool>(
        &self,
        s: S,
        line: &Line,
        (data, inside): (*const f32, &Range<usize>),
        combined: *mut f32,
    ) {
        for p in inside.clone().step_by(S::LANES) {
            let mut x = neutral::<S, MAX>(s);
            for row in line.taps() {
                let at = data.wrapping_offset(row.at).wrapping_add(p);
                // SAFETY: promised by the caller.
                x = combine::<S, MAX>(s, x, unsafe { load_first(s, at, inside.end - p) });
            }
            // SAFETY: promised by the caller.
            unsafe { store_first(s, combined.wrapping_add(p), inside.end - p, x) };
        }
    }

    /// Neighbours of that, for each output.
    ///
    /// # Safety
    /// As [`PlaneLines::new`]; the elements are there, and a vector of outputs behind them.
    #[inline(always)]
    unsafe fn beside<S: Simd, const MAX: bool, const STRIDE: usize>(
        &self,
        s: S,
        line: &Line,
        piece: &Piece,
        (combined, counts): (*const f32, &[f32; ELEMENTS]),
    ) {
        let to = self.job.out.wrapping_add(line.out + piece.start);
        let along = self.along();
        // SAFETY: promised by the caller. Vectors that begin before the last output end before those behind the elements do.
        unsafe {
            for j in (0..piece.count).step_by(GROUP * S::LANES) {
                if piece.count < S::LANES {
                    let mut x = taken::<S, STRIDE>(s, combined);
                    for t in 1..along {
                        x = combine::<S, MAX>(s, x, taken::<S, STRIDE>(s, combined.add(t)));
                    }
                    store_first(s, to, piece.count, self.divided(s, x, line, counts.as_ptr()));
                    return;
                }
                // The last vectors overlap those before them.
                let at = places::<S>(j, piece.count);
                let mut x = [s.splat(0.0); GROUP];
                for i in 0..GROUP {
                    x[i] = taken::<S, STRIDE>(s, combined.add(at[i] * STRIDE));
                }
                for t in 1..along {
                    for i in 0..GROUP {
                        x[i] = combine::<S, MAX>(s, x[i], taken::<S, STRIDE>(s, combined.add(at[i] * STRIDE + t)));
                    }
                }
                for i in 0..GROUP {
                    s.store(to.wrapping_add(at[i]), self.divided(s, x[i], line, counts.as_ptr().add(at[i])));
                }
            }
        }
    }

    /// Sums of outputs of a line, divided; the elements along it that they add up are counted there.
    ///
    /// # Safety
    /// As many counts as lanes are valid.
    #[inline(always)]
    unsafe fn divided<S: Simd>(&self, s: S, x: S::F32, line: &Line, counts: *const f32) -> S::F32 {
        match self.planes.operation {
            Operation::Average(Divisor::Fixed(divisor)) if divisor != 1.0 => s.div(x, s.splat(divisor)),
            Operation::Average(Divisor::InBounds) => {
                // SAFETY: promised by the caller.
                let counts = unsafe { s.load(counts) };
                s.div(x, s.max(s.splat(1.0), s.mul(counts, s.splat(line.taps().len() as f32))))
            }
            _ => x,
        }
    }

    /// Taps along the line, of outputs from `start` on, that are not in the padding, where that matters.
    fn count(&self, start: usize, counts: &mut [f32]) {
        if self.planes.operation != Operation::Average(Divisor::InBounds) {
            return;
        }
        let (lines, along) = (&self.planes.lines, self.along() as isize);
        for (i, count) in counts.iter_mut().enumerate() {
            let at = lines.first.wrapping_add(((start + i) * lines.stride) as isize);
            *count = lines.limit.saturating_sub(at).min(along).saturating_sub(at.saturating_neg().max(0)).max(0) as f32;
        }
    }
}
