//! Walks batches, blocks of rows, panels and tiles, and calls the micro-kernels.
use super::cuts::Line;
use super::job::{Job, MOST_ROWS, Place, updates};
use super::kernel::{Args, KernelSet, Kernels, LINE};
use super::narrow::Narrow;
use super::pack::panel_width;
use super::parts::{self, Parts, Shared};
use super::plane_strip;
use super::steps::Steps;
use super::table::{BLOCK, EMPTY, Row, fill, fill_but};
use super::{Contraction, Epilogue, Then, kernels};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use crate::raw::{Dst, Src};
use core::ops::Range;

/// Bytes of the left operand per block: most of a second-level cache of 2 MiB. Where the cache is smaller, rows come from the
/// next one, which costs less than reading all weights once more.
const BLOCK_BYTES: usize = 1600 * 1024;
/// Floats of a panel that is fetched while the one before is in use.
const NEXT_FLOATS: usize = 80 * 1024;
/// Weights that the second-level cache holds beside the data.
const LIGHT: usize = 160 * 1024;
/// Rows that are tabled without a whole block.
const FEW: usize = 8;
/// Rows from which on it is worth while to table only some of them.
const MANY: usize = 48;
/// Tiles of rows per part, and rows, where there are more.
const TILES: usize = 16;
const ROWS: usize = 96;
/// Floats of rows that a closure is shown together.
const SHOWN: usize = 16 * 1024;
/// Products of sums that take less time than what a function needs longer for rows with gaps.
const SHORT: usize = 64;
/// Multiply-adds that take a microsecond.
const WORK: usize = 64 * 1024;

/// # Safety
/// The descriptor fits all operands.
// A frame of its own: the block of one kernel is off the stack when the next one runs.
#[inline(never)]
pub(super) unsafe fn run(
    c: &Contraction,
    cx: Cx<'_>,
    a: Src<'_, f32>,
    w: &[f32],
    out: Dst<'_, f32>,
    epilogue: Epilogue<'_>,
) {
    let kernels = kernels::of(cx.isa());
    let tile = kernels.first().map_or(1, |set| set.kernels.len());
    // Weights that every thread can keep in its cache are no reason against few rows, and rows stay with their thread.
    let light = c.k().saturating_mul(c.cols) <= LIGHT;
    let cx = parts::context(c, cx);
    let takes_lines = !epilogue.accumulate || epilogue.residual.is_none() && updates(c);
    // Strips need no copies of lines.
    let in_strips = |steps: Steps| {
        !epilogue.accumulate && plane_strip::of(cx.isa(), c, &steps).is_some() || steps.beat_lines(c, cx.isa())
    };
    let narrow = if takes_lines { Narrow::of(c, w, cx.isa()) } else { None };
    let narrow = narrow.filter(|_| !Steps::of(c).is_some_and(in_strips));
    // What stays together: tiles, or lines or pieces of them.
    let unit = narrow.as_ref().map_or(tile, |narrow| narrow.unit(c, cx.threads()));
    let block = if light { unit.saturating_mul(2) } else { most_rows(c).max(unit) };
    let wanted = if cx.threads() == 1 { 1 } else { wanted(c, cx, unit) };
    let parts = Parts::new(c, cx, wanted, (unit, c.panel), block).halved();
    let shared = Shared::new(a, w, out, epilogue);
    cx.split(parts.count(), |range| {
        let shared = &shared;
        // SAFETY: promised by the caller; parts are disjoint, and whole lines where they are narrow.
        unsafe {
            match &narrow {
                Some(narrow) => narrow.parts((c, shared), cx, &parts, range),
                None => tiles((c, shared), kernels, cx, &parts, range),
            }
        }
    });
}

/// Into how many parts a contraction is divided, of whose rows so many stay together.
fn wanted(c: &Contraction, cx: Cx<'_>, unit: usize) -> usize {
    let batches = c.batches[0].extent.saturating_mul(c.batches[1].extent);
    let work = c.m().saturating_mul(c.k()).saturating_mul(c.cols).saturating_mul(batches);
    // Every part reads all weights, or all rows: few parts where there are few rows.
    // Strips are for rows that are half as many as the products of a sum.
    let rows = unit.saturating_mul(TILES).max(ROWS).max(c.k() / 2);
    cx.parts(work, WORK).min(floor_div_usize(c.m(), rows).max(cx.threads()))
}

/// A range of parts, tile by tile.
///
/// # Safety
/// The descriptor fits all operands; the kernels are of the context's instruction set.
// A frame of its own: lines need no block of rows.
#[inline(never)]
unsafe fn tiles(
    (c, shared): (&Contraction, &Shared<'_>),
    kernels: Kernels,
    cx: Cx<'_>,
    parts: &Parts,
    range: Range<usize>,
) {
    let line = Line::of(c);
    let work = |block: &mut [Row]| {
        let mut table = Table { block, tabled: 0..0, in_strips: None };
        for i in 0..range.len() {
            let part = if cx.is_back() { range.end - 1 - i } else { range.start + i };
            let (batch, rows, cols) = parts.part(part);
            let job = Job::new(c, batch, shared.a, shared.w, shared.out, &shared.epilogue);
            let job =
                Job { back: cx.is_back(), line, ..job }.updating().in_planes(cx.isa()).bending(shared.epilogue.then);
            // SAFETY: promised by the caller; parts are disjoint.
            unsafe { job.run(kernels, &mut table, rows, cols, shared.epilogue.then) };
        }
    };
    // Making a whole block takes as long as some products of few rows.
    if c.m() <= FEW { work(&mut [Row::START; FEW]) } else { work(&mut { EMPTY }) }
}

/// Rows of a block, whose left operand stays in the cache.
fn most_rows(c: &Contraction) -> usize {
    let bytes = c.depth.saturating_mul(4).max(1);
    floor_div_usize(BLOCK_BYTES, bytes).clamp(MOST_ROWS.min(BLOCK), BLOCK)
}

/// Columns of a panel.
struct Piece {
    /// The panel's first column.
    first: usize,
    /// Columns of its weights.
    width: usize,
    /// Those that are meant, from the first of the panel on, with those that fill vectors of 16.
    at: Range<usize>,
}

/// The addresses of a block of rows, which all batches have in common.
struct Table<'b> {
    block: &'b mut [Row],
    tabled: Range<usize>,
    /// Only those that strips need, of each stretch so many of the last ones.
    in_strips: Option<usize>,
}

impl Table<'_> {
    /// These rows, of which there are no more than the block holds, or those of them that strips need.
    fn rows(&mut self, c: &Contraction, rows: Range<usize>, strips: Option<(&Steps, usize)>) -> &[Row] {
        let (first, n, last) = (rows.start, rows.len(), strips.map(|(_, last)| last));
        if self.tabled != rows || self.in_strips.is_some() && self.in_strips != last {
            match strips {
                Some((steps, last)) => {
                    fill_but(c, self.block, (first, n), |row| steps.between_ends(row, &rows, last));
                }
                None => fill(c, self.block, first, n),
            }
            (self.tabled, self.in_strips) = (rows, last);
        }
        self.block.get(..n).unwrap_or_default()
    }
}

impl Job<'_> {
    /// A range of rows and of columns, whole panels or halves of those of 32.
    ///
    /// # Safety
    /// The descriptor fits all operands.
    unsafe fn run(
        &self,
        kernels: Kernels,
        table: &mut Table<'_>,
        part: Range<usize>,
        cols: Range<usize>,
        then: Option<Then<'_>>,
    ) {
        let m = part.len();
        // Blocks of equal size and whole tiles, so that the last one does not fall back to small tiles.
        let size = if m <= FEW { m } else { self.block(kernels, m) };
        let in_strips =
            |rows| Some((self.steps.as_ref()?, self.in_strips(kernels, self.steps.as_ref()?, rows, &cols)?));
        let bends = self.bend.is_some() && in_strips(size).is_some();
        let whole = then.filter(|_| !bends && self.rows_are_apart && m > MANY && cols.len() > LINE);
        let size = if whole.is_some() { self.shown(kernels, cols.len()).min(size) } else { size };
        let job = Job { bend: self.bend.filter(|_| whole.is_none()), ..*self };
        let mut first_row = part.start;
        while first_row < part.end {
            let rows = size.min(part.end - first_row);
            let strips = if rows > MANY && whole.is_none() { in_strips(rows) } else { None };
            let tabled = table.rows(self.c, first_row..first_row + rows, strips);
            // SAFETY: promised by the caller.
            unsafe { job.panels(kernels, (first_row, tabled), cols.clone(), then.filter(|_| whole.is_none())) };
            if let Some(then) = whole {
                let cols = cols.start..cols.end.min(self.c.cols);
                let args = self.args(tabled, cols.start, cols.len());
                let place = Place { direct: true, rows, cols: cols.len(), first_row, first_col: cols.start };
                // SAFETY: promised by the caller.
                unsafe { self.finished(&args, &place, then) };
            }
            first_row += rows;
        }
    }

    /// Rows of so many columns that a closure is shown together: it begins anew for each, which takes as long as some vectors.
    /// They should still be near, and enough for strips.
    fn shown(&self, kernels: Kernels, cols: usize) -> usize {
        let tile = kernels.first().map_or(1, |set| set.kernels.len());
        let rows = floor_div_usize(SHOWN, cols.max(1)).max(MANY).max(self.c.k() / 2);
        ceil_div_usize(rows, tile).saturating_mul(tile)
    }

    /// Rows of a block, of so many.
    fn block(&self, kernels: Kernels, rows: usize) -> usize {
        let tile = kernels.first().map_or(1, |set| set.kernels.len());
        let each = ceil_div_usize(rows, ceil_div_usize(rows, most_rows(self.c)));
        ceil_div_usize(each, tile).saturating_mul(tile).clamp(1, BLOCK)
    }

    /// All rows of a block against a range of columns that begins with a panel, or in the middle of one of 32.
    ///
    /// # Safety
    /// As `run`; `rows` is tabled from `first_row` on.
    pub(crate) unsafe fn panels(
        &self,
        kernels: Kernels,
        rows: (usize, &[Row]),
        cols: Range<usize>,
        then: Option<Then<'_>>,
    ) {
        let single = self.single(kernels, rows.1, &cols);
        let (wide, groups) = single.map_or((1, 0), |(set, single, groups)| (set.cols * single.panels, groups));
        let rest = cols.start + wide * groups;
        let first = floor_div_usize(rest, self.c.panel);
        let count = groups + ceil_div_usize(cols.end.max(rest), self.c.panel) - first;
        for i in 0..count {
            let i = if self.back { count - 1 - i } else { i };
            // SAFETY: promised by the caller.
            unsafe {
                match single {
                    Some((set, single, _)) if i < groups => {
                        let column = cols.start + i * wide;
                        self.group((set, single), rows, (column, self.weights(column)), then);
                    }
                    _ => self.panel(kernels, rows, &self.piece(first + i - groups, &(rest..cols.end)), then),
                }
            }
        }
    }

    /// The weights from a column on that is the first of a panel. All panels before are whole.
    fn weights(&self, column: usize) -> *const f32 {
        self.w.wrapping_add(column.wrapping_mul(self.c.k()))
    }

    /// What is in a range of columns of one panel.
    fn piece(&self, panel: usize, cols: &Range<usize>) -> Piece {
        let first = panel.saturating_mul(self.c.panel);
        let width = panel_width(self.c.cols, first, self.c.panel);
        let end = ceil_div_usize(cols.end.saturating_sub(first), LINE).saturating_mul(LINE);
        Piece { first, width, at: cols.start.saturating_sub(first)..end.min(width) }
    }

    /// All rows of a block against columns of one panel of weights.
    ///
    /// # Safety
    /// As `run`; `rows` is tabled from `first_row` on.
    unsafe fn panel(
        &self,
        kernels: Kernels,
        (first_row, rows): (usize, &[Row]),
        piece: &Piece,
        then: Option<Then<'_>>,
    ) {
        let w = self.weights(piece.first);
        for (at, set, cols) in self.sets(kernels, piece, rows.len()) {
            let column = piece.first + at;
            let args = Args { w: w.wrapping_add(at), w_stride: piece.width, next: w, ..self.args(rows, column, cols) };
            // SAFETY: promised by the caller; the kernels are of the context's instruction set.
            unsafe { self.strips_and_tiles(set, &args, (first_row, column), then) }
        }
    }

    /// The kernels of columns of a panel for so many rows: from which of its columns on, and how many columns there are.
    fn sets(
        &self,
        kernels: Kernels,
        piece: &Piece,
        rows: usize,
    ) -> impl Iterator<Item = (usize, &'static KernelSet, usize)> {
        let (mut at, end) = (piece.at.start, piece.at.end);
        // The last columns of weights may be padding.
        let exist = end.min(self.c.cols.saturating_sub(piece.first));
        let whole = self.rows_are_apart && self.c.k() < SHORT;
        core::iter::from_fn(move || {
            let (left, own) = (exist.checked_sub(at).filter(|left| *left > 0)?, at);
            let set = kernels.iter().find(|set| set.suits((left, end - own), rows, whole))?;
            at += set.cols;
            Some((own, *set, set.cols.min(left)))
        })
    }

    /// If strips compute all columns of so many rows, as far as these are strips: how many rows of a stretch become tiles.
    fn in_strips(&self, kernels: Kernels, steps: &Steps, rows: usize, cols: &Range<usize>) -> Option<usize> {
        let [first, end] = [cols.start, cols.end.saturating_sub(1)].map(|at| floor_div_usize(at, self.c.panel));
        let mut tiles = 0;
        // All panels between the first and the last one are as the second.
        for panel in [first, end.min(first + 1), end] {
            let piece = self.piece(panel, cols);
            for (_, set, cols) in self.sets(kernels, &piece, rows) {
                if !self.takes_strips(set, rows, cols) {
                    return None;
                }
                tiles = tiles.max(self.tiles_of_stretch(set, steps));
            }
        }
        Some(tiles)
    }

    /// All rows of a block against the columns of a kernel; the arguments as for `tiles`.
    ///
    /// # Safety
    /// As `panel`.
    unsafe fn strips_and_tiles(&self, set: &KernelSet, args: &Args<'_>, first: (usize, usize), then: Option<Then<'_>>) {
        let (all, mut row) = (args.rows, 0);
        if !self.takes_strips(set, all.len(), args.cols) {
            // SAFETY: promised by the caller.
            return unsafe { self.tiles(set, args, first, then) };
        }
        while row < all.len() {
            let rows = |range: Range<usize>| Args { rows: all.get(range).unwrap_or_default(), ..*args };
            // SAFETY: promised by the caller.
            unsafe {
                let (done, others) = self.strip(set, &rows(row..all.len()), (first.0 + row, first.1), then);
                row += done;
                if others > 0 {
                    self.tiles(set, &rows(row..row + others), (first.0 + row, first.1), then);
                    row += others;
                }
            }
        }
    }

    /// All rows of a block against the columns of a kernel, tile by tile. `args` describes all rows.
    ///
    /// # Safety
    /// As `panel`; the first row and column are those of `args`.
    unsafe fn tiles(&self, set: &KernelSet, args: &Args<'_>, first: (usize, usize), then: Option<Then<'_>>) {
        let (all, direct) = (args.rows, set.writes(args.cols));
        let most = set.kernels.len();
        let line = if most >= MOST_ROWS { self.line } else { Line::NONE };
        let (tiles, mut row, mut tile) = (ceil_div_usize(all.len(), most), 0, 0);
        while row < all.len() {
            let end = line.end(row, (first.0, all.len()), most);
            let next = self.next(args.w, args.w_stride, (first.1, tile, tiles));
            tile += 1;
            let args = Args { rows: all.get(row..).unwrap_or_default(), next, ..*args };
            let place =
                Place { direct, rows: end - row, cols: args.cols, first_row: first.0 + row, first_col: first.1 };
            // SAFETY: promised by the caller.
            unsafe { self.tile(set.cols, args, &place, then, |args| run_kernel(set, args, place.rows)) };
            row = end;
        }
    }
}

impl Job<'_> {
    /// What tile number `tile` of a panel fetches: the first two, half of the next panel each, where it fits the cache; the
    /// others what they have.
    fn next(&self, w: *const f32, width: usize, (column, tile, tiles): (usize, usize, usize)) -> *const f32 {
        let len = self.c.k().saturating_mul(width);
        if tiles > 1 && tile < 2 && len <= NEXT_FLOATS && floor_mod_usize(column, self.c.panel) == 0 {
            let next = if self.back { w.wrapping_sub(len) } else { w.wrapping_add(len) };
            next.wrapping_add(tile * (len / 2))
        } else {
            w
        }
    }
}

/// # Safety
/// As the kernels.
unsafe fn run_kernel(set: &KernelSet, args: &Args<'_>, rows: usize) {
    if let Some(kernel) = rows.checked_sub(1).and_then(|i| set.kernels.get(i)) {
        // SAFETY: promised by the caller.
        unsafe { kernel(args) }
    }
}
