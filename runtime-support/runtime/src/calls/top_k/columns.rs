//! The largest elements of several columns at once.
use super::super::rank::{Key, key, position, rank};
use super::few::{self, LANES, Lines, NONE, Ranks, TRIED, insert, order_by_position};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use crate::parts::{Apart, split_all};
use crate::simd::Simd;

/// Most results of a column that are kept sorted while its elements pass by.
pub const MOST: usize = 64;

/// The positions of the `k` best elements, at most [`MOST`], of every column of blocks with `count` lines of `inner` elements:
/// lines of `out`. False if there may be NaN among the elements, of which this knows no order.
#[inline]
pub fn select<K: Key>(cx: Cx<'_>, x: &[K], out: &mut [i32], [count, inner, k]: [usize; 3], flags: [bool; 2]) -> bool {
    let groups = ceil_div_usize(inner, LANES);
    let all = floor_div_usize(out.len(), k.saturating_mul(inner)).saturating_mul(groups);
    let parts = cx.parts(x.len().saturating_mul(k), few::WORK).min(all).max(1);
    let out = Apart::new(out);
    split_all(cx, all, parts, |range| {
        let mut best = [NONE; MOST];
        let Some(best) = best.get_mut(..k) else { return false };
        for group in range {
            let (block, group) = (floor_div_usize(group, groups), floor_mod_usize(group, groups));
            // The last columns are selected again rather than fewer of them at once.
            let width = inner.min(LANES);
            let (from, start) = (group * LANES, (group * LANES).min(inner - width));
            let x = x.get(block * count * inner..).and_then(|x| x.get(..count * inner)).unwrap_or_default();
            let columns = Columns { x: x.get(start..).unwrap_or_default(), inner, width, smallest: flags[0] };
            if !columns.best(cx, best, flags[1]) {
                return false;
            }
            let mut at = block * k * inner + from;
            for best in &*best {
                let positions = cx.vectorize(
                    #[inline(always)]
                    || best.0.map(position),
                );
                // SAFETY: no other group has these columns.
                unsafe { out.put(at, positions.get(from - start..width).unwrap_or_default()) };
                at += inner;
            }
        }
        true
    })
}

#[derive(Clone, Copy)]
struct Columns<'a, K> {
    x: &'a [K],
    /// From one element of a column to the next.
    inner: usize,
    /// Number of columns.
    width: usize,
    smallest: bool,
}

impl<K: Key> Lines for Columns<'_, K> {
    #[inline(always)]
    fn next<S: Simd>(&mut self, s: S, first: usize) -> Option<(S::I32, bool)> {
        let line = self.x.first_chunk::<LANES>()?;
        // The next columns are asked for meanwhile: no stream of lines so far apart is expected.
        s.prefetch(line.as_ptr().wrapping_add(LANES).cast());
        let (mut keys, mut unordered) = ([0; LANES], false);
        for (slot, x) in keys.iter_mut().zip(line.iter().skip(first).take(S::LANES)) {
            *slot = key(*x, self.smallest);
            unordered |= !x.is_number() | (*slot == i32::MIN);
        }
        self.x = self.x.get(self.inner..).unwrap_or_default();
        // SAFETY: so many numbers at most.
        Some((unsafe { s.load_i32(keys.as_ptr()) }, unordered))
    }
}

impl<K: Key> Columns<'_, K> {
    /// The ranks of the best elements, in their order; false if some element may be NaN.
    #[inline(always)]
    fn best(self, cx: Cx<'_>, best: &mut [Ranks], by_position: bool) -> bool {
        let done = if self.width == LANES && best.len() <= few::MOST {
            few::select(cx, self, best)
        } else {
            cx.vectorize(
                #[inline(always)]
                || self.select(best),
            )
        };
        if by_position {
            order_by_position(best);
        }
        done
    }

    /// The ranks of the best elements, best first; false if some element is NaN.
    #[inline(always)]
    fn select(&self, best: &mut [Ranks]) -> bool {
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
            for (slot, x) in ranks.0.iter_mut().zip(line) {
                *slot = rank(*x, place, self.smallest);
            }
            // The first ones nearly all belong to the best; then it is worth while to look.
            let last = best.last().filter(|_| place as usize >= TRIED * best.len());
            if last.is_none_or(|last| ranks.0.iter().zip(last.0).fold(false, |any, (rank, last)| any | (*rank > last)))
            {
                insert(best, &ranks);
            }
            (at, place) = (at + self.inner, place + 1);
        }
        true
    }
}
