//! The transforms along one axis, and the loops that apply them to tiles.
// Tiles in registers are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]

use crate::contraction::kernel::LINE;
use crate::simd::{Simd, WithSimd, load_first, store_first};

/// Columns that are transformed back before they are finished.
pub(super) const GROUP: usize = 32;
/// Pixels of the largest tile.
const PIXELS: usize = 16;
/// A vector of zeros of any instruction set.
static ZEROS: [f32; 16] = [0.0; 16];

/// Data of four pixels at the points 0, 1, -1, infinity.
#[inline(always)]
fn data_of_4<S: Simd>(s: S, d: [S::F32; 4]) -> [S::F32; 4] {
    [s.sub(d[0], d[2]), s.add(d[1], d[2]), s.sub(d[2], d[1]), s.sub(d[1], d[3])]
}

/// Data of six pixels at the points 0, 1, -1, 2, -2, infinity, whatever the window.
#[inline(always)]
fn data_of_6<S: Simd>(s: S, d: [S::F32; 6]) -> [S::F32; 6] {
    let (two, four, minus_four, minus_five) = (s.splat(2.0), s.splat(4.0), s.splat(-4.0), s.splat(-5.0));
    let (a, b) = (s.mul_add(minus_four, d[2], d[4]), s.mul_add(minus_four, d[1], d[3]));
    let (e, g) = (s.sub(d[4], d[2]), s.mul(two, s.sub(d[3], d[1])));
    [
        s.mul_add(four, d[0], s.mul_add(minus_five, d[2], d[4])),
        s.add(a, b),
        s.sub(a, b),
        s.add(e, g),
        s.sub(e, g),
        s.mul_add(four, d[1], s.mul_add(minus_five, d[3], d[5])),
    ]
}

/// Two or three pixels of a window of three or two from sums at four points.
#[inline(always)]
fn pixels_of_4<S: Simd, const T: usize>(s: S, m: [S::F32; 4]) -> [S::F32; T] {
    let (even, odd) = (s.add(m[1], m[2]), s.sub(m[1], m[2]));
    let mut pixels = [s.add(m[0], even); T];
    for x in 1..T {
        pixels[x] = if x % 2 == 0 { even } else { odd };
    }
    pixels[T - 1] = s.sub(pixels[T - 1], m[3]);
    pixels
}

/// Two to five pixels of a window of five to two from sums at six points.
#[inline(always)]
fn pixels_of_6<S: Simd, const T: usize>(s: S, m: [S::F32; 6]) -> [S::F32; T] {
    let (a, b, e, g) = (s.add(m[1], m[2]), s.sub(m[1], m[2]), s.add(m[3], m[4]), s.sub(m[3], m[4]));
    let mut pixels = [s.add(a, e); T];
    for x in 1..T {
        // The x-th powers of 2 and -2 have the sign of those of 1 and -1.
        let (one, two) = if x % 2 == 0 { (a, e) } else { (b, g) };
        pixels[x] = s.mul_add(s.splat((1_u32 << x) as f32), two, one);
    }
    pixels[0] = s.add(m[0], pixels[0]);
    pixels[T - 1] = s.add(m[5], pixels[T - 1]);
    pixels
}

/// Transforms N x N vectors along both axes to T x T, or a line of N to T: `load(y, x)` gives them, `store(y, x, ..)` takes them.
#[inline(always)]
fn both_axes<S: Simd, const N: usize, const T: usize, const IS_LINE: bool>(
    s: S,
    load: impl Fn(usize, usize) -> S::F32,
    along: &impl Fn([S::F32; N]) -> [S::F32; T],
    mut store: impl FnMut(usize, usize, S::F32),
) {
    let mut half = [[s.splat(0.0); N]; T];
    if IS_LINE {
        for x in 0..N {
            half[0][x] = load(0, x);
        }
    }
    for x in 0..if IS_LINE { 0 } else { N } {
        let mut line = [s.splat(0.0); N];
        for y in 0..N {
            line[y] = load(y, x);
        }
        let line = along(line);
        for y in 0..T {
            half[y][x] = line[y];
        }
    }
    for y in 0..if IS_LINE { 1 } else { T } {
        let line = along(half[y]);
        for x in 0..T {
            store(y, x, line[x]);
        }
    }
}

/// The input pixels under a tile: where each lies, and a mask of offsets of its channels, which is 0 for zeros.
pub(super) type Pixels = [(*const f32, usize); 36];
/// All in the padding.
pub(super) const PADDING: Pixels = [(ZEROS.as_ptr(), 0); 36];

/// Transforms the data of one tile, all channels: position p of channel c goes to `to + p * plane + c / 16 * step + c % 16`.
pub(super) struct Data<'a> {
    /// Pixels under a tile along both axes.
    pub size: [usize; 2],
    /// The first of them are used.
    pub pixels: &'a Pixels,
    pub channels: usize,
    /// Channels that are written: more than there are are zeros.
    pub written: usize,
    pub to: *mut f32,
    pub step: usize,
    pub plane: usize,
}

impl WithSimd for Data<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: promised by the maker of the value: all pixels have `channels` channels, and there is room for all
        // positions.
        unsafe {
            match self.size {
                [4, _] => self.transform::<S, 4, false>(
                    s,
                    #[inline(always)]
                    |d| data_of_4(s, d),
                ),
                [1, _] => self.transform::<S, 6, true>(
                    s,
                    #[inline(always)]
                    |d| data_of_6(s, d),
                ),
                _ => self.transform::<S, 6, false>(
                    s,
                    #[inline(always)]
                    |d| data_of_6(s, d),
                ),
            }
        }
    }
}

impl Data<'_> {
    /// # Safety
    /// All pixels have `channels` channels, and there is room for N * N positions, or N of a line.
    #[inline(always)]
    unsafe fn transform<S: Simd, const N: usize, const IS_LINE: bool>(
        &self,
        s: S,
        along: impl Fn([S::F32; N]) -> [S::F32; N],
    ) {
        let mut channel = 0;
        while channel < self.written {
            let left = self.channels.saturating_sub(channel);
            let to = self.to.wrapping_add(channel / LINE * self.step + channel % LINE);
            both_axes::<S, N, N, IS_LINE>(
                s,
                #[inline(always)]
                |y: usize, x: usize| {
                    let (start, mask) = self.pixels[(y * N + x) % 36];
                    // SAFETY: the pixel's channels, or zeros, of which there is a vector.
                    unsafe { load_first(s, start.wrapping_add(channel & mask), left) }
                },
                &along,
                #[inline(always)]
                |y: usize, x: usize, v: S::F32| {
                    let at = to.wrapping_add((y * N + x) * self.plane);
                    // SAFETY: there is room for the tile's channels at every position.
                    unsafe { store_first(s, at, self.written - channel, v) };
                },
            );
            channel += S::LANES;
        }
    }
}

/// The pixels of a tile, rows of [`GROUP`] columns.
pub(super) type Group = [f32; PIXELS * GROUP];
/// Nothing transformed yet.
pub(super) const NO_GROUP: Group = [0.0; PIXELS * GROUP];

/// Transforms the sums of one tile back, up to [`GROUP`] columns: position p of column c comes from `from + p * plane + c`.
pub(super) struct Sums<'a> {
    /// Output pixels of a tile along both axes.
    pub tile: [usize; 2],
    /// Pixels under it.
    pub size: [usize; 2],
    pub from: *const f32,
    pub plane: usize,
    /// The first [`GROUP`] of them are transformed.
    pub cols: usize,
    pub to: &'a mut Group,
    /// What happens to them then.
    pub finish: Finish,
}

/// Bias, residual, limits and store of a tile's pixels.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    /// Pixels of the tile that exist along both axes.
    pub size: [usize; 2],
    /// Columns that exist.
    pub cols: usize,
    /// The first pixel's first column in the result, and the distance to the next pixel along both axes.
    pub out: *mut f32,
    pub out_step: [usize; 2],
    /// The same of the residual; null if there is none.
    pub residual: *const f32,
    pub residual_step: [usize; 2],
    /// Bias of the first column, or null.
    pub bias: *const f32,
    pub accumulate: bool,
    pub clamp: Option<(f32, f32)>,
}

impl WithSimd for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        // SAFETY: promised by the maker of the value: sums, result, residual and bias have the columns.
        unsafe {
            match (self.tile, self.size) {
                ([_, 2], [4, _]) => self.of_4::<S, 2>(s),
                (_, [4, _]) => self.of_4::<S, 3>(s),
                ([1, 2], _) => self.of_6::<S, 2, true>(s),
                ([1, 3], _) => self.of_6::<S, 3, true>(s),
                ([1, 5], _) => self.of_6::<S, 5, true>(s),
                ([1, _], _) => self.of_6::<S, 4, true>(s),
                ([_, 2], _) => self.of_6::<S, 2, false>(s),
                ([_, 3], _) => self.of_6::<S, 3, false>(s),
                _ => self.of_6::<S, 4, false>(s),
            }
            self.finish.run(s, self.tile, self.to);
        }
    }
}

impl Sums<'_> {
    /// # Safety
    /// As `transform`.
    #[inline(always)]
    unsafe fn of_4<S: Simd, const T: usize>(&mut self, s: S) {
        // SAFETY: promised by the caller.
        unsafe {
            self.transform::<S, 4, T, false>(
                s,
                #[inline(always)]
                |m| pixels_of_4(s, m),
            );
        }
    }

    /// # Safety
    /// As `transform`.
    #[inline(always)]
    unsafe fn of_6<S: Simd, const T: usize, const IS_LINE: bool>(&mut self, s: S) {
        // SAFETY: promised by the caller.
        unsafe {
            self.transform::<S, 6, T, IS_LINE>(
                s,
                #[inline(always)]
                |m| pixels_of_6(s, m),
            );
        }
    }

    /// # Safety
    /// All N * N positions, or N of a line, have the columns and a vector behind them.
    #[inline(always)]
    unsafe fn transform<S: Simd, const N: usize, const T: usize, const IS_LINE: bool>(
        &mut self,
        s: S,
        along: impl Fn([S::F32; N]) -> [S::F32; T],
    ) {
        let mut column = 0;
        // A vector may reach beyond the columns: into the next tile, or the gap behind the last one.
        while column < self.cols.min(GROUP) {
            let to = self.to.as_mut_ptr();
            both_axes::<S, N, T, IS_LINE>(
                s,
                #[inline(always)]
                |y: usize, x: usize| {
                    // SAFETY: promised by the caller.
                    unsafe { s.load(self.from.wrapping_add((y * N + x) * self.plane + column)) }
                },
                &along,
                #[inline(always)]
                |y: usize, x: usize, v: S::F32| {
                    // SAFETY: at most 16 pixels, and the columns end at GROUP.
                    unsafe { s.store(to.wrapping_add((y * T + x) * GROUP + column), v) };
                },
            );
            column += S::LANES;
        }
    }
}

impl Finish {
    /// # Safety
    /// Result, residual and bias have the pixels and columns.
    #[inline(always)]
    unsafe fn run<S: Simd>(&self, s: S, tile: [usize; 2], group: &Group) {
        for y in 0..self.size[0].min(tile[0]) {
            for x in 0..self.size[1].min(tile[1]) {
                let values = group.as_ptr().wrapping_add((y * tile[1] + x) * GROUP);
                let out = self.out.wrapping_add(y * self.out_step[0] + x * self.out_step[1]);
                let residual = match self.residual.is_null() {
                    true => self.residual,
                    false => self.residual.wrapping_add(y * self.residual_step[0] + x * self.residual_step[1]),
                };
                // SAFETY: the group has all pixels; promised by the caller for the other operands.
                unsafe { self.pixel(s, values, out, residual) };
            }
        }
    }

    /// # Safety
    /// All operands have the columns.
    #[inline(always)]
    unsafe fn pixel<S: Simd>(&self, s: S, values: *const f32, out: *mut f32, residual: *const f32) {
        let mut column = 0;
        while column < self.cols {
            let left = self.cols - column;
            // SAFETY: `left` numbers are valid, as promised by the caller.
            let read = |from: *const f32| unsafe { load_first(s, from.wrapping_add(column), left) };
            let mut value = read(values);
            if !self.bias.is_null() {
                value = s.add(value, read(self.bias));
            }
            if !residual.is_null() {
                value = s.add(value, read(residual));
            }
            if self.accumulate {
                value = s.add(value, read(out));
            }
            if let Some((low, high)) = self.clamp {
                // The second operand wins if it is NaN.
                value = s.min(s.splat(high), s.max(s.splat(low), value));
            }
            // SAFETY: as above.
            unsafe { store_first(s, out.wrapping_add(column), left, value) };
            column += S::LANES;
        }
    }
}
