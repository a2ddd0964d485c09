//! Convolutions that can be computed by minimal filtering, of volumes and along lines too: their form, their transformed weights, and
//! blocks of tiles.

mod choice;
mod lines;

pub(super) use choice::choose;
pub(super) use lines::by_lines;

use super::pack::{Values, f32_tensor, flattened};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::program::kernel::{Description, Kernel, KernelAxis, KernelKind, WindowBound, Winograd};
use crate::program::{BufferId, Program, Role};
use include_ir_runtime::__private::v1 as runtime;
use std::ops::RangeInclusive;

/// Taps of a window along its longer axis, of a line, and of either that moves two pixels at a time.
const WINDOWS: RangeInclusive<i64> = 2..=8;
const LINES: RangeInclusive<i64> = 2..=17;
const STRIDED: RangeInclusive<i64> = 4..=8;
/// Most elements that taps of a dilated window are apart.
const LARGEST_GAP: i64 = 1 << 16;
/// Taps of the largest windows that are not computed as several.
const WHOLE: i64 = 5;
/// Points along an axis at which pieces of larger ones are multiplied.
const POINTS: i64 = 6;
/// Rows of the largest register tile.
const TILE_ROWS: usize = 12;
/// Bytes that data, sums and weights of a block share: half of the second-level cache of a server, all of a smaller one.
const CACHE: usize = 1024 * 1024;
/// Bytes of it that transformed data and sums may take while weights stream through it.
const STREAMED: usize = CACHE * 5 / 8;

/// Plain sums leave out the lines of a window that lie in the padding if at most this part of them does not, and lines of the result
/// have this many pixels. Lines are counted up to so many.
const MOST_INSIDE: f64 = 0.9;
const LEAST_LINE: i64 = 7;
const MOST_COUNTED: i64 = 128;

/// Channels that data of pieces of a window are padded to.
const VECTOR: i64 = 16;

/// Channels and columns of merged groups, whose zeros the plain sum leaves out, and the part of its time that it takes besides.
const MERGED: i64 = 16;
const FOLDED: f64 = 0.2;

/// In place of an axis.
const NO_AXIS: usize = runtime::Bound::NO_AXIS as usize;

/// Slices of the result in a block, where there are as many: fewer would transform most data twice.
const LEAST_SLICES: i64 = 4;

/// Blocks, or parts of a single one, for which there is working memory: threads compute them apart from each other.
const PORTIONS: usize = 2;

/// A convolution of the form.
pub(super) struct Form {
    /// Positions among the row axes of the axes along which the last two tap axes slide; the first one is [`NO_AXIS`] for a window
    /// of one line.
    axes: [usize; 2],
    /// Of volumes.
    slices: Option<Slices>,
    /// Pixels of the window along both axes, the longer one of which has one of [`WINDOWS`] or [`STRIDED`]; or 1 and one of [`LINES`].
    window: [i64; 2],
    /// Pixels by which it moves along each axis: 1 or 2.
    stride: i64,
    /// Pixels that its taps are apart along both axes.
    gaps: [i64; 2],
    /// Part of the plain sum's products that is computed: lines of the window that lie in the padding are left out if they are many,
    /// and zeros between merged groups.
    inside: f64,
    groups: i64,
    /// Groups that have weights of their own.
    own: i64,
    images: i64,
    height: i64,
    width: i64,
    depth: i64,
    columns: i64,
}

/// Slices of a volume.
struct Slices {
    /// Position of their axis among the row axes.
    axis: usize,
    /// Of the result.
    count: i64,
    /// Over which a window extends.
    taps: i64,
}

/// Transformed weights, and blocks, for tiles of so many pixels along each axis.
pub(super) fn contraction(
    program: &mut Program,
    kernel: &Kernel,
    (description, form): (&Description, &Form),
    panel: usize,
    tile: i64,
) -> Option<(BufferId, Winograd)> {
    let KernelKind::Contraction { weights, .. } = &kernel.kind else { return None };
    let source = kernel.buffer_of(*weights)?;
    let tensor = program.buffer(source).constant()?.clone();
    let values = Values::new(&tensor)?;
    let mut winograd = form.blocks(tile, panel, source);
    let shape = form.shape(&winograd, panel);
    let (taps, depth, columns) =
        (flattened(&description.taps)?, flattened(&description.depth)?, flattened(&description.columns)?);
    let (taps, depth, columns) = (taps.as_slice(), depth.as_slice(), columns.as_slice());
    let offset = description.weights_offset.as_const()?;
    let (batches, one) = (flattened(description.own_batches())?, shape.weights_len());
    let mut packed = vec![0.0f32; one.checked_mul(batches.len())?];
    for (batch, part) in batches.into_iter().zip(packed.chunks_exact_mut(one.max(1))) {
        let start = offset + batch;
        runtime::pack_winograd(&shape, part, |tap, d, n| values.at(start + taps[tap] + depth[d] + columns[n]));
    }
    let name = program.buffer(source).name.clone();
    let divided = form.groups > 1 || form.tiles(tile) > winograd.block as i64 || form.columns > winograd.chunk as i64;
    let portions = if divided { PORTIONS } else { 1 };
    let scratch = vec![Dim::from(shape.scratch_len().checked_mul(portions)?)];
    winograd.scratch = program.add_buffer(&name, ElementType::F32, scratch, Role::Scratch);
    // Indices, as for [`Values`].
    let (mut elements, mut i) = (vec![[0; 4]; packed.len()], 0);
    let (from, to) = (packed.as_slice(), elements.as_mut_slice());
    while i < from.len() {
        to[i] = from[i].to_le_bytes();
        i += 1;
    }
    Some((program.add_constant(&name, f32_tensor(elements)), winograd))
}

/// The form that the kernel takes: constant weights, two tap axes of the extent of a window, or one of a line, that slide along the last row
/// axes, one pixel at a time, with gaps or without, or two without; before them at most one, but not before windows in pieces, that slides along
/// slices; and constant sizes but for those of the image.
pub(super) fn form(program: &Program, kernel: &Kernel, d: &Description) -> Option<Form> {
    let KernelKind::Contraction { weights, .. } = &kernel.kind else { return None };
    program.buffer(kernel.buffer_of(*weights)?).constant()?;
    let last = d.rows.iter().rposition(|axis| !axis.extent.is(1))?;
    let across = d.taps.last()?.extent.as_const().filter(|taps| *taps > 1)?;
    let along = |stride: i64| Some((stride, gap(d, last, d.taps.len() - 1, stride)?));
    let (stride, gap_x) = (1..=2).find_map(along)?;
    let has = |taps: i64, some: RangeInclusive<i64>| (if stride == 2 { STRIDED } else { some }).contains(&taps);
    if d.bounds.iter().any(|bound| bound.row.is_none() || bound.tap.is_none()) {
        return None;
    }
    let [slices @ .., first, _] = d.taps.as_slice() else {
        return line(d, last, [across, stride, gap_x]).filter(|_| has(across, LINES));
    };
    let (axes, lines) = ([last.checked_sub(1)?, last], first.extent.as_const().filter(|taps| *taps > 1)?);
    let longer = lines.max(across);
    let gaps = [gap(d, axes[0], slices.len(), stride)?, gap_x];
    if !has(longer, WINDOWS) {
        return None;
    }
    let size = |axis: usize| d.rows.get(axis).map(|axis| axis.extent.upper_bound());
    let slices = match slices {
        [] => None,
        [tap] if longer <= WHOLE && stride == 1 => {
            let axis = (0..axes[0]).find(|axis| gap(d, *axis, 0, 1) == Some(1))?;
            Some(Slices { axis, count: size(axis)?, taps: tap.extent.as_const()? })
        }
        _ => return None,
    };
    let is_image = |i: &usize| slices.as_ref().is_none_or(|slices| slices.axis != *i);
    let images = extent(d.rows.iter().take(axes[0]).enumerate().filter(|(i, _)| is_image(i)).map(|(_, axis)| axis));
    let form =
        Form { window: [lines, across], gaps, height: size(axes[0])?, ..line(d, last, [across, stride, gap_x])? };
    let folds = slices.is_none() && (form.window, form.depth, form.columns) == ([3, 3], MERGED, MERGED);
    let filled = if folds { filled(program, kernel, d)? } else { 1.0 };
    Some(Form {
        axes,
        slices,
        inside: filled * inside(d, axes, (stride, gaps[0])),
        images: images.upper_bound(),
        ..form
    })
}

/// The part of a plain sum's time that is left where its weights are those of merged groups, by a tap of the first batch.
fn filled(program: &Program, kernel: &Kernel, d: &Description) -> Option<f64> {
    let KernelKind::Contraction { weights, .. } = &kernel.kind else { return None };
    let values = Values::new(program.buffer(kernel.buffer_of(*weights)?).constant()?)?;
    let (depth, columns) = (flattened(&d.depth)?, flattened(&d.columns)?);
    let offset = d.weights_offset.as_const()?;
    let all = depth.iter().flat_map(|depth| columns.iter().map(move |column| offset + depth + column));
    let part = all.filter(|at| values.at(*at) != 0.0).count() as f64 / (MERGED * MERGED) as f64;
    Some(if part > 0.5 { 1.0 } else { part + FOLDED })
}

/// The form with a window of one line, which slides along row axis `last`.
fn line(d: &Description, last: usize, [taps, stride, gap]: [i64; 3]) -> Option<Form> {
    Some(Form {
        axes: [NO_AXIS, last],
        slices: None,
        window: [1, taps],
        stride,
        gaps: [1, gap],
        inside: 1.0,
        groups: extent(d.batches.iter()).upper_bound(),
        own: d.own_count().upper_bound(),
        images: extent(d.rows.iter().take(last)).upper_bound(),
        height: 1,
        width: d.rows.get(last)?.extent.upper_bound(),
        depth: d.depth.as_ref()?.extent.as_const()?,
        columns: extent(d.columns.iter()).as_const()?,
    })
}

/// How many indices all of these axes have together.
fn extent<'a>(axes: impl Iterator<Item = &'a KernelAxis>) -> Dim {
    product(&axes.map(|axis| axis.extent.clone()).collect::<Vec<_>>())
}

/// The part of the products of a window whose lines are not in the padding, or all where few are or lines of the result are short.
fn inside(d: &Description, [y, x]: [usize; 2], (stride, gap): (i64, i64)) -> f64 {
    let extent = |axis: Option<&KernelAxis>| axis.and_then(|axis| axis.extent.as_const());
    let Some(tap) = d.taps.len().checked_sub(2) else { return 1.0 };
    let bound = d.bounds.iter().find(|bound| (bound.row, bound.tap) == (Some(y), Some(tap)));
    let range = bound.and_then(|bound| Some((bound.offset.as_const()?, bound.limit.as_const()?)));
    let sizes = extent(d.rows.get(y)).zip(extent(d.taps.get(tap))).zip(extent(d.rows.get(x)));
    let (Some((offset, limit)), Some(((rows, taps), line))) = (range, sizes) else { return 1.0 };
    if rows > MOST_COUNTED || line < LEAST_LINE {
        return 1.0;
    }
    let of_row = |row: i64| {
        (0..taps).filter(|tap| (0..limit).contains(&offset.saturating_add(row * stride + tap * gap))).count()
    };
    let part = (0..rows).map(of_row).sum::<usize>() as f64 / (rows * taps).max(1) as f64;
    if part > MOST_INSIDE { 1.0 } else { part }
}

/// How many elements the taps of an axis are apart that slides along a row axis so many at a time, one if there are several, where no
/// bound is about one of the axes alone.
fn gap(d: &Description, row: usize, tap: usize, stride: i64) -> Option<i64> {
    let [moves, taps] = [&d.rows.get(row)?.strides.data, &d.taps.get(tap)?.strides.data];
    let own = |bound: &&WindowBound| bound.row == Some(row) || bound.tap == Some(tap);
    let known = taps.as_const().zip(moves.as_const()).and_then(|(tap, moves)| tap.checked_div(moves));
    let gap = match d.bounds.iter().find(own) {
        Some(bound) => bound.dilation,
        None if stride == 1 => known.unwrap_or(1),
        None => 1,
    };
    let whole = |bound: &WindowBound| {
        (bound.row, bound.tap, bound.stride, bound.dilation) == (Some(row), Some(tap), stride, gap)
    };
    let can = (1..=LARGEST_GAP).contains(&gap) && (stride == 1 || gap == 1);
    (can && taps.clone() * stride == moves.clone() * gap && d.bounds.iter().filter(own).all(whole)).then_some(gap)
}

/// `size` in whole parts.
fn whole(size: i64, part: i64) -> i64 {
    size.saturating_add(part - 1) / part * part
}

impl Form {
    /// Whether the window is one line.
    fn is_line(&self) -> bool {
        self.axes[0] == NO_AXIS
    }

    /// So many along each axis of the window.
    fn along_axes(&self, n: i64) -> i64 {
        if self.is_line() { n } else { n * n }
    }

    /// Taps of the window along its longer axis, as many as which it is taken to have along the other.
    fn longer(&self) -> i64 {
        self.window[0].max(self.window[1])
    }

    /// Taps along each axis of the window, or of its pieces.
    fn piece(&self, tile: i64) -> i64 {
        match self.longer() {
            taps if self.stride == 2 => (taps + 1) / 2,
            taps if taps > WHOLE => POINTS + 1 - tile,
            taps => taps,
        }
    }

    /// Pieces as which the window is computed, if it is.
    fn pieces(&self, tile: i64) -> Option<i64> {
        let [lines, across] = self.window;
        let along = |taps: i64| (taps + self.piece(tile) - 1) / self.piece(tile);
        if self.stride == 2 {
            return Some(self.along_axes(2));
        }
        (self.longer() > WHOLE).then(|| along(lines) * along(across))
    }

    /// Positions of a transformed tile.
    fn positions(&self, tile: i64) -> i64 {
        self.along_axes(tile + self.piece(tile) - 1)
    }

    /// Channels of the transformed data: those of all pieces, in whole vectors, if there are pieces.
    fn data_depth(&self, tile: i64) -> i64 {
        self.pieces(tile).map_or(self.depth, |pieces| whole(self.depth, VECTOR).saturating_mul(pieces))
    }

    /// Tiles of all images.
    fn tiles(&self, tile: i64) -> i64 {
        let parts = |size: i64, part: i64| size.saturating_add(part - 1) / part;
        let along = |size: i64, gap: i64| gap.min(size).saturating_mul(parts(parts(size, gap), tile));
        let tiles = self.images.saturating_mul(along(self.height, self.gaps[0]));
        tiles.saturating_mul(along(self.width, self.gaps[1]))
    }

    /// Slices over which a window extends.
    fn taps(&self) -> i64 {
        self.slices.as_ref().map_or(1, |slices| slices.taps)
    }

    /// Slices of the result.
    fn count(&self) -> i64 {
        self.slices.as_ref().map_or(1, |slices| slices.count)
    }

    /// Blocks of equal size, such that transformed data and sums stay in the second-level cache beside the weights.
    fn blocks(&self, tile: i64, panel: usize, scratch: BufferId) -> Winograd {
        let positions = self.positions(tile) as usize;
        let [tiles, depth, columns, taps] = [self.tiles(tile), self.data_depth(tile), self.columns, self.taps()]
            .map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1));
        let plane = 4 * positions;
        let weights = plane.saturating_mul(depth).saturating_mul(columns).saturating_mul(taps);
        let room = CACHE.saturating_sub(weights).max(CACHE / 4);
        let room = if weights > CACHE * 3 / 4 { STREAMED } else { room };
        // Floats of a position: of a tile, in all slices of a block.
        let floats = room / plane;
        let slices = self.slices_of_block(tiles, floats / depth.saturating_add(panel));
        let read = slices.saturating_add(taps - 1);
        let each = read.saturating_mul(depth).saturating_add(slices.saturating_mul(panel));
        let most = (floats / each).max(TILE_ROWS.div_ceil(slices));
        let block = tiles.div_ceil(tiles.div_ceil(most));
        let left = floats.saturating_sub(block.saturating_mul(read).saturating_mul(depth));
        // A single block is divided among threads by columns.
        let share = if block < tiles { usize::MAX } else { columns.div_ceil(panel).div_ceil(PORTIONS) };
        let chunk = (left / slices.saturating_mul(block) / panel).clamp(1, share) * panel;
        let slices = self.slices.as_ref().map(|of| (of.axis, slices));
        Winograd { axes: self.axes, slices, tile: tile as usize, block, chunk, scratch }
    }

    /// Slices of the result in a block: as many as there is room for, because blocks share the data of slices but not their
    /// transformation, in blocks of equal size.
    fn slices_of_block(&self, tiles: usize, room: usize) -> usize {
        let count = usize::try_from(self.count()).unwrap_or(usize::MAX).max(1);
        let most = (room / tiles.min(TILE_ROWS)).max(LEAST_SLICES as usize);
        count.div_ceil(count.div_ceil(most))
    }

    /// The descriptor as far as packing and sizes need it.
    fn shape(&self, winograd: &Winograd, panel: usize) -> runtime::Winograd {
        let [lines, across] = self.window;
        let all = [self.depth, self.columns, self.taps(), lines, across];
        let [depth, cols, taps, lines, across] = all.map(|n| usize::try_from(n).unwrap_or(0));
        let mut product = runtime::Contraction { depth, cols, panel, ..runtime::Contraction::NEW };
        (product.taps[1].extent, product.taps[2].extent, product.taps[3].extent) = (taps, lines, across);
        (product.rows[2].a, product.taps[3].a) = (self.stride as isize, 1);
        runtime::Winograd {
            product,
            axes: [1, 2],
            slices: winograd.slices.map(|(_, block)| runtime::Slices { axis: 0, block }),
            tile: winograd.tile,
            block: winograd.block,
            chunk: winograd.chunk,
        }
    }
}
