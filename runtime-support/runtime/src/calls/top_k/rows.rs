//! The largest elements of several rows at once.
use super::super::rank::{Key, key};
use super::few::{self, LANES, Line, Lines};
use crate::blocks::blocks_mut;
use crate::cx::Cx;
use crate::parts::split_rows;
use crate::simd::Simd;
use crate::transpose::{SQUARE, square};

/// Elements of a row for each that is wanted, at most: of more nearly all are passed over, which takes least time in one row.
const PASSED: usize = 100;

/// Whether the `k` best of so many rows of `count` elements are selected together.
#[inline]
pub fn fit(rows: usize, count: usize, k: usize) -> bool {
    rows >= LANES && (1..=few::HELD).contains(&k) && count <= PASSED * k
}

/// The positions of the `k` best elements of each row of `count`, where they [`fit`]: rows of `out`. False if there may be NaN
/// among the elements, of which this knows no order.
#[inline]
pub fn select<K: Key>(
    cx: Cx<'_>,
    x: &[K],
    out: &mut [i32],
    [count, k]: [usize; 2],
    [smallest, by_position]: [bool; 2],
) -> bool {
    split_rows(cx, out, k, [LANES, count.saturating_mul(k)], few::WORK, |rows, out| {
        let mut next = 0;
        while next < rows.len() {
            // The last rows are selected again rather than fewer of them at once.
            let first = next.min(rows.len().saturating_sub(LANES));
            next = first + LANES;
            let x = x.get((rows.start + first) * count..).unwrap_or_default();
            let mut best = [Line::all(0); few::HELD];
            let Some(best) = best.get_mut(..k) else { return false };
            let rows = Rows { x, count, smallest, at: 0, block: [[0; LANES]; LANES] };
            if !few::select(cx, rows, best, by_position) {
                return false;
            }
            for (row, out) in blocks_mut(out.get_mut(first * k..).unwrap_or_default(), k).take(LANES).enumerate() {
                for (slot, best) in out.iter_mut().zip(&*best) {
                    *slot = best.0.get(row).copied().unwrap_or_default();
                }
            }
        }
        true
    })
}

/// Rows, of which a block is transposed at a time.
#[derive(Clone, Copy)]
struct Rows<'a, K> {
    x: &'a [K],
    /// Elements of a row.
    count: usize,
    smallest: bool,
    /// The next one.
    at: usize,
    /// The keys of a block of all rows: what the next elements are, line by line.
    block: [[i32; LANES]; LANES],
}

impl<K: Key> Rows<'_, K> {
    /// Reads the next block, as much of it as there is.
    #[inline(always)]
    fn read(&mut self) {
        let mut rows = [[0; LANES]; LANES];
        for (row, keys) in rows.iter_mut().enumerate() {
            let row = self.x.get(row * self.count..).and_then(|x| x.get(..self.count)).unwrap_or_default();
            let row = row.get(self.at..).unwrap_or_default();
            let part;
            let elements = match row.first_chunk::<LANES>() {
                Some(elements) => elements,
                None => {
                    let mut some = [K::ZERO; LANES];
                    some.iter_mut().zip(row).for_each(|(slot, x)| *slot = *x);
                    part = some;
                    &part
                }
            };
            for (slot, x) in keys.iter_mut().zip(elements) {
                *slot = key(*x, self.smallest);
            }
        }
        let (from, to) = (rows.as_ptr().cast::<i32>(), self.block.as_mut_ptr().cast::<i32>());
        for i in (0..LANES).step_by(SQUARE) {
            for j in (0..LANES).step_by(SQUARE) {
                // SAFETY: inside both.
                unsafe { square(from.wrapping_add(j * LANES + i), LANES, to.wrapping_add(i * LANES + j), LANES) };
            }
        }
    }
}

impl<K: Key> Lines for Rows<'_, K> {
    const RANGE: [i32; 2] = K::RANGE;

    #[inline(always)]
    fn next<S: Simd>(&mut self, s: S, first: usize) -> Option<S::I32> {
        if self.at >= self.count {
            return None;
        }
        if self.at.is_multiple_of(LANES) {
            self.read();
        }
        let line = self.block.get(self.at % LANES)?.get(first..first + S::LANES)?;
        self.at += 1;
        // SAFETY: so many numbers.
        Some(unsafe { s.load_i32(line.as_ptr()) })
    }
}
