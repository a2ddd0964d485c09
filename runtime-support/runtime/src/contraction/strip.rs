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

use super::Then;
use super::job::{Job, offset};
use super::kernel::{Args, KernelSet, LINE};
use super::results::Results;
use super::steps::{Run, Runs, Steps};
use crate::isa::VECTORS;
use crate::math::floor_mod_usize;
use crate::simd::Simd;

/// Rows after which a closure sees them.
const SEEN: usize = 48;
/// Products of a row in a round of the loop.
const ROUND: usize = 4;

/// Everything a kernel needs to know about its strip.
pub(crate) struct StripArgs<'a> {
    /// The left operand of the block's first strip.
    pub(super) runs: &'a [Run],
    /// Elements of each run.
    pub len: usize,
    /// The strip's first row.
    pub first: usize,
    pub w: *const f32,
    /// Floats between the weights of consecutive k.
    pub w_stride: usize,
    pub to: Results,
    /// At least as many as the kernel computes at once; the last ones overlap those before them.
    pub rows: usize,
}

/// # Safety
/// The machine has the instruction set; all addresses are valid for its rows and columns.
pub(crate) type Strip = unsafe fn(&StripArgs<'_>);

impl Job<'_> {
    /// Whether some of so many rows are to be computed in strips by these kernels.
    pub(super) fn takes_strips(&self, set: &KernelSet, rows: usize, cols: usize) -> bool {
        // Weights that few rows share stream from the outer caches; tiles fetch them ahead.
        let few = rows < set.kernels.len() || rows < self.c.k() / 2;
        VECTORS && set.strip.is_some() && self.steps.is_some() && !few && !self.accumulate && set.writes(cols)
    }

    /// Rows of a block against the columns of a kernel, from the first of `args` on: how many are done, and how many of
    /// those behind them are no strip.
    ///
    /// # Safety
    /// `args` describes all rows that are left, `first_row` and `first_col` the first ones; the kernels are of the context's
    /// instruction set.
    pub(super) unsafe fn strip(
        &self,
        set: &KernelSet,
        args: &Args<'_>,
        (first_row, first_col): (usize, usize),
        then: Option<Then<'_>>,
    ) -> (usize, usize) {
        let rows = args.rows;
        let (Some(kernel), Some(steps), Some(first)) = (set.strip, self.steps, rows.first()) else {
            return (0, rows.len());
        };
        let (inside, stretch) = steps.stretch(first_row);
        let stretch = stretch.min(rows.len());
        let plane = self.plane.filter(|(_, least)| stretch >= *least && args.cols == self.c.cols);
        let (kernel, least) = plane.unwrap_or((kernel, set.kernels.len()));
        if !inside || stretch < least {
            return (0, stretch);
        }
        let (end, others) = match plane {
            Some(_) => (stretch, 0),
            None => self.shorten(set, &steps, stretch, rows.len()),
        };
        let (one, several): (_, Runs);
        let runs = if steps.single {
            one = [Run { a: args.a.wrapping_offset(first.a), step: steps.a }];
            &one[..]
        } else {
            several = Runs::new(args.c, args.a, first, steps.a);
            several.list()
        };
        // Kernels of planes, and of several runs, do not.
        let bends = plane.is_none() && runs.len() == 1;
        let bend = self.bend.filter(|_| bends).map(|bend| bend.from(first_col));
        let then = then.filter(|_| bend.is_none());
        let mut done = 0;
        while done < end {
            let left = end - done;
            // No closure sees a row twice.
            let count = if then.is_none() || left < SEEN + least { left } else { SEEN - floor_mod_usize(SEEN, least) };
            let strip = StripArgs {
                runs,
                len: steps.run,
                first: done,
                w: args.w,
                w_stride: args.w_stride,
                to: Results {
                    out: args.out.wrapping_add(first.out + done * steps.out),
                    out_step: steps.out,
                    bias: args.bias,
                    residual: offset(args.residual, first.residual + done * steps.residual),
                    residual_step: steps.residual,
                    clamp: args.clamp,
                    bend,
                    cols: args.cols,
                },
                rows: count,
            };
            // SAFETY: promised by the caller.
            unsafe { kernel(&strip) };
            if let Some(then) = then {
                // SAFETY: inside the result, which `run` borrows.
                unsafe { self.show(then, (first_row + done, first_col), &strip.to, count) };
            }
            done += count;
        }
        (end, others)
    }

    /// How many rows of a stretch are computed in a strip, and how many behind them as tiles. What is left of a strip and the rows
    /// between two stretches are one tile: few rows wait for their sums. Where a row is one wide vector, they do for any.
    fn shorten(&self, set: &KernelSet, steps: &Steps, stretch: usize, left: usize) -> (usize, usize) {
        let least = set.kernels.len();
        let over = floor_mod_usize(stretch, least);
        let between = steps.between().min(left - stretch);
        if set.waits() && between > 0 && between < least {
            let more = if over + between < least / 2 && stretch > 2 * least { least } else { 0 };
            return (stretch - over - more, over + more + between);
        }
        if over > 0 && between > 0 && over + between <= least {
            return (stretch - over, over + between);
        }
        // Where the result is updated in place, nothing is computed twice.
        if self.in_place { (stretch - over, over) } else { (stretch, 0) }
    }

    /// How many rows of a stretch become tiles, at most.
    pub(super) fn tiles_of_stretch(&self, set: &KernelSet, steps: &Steps) -> usize {
        let (least, between) = (set.kernels.len(), steps.between() > 0);
        if set.waits() && between {
            2 * least
        } else if self.in_place || between {
            least
        } else {
            0
        }
    }
}

/// All rows, MR at a time, NV vectors of columns.
///
/// # Safety
/// As [`Strip`]; the caller is compiled for the instruction set of `S`.
#[inline(always)]
pub(super) unsafe fn strip<S: Simd, const MR: usize, const NV: usize>(s: S, args: &StripArgs<'_>) {
    // Most have one run, and short sums no time to look for others: a loop of their own.
    match args.runs {
        // SAFETY: promised by the caller.
        [_] => unsafe { tiles::<S, MR, NV, true>(s, args) },
        // SAFETY: promised by the caller.
        _ => unsafe { tiles::<S, MR, NV, false>(s, args) },
    }
}

/// The same for the `ONE` run of all rows or for several.
///
/// # Safety
/// As [`strip`].
#[inline(always)]
unsafe fn tiles<S: Simd, const MR: usize, const NV: usize, const ONE: bool>(s: S, args: &StripArgs<'_>) {
    let mut done = 0;
    while done < args.rows {
        let last = args.rows.saturating_sub(MR);
        // SAFETY: promised by the caller.
        unsafe { rows::<S, MR, NV, ONE>(s, args, done.min(last), (done + MR).min(last)) };
        done += MR;
    }
}

/// MR rows from `first` on; from `next` on follow others.
///
/// # Safety
/// As [`strip`]; there are so many rows.
#[inline(always)]
unsafe fn rows<S: Simd, const MR: usize, const NV: usize, const ONE: bool>(
    s: S,
    args: &StripArgs<'_>,
    first: usize,
    next: usize,
) {
    let mut acc = [[s.splat(0.0); NV]; MR];
    let mut w = args.w;
    // SAFETY: the caller promises all runs of each row, as many weights of each column, and all columns that are stored.
    unsafe {
        // The result and the residual come from the outer caches: a row at a time while the rows before are computed, because
        // many lines at once keep the weights waiting. Short sums leave no time for all.
        let paired = S::LANES >= 16;
        let own = if first == 0 || !paired { MR } else { 0 };
        let late = if paired { MR.saturating_sub(args.runs.len() * (args.len / 2)) } else { 0 };
        let mut coming = Coming::of(args, if own > 0 { first } else { next });
        for _ in 0..own + late {
            coming.fetch::<S, NV>(s, args);
        }
        let mut rest = MR - late;
        for run in args.runs {
            let a = run.a.wrapping_offset(((args.first + first) as isize).wrapping_mul(run.step));
            let a: [*const f32; MR] = core::array::from_fn(|i| a.wrapping_offset((i as isize).wrapping_mul(run.step)));
            let mut d = 0;
            // Two at a time, so that addresses are made once for both, where the registers hold so many weights.
            while paired && d + 1 < args.len {
                if rest > 0 {
                    coming.fetch::<S, NV>(s, args);
                    rest -= 1;
                }
                products::<S, MR, NV, 2>(s, &mut acc, &a, d, w, args.w_stride);
                (w, d) = (w.wrapping_add(2 * args.w_stride), d + 2);
            }
            // Elsewhere some of one run, one by one: what counts them takes as many instructions as two products do, which is time
            // where a core has two threads. Rows of one vector are so many that no register is left for a second address.
            while ONE && NV > 1 && !paired && d + ROUND <= args.len {
                for _ in 0..ROUND {
                    products::<S, MR, NV, 1>(s, &mut acc, &a, d, w, args.w_stride);
                    (w, d) = (w.wrapping_add(args.w_stride), d + 1);
                }
            }
            while d < args.len {
                products::<S, MR, NV, 1>(s, &mut acc, &a, d, w, args.w_stride);
                (w, d) = (w.wrapping_add(args.w_stride), d + 1);
            }
            if ONE {
                break;
            }
        }
        // Sums of several runs are long, and their kernels have no registers left.
        args.to.finish::<S, MR, NV, ONE>(s, first, &mut acc);
    }
}

/// The row that is fetched next.
struct Coming {
    out: *const f32,
    residual: *const f32,
}

impl Coming {
    fn of(args: &StripArgs<'_>, row: usize) -> Coming {
        // Where the result is updated in place, it is fetched once.
        let to = &args.to;
        let apart = if core::ptr::eq(to.residual, to.out) { core::ptr::null() } else { to.residual };
        let residual = offset(apart, row.wrapping_mul(to.residual_step));
        Coming { out: to.out.wrapping_add(row.wrapping_mul(to.out_step)), residual }
    }

    /// NV vectors of the row.
    #[inline(always)]
    fn fetch<S: Simd, const NV: usize>(&mut self, s: S, args: &StripArgs<'_>) {
        for line in (0..NV * S::LANES).step_by(LINE) {
            s.prefetch(self.out.wrapping_add(line));
            if !self.residual.is_null() {
                s.prefetch(self.residual.wrapping_add(line));
            }
        }
        self.out = self.out.wrapping_add(args.to.out_step);
        self.residual = offset(self.residual, args.to.residual_step);
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
    use super::super::tests::{Random, one_row};
    use super::super::{Bound, Contraction, Epilogue, RowAxis, Tap, Tile, packed_len, plane_strip};
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
    /// A convolution of an input of h x w elements with c channels, in planes or pixels, to n columns.
    fn convolution(r: &mut Random, (h, w, c): (usize, usize, usize), planes: bool, n: usize) -> Contraction {
        let (size, stride, dilation) = ([1 + r.below(4), 1 + r.below(4)], 1 + r.below(3), 1 + r.below(2));
        let pad = [r.below(3), r.below(3)];
        let out = |i: usize, n: usize| (n + 2 * pad[i]).saturating_sub((size[i] - 1) * dilation + 1) / stride + 1;
        let (line, pixel) = if planes { (w, 1) } else { (w * c, c) };
        let row = |i: usize, extent: usize, a: usize, out: usize| {
            let bound = Bound {
                row: i as u8,
                tap: i as u8 + 2,
                stride: stride as isize,
                dilation: dilation as isize,
                offset: -(pad[i] as isize),
                limit: [h, w][i],
            };
            (
                RowAxis { extent, a: (a * stride) as isize, out, residual: out },
                Tap { extent: size[i], a: (a * dilation) as isize },
                bound,
            )
        };
        let (y, x) = (row(0, out(0, h), line, out(1, w) * n), row(1, out(1, w), pixel, n));
        let channels = Tap { extent: if planes { c } else { 1 }, a: (h * w) as isize };
        Contraction {
            rows: [y.0, x.0, RowAxis::ONE, RowAxis::ONE],
            taps: [Tap::ONE, channels, y.1, x.1],
            bounds: [y.2, x.2, Bound::NONE],
            a_offset: -((pad[0] * line + pad[1] * pixel) as isize),
            depth: if planes { 1 } else { c },
            cols: n,
            ..Contraction::NEW
        }
    }

    #[test]
    fn windows_have_the_bits_of_single_rows_on_every_isa() {
        let (mut r, mut strips, mut in_planes) = (Random(0x0771_2195), 0, 0);
        for case in 0..120 {
            let (size, planes) = ((1 + r.below(6), 30 + r.below(200), 1 + r.below(8)), case % 4 != 1);
            let n = 1 + r.below(if case % 4 < 2 { 70 } else { 12 });
            let c = convolution(&mut r, size, planes, n);
            let (m, k) = (c.m(), c.k());
            let (a, w) = (r.floats(size.0 * size.1 * size.2), r.floats(packed_len(n, k, 32)));
            let (bias, residual) = (r.floats(n), r.floats(m * n));
            let steps = Steps::of(&c);
            strips += usize::from(steps.is_some());
            in_planes += usize::from(steps.is_some_and(|steps| plane_strip::of(Isa::Avx512, &c, &steps).is_some()));
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                let epilogue = |at: usize| Epilogue {
                    bias: (case % 3 != 0).then_some(&bias[..]),
                    residual: (case % 5 == 0).then(|| residual[at * n..].src()),
                    clamp: (case % 4 < 2).then_some((-0.5, 0.5)),
                    ..Epilogue::NONE
                };
                let (mut got, mut want) = (vec![0.0; m * n], vec![0.0; m * n]);
                c.run(cx, a[..].src(), &w, got[..].dst(), epilogue(0));
                for (i, row) in want.chunks_exact_mut(n).enumerate() {
                    let (y, x) = (i / c.rows[1].extent, i % c.rows[1].extent);
                    one_row(&c, y, x).run(cx, a[..].src(), &w, row.dst(), epilogue(i));
                }
                assert_eq!(got, want, "{c:?} {:?}", cx.isa());
            }
        }
        assert!(!VECTORS || strips > 40, "{strips}");
        assert!(!VECTORS || !cfg!(target_arch = "x86_64") || in_planes > 2, "{in_planes}");
    }
}
