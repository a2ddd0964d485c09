//! Depthwise convolutions and pooling line by line.
use super::line_kernel::{self, LineArgs, LineKernel};
use super::near::{Copies, Near, Source, are_crowded};
use super::{Divisor, Operation, pool_kernel};
use crate::contraction::job::{Job, offset};
use crate::contraction::kernel::LINE;
use crate::contraction::line::{Line, Lines, MOST_TAPS};
use crate::contraction::results::Results;
use crate::contraction::{Contraction, Then};
use crate::isa::Isa;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use core::ops::Range;

/// Lines that are visited for some channels before the next channels.
const STRIP: usize = 8;
/// The same where lines are copied: those that the next ones read too are copied again.
const NEAR_STRIP: usize = 16;
/// Floats of the operand that stay in the first-level cache from one line to the next.
const NEAR: usize = 6 * 1024;
/// Vectors of channels that a closure sees at a time, at least: it begins anew for every output.
const SEEN: usize = 4;
/// Lines of a part: each reads lines of its neighbours, too.
const LEAST: usize = 4;
/// Rows, at most, of a window that is taken line by line.
const MOST_ROWS: usize = 64;
/// So few lines are divided by channels.
const FEW: usize = 8;

/// Windows in lines.
pub(super) struct ByLines {
    lines: Lines,
    kernel: LineKernel,
    /// Channels that the kernel computes at once.
    lanes: usize,
}

/// Into how many parts such windows are divided, at most `wanted`, and the rows and channels that stay together.
pub(super) fn division(c: &Contraction, line: usize, wanted: usize, threads: usize) -> (usize, (usize, usize)) {
    let lines = floor_div_usize(c.m(), line);
    if lines < FEW && floor_mod_usize(c.cols, LINE) == 0 && c.cols >= threads.saturating_mul(2 * LINE) {
        return (wanted.min(threads), (c.m(), LINE));
    }
    // As many for each thread.
    let each = floor_div_usize(floor_div_usize(lines, LEAST), threads).max(1);
    (wanted.min(each.saturating_mul(threads)), (line, c.cols))
}

impl ByLines {
    /// The windows in lines, if they have the form and there is a kernel.
    pub fn of(c: &Contraction, isa: Isa, operation: Operation) -> Option<Self> {
        // These kernels read every pixel between the first tap and the last.
        let lines = Lines::of(c, MOST_ROWS).filter(|lines| lines.gap == 1)?;
        let taps = c.taps[3].extent;
        let pool = |max: bool| {
            // Other kernels take all channels of a pixel at a time.
            let pixels = lines.outputs(c).saturating_mul(lines.stride).saturating_add(taps);
            if are_crowded(c, pixels.min(pool_kernel::PIXELS)) {
                return None;
            }
            let set = pool_kernel::of(isa).iter().find(|set| set.cols <= c.cols)?;
            Some((set.kernel(max, taps)?, set.cols))
        };
        let (kernel, lanes) = match operation {
            Operation::Depthwise => {
                let set = line_kernel::of(isa).iter().find(|set| set.cols <= c.cols)?;
                (set.kernel(lines.stride, taps, lines.outputs(c))?, set.cols)
            }
            Operation::Max => pool(true)?,
            Operation::Average(Divisor::Fixed(1.0)) => pool(false)?,
            Operation::Average(_) => return None,
        };
        Some(ByLines { lines, kernel, lanes })
    }

    /// A range of rows, which are whole lines, and of channels, at least as many as the kernel computes at once.
    ///
    /// # Safety
    /// The geometry fits all operands of the job, which does not accumulate; the machine has the instruction set.
    pub unsafe fn run(&self, job: &Job<'_>, part: Range<usize>, cols: Range<usize>, then: Option<Then<'_>>) {
        let c = job.c;
        let length = self.lines.outputs(c);
        if let Some(copies) = self.copies(c) {
            // SAFETY: promised by the caller.
            return unsafe { self.run_near(job, copies, part, cols, then) };
        }
        if c.window_rows() > MOST_TAPS {
            // SAFETY: promised by the caller.
            return unsafe { self.run_high(job, part, cols, then) };
        }
        let lines = floor_div_usize(part.end, length);
        // As many channels at a time as leave a line's window in the cache.
        let held = length.saturating_mul(2).saturating_mul(c.taps[2].extent);
        let least = if then.is_some() { SEEN } else { 1 };
        let vectors = floor_div_usize(floor_div_usize(NEAR, held), self.lanes).max(least);
        let block = vectors.saturating_mul(self.lanes);
        let mut at: [Line; STRIP] = [Line::NOWHERE; STRIP];
        let mut line = floor_div_usize(part.start, length);
        while line < lines {
            let strip = at.get_mut(..STRIP.min(lines - line)).unwrap_or_default();
            for (i, slot) in strip.iter_mut().enumerate() {
                self.lines.find(c, line + i, slot);
            }
            let mut column = cols.start;
            while column < cols.end {
                // The last channels overlap those before them.
                let start = column.min(cols.end - self.lanes);
                let width = block.min(cols.end - start);
                for (i, at) in strip.iter().enumerate() {
                    let args = self.args(job, at, start, width);
                    // SAFETY: promised by the caller; the channels are inside the result, which is borrowed.
                    unsafe {
                        (self.kernel)(&args);
                        if let Some(then) = then {
                            job.show(then, ((line + i) * length, start), &args.to, args.outputs);
                        }
                    }
                }
                column = start + width;
            }
            line += strip.len();
        }
    }

    /// Copies of the operand's lines, where they pay.
    pub fn copies(&self, c: &Contraction) -> Option<Copies> {
        // What outputs of a line read.
        let outputs = self.lines.outputs(c).saturating_sub(1);
        let pixels = outputs.saturating_mul(self.lines.stride).saturating_add(c.taps[3].extent);
        let inside = |at: isize| at.max(0).unsigned_abs().min(pixels);
        let (first, limit) = (self.lines.first, self.lines.limit);
        Copies::of(c, pixels, (inside(first.saturating_neg()), inside(limit.wrapping_sub(first))))
    }

    /// The same from copies of the operand, a cache line of channels after the other.
    ///
    /// # Safety
    /// As [`ByLines::run`].
    // Copies lie on the stack.
    #[inline(never)]
    unsafe fn run_near(
        &self,
        job: &Job<'_>,
        copies: Copies,
        part: Range<usize>,
        cols: Range<usize>,
        then: Option<Then<'_>>,
    ) {
        let length = self.lines.outputs(job.c);
        let (mut first, end) = (floor_div_usize(part.start, length), floor_div_usize(part.end, length));
        // As many lines each time.
        let height = ceil_div_usize(end - first, ceil_div_usize(end - first, NEAR_STRIP).max(1));
        let (mut near, mut at) = (Near::new(copies), [Line::NOWHERE; NEAR_STRIP]);
        while first < end {
            let strip = at.get_mut(..height.min(end - first)).unwrap_or_default();
            for (i, slot) in strip.iter_mut().enumerate() {
                self.lines.find(job.c, first + i, slot);
            }
            let mut column = cols.start;
            while column < cols.end {
                // The last channels overlap those before them.
                let start = column.min(cols.end - self.lanes);
                let width = LINE.min(cols.end - start);
                near.clear();
                for (i, line) in strip.iter().enumerate() {
                    let args = self.args(job, line, start, width);
                    let source = Source { a: job.a.wrapping_add(start), pixel: args.pixel, width };
                    // SAFETY: promised by the caller; the channels are inside the result, which is borrowed.
                    unsafe {
                        let (taps, count) = near.taps(line, source);
                        let taps = taps.get(..count).unwrap_or_default();
                        (self.kernel)(&LineArgs { taps, a: near.as_ptr(), pixel: LINE as isize, ..args });
                        if let Some(then) = then {
                            job.show(then, ((first + i) * length, start), &args.to, args.outputs);
                        }
                    }
                }
                column = start + width;
            }
            first += strip.len();
        }
    }

    /// The same for windows of many rows, which the next line reads again: a cache line of channels after the other.
    ///
    /// # Safety
    /// As [`ByLines::run`].
    // Addresses of many rows lie on the stack.
    #[inline(never)]
    unsafe fn run_high(&self, job: &Job<'_>, part: Range<usize>, cols: Range<usize>, then: Option<Then<'_>>) {
        let length = self.lines.outputs(job.c);
        let lines = floor_div_usize(part.start, length)..floor_div_usize(part.end, length);
        let block = if then.is_some() { SEEN.saturating_mul(self.lanes) } else { self.lanes.max(LINE) };
        let mut column = cols.start;
        while column < cols.end {
            // The last channels overlap those before them.
            let start = column.min(cols.end - self.lanes);
            let width = block.min(cols.end - start);
            for number in lines.clone() {
                let line = self.lines.line::<MOST_ROWS>(job.c, number);
                let args = self.args(job, &line, start, width);
                // SAFETY: promised by the caller; the channels are inside the result, which is borrowed.
                unsafe {
                    (self.kernel)(&args);
                    if let Some(then) = then {
                        job.show(then, (number * length, start), &args.to, args.outputs);
                    }
                }
            }
            column = start + width;
        }
    }

    /// Some channels of a line.
    fn args<'a, const ROWS: usize>(
        &self,
        job: &Job<'_>,
        line: &'a Line<ROWS>,
        column: usize,
        cols: usize,
    ) -> LineArgs<'a> {
        let axis = self.lines.axis(job.c);
        LineArgs {
            taps: line.taps(),
            a: job.a.wrapping_offset(line.a).wrapping_add(column),
            pixel: job.c.taps[3].a,
            stride: self.lines.stride,
            along: job.c.taps[3].extent,
            first: self.lines.first,
            limit: self.lines.limit,
            w: job.w.wrapping_add(column),
            w_stride: job.c.cols,
            to: Results {
                out: job.out.wrapping_add(line.out).wrapping_add(column),
                out_step: axis.out,
                bias: offset(job.bias, column),
                residual: offset(job.residual, line.residual.wrapping_add(column)),
                residual_step: axis.residual,
                clamp: job.clamp,
                bend: None,
                cols,
            },
            slope: job.slope().map(|slope| slope.from(column)),
            start: 0,
            outputs: axis.extent,
        }
    }
}
