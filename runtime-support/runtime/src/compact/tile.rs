//! Micro-kernels: one register tile of packed rows and columns of a panel, whose weights become f32 in registers.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]

use super::codes::{Bytes, Codes, Group, Halves, Nibbles, Panel};
use super::{Form, STEP};
use crate::contraction::kernel::{Args, LINE, finish};
use crate::cx::Cx;
use crate::simd::{Simd, WithSimd};

/// Bytes that are fetched ahead of their use.
const AHEAD: usize = 12 * 1024;
/// Columns of nearly all panels.
const WIDTH: usize = 32;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Vectors of a tile, where the panel has as many.
const VECTORS: usize = 2;

/// Numbers of a vector.
#[inline]
pub(super) fn lanes(cx: Cx<'_>) -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            S::LANES
        }
    }
    cx.dispatch(Lanes)
}

/// Most rows of a tile: with two vectors of columns they leave registers for the weights, and for the zeros of a grid.
#[inline]
pub(super) fn most_rows(lanes: usize, form: Form) -> usize {
    match lanes {
        16 => 12,
        8 if form != Form::Nibbles => 5,
        _ => 4,
    }
}

/// Columns of a tile where so many are left.
#[inline]
pub(super) fn columns(lanes: usize, left: usize) -> usize {
    if left < VECTORS * lanes { lanes } else { VECTORS * lanes }
}

/// Rows of the next tile of so many that are left.
#[inline]
pub(super) fn rows(left: usize, most: usize) -> usize {
    match left {
        _ if left >= most => most,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

/// The tile that `args` describe: its rows are packed at `a`, its columns are those of a panel from `column` on. Whoever makes it
/// promises that all addresses are valid, and so many rows and columns as [`rows`] and [`columns`] say.
pub(super) struct Tile<'t> {
    pub form: Form,
    pub args: &'t Args<'t>,
    pub panel: Panel,
    pub column: usize,
    pub rows: usize,
    /// Room for the sums of the tile between two groups.
    pub sums: *mut f32,
}

/// Floats of a tile at most.
pub(super) const MOST: usize = 12 * VECTORS * 16;

impl WithSimd for Tile<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.form {
            Form::Halves => self.with::<S, Halves>(s),
            Form::Bytes => self.with::<S, Bytes>(s),
            Form::Nibbles => self.with::<S, Nibbles>(s),
        }
    }
}

impl Tile<'_> {
    #[inline(always)]
    fn with<S: Simd, C: Codes>(self, s: S) {
        // Narrower vectors divide 16 columns by two.
        if S::LANES == 16 && self.panel.width - self.column < VECTORS * S::LANES {
            self.high::<S, C, 1>(s);
        } else {
            self.high::<S, C, VECTORS>(s);
        }
    }

    #[inline(always)]
    fn high<S: Simd, C: Codes, const NV: usize>(self, s: S) {
        // SAFETY: promised by whoever made the tile.
        unsafe {
            match self.rows {
                1 => self.tile::<S, C, 1, NV, 4>(s),
                2 => self.tile::<S, C, 2, NV, 2>(s),
                4 => self.tile::<S, C, 4, NV, 1>(s),
                5 if S::LANES == 8 => self.tile::<S, C, 5, NV, 1>(s),
                12 if S::LANES == 16 => self.tile::<S, C, 12, NV, 1>(s),
                _ => {}
            }
        }
    }

    /// MR rows, NV vectors of columns. Few rows have several sums for each element, so that none waits for the one before.
    ///
    /// # Safety
    /// All addresses are valid.
    #[inline(always)]
    unsafe fn tile<S: Simd, C: Codes, const MR: usize, const NV: usize, const SUMS: usize>(&self, s: S) {
        let Some(rows) = self.args.rows.first_chunk::<MR>() else { return };
        let (panel, mut a) = (&self.panel, self.args.a);
        let (mut lane, mut number) = (0, 0);
        loop {
            let group = panel.group::<C>(number, self.column);
            let (mut codes, line) = (group.codes, group.line);
            let mut sums = [[[s.splat(0.0); NV]; MR]; SUMS];
            // SAFETY: promised by the caller.
            unsafe {
                let zeros = zeros::<S, C, NV>(s, &group);
                for _ in 0..panel.steps {
                    for ahead in (0..C::LINES * C::COLUMN * WIDTH).step_by(LINE_BYTES) {
                        s.prefetch(codes.wrapping_add(AHEAD + ahead).cast());
                    }
                    for i in 0..STEP {
                        let mut columns = [s.splat(0.0); NV];
                        for v in 0..NV {
                            let code = C::load(s, codes.wrapping_add(v * S::LANES * C::COLUMN), line, i);
                            columns[v] = if C::GRID { s.sub(code, zeros[i % 2][v]) } else { code };
                        }
                        for row in 0..MR {
                            let x = s.splat(*a.add(row * LINE + lane + i));
                            for v in 0..NV {
                                let sum = &mut sums[i % SUMS][row][v];
                                *sum = s.mul_add(x, columns[v], *sum);
                            }
                        }
                    }
                    codes = codes.wrapping_add(C::LINES * line);
                    if MR == 1 {
                        a = a.wrapping_add(STEP);
                        continue;
                    }
                    lane += STEP;
                    if lane == LINE {
                        (a, lane) = (a.wrapping_add(MR * LINE), 0);
                    }
                }
                let mut total = added::<S, MR, NV, SUMS>(s, &sums);
                if C::GRID {
                    self.scale(s, &mut total, group.scales, number > 0);
                }
                number += 1;
                if number >= panel.groups {
                    return finish::<S, MR, NV>(s, self.args, rows, &mut total);
                }
                // In memory, where they take no registers while the next group is added.
                for row in 0..MR {
                    for v in 0..NV {
                        s.store(self.sums.add((row * NV + v) * S::LANES), total[row][v]);
                    }
                }
            }
        }
    }

    /// Scales the sums of a group, and adds those of the groups before.
    ///
    /// # Safety
    /// The scales, and room for the sums, are valid.
    #[inline(always)]
    unsafe fn scale<S: Simd, const MR: usize, const NV: usize>(
        &self,
        s: S,
        total: &mut [[S::F32; NV]; MR],
        scales: *const f32,
        resumes: bool,
    ) {
        for v in 0..NV {
            // SAFETY: promised by the caller.
            let scale = unsafe { s.load(scales.add(v * S::LANES)) };
            for row in 0..MR {
                let before = self.sums.wrapping_add((row * NV + v) * S::LANES);
                // SAFETY: as above.
                let before = if resumes { unsafe { s.load(before) } } else { s.splat(0.0) };
                total[row][v] = s.mul_add(scale, total[row][v], before);
            }
        }
    }
}

/// The sums of each element added up.
#[inline(always)]
fn added<S: Simd, const MR: usize, const NV: usize, const SUMS: usize>(
    s: S,
    sums: &[[[S::F32; NV]; MR]; SUMS],
) -> [[S::F32; NV]; MR] {
    let mut total = sums[0];
    for row in 0..MR {
        for v in 0..NV {
            for other in 1..SUMS {
                total[row][v] = s.add(total[row][v], sums[other][row][v]);
            }
        }
    }
    total
}

/// The zeros of a group plus the bases of codes, for products with even and with odd numbers.
///
/// # Safety
/// They are valid.
#[inline(always)]
unsafe fn zeros<S: Simd, C: Codes, const NV: usize>(s: S, group: &Group) -> [[S::F32; NV]; 2] {
    let mut zeros = [[s.splat(0.0); NV]; 2];
    for odd in 0..if C::GRID { 2 } else { 0 } {
        for v in 0..NV {
            // SAFETY: promised by the caller.
            zeros[odd][v] = s.add(unsafe { s.load(group.zeros.add(v * S::LANES)) }, s.splat(C::BASES[odd]));
        }
    }
    zeros
}
