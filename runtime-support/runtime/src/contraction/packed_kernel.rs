//! Micro-kernels over packed rows: a part of the sum of one register tile.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]

use super::kernel::{AHEAD, Args, LINE, finish};
use super::table::Row;
use crate::simd::Simd;

/// A tile whose rows are packed, and the part of its sum that is to be added.
#[derive(Clone, Copy)]
pub(crate) struct PackedTile<'a> {
    /// `a` is the packed tile, `w` and `next` begin at the part.
    pub args: Args<'a>,
    /// Products of the part.
    pub len: usize,
    /// Where sums wait between parts: those of the first row, and floats from one row to the next; 0 where they wait in the result.
    pub sums: (*mut f32, usize),
    /// Goes on from the sums that wait.
    pub resumes: bool,
    /// More parts follow: stores the sums as they are.
    pub suspends: bool,
    /// For a kernel that forms weights: what is subtracted from those at `w`, and where the differences go.
    pub minus: *const f32,
    pub difference: *mut f32,
    /// Products of a chunk for each of which a cache line from `next` on is fetched: a divisor of a chunk, and a
    /// multiple of [`PackedSet::least`].
    pub each: usize,
}

impl PackedTile<'_> {
    /// Where the sums of row `i` wait.
    #[inline(always)]
    fn waiting<const MR: usize>(&self, rows: &[Row; MR], i: usize) -> *mut f32 {
        let (at, step) = self.sums;
        at.wrapping_add(if step == 0 { rows[i].out } else { i * step })
    }
}

/// A compiled micro-kernel.
///
/// # Safety
/// The machine has its instruction set; all addresses are valid for its rows and columns.
pub(crate) type PackedKernel = unsafe fn(&PackedTile<'_>);

/// The kernels of one width.
pub(crate) struct PackedSet {
    /// Columns of the tile; divides 16 or is a multiple of it.
    pub cols: usize,
    /// Missing columns from which on a narrower tile is worth a second pass over the rows.
    pub gain: usize,
    /// Least products between two fetches: [`PackedTile::each`] is at least as large.
    pub least: usize,
    /// `kernels[i]` computes i + 1 rows.
    pub kernels: &'static [PackedKernel],
    /// The last ones of them, which also form the weights that they multiply with: differences of two panels.
    pub forming: &'static [PackedKernel],
}

impl PackedSet {
    /// The kernel for so many rows that forms weights, if there is one.
    pub fn forming(&self, rows: usize) -> Option<PackedKernel> {
        let first = self.kernels.len() - self.forming.len();
        rows.checked_sub(first + 1).and_then(|i| self.forming.get(i)).copied()
    }
}

/// The products of one element of every row: `lane` of the chunk at `a`.
///
/// # Safety
/// MR rows of a chunk and NV vectors of weights are valid.
#[inline(always)]
unsafe fn multiply<S: Simd, const MR: usize, const NV: usize, const FORMS: bool>(
    s: S,
    acc: &mut [[S::F32; NV]; MR],
    a: *const f32,
    w: *const f32,
    (stride, minus, difference): (usize, isize, isize),
) {
    // SAFETY: promised by the caller; a fetch may miss.
    unsafe {
        for v in (0..NV).step_by(LINE / S::LANES.min(LINE)) {
            s.prefetch(w.wrapping_add(AHEAD * stride + v * S::LANES));
        }
        let mut columns = [s.splat(0.0); NV];
        for (v, column) in columns.iter_mut().enumerate() {
            *column = s.load(w.add(v * S::LANES));
            if FORMS {
                let at = w.wrapping_add(v * S::LANES);
                *column = s.sub(*column, s.load(at.wrapping_offset(minus)));
                s.store(at.wrapping_offset(difference).cast_mut(), *column);
            }
        }
        for i in 0..MR {
            let x = s.splat(*a.add(i * LINE));
            for v in 0..NV {
                acc[i][v] = s.mul_add(x, columns[v], acc[i][v]);
            }
        }
    }
}

/// Products of a chunk between two fetches. Six rows of two vectors leave no slot to the instructions of a loop, nor to
/// fetches for every product.
#[inline(always)]
pub(super) const fn together(lanes: usize) -> usize {
    if lanes == 8 { 4 } else { 1 }
}

/// The whole tile: MR rows, NV vectors of columns.
///
/// # Safety
/// As [`PackedKernel`]; the caller is compiled for the instruction set of `S`.
#[inline(always)]
pub(super) unsafe fn packed_tile<S: Simd, const MR: usize, const NV: usize, const FORMS: bool>(
    s: S,
    tile: &PackedTile<'_>,
) {
    let args = &tile.args;
    let Some(rows) = args.rows.first_chunk::<MR>() else { return };
    let mut acc = [[s.splat(0.0); NV]; MR];
    // SAFETY: promised by the caller.
    unsafe {
        begin::<S, MR, NV>(s, tile, rows, &mut acc);
        // The result comes from the outer caches while the sums are made: a row at a time, as far as there is time.
        let mut coming = rows.iter();
        for row in coming.by_ref().take(MR.saturating_sub(tile.len / LINE)) {
            fetch::<S, NV>(s, tile, row);
        }
        let (mut a, mut w, mut next, stride) = (args.a, args.w, args.next, args.w_stride);
        let (together, each) = (together(S::LANES), tile.each);
        // One address leads to all weights.
        let of = if FORMS { (stride, floats(w, tile.minus), floats(w, tile.difference)) } else { (stride, 0, 0) };
        let mut left = tile.len;
        while left >= LINE {
            if let Some(row) = coming.next() {
                fetch::<S, NV>(s, tile, row);
            }
            let mut lane = 0;
            while lane < LINE {
                // One at a time: a burst would keep the weights waiting. Never the same line again: a fetch of what is
                // still on its way from memory holds up everything behind it.
                s.prefetch_far(next);
                next = next.wrapping_add(LINE);
                let end = lane + each;
                while lane < end {
                    for line in 0..(MR * together).div_ceil(LINE) {
                        s.prefetch(a.wrapping_add((MR + line) * LINE + lane * MR));
                    }
                    multiply::<S, MR, NV, FORMS>(s, &mut acc, a.add(lane), w, of);
                    if together == 4 {
                        for i in 1..4 {
                            multiply::<S, MR, NV, FORMS>(s, &mut acc, a.add(lane + i), w.wrapping_add(i * stride), of);
                        }
                    }
                    w = w.wrapping_add(together * stride);
                    lane += together;
                }
            }
            a = a.wrapping_add(MR * LINE);
            left -= LINE;
        }
        for lane in 0..left {
            multiply::<S, MR, NV, FORMS>(s, &mut acc, a.add(lane), w, of);
            w = w.wrapping_add(stride);
        }
        if tile.suspends {
            for i in 0..MR {
                for v in 0..NV {
                    s.store(tile.waiting(rows, i).wrapping_add(v * S::LANES), acc[i][v]);
                }
            }
        } else {
            finish::<S, MR, NV>(s, args, rows, &mut acc);
        }
    }
}

/// Floats from one address to another.
fn floats(from: *const f32, to: *const f32) -> isize {
    (to.addr() as isize).wrapping_sub(from.addr() as isize) / size_of::<f32>() as isize
}

/// Takes the sums so far.
///
/// # Safety
/// As [`packed_tile`].
#[inline(always)]
unsafe fn begin<S: Simd, const MR: usize, const NV: usize>(
    s: S,
    tile: &PackedTile<'_>,
    rows: &[Row; MR],
    acc: &mut [[S::F32; NV]; MR],
) {
    if tile.resumes {
        for i in 0..MR {
            for v in 0..NV {
                // SAFETY: promised by the caller.
                acc[i][v] = unsafe { s.load(tile.waiting(rows, i).wrapping_add(v * S::LANES)) };
            }
        }
    }
}

/// Fetches a row of the result, and of the residual, that the end of the tile needs.
#[inline(always)]
fn fetch<S: Simd, const NV: usize>(s: S, tile: &PackedTile<'_>, row: &Row) {
    let args = &tile.args;
    for line in (0..NV * S::LANES).step_by(LINE) {
        if !tile.resumes {
            s.prefetch(args.out.wrapping_add(row.out + line));
        }
        if args.residual_is_apart() && !tile.suspends {
            s.prefetch(args.residual.wrapping_add(row.residual + line));
        }
    }
}
