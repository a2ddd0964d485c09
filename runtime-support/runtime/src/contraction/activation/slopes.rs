//! PReLU of finished tiles: what is below zero is multiplied by the slope of its column.
use super::functions::bent;
use crate::contraction::Tile;
use crate::contraction::bend::{Bend, Slope};
use crate::cx::Cx;
use crate::simd::{Simd, WithSimd, load_first, store_first};

/// `x`, below zero `x` times the slope of its column; NaN stays NaN.
#[derive(Clone, Copy, Debug)]
pub struct Slopes<'a>(pub &'a [f32]);

impl<'a> Slopes<'a> {
    /// What an epilogue does then. Columns without a slope stay as they are.
    #[inline(always)]
    pub fn on_tiles(self, cx: Cx<'a>) -> impl Fn(Tile<'_>) + Sync + 'a {
        move |tile| match tile.is_question() {
            true if tile.cols() <= self.0.len() => tile.answer(Bend::Slope(Slope::Columns(self.0.as_ptr()))),
            _ => self.apply(cx, tile),
        }
    }

    // Compiled once, here.
    #[inline(never)]
    fn apply(self, cx: Cx<'_>, tile: Tile<'_>) {
        let slopes = self.0.get(tile.first_col..).unwrap_or_default();
        cx.dispatch(Apply { slopes, tile });
    }
}

struct Apply<'t> {
    /// From the first column of the tile on.
    slopes: &'t [f32],
    tile: Tile<'t>,
}

/// Columns whose slopes are repeated, at most.
const FEW: usize = 64;
/// Lanes of the longest vector.
const MOST: usize = 16;
/// Vectors of columns whose slopes are in registers.
const TOGETHER: usize = 4;

impl WithSimd for Apply<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let cols = self.tile.cols();
        if cols == 0 || cols > FEW || cols.is_multiple_of(S::LANES) || self.slopes.len() < cols {
            return self.rows(s);
        }
        // Vectors of several rows read slopes from any column on.
        let mut repeated = [0.0f32; FEW + MOST];
        for (slope, from) in repeated.iter_mut().zip(self.slopes.iter().take(cols).cycle()) {
            *slope = *from;
        }
        for run in self.tile.runs() {
            let (mut done, mut column) = (0, 0);
            while done < run.len() {
                let slopes = repeated.as_ptr().wrapping_add(column);
                // SAFETY: so many elements of the run are left; there are as many slopes from every column on.
                unsafe { bend(s, run.as_mut_ptr().wrapping_add(done), slopes, run.len() - done) };
                (done, column) = (done + S::LANES, column + S::LANES);
                while column >= cols {
                    column -= cols;
                }
            }
        }
    }
}

impl Apply<'_> {
    /// Row by row, some vectors of columns at a time.
    #[inline(always)]
    fn rows<S: Simd>(&mut self, s: S) {
        let cols = self.tile.cols().min(self.slopes.len());
        let mut done = 0;
        while cols - done >= TOGETHER * S::LANES {
            // SAFETY: so many columns, and slopes, are left.
            unsafe { self.vectors::<S, TOGETHER>(s, done) };
            done += TOGETHER * S::LANES;
        }
        if cols - done >= 2 * S::LANES {
            // SAFETY: as above.
            unsafe { self.vectors::<S, 2>(s, done) };
            done += 2 * S::LANES;
        }
        if cols - done >= S::LANES {
            // SAFETY: as above.
            unsafe { self.vectors::<S, 1>(s, done) };
            done += S::LANES;
        }
        if done == cols {
            return;
        }
        let (left, slopes) = (cols - done, self.slopes.as_ptr().wrapping_add(done));
        for (_, row) in self.tile.rows() {
            // SAFETY: so many columns of the row, and slopes, are left.
            unsafe { bend(s, row.as_mut_ptr().wrapping_add(done), slopes, left) };
        }
    }

    /// N vectors of columns from one on; registers hold their slopes.
    ///
    /// # Safety
    /// All rows have so many columns, and so many slopes are valid.
    #[inline(always)]
    unsafe fn vectors<S: Simd, const N: usize>(&mut self, s: S, first: usize) {
        // SAFETY: promised by the caller.
        unsafe {
            let slopes = self.slopes.as_ptr().wrapping_add(first);
            let slopes: [S::F32; N] = core::array::from_fn(
                #[inline(always)]
                |v| s.load(slopes.wrapping_add(v * S::LANES)),
            );
            for (_, row) in self.tile.rows() {
                let row = row.as_mut_ptr().wrapping_add(first);
                for (v, slope) in slopes.into_iter().enumerate() {
                    let to = row.wrapping_add(v * S::LANES);
                    s.store(to, bent(s, s.load(to), slope));
                }
            }
        }
    }
}

/// A vector of elements, or as many as are left.
///
/// # Safety
/// They are valid, and so are as many slopes; elements are borrowed exclusively.
#[inline(always)]
unsafe fn bend<S: Simd>(s: S, at: *mut f32, slopes: *const f32, left: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        let (x, slope) = (load_first(s, at, left), load_first(s, slopes, left));
        store_first(s, at, left, bent(s, x, slope));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::isa::Isa;
    use std::vec::Vec;

    #[test]
    fn bits_are_those_of_the_definition_on_every_isa() {
        let numbers = [1.5f32, -2.0, 0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1e-40, 3e38, -0.3];
        let slopes: Vec<f32> = (0..50).map(|i| i as f32 * 0.25 - 3.0).collect();
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            for (first, cols, step) in [(0, 37, 41), (4, 32, 32), (1, 3, 5), (8, 10, 10), (40, 10, 12), (45, 9, 9)] {
                let all: Vec<f32> = (0..7 * step).map(|i| numbers[i * 7 % numbers.len()]).collect();
                let mut data = all.clone();
                Slopes(&slopes).on_tiles(cx)(Tile::in_buffer([0; 2], (0, first), &mut data, step, cols));
                for (i, (got, x)) in data.iter().zip(all).enumerate() {
                    let slope = slopes.get(first + i % step).copied().filter(|_| i % step < cols && x < 0.0);
                    let want = slope.map_or(x, |slope| x * slope);
                    assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{got} {want}");
                }
            }
        }
    }
}
