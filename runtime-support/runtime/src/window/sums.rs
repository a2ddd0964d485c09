//! Sums of all pixels: one row of outputs from many taps. Blocks of pixels are summed apart, then their sums are added.
use super::Divisor;
use super::driver::WORK;
use crate::contraction::job::Job;
use crate::contraction::table::step;
use crate::contraction::{Contraction, Epilogue, Then, Tile};
use crate::cx::Cx;
use crate::isa::VECTORS;
use crate::math::{floor_div_usize, floor_mod_usize};
use crate::simd::{Simd, WithSimd, load_first, store_first};
use core::ops::Range;

/// Pixels from which on they are worth partial sums.
const LEAST_TAPS: usize = 64;
/// Partial sums of each column, which every instruction set makes alike: additions that do not wait for each other.
const WAYS: usize = 4;

/// Adds pixels at equal distances to the sums.
struct Add {
    a: *const f32,
    step: isize,
    count: usize,
    sums: *mut f32,
    cols: usize,
    /// There are no sums yet.
    first: bool,
}

impl WithSimd for Add {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (pair, mut column) = (2 * S::LANES, 0);
        while column < self.cols {
            let left = self.cols - column;
            // SAFETY: promised by the caller of `run`.
            unsafe {
                // As many as registers hold: what follows in memory is read at once.
                if left >= 2 * pair {
                    self.columns::<S, 4>(s, column, 2 * pair);
                    column += 2 * pair;
                } else if left >= pair {
                    self.columns::<S, 2>(s, column, pair);
                    column += pair;
                } else {
                    self.columns::<S, 1>(s, column, left);
                    column += S::LANES;
                }
            }
        }
    }
}

impl Add {
    /// NV vectors of columns from `column` on, of which `left` exist.
    ///
    /// # Safety
    /// These columns are valid in all pixels and in the sums.
    #[inline(always)]
    unsafe fn columns<S: Simd, const NV: usize>(&self, s: S, column: usize, left: usize) {
        let left = |v: usize| left.saturating_sub(v * S::LANES);
        let mut partial = [[s.splat(0.0); NV]; WAYS];
        let (mut at, mut done) = (self.a.wrapping_add(column), 0);
        // SAFETY: promised by the caller.
        unsafe {
            while done < self.count {
                let ways = (self.count - done).min(WAYS);
                for sums in partial.iter_mut().take(ways) {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        *sum = s.add(*sum, load_first(s, at.wrapping_add(v * S::LANES), left(v)));
                    }
                    at = at.wrapping_offset(self.step);
                }
                done += WAYS;
            }
            let [p0, p1, p2, p3] = partial;
            for v in 0..NV {
                let sums = self.sums.wrapping_add(column + v * S::LANES);
                let sum = s.add(s.add(p0[v], p1[v]), s.add(p2[v], p3[v]));
                let sum = if self.first { sum } else { s.add(load_first(s, sums, left(v)), sum) };
                store_first(s, sums, left(v), sum);
            }
        }
    }
}

/// Whether an average is such a sum: of at least a list of taps, none in the padding, with nothing but a closure behind it.
pub(super) fn fits(c: &Contraction, divisor: Divisor, epilogue: &Epilogue<'_>) -> bool {
    let taps = c.taps.iter().fold(1usize, |taps, tap| taps.saturating_mul(tap.extent));
    let plain = epilogue.bias.is_none() && epilogue.residual.is_none() && epilogue.clamp.is_none();
    let all = c.bounds.iter().all(|bound| bound.limit == 0);
    VECTORS
        && c.m() == 1
        && taps >= LEAST_TAPS
        && all
        && plain
        && !epilogue.accumulate
        && divisor == Divisor::Fixed(1.0)
}

/// Most blocks of pixels, and columns whose sums wait until all blocks are done.
const BLOCKS: usize = 8;
const COLS: usize = 256;
/// Pixels of a block, at least.
const PIXELS: usize = 48;

/// The pixels of the only row, in blocks that are summed apart: as many on any number of threads, so that the bits are the same.
/// Blocks rather than columns, because threads made the pixels in this order and still have them in their caches.
struct Blocks<'c> {
    c: &'c Contraction,
    /// Lines of pixels, those that follow each other as one, and pixels of each.
    lines: usize,
    count: usize,
    blocks: usize,
}

impl<'c> Blocks<'c> {
    fn of(c: &'c Contraction) -> Self {
        let [t0, t1, t2, t3] = c.taps;
        let whole = t2.extent == 1 || t2.a == step(t3.extent, t3.a);
        let (lines, count) = if whole { (1, t2.extent.saturating_mul(t3.extent)) } else { (t2.extent, t3.extent) };
        let lines = lines.saturating_mul(t0.extent).saturating_mul(t1.extent);
        let most = if lines == 1 { count } else { lines };
        let blocks = match floor_div_usize(lines.saturating_mul(count), PIXELS).min(most) {
            BLOCKS.. => BLOCKS,
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
        Blocks { c, lines, count, blocks }
    }

    /// Lines and pixels of a block: at least one.
    fn block(&self, block: usize) -> (Range<usize>, Range<usize>) {
        let share = |all: usize| {
            let at = |block: usize| floor_div_usize(all.saturating_mul(block), self.blocks);
            at(block)..at(block + 1)
        };
        if self.lines == 1 { (0..1, share(self.count)) } else { (share(self.lines), 0..self.count) }
    }

    /// Where a line begins.
    fn line(&self, line: usize) -> isize {
        let [t0, t1, t2, _] = self.c.taps;
        let inner = floor_div_usize(self.lines, t0.extent.saturating_mul(t1.extent));
        let (rest, i2) = (floor_div_usize(line, inner), floor_mod_usize(line, inner));
        let (i0, i1) = (floor_div_usize(rest, t1.extent), floor_mod_usize(rest, t1.extent));
        step(i0, t0.a).wrapping_add(step(i1, t1.a)).wrapping_add(step(i2, t2.a))
    }

    /// Writes the sums of a block.
    ///
    /// # Safety
    /// `cols` columns are valid at `a` in all pixels, and at `sums`.
    unsafe fn sum(&self, cx: Cx<'_>, block: usize, a: *const f32, (sums, cols): (*mut f32, usize)) {
        let (lines, pixels) = self.block(block);
        let pixel = self.c.taps[3].a;
        for (i, line) in lines.enumerate() {
            let at = self.line(line).wrapping_add(step(pixels.start, pixel));
            cx.dispatch(Add { a: a.wrapping_offset(at), step: pixel, count: pixels.len(), sums, cols, first: i == 0 });
        }
    }
}

/// What all threads see.
struct Operands {
    a: *const f32,
    /// The sums of blocks.
    sums: *mut f32,
}

// SAFETY: blocks write sums of their own only, and read an operand that is borrowed.
unsafe impl Sync for Operands {}

/// The sums of all taps of the only row.
///
/// # Safety
/// The geometry fits all operands of the job, and [`fits`] it.
pub(super) unsafe fn run(job: &Job<'_>, cx: Cx<'_>, then: Option<Then<'_>>) {
    let (blocks, mut column) = (Blocks::of(job.c), 0);
    let mut waiting = [[0.0; COLS]; BLOCKS];
    while column < job.c.cols {
        let cols = COLS.min(job.c.cols - column);
        let (a, sums) = (job.a.wrapping_add(column), job.out.wrapping_add(column));
        let work = blocks.lines.saturating_mul(blocks.count).saturating_mul(cols);
        let helped = if cx.parts(work, WORK) > 1 { cx } else { cx.alone() };
        let operands = Operands { a, sums: waiting.as_mut_ptr().cast() };
        helped.split(blocks.blocks, |range| {
            let operands = &operands;
            for block in range {
                let sums = operands.sums.wrapping_add(block * COLS);
                // SAFETY: promised by the caller; every block has its own sums.
                unsafe { blocks.sum(cx, block, operands.a, (sums, cols)) };
            }
        });
        // SAFETY: the result has so many columns, and no thread computes any more.
        let out = unsafe { core::slice::from_raw_parts_mut(sums, cols) };
        let [first, ..] = &waiting;
        out.iter_mut().zip(first).for_each(|(sum, first)| *sum = *first);
        for more in waiting.iter().take(blocks.blocks).skip(1) {
            out.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        if let Some(then) = then {
            // SAFETY: the only row of the result, which `run` of the window borrows.
            then(unsafe { Tile::in_steps(job.batch, (0, column), sums, (1, cols), cols) });
        }
        column += cols;
    }
}
