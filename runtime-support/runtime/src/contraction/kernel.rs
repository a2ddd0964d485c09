//! Micro-kernels: one register tile of rows x columns over all of k. Compiled once per (instruction set, rows, vectors).
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]

use super::Contraction;
use super::job::MOST_ROWS;
use super::single::Single;
use super::strip::Strip;
use super::table::{Row, bits, rows_missing, rows_outside};
use crate::simd::{Simd, WithSimd, load_first, store_first};
use core::mem::MaybeUninit;

/// Length of the row of zeros that stands for padding; longer runs are cut.
const ZEROS: usize = if cfg!(target_pointer_width = "64") { 256 } else { 32 };
/// Weight rows that are fetched ahead: panels stream from the outer caches or from memory.
pub(super) const AHEAD: usize = 16;
/// Least rows of a tile that leaves out those in the padding.
const LEAVES_OUT: usize = 7;
/// Lanes with which kernels write tiles with missing columns themselves: where vectors are wide, such tiles are common.
const IN_PART: usize = 8;
/// Floats of a cache line.
pub(crate) const LINE: usize = 16;
pub(super) static ZERO_ROW: [f32; ZEROS] = [0.0; ZEROS];

/// Everything a micro-kernel needs to know about its tile.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    pub c: &'a Contraction,
    /// The rows of the tile; there may be more behind them.
    pub rows: &'a [Row],
    pub a: *const f32,
    pub w: *const f32,
    /// Floats between the weights of consecutive k.
    pub w_stride: usize,
    /// What is fetched into the second-level cache meanwhile, a cache line per k: weights of the next panel.
    pub next: *const f32,
    /// First output column of the tile: result, or the tile buffer.
    pub out: *mut f32,
    /// Distance of rows of the tile buffer; 0 writes to the result at the block's addresses and applies the rest.
    pub buffer: usize,
    /// Bias of the first column, or null.
    pub bias: *const f32,
    /// Residual of the first column, or null.
    pub residual: *const f32,
    pub clamp: Option<(f32, f32)>,
    /// Columns of the tile that exist: fewer than the kernel's where it stores vectors in part.
    pub cols: usize,
}

impl Args<'_> {
    /// Whether the residual lies elsewhere than the result.
    #[inline(always)]
    pub fn residual_is_apart(&self) -> bool {
        !self.residual.is_null() && !core::ptr::eq(self.residual, self.out)
    }
}

/// A compiled micro-kernel.
///
/// # Safety
/// The machine has its instruction set; all addresses in `Args` are valid for its rows and columns.
pub(crate) type Kernel = unsafe fn(&Args<'_>);

/// The kernels of one width.
pub(crate) struct KernelSet {
    /// Columns of the tile.
    pub cols: usize,
    /// How many columns of a panel may be left, at least and at most: others are better off with other kernels.
    pub left: (usize, usize),
    /// More rows in all than this are better off with other kernels.
    pub most: usize,
    /// Columns of a vector.
    pub lanes: usize,
    /// `kernels[i]` computes i + 1 rows.
    pub kernels: &'static [Kernel],
    /// Computes any number of rows from as many as the last kernel on.
    pub strip: Option<Strip>,
    /// Computes a single row.
    pub single: Option<Single>,
}

impl KernelSet {
    /// Whether its kernels are for the next columns, of which there are `left` and room for `width`, of so many rows in all, which
    /// should stay whole or need not.
    pub fn suits(&self, (left, width): (usize, usize), rows: usize, whole: bool) -> bool {
        let least = if whole && self.lanes >= IN_PART && left > self.lanes { 0 } else { self.left.0 };
        self.cols <= width && least <= left && left <= self.left.1 && rows <= self.most
    }

    /// Whether its kernels can write so many columns to the result themselves.
    pub fn writes(&self, cols: usize) -> bool {
        cols == self.cols || self.lanes >= IN_PART
    }

    /// Whether a row is one wide vector: few of them wait for their sums.
    pub fn waits(&self) -> bool {
        self.cols == self.lanes && self.writes(1)
    }
}

/// Widths in descending order.
pub(crate) type Kernels = &'static [&'static KernelSet];

/// Part of the last tap axis within which no row enters or leaves the padding.
#[derive(Clone, Copy)]
struct Segment {
    /// First index after it.
    end: u16,
    /// Rows that are valid in it.
    mask: u32,
}

/// Every row has a first and an end.
const MOST_SEGMENTS: usize = 2 * MOST_ROWS + 1;

/// The last tap axis in segments, for a tile with rows `outside`; at most `MOST_ROWS` rows.
#[inline(never)]
fn split(c: &Contraction, rows: &[Row], outside: u32) -> [Segment; MOST_SEGMENTS] {
    let extent = c.taps[3].extent as u16;
    let mut valid = [(0u16, extent); MOST_ROWS];
    for (b, bound) in c.bounds.iter().enumerate() {
        if bound.limit != 0 && bound.tap == 3 {
            for i in bits(outside) {
                let (Some(row), Some((first, end))) = (rows.get(i), valid.get_mut(i)) else { continue };
                let (least, count) = row.valid(b);
                *first = least.max(*first);
                *end = (least + count).min(*end).max(*first);
            }
        }
    }
    let mut segments = [Segment { end: extent, mask: 0 }; MOST_SEGMENTS];
    let mut t = 0;
    for segment in &mut segments {
        let (mut mask, mut next) = (u32::MAX, extent);
        for i in bits(outside) {
            let Some(&(first, end)) = valid.get(i) else { continue };
            mask &= !(u32::from(t < first || end <= t) << i);
            let change = if t < first { first } else { end };
            next = if t < change && change < next { change } else { next };
        }
        *segment = Segment { end: next, mask };
        t = next;
        if t >= extent {
            break;
        }
    }
    segments
}

/// One product per output: element d of every row, but for some first and last ones, times one weight row.
///
/// # Safety
/// Element d of these rows and the weight row are valid.
#[inline(always)]
unsafe fn multiply<S: Simd, const MR: usize, const NV: usize, const FIRST: usize, const LAST: usize>(
    s: S,
    acc: &mut [[S::F32; NV]; MR],
    rows: &[*const f32; MR],
    d: usize,
    w: *const f32,
    w_stride: usize,
) {
    // SAFETY: promised by the caller.
    unsafe {
        for v in (0..NV).step_by(16 / S::LANES.min(16)) {
            s.prefetch(w.wrapping_add(AHEAD * w_stride + v * S::LANES));
        }
        // Registers hold the fewer of both, rows or columns.
        if const { MR < NV } {
            let mut x = [s.splat(0.0); MR];
            for (x, row) in x.iter_mut().zip(rows) {
                *x = s.splat(*row.add(d));
            }
            for v in 0..NV {
                let column = s.load(w.add(v * S::LANES));
                for i in FIRST..MR - LAST {
                    acc[i][v] = s.mul_add(x[i], column, acc[i][v]);
                }
            }
        } else {
            let mut columns = [s.splat(0.0); NV];
            for (v, column) in columns.iter_mut().enumerate() {
                *column = s.load(w.add(v * S::LANES));
            }
            for i in FIRST..MR - LAST {
                let x = s.splat(*rows[i].add(d));
                for v in 0..NV {
                    acc[i][v] = s.mul_add(x, columns[v], acc[i][v]);
                }
            }
        }
    }
}

/// Accumulates `len` products per output, but for some first and last rows: rows of the left operand times consecutive weight
/// rows. Returns the next weights and the next line to fetch.
///
/// # Safety
/// `len` elements at the pointers of these rows and `len` weight rows are valid.
#[inline(always)]
unsafe fn accumulate<S: Simd, const MR: usize, const NV: usize, const FIRST: usize, const LAST: usize>(
    s: S,
    acc: &mut [[S::F32; NV]; MR],
    rows: &[*const f32; MR],
    len: usize,
    (w, next): (*const f32, *const f32),
    w_stride: usize,
) -> (*const f32, *const f32) {
    let (mut w, mut next, mut d) = (w, next, 0);
    // SAFETY: d < len.
    unsafe {
        // Larger tiles keep the decoders busy with products, and have rows enough to wait for the weights once.
        if const { S::LANES >= 16 && (MR <= 10 || NV == 1) } {
            while d + 1 < len {
                // As many rows as one tile holds have no second tile that would need them.
                if const { 2 * MR >= MOST_ROWS && MR < MOST_ROWS } {
                    s.prefetch_far(next);
                    s.prefetch_far(next.wrapping_add(LINE));
                }
                multiply::<S, MR, NV, FIRST, LAST>(s, acc, rows, d, w, w_stride);
                multiply::<S, MR, NV, FIRST, LAST>(s, acc, rows, d + 1, w.add(w_stride), w_stride);
                (w, next, d) = (w.add(2 * w_stride), next.wrapping_add(2 * LINE), d + 2);
            }
        }
        // Six rows of two vectors leave no slot to the instructions of a loop.
        if const { S::LANES == 8 } {
            while d + 3 < len {
                for i in 0..4 {
                    multiply::<S, MR, NV, FIRST, LAST>(s, acc, rows, d + i, w.add(i * w_stride), w_stride);
                }
                (w, d) = (w.add(4 * w_stride), d + 4);
            }
        }
        while d < len {
            multiply::<S, MR, NV, FIRST, LAST>(s, acc, rows, d, w, w_stride);
            (w, d) = (w.add(w_stride), d + 1);
        }
    }
    (w, next)
}

/// The same for the rows in a mask: where the first or the last ones are in the padding, about as many are left out.
///
/// # Safety
/// As [`accumulate`]; the pointers of other rows are those of as many zeros.
#[inline(always)]
unsafe fn accumulate_of<S: Simd, const MR: usize, const NV: usize>(
    s: S,
    acc: &mut [[S::F32; NV]; MR],
    (mask, rows): (u32, &[*const f32; MR]),
    len: usize,
    w: (*const f32, *const f32),
    w_stride: usize,
) -> (*const f32, *const f32) {
    let (first, last) = (mask.trailing_zeros(), (mask << (32 - MR)).leading_zeros());
    // SAFETY: promised by the caller; what is left out are zeros.
    unsafe {
        if const { S::LANES >= 16 && NV == 2 && MR >= LEAVES_OUT } {
            match (first, last) {
                (0, 0) => {}
                (4.., _) => return accumulate::<S, MR, NV, 4, 0>(s, acc, rows, len, w, w_stride),
                (_, 4..) => return accumulate::<S, MR, NV, 0, 4>(s, acc, rows, len, w, w_stride),
                (2.., _) => return accumulate::<S, MR, NV, 2, 0>(s, acc, rows, len, w, w_stride),
                (_, 2..) => return accumulate::<S, MR, NV, 0, 2>(s, acc, rows, len, w, w_stride),
                (1, _) => return accumulate::<S, MR, NV, 1, 0>(s, acc, rows, len, w, w_stride),
                (_, 1) => return accumulate::<S, MR, NV, 0, 1>(s, acc, rows, len, w, w_stride),
            }
        }
        accumulate::<S, MR, NV, 0, 0>(s, acc, rows, len, w, w_stride)
    }
}

/// One group of taps that differ only in the last axis, at offset `at`; rows not in `outer` are in the padding.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn taps<S: Simd, const MR: usize, const NV: usize>(
    s: S,
    args: &Args<'_>,
    rows: &[Row; MR],
    acc: &mut [[S::F32; NV]; MR],
    at: isize,
    (outer, segments): (u32, &[Segment]),
    w: (*const f32, *const f32),
) -> (*const f32, *const f32) {
    let (last, depth, all) = (args.c.taps[3], args.c.depth, (1u32 << MR) - 1);
    let (mut w, mut at, mut t) = (w, at, 0);
    for segment in segments {
        let (end, mask) = (usize::from(segment.end), segment.mask & outer);
        // Adjacent taps are one longer run.
        let adjacent = last.a == depth as isize;
        let (count, run) = if adjacent { (1, (end - t) * depth) } else { (end - t, depth) };
        let step = if adjacent { run as isize } else { last.a };
        t = end;
        for _ in 0..count {
            let mut done = 0;
            if mask == 0 {
                // Zeros only.
                w.0 = w.0.wrapping_add(run * args.w_stride);
                done = run;
            }
            while done < run {
                // Rows in the padding read zeros, of which there are not many.
                let len = if mask == all || run - done < ZEROS { run - done } else { ZEROS };
                let starts: [*const f32; MR] = core::array::from_fn(|i| {
                    let start = args.a.wrapping_offset(rows[i].a);
                    let inner = start.wrapping_offset(at).wrapping_add(done);
                    if mask >> i & 1 == 1 { inner } else { ZERO_ROW.as_ptr() }
                });
                // SAFETY: rows in the mask are inside the operand, as checked by `Contraction::fits`; the others read
                // at most ZEROS zeros.
                w = unsafe { accumulate_of::<S, MR, NV>(s, acc, (mask, &starts), len, w, args.w_stride) };
                done += len;
            }
            at = at.wrapping_add(step);
        }
        if t >= last.extent {
            break;
        }
    }
    w
}

/// The whole tile: MR rows, NV vectors of columns.
///
/// # Safety
/// As [`Kernel`]; the caller is compiled for the instruction set of `S`.
#[inline(always)]
pub(super) unsafe fn tile<S: Simd, const MR: usize, const NV: usize>(s: S, args: &Args<'_>) {
    let (c, all) = (args.c, (1 << MR) - 1);
    let Some(rows) = args.rows.first_chunk::<MR>() else { return };
    let outside = rows_outside(rows);
    if const { S::LANES >= 8 } && args.buffer == 0 {
        // The result and the residual come from the outer caches while the sums are made.
        for row in rows {
            for line in (0..NV * S::LANES).step_by(LINE) {
                s.prefetch(args.out.wrapping_add(row.out + line));
                if args.residual_is_apart() {
                    s.prefetch(args.residual.wrapping_add(row.residual + line));
                }
            }
        }
    }
    let mut acc = [[s.splat(0.0); NV]; MR];
    let [t0, t1, t2, t3] = c.taps;
    let border: [Segment; MOST_SEGMENTS];
    let segments: &[Segment] = if outside == 0 {
        &[Segment { end: t3.extent as u16, mask: all }]
    } else {
        border = split(c, rows, outside);
        &border
    };
    let mut w = (args.w, args.next);
    let inside = |axis, index| !rows_missing(rows, outside, &c.bounds, axis, index);
    for i0 in 0..t0.extent {
        let valid = all & inside(0, i0);
        for i1 in 0..t1.extent {
            let valid = valid & inside(1, i1);
            for i2 in 0..t2.extent {
                let valid = valid & inside(2, i2);
                let at = (i0 as isize).wrapping_mul(t0.a);
                let at =
                    at.wrapping_add((i1 as isize).wrapping_mul(t1.a)).wrapping_add((i2 as isize).wrapping_mul(t2.a));
                // SAFETY: promised by the caller.
                w = unsafe { taps::<S, MR, NV>(s, args, rows, &mut acc, at, (valid, segments), w) };
            }
        }
    }
    // SAFETY: promised by the caller.
    unsafe { finish::<S, MR, NV>(s, args, rows, &mut acc) }
}

/// Writes the accumulators: raw to the tile buffer, or with bias, residual and clamp to the result.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
pub(crate) unsafe fn finish<S: Simd, const MR: usize, const NV: usize>(
    s: S,
    args: &Args<'_>,
    rows: &[Row; MR],
    acc: &mut [[S::F32; NV]; MR],
) {
    // SAFETY: the caller promises MR rows and NV vectors at all of these addresses.
    unsafe {
        if args.buffer != 0 {
            for i in 0..MR {
                for v in 0..NV {
                    s.store(args.out.add(i * args.buffer + v * S::LANES), acc[i][v]);
                }
            }
            return;
        }
        if const { S::LANES >= IN_PART } && args.cols < NV * S::LANES {
            // Only a copy lies in memory, of floats: a frame that is aligned for vectors would cost the loops a register.
            let mut sums = [[[MaybeUninit::<f32>::uninit(); LINE]; NV]; MR];
            let mut to = sums.as_mut_ptr().cast::<f32>();
            for row in acc {
                for sum in row {
                    s.store(to, *sum);
                    to = to.wrapping_add(S::LANES);
                }
            }
            return s.apart(Part { args, rows, sums: sums.as_ptr().cast(), vectors: NV });
        }
        if !args.bias.is_null() {
            for v in 0..NV {
                let bias = s.load(args.bias.add(v * S::LANES));
                for row in acc.iter_mut() {
                    row[v] = s.add(row[v], bias);
                }
            }
        }
        if !args.residual.is_null() {
            for i in 0..MR {
                let at = args.residual.add(rows[i].residual);
                for v in 0..NV {
                    acc[i][v] = s.add(acc[i][v], s.load(at.add(v * S::LANES)));
                }
            }
        }
        if let Some((low, high)) = args.clamp {
            let (low, high) = (s.splat(low), s.splat(high));
            for row in acc.iter_mut() {
                for x in row {
                    // The second operand wins if it is NaN.
                    *x = s.min(high, s.max(low, *x));
                }
            }
        }
        for i in 0..MR {
            let at = args.out.add(rows[i].out);
            for v in 0..NV {
                s.store(at.add(v * S::LANES), acc[i][v]);
            }
        }
    }
}

/// `finish` to the result where columns are missing: once for all kernels of an instruction set. Whoever makes it promises what
/// [`finish`] demands, for `args.cols` columns.
struct Part<'t> {
    args: &'t Args<'t>,
    rows: &'t [Row],
    /// The accumulators, `vectors` for each row.
    sums: *const f32,
    vectors: usize,
}

impl WithSimd for Part<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (args, mut sums) = (self.args, self.sums);
        for row in self.rows {
            for v in 0..self.vectors {
                let (at, n) = (v * S::LANES, args.cols.saturating_sub(v * S::LANES));
                // SAFETY: there are so many sums, and `cols` columns at each of these addresses, `n` of them from this vector
                // on.
                unsafe {
                    let mut x = s.load(sums);
                    if !args.bias.is_null() {
                        x = s.add(x, load_first(s, args.bias.wrapping_add(at), n));
                    }
                    if !args.residual.is_null() {
                        x = s.add(x, load_first(s, args.residual.wrapping_add(row.residual + at), n));
                    }
                    if let Some((low, high)) = args.clamp {
                        // The second operand wins if it is NaN.
                        x = s.min(s.splat(high), s.max(s.splat(low), x));
                    }
                    store_first(s, args.out.wrapping_add(row.out + at), n, x);
                }
                sums = sums.wrapping_add(S::LANES);
            }
        }
    }
}
