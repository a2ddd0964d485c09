//! Walks blocks of tiles: transforms their data, multiplies position by position, transforms the sums back.
mod place;

#[cfg(feature = "threads")]
use super::portions::{portions, portions_of_batches};
use super::transform::{Data, Finish, GROUP, Group, NO_GROUP, Sums};
use super::{Slices, Winograd};
use crate::contraction::cuts::Line;
use crate::contraction::job::{Job, offset};
use crate::contraction::kernel::LINE;
use crate::contraction::packed::{PackedRows, Tiles, padded};
use crate::contraction::packed_kernel::PackedSet;
use crate::contraction::parts::{self, Shared};
use crate::contraction::table::{BLOCK, Block, EMPTY, Row, fill};
use crate::contraction::{Bound, Contraction, Epilogue, RowAxis, Tap, Then, Tile, kernels, packed_kernels};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
#[cfg(feature = "threads")]
use crate::portions::Portions;
use crate::raw::{Dst, Src};
use core::ops::Range;
use place::Place;

/// One run: the operands, and where valid input pixels lie along both axes.
struct Run<'a> {
    shape: &'a Winograd,
    cx: Cx<'a>,
    batch: [usize; 2],
    a: *const f32,
    w: *const f32,
    out: *mut f32,
    residual: *const f32,
    bias: *const f32,
    accumulate: bool,
    clamp: Option<(f32, f32)>,
    /// The micro-kernels, and most rows of their tiles.
    sets: &'a [&'a PackedSet],
    most: usize,
    /// Transformed data and sums.
    data: *mut f32,
    sums: *mut f32,
    /// Pixels by which the window moves, pieces of it along both axes, and taps between these.
    stride: usize,
    pieces: [usize; 2],
    apart: usize,
    /// From a pixel of the data to the next one along both axes.
    pixel: [isize; 2],
    /// Pixels along both axes that taps are apart: as many images of such pixels, one behind the other.
    gaps: [usize; 2],
    /// Tiles along both axes of one of these images, and of all.
    own_tiles: [usize; 2],
    tiles: [usize; 2],
    /// First valid input pixel along both axes, and the end; 0 is the first tap of output pixel 0.
    valid: [(usize, usize); 2],
    /// The slices of the result that are computed at present.
    slices: Range<usize>,
}

// SAFETY: all pointers are shared to be read, but for the working memory and the result, of which parts that run at the
// same time write their own tiles or positions only.
unsafe impl Sync for Run<'_> {}

/// Columns of the narrowest tile.
const COLUMNS: usize = 8;
/// Floats transformed, and multiply-adds, that take a microsecond.
const MOVED: usize = 4 * 1024;
const MULTIPLIED: usize = 64 * 1024;

/// # Safety
/// The descriptor fits all operands.
// A frame of its own: its block of rows is off the stack when the next kernel runs.
#[inline(never)]
pub(super) unsafe fn run(
    shape: &Winograd,
    cx: Cx<'_>,
    a: Src<'_, f32>,
    w: &[f32],
    scratch: &mut [f32],
    out: Dst<'_, f32>,
    epilogue: Epilogue<'_>,
) {
    let c = &shape.product;
    let batches = c.batches[0].extent.saturating_mul(c.batches[1].extent);
    let (cx, memory, shared) =
        (parts::context(c, cx), (scratch.as_mut_ptr(), scratch.len()), Shared::new(a, w, out, epilogue));
    #[cfg(feature = "threads")]
    if let Some(portions) = portions_of_batches(shape, cx.threads(), memory, batches) {
        return cx.split(batches, |range| {
            portions.lend(|data| {
                for batch in range.clone() {
                    let run = Run::new(shape, cx.alone(), batch, &shared, data);
                    // SAFETY: promised by the caller; batches have results of their own, and the portion is lent.
                    unsafe { run.all((data, portions.len), shared.epilogue.then) };
                }
            });
        });
    }
    for batch in 0..batches {
        // SAFETY: promised by the caller.
        unsafe { Run::new(shape, cx, batch, &shared, memory.0).all(memory, shared.epilogue.then) };
    }
}

/// Where the sums lie behind the data.
fn sums_behind(shape: &Winograd, data: *mut f32) -> *mut f32 {
    data.wrapping_add(shape.positions() * shape.data_plane())
}

/// Input pixels along an axis that the convolution reads: all that some output pixel's tap reaches, but the padding.
fn valid(c: &Contraction, row: RowAxis, tap: u8, (stride, gap): (usize, usize)) -> (usize, usize) {
    let reach = |count: usize, step: usize| count.saturating_sub(1).saturating_mul(step);
    let taps = reach(c.taps[usize::from(tap) & 3].extent, gap);
    let (mut first, mut end) = (0, reach(row.extent, stride).saturating_add(taps).saturating_add(1));
    for bound in c.bounds.iter().filter(|bound| bound.limit != 0 && bound.tap == tap) {
        first = first.max(bound.offset.saturating_neg().max(0) as usize);
        end = end.min((bound.limit as isize).saturating_sub(bound.offset).max(0) as usize);
    }
    (first, end)
}

impl<'a> Run<'a> {
    /// One batch.
    fn new(shape: &'a Winograd, cx: Cx<'a>, batch: usize, shared: &Shared<'_>, data: *mut f32) -> Self {
        let (c, lines, gaps) = (&shape.product, shape.lines(), [shape.gap(0), shape.gap(1)]);
        let own = |i: usize| ceil_div_usize(ceil_div_usize(lines[i].extent, gaps[i]), shape.tile()[i]);
        let (own_tiles, stride) = ([own(0), own(1)], shape.stride());
        let inner = c.batches[1].extent;
        let batch = [floor_div_usize(batch, inner), floor_mod_usize(batch, inner)];
        let job = Job::new(c, batch, shared.a, shared.w, shared.out, &shared.epilogue);
        let sets = packed_kernels::of(cx.isa(), c.panel);
        Run {
            shape,
            cx,
            batch,
            a: job.a,
            w: job.w,
            out: job.out,
            residual: job.residual,
            bias: job.bias,
            accumulate: job.accumulate,
            clamp: job.clamp,
            sets,
            most: packed_kernels::most_rows(sets),
            data,
            sums: sums_behind(shape, data),
            stride,
            pieces: shape.pieces(),
            apart: shape.apart(),
            pixel: [0, 1].map(|i| if stride > 1 { c.taps[2 + i].a } else { lines[i].a }),
            gaps,
            own_tiles,
            tiles: [0, 1].map(|i| own_tiles[i].saturating_mul(gaps[i].min(lines[i].extent))),
            valid: [0, 1].map(|i| valid(c, lines[i], 2 + i as u8, (stride, gaps[i]))),
            slices: 0..1,
        }
    }

    /// All tiles of all slices, with working memory of a start and so many floats.
    ///
    /// # Safety
    /// The descriptor fits all operands.
    unsafe fn all(&self, memory: (*mut f32, usize), then: Option<Then<'_>>) {
        let (c, [y, x]) = (&self.shape.product, self.shape.lines());
        let slices = self.shape.slices.map_or(1, |slices| c.rows[usize::from(slices.axis) & 3].extent);
        let pixels = y.extent.saturating_mul(x.extent);
        let images = floor_div_usize(c.m(), pixels.saturating_mul(slices));
        let count = images.saturating_mul(self.tiles[0]).saturating_mul(self.tiles[1]);
        let mut first = 0;
        while first < slices {
            let end = slices.min(first + self.shape.slices());
            // SAFETY: promised by the caller.
            unsafe { Run { slices: first..end, ..*self }.present(memory, count, then) };
            first = end;
        }
    }

    /// All tiles of the present slices, of which there are `count` in each, with working memory of a start and so many
    /// floats.
    ///
    /// # Safety
    /// The descriptor fits all operands.
    #[cfg_attr(not(feature = "threads"), allow(unused_variables))]
    unsafe fn present(&self, memory: (*mut f32, usize), count: usize, then: Option<Then<'_>>) {
        // SAFETY: promised by the caller.
        unsafe {
            #[cfg(feature = "threads")]
            if let Some((portions, block)) = portions(self.shape, self.cx.threads(), memory, count) {
                return match block < count {
                    true => self.apart(&portions, block, count, then),
                    false => self.by_columns(&portions, count, then),
                };
            }
            self.blocks(0..count, then);
        }
    }

    /// Tiles in blocks of equal size, each with the help of all threads.
    ///
    /// # Safety
    /// The descriptor fits all operands; the tiles exist.
    unsafe fn blocks(&self, tiles: Range<usize>, then: Option<Then<'_>>) {
        let mut first = tiles.start;
        while first < tiles.end {
            let n = self.shape.block.min(tiles.end - first);
            // SAFETY: promised by the caller.
            unsafe { self.block(first, n, then) };
            first += n;
        }
    }

    /// All tiles in blocks that threads compute alone, in a portion of the working memory each: what they transform stays in
    /// their caches.
    ///
    /// # Safety
    /// As `blocks`; the portions are of the working memory.
    #[cfg(feature = "threads")]
    unsafe fn apart(&self, portions: &Portions, block: usize, count: usize, then: Option<Then<'_>>) {
        let shape = Winograd { block, ..*self.shape };
        self.cx.split(ceil_div_usize(count, shape.block), |blocks| {
            portions.lend(|data| {
                let (cx, slices, sums) = (self.cx.alone(), self.slices.clone(), sums_behind(&shape, data));
                let run = Run { shape: &shape, cx, data, sums, slices, ..*self };
                let tiles = blocks.start * shape.block..count.min(blocks.end * shape.block);
                // SAFETY: promised by the caller; blocks have tiles of their own, and the portion is lent.
                unsafe { run.blocks(tiles, then) };
            });
        });
    }

    /// One block, whose chunks of columns threads compute alone: each of them transforms the data of all tiles, which are
    /// few, so that no cache has to fetch from another what was just written.
    ///
    /// # Safety
    /// As `apart`.
    #[cfg(feature = "threads")]
    unsafe fn by_columns(&self, portions: &Portions, count: usize, then: Option<Then<'_>>) {
        let (chunks, parts) = (self.shape.chunks(), self.cx.threads());
        let at = |part: usize| floor_div_usize(chunks * part, parts);
        self.cx.split(parts, |range| {
            portions.lend(|data| {
                let (cx, slices, sums) = (self.cx.alone(), self.slices.clone(), sums_behind(self.shape, data));
                let run = Run { cx, data, sums, slices, ..*self };
                // SAFETY: promised by the caller; parts have columns of their own, and the portion is lent.
                unsafe {
                    run.transform(0, count);
                    run.columns(0, count, at(range.start)..at(range.end), then);
                }
            });
        });
    }

    /// Computes items 0..count, in about so many parts.
    fn split(&self, count: usize, parts: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
        let parts = parts.min(count).max(1);
        let at = |part: usize| floor_div_usize(count.saturating_mul(part), parts);
        self.cx.split(parts, |range| work(at(range.start)..at(range.end)));
    }

    /// # Safety
    /// The descriptor fits all operands; the tiles exist.
    unsafe fn block(&self, first: usize, n: usize, then: Option<Then<'_>>) {
        // SAFETY: promised by the caller.
        unsafe {
            self.transform(first, n);
            self.columns(first, n, 0..self.shape.chunks(), then);
        }
    }

    /// Transforms the data of n tiles, in all slices that the present ones of the result read.
    ///
    /// # Safety
    /// As `block`.
    unsafe fn transform(&self, first: usize, n: usize) {
        let slices = self.data_slices();
        let count = n.saturating_mul(slices.len());
        let work = self.shape.positions().saturating_mul(count).saturating_mul(self.shape.depth());
        self.split(count, self.cx.parts(work, MOVED), &|tiles| {
            for i in tiles {
                let slice = slices.start + floor_div_usize(i, n);
                let place = self.place(first + floor_mod_usize(i, n), slice);
                let (to, step) = self.row((slice - self.slices.start) * n + floor_mod_usize(i, n), n);
                self.pieces(&place, to, step);
            }
        });
    }

    /// Transforms the data of a tile for every piece of the window.
    fn pieces(&self, place: &Place, to: *mut f32, step: usize) {
        let (shape, channels, [lines, across]) = (self.shape, self.shape.product.depth, self.pieces);
        let (size, written) = (shape.size(), if shape.has_pieces() { padded(channels) } else { channels });
        let (mut to, plane) = (to, shape.data_plane());
        for y in 0..lines {
            for x in 0..across {
                let pixels = self.pixels(place, size, [y * self.apart, x * self.apart]);
                self.cx.dispatch(Data { size, pixels: &pixels, channels, written, to, step, plane });
                to = to.wrapping_add(ceil_div_usize(channels, LINE) * step);
            }
        }
    }

    /// Some chunks of columns of n tiles, whose data are transformed.
    ///
    /// # Safety
    /// As `block`; the chunks exist.
    unsafe fn columns(&self, first: usize, n: usize, chunks: Range<usize>, then: Option<Then<'_>>) {
        let (c, positions) = (&self.shape.product, self.shape.positions());
        for chunk in chunks {
            let column = chunk * self.shape.chunk;
            let width = self.shape.width(column);
            // SAFETY: promised by the caller; chunks before this one are whole.
            unsafe { self.multiply(n, (column, width), positions * column * self.shape.sum()) };
            let end = c.cols.min(column + self.shape.chunk);
            let count = n.saturating_mul(self.slices.len());
            let work = positions.saturating_mul(count).saturating_mul(width);
            self.split(count, self.cx.parts(work, MOVED), &|tiles| {
                let mut group = NO_GROUP;
                for i in tiles {
                    let place = self.place(first + floor_mod_usize(i, n), self.slices.start + floor_div_usize(i, n));
                    // SAFETY: promised by the caller; tiles are disjoint.
                    unsafe { self.restore(&place, i, (column, end, width), &mut group, then) };
                }
            });
        }
    }

    /// The slices of the data, from the first tap of slice 0 on, that the present slices of the result read.
    fn data_slices(&self) -> Range<usize> {
        let Some(Slices { axis, .. }) = self.shape.slices else { return 0..1 };
        let c = &self.shape.product;
        let (first, end) = valid(c, c.rows[usize::from(axis) & 3], 1, (1, 1));
        let reach = c.taps[1].extent.saturating_sub(1);
        let end = end.min(self.slices.end.saturating_add(reach));
        self.slices.start.max(first).min(end)..end
    }

    /// Where the transformed data of tile number i of n begins in the first plane, packed as the rows of a product; and the
    /// distance of its chunks. Tiles of slices follow each other as they are.
    fn row(&self, i: usize, n: usize) -> (*mut f32, usize) {
        let depth = padded(self.shape.depth());
        if self.shape.slices.is_some() {
            return (self.data.wrapping_add(i * depth), LINE);
        }
        let (first, i) = (floor_div_usize(i, BLOCK) * BLOCK, floor_mod_usize(i, BLOCK));
        let rows = Tiles::new(BLOCK.min(n - first), self.most, 1).around(i);
        let at = (first + rows.start) * depth + (i - rows.start) * LINE;
        (self.data.wrapping_add(at), rows.len() * LINE)
    }

    /// The transformed data of n tiles times the chunk of weights at offset `w`, position by position.
    ///
    /// # Safety
    /// As `block`.
    unsafe fn multiply(&self, n: usize, (column, width): (usize, usize), w: usize) {
        let c = self.position(n, (column, width));
        let mut block: Block = EMPTY;
        let mut first = 0;
        while first < c.m() {
            let count = BLOCK.min(c.m() - first);
            fill(&c, &mut block, first, count);
            let work = self.shape.positions().saturating_mul(count).saturating_mul(width).saturating_mul(c.k());
            let rows = block.get(..count).unwrap_or_default();
            self.split(self.shape.positions(), self.cx.parts(work, MULTIPLIED), &|positions| {
                for position in positions {
                    // SAFETY: promised by the caller.
                    unsafe { self.product(&c, (first, rows), position, w + position * width * c.k()) };
                }
            });
            first += count;
        }
    }

    /// The product of one position: a matrix product of tiles, or a convolution along slices. Sums of a row have room for the
    /// width; those beyond the columns are computed as far as vectors reach.
    fn position(&self, n: usize, (column, width): (usize, usize)) -> Contraction {
        let cols = ceil_div_usize(self.shape.product.cols - column, COLUMNS).saturating_mul(COLUMNS).min(width);
        let (c, depth) = (&self.shape.product, padded(self.shape.depth()));
        let tiles = RowAxis { extent: n, a: depth as isize, out: width, residual: 0 };
        let one = Contraction { depth: self.shape.depth(), cols, panel: c.panel, ..Contraction::NEW };
        let Some(Slices { axis, .. }) = self.shape.slices else {
            return Contraction { rows: [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, tiles], ..one };
        };
        let a = n.wrapping_mul(depth) as isize;
        let slices = RowAxis { extent: self.slices.len(), a, out: n.wrapping_mul(width), residual: 0 };
        let bounds = c.bounds.map(|bound| match bound.row == axis {
            true => Bound { row: 2, tap: 3, offset: bound.offset.saturating_add(self.slices.start as isize), ..bound },
            false => Bound::NONE,
        });
        Contraction {
            rows: [RowAxis::ONE, RowAxis::ONE, slices, tiles],
            taps: [Tap::ONE, Tap::ONE, Tap::ONE, Tap { extent: c.taps[1].extent, a }],
            bounds,
            ..one
        }
    }

    /// Some rows of the product of one position, tabled from the first on.
    ///
    /// # Safety
    /// As `multiply`.
    unsafe fn product(&self, c: &Contraction, (first, rows): (usize, &[Row]), position: usize, w: usize) {
        let data = self.data.wrapping_add(position * self.shape.data_plane());
        let job = Job {
            c,
            batch: [0; 2],
            a: data,
            w: self.w.wrapping_add(w),
            out: self.sums.wrapping_add(position * self.shape.sums_plane()),
            bias: core::ptr::null(),
            residual: core::ptr::null(),
            accumulate: false,
            in_place: false,
            clamp: None,
            bend: None,
            rows_are_apart: true,
            back: false,
            line: Line::NONE,
            steps: None,
            plane: None,
        };
        // SAFETY: data, sums and weights have the block's rows and columns.
        unsafe {
            if self.shape.slices.is_some() {
                return job.panels(kernels::of(self.cx.isa()), (first, rows), 0..c.cols, None);
            }
            let at = data.wrapping_add(first * padded(c.depth));
            let tiles = Tiles::new(rows.len(), self.most, 1);
            PackedRows { job: &job, rows, first_row: first, at, k: 0..c.depth, tiles, direct: None }.all(self.sets);
        }
    }

    /// Transforms the sums of tile number i of the block back and finishes its pixels.
    ///
    /// # Safety
    /// As `block`; columns `first..end` are those of the chunk, which is `width` wide with padding.
    unsafe fn restore(
        &self,
        place: &Place,
        i: usize,
        (first, end, width): (usize, usize, usize),
        group: &mut Group,
        then: Option<Then<'_>>,
    ) {
        let (tile, [y, x]) = (self.shape.tile(), self.shape.lines());
        let [y0, x0] = place.first;
        let left = [y.extent.saturating_sub(y0), x.extent.saturating_sub(x0)];
        let size = [0, 1].map(|i| tile[i].min(ceil_div_usize(left[i], self.gaps[i])));
        if size.contains(&0) {
            return;
        }
        let out = self.out.wrapping_add(place.out + y0 * y.out + x0 * x.out);
        let residual = offset(self.residual, place.residual + y0 * y.residual + x0 * x.residual);
        let mut column = first;
        while column < end {
            let cols = GROUP.min(end - column);
            let finish = Finish {
                size,
                cols,
                out: out.wrapping_add(column),
                out_step: [y.out.wrapping_mul(self.gaps[0]), x.out.wrapping_mul(self.gaps[1])],
                residual: offset(residual, column),
                residual_step: [y.residual.wrapping_mul(self.gaps[0]), x.residual.wrapping_mul(self.gaps[1])],
                bias: offset(self.bias, column),
                accumulate: self.accumulate,
                clamp: self.clamp,
            };
            self.cx.dispatch(Sums {
                tile,
                size: self.shape.size(),
                from: self.sums.wrapping_add(i * width + column - first),
                plane: self.shape.sums_plane(),
                cols: width - (column - first),
                to: group,
                finish,
            });
            if let Some(then) = then {
                let first_row = place.row + y0 * x.extent + x0;
                // SAFETY: promised by the caller.
                unsafe { self.show(then, &finish, (first_row, column)) };
            }
            column += GROUP;
        }
    }

    /// Shows the closure the pixels of a tile where they lie, line by line.
    ///
    /// # Safety
    /// They are inside the result, which is borrowed.
    unsafe fn show(&self, then: Then<'_>, finish: &Finish, (first_row, column): (usize, usize)) {
        let (width, [lines, pixels], [line, step]) = (self.shape.lines()[1].extent, finish.size, finish.out_step);
        let [gap_y, gap_x] = self.gaps;
        for y in 0..lines {
            let (place, out) = ((first_row + y * gap_y * width, column), finish.out.wrapping_add(y * line));
            // SAFETY: promised by the caller.
            unsafe { Tile::show(then, self.batch, place, out, (pixels, gap_x, step), finish.cols) };
        }
    }
}
