//! 3x3 convolutions that can be computed by minimal filtering: their form, their transformed weights, and blocks of tiles.

mod choice;

pub(super) use choice::choose;

use super::pack::{Values, f32_tensor, flattened};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::program::kernel::{Description, Kernel, KernelKind, WindowBound, Winograd};
use crate::program::{BufferId, Program, Role};
use include_ir_runtime::__private::v1 as runtime;

/// Rows of the largest register tile.
const TILE_ROWS: usize = 12;
/// Bytes that data, sums and weights of a block share: half of the second-level cache of a server, all of a smaller one.
const CACHE: usize = 1024 * 1024;
/// Bytes of it that transformed data and sums may take while weights stream through it.
const STREAMED: usize = CACHE * 5 / 8;

/// Blocks, or parts of a single one, for which there is working memory: threads compute them apart from each other.
const PORTIONS: usize = 2;

/// A convolution of the form.
pub(super) struct Form {
    /// Positions among the row axes of the axes along which tap axes 0 and 1 slide.
    axes: [usize; 2],
    images: i64,
    height: i64,
    width: i64,
    depth: i64,
    columns: i64,
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
    let mut packed = vec![0.0f32; shape.weights_len()];
    runtime::pack_winograd(&shape, &mut packed, |tap, d, n| values.at(offset + taps[tap] + depth[d] + columns[n]));
    let name = program.buffer(source).name.clone();
    let divided = form.tiles(tile) > winograd.block as i64 || form.columns > winograd.chunk as i64;
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

/// The form that the kernel takes: constant weights, two tap axes of extent 3 that slide without gaps along the last two
/// row axes, and constant sizes but for those of the image.
pub(super) fn form(program: &Program, kernel: &Kernel, d: &Description) -> Option<Form> {
    let KernelKind::Contraction { weights, .. } = &kernel.kind else { return None };
    program.buffer(kernel.buffer_of(*weights)?).constant()?;
    let [first, second] = d.taps.as_slice() else { return None };
    if !d.batches.iter().all(|axis| axis.extent.is(1)) {
        return None;
    }
    let last = d.rows.iter().rposition(|axis| !axis.extent.is(1))?;
    let axes = [last.checked_sub(1)?, last];
    for (i, tap) in [first, second].into_iter().enumerate() {
        let row = d.rows.get(axes[i])?;
        let slides = tap.extent.is(3) && tap.strides.data == row.strides.data;
        let own = |bound: &&WindowBound| bound.row == Some(axes[i]) || bound.tap == Some(i);
        let whole = |bound: &WindowBound| {
            (bound.row, bound.tap, bound.stride, bound.dilation) == (Some(axes[i]), Some(i), 1, 1)
        };
        if !slides || !d.bounds.iter().filter(own).all(whole) {
            return None;
        }
    }
    if d.bounds.iter().any(|bound| bound.row.is_none() && bound.tap.is_none()) {
        return None;
    }
    let size = |axis: usize| d.rows.get(axis).map(|axis| axis.extent.upper_bound());
    let images: Vec<Dim> = d.rows[..axes[0]].iter().map(|axis| axis.extent.clone()).collect();
    let columns: Vec<Dim> = d.columns.iter().map(|axis| axis.extent.clone()).collect();
    Some(Form {
        axes,
        images: product(&images).upper_bound(),
        height: size(axes[0])?,
        width: size(axes[1])?,
        depth: d.depth.as_ref()?.extent.as_const()?,
        columns: product(&columns).as_const()?,
    })
}

impl Form {
    /// Tiles of all images.
    fn tiles(&self, tile: i64) -> i64 {
        let along = |size: i64| size.saturating_add(tile - 1) / tile;
        self.images.saturating_mul(along(self.height)).saturating_mul(along(self.width))
    }

    /// Blocks of equal size, such that transformed data and sums stay in the second-level cache beside the weights.
    fn blocks(&self, tile: i64, panel: usize, scratch: BufferId) -> Winograd {
        let positions = (tile + 2) as usize * (tile + 2) as usize;
        let [tiles, depth, columns] =
            [self.tiles(tile), self.depth, self.columns].map(|n| usize::try_from(n).unwrap_or(usize::MAX).max(1));
        let plane = 4 * positions;
        let weights = plane.saturating_mul(depth).saturating_mul(columns);
        let room = CACHE.saturating_sub(weights).max(CACHE / 4);
        let room = if weights > CACHE * 3 / 4 { STREAMED } else { room };
        let most = (room / plane / depth.saturating_add(panel)).max(TILE_ROWS);
        let block = tiles.div_ceil(tiles.div_ceil(most));
        let left = room.saturating_sub(plane.saturating_mul(block).saturating_mul(depth));
        // A single block is divided among threads by columns.
        let share = if block < tiles { usize::MAX } else { columns.div_ceil(panel).div_ceil(PORTIONS) };
        let chunk = (left / plane / block / panel).clamp(1, share) * panel;
        Winograd { axes: self.axes, tile: tile as usize, block, chunk, scratch }
    }

    /// The descriptor as far as packing and sizes need it.
    fn shape(&self, winograd: &Winograd, panel: usize) -> runtime::Winograd {
        let [depth, cols] = [self.depth, self.columns].map(|n| usize::try_from(n).unwrap_or(0));
        runtime::Winograd {
            product: runtime::Contraction { depth, cols, panel, ..runtime::Contraction::NEW },
            axes: [0, 1],
            tile: winograd.tile,
            block: winograd.block,
            chunk: winograd.chunk,
        }
    }
}
