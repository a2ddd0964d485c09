//! Strips of few columns whose rows follow each other in the left operand, or every second, as pixels of a plane do: vectors hold
//! rows, and weights are broadcast.
//!
//! Sums are made in the order of [`tile`](super::kernel::tile): with finite weights the bits are the same.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
// Other targets have none of these kernels.
#![cfg_attr(
    not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")),
    allow(dead_code, unused_macros)
)]

use super::Contraction;
use super::pack::panel_width;
use super::planar_kernel::{SUMS, Sums};
use super::steps::Steps;
use super::strip::{Strip, StripArgs};
use crate::isa::Isa;
use crate::math::ceil_div_usize;
use crate::simd::Simd;
use core::mem::MaybeUninit;

/// What it takes to make rows of vectors of them, in parts of a cycle.
const TURN: usize = 150;

/// Kernels for so many columns at most, of rows that follow each other, and of every second.
struct PlaneSet {
    cols: usize,
    /// Rows that are computed at once, at least.
    least: usize,
    kernels: [Strip; 2],
}

/// The kernel for strips at these steps, and how many rows it takes at least, if sums take less time with it.
pub(super) fn of(isa: Isa, c: &Contraction, steps: &Steps) -> Option<(Strip, usize)> {
    let width = panel_width(c.cols, 0, c.panel);
    let set = sets(isa).iter().find(|set| c.cols <= set.cols && set.cols <= width)?;
    // In parts of a cycle, of which a long vector takes 16 or, in halves, 32: those of columns that are missing take as long.
    let (columns, rows) = if isa.is_halved() { (ceil_div_usize(c.cols, 8) * 16, 2 * set.cols) } else { (16, set.cols) };
    let step = usize::try_from(steps.a).ok().and_then(|step| step.checked_sub(1))?;
    let kernel = set.kernels.get(step).filter(|_| c.k().saturating_mul(columns.saturating_sub(rows)) > TURN)?;
    Some((*kernel, set.least))
}

/// All rows: NV vectors of them at a time, then single vectors.
///
/// # Safety
/// As [`Strip`]; the caller is compiled for the instruction set of `S`; there is a vector of rows.
#[inline(always)]
unsafe fn strip<S: Simd, const NV: usize, const NC: usize, const STEP: usize>(s: S, args: &StripArgs<'_>) {
    let mut done = 0;
    // SAFETY: promised by the caller. The last rows overlap those before them.
    unsafe {
        while NV > 1 && done + NV * S::LANES <= args.rows {
            rows::<S, NV, NC, STEP>(s, args, done);
            done += NV * S::LANES;
        }
        while done < args.rows {
            rows::<S, 1, NC, STEP>(s, args, done.min(args.rows.saturating_sub(S::LANES)));
            done += S::LANES;
        }
    }
}

/// NV vectors of rows from `first` on, NC columns.
///
/// # Safety
/// As `strip`; there are so many rows.
#[inline(always)]
unsafe fn rows<S: Simd, const NV: usize, const NC: usize, const STEP: usize>(s: S, args: &StripArgs<'_>, first: usize) {
    let (mut acc, mut w) = ([[s.splat(0.0); NV]; NC], args.w);
    // SAFETY: the caller promises all runs of each row, as many weights of each column, and all columns that are stored.
    unsafe {
        for run in args.runs {
            // All rows are in the padding there.
            if run.step == 0 {
                w = w.wrapping_add(args.len * args.w_stride);
                continue;
            }
            let mut at = run.a.wrapping_add((args.first + first) * STEP);
            for _ in 0..args.len {
                let x: [S::F32; NV] =
                    core::array::from_fn(|v| load::<S, STEP>(s, at.wrapping_add(v * S::LANES * STEP)));
                for j in 0..NC {
                    let weight = s.splat(*w.wrapping_add(j));
                    for v in 0..NV {
                        acc[j][v] = s.mul_add(x[v], weight, acc[j][v]);
                    }
                }
                (at, w) = (at.wrapping_add(1), w.wrapping_add(args.w_stride));
            }
        }
        let mut sums = [MaybeUninit::<f32>::uninit(); SUMS];
        let rows = NV * S::LANES;
        Sums { from: sums.as_mut_ptr().cast(), pitch: rows, to: args.to, start: first, count: rows }.put(s, &acc);
    }
}

/// A vector of elements, or of every second one.
///
/// # Safety
/// They are valid.
#[inline(always)]
unsafe fn load<S: Simd, const STEP: usize>(s: S, at: *const f32) -> S::F32 {
    // SAFETY: promised by the caller; the second vector ends with the last element.
    unsafe {
        if STEP == 1 {
            return s.load(at);
        }
        let index: [i32; 16] = core::array::from_fn(|i| 2 * i as i32 + (2 * i >= S::LANES) as i32);
        s.lookup_in_two(s.load(at), s.load(at.wrapping_add(S::LANES - 1)), s.load_i32(index.as_ptr()))
    }
}

/// Instantiates `strip`: `kernels!(name, token, lanes, attribute, columns: vectors; ...)`.
macro_rules! kernels {
    ($name:ident, $token:expr, $lanes:literal, $attribute:meta, $($columns:literal: $vectors:literal);*) => {
        static $name: &[PlaneSet] = &[$({
            /// # Safety
            /// As [`Strip`].
            #[$attribute]
            unsafe fn each(args: &StripArgs<'_>) {
                // SAFETY: promised by the caller; this function has the target features.
                unsafe { strip::<_, $vectors, $columns, 1>($token, args) }
            }
            /// # Safety
            /// As [`Strip`].
            #[$attribute]
            unsafe fn every_second(args: &StripArgs<'_>) {
                // SAFETY: promised by the caller; this function has the target features.
                unsafe { strip::<_, $vectors, $columns, 2>($token, args) }
            }
            PlaneSet { cols: $columns, least: $lanes, kernels: [each, every_second] }
        }),*];
    };
}

#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod x86 {
    use super::*;
    use crate::isa::avx512::Avx512;

    kernels!(
        AVX512, Avx512::new(), 16, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"),
        4: 4; 6: 2; 8: 2; 10: 2; 12: 2
    );

    pub(super) fn sets(isa: Isa) -> &'static [PlaneSet] {
        if isa == Isa::Avx512 { AVX512 } else { &[] }
    }
}

/// The kernels of an instruction set, if it has any.
fn sets(isa: Isa) -> &'static [PlaneSet] {
    #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
    return x86::sets(isa);
    #[cfg(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")))]
    {
        let _ = isa;
        &[]
    }
}
