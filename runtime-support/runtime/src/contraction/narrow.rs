//! Convolutions with no more columns than a wide vector holds, as of narrow groups: line by line, because tiles of so few
//! products wait for the addresses of their rows, and most of these have taps in the padding.
mod columns;
mod planes;
#[cfg(test)]
mod tests;

use super::fold::{FoldKernel, Folded};
use super::held::COPY;
use super::job::{Job, MOST_ROWS, offset};
use super::kernel::LINE;
use super::line::{self, Lines};
use super::narrow_kernel::{self, Kernel, NarrowArgs, Tiling, WHOLE, row};
use super::parts::{Parts, Shared};
use super::planar_kernel::{self, Shape};
use super::results::Results;
use super::{Contraction, Then};
use crate::cx::Cx;
use crate::isa::Isa;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use core::ops::Range;
use core::ptr::{null, null_mut};

/// Most columns for which kernels of planes beat tiles of several vectors, and products of vectors that take longer than to see
/// whether they do.
const COLUMNS: usize = 12;
const WORK: usize = 16 * 1024;
/// Fewest channels: a copy of fewer would be gaps. Of every pixel, where vectors are computed whole, half as many.
const LEAST_DEPTH: usize = 8;
/// Most rows of a window: those of volumes are many.
pub(super) const MOST_TAPS: usize = 25;
/// Outputs of a kernel for which the window is copied, at most.
const MOST_COPIED: usize = 28;
/// Floats that are copied at once where the window has several rows: a quarter of the first-level cache, through which the
/// weights stream meanwhile.
const PART: usize = 2048;
/// Outputs of a piece of a line, at least: more than any kernel computes, and few are computed twice.
const PIECE: usize = 64;
/// Lines of each thread from which on they stay whole.
const LINES: usize = 8;
/// Lines whose addresses are tabled, for all batches.
const TABLED: usize = 16;

type Line = line::Line<MOST_TAPS>;

/// Such a convolution.
pub(super) struct Narrow {
    lines: Lines,
    whole: Tiling,
    /// For convolutions whose weights can be folded.
    groups: Option<(FoldKernel, Tiling)>,
}

/// What the columns of a batch are computed with.
struct Weights {
    kernel: Tiling,
    w: *const f32,
    width: usize,
}

/// The addresses of lines, which all batches have in common.
struct Table {
    lines: [Line; TABLED],
    tabled: Range<usize>,
}

impl Table {
    /// Line number `line`.
    fn line(&mut self, c: &Contraction, lines: &Lines, line: usize) -> &Line {
        if !self.tabled.contains(&line) {
            let first = floor_div_usize(line, TABLED) * TABLED;
            let last = floor_div_usize(c.m(), lines.outputs(c)).min(first + TABLED);
            for (i, slot) in (first..last).zip(&mut self.lines) {
                lines.find(c, i, slot);
            }
            self.tabled = first..last;
        }
        &self.lines[line % TABLED]
    }
}

impl Narrow {
    /// The convolution in lines, if it has the form and there is a kernel.
    pub fn of(c: &Contraction, w: &[f32], isa: Isa) -> Option<Self> {
        let set = narrow_kernel::of(isa, c.cols, c.depth)?;
        let window = c.taps[3].extent;
        // Tiles of several vectors need not wait for their sums; what is gained there is zeros left out.
        let folds = Folded::takes(c) && Folded::suits(w);
        let gains = set.beats_tiles || folds;
        let pays = gains || c.cols <= COLUMNS && c.m().saturating_mul(c.k()) >= WORK;
        if c.cols > LINE || c.panel < LINE || window < 2 || !pays {
            return None;
        }
        let lines = Lines::of(c, MOST_TAPS)?;
        let outputs = lines.outputs(c);
        let taps = c.window_rows();
        let span = lines.span(c);
        let least = if lines.stride == 1 && !isa.is_halved() { LEAST_DEPTH / 2 } else { LEAST_DEPTH };
        let fits = |taps: usize| {
            move |rows: usize| {
                let (_, row) = row(rows, lines.stride, (span, c.depth));
                rows <= MOST_COPIED && c.depth >= least && row.saturating_mul(taps) <= COPY
            }
        };
        let of = |kernels, taps| if gains { set.choose(kernels, lines.stride, outputs, fits(taps)) } else { None };
        let groups =
            if folds && lines.gap == 1 { of(&set.groups, taps).map(|(_, kernel)| (set.fold, kernel)) } else { None };
        let (by_parts, at_once) = (of(&set.whole, 1), of(&set.whole, taps));
        // Of every second pixel, twice as many are copied.
        let copy = |kernel: &Tiling| copies((outputs, kernel.outputs), &lines, c);
        let tiles = tiles(outputs, c.depth, set.of_tiles);
        let least = at_once.map_or(tiles, |(time, _)| time);
        let columns = by_parts.filter(|(time, kernel)| lines.stride == 1 || time + copy(kernel) < least).or(at_once);
        let columns = columns.filter(|(time, kernel)| set.of_tiles == WHOLE || time + copy(kernel) < tiles);
        // Tiles of rows take a vector for every output, or several, and a quarter of it for their addresses.
        let (time, columns) =
            columns.map_or((outputs.saturating_mul(set.tile) / WHOLE, None), |(time, kernel)| (time, Some(kernel)));
        let (stride, depth) = (lines.stride, c.depth);
        let (new, rows) = (lines.new_rows(c), lines.rows(c));
        let shape = Shape { cols: c.cols, outputs, stride, taps, new, rows, window, span, depth };
        let planar = planar_kernel::choose(isa, shape);
        let planar = planar.filter(|(planar, _)| *planar < time).map(|(_, kernel)| kernel);
        Some(Narrow { whole: planar.or(columns)?, groups, lines })
    }

    /// Outputs of a line.
    fn line(&self, c: &Contraction) -> usize {
        self.lines.outputs(c)
    }

    /// Rows that stay together: a line, or a piece of it where so many threads would not get as many lines each. The last piece
    /// of the only line may be shorter.
    pub fn unit(&self, c: &Contraction, threads: usize) -> usize {
        let length = self.line(c);
        let lines = floor_div_usize(c.m(), length);
        let is_even = |pieces: usize| floor_mod_usize(lines.saturating_mul(pieces), threads) == 0;
        if lines >= threads.saturating_mul(LINES) || is_even(1) {
            return length;
        }
        let most = floor_div_usize(length, PIECE).min(threads);
        let mut units = (2..=most).filter(|pieces| is_even(*pieces)).map(|pieces| ceil_div_usize(length, pieces));
        let last = |unit: usize| floor_mod_usize(length, unit);
        units.find(|unit| last(*unit) == 0 || lines == 1 && last(*unit) >= MOST_COPIED).unwrap_or(length)
    }

    /// A range of parts, whose rows are whole lines or pieces of them.
    ///
    /// # Safety
    /// The descriptor fits all operands; where it accumulates, [`Job::updating`] can; the machine has the instruction set.
    // A frame of its own: others table rows instead.
    #[inline(never)]
    pub unsafe fn parts(
        &self,
        (c, shared): (&Contraction, &Shared<'_>),
        cx: Cx<'_>,
        parts: &Parts,
        range: Range<usize>,
    ) {
        let (mut table, mut folded) = (Table { lines: [Line::NOWHERE; TABLED], tabled: 0..0 }, Folded::NONE);
        let (length, then) = (self.line(c), shared.epilogue.then);
        let at = |range: &Range<usize>, i: usize| if cx.is_back() { range.end - 1 - i } else { range.start + i };
        for i in 0..range.len() {
            let (batch, rows, _) = parts.part(at(&range, i));
            let job = Job::new(c, batch, shared.a, shared.w, shared.out, &shared.epilogue).updating();
            // SAFETY: promised by the caller.
            let weights = unsafe { self.weights(c, job.w, &mut folded) };
            for (lines, outputs) in line::pieces(rows, length) {
                let lines = (lines, outputs, cx.is_back());
                // SAFETY: promised by the caller; pieces have outputs enough.
                unsafe {
                    match weights.kernel.kernel {
                        Kernel::Columns(kernel, copy) => {
                            self.columns(&job, (kernel, copy, &weights), &mut table, lines, then);
                        }
                        Kernel::Planes(kernel) => self.planes(&job, (kernel, &weights), &mut table, lines, then),
                    }
                }
            }
        }
    }

    /// The weights of a batch, folded where they are those of merged groups.
    ///
    /// # Safety
    /// As `parts`.
    unsafe fn weights(&self, c: &Contraction, w: *const f32, folded: &mut Folded) -> Weights {
        // SAFETY: promised by the caller.
        let groups = self.groups.and_then(|(fold, kernel)| Some((unsafe { folded.fold(fold, c, w) }?, kernel)));
        match groups {
            Some(((w, width), kernel)) => Weights { kernel, w, width },
            None => Weights { kernel: self.whole, w, width: 0 },
        }
    }

    /// The arguments of kernels for a line, from the first output on.
    fn args<'l>(&self, job: &Job<'_>, weights: &Weights, line: &'l Line) -> NarrowArgs<'l> {
        let (c, axis) = (job.c, self.lines.axis(job.c));
        let to = Results {
            out: job.out.wrapping_add(line.out),
            out_step: axis.out,
            bias: job.bias,
            residual: offset(job.residual, line.residual),
            residual_step: axis.residual,
            clamp: job.clamp,
            bend: None,
            cols: c.cols,
        };
        NarrowArgs {
            taps: line.taps(),
            a: job.a.wrapping_offset(line.a),
            pixel: self.lines.pixel,
            stride: self.lines.stride,
            gap: self.lines.gap,
            first: self.lines.first,
            limit: self.lines.limit,
            depth: c.depth,
            channels: (0, c.depth),
            window: c.taps[3].extent,
            w: weights.w,
            width: weights.width,
            sums: (null(), null_mut()),
            to,
            start: 0,
            outputs: axis.extent,
        }
    }
}

/// Shows the closure some outputs of a line, whose first row is this.
///
/// # Safety
/// They are inside the result, which the caller borrows.
unsafe fn show(job: &Job<'_>, to: &Results, first_row: usize, outputs: Range<usize>, then: Then<'_>) {
    let to = Results { out: to.out.wrapping_add(outputs.start * to.out_step), ..*to };
    // SAFETY: promised by the caller.
    unsafe { job.show(then, (first_row + outputs.start, 0), &to, outputs.len()) };
}

/// What the copy of a line for kernels of `rows` outputs takes, as their products are counted.
fn copies((outputs, rows): (usize, usize), lines: &Lines, c: &Contraction) -> usize {
    let (pixels, _) = row(rows, lines.stride, (lines.span(c), 1));
    let products = c.taps[3].extent.saturating_mul(LINE);
    ceil_div_usize(outputs, rows).saturating_mul(ceil_div_usize(pixels.saturating_mul(3), products.max(1)))
}

/// What tiles of the rows of a line take, with the addresses of rows; a product takes so many eighths of a vector's.
fn tiles(outputs: usize, depth: usize, eighths: usize) -> usize {
    let tiles = ceil_div_usize(outputs, MOST_ROWS);
    // Tiles of whole vectors end with the line, and sums of fewer rows wait for each other.
    let (rows, address) = match eighths {
        WHOLE => (ceil_div_usize(outputs, tiles.max(1)).max(8).saturating_mul(tiles), 48),
        _ => (outputs, 16),
    };
    (rows.saturating_mul(eighths) / WHOLE).saturating_add(ceil_div_usize(rows.saturating_mul(address), depth))
}

/// Lines in blocks of so many, which divide those of a table; from the last one on if they go back.
fn blocks(lines: Range<usize>, is_back: bool, most: usize) -> impl Iterator<Item = Range<usize>> {
    let mut left = lines;
    core::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let some = match is_back {
            true => left.start.max(floor_div_usize(left.end - 1, most) * most)..left.end,
            false => left.start..left.end.min((floor_div_usize(left.start, most) + 1) * most),
        };
        left = if is_back { left.start..some.start } else { some.end..left.end };
        Some(some)
    })
}
