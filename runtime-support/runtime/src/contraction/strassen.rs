//! Products of matrices in halves: with the rows, the products of a sum and the columns halved, seven products of halves make the
//! whole, instead of eight (V. Strassen, Gaussian elimination is not optimal, 1969; with the fewest sums, S. Winograd, 1971).
//!
//! Rows are packed, and sums of their quarters are made once; sums of quarters of weights by the kernels that use them first.
//!
//! Sums mix the rows of a pair, one of each half. Where one of them is so much greater than the other that this would cost digits, or
//! not finite, the block is computed by plain sums.
// Chunks are indexed by constants, as register tiles.
#![allow(clippy::needless_range_loop)]

#[cfg(test)]
mod tests;
mod worker;

use super::job::{Job, updates};
use super::kernel::{Kernels, LINE};
use super::packed::{PACKED, Tiles, share};
use super::packed_kernel::PackedSet;
use super::rows::pack;
use super::table::{BLOCK, EMPTY, Row, fill};
use super::{Contraction, Epilogue, Then, kernels, packed_kernels, parts};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
#[cfg(feature = "threads")]
use crate::portions::Portions;
use crate::raw::{Dst, Src};
use core::sync::atomic::{AtomicBool, Ordering};
use worker::Worker;

/// Threads for which there is memory to pack rows for themselves.
const PORTIONS: usize = 2;
/// Rows of a block at most: their sums of quarters, and those of weights, stay in the second-level cache.
const ROWS: usize = if BLOCK < 128 { BLOCK } else { 128 };
/// From so many rows on two blocks fill tiles of halves.
const TWO_BLOCKS: usize = 64;
/// Rows of the largest tiles, of three vectors and of two, and how many fewer rows kernels have that form weights.
const TILES: [usize; 2] = [9, 12];
const FEWER: usize = 4;

/// Left operands in working memory: the quarters of a block of rows, and their sums.
const A11: usize = 0;
const A12: usize = 1;
const A21: usize = 2;
const A22: usize = 3;
const S1: usize = 4;
const S2: usize = 5;
const S3: usize = 6;
const S4: usize = 7;
const OPERANDS: usize = 8;

impl Contraction {
    /// Of what halves take: greatest exponent of an element, with its bias of 127.
    pub const GREATEST: u32 = 127 + 100;
    /// How much greater the exponent may be in one row, or column of weights, than in the one that is added to it.
    pub const APART: u32 = 8;

    /// Whether two threads get as many pairs of panels, and enough of them.
    const fn divides_pairs(&self) -> bool {
        let pairs = floor_div_usize(self.cols, self.panel) / 2;
        pairs >= 4 && pairs.is_multiple_of(2) || pairs > 8
    }

    /// Blocks of rows, whatever the number of threads: as many for each of two, but for few rows whose columns can be divided.
    const fn halved_blocks(&self) -> usize {
        let blocks = ceil_div_usize(self.m(), ROWS);
        match blocks {
            0 | 1 if self.divides_pairs() || self.m() < TWO_BLOCKS => 1,
            0 | 1 => 2,
            _ => blocks + blocks % 2,
        }
    }

    /// Rows of a block, an even number: the last block may have fewer.
    const fn halved_rows(&self) -> usize {
        let each = ceil_div_usize(self.m(), self.halved_blocks());
        each + each % 2
    }

    /// Floats of the left operands of a block.
    const fn halved_operands(&self) -> usize {
        OPERANDS.saturating_mul(self.halved_rows() / 2).saturating_mul(self.k() / 2)
    }

    /// Floats for two sums of quarters of panels, and three of the results of half a block in a panel's columns.
    const fn halved_sums(&self) -> usize {
        self.panel.saturating_mul(self.k() + 3 * (self.halved_rows() / 2))
    }

    /// Floats of working memory of [`Contraction::run_strassen`]. Saturates.
    #[must_use]
    pub const fn strassen_len(&self) -> usize {
        self.halved_operands().saturating_add(self.halved_sums()).saturating_mul(PORTIONS)
    }

    /// Whether [`Contraction::run_strassen`] pays: rows and products of a sum can be halved, columns have panels for two halves, and
    /// all of them fill tiles, of two threads as well.
    #[must_use]
    pub const fn is_halved(&self) -> bool {
        let whole = self.panel > 0 && self.panel.is_multiple_of(LINE) && floor_div_usize(self.cols, self.panel) >= 2;
        let even = self.m() > 0 && self.m().is_multiple_of(2) && self.k().is_multiple_of(2 * LINE);
        let most = if self.panel.is_multiple_of(3 * LINE) { TILES[0] } else { TILES[1] };
        let half = self.halved_rows() / 2;
        let tiles = ceil_div_usize(half, most);
        let filled = floor_div_usize(half, tiles) + FEWER >= most;
        whole && even && filled && (self.halved_blocks() > 1 || self.divides_pairs())
    }

    /// As [`Contraction::run`] with working memory, by Strassen's algorithm: seven eighths of the products, and other roundings.
    /// Weights must be finite, and of about the same size in all columns.
    ///
    /// Where vectors are computed whole, the sums of quarters take as long as the products that they save, and with two threads
    /// longer: plain sums then.
    pub fn run_strassen(
        &self,
        cx: Cx<'_>,
        a: Src<'_, f32>,
        w: &[f32],
        scratch: &mut [f32],
        out: Dst<'_, f32>,
        epilogue: Epilogue<'_>,
    ) {
        if cx.isa().is_halved() {
            self.run_halves(cx, a, w, scratch, out, epilogue);
        } else {
            self.run_packed(cx, a, w, scratch, out, epilogue);
        }
    }

    /// As [`Contraction::run_strassen`], however vectors are computed.
    fn run_halves(
        &self,
        cx: Cx<'_>,
        a: Src<'_, f32>,
        w: &[f32],
        scratch: &mut [f32],
        mut out: Dst<'_, f32>,
        epilogue: Epilogue<'_>,
    ) {
        let free = !epilogue.accumulate || epilogue.residual.is_none() && updates(self);
        let apart = parts::apart(self, self.batches.len());
        let set = packed_kernels::of(cx.isa(), self.panel).first();
        let forms = set.is_some_and(|set| !set.forming.is_empty() && self.panel.is_multiple_of(set.cols));
        if !self.is_halved() || !free || !apart || !forms || self.k() == 0 || scratch.len() < self.strassen_len() {
            return self.run_packed(cx, a, w, scratch, out, epilogue);
        }
        if self.is_empty() || !self.fits_all(a.extent(), w.len(), out.extent(), &epilogue) {
            return;
        }
        let (cx, memory) = (parts::context(self, cx), (scratch.as_mut_ptr(), scratch.len()));
        for b0 in 0..self.batches[0].extent {
            for b1 in 0..self.batches[1].extent {
                let job = Job::new(self, [b0, b1], a, w, out.as_mut_ptr(), &epilogue).updating().bending(epilogue.then);
                // SAFETY: all addresses were just checked.
                unsafe { Blocks { job: &job, memory, then: epilogue.then }.run(cx) }
            }
        }
    }
}

/// All rows of a batch, in blocks.
struct Blocks<'a> {
    job: &'a Job<'a>,
    /// Working memory: its start and floats.
    memory: (*mut f32, usize),
    then: Option<Then<'a>>,
}

// SAFETY: parts that run at the same time write their own blocks or columns of the result, in memory of their own.
unsafe impl Sync for Blocks<'_> {}

impl Blocks<'_> {
    /// Each block on a thread by itself, or in as many shares of its columns as there are threads for it. More threads than have
    /// memory for that share what is packed.
    ///
    /// # Safety
    /// The descriptor fits all operands, and the working memory is long enough.
    unsafe fn run(&self, cx: Cx<'_>) {
        let (blocks, threads) = (self.job.c.halved_blocks(), cx.threads());
        if threads > PORTIONS {
            // SAFETY: promised by the caller.
            return (0..blocks).for_each(|block| unsafe { self.block(cx, block, (0, 1), self.memory) });
        }
        let (shares, len) = (ceil_div_usize(threads, blocks), floor_div_usize(self.memory.1, PORTIONS));
        #[cfg(feature = "threads")]
        let portions = Portions::new(threads, self.memory);
        cx.split(blocks.saturating_mul(shares), |range| {
            let work = |memory: *mut f32| {
                for part in range {
                    let (block, share) = (floor_div_usize(part, shares), floor_mod_usize(part, shares));
                    // SAFETY: promised by the caller; the memory is this thread's.
                    unsafe { self.block(cx.alone(), block, (share, shares), (memory, len)) };
                }
            };
            #[cfg(feature = "threads")]
            if let Some(portions) = &portions {
                return portions.lend(work);
            }
            work(self.memory.0);
        });
    }

    /// One of so many shares of the columns of a block.
    ///
    /// # Safety
    /// As `run`; nobody else has the memory.
    // A frame of its own: the block of one kernel is off the stack when the next one runs.
    #[inline(never)]
    unsafe fn block(&self, cx: Cx<'_>, block: usize, share: (usize, usize), (at, len): (*mut f32, usize)) {
        let (job, c, mut table) = (self.job, self.job.c, EMPTY);
        let (first_row, operands) = (block * c.halved_rows(), c.halved_operands());
        let n = c.m().saturating_sub(first_row).min(c.halved_rows());
        fill(c, &mut table, first_row, n);
        let (sets, rows) = (packed_kernels::of(cx.isa(), c.panel), table.get(..n).unwrap_or_default());
        let tiles = Tiles::new(n / 2, packed_kernels::most_rows(sets), 1);
        let (memory, direct, then) = ((at.wrapping_add(operands), len - operands), kernels::of(cx.isa()), self.then);
        if n > 0 {
            // SAFETY: promised by the caller.
            unsafe { Halves { job, rows, first_row, at, memory, tiles, sets, direct, then }.run(cx, share) }
        }
    }
}

/// A block of rows.
struct Halves<'a> {
    job: &'a Job<'a>,
    /// An even number of rows, tabled from `first_row` on.
    rows: &'a [Row],
    first_row: usize,
    /// The left operands, and behind them memory for threads: its start and floats.
    at: *mut f32,
    memory: (*mut f32, usize),
    /// The division of half of the rows.
    tiles: Tiles,
    sets: &'a [&'a PackedSet],
    /// What multiplies with columns that fill no panel.
    direct: Kernels,
    then: Option<Then<'a>>,
}

// SAFETY: parts that run at the same time write their own tiles of the operands, and their own columns of the result.
unsafe impl Sync for Halves<'_> {}

impl Halves<'_> {
    /// Rows of a half.
    fn half(&self) -> usize {
        self.rows.len() / 2
    }

    /// Products of half a sum.
    fn k(&self) -> usize {
        self.job.c.k() / 2
    }

    /// A left operand from a row on that begins a tile.
    fn operand(&self, i: usize, row: usize) -> *mut f32 {
        self.at.wrapping_add((i * self.half() + row) * self.k())
    }

    /// Packs the rows, and multiplies them with a share of the columns: those of panels in pairs, those of the panels that are left,
    /// and those that fill none.
    ///
    /// # Safety
    /// The descriptor fits all operands, and the memory is long enough.
    unsafe fn run(&self, cx: Cx<'_>, (number, shares): (usize, usize)) {
        let c = self.job.c;
        // SAFETY: promised by the caller.
        let near = unsafe { self.pack(cx) };
        let (whole, all) = (floor_div_usize(c.cols, c.panel), ceil_div_usize(c.cols, c.panel));
        let forms = self.sets.first().is_some_and(|set| set.forming(self.tiles.range(0).len()).is_some());
        let pairs = if near && forms { whole / 2 } else { 0 };
        let units = share(all - pairs, shares, &(number..number + 1));
        // With a team each unit is a part, as far as there is memory.
        let most = floor_div_usize(self.memory.1, c.halved_sums()).max(1);
        let parts = match cx.threads() {
            1 => 1,
            threads if threads > most => units.len().min(most),
            _ => units.len(),
        };
        #[cfg(feature = "threads")]
        let portions = Portions::new(cx.threads().min(most), self.memory);
        cx.split(parts, |range| {
            let compute = |memory: *mut f32| {
                let worker = Worker::new(self, cx, memory);
                let own = share(units.len(), parts, &range);
                let (first, end) = (units.start + own.start, units.start + own.end);
                for unit in first..end {
                    // SAFETY: promised by the caller; the memory is this thread's.
                    unsafe {
                        match unit.checked_sub(pairs) {
                            None => worker.pair((unit, unit == first), pairs),
                            Some(i) if i + 2 * pairs < whole => worker.panel(i + 2 * pairs),
                            Some(_) => worker.columns(whole * c.panel),
                        }
                    }
                }
            };
            #[cfg(feature = "threads")]
            if let Some(portions) = &portions {
                return portions.lend(compute);
            }
            compute(self.memory.0);
        });
    }

    /// Packs all quarters, and makes their sums. Whether the rows of all pairs are near enough to each other.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn pack(&self, cx: Cx<'_>) -> bool {
        let (c, k, half) = (self.job.c, self.k(), self.half());
        let (near, count) = (AtomicBool::new(true), self.tiles.count());
        let parts = cx.parts(self.rows.len().saturating_mul(c.k()), PACKED).min(count);
        cx.split(parts, |range| {
            for tile in share(count, parts, &range) {
                let rows = self.tiles.range(tile);
                let places = core::array::from_fn(|i| self.operand(i, rows.start));
                for (i, first, part) in [(A11, 0, 0..k), (A12, 0, k..2 * k), (A21, half, 0..k), (A22, half, k..2 * k)] {
                    let rows = self.rows.get(first + rows.start..first + rows.end).unwrap_or_default();
                    // SAFETY: promised by the caller; tiles are disjoint.
                    unsafe { pack(c, self.job.a, rows, part, places[i]) };
                }
                let tile_is_near = cx.vectorize(
                    #[inline(always)]
                    // SAFETY: the tile is packed.
                    || unsafe { add_quarters(places, rows.len(), k) },
                );
                if !tile_is_near {
                    near.store(false, Ordering::Relaxed);
                }
            }
        });
        near.into_inner()
    }
}

/// Makes the sums of the quarters of a tile: `A21 + A22`, `A21 + A22 - A11`, `A11 - A21`, and `A12` less the second one. Whether all
/// elements are finite, and the rows of each pair near enough to each other.
///
/// # Safety
/// All operands have so many rows, of `k` elements in chunks of [`LINE`].
#[inline(always)]
unsafe fn add_quarters(operands: [*mut f32; OPERANDS], rows: usize, k: usize) -> bool {
    let mut near = true;
    let size = |x: f32| x.to_bits() & (u32::MAX >> 1);
    for row in 0..rows {
        let (mut upper, mut lower) = ([0u32; LINE], [0u32; LINE]);
        for chunk in 0..k / LINE {
            let place = |i: usize| operands[i].wrapping_add((chunk * rows + row) * LINE).cast::<[f32; LINE]>();
            // SAFETY: promised by the caller.
            unsafe {
                let (a11, a12, a21, a22) = (*place(A11), *place(A12), *place(A21), *place(A22));
                let (mut s1, mut s2, mut s3, mut s4) = ([0.0; LINE], [0.0; LINE], [0.0; LINE], [0.0; LINE]);
                for i in 0..LINE {
                    s1[i] = a21[i] + a22[i];
                    s2[i] = s1[i] - a11[i];
                    s3[i] = a11[i] - a21[i];
                    s4[i] = a12[i] - s2[i];
                }
                for i in 0..LINE {
                    upper[i] = upper[i].max(size(a11[i])).max(size(a12[i]));
                    lower[i] = lower[i].max(size(a21[i])).max(size(a22[i]));
                }
                (*place(S1), *place(S2), *place(S3), *place(S4)) = (s1, s2, s3, s4);
            }
        }
        let exponent = |sizes: [u32; LINE]| sizes.iter().fold(0, |most: u32, size| most.max(*size)) >> 23;
        let (upper, lower) = (exponent(upper), exponent(lower));
        let is_near = upper == 0 || lower == 0 || upper.abs_diff(lower) <= Contraction::APART;
        near &= is_near && upper.max(lower) <= Contraction::GREATEST;
    }
    near
}
