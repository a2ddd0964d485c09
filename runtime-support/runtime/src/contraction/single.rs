//! A single row times several panels at once: one panel alone is a few long chains of sums, and streams of weights side by
//! side keep more lines on their way than fetching ahead does.
//!
//! Sums are made in the order of [`tile`](super::kernel::tile): the bits are the same.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
// Targets without wide vectors have none of these kernels.
#![cfg_attr(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")), allow(dead_code))]

use super::Contraction;
use super::Then;
use super::job::{Job, Place};
use super::kernel::{Args, Kernel, KernelSet, Kernels, LINE, finish};
use super::table::Row;
use crate::math::floor_div_usize;
use crate::simd::Simd;
use core::ops::Range;

/// Lines of the row that are fetched before the first product.
const MOST_LINES: usize = 64;

/// A kernel that multiplies one row with several panels, each as wide as the kernels of its set.
#[derive(Clone, Copy)]
pub(crate) struct Single {
    /// Panels at once.
    pub panels: usize,
    /// Its weights are the first panel's; the others follow.
    pub kernel: Kernel,
}

/// Whether the window is a single element without padding.
fn is_plain(c: &Contraction) -> bool {
    c.taps.iter().all(|tap| tap.extent == 1) && c.bounds.iter().all(|bound| bound.limit == 0)
}

impl Job<'_> {
    /// The kernel for these rows, if it is worth while, and how many of its groups of panels the columns have.
    pub(super) fn single(
        &self,
        kernels: Kernels,
        rows: &[Row],
        cols: &Range<usize>,
    ) -> Option<(&'static KernelSet, &'static Single, usize)> {
        if rows.len() != 1 || self.accumulate || !is_plain(self.c) {
            return None;
        }
        let set = kernels.first().filter(|set| set.cols == self.c.panel)?;
        let single = set.single.as_ref()?;
        let columns = cols.end.min(self.c.cols).saturating_sub(cols.start);
        Some((set, single, floor_div_usize(columns, set.cols * single.panels)))
    }

    /// One row against a group of panels from column `first_col` on, whose weights begin at `w`.
    ///
    /// # Safety
    /// The descriptor fits all operands; all columns of the panels exist; `rows` is tabled from `first_row` on; the kernel
    /// is of the context's instruction set.
    pub(super) unsafe fn group(
        &self,
        (set, single): (&KernelSet, &Single),
        (first_row, rows): (usize, &[Row]),
        (first_col, w): (usize, *const f32),
        then: Option<Then<'_>>,
    ) {
        let cols = set.cols * single.panels;
        let args = Args { w, w_stride: set.cols, ..self.args(rows, first_col, cols) };
        // SAFETY: promised by the caller.
        unsafe {
            (single.kernel)(&args);
            if let Some(then) = then {
                self.finished(&args, &Place { direct: true, rows: 1, cols, first_row, first_col }, then);
            }
        }
    }
}

/// One row, panels of NV vectors, ALL vectors in all of them.
///
/// # Safety
/// As [`Kernel`]; the caller is compiled for the instruction set of `S`; the window is a single element.
#[inline(always)]
pub(super) unsafe fn single<S: Simd, const NV: usize, const ALL: usize>(s: S, args: &Args<'_>) {
    let Some(rows) = args.rows.first_chunk::<1>() else { return };
    let (k, stride) = (args.c.depth, args.w_stride);
    let a = args.a.wrapping_offset(rows[0].a);
    let mut acc = [s.splat(0.0); ALL];
    let (mut w, mut d) = (args.w, 0);
    // Another thread may have made the row: its lines come together, not one after the other.
    for line in 0..floor_div_usize(k, LINE).min(MOST_LINES) {
        s.prefetch(a.wrapping_add(line * LINE));
    }
    // SAFETY: the caller promises k elements of the row and k rows of weights in each panel.
    unsafe {
        while d + 1 < k {
            acc = multiply::<S, NV, ALL>(s, acc, *a.add(d), w, (k, stride));
            acc = multiply::<S, NV, ALL>(s, acc, *a.add(d + 1), w.add(stride), (k, stride));
            (w, d) = (w.add(2 * stride), d + 2);
        }
        if d < k {
            acc = multiply::<S, NV, ALL>(s, acc, *a.add(d), w, (k, stride));
        }
        finish::<S, 1, ALL>(s, args, rows, &mut [acc]);
    }
}

/// One element of the row times a row of weights in every panel. A function, because a closure may be compiled apart, without
/// the instruction set.
///
/// # Safety
/// The weights are valid: `stride` floats in each of the `k` rows of a panel.
#[inline(always)]
unsafe fn multiply<S: Simd, const NV: usize, const ALL: usize>(
    s: S,
    mut acc: [S::F32; ALL],
    x: f32,
    w: *const f32,
    (k, stride): (usize, usize),
) -> [S::F32; ALL] {
    let x = s.splat(x);
    for v in 0..ALL {
        // SAFETY: promised by the caller.
        let column = unsafe { s.load(w.add(v / NV * k * stride + v % NV * S::LANES)) };
        acc[v] = s.mul_add(x, column, acc[v]);
    }
    acc
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::tests::Random;
    use super::super::{Contraction, Epilogue, RowAxis, Tile, packed_len};
    use crate::cx::Cx;
    use crate::isa::Isa;
    use crate::view::{View, ViewMut};
    use std::vec;

    /// Of two equal rows each has the bits of one alone, whichever way panels are walked and whoever computes them.
    #[test]
    fn bits_are_those_of_two_rows_on_every_isa_and_team() {
        let mut r = Random(0x0051_1261);
        for (case, n) in [31, 32, 63, 64, 65, 96, 127, 128, 200, 1000, 2048].into_iter().enumerate() {
            let k = 1 + r.below(if n > 900 { 700 } else { 70 });
            let c = Contraction { depth: k, cols: n, ..Contraction::NEW };
            let row = RowAxis { extent: 2, out: n, ..RowAxis::ONE };
            let both = Contraction { rows: [row, RowAxis::ONE, RowAxis::ONE, RowAxis::ONE], ..c };
            let (a, w) = (r.floats(k), r.floats(packed_len(n, k, 32)));
            let (bias, residual) = (r.floats(n), r.floats(n));
            let closure = |mut tile: Tile<'_>| {
                let first = tile.first_col;
                for (_, row) in tile.rows() {
                    row.iter_mut().enumerate().for_each(|(j, x)| *x = *x * 2.0 + (first + j) as f32);
                }
            };
            let epilogue = Epilogue {
                bias: (case % 2 == 0).then_some(&bias[..]),
                residual: (case % 3 == 0).then(|| residual[..].src()),
                clamp: (case % 4 < 2).then_some((-0.5, 0.5)),
                then: if case % 5 < 3 { Some(&closure) } else { None },
                ..Epilogue::NONE
            };
            let run = |c: &Contraction, cx: Cx<'_>| {
                let mut y = vec![0.0; c.m() * n];
                c.run(cx, a[..].src(), &w, y[..].dst(), epilogue);
                y
            };
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                let want = run(&both, cx);
                for iteration in [0, 1] {
                    let cx = cx.in_iteration(iteration);
                    assert_eq!(run(&c, cx), want[..n], "{k} x {n} {:?}", cx.isa());
                    assert_eq!(run(&both, cx), want, "{k} x {n} {:?}", cx.isa());
                    #[cfg(feature = "threads")]
                    for threads in [2, 3, 8] {
                        let team = crate::team::Team::new(threads);
                        assert_eq!(run(&c, cx.with_team(&team)), want[..n], "{k} x {n} {:?}, {threads}", cx.isa());
                    }
                }
            }
        }
    }
}
