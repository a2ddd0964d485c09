//! Walks batches, blocks of rows, runs of rows with the same taps, and channels, and calls the micro-kernels.
use super::kernel::{KernelSet, LIST, MOST_COLS, ROWS, WindowArgs, of};
use super::lines::ByLines;
use super::planes::Planes;
use super::{Divisor, Operation, lines, sums};
use crate::contraction::job::{Job, Place};
use crate::contraction::kernel::Args;
use crate::contraction::line::TapAt;
use crate::contraction::parts::{self, Parts, Shared};
use crate::contraction::table::{BLOCK, EMPTY, Row, fill, step};
use crate::contraction::{Contraction, Epilogue, Then};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize};
use crate::raw::{Dst, Src};
use core::ops::Range;

/// Steps of a window that take a microsecond.
pub(super) const WORK: usize = 8 * 1024;

/// Floats of a result that a closure sees at a time.
const SEEN: usize = 4 * 1024;
/// Taps, at most, of windows whose rows stream through all their channels.
const STREAMED: usize = 64;
/// Rows of a part of a line.
const LEAST_ROWS: usize = 32;

/// Consecutive rows of which the same taps are not in the padding: most of a line of pixels, or a pixel at its end.
#[derive(Clone, Copy)]
struct Run<'a> {
    rows: &'a [Row],
    /// First row in the batch.
    first_row: usize,
    /// The taps, if the list holds them.
    list: &'a [TapAt],
    /// How many there are.
    taps: usize,
    divisor: f32,
}

/// # Safety
/// The geometry fits all operands.
// A frame of its own: the block of one kernel is off the stack when the next one runs.
#[inline(never)]
pub(super) unsafe fn run(
    c: &Contraction,
    cx: Cx<'_>,
    operation: Operation,
    a: Src<'_, f32>,
    w: &[f32],
    out: Dst<'_, f32>,
    epilogue: Epilogue<'_>,
) {
    let taps = c.taps.iter().fold(1usize, |taps, tap| taps.saturating_mul(tap.extent));
    let batches = c.batches[0].extent.saturating_mul(c.batches[1].extent);
    let work = c.m().saturating_mul(taps).saturating_mul(c.cols).saturating_mul(batches);
    // Whole lines have runs of the same taps.
    let line = c.rows.iter().rev().map(|axis| axis.extent).find(|extent| *extent > 1).unwrap_or(1);
    let cx = parts::context(c, cx);
    if let Some(planes) = Planes::of(c, operation, &epilogue) {
        // SAFETY: promised by the caller.
        return unsafe { planes.run(c, cx, &Shared::new(a, w, out, epilogue), work) };
    }
    let lines = if epilogue.accumulate { None } else { ByLines::of(c, cx.isa(), operation) };
    let summed = matches!(operation, Operation::Average(divisor) if sums::fits(c, divisor, &epilogue));
    let wanted = cx.parts(work, WORK);
    let (wanted, unit) = if summed {
        // A sum of all pixels is divided further where it is made.
        (1, (line, c.cols))
    } else if lines.is_some() {
        lines::division(c, line, wanted, cx.threads())
    } else {
        (wanted, (rows_together(c, line, wanted), c.cols))
    };
    let parts = Parts::new(c, cx, wanted, unit, unit.0);
    let shared = Shared::new(a, w, out, epilogue);
    cx.split(parts.count(), |range| {
        let shared = &shared;
        for part in range {
            let (batch, rows, cols) = parts.part(part);
            let job = Job::new(c, batch, shared.a, shared.w, shared.out, &shared.epilogue);
            match &lines {
                // SAFETY: promised by the caller; parts are batches of one row.
                _ if summed => unsafe { sums::run(&job, cx, shared.epilogue.then) },
                // SAFETY: promised by the caller; parts are disjoint whole lines, of all channels or of 16 and more.
                Some(lines) => unsafe {
                    let job = job.bending(shared.epilogue.then);
                    lines.run(&job, rows, cols, shared.epilogue.then.filter(|_| job.slope().is_none()));
                },
                // SAFETY: promised by the caller; parts are disjoint.
                None => unsafe { with_list(&job, cx, operation, (taps, rows), shared.epilogue.then) },
            }
        }
    });
}

/// Rows of a part that stay together: lines, or parts of lines where there are too few for all.
fn rows_together(c: &Contraction, line: usize, wanted: usize) -> usize {
    let lines = floor_div_usize(c.m(), line).max(1);
    ceil_div_usize(line, ceil_div_usize(wanted, lines).max(1)).max(LEAST_ROWS).min(line)
}

/// Rows of windows of so many taps, with a list for them: to clear a long one takes as long as some small windows.
///
/// # Safety
/// As [`run`].
unsafe fn with_list(
    job: &Job<'_>,
    cx: Cx<'_>,
    operation: Operation,
    (taps, part): (usize, Range<usize>),
    then: Option<Then<'_>>,
) {
    let none = TapAt { at: 0, index: 0 };
    // SAFETY: promised by the caller.
    unsafe {
        match taps <= STREAMED || LIST <= STREAMED {
            true => run_rows(job, cx, operation, part, &mut [none; STREAMED], then),
            false => run_rows(job, cx, operation, part, &mut [none; LIST], then),
        }
    }
}

/// # Safety
/// As [`run`].
unsafe fn run_rows(
    job: &Job<'_>,
    cx: Cx<'_>,
    operation: Operation,
    part: Range<usize>,
    list: &mut [TapAt],
    then: Option<Then<'_>>,
) {
    let (kernels, c) = (of(cx.isa()), job.c);
    let mut block = EMPTY;
    // A closure sees what is still in the first-level cache.
    let seen = if then.is_some() { floor_div_usize(SEEN, c.cols.max(1)).clamp(ROWS, BLOCK) } else { BLOCK };
    let mut first = part.start;
    while first < part.end {
        let n = BLOCK.min(part.end - first);
        fill(c, &mut block, first, n);
        let mut first_row = first;
        let mut rest = block.get(..n).unwrap_or_default();
        while let Some((rows, after)) = same_taps(rest) {
            rest = after;
            let run = Run { rows, first_row, list: &[], taps: 0, divisor: 1.0 };
            let run = run.list_taps(c, operation, list);
            // A tile that waits in a buffer, or for further taps, is small.
            let together = !job.accumulate && run.taps <= STREAMED;
            for rows in rows.chunks(if together { seen } else { BLOCK }) {
                // SAFETY: promised by the caller.
                unsafe { Run { rows, first_row, ..run }.compute(job, kernels, operation, together, then) };
                first_row += rows.len();
            }
        }
        first += n;
    }
}

/// The rows with the taps of the first one that follow it at once, and what is behind them.
fn same_taps(rows: &[Row]) -> Option<(&[Row], &[Row])> {
    let head = rows.first()?;
    let other = rows.iter().position(|row| row.first != head.first || row.count != head.count);
    rows.split_at_checked(other.unwrap_or(rows.len()))
}

/// The kernels for the channels behind so many, of which so many are left: the widest that these fill, or one that takes them all
/// and `again` some of those that are done.
fn suited<'k>(kernels: &[&'k KernelSet], done: usize, left: usize, again: bool) -> Option<&'k KernelSet> {
    let all = kernels.iter().rev().find(|set| set.cols >= left);
    let all = all.filter(|set| set.cols == left || again && set.cols <= left + done);
    all.or_else(|| kernels.iter().find(|set| set.cols <= left)).copied()
}

impl<'a> Run<'a> {
    /// Calls `f` for every tap.
    fn each_tap(&self, c: &Contraction, mut f: impl FnMut(TapAt)) {
        let Some(row) = self.rows.first() else { return };
        let valid = |axis, index| row.has_tap(&c.bounds, axis, index);
        let [t0, t1, t2, t3] = c.taps;
        let mut index = 0;
        for i0 in 0..t0.extent {
            let valid0 = valid(0, i0);
            for i1 in 0..t1.extent {
                let valid1 = valid0 && valid(1, i1);
                for i2 in 0..t2.extent {
                    if !(valid1 && valid(2, i2)) {
                        index += t3.extent;
                        continue;
                    }
                    let at = step(i0, t0.a).wrapping_add(step(i1, t1.a)).wrapping_add(step(i2, t2.a));
                    for i3 in 0..t3.extent {
                        if valid(3, i3) {
                            f(TapAt { at: at.wrapping_add(step(i3, t3.a)), index });
                        }
                        index += 1;
                    }
                }
            }
        }
    }

    /// Lists the taps and sets the divisor.
    fn list_taps(mut self, c: &Contraction, operation: Operation, list: &'a mut [TapAt]) -> Self {
        let mut taps = 0;
        self.each_tap(c, |tap| {
            if let Some(slot) = list.get_mut(taps) {
                *slot = tap;
            }
            taps += 1;
        });
        (self.list, self.taps) = (list.get(..taps).unwrap_or_default(), taps);
        self.divisor = match operation {
            Operation::Average(Divisor::Fixed(divisor)) => divisor,
            Operation::Average(Divisor::InBounds) => taps.max(1) as f32,
            _ => 1.0,
        };
        self
    }

    /// All channels of the run, as many as possible `together` in one call.
    ///
    /// # Safety
    /// The geometry fits all operands.
    unsafe fn compute(
        &self,
        job: &Job<'_>,
        kernels: &[&KernelSet],
        operation: Operation,
        together: bool,
        then: Option<Then<'_>>,
    ) {
        // Whole rows, which have no gaps, take a closure less time than columns of several kernels.
        let (each, all) = if together { (None, then) } else { (then, None) };
        let mut column = 0;
        while column < job.c.cols {
            let Some(set) = suited(kernels, column, job.c.cols - column, together) else { return };
            // The last channels overlap those before them.
            column = column.min(job.c.cols - set.cols);
            let kernel = match operation {
                Operation::Depthwise => set.depthwise,
                Operation::Max => set.max,
                Operation::Average(_) => set.average,
            };
            let tiles = if together { floor_div_usize(job.c.cols - column, set.cols) } else { 1 };
            // Neighbours read most pixels of a long window again: these stay in the first-level cache if channels are few.
            let most = if together { BLOCK } else { ROWS };
            let mut first_row = self.first_row;
            for rows in self.rows.chunks(most) {
                let args = Args {
                    a: job.a.wrapping_add(column),
                    w: job.w.wrapping_add(column),
                    w_stride: job.c.cols,
                    ..job.args(rows, column, set.cols)
                };
                let (count, cols) = (rows.len(), tiles * set.cols);
                let place = Place { direct: true, rows: count, cols, first_row, first_col: column };
                let compute = |args: &Args<'_>| {
                    let mut partial = [0.0f32; ROWS * MOST_COLS];
                    let (partial, divisor) = (partial.as_mut_ptr(), self.divisor);
                    let (tile, taps, first, last) = (args, self.list, true, true);
                    let call = WindowArgs { tile, tiles, taps, partial, first, last, divisor };
                    if self.taps == self.list.len() {
                        // SAFETY: as checked for the geometry; the kernel is of the context's instruction set.
                        return unsafe { kernel(&call) };
                    }
                    // SAFETY: as above.
                    unsafe { self.long(job.c, call, kernel) }
                };
                // SAFETY: promised by the caller.
                unsafe { job.tile(set.cols, args, &place, each, compute) };
                first_row += count;
            }
            column += tiles * set.cols;
        }
        if let Some(then) = all {
            let (rows, cols) = (self.rows.len(), job.c.cols);
            let place = Place { direct: true, rows, cols, first_row: self.first_row, first_col: 0 };
            // SAFETY: promised by the caller.
            unsafe { job.finished(&job.args(self.rows, 0, cols), &place, then) };
        }
    }

    /// More taps than the list holds, at most `ROWS` rows: several calls that hand their accumulators on.
    ///
    /// # Safety
    /// As the kernel.
    unsafe fn long(&self, c: &Contraction, call: WindowArgs<'_>, kernel: super::kernel::Kernel) {
        let mut list = [TapAt { at: 0, index: 0 }; LIST];
        let (mut used, mut done) = (0, 0);
        self.each_tap(c, |tap| {
            if let Some(slot) = list.get_mut(used) {
                *slot = tap;
            }
            used += 1;
            if used == LIST || done + used == self.taps {
                let (first, last) = (done == 0, done + used == self.taps);
                let taps = list.get(..used).unwrap_or_default();
                // SAFETY: promised by the caller.
                unsafe { kernel(&WindowArgs { taps, first, last, ..call }) };
                done += used;
                used = 0;
            }
        });
    }
}
