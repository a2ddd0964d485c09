//! Depthwise convolutions line by line: rows that differ in one axis only, along which the last tap axis runs too.
use super::kernel::TapAt;
use super::line_kernel::{LineArgs, LineKernel, of};
use crate::contraction::job::{Job, offset};
use crate::contraction::kernel::LINE;
use crate::contraction::table::{step, valid_of_row};
use crate::contraction::{Bound, Contraction, Then, Tile};
use crate::isa::Isa;
use crate::math::{floor_div_usize, floor_mod_usize};
use core::ops::Range;

/// Most rows of a window.
const MOST_TAPS: usize = 8;
/// Lines that are visited for some channels before the next channels.
const STRIP: usize = 8;
/// Floats of the operand that stay in the first-level cache from one line to the next.
const NEAR: usize = 6 * 1024;
/// Vectors of channels that a closure sees at a time, at least: it begins anew for every output.
const SEEN: usize = 4;
/// Lines of a part: each reads lines of its neighbours, too.
const LEAST: usize = 4;
/// So few lines are divided by channels.
const FEW: usize = 8;

/// A depthwise convolution in lines.
pub(super) struct Lines {
    /// The row axis along lines.
    fast: usize,
    /// The bound along lines.
    bound: Option<usize>,
    /// Pixels before `-first` and from `limit - first` on are padding.
    first: isize,
    limit: isize,
    kernel: LineKernel,
    /// Channels that the kernel computes at once.
    lanes: usize,
}

/// Where a line lies, and which rows of its window are not in the padding.
#[derive(Clone, Copy)]
struct Line {
    a: isize,
    out: usize,
    residual: usize,
    taps: [TapAt; MOST_TAPS],
    count: usize,
}

const NOWHERE: Line = Line { a: 0, out: 0, residual: 0, taps: [TapAt { at: 0, index: 0 }; MOST_TAPS], count: 0 };

/// Into how many parts such a convolution is divided, at most `wanted`, and the rows and channels that stay together.
pub(super) fn division(c: &Contraction, line: usize, wanted: usize, threads: usize) -> (usize, (usize, usize)) {
    let lines = floor_div_usize(c.m(), line);
    if lines < FEW && floor_mod_usize(c.cols, LINE) == 0 && c.cols >= threads.saturating_mul(2 * LINE) {
        return (wanted.min(threads), (c.m(), LINE));
    }
    // As many for each thread.
    let each = floor_div_usize(floor_div_usize(lines, LEAST), threads).max(1);
    (wanted.min(each.saturating_mul(threads)), (line, c.cols))
}

impl Lines {
    /// The convolution in lines, if it has the form and there is a kernel.
    pub fn of(c: &Contraction, isa: Isa) -> Option<Self> {
        let fast = c.rows.iter().rposition(|axis| axis.extent != 1)? & 3;
        let (row, [t0, t1, t2, tap]) = (c.rows[fast], c.taps);
        let stride = [1, 2].into_iter().find(|stride| step(*stride, tap.a) == row.a)?;
        if tap.a <= 0 || t0.extent.checked_mul(t1.extent)?.checked_mul(t2.extent)? > MOST_TAPS {
            return None;
        }
        let along = |bound: &Bound| bound.limit != 0 && (usize::from(bound.row) == fast || bound.tap == 3);
        let mut bounds = c.bounds.iter().enumerate().filter(|(_, bound)| along(bound));
        let (bound, first, limit) = match bounds.next() {
            None => (None, 0, isize::MAX),
            Some((at, bound)) => {
                let plain = usize::from(bound.row) == fast && bound.tap == 3;
                let steps = bound.stride == stride as isize && bound.dilation == 1;
                // No output's taps along the line are all in the padding.
                let reach = isize::try_from(row.extent.checked_sub(1)?.checked_mul(stride)?).ok()?;
                let last = bound.offset.checked_add(reach)?;
                let touches = bound.offset.checked_add(tap.extent as isize)? > 0 && last < bound.limit as isize;
                if !(plain && steps && touches) {
                    return None;
                }
                (Some(at), bound.offset, isize::try_from(bound.limit).ok()?)
            }
        };
        if bounds.next().is_some() {
            return None;
        }
        let set = of(isa).iter().find(|set| set.cols <= c.cols)?;
        let kernel = set.kernel(stride, tap.extent, row.extent)?;
        Some(Lines { fast, bound, first, limit, kernel, lanes: set.cols })
    }

    /// A range of rows, which are whole lines, and of channels, at least as many as the kernel computes at once.
    ///
    /// # Safety
    /// The geometry fits all operands of the job, which does not accumulate; the machine has the instruction set.
    pub unsafe fn run(&self, job: &Job<'_>, part: Range<usize>, cols: Range<usize>, then: Option<Then<'_>>) {
        let c = job.c;
        let length = c.rows[self.fast & 3].extent;
        let lines = floor_div_usize(part.end, length);
        // As many channels at a time as leave a line's window in the cache.
        let held = length.saturating_mul(2).saturating_mul(c.taps[2].extent);
        let least = if then.is_some() { SEEN } else { 1 };
        let vectors = floor_div_usize(floor_div_usize(NEAR, held), self.lanes).max(least);
        let block = vectors.saturating_mul(self.lanes);
        let mut at = [NOWHERE; STRIP];
        let mut line = floor_div_usize(part.start, length);
        while line < lines {
            let strip = at.get_mut(..STRIP.min(lines - line)).unwrap_or_default();
            for (i, slot) in strip.iter_mut().enumerate() {
                *slot = self.line(c, line + i);
            }
            let mut column = cols.start;
            while column < cols.end {
                // The last channels overlap those before them.
                let start = column.min(cols.end - self.lanes);
                let width = block.min(cols.end - start);
                for (i, at) in strip.iter().enumerate() {
                    let args = self.args(job, at, start, width);
                    match then {
                        // SAFETY: promised by the caller.
                        None => unsafe { (self.kernel)(&args) },
                        // SAFETY: promised by the caller.
                        Some(then) => unsafe { self.tile(job, &args, ((line + i) * length, start), then) },
                    }
                }
                column = start + width;
            }
            line += strip.len();
        }
    }

    /// Some channels of a line.
    fn args<'a>(&self, job: &Job<'_>, line: &'a Line, column: usize, cols: usize) -> LineArgs<'a> {
        let axis = job.c.rows[self.fast & 3];
        LineArgs {
            taps: line.taps.get(..line.count).unwrap_or_default(),
            a: job.a.wrapping_offset(line.a).wrapping_add(column),
            pixel: job.c.taps[3].a,
            first: self.first,
            limit: self.limit,
            w: job.w.wrapping_add(column),
            w_stride: job.c.cols,
            out: job.out.wrapping_add(line.out).wrapping_add(column),
            out_step: axis.out,
            bias: offset(job.bias, column),
            residual: offset(job.residual, line.residual.wrapping_add(column)),
            residual_step: axis.residual,
            clamp: job.clamp,
            start: 0,
            outputs: axis.extent,
            cols,
        }
    }

    /// Some channels of a line, then the closure on them where they lie.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn tile(&self, job: &Job<'_>, args: &LineArgs<'_>, (first_row, first_col): (usize, usize), then: Then<'_>) {
        // SAFETY: promised by the caller.
        unsafe { (self.kernel)(args) };
        // Outputs that may overlap are shown one by one.
        let together = if job.rows_are_apart { args.outputs } else { 1 };
        let mut row = 0;
        while row < args.outputs {
            let (rows, out) = (together.min(args.outputs - row), args.out.wrapping_add(row * args.out_step));
            let place = (first_row + row, first_col);
            // SAFETY: outputs and channels are inside the result, which `run` borrows; no two of these outputs overlap.
            then(unsafe { Tile::in_steps(job.batch, place, out, (rows, args.out_step), args.cols) });
            row += rows;
        }
    }

    /// Where line number `line` lies.
    fn line(&self, c: &Contraction, line: usize) -> Line {
        let (mut index, mut rest) = ([0; 4], line);
        for (axis, index) in c.rows.iter().zip(&mut index).take(self.fast).rev() {
            (rest, *index) = (floor_div_usize(rest, axis.extent), floor_mod_usize(rest, axis.extent));
        }
        let mut found = NOWHERE;
        for (axis, index) in c.rows.iter().zip(index) {
            found.a = found.a.wrapping_add(step(index, axis.a));
            found.out = found.out.wrapping_add(index.wrapping_mul(axis.out));
            found.residual = found.residual.wrapping_add(index.wrapping_mul(axis.residual));
        }
        // Per outer tap axis, the indices that are not in the padding.
        let mut valid = [(0, c.taps[0].extent), (0, c.taps[1].extent), (0, c.taps[2].extent)];
        for (b, bound) in c.bounds.iter().enumerate() {
            if bound.limit != 0 && Some(b) != self.bound {
                let (first, end, _) = valid_of_row(c, bound, &index);
                let (first, end) = (first as usize, end as usize);
                // Bounds without a tap axis are all or nothing: they count as bounds of the first.
                let alone = bound.tap == Bound::NO_AXIS;
                if let Some(axis) = valid.get_mut(if alone { 0 } else { usize::from(bound.tap) }) {
                    let end = if alone && first < end { axis.1 } else { end };
                    *axis = (first.max(axis.0), end.min(axis.1));
                }
            }
        }
        let [(a0, e0), (a1, e1), (a2, e2)] = valid;
        for i0 in a0..e0 {
            for i1 in a1..e1 {
                for i2 in a2..e2 {
                    let at =
                        step(i0, c.taps[0].a).wrapping_add(step(i1, c.taps[1].a)).wrapping_add(step(i2, c.taps[2].a));
                    let index = ((i0 * c.taps[1].extent + i1) * c.taps[2].extent + i2) * c.taps[3].extent;
                    if let Some(slot) = found.taps.get_mut(found.count) {
                        *slot = TapAt { at, index };
                        found.count += 1;
                    }
                }
            }
        }
        found
    }
}
