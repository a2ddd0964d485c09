//! The best elements of several columns, or rows, at once: in registers where they are few.
use super::super::rank::Key;
use super::many::Many;
use crate::cx::Cx;
use crate::simd::{Simd, WithSimd};

/// Columns that are compared at once.
pub const LANES: usize = 16;
/// So many times as many elements as are wanted are inserted without a look whether they belong to the best.
const TRIED: usize = 16;
/// Elements that take a microsecond, for each that is wanted.
pub const WORK: usize = 4096;
/// Most results that stay in registers.
pub const HELD: usize = 10;

/// A number of every column.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Line(pub [i32; LANES]);

impl Line {
    /// The same number in all columns.
    #[inline]
    pub const fn all(x: i32) -> Line {
        Line([x; LANES])
    }
}

/// Elements that are compared, line by line: of every one of [`LANES`] columns the next one.
pub trait Lines: Copy {
    /// Keys beyond these tell nothing: of NaN, and what is no better than no element.
    const RANGE: [i32; 2];

    /// The keys of a vector of the next line, from column `first` on.
    fn next<S: Simd>(&mut self, s: S, first: usize) -> Option<S::I32>;
}

/// The keys of a vector of elements, from one of a line on.
#[inline(always)]
pub fn keys<K: Key, S: Simd>(s: S, line: &[K; LANES], first: usize, smallest: bool) -> Option<S::I32> {
    let elements = line.get(first..first + S::LANES)?;
    // SAFETY: so many elements.
    let ordered = unsafe { K::ordered_vector(s, elements.as_ptr()) };
    Some(if smallest { s.xor_i32(ordered, s.splat_i32(-1)) } else { ordered })
}

/// Whether all keys tell something, by the least and the greatest of them, or others that do.
#[inline(always)]
pub fn all_tell<L: Lines, S: Simd>(s: S, least: S::I32, greatest: S::I32) -> bool {
    let [from, to] = L::RANGE.map(|key| s.splat_i32(key));
    !s.any(s.lt_i32(least, from)) && !s.any(s.lt_i32(to, greatest))
}

/// The places of the best elements of every column, best first or in their own order; false if some key tells nothing.
#[inline(always)]
pub fn select(cx: Cx<'_>, lines: impl Lines, best: &mut [Line], by_position: bool) -> bool {
    let told = match best.len() {
        0..=2 => cx.dispatch(Few::<_, 2> { lines, best }),
        3..=5 => cx.dispatch(Few::<_, 5> { lines, best }),
        6..=HELD => cx.dispatch(Few::<_, HELD> { lines, best }),
        _ => cx.dispatch(Many { lines, best }),
    };
    if by_position {
        cx.vectorize(
            #[inline(always)]
            || order(best),
        );
    }
    told
}

/// At most `N` of the best elements.
struct Few<'a, L, const N: usize> {
    lines: L,
    best: &'a mut [Line],
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
        let (mut lines, mut place, mut least) = (self.lines, 0, s.splat_i32(0));
        while let Some(new) = lines.next(s, first) {
            least = s.min_i32(least, new);
            // The first ones nearly all belong to the best; then it is worth while to look.
            let tried = place as usize >= TRIED * N;
            if !tried || keys.last().is_none_or(|last| s.any(s.lt_i32(*last, new))) {
                take(s, (&mut keys, &mut places), new, s.splat_i32(place));
            }
            place += 1;
        }
        for (best, places) in self.best.iter_mut().zip(places) {
            let Some(best) = best.0.get_mut(first..first + S::LANES) else { return false };
            // SAFETY: so many numbers.
            unsafe { s.store_i32(best.as_mut_ptr(), places) };
        }
        all_tell::<L, S>(s, least, keys[0])
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
    // Going up, every level gets what the one above has, or the new element, where this is better than what it has itself.
    let mut better = s.lt_i32(keys[N - 1], key);
    for level in (1..N).rev() {
        let above = keys[level - 1];
        let moves = s.lt_i32(above, key);
        keys[level] = s.max_i32(keys[level], s.min_i32(above, key));
        places[level] = s.select_i32(better, s.select_i32(moves, places[level - 1], place), places[level]);
        better = moves;
    }
    keys[0] = s.max_i32(keys[0], key);
    places[0] = s.select_i32(better, place, places[0]);
}

/// Orders the places of every column.
#[inline(always)]
fn order(best: &mut [Line]) {
    for end in (1..best.len()).rev() {
        for at in 0..end {
            let Ok([here, next]) = best.get_disjoint_mut([at, at + 1]) else { return };
            for (here, next) in here.0.iter_mut().zip(&mut next.0) {
                (*here, *next) = ((*here).min(*next), (*here).max(*next));
            }
        }
    }
}
