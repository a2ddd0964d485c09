//! The best elements of several columns, or rows, at once: in registers where they are few.
use super::super::rank::rank_of;
use crate::cx::Cx;
use crate::simd::{Simd, WithSimd};

/// Columns that are compared at once.
pub const LANES: usize = 16;
/// So many times as many elements as are wanted are inserted without a look whether they belong to the best.
pub const TRIED: usize = 16;
/// Elements that take a microsecond, for each that is wanted.
pub const WORK: usize = 4096;
/// Most results that stay in registers.
pub const MOST: usize = 10;

/// A rank in every column; vectors of them lie in one line of a cache each.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Ranks(pub [i64; LANES]);

/// No element.
pub const NONE: Ranks = Ranks([i64::MIN; LANES]);

/// Elements that are compared, line by line: of every one of [`LANES`] columns the next one.
pub trait Lines: Copy {
    /// The keys of a vector of the next line, from column `first` on, and whether some of them tell nothing: NaN, and what is
    /// no better than none.
    fn next<S: Simd>(&mut self, s: S, first: usize) -> Option<(S::I32, bool)>;
}

/// The ranks of the best elements of every column, best first, up to [`MOST`]; false if some key tells nothing.
#[inline(always)]
pub fn select(cx: Cx<'_>, lines: impl Lines, best: &mut [Ranks]) -> bool {
    match best.len() {
        0..=2 => cx.dispatch(Few::<_, 2> { lines, best }),
        3..=5 => cx.dispatch(Few::<_, 5> { lines, best }),
        _ => cx.dispatch(Few::<_, MOST> { lines, best }),
    }
}

/// At most `N` of the best elements.
struct Few<'a, L, const N: usize> {
    lines: L,
    best: &'a mut [Ranks],
}

impl<L: Lines, const N: usize> WithSimd for Few<'_, L, N> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) -> bool {
        (0..LANES).step_by(S::LANES).all(
            #[inline(always)]
            |first| self.select(s, first),
        )
    }
}

impl<L: Lines, const N: usize> Few<'_, L, N> {
    /// Those of a vector of columns.
    #[inline(always)]
    fn select<S: Simd>(&mut self, s: S, first: usize) -> bool {
        let (mut keys, mut places) = ([s.splat_i32(i32::MIN); N], [s.splat_i32(0); N]);
        let (mut lines, mut place, mut unordered) = (self.lines, 0, false);
        while let Some((new, tells_nothing)) = lines.next(s, first) {
            unordered |= tells_nothing;
            // The first ones nearly all belong to the best; then it is worth while to look.
            let tried = place as usize >= TRIED * N;
            if !tried || keys.last().is_none_or(|last| s.any(s.lt_i32(*last, new))) {
                take(s, (&mut keys, &mut places), new, s.splat_i32(place));
            }
            place += 1;
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

/// Puts ranks where they belong in their columns; the last ones leave.
#[inline(always)]
pub fn insert(best: &mut [Ranks], ranks: &Ranks) {
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

/// Orders the best elements of every column by position instead of by value.
#[inline]
pub fn order_by_position(best: &mut [Ranks]) {
    for end in 0..best.len() {
        let Some(best) = best.get_mut(..=end) else { continue };
        let Some(last) = best.last_mut() else { continue };
        let positions = Ranks(last.0.map(|rank| rank & i64::from(u32::MAX)));
        *last = NONE;
        insert(best, &positions);
    }
}
