//! Packing of the left operand: rows that a micro-kernel multiplies together lie side by side.
//!
//! Chunk c of a tile holds elements 16c.. of its first row, the same of the second row, and so on: a cache line of every
//! row. Rows whose distance is a large power of two compete for the same few lines of the nearest cache; packed they do
//! not, are read in order, and one address leads to all of them. Padding is packed as zeros.
use super::Contraction;
use super::kernel::LINE;
use super::table::{Row, step};
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use core::ops::Range;

/// Most products that are packed at once: a panel of 48 columns of weights for them fills half of the second-level cache. Rows come
/// from the outer cache then, which takes less time than sums that wait in the result between passes.
const MOST: usize = 3072;

/// Products of one pass over k of them: passes of equal length, whole chunks.
pub(super) const fn pass(k: usize) -> usize {
    let passes = ceil_div_usize(k, MOST);
    let passes = if passes == 0 { 1 } else { passes };
    super::packed::padded(ceil_div_usize(k, passes))
}

/// Packs products `k` of the rows of a tile; row i's element of tap 0 is at `a` plus its address.
///
/// # Safety
/// All addresses of the descriptor are valid from `a` on; `to` takes `k` rounded up to whole chunks, for every row.
pub(crate) unsafe fn pack(c: &Contraction, a: *const f32, rows: &[Row], k: Range<usize>, to: *mut f32) {
    let mut tap = floor_div_usize(k.start, c.depth);
    let mut done = k.start;
    while done < k.end {
        let end = tap.saturating_add(1).saturating_mul(c.depth).min(k.end);
        let at = Position::new(c, tap);
        let from = at.offset.wrapping_add((done - tap * c.depth) as isize);
        for (i, row) in rows.iter().enumerate() {
            let start = a.wrapping_offset(row.a).wrapping_offset(from);
            let start = if at.is_valid(c, row) { Some(start) } else { None };
            let place = Place { rows: rows.len(), row: i, first: done - k.start };
            // SAFETY: the tap is valid for the row, and its run has these elements; promised by the caller.
            unsafe { place.copy(start, end - done, to) };
        }
        (tap, done) = (tap + 1, end);
    }
}

/// A tap: its indices, and its distance from tap 0.
struct Position {
    index: [usize; 4],
    offset: isize,
}

impl Position {
    fn new(c: &Contraction, tap: usize) -> Self {
        let (mut index, mut offset, mut rest) = ([0; 4], 0isize, tap);
        for (index, axis) in index.iter_mut().zip(&c.taps).rev() {
            *index = floor_mod_usize(rest, axis.extent);
            rest = floor_div_usize(rest, axis.extent);
            offset = offset.wrapping_add(step(*index, axis.a));
        }
        Position { index, offset }
    }

    /// Whether the tap lies in the data, not in the padding.
    fn is_valid(&self, c: &Contraction, row: &Row) -> bool {
        row.inside
            || c.bounds.iter().enumerate().filter(|(_, bound)| bound.limit != 0).all(|(b, bound)| {
                let index = self.index.get(usize::from(bound.tap)).copied().unwrap_or(0);
                let (first, count) = row.valid(b);
                index.wrapping_sub(usize::from(first)) < usize::from(count)
            })
    }
}

/// Where a run of a row goes.
struct Place {
    rows: usize,
    row: usize,
    first: usize,
}

impl Place {
    /// Copies `len` elements, zeros if there is no start.
    ///
    /// # Safety
    /// `len` elements are valid at `start`; `to` takes the tile's chunks up to the last of them.
    unsafe fn copy(&self, start: Option<*const f32>, len: usize, to: *mut f32) {
        let mut done = 0;
        while done < len {
            let at = self.first + done;
            let (chunk, lane) = (at / LINE, at % LINE);
            let to = to.wrapping_add((chunk * self.rows + self.row) * LINE + lane);
            let from = start.map(|start| start.wrapping_add(done));
            // SAFETY: elements from `done` on are valid, and so are their places in the chunks.
            done += unsafe {
                if lane == 0 && len - done >= LINE {
                    self.chunks(from, len - done, to)
                } else {
                    let n = (LINE - lane).min(len - done);
                    match from {
                        Some(from) => core::ptr::copy_nonoverlapping(from, to, n),
                        None => to.write_bytes(0, n),
                    }
                    n
                }
            };
        }
    }

    /// Copies the whole chunks of `len` elements: how many elements these are. A constant length is a few moves; others
    /// are calls.
    ///
    /// # Safety
    /// As `copy`; `to` begins a chunk.
    unsafe fn chunks(&self, from: Option<*const f32>, len: usize, mut to: *mut f32) -> usize {
        let mut done = 0;
        while done + LINE <= len {
            // SAFETY: promised by the caller.
            unsafe {
                let line = from.map_or([0.0; LINE], |from| from.add(done).cast::<[f32; LINE]>().read_unaligned());
                to.cast::<[f32; LINE]>().write_unaligned(line);
            }
            (to, done) = (to.wrapping_add(self.rows * LINE), done + LINE);
        }
        done
    }
}
