//! Walks batches, blocks of rows, panels and tiles.
use super::Compact;
use super::codes::Panel;
use super::tile::{MOST, Tile, columns, lanes, most_rows, rows};
use crate::contraction::Epilogue;
use crate::contraction::job::{Job, Place};
use crate::contraction::kernel::{Args, LINE};
use crate::contraction::packed::{padded, share};
use crate::contraction::parts::{self, Shared};
use crate::contraction::rows::pack;
use crate::contraction::table::{BLOCK, EMPTY, Row, fill};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize};
use crate::raw::{Dst, Src};
use core::ops::Range;

/// Multiply-adds, and packed elements, that take a microsecond.
const MULTIPLIED: usize = 32 * 1024;
const PACKED: usize = 8 * 1024;
/// Panels of a thread, at least, where these are divided: else rows are.
const PANELS: usize = 2;

/// # Safety
/// The descriptor fits all operands.
#[inline]
pub(super) unsafe fn run(
    compact: &Compact,
    cx: Cx<'_>,
    a: Src<'_, f32>,
    w: &[u8],
    scratch: &mut [f32],
    out: Dst<'_, f32>,
    epilogue: Epilogue<'_>,
) {
    let c = &compact.product;
    let (cx, shared, mut block) = (parts::context(c, cx), Shared::new(a, &[], out, epilogue), EMPTY);
    for b0 in 0..c.batches[0].extent {
        for b1 in 0..c.batches[1].extent {
            let mut first_row = 0;
            while first_row < c.m() {
                let n = BLOCK.min(c.m() - first_row);
                fill(c, &mut block, first_row, n);
                let rows = block.get(..n).unwrap_or_default();
                let packed =
                    Block { compact, batch: [b0, b1], rows, first_row, at: scratch.as_mut_ptr(), w: w.as_ptr() };
                // SAFETY: promised by the caller; the working memory takes a block of rows.
                unsafe {
                    packed.pack(cx, &shared);
                    packed.multiply(cx, &shared);
                }
                first_row += n;
            }
        }
    }
}

/// A block of rows, and the working memory in which they are packed.
struct Block<'a> {
    compact: &'a Compact,
    batch: [usize; 2],
    rows: &'a [Row],
    first_row: usize,
    at: *mut f32,
    w: *const u8,
}

// SAFETY: parts that run at the same time write their own tiles of the working memory or of the result only.
unsafe impl Sync for Block<'_> {}

impl Block<'_> {
    #[inline]
    fn job<'s>(&'s self, shared: &'s Shared<'_>) -> Job<'s> {
        Job::new(&self.compact.product, self.batch, shared.a, &[], shared.out, &shared.epilogue).updating()
    }

    #[inline]
    fn tiles(&self, cx: Cx<'_>) -> Tiles {
        Tiles { rows: self.rows.len(), most: most_rows(lanes(cx), self.compact.form) }
    }

    /// Where a tile that begins at row `first` of the block lies.
    #[inline]
    fn place(&self, first: usize) -> *mut f32 {
        self.at.wrapping_add(first.wrapping_mul(padded(self.compact.product.k())))
    }

    /// Packs all rows, tile by tile.
    ///
    /// # Safety
    /// The descriptor fits all operands; the working memory takes the rows.
    #[inline]
    unsafe fn pack(&self, cx: Cx<'_>, shared: &Shared<'_>) {
        let (tiles, k) = (self.tiles(cx), self.compact.product.k());
        let parts = cx.parts(self.rows.len().saturating_mul(k), PACKED).min(tiles.count());
        cx.split(parts, |range| {
            let job = self.job(shared);
            for tile in share(tiles.count(), parts, &range) {
                let range = tiles.range(tile);
                let (rows, to) = (self.rows.get(range.clone()).unwrap_or_default(), self.place(range.start));
                // SAFETY: promised by the caller; tiles are disjoint.
                unsafe {
                    pack(job.c, job.a, rows, 0..k, to);
                    pad(rows.len(), k, to);
                }
            }
        });
    }

    /// All tiles times all panels.
    ///
    /// # Safety
    /// The descriptor fits all operands; the rows are packed.
    #[inline]
    unsafe fn multiply(&self, cx: Cx<'_>, shared: &Shared<'_>) {
        let c = &self.compact.product;
        let (tiles, panels) = (self.tiles(cx).count(), ceil_div_usize(c.cols, c.panel));
        let by_panels = panels >= PANELS.saturating_mul(cx.threads()) || tiles <= panels;
        let work = self.rows.len().saturating_mul(c.k()).saturating_mul(c.cols);
        let parts = cx.parts(work, MULTIPLIED).min(if by_panels { panels } else { tiles });
        cx.split(parts, |range| {
            let job = self.job(shared);
            for part in 0..range.len() {
                let part = if cx.is_back() { range.end - 1 - part } else { range.start + part };
                let share = |all: usize| share(all, parts, &(part..part + 1));
                let (tiles, panels) = if by_panels { (0..tiles, share(panels)) } else { (share(tiles), 0..panels) };
                // SAFETY: promised by the caller; parts are disjoint.
                unsafe { self.panels(cx, &job, tiles, panels, &shared.epilogue) };
            }
        });
    }

    /// Some tiles times some panels.
    ///
    /// # Safety
    /// As `multiply`.
    #[inline]
    unsafe fn panels(
        &self,
        cx: Cx<'_>,
        job: &Job<'_>,
        tiles: Range<usize>,
        panels: Range<usize>,
        epilogue: &Epilogue<'_>,
    ) {
        let (c, all, lanes) = (job.c, self.tiles(cx), lanes(cx));
        let mut sums = [0.0; MOST];
        let sums = sums.as_mut_ptr();
        for i in 0..panels.len() {
            let at = if cx.is_back() { panels.end - 1 - i } else { panels.start + i };
            let (first, panel) = (at * c.panel, Panel::new(self.compact, self.w, at));
            let mut column = 0;
            while column < panel.width && first + column < c.cols {
                let cols = columns(lanes, panel.width - column);
                let exist = cols.min(c.cols - first - column);
                for tile in tiles.clone() {
                    let range = all.range(tile);
                    let rows = self.rows.get(range.clone()).unwrap_or_default();
                    let args = Args { a: self.place(range.start), ..job.args(rows, first + column, exist) };
                    // Narrow vectors are not written in part.
                    let direct = cols == exist;
                    let (first_row, first_col) = (self.first_row + range.start, first + column);
                    let place = Place { direct, rows: rows.len(), cols: exist, first_row, first_col };
                    let compute = |args: &Args<'_>| {
                        cx.dispatch(Tile { form: self.compact.form, args, panel, column, rows: rows.len(), sums });
                    };
                    // SAFETY: promised by the caller.
                    unsafe { job.tile(cols, args, &place, epilogue.then, compute) };
                }
                column += cols;
            }
        }
    }
}

/// The division of rows into tiles: as many as possible are full.
#[derive(Clone, Copy)]
struct Tiles {
    rows: usize,
    most: usize,
}

impl Tiles {
    #[inline]
    fn full(self) -> usize {
        floor_div_usize(self.rows, self.most)
    }

    /// How many tiles.
    #[inline]
    fn count(self) -> usize {
        let (mut count, mut left) = (self.full(), self.rows - self.full() * self.most);
        while left > 0 {
            (count, left) = (count + 1, left - rows(left, self.most));
        }
        count
    }

    /// The rows of a tile.
    #[inline]
    fn range(self, tile: usize) -> Range<usize> {
        let full = self.full().min(tile);
        let mut start = full * self.most;
        for _ in full..tile {
            start += rows(self.rows - start, self.most);
        }
        start..start + rows(self.rows - start, self.most)
    }
}

/// Zeros behind the products of packed rows: kernels read whole steps.
///
/// # Safety
/// The last chunk of so many rows is at `to`.
#[inline]
unsafe fn pad(rows: usize, k: usize, to: *mut f32) {
    let last = padded(k);
    for row in 0..rows {
        for product in k..last {
            // SAFETY: inside the last chunk; promised by the caller.
            unsafe { *to.add((last - LINE) * rows + row * LINE + product + LINE - last) = 0.0 };
        }
    }
}
