//! The largest elements of several columns at once.
use super::super::rank::{Key, key, position, rank, rank_of};
use crate::blocks::blocks_mut;
use crate::cx::Cx;
use crate::simd::{Simd, WithSimd};

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
        let (cx, whole) = (Cx::detect(), width == LANES);
        let done = match k {
            0..=2 if whole => cx.dispatch(Few::<K, 2> { columns, best }),
            0..=5 if whole => cx.dispatch(Few::<K, 5> { columns, best }),
            0..=8 if whole => cx.dispatch(Few::<K, 8> { columns, best }),
            _ => cx.vectorize(
                #[inline(always)]
                || columns.select(best),
            ),
        };
        if by_position {
            order_by_position(best);
        }
        if !done {
            (start..next).for_each(|column| redo(column, out));
            continue;
        }
        cx.vectorize(
            #[inline(always)]
            || {
                for (out, best) in blocks_mut(out, inner).zip(&*best) {
                    let out = out.get_mut(start..next).unwrap_or_default();
                    for (slot, rank) in out.iter_mut().zip(best.0) {
                        *slot = position(rank);
                    }
                }
            },
        );
    }
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

impl<K: Key> Columns<'_, K> {
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

/// At most `N` of the best elements of as many columns as there are [`LANES`], which stay in registers.
struct Few<'a, K, const N: usize> {
    columns: Columns<'a, K>,
    best: &'a mut [Ranks],
}

impl<K: Key, const N: usize> WithSimd for Few<'_, K, N> {
    /// False if some element is NaN, or in the order of elements no better than none.
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) -> bool {
        (0..LANES).step_by(S::LANES).all(|first| self.select(s, first))
    }
}

impl<K: Key, const N: usize> Few<'_, K, N> {
    /// The ranks of a vector of columns, best first.
    #[inline(always)]
    fn select<S: Simd>(&mut self, s: S, first: usize) -> bool {
        let (mut keys, mut places) = ([s.splat_i32(i32::MIN); N], [s.splat_i32(0); N]);
        let (mut rest, mut place, mut unordered) = (self.columns.x, 0, false);
        while let Some(line) = rest.first_chunk::<LANES>() {
            // The next columns are asked for meanwhile: no stream of lines so far apart is expected.
            s.prefetch(line.as_ptr().wrapping_add(LANES).cast());
            let mut new = [0; LANES];
            for (slot, x) in new.iter_mut().zip(line.iter().skip(first).take(S::LANES)) {
                *slot = key(*x, self.columns.smallest);
                unordered |= !x.is_number() | (*slot == i32::MIN);
            }
            // SAFETY: so many numbers at most.
            let new = unsafe { s.load_i32(new.as_ptr()) };
            // The first ones nearly all belong to the best; then it is worth while to look.
            let tried = place as usize >= TRIED * N;
            if !tried || keys.last().is_none_or(|last| s.any(s.lt_i32(*last, new))) {
                take(s, (&mut keys, &mut places), new, s.splat_i32(place));
            }
            (rest, place) = (rest.get(self.columns.inner..).unwrap_or_default(), place + 1);
        }
        for ((best, keys), places) in self.best.iter_mut().zip(keys).zip(places) {
            let (mut key, mut place) = ([0; LANES], [0; LANES]);
            // SAFETY: so many numbers at most.
            unsafe {
                s.store_i32(key.as_mut_ptr(), keys);
                s.store_i32(place.as_mut_ptr(), places);
            }
            for ((rank, key), place) in best.0.iter_mut().skip(first).take(S::LANES).zip(key).zip(place) {
                *rank = rank_of(key, place);
            }
        }
        !unordered
    }
}

/// Puts the elements of a line where they belong in their columns, behind equal ones; the last ones leave.
// Registers are indexed by constants: iterators over several of them at once hide that.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn take<S: Simd, const N: usize>(
    s: S,
    (keys, places): (&mut [S::I32; N], &mut [S::I32; N]),
    key: S::I32,
    place: S::I32,
) {
    // What a level gets where the new element is better than its own: that element, or what the level above had.
    let mut next = (key, place);
    for level in 0..N {
        let (old, better) = ((keys[level], places[level]), s.lt_i32(keys[level], key));
        keys[level] = s.select_i32(better, next.0, old.0);
        places[level] = s.select_i32(better, next.1, old.1);
        next = (s.select_i32(better, old.0, key), s.select_i32(better, old.1, place));
    }
}

/// Orders the best elements of every column by position instead of by value.
fn order_by_position(best: &mut [Ranks]) {
    for end in 0..best.len() {
        let Some(best) = best.get_mut(..=end) else { continue };
        let Some(last) = best.last_mut() else { continue };
        let positions = Ranks(last.0.map(|rank| rank & i64::from(u32::MAX)));
        *last = NONE;
        insert(best, &positions);
    }
}
