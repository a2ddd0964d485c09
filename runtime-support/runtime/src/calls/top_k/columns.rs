//! The largest elements of several columns at once.
use super::super::rank::{Key, position, rank};
use crate::blocks::blocks_mut;
use crate::cx::Cx;

/// Columns that are compared at once.
const LANES: usize = 16;
/// So many times as many elements as are wanted are inserted without a look whether they belong to the best.
const TRIED: usize = 16;
/// Most results of a column that are kept sorted while its elements pass by.
pub const MOST: usize = 64;

/// A rank in every column; vectors of them lie in one line of a cache each.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Ranks([i64; LANES]);

/// No element.
const NONE: Ranks = Ranks([i64::MIN; LANES]);

/// The positions of the `k` best elements of every column of `block`, which has lines of `inner` elements: lines of `out`. At
/// most [`MOST`] of them. `redo` does a column in which there may be NaN: which elements are best depends on its ways.
#[inline]
pub fn select<K: Key>(
    block: &[K],
    out: &mut [i32],
    inner: usize,
    [smallest, by_position]: [bool; 2],
    mut redo: impl FnMut(usize, &mut [i32]),
) {
    let mut best = [NONE; MOST];
    let k = out.len().checked_div(inner).unwrap_or(0);
    let Some(best) = best.get_mut(..k) else { return };
    let width = inner.min(LANES);
    let mut next = 0;
    while next < inner {
        // The last columns are done again rather than fewer of them at once.
        let start = next.min(inner - width);
        next = start + width;
        let columns = Columns { x: block.get(start..).unwrap_or_default(), inner, width, smallest };
        let numbers = Cx::detect().vectorize(
            #[inline(always)]
            || columns.select(best, by_position),
        );
        if !numbers {
            (start..next).for_each(|column| redo(column, out));
            continue;
        }
        for (out, best) in blocks_mut(out, inner).zip(&*best) {
            let out = out.get_mut(start..next).unwrap_or_default();
            out.iter_mut().zip(best.0).for_each(|(slot, rank)| *slot = position(rank));
        }
    }
}

struct Columns<'a, K> {
    x: &'a [K],
    /// From one element of a column to the next.
    inner: usize,
    /// Number of columns.
    width: usize,
    smallest: bool,
}

impl<K: Key> Columns<'_, K> {
    /// The ranks of the best elements, best first; false if some element is NaN.
    #[inline(always)]
    fn select(&self, best: &mut [Ranks], by_position: bool) -> bool {
        best.fill(NONE);
        let (mut at, mut place, mut few) = (0, 0, [K::ZERO; LANES]);
        while let Some(rest) = self.x.get(at..) {
            // Where there are too few columns, the others are zeros.
            few.iter_mut().zip(rest.iter().take(self.width % LANES)).for_each(|(slot, x)| *slot = *x);
            let line = if self.width == LANES { rest.first_chunk() } else { (!rest.is_empty()).then_some(&few) };
            let Some(line) = line else { break };
            if line.iter().fold(false, |unordered, x| unordered | !x.is_number()) {
                return false;
            }
            let mut ranks = NONE;
            for (rank_of, x) in ranks.0.iter_mut().zip(line) {
                *rank_of = rank(*x, place, self.smallest);
            }
            // The first ones nearly all belong to the best; then it is worth while to look.
            let last = best.last().filter(|_| place as usize >= TRIED * best.len());
            if last.is_none_or(|last| ranks.0.iter().zip(last.0).fold(false, |any, (rank, last)| any | (*rank > last)))
            {
                insert(best, &ranks);
            }
            (at, place) = (at + self.inner, place + 1);
        }
        if by_position {
            for end in 0..best.len() {
                let Some(best) = best.get_mut(..=end) else { continue };
                let Some(last) = best.last_mut() else { continue };
                let positions = Ranks(last.0.map(|rank| rank & i64::from(u32::MAX)));
                *last = NONE;
                insert(best, &positions);
            }
        }
        true
    }
}

/// Puts ranks where they belong in their columns; the last ones leave.
#[inline(always)]
fn insert(best: &mut [Ranks], ranks: &Ranks) {
    // Going up, what is moved down has not changed yet.
    for level in (1..best.len()).rev() {
        let Ok([above, here]) = best.get_disjoint_mut([level - 1, level]) else { return };
        for ((here, above), rank) in here.0.iter_mut().zip(above.0).zip(ranks.0) {
            *here = (*here).max(rank.min(above));
        }
    }
    if let Some(first) = best.first_mut() {
        first.0.iter_mut().zip(ranks.0).for_each(|(first, rank)| *first = (*first).max(rank));
    }
}
