//! Strips: many rows times the columns of one kernel, for short sums. Making and finishing a single tile would take as long as
//! its products.
//!
//! Sums are made in the order of [`tile`](super::kernel::tile): the bits are the same.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
// Targets without vectors have none of these kernels.
#![cfg_attr(
    not(any(
        all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"),
        all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"),
        all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128")
    )),
    allow(dead_code)
)]

use super::job::{Job, offset};
use super::kernel::{Args, KernelSet, LINE};
use super::{Contraction, Then, Tile};
use crate::isa::VECTORS;
use crate::math::floor_mod_usize;
use crate::simd::{Simd, load_first, store_first};

/// Products per sum up to which strips are worth it: the weights of a strip stay in the first-level cache.
const MOST: usize = 192;
/// Rows after which a closure sees them.
const SEEN: usize = 48;

/// The distances of neighbouring rows in the left operand, the result and the residual.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    a: isize,
    out: usize,
    residual: usize,
}

impl Steps {
    /// The distances, if all rows have the same, the window is a single element without padding, and sums are short.
    pub fn of(c: &Contraction) -> Option<Steps> {
        let single = c.taps.iter().all(|tap| tap.extent == 1) && c.bounds.iter().all(|bound| bound.limit == 0);
        if !VECTORS || !single || c.depth > MOST {
            return None;
        }
        let mut axes = c.rows.iter().rev().filter(|axis| axis.extent != 1);
        let fast = axes.next()?;
        let (mut rows, steps) = (fast.extent, Steps { a: fast.a, out: fast.out, residual: fast.residual });
        for axis in axes {
            let along = Some(axis.a) == isize::try_from(rows).ok().and_then(|n| n.checked_mul(steps.a));
            let same = |own: usize, step: usize| Some(own) == rows.checked_mul(step);
            if !(along && same(axis.out, steps.out) && same(axis.residual, steps.residual)) {
                return None;
            }
            rows = rows.checked_mul(axis.extent)?;
        }
        Some(steps)
    }
}

/// Everything a kernel needs to know about its strip.
pub(crate) struct StripArgs {
    a: *const f32,
    a_step: isize,
    k: usize,
    w: *const f32,
    /// Floats between the weights of consecutive k.
    w_stride: usize,
    out: *mut f32,
    out_step: usize,
    /// Bias of the first column, or null.
    bias: *const f32,
    /// Residual of the first column, or null.
    residual: *const f32,
    residual_step: usize,
    clamp: Option<(f32, f32)>,
    /// At least as many as the kernel computes at once; the last ones overlap those before them.
    rows: usize,
    /// Columns that exist: fewer than the kernel's where it stores vectors in part.
    cols: usize,
}

/// # Safety
/// The machine has the instruction set; all addresses are valid for its rows and columns.
pub(crate) type Strip = unsafe fn(&StripArgs);

impl Job<'_> {
    /// Rows of a block against the columns of a kernel at once: how many, all or none of them, or where the result is updated
    /// in place those that are computed once.
    ///
    /// # Safety
    /// `args` describes all rows, `first_row` and `first_col` the first ones; the kernels are of the context's instruction
    /// set.
    pub(super) unsafe fn strip(
        &self,
        set: &KernelSet,
        args: &Args<'_>,
        (first_row, first_col): (usize, usize),
        then: Option<Then<'_>>,
    ) -> usize {
        if !VECTORS {
            return 0;
        }
        let rows = args.rows;
        let (Some(kernel), Some(steps), Some(first)) = (set.strip, self.steps, rows.first()) else { return 0 };
        let least = set.kernels.len();
        // Weights that few rows share stream from the outer caches; tiles fetch them ahead.
        let few = rows.len() < least || rows.len() < args.c.depth / 2;
        if few || self.accumulate || !set.writes(args.cols) {
            return 0;
        }
        let whole = |rows: usize| rows - floor_mod_usize(rows, least);
        let end = if self.in_place { whole(rows.len()) } else { rows.len() };
        let mut done = 0;
        while done < end {
            let left = end - done;
            // No closure sees a row twice.
            let count = if then.is_none() || left < SEEN + least { left } else { whole(SEEN) };
            let strip = StripArgs {
                a: args.a.wrapping_offset(first.a).wrapping_offset(done as isize * steps.a),
                a_step: steps.a,
                k: args.c.depth,
                w: args.w,
                w_stride: args.w_stride,
                out: args.out.wrapping_add(first.out + done * steps.out),
                out_step: steps.out,
                bias: args.bias,
                residual: offset(args.residual, first.residual + done * steps.residual),
                residual_step: steps.residual,
                clamp: args.clamp,
                rows: count,
                cols: args.cols,
            };
            // SAFETY: promised by the caller.
            unsafe { kernel(&strip) };
            if let Some(then) = then {
                // Rows that may overlap are shown one by one.
                let together = if self.rows_are_apart { count.max(1) } else { 1 };
                for i in (0..count).step_by(together) {
                    let (place, out) = ((first_row + done + i, first_col), strip.out.wrapping_add(i * steps.out));
                    // SAFETY: inside the result, which `run` borrows; no two of these rows overlap.
                    then(unsafe { Tile::in_steps(self.batch, place, out, (together, steps.out), args.cols) });
                }
            }
            done += count;
        }
        end
    }
}

/// All rows, MR at a time, NV vectors of columns.
///
/// # Safety
/// As [`Strip`]; the caller is compiled for the instruction set of `S`.
#[inline(always)]
pub(super) unsafe fn strip<S: Simd, const MR: usize, const NV: usize>(s: S, args: &StripArgs) {
    let mut done = 0;
    while done < args.rows {
        let last = args.rows.saturating_sub(MR);
        // SAFETY: promised by the caller.
        unsafe { rows::<S, MR, NV>(s, args, done.min(last), (done + MR).min(last)) };
        done += MR;
    }
}

/// MR rows from `first` on; from `next` on follow others.
///
/// # Safety
/// As [`strip`]; there are so many rows.
#[inline(always)]
unsafe fn rows<S: Simd, const MR: usize, const NV: usize>(s: S, args: &StripArgs, first: usize, next: usize) {
    let a = args.a.wrapping_offset((first as isize).wrapping_mul(args.a_step));
    let a: [*const f32; MR] = core::array::from_fn(|i| a.wrapping_offset((i as isize).wrapping_mul(args.a_step)));
    let out = args.out.wrapping_add(first * args.out_step);
    let mut acc = [[s.splat(0.0); NV]; MR];
    let mut w = args.w;
    // SAFETY: the caller promises k elements of each row, k weights of each column, and all columns that are stored.
    unsafe {
        // The result and the residual come from the outer caches: a row at a time while the rows before are computed, because
        // many lines at once keep the weights waiting. Short sums leave no time for all.
        let paired = S::LANES >= 16;
        let own = if first == 0 || !paired { MR } else { 0 };
        let late = if paired { MR.saturating_sub(args.k / 2) } else { 0 };
        let mut coming = Coming::of(args, if own > 0 { first } else { next });
        for _ in 0..own + late {
            coming.fetch::<S, NV>(s, args);
        }
        let (mut d, last) = (0, 2 * (MR - late));
        // Two at a time, so that addresses are made once for both, where the registers hold so many weights.
        while paired && d + 1 < args.k {
            if d < last {
                coming.fetch::<S, NV>(s, args);
            }
            products::<S, MR, NV, 2>(s, &mut acc, &a, d, w, args.w_stride);
            (w, d) = (w.wrapping_add(2 * args.w_stride), d + 2);
        }
        while d < args.k {
            products::<S, MR, NV, 1>(s, &mut acc, &a, d, w, args.w_stride);
            (w, d) = (w.wrapping_add(args.w_stride), d + 1);
        }
        // The last vector may lack columns, and whole strips have none that do.
        let part = args.cols < NV * S::LANES;
        let left = |v: usize| if part { args.cols.saturating_sub(v * S::LANES) } else { S::LANES };
        if !args.bias.is_null() {
            for v in 0..NV {
                let bias = load_first(s, args.bias.wrapping_add(v * S::LANES), left(v));
                for i in 0..MR {
                    acc[i][v] = s.add(acc[i][v], bias);
                }
            }
        }
        if !args.residual.is_null() {
            for i in 0..MR {
                let at = args.residual.wrapping_add((first + i) * args.residual_step);
                for v in 0..NV {
                    acc[i][v] = s.add(acc[i][v], load_first(s, at.wrapping_add(v * S::LANES), left(v)));
                }
            }
        }
        if let Some((low, high)) = args.clamp {
            let (low, high) = (s.splat(low), s.splat(high));
            for i in 0..MR {
                for v in 0..NV {
                    // The second operand wins if it is NaN.
                    acc[i][v] = s.min(high, s.max(low, acc[i][v]));
                }
            }
        }
        for i in 0..MR {
            let at = out.wrapping_add(i * args.out_step);
            for v in 0..NV {
                if part {
                    store_first(s, at.wrapping_add(v * S::LANES), left(v), acc[i][v]);
                } else {
                    s.store(at.wrapping_add(v * S::LANES), acc[i][v]);
                }
            }
        }
    }
}

/// The row that is fetched next.
struct Coming {
    out: *const f32,
    residual: *const f32,
}

impl Coming {
    fn of(args: &StripArgs, row: usize) -> Coming {
        // Where the result is updated in place, it is fetched once.
        let apart = if core::ptr::eq(args.residual, args.out) { core::ptr::null() } else { args.residual };
        let residual = offset(apart, row.wrapping_mul(args.residual_step));
        Coming { out: args.out.wrapping_add(row.wrapping_mul(args.out_step)), residual }
    }

    /// NV vectors of the row.
    #[inline(always)]
    fn fetch<S: Simd, const NV: usize>(&mut self, s: S, args: &StripArgs) {
        for line in (0..NV * S::LANES).step_by(LINE) {
            s.prefetch(self.out.wrapping_add(line));
            if !self.residual.is_null() {
                s.prefetch(self.residual.wrapping_add(line));
            }
        }
        self.out = self.out.wrapping_add(args.out_step);
        self.residual = offset(self.residual, args.residual_step);
    }
}

/// K products per output, from element d of every row and a weight row on.
///
/// # Safety
/// They are valid.
#[inline(always)]
unsafe fn products<S: Simd, const MR: usize, const NV: usize, const K: usize>(
    s: S,
    acc: &mut [[S::F32; NV]; MR],
    rows: &[*const f32; MR],
    d: usize,
    w: *const f32,
    w_stride: usize,
) {
    let mut columns = [[s.splat(0.0); NV]; K];
    // SAFETY: promised by the caller.
    unsafe {
        for k in 0..K {
            for v in 0..NV {
                columns[k][v] = s.load(w.add(k * w_stride + v * S::LANES));
            }
        }
        for i in 0..MR {
            for k in 0..K {
                let x = s.splat(*rows[i].add(d + k));
                for v in 0..NV {
                    acc[i][v] = s.mul_add(x, columns[k][v], acc[i][v]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::tests::Random;
    use super::super::{Epilogue, RowAxis, packed_len};
    use super::*;
    use crate::cx::Cx;
    use crate::isa::Isa;
    use crate::view::{View, ViewMut};
    use std::vec;

    #[test]
    fn bits_are_those_of_single_rows_on_every_isa() {
        let mut r = Random(0x0571_2195);
        for (case, m) in [7, 12, 13, 36, 49, 60, 61, 97, 111, 300].into_iter().enumerate() {
            let (k, n, gap) = (1 + r.below(70), 1 + r.below(100), r.below(2) * 5);
            let row = RowAxis { extent: m, a: (k + gap) as isize, out: n + gap, residual: n };
            let rows = [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, row];
            let c = Contraction { rows, depth: k, cols: n, ..Contraction::NEW };
            let (a, w) = (r.floats(m * (k + gap)), r.floats(packed_len(n, k, 32)));
            let (bias, residual) = (r.floats(n), r.floats(m * n));
            let closure = |mut tile: Tile<'_>| {
                let first = tile.first_col;
                for (i, row) in tile.rows() {
                    row.iter_mut().enumerate().for_each(|(j, x)| *x = *x * 2.0 + (i + first + j) as f32);
                }
            };
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                let epilogue = |at: usize| Epilogue {
                    bias: (case % 2 == 0).then_some(&bias[..]),
                    residual: (case % 3 == 0).then(|| residual[at * n..].src()),
                    clamp: (case % 4 < 2).then_some((-0.5, 0.5)),
                    ..Epilogue::NONE
                };
                let (mut got, mut want) = (vec![0.0; m * (n + gap)], vec![0.0; m * (n + gap)]);
                let whole = Epilogue { then: if case % 5 < 3 { Some(&closure) } else { None }, ..epilogue(0) };
                c.run(cx, a[..].src(), &w, got[..].dst(), whole);
                for i in 0..m {
                    let one = Contraction { rows: [RowAxis::ONE; 4], ..c };
                    let out = &mut want[i * (n + gap)..][..n];
                    one.run(cx, a[i * (k + gap)..].src(), &w, out[..].dst(), epilogue(i));
                    if case % 5 < 3 {
                        out.iter_mut().enumerate().for_each(|(j, x)| *x = *x * 2.0 + (i + j) as f32);
                    }
                }
                assert_eq!(got, want, "{m} x {k} x {n} {:?}", cx.isa());
                let tight = RowAxis { extent: m, a: (k + gap) as isize, out: n, residual: n };
                let c = Contraction { rows: [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, tight], ..c };
                let apart = Epilogue { residual: Some(residual[..].src()), ..whole };
                let (mut want, mut got) = (vec![0.0; m * n], residual.clone());
                c.run(cx, a[..].src(), &w, want[..].dst(), apart);
                c.run(cx, a[..].src(), &w, got[..].dst(), Epilogue { residual: None, accumulate: true, ..apart });
                assert_eq!(got, want, "in place, {m} x {k} x {n} {:?}", cx.isa());
            }
        }
    }
}
