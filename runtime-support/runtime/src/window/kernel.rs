//! Micro-kernels: a few output rows times a few vectors of channels, over a list of taps.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]

use crate::contraction::job::offset;
use crate::contraction::kernel::{Args, finish};
use crate::contraction::line::TapAt;
use crate::contraction::table::Row;
use crate::isa::Isa;
use crate::isa::scalar::{Scalar, Single};
use crate::simd::Simd;

/// Rows that are computed at once; a call may have more, unless they wait in a buffer.
pub(super) const ROWS: usize = 4;
/// Tiles that are computed at once in rows of their own.
const SIDE: usize = 4;
/// Greatest number of columns of a tile.
pub(super) const MOST_COLS: usize = 32;
/// Taps that are listed at a time: all of a window of 15x15 where there is room for them.
pub(super) const LIST: usize = if cfg!(target_pointer_width = "64") { 256 } else { 64 };

/// Everything a micro-kernel needs to know about its rows, which all have the same taps.
#[derive(Clone, Copy)]
pub(super) struct WindowArgs<'a> {
    /// The rows, from the first column on.
    pub tile: &'a Args<'a>,
    /// Adjacent tiles of the kernel's width; 1 unless rows go straight to the result.
    pub tiles: usize,
    pub taps: &'a [TapAt],
    /// Accumulators between lists of taps: rows of `MOST_COLS`.
    pub partial: *mut f32,
    /// Whether this is the first, the last list of taps.
    pub first: bool,
    pub last: bool,
    /// Average only.
    pub divisor: f32,
}

/// # Safety
/// The machine has the instruction set; all addresses are valid for the kernel's rows and columns.
pub(super) type Kernel = unsafe fn(&WindowArgs<'_>);

/// Kernels of one width, for any number of rows, per operation.
pub(super) struct KernelSet {
    pub cols: usize,
    pub depthwise: Kernel,
    pub max: Kernel,
    pub average: Kernel,
}

const DEPTHWISE: u8 = 0;
const MAX: u8 = 1;
const AVERAGE: u8 = 2;

/// One step of the operation: accumulator and input; depthwise also the weight.
#[inline(always)]
fn combine<S: Simd, const OPERATION: u8>(s: S, acc: S::F32, x: S::F32, w: S::F32) -> S::F32 {
    match OPERATION {
        DEPTHWISE => s.mul_add(x, w, acc),
        MAX => s.keep_nan(acc, s.max(acc, x)),
        _ => s.add(acc, x),
    }
}

/// All rows, `ROWS` at a time, the rest one by one; for each all columns, so that the input streams. WIDE: vectors of `SIDE` tiles.
///
/// # Safety
/// As [`Kernel`]; the caller is compiled for the instruction set of `S`.
#[inline(always)]
unsafe fn rows<S: Simd, const OPERATION: u8, const NV: usize, const WIDE: usize>(s: S, args: &WindowArgs<'_>) {
    let side = if OPERATION != DEPTHWISE && apart(args) { args.tiles - args.tiles % SIDE } else { 0 };
    let together = if side > 0 { 0 } else { args.tile.rows.len() };
    let (tiles, _) = args.tile.rows.get(..together).unwrap_or_default().as_chunks::<ROWS>();
    let mut done = 0;
    for rows in tiles {
        // SAFETY: promised by the caller.
        unsafe { columns::<S, OPERATION, ROWS, NV>(s, args, rows, done, 0..args.tiles) };
        done += ROWS;
    }
    for row in args.tile.rows.iter().skip(done) {
        let row = core::array::from_ref(row);
        // SAFETY: promised by the caller; the wide tiles are `side` others.
        unsafe {
            columns::<S, OPERATION, 1, WIDE>(s, args, row, done, 0..side / SIDE);
            columns::<S, OPERATION, 1, NV>(s, args, row, done, side..args.tiles);
        }
        done += 1;
    }
}

/// Whether rows have no elements in common: then several tiles side by side are read from each tap, as they follow each other in
/// memory, before those of the next one.
#[inline(always)]
fn apart(args: &WindowArgs<'_>) -> bool {
    let [first, second, ..] = args.tile.rows else { return true };
    args.taps.last().is_none_or(|last| last.at < second.a.wrapping_sub(first.a))
}

/// Some tiles of MR rows.
///
/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn columns<S: Simd, const OPERATION: u8, const MR: usize, const NV: usize>(
    s: S,
    args: &WindowArgs<'_>,
    rows: &[Row; MR],
    done: usize,
    tiles: core::ops::Range<usize>,
) {
    for i in tiles {
        let (column, t) = (i * NV * S::LANES, args.tile);
        let tile_args = Args {
            a: t.a.wrapping_add(column),
            w: t.w.wrapping_add(column),
            out: t.out.wrapping_add(column + done * t.buffer),
            bias: offset(t.bias, column),
            residual: offset(t.residual, column),
            cols: NV * S::LANES,
            ..*t
        };
        // SAFETY: promised by the caller.
        unsafe { tile::<S, OPERATION, MR, NV>(s, args, &tile_args, rows, done) };
    }
}

/// One register tile: MR rows behind `done` others, NV vectors of channels.
///
/// # Safety
/// As [`rows`].
#[inline(always)]
unsafe fn tile<S: Simd, const OPERATION: u8, const MR: usize, const NV: usize>(
    s: S,
    args: &WindowArgs<'_>,
    t: &Args<'_>,
    tabled: &[Row; MR],
    done: usize,
) {
    let neutral = s.splat(if OPERATION == MAX { f32::NEG_INFINITY } else { 0.0 });
    let mut acc = [[neutral; NV]; MR];
    let rows = tabled.each_ref().map(|row| t.a.wrapping_offset(row.a));
    let partial = |i: usize, v: usize| args.partial.wrapping_add((done + i) * MOST_COLS + v * S::LANES);
    // SAFETY: the caller promises MR rows and NV vectors at all taps, of the weights and of `partial`.
    unsafe {
        if !args.first {
            for i in 0..MR {
                for v in 0..NV {
                    acc[i][v] = s.load(partial(i, v));
                }
            }
        }
        for tap in args.taps {
            let mut w = [neutral; NV];
            if OPERATION == DEPTHWISE {
                for (v, w) in w.iter_mut().enumerate() {
                    *w = s.load(t.w.add(tap.index * t.w_stride + v * S::LANES));
                }
            }
            for i in 0..MR {
                for v in 0..NV {
                    let x = s.load(rows[i].wrapping_offset(tap.at).add(v * S::LANES));
                    acc[i][v] = combine::<S, OPERATION>(s, acc[i][v], x, w[v]);
                }
            }
        }
        if !args.last {
            for i in 0..MR {
                for v in 0..NV {
                    s.store(partial(i, v), acc[i][v]);
                }
            }
            return;
        }
        if OPERATION == AVERAGE {
            for row in &mut acc {
                for x in row {
                    *x = s.div(*x, s.splat(args.divisor));
                }
            }
        }
        finish::<S, MR, NV>(s, t, tabled, &mut acc);
    }
}

/// Instantiates `rows` for all operations: `kernels!(name, token, vectors, columns, attribute)`.
macro_rules! kernels {
    ($name:ident, $token:expr, $vectors:literal, $cols:literal, $attribute:meta) => {
        pub(super) static $name: KernelSet = KernelSet {
            cols: $cols,
    depthwise: kernels!(@operation $token, DEPTHWISE, $vectors, $attribute),
    max: kernels!(@operation $token, MAX, $vectors, $attribute),
    average: kernels!(@operation $token, AVERAGE, $vectors, $attribute),
        };
    };
    (@operation $token:expr, $operation:ident, $vectors:literal, $attribute:meta) => {{
        /// # Safety
        /// As [`Kernel`].
        #[$attribute]
        unsafe fn kernel(args: &WindowArgs<'_>) {
            // SAFETY: promised by the caller; this function has the target features.
            unsafe { rows::<_, $operation, $vectors, { $vectors * SIDE }>($token, args) }
        }
        kernel
    }};
}

kernels!(SINGLE_1, Single, 1, 1, inline(never));
kernels!(SCALAR_4, Scalar, 1, 4, inline(never));

#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod x86 {
    use super::*;
    use crate::isa::{avx2::Avx2, avx512::Avx512, sse2::Sse2};

    kernels!(AVX512_32, Avx512::new(), 2, 32, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"));
    kernels!(AVX512_16, Avx512::new(), 1, 16, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"));
    kernels!(AVX2_16, Avx2::new(), 2, 16, target_feature(enable = "avx2,fma"));
    kernels!(AVX2_8, Avx2::new(), 1, 8, target_feature(enable = "avx2,fma"));
    kernels!(SSE2_8, Sse2::new(), 2, 8, target_feature(enable = "sse2"));
    kernels!(SSE2_4, Sse2::new(), 1, 4, target_feature(enable = "sse2"));
}

#[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
mod arm {
    use super::*;
    use crate::isa::neon::Neon;

    kernels!(NEON_16, Neon, 4, 16, inline(never));
    kernels!(NEON_4, Neon, 1, 4, inline(never));
}

#[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
mod wasm {
    use super::*;
    use crate::isa::wasm128::Wasm128;

    kernels!(WASM_8, Wasm128, 2, 8, inline(never));
    kernels!(WASM_4, Wasm128, 1, 4, inline(never));
}

/// The kernels of an instruction set, widest first; the last is one column wide.
pub(super) fn of(isa: Isa) -> &'static [&'static KernelSet] {
    match isa {
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        Isa::Avx512 => const { &[&x86::AVX512_32, &x86::AVX512_16, &x86::AVX2_8, &x86::SSE2_4, &SINGLE_1] },
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        Isa::Avx2 => const { &[&x86::AVX2_16, &x86::AVX2_8, &x86::SSE2_4, &SINGLE_1] },
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        Isa::Sse2 => const { &[&x86::SSE2_8, &x86::SSE2_4, &SINGLE_1] },
        #[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
        Isa::Neon => const { &[&arm::NEON_16, &arm::NEON_4, &SINGLE_1] },
        #[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
        Isa::Wasm128 => const { &[&wasm::WASM_8, &wasm::WASM_4, &SINGLE_1] },
        _ => const { &[&SCALAR_4, &SINGLE_1] },
    }
}
