//! Products whose left operand is packed first: blocks of rows, passes over k, panels, tiles.
use super::fetches::Fetches;
use super::job::{Job, MOST_ROWS, Place, updates};
use super::kernel::{Args, Kernels, LINE};
#[cfg(feature = "threads")]
use super::line::pieces;
use super::pack::panel_width;
use super::packed_kernel::{PackedSet, PackedTile};
use super::parts;
use super::rows::{pack, pass};
use super::table::{BLOCK, EMPTY, Row, fill};
use super::{Contraction, Epilogue, Then, kernels, packed_kernels};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
#[cfg(feature = "threads")]
use crate::portions::Portions;
use crate::raw::{Dst, Src};
use core::ops::Range;
use core::ptr::{null, null_mut};

/// Multiply-adds, and packed elements, that take a microsecond.
const MULTIPLIED: usize = 64 * 1024;
pub(super) const PACKED: usize = 8 * 1024;
/// Least tiles of a thread where products are divided by rows.
const TILES: usize = 8;

impl Contraction {
    /// Floats of working memory of [`Contraction::run_packed`]. Saturates.
    #[must_use]
    pub const fn packed_rows_len(&self) -> usize {
        let m = self.m();
        pass(self.k()).saturating_mul(if m < BLOCK { m } else { BLOCK })
    }

    /// The same, if so many threads shall pack few rows for themselves.
    #[must_use]
    pub const fn packed_rows_len_apart(&self, threads: usize) -> usize {
        let few = self.m() <= threads.saturating_mul(TILES).saturating_mul(MOST_ROWS);
        self.packed_rows_len().saturating_mul(if few { threads } else { 1 })
    }

    /// Whether [`Contraction::run_packed`] makes sums of k products without leaving parts of them in the result meanwhile.
    #[must_use]
    pub const fn packs_at_once(k: usize) -> bool {
        k <= pass(k)
    }

    /// As [`Contraction::run`], with the left operand packed in `scratch` first: faster for long sums and many columns. The
    /// result is the same, bit by bit.
    pub fn run_packed(
        &self,
        cx: Cx<'_>,
        a: Src<'_, f32>,
        w: &[f32],
        scratch: &mut [f32],
        out: Dst<'_, f32>,
        epilogue: Epilogue<'_>,
    ) {
        let sets = packed_kernels::of(cx.isa(), self.panel);
        let whole = self.cols >= self.panel && self.panel >= LINE;
        // Sums that go on later wait in the result: it must hold nothing else.
        let free = !epilogue.accumulate || Self::packs_at_once(self.k()) && updates(self);
        let (whole, apart) = (whole && free, parts::apart(self, self.batches.len()));
        if !whole || !apart || self.k() == 0 || scratch.len() < self.packed_rows_len() {
            return self.run(cx, a, w, out, epilogue);
        }
        if !self.is_empty() && self.fits_all(a.extent(), w.len(), out.extent(), &epilogue) {
            // SAFETY: all addresses were just checked.
            unsafe { run(self, sets, cx, a, w, scratch, out, epilogue) }
        }
    }
}

/// # Safety
/// The descriptor fits all operands, panels are whole vectors of 16, and the working memory is long enough.
// A frame of its own: the block of one kernel is off the stack when the next one runs.
#[allow(clippy::too_many_arguments)]
#[inline(never)]
unsafe fn run(
    c: &Contraction,
    sets: &[&PackedSet],
    cx: Cx<'_>,
    a: Src<'_, f32>,
    w: &[f32],
    scratch: &mut [f32],
    mut out: Dst<'_, f32>,
    epilogue: Epilogue<'_>,
) {
    let cx = parts::context(c, cx);
    let (most, direct) = (packed_kernels::most_rows(sets), Some(kernels::of(cx.isa())));
    // Blocks of equal size and whole tiles, so that the last one does not fall back to small tiles.
    let (m, memory) = (c.m(), (scratch.as_mut_ptr(), scratch.len()));
    let (each, whole) = (ceil_div_usize(m, ceil_div_usize(m, BLOCK)), Tiles::together(m, most, cx.threads()));
    let size = ceil_div_usize(each, whole).saturating_mul(whole).clamp(1, BLOCK);
    let mut block = EMPTY;
    for b0 in 0..c.batches[0].extent {
        for b1 in 0..c.batches[1].extent {
            let job = Job::new(c, [b0, b1], a, w, out.as_mut_ptr(), &epilogue).updating().bending(epilogue.then);
            let mut first_row = 0;
            while first_row < m {
                let n = size.min(m - first_row);
                fill(c, &mut block, first_row, n);
                let rows = block.get(..n).unwrap_or_default();
                let tiles = Tiles::new(n, most, cx.threads());
                let packed = PackedRows { job: &job, rows, first_row, at: memory.0, k: 0..0, tiles, direct };
                // SAFETY: promised by the caller.
                unsafe { packed.run(cx, sets, memory, epilogue.then) };
                first_row += n;
            }
        }
    }
}

/// A block of rows in working memory, and the part of their sums that is being added.
#[derive(Clone)]
pub(crate) struct PackedRows<'a> {
    pub job: &'a Job<'a>,
    /// The rows, which are tabled from `first_row` on.
    pub rows: &'a [Row],
    pub first_row: usize,
    /// The packed rows, tile after tile.
    pub at: *mut f32,
    /// The part of the sums.
    pub k: Range<usize>,
    /// Their division.
    pub tiles: Tiles,
    /// What multiplies the rows as they were, with a panel whose columns fill no vectors. Without it there is none.
    pub direct: Option<Kernels>,
}

// SAFETY: parts that run at the same time write their own tiles of the working memory or of the result only.
unsafe impl Sync for PackedRows<'_> {}

impl PackedRows<'_> {
    /// Where a tile that begins at row `first` of the block lies.
    fn place(&self, first: usize) -> *mut f32 {
        self.at.wrapping_add(first.wrapping_mul(padded(self.k.len())))
    }

    /// All passes over k, with working memory of a start and so many floats.
    ///
    /// # Safety
    /// The descriptor fits all operands; the working memory takes the rows.
    unsafe fn run(&self, cx: Cx<'_>, sets: &[&PackedSet], memory: (*mut f32, usize), then: Option<Then<'_>>) {
        // SAFETY: promised by the caller.
        unsafe {
            #[cfg(feature = "threads")]
            if let Some(portions) = self.portions(cx, memory) {
                return self.apart(cx, sets, &portions, then);
            }
            for packed in self.passes(memory.0) {
                packed.pack(cx);
                packed.multiply(cx, sets, then);
            }
        }
    }

    /// The passes over k, of rows that are packed in some memory.
    fn passes(&self, at: *mut f32) -> impl Iterator<Item = PackedRows<'_>> {
        let (all, each) = (self.job.c.k(), pass(self.job.c.k()).max(1));
        let passes = ceil_div_usize(all, each);
        (0..passes).map(move |i| PackedRows { at, k: i * each..all.min((i + 1) * each), ..self.clone() })
    }

    /// Memory for a copy of the rows for every thread: where they are few, and there are panels for all threads.
    #[cfg(feature = "threads")]
    fn portions(&self, cx: Cx<'_>, memory: (*mut f32, usize)) -> Option<Portions> {
        let (c, threads) = (self.job.c, cx.threads());
        let portions = Portions::new(threads, memory)?;
        let work = self.rows.len().saturating_mul(c.k()).saturating_mul(c.cols);
        let few = !Tiles::are_many(self.tiles.count, threads) && self.rows.len() == c.m();
        let enough = ceil_div_usize(c.cols, c.panel) >= threads && cx.parts(work, MULTIPLIED) >= threads;
        (few && enough && c.packed_rows_len() <= portions.len).then_some(portions)
    }

    /// Every thread packs all rows for itself, and multiplies them with panels of its own, the last one with some of them: none
    /// waits for what another one has just written.
    ///
    /// # Safety
    /// As `run`; the portions are of the working memory.
    #[cfg(feature = "threads")]
    unsafe fn apart(&self, cx: Cx<'_>, sets: &[&PackedSet], portions: &Portions, then: Option<Then<'_>>) {
        let (panels, parts) = (ceil_div_usize(self.job.c.cols, self.job.c.panel), cx.threads());
        cx.split(parts, |range| {
            portions.lend(|at| {
                for packed in self.passes(at) {
                    // SAFETY: promised by the caller; parts have columns of their own, and the portion is lent.
                    unsafe {
                        packed.pack(cx.alone());
                        packed.stretch(sets, share(panels * self.tiles.count, parts, &range), then);
                    }
                }
            });
        });
    }

    /// Packs all tiles.
    ///
    /// # Safety
    /// The descriptor fits all operands; the working memory takes the rows.
    unsafe fn pack(&self, cx: Cx<'_>) {
        let parts = cx.parts(self.rows.len().saturating_mul(self.k.len()), PACKED).min(self.tiles.count);
        cx.split(parts, |range| {
            for tile in share(self.tiles.count, parts, &range) {
                let rows = self.tiles.range(tile);
                let to = self.place(rows.start);
                // SAFETY: promised by the caller; tiles are disjoint.
                unsafe {
                    pack(self.job.c, self.job.a, self.rows.get(rows).unwrap_or_default(), self.k.clone(), to);
                }
            }
        });
    }

    /// All tiles times all panels.
    ///
    /// # Safety
    /// The descriptor fits all operands; the rows are packed.
    unsafe fn multiply(&self, cx: Cx<'_>, sets: &[&PackedSet], then: Option<Then<'_>>) {
        let c = self.job.c;
        let panels = ceil_div_usize(c.cols, c.panel);
        let work = self.rows.len().saturating_mul(self.k.len()).saturating_mul(c.cols);
        let wanted = cx.parts(work, MULTIPLIED);
        let (tiles, each) = (self.tiles.count, cx.threads().saturating_mul(TILES));
        // Many tiles stay with the thread that has packed them; few would read all weights for too few rows.
        let by_rows = Tiles::are_many(tiles, cx.threads());
        let most = if by_rows { floor_div_usize(tiles, each).saturating_mul(cx.threads()) } else { panels };
        let outer = most.min(wanted);
        let inner = cx.evenly(outer, ceil_div_usize(wanted, outer)).min(if by_rows { panels } else { tiles });
        cx.split(outer.saturating_mul(inner), |range| {
            for part in range {
                let (i, j) = (floor_div_usize(part, inner), floor_mod_usize(part, inner));
                let outer = |all: usize| share(all, outer, &(i..i + 1));
                let inner = |all: usize| share(all, inner, &(j..j + 1));
                let (tiles, panels) =
                    if by_rows { (outer(tiles), inner(panels)) } else { (inner(tiles), outer(panels)) };
                // SAFETY: promised by the caller; parts are disjoint.
                unsafe { self.panels(sets, tiles, panels, then) };
            }
        });
    }

    /// All tiles times all panels, on one thread.
    ///
    /// # Safety
    /// As `multiply`.
    pub unsafe fn all(&self, sets: &[&PackedSet]) {
        let panels = ceil_div_usize(self.job.c.cols, self.job.c.panel);
        // SAFETY: promised by the caller.
        unsafe { self.panels(sets, 0..self.tiles.count, 0..panels, None) };
    }

    /// Products of a tile and a panel, panel after panel.
    ///
    /// # Safety
    /// As `multiply`.
    #[cfg(feature = "threads")]
    unsafe fn stretch(&self, sets: &[&PackedSet], products: Range<usize>, then: Option<Then<'_>>) {
        for (panels, tiles) in pieces(products, self.tiles.count) {
            // SAFETY: promised by the caller.
            unsafe { self.panels(sets, tiles, panels, then) };
        }
    }

    /// Some tiles times some panels.
    ///
    /// # Safety
    /// As `multiply`.
    unsafe fn panels(&self, sets: &[&PackedSet], tiles: Range<usize>, panels: Range<usize>, then: Option<Then<'_>>) {
        let (c, k) = (self.job.c, self.job.c.k());
        for panel in panels {
            let column = panel * c.panel;
            let width = panel_width(c.cols, column, c.panel);
            if let Some(kernels) = self.direct.filter(|_| column + width > c.cols) {
                // SAFETY: promised by the caller.
                unsafe { self.partial(kernels, tiles.clone(), column, then) };
                continue;
            }
            let (w, suspends) = (self.job.w.wrapping_add(column * k + self.k.start * width), self.k.end < k);
            // All tiles of all columns share the work of fetching the next panel.
            let Some(widest) = sets.first() else { return };
            let mut fetches = Fetches::new(w.wrapping_add(width * k), self.k.len(), width, tiles.len(), widest);
            let (mut at, end) = (0, width.min(c.cols - column));
            while at < end {
                let Some(set) = packed_kernels::suited(sets, width - at, end - at) else { return };
                let weights = Weights { w: w.wrapping_add(at), width, suspends };
                // SAFETY: promised by the caller.
                unsafe { self.column(set, tiles.clone(), column + at, weights, &mut fetches) };
                at += set.cols;
            }
            if let Some(then) = then.filter(|_| !suspends && !tiles.is_empty()) {
                // SAFETY: promised by the caller.
                unsafe { self.finished(tiles.clone(), column..column + end, then) };
            }
        }
    }

    /// Shows the closure some columns of all rows of some tiles: it begins anew for each row, which takes as long as some vectors.
    ///
    /// # Safety
    /// As `multiply`.
    unsafe fn finished(&self, tiles: Range<usize>, cols: Range<usize>, then: Then<'_>) {
        let (first_row, rows) = self.rows_of(tiles);
        let args = self.job.args(rows, cols.start, cols.len());
        let place = Place { direct: true, rows: rows.len(), cols: cols.len(), first_row, first_col: cols.start };
        // SAFETY: promised by the caller.
        unsafe { self.job.finished(&args, &place, then) };
    }

    /// Some tiles times the last panel, whose columns fill no vectors: all their products in the last pass.
    ///
    /// # Safety
    /// As `multiply`.
    unsafe fn partial(&self, kernels: Kernels, tiles: Range<usize>, column: usize, then: Option<Then<'_>>) {
        if self.k.end == self.job.c.k() && !tiles.is_empty() {
            // SAFETY: promised by the caller.
            unsafe { self.job.panels(kernels, self.rows_of(tiles), column..self.job.c.cols, then) }
        }
    }

    /// The first row of some tiles, of which there is one at least, and all of them.
    fn rows_of(&self, tiles: Range<usize>) -> (usize, &[Row]) {
        let (first, last) = (self.tiles.range(tiles.start), self.tiles.range(tiles.end.saturating_sub(1)));
        let rows = first.start..last.end;
        (self.first_row + rows.start, self.rows.get(rows).unwrap_or_default())
    }

    /// Some tiles times one width of a panel, from a column on.
    ///
    /// # Safety
    /// As `multiply`.
    #[inline(always)]
    unsafe fn column(
        &self,
        set: &PackedSet,
        tiles: Range<usize>,
        column: usize,
        weights: Weights,
        fetches: &mut Fetches,
    ) {
        let (job, padded) = (self.job, padded(self.k.len()));
        let Weights { w, width, suspends } = weights;
        for rows in self.tiles.ranges(tiles) {
            let (next, each) = fetches.next(w, padded);
            let args = Args {
                a: self.at.wrapping_add(rows.start.wrapping_mul(padded)),
                w,
                w_stride: width,
                next,
                ..job.args(self.rows.get(rows.clone()).unwrap_or_default(), column, set.cols)
            };
            let Some(kernel) = rows.len().checked_sub(1).and_then(|i| set.kernels.get(i)) else { return };
            let (resumes, each) = (self.k.start > 0, each.max(set.least));
            let tile = PackedTile {
                args,
                len: self.k.len(),
                sums: (args.out, 0),
                resumes,
                suspends,
                minus: null(),
                difference: null_mut(),
                each,
            };
            // SAFETY: promised by the caller; the kernels are of the context's instruction set.
            unsafe { kernel(&tile) };
        }
    }
}

/// The weights of one width of a panel.
#[derive(Clone, Copy)]
struct Weights {
    w: *const f32,
    /// Of the panel.
    width: usize,
    /// Further parts of the sums follow.
    suspends: bool,
}

/// Products with those that fill the last chunk.
pub(crate) const fn padded(k: usize) -> usize {
    ceil_div_usize(k, LINE).saturating_mul(LINE)
}

/// The division of rows into tiles of nearly the same size.
#[derive(Clone, Copy)]
pub(crate) struct Tiles {
    rows: usize,
    count: usize,
}

impl Tiles {
    /// Tiles of at most so many rows. Where they are divided among threads, every thread gets as many.
    pub fn new(rows: usize, most: usize, threads: usize) -> Tiles {
        let count = ceil_div_usize(rows, most);
        let each = if Tiles::are_many(count, threads) { threads } else { 1 };
        Tiles { rows, count: ceil_div_usize(count, each).saturating_mul(each) }
    }

    /// Whether so many tiles are divided among threads, not the columns.
    fn are_many(count: usize, threads: usize) -> bool {
        count >= threads.saturating_mul(TILES)
    }

    /// The number of rows, of so many, that whole blocks are multiples of: tiles for each thread that gets some.
    fn together(rows: usize, most: usize, threads: usize) -> usize {
        let shared = Tiles::are_many(ceil_div_usize(rows.min(BLOCK), most), threads);
        most.saturating_mul(if shared { threads } else { 1 })
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.count
    }

    /// The rows of a tile.
    pub fn range(self, tile: usize) -> Range<usize> {
        let at = |tile: usize| floor_div_usize(self.rows * tile, self.count);
        at(tile)..at(tile + 1)
    }

    /// The rows of some tiles, one after the other, without a division for each.
    pub(super) fn ranges(self, tiles: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let count = self.count;
        let (each, extra) = (floor_div_usize(self.rows, count), floor_mod_usize(self.rows, count));
        let mut start = self.range(tiles.start).start;
        let mut over = floor_mod_usize(extra * tiles.start, count);
        tiles.map(move |_| {
            over += extra;
            let full = over >= count;
            over -= if full { count } else { 0 };
            let rows = start..start + each + usize::from(full);
            start = rows.end;
            rows
        })
    }

    /// The rows of the tile that a row is in: the last one that does not begin behind it.
    pub fn around(self, row: usize) -> Range<usize> {
        self.range(ceil_div_usize((row + 1) * self.count, self.rows).saturating_sub(1))
    }
}

/// The share of parts `range` in `all`.
#[inline]
pub(crate) fn share(all: usize, parts: usize, range: &Range<usize>) -> Range<usize> {
    let at = |part: usize| floor_div_usize(all * part, parts);
    at(range.start)..at(range.end)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn ranges_are_those_of_the_tiles() {
        for (rows, most) in [(1, 12), (12, 12), (13, 12), (64, 12), (197, 12), (240, 6), (7, 4), (0, 4)] {
            for threads in [1, 2, 3] {
                let tiles = Tiles::new(rows, most, threads);
                let all: Vec<_> = (0..tiles.count).map(|tile| tiles.range(tile)).collect();
                for first in 0..all.len() {
                    assert_eq!(tiles.ranges(first..all.len()).collect::<Vec<_>>(), all[first..]);
                }
                assert!(all.iter().all(|rows| (1..=most).contains(&rows.len())));
                assert!(all.len() < threads * TILES || all.len() % threads == 0);
            }
        }
    }
}
