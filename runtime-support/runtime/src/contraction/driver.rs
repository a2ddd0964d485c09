//! Walks batches, blocks of rows, panels and tiles, and calls the micro-kernels.
use super::kernel::{Args, BLOCK, Block, KernelSet, Kernels};
use super::pack::panel_width;
use super::{Bound, Contraction, Epilogue, Tile, kernels};
use crate::cx::Cx;
use crate::raw::{Dst, Src};

/// Most rows and columns of a micro-kernel.
const MOST_ROWS: usize = 12;
const MOST_COLS: usize = 32;
/// Bytes of the left operand per block: a share of the second-level cache.
const BLOCK_BYTES: usize = 768 * 1024;

/// One batch: operands moved to its start.
struct Job<'a> {
    c: &'a Contraction,
    batch: [usize; 2],
    a: *const f32,
    w: *const f32,
    out: *mut f32,
    bias: *const f32,
    residual: *const f32,
    accumulate: bool,
    clamp: Option<(f32, f32)>,
}

/// # Safety
/// The descriptor fits all operands.
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
            let job = Job {
                c,
                batch: [i0, i1],
                a: a.as_ptr().wrapping_offset(c.a_offset.wrapping_add(step(i0, b0.a)).wrapping_add(step(i1, b1.a))),
                w: w.as_ptr().wrapping_add(i0 * b0.w + i1 * b1.w),
                out: out.as_mut_ptr().wrapping_add(c.out_offset + i0 * b0.out + i1 * b1.out),
                bias: epilogue
                    .bias
                    .map_or(core::ptr::null(), |bias| bias.as_ptr().wrapping_add(i0 * b0.bias + i1 * b1.bias)),
                residual: epilogue.residual.map_or(core::ptr::null(), |residual| {
                    let at = c.residual_offset + i0 * b0.residual + i1 * b1.residual;
                    residual.as_ptr().wrapping_add(at)
                }),
                accumulate: epilogue.accumulate,
                clamp: epilogue.clamp,
            };
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
        // Blocks of equal size, so that the last one does not fall back to small tiles.
        let bytes = self.c.depth.saturating_mul(4).max(1);
        let most = (BLOCK_BYTES / bytes).clamp(MOST_ROWS.min(BLOCK), BLOCK);
        let size = m.div_ceil(m.div_ceil(most));
        let mut block = Block {
            a: [0; BLOCK],
            out: [0; BLOCK],
            residual: [0; BLOCK],
            first: [[0; BLOCK]; 3],
            count: [[0; BLOCK]; 3],
            inside: [true; BLOCK],
        };
        let mut first_row = 0;
        while first_row < m {
            let rows = size.min(m - first_row);
            fill(self.c, &mut block, first_row, rows);
            let (mut column, mut w) = (0, self.w);
            while column < self.c.cols {
                let width = panel_width(self.c.cols, column, self.c.panel);
                // SAFETY: promised by the caller.
                unsafe { self.panel(kernels, &block, (first_row, rows), (column, width), w, then) };
                w = w.wrapping_add(width * self.c.k());
                column += self.c.panel;
            }
            first_row += rows;
        }
    }

    /// All rows of a block against one panel of weights.
    ///
    /// # Safety
    /// As `run`; `block` is filled, `w` is the panel's start.
    unsafe fn panel(
        &self,
        kernels: Kernels,
        block: &Block,
        (first_row, rows): (usize, usize),
        (first_col, width): (usize, usize),
        w: *const f32,
        then: &mut Option<&mut dyn FnMut(Tile<'_>)>,
    ) {
        let mut at = 0;
        while at < width && first_col + at < self.c.cols {
            let Some(set) = kernels.iter().find(|set| set.cols <= width - at) else {
                return;
            };
            let cols = set.cols.min(self.c.cols - first_col - at);
            let tiles = rows.div_ceil(set.kernels.len());
            let mut row = 0;
            for tile in 1..=tiles {
                let end = rows * tile / tiles;
                let args = Args {
                    c: self.c,
                    block,
                    row,
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
                // SAFETY: promised by the caller.
                unsafe { self.tile(set, args, &place, then) };
                row = end;
            }
            at += set.cols;
        }
    }

    /// One tile: straight to the result, or through a buffer if columns are missing or a closure wants to see it.
    ///
    /// # Safety
    /// As `panel`.
    unsafe fn tile(&self, set: &KernelSet, args: Args<'_>, place: &Place, then: &mut Option<&mut dyn FnMut(Tile<'_>)>) {
        let Some(kernel) = place.rows.checked_sub(1).and_then(|i| set.kernels.get(i)) else {
            return;
        };
        if place.cols == set.cols && then.is_none() && !self.accumulate {
            // SAFETY: all columns of the tile exist; the rest is promised by the caller.
            return unsafe { kernel(&args) };
        }
        let mut buffer = [0.0f32; MOST_ROWS * MOST_COLS];
        let out = args.out;
        let args = Args { out: buffer.as_mut_ptr(), buffer: set.cols, ..args };
        // SAFETY: the buffer holds the tile; inputs are promised by the caller.
        unsafe { kernel(&args) };
        let data = buffer.get_mut(..place.rows * set.cols).unwrap_or_default();
        for (i, row) in data.chunks_exact_mut(set.cols).enumerate() {
            let at = args.row + i;
            // SAFETY: row and columns are inside the operands.
            unsafe { self.epilogue(&args, out, at, &mut row[..place.cols]) };
        }
        if let Some(then) = then {
            let (first_row, first_col) = (place.first_row, place.first_col);
            then(Tile { batch: self.batch, first_row, first_col, cols: place.cols, stride: set.cols, data });
        }
        let data = buffer.get(..place.rows * set.cols).unwrap_or_default();
        for (i, row) in data.chunks_exact(set.cols).enumerate() {
            // SAFETY: row and columns are inside the result; the buffer is our own.
            unsafe {
                let to = out.add(args.block.out[args.row + i]);
                core::ptr::copy_nonoverlapping(row.as_ptr(), to, place.cols);
            }
        }
    }

    /// Bias, residual, old output and clamp on one row of the buffer.
    ///
    /// # Safety
    /// Row `at` of the block and the row's columns are inside the operands.
    unsafe fn epilogue(&self, args: &Args<'_>, out: *mut f32, at: usize, row: &mut [f32]) {
        let add = |row: &mut [f32], from: *const f32| {
            for (i, x) in row.iter_mut().enumerate() {
                // SAFETY: as promised for the row.
                *x += unsafe { *from.add(i) };
            }
        };
        if !args.bias.is_null() {
            add(row, args.bias);
        }
        if !args.residual.is_null() {
            add(row, args.residual.wrapping_add(args.block.residual[at]));
        }
        if self.accumulate {
            add(row, out.wrapping_add(args.block.out[at]));
        }
        if let Some((low, high)) = self.clamp {
            for x in row {
                *x = crate::math::clamp(*x, low, high);
            }
        }
    }
}

/// Where a tile lies in the result.
struct Place {
    rows: usize,
    cols: usize,
    first_row: usize,
    first_col: usize,
}

fn step(index: usize, stride: isize) -> isize {
    (index as isize).wrapping_mul(stride)
}

fn offset(p: *const f32, by: usize) -> *const f32 {
    if p.is_null() { p } else { p.wrapping_add(by) }
}

/// Tables the addresses of rows `first..first + n`.
fn fill(c: &Contraction, block: &mut Block, first: usize, n: usize) {
    let [_, r1, r2, r3] = c.rows;
    let mut index = [
        first / r3.extent / r2.extent / r1.extent,
        first / r3.extent / r2.extent % r1.extent,
        first / r3.extent % r2.extent,
        first % r3.extent,
    ];
    let bounded = c.bounds.iter().any(|bound| bound.limit != 0);
    for i in 0..n {
        let (mut a, mut out, mut residual) = (0isize, 0, 0);
        for (axis, index) in c.rows.iter().zip(index) {
            // Wrapping: intermediate sums may leave the address space of small machines, the final ones do not.
            a = a.wrapping_add(step(index, axis.a));
            out = index.wrapping_mul(axis.out).wrapping_add(out);
            residual = index.wrapping_mul(axis.residual).wrapping_add(residual);
        }
        (block.a[i], block.out[i], block.residual[i]) = (a, out, residual);
        if bounded {
            fill_bounds(c, block, i, &index);
        }
        for axis in [3, 2, 1, 0] {
            index[axis] += 1;
            if index[axis] < c.rows[axis].extent {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// Tables the valid taps of row `i` of the block.
fn fill_bounds(c: &Contraction, block: &mut Block, i: usize, index: &[usize; 4]) {
    let mut inside = true;
    for (b, bound) in c.bounds.iter().enumerate() {
        if bound.limit == 0 {
            continue;
        }
        let taps = if bound.tap == Bound::NO_AXIS { 1 } else { c.taps[usize::from(bound.tap & 3)].extent };
        let row = if bound.row == Bound::NO_AXIS { 0 } else { index[usize::from(bound.row & 3)] };
        let (first, end) = valid(bound, row, taps);
        block.first[b][i] = first as u16;
        block.count[b][i] = (end - first) as u16;
        inside &= first == 0 && end as usize == taps;
    }
    block.inside[i] = inside;
}

/// The tap indices first..end for which `0 <= offset + row * stride + tap * dilation < limit`.
fn valid(bound: &Bound, row: usize, taps: usize) -> (i64, i64) {
    let taps = taps as i64;
    let position = (row as i64).checked_mul(bound.stride as i64).and_then(|x| x.checked_add(bound.offset as i64));
    // An overflow is far outside: nothing is valid.
    let Some((low, high)) = position.and_then(|x| Some((x.checked_neg()?, (bound.limit as i64).checked_sub(x)?)))
    else {
        return (0, 0);
    };
    let (first, end) = match bound.dilation as i64 {
        0 if low <= 0 && high > 0 => (0, taps),
        0 => (0, 0),
        1 => (low, high),
        step if step > 0 => (ceil_div(low, step), ceil_div(high, step)),
        // position + tap * step >= 0 and < limit, with the signs turned.
        step => (
            ceil_div(high.saturating_neg().saturating_add(1), -step),
            ceil_div(low.saturating_neg().saturating_add(1), -step),
        ),
    };
    let first = first.clamp(0, taps);
    (first, end.clamp(first, taps))
}

/// ceil(a / b) for b > 0.
fn ceil_div(a: i64, b: i64) -> i64 {
    a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0)
}
