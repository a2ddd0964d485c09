//! Walks batches, blocks of rows, panels and tiles, and calls the micro-kernels.
use super::job::{Job, MOST_ROWS, Place, offset};
use super::kernel::{Args, KernelSet, Kernels};
use super::pack::panel_width;
use super::table::{BLOCK, EMPTY, Row, fill};
use super::{Contraction, Epilogue, Tile, kernels};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize};
use crate::raw::{Dst, Src};

/// Bytes of the left operand per block: a share of the second-level cache.
const BLOCK_BYTES: usize = 768 * 1024;

/// # Safety
/// The descriptor fits all operands.
// A frame of its own: the block of one kernel is off the stack when the next one runs.
#[inline(never)]
pub(super) unsafe fn run(
    c: &Contraction,
    cx: Cx<'_>,
    a: Src<'_, f32>,
    w: &[f32],
    mut out: Dst<'_, f32>,
    mut epilogue: Epilogue<'_>,
) {
    let kernels = kernels::of(cx.isa());
    let [b0, b1] = c.batches;
    for i0 in 0..b0.extent {
        for i1 in 0..b1.extent {
            let job = Job::new(c, [i0, i1], a, w, &mut out, &epilogue);
            // SAFETY: promised by the caller.
            unsafe { job.run(kernels, &mut epilogue.then) };
        }
    }
}

impl Job<'_> {
    /// # Safety
    /// The descriptor fits all operands.
    unsafe fn run(&self, kernels: Kernels, then: &mut Option<&mut dyn FnMut(Tile<'_>)>) {
        let m = self.c.m();
        // Blocks of equal size and whole tiles, so that the last one does not fall back to small tiles.
        let bytes = self.c.depth.saturating_mul(4).max(1);
        let most = (BLOCK_BYTES / bytes).clamp(MOST_ROWS.min(BLOCK), BLOCK);
        let tile = kernels.first().map_or(1, |set| set.kernels.len());
        let size =
            ceil_div_usize(ceil_div_usize(m, ceil_div_usize(m, most)), tile).saturating_mul(tile).clamp(1, BLOCK);
        let mut block = EMPTY;
        let mut first_row = 0;
        while first_row < m {
            let rows = size.min(m - first_row);
            fill(self.c, &mut block, first_row, rows);
            let (mut column, mut w) = (0, self.w);
            while column < self.c.cols {
                let width = panel_width(self.c.cols, column, self.c.panel);
                let rows = block.get(..rows).unwrap_or_default();
                // SAFETY: promised by the caller.
                unsafe { self.panel(kernels, (first_row, rows), (column, width), w, then) };
                w = w.wrapping_add(width * self.c.k());
                column += self.c.panel;
            }
            first_row += rows;
        }
    }

    /// All rows of a block against one panel of weights.
    ///
    /// # Safety
    /// As `run`; `rows` is tabled from `first_row` on, `w` is the panel's start.
    unsafe fn panel(
        &self,
        kernels: Kernels,
        (first_row, rows): (usize, &[Row]),
        (first_col, width): (usize, usize),
        w: *const f32,
        then: &mut Option<&mut dyn FnMut(Tile<'_>)>,
    ) {
        let mut at = 0;
        while at < width && first_col + at < self.c.cols {
            let Some(set) = kernels.iter().find(|set| set.cols <= width - at && rows.len() <= set.most) else {
                return;
            };
            let cols = set.cols.min(self.c.cols - first_col - at);
            let tiles = ceil_div_usize(rows.len(), set.kernels.len());
            let mut row = 0;
            for tile in 1..=tiles {
                let end = floor_div_usize(rows.len() * tile, tiles);
                let args = Args {
                    c: self.c,
                    rows: rows.get(row..).unwrap_or_default(),
                    a: self.a,
                    w: w.wrapping_add(at),
                    w_stride: width,
                    out: self.out.wrapping_add(first_col + at),
                    buffer: 0,
                    bias: offset(self.bias, first_col + at),
                    residual: offset(self.residual, first_col + at),
                    clamp: self.clamp,
                };
                let place = Place { rows: end - row, cols, first_row: first_row + row, first_col: first_col + at };
                // SAFETY: promised by the caller; the kernels are of the context's instruction set.
                unsafe { self.tile(set.cols, args, &place, then, |args| run_kernel(set, args, place.rows)) };
                row = end;
            }
            at += set.cols;
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
