//! Lines by kernels of columns, which read copies of the rows of their window, or pixels where these lie as in a copy.
use super::super::held::{COPY, Held, places};
use super::super::job::Job;
use super::super::kernel::LINE;
use super::super::narrow_kernel::{NarrowArgs, NarrowCopy, NarrowKernel, row};
use super::super::results::Results;
use super::{Contraction, MOST_COPIED, MOST_TAPS, Narrow, PART, TABLED, Table, Then, Weights, blocks, show};
use crate::math::{ceil_div_usize, floor_div_usize};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::{null, null_mut};

/// Lines of a block where the result replaces a residual: the last rows of each, which overlap those before them, are saved.
const UPDATED: usize = 4;
/// Floats of these rows of a line.
const SAVED: usize = MOST_COPIED * LINE;

impl Narrow {
    /// Lines, or a part of them, from the last one on if they go back; the closure sees them where they lie.
    ///
    /// # Safety
    /// As `parts`; there are at least as many outputs as the kernel computes.
    // A frame of its own: other kernels hold other lines.
    #[inline(never)]
    pub(super) unsafe fn columns(
        &self,
        job: &Job<'_>,
        (kernel, copy, weights): (NarrowKernel, NarrowCopy, &Weights),
        table: &mut Table,
        (lines, part, is_back): (Range<usize>, Range<usize>, bool),
        then: Option<Then<'_>>,
    ) {
        let (length, rows) = (self.line(job.c), weights.kernel.outputs);
        let last = part.end.saturating_sub(rows);
        let source = Source::of(self, job.c, rows);
        let mut held = Held::new(source.places());
        let mut saved = [MaybeUninit::<f32>::uninit(); UPDATED * SAVED];
        for some in blocks(lines, is_back, if job.in_place { UPDATED } else { TABLED }) {
            let number = |i: usize| if is_back { some.end - 1 - i } else { some.start + i };
            let mut done = part.start;
            while done < part.end {
                if part.len() > rows {
                    held.forget();
                }
                // The last outputs overlap those before them, which are not residuals any more.
                let start = done.min(last);
                for i in 0..some.len() {
                    let mut args = self.args(job, weights, table.line(job.c, &self.lines, number(i)));
                    (args.start, args.outputs) = (start, part.end - start);
                    let saved = saved.as_mut_ptr().cast::<f32>().wrapping_add(i * SAVED);
                    // SAFETY: promised by the caller; there are as many outputs, of which so many are saved.
                    unsafe {
                        if job.in_place && done == part.start {
                            save(&args.to, last..part.end, saved);
                        }
                        if job.in_place && start < done {
                            args.to.residual = saved.cast_const().wrapping_sub(start * args.to.cols);
                            args.to.residual_step = args.to.cols;
                        }
                        source.compute((kernel, copy), rows, &args, &mut held);
                    }
                }
                done += rows;
            }
            if let Some(then) = then {
                for number in some.clone() {
                    let args = self.args(job, weights, table.line(job.c, &self.lines, number));
                    // SAFETY: inside the result, which is borrowed.
                    unsafe { show(job, &args.to, number * length, part.clone(), then) };
                }
            }
        }
    }
}

/// Where kernels read the rows of their window.
enum Source {
    /// Copies of all rows, which lines have in common.
    Held {
        /// So many.
        places: usize,
        /// Pixels of a copy, and its floats.
        pixels: usize,
        size: usize,
    },
    /// Copies of some rows at a time.
    Parts,
}

impl Source {
    fn of(narrow: &Narrow, c: &Contraction, rows: usize) -> Self {
        let (pixels, size) = row(rows, narrow.lines.stride, (narrow.lines.span(c), c.depth));
        let most = places(size);
        if c.window_rows() > most {
            return Source::Parts;
        }
        Source::Held { places: narrow.lines.rows(c).min(most), pixels, size }
    }

    /// Lines that are held.
    fn places(&self) -> usize {
        match self {
            Source::Held { places, .. } => *places,
            Source::Parts => 0,
        }
    }

    /// The outputs of a kernel.
    ///
    /// # Safety
    /// As [`NarrowKernel`] and [`NarrowCopy`].
    unsafe fn compute(
        &self,
        (kernel, copy): (NarrowKernel, NarrowCopy),
        rows: usize,
        args: &NarrowArgs<'_>,
        held: &mut Held,
    ) {
        let Source::Held { pixels, size, .. } = *self else {
            // SAFETY: promised by the caller.
            return unsafe { by_parts((kernel, copy), rows, args, held.room()) };
        };
        let first = args.at();
        let is_copy = args.pixel == LINE as isize && args.depth == LINE && args.inside(pixels) == (0, pixels);
        if is_copy {
            for (line, tap) in held.lines.iter_mut().zip(args.taps) {
                *line = first.wrapping_offset(tap.at);
            }
        } else {
            held.find(first, args.taps, size);
            for (i, tap) in args.taps.iter().enumerate() {
                let at = first.wrapping_offset(tap.at);
                if let Some(to) = held.place((i, at), size) {
                    // SAFETY: promised by the caller; places have this size.
                    unsafe { copy(args, at, pixels, to) };
                }
            }
        }
        // SAFETY: promised by the caller.
        unsafe { kernel(args, &held.lines) };
    }
}

/// The outputs of a kernel, for which as many rows of the window are copied at once as there is room for.
///
/// # Safety
/// As [`NarrowKernel`] and [`NarrowCopy`]; there is room for [`COPY`] floats.
unsafe fn by_parts((kernel, copy): (NarrowKernel, NarrowCopy), outputs: usize, args: &NarrowArgs<'_>, room: *mut f32) {
    let mut sums = [MaybeUninit::<f32>::uninit(); MOST_COPIED * LINE];
    let sums = sums.as_mut_ptr().cast::<f32>();
    let (pixels, row) = row(outputs, args.stride, (args.span(), args.depth));
    let together = together(args.taps.len(), row);
    let (mut rest, mut from, mut lines) = (args.taps, null(), [null(); MOST_TAPS]);
    loop {
        let (taps, others) = rest.split_at_checked(together).unwrap_or((rest, &[]));
        let sums = (from, if others.is_empty() { null_mut() } else { sums });
        let part = NarrowArgs { taps, sums, ..*args };
        for (i, (line, tap)) in lines.iter_mut().zip(taps).enumerate() {
            let to = room.wrapping_add(i * row);
            *line = to.cast_const();
            // SAFETY: promised by the caller; there is room for these rows.
            unsafe { copy(&part, part.at().wrapping_offset(tap.at), pixels, to) };
        }
        // SAFETY: promised by the caller; there is room for the sums of all outputs.
        unsafe { kernel(&part, &lines) };
        if others.is_empty() {
            return;
        }
        (rest, from) = (others, sums.1);
    }
}

/// Rows of the window that are copied at once, in parts of equal size, but a row at least.
fn together(taps: usize, row: usize) -> usize {
    let parts = ceil_div_usize(taps.saturating_mul(row), PART).max(1);
    ceil_div_usize(taps, parts).min(floor_div_usize(COPY, row.max(1)))
}

/// Saves rows of the result without gaps.
///
/// # Safety
/// They are valid, and no more than fit.
unsafe fn save(to: &Results, rows: Range<usize>, saved: *mut f32) {
    for (i, row) in rows.enumerate() {
        let (from, at) = (to.out.wrapping_add(row * to.out_step), saved.wrapping_add(i * to.cols));
        // SAFETY: promised by the caller.
        unsafe { core::ptr::copy_nonoverlapping(from.cast_const(), at, to.cols) };
    }
}
