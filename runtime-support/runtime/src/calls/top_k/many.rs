//! The best elements of several columns at once, where registers do not hold them.
use super::few::{LANES, Line, Lines, all_tell};
use crate::simd::{Simd, WithSimd};

/// Most of them.
pub const MOST: usize = 64;
/// Levels between two looks whether some column still moves.
const LOOK: usize = 4;

/// Up to [`MOST`] of the best elements.
pub struct Many<'a, L> {
    pub lines: L,
    pub best: &'a mut [Line],
}

/// The keys and places of the best elements so far, from level 1 on; above them lies what nothing comes before.
type Levels = [[Line; 2]; MOST + 1];

impl<L: Lines> WithSimd for Many<'_, L> {
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) -> bool {
        let mut levels = [[Line::all(i32::MIN), Line::all(0)]; MOST + 1];
        levels[0][0] = Line::all(i32::MAX);
        let told = (0..LANES).step_by(S::LANES).all(
            #[inline(always)]
            |first| self.select(s, first, &mut levels),
        );
        self.best.iter_mut().zip(&levels[1..]).for_each(|(best, [_, places])| *best = *places);
        told
    }
}

impl<L: Lines> Many<'_, L> {
    /// Those of a vector of columns.
    #[inline(always)]
    fn select<S: Simd>(&mut self, s: S, first: usize, levels: &mut Levels) -> bool {
        let (mut lines, mut place) = (self.lines, 0);
        let [mut least, mut greatest] = [s.splat_i32(0); 2];
        let most = self.best.len().min(MOST);
        while let Some(new) = lines.next(s, first) {
            (least, greatest) = (s.min_i32(least, new), s.max_i32(greatest, new));
            // As long as there are few, the last levels are empty.
            let kept = most.min(place as usize + 1);
            // SAFETY: so many levels, and vectors of columns, are there.
            unsafe { take(s, levels.as_mut_ptr().cast::<i32>().wrapping_add(first), kept, (new, s.splat_i32(place))) };
            place += 1;
        }
        all_tell::<L, S>(s, least, greatest)
    }
}

/// Puts the elements of a line where they belong in their columns, behind equal ones; the last ones leave.
///
/// # Safety
/// `levels` points to a vector of level 0 of [`Levels`], which has `kept` more.
#[inline(always)]
unsafe fn take<S: Simd>(s: S, levels: *mut i32, kept: usize, new: (S::I32, S::I32)) {
    let at = |level: usize| levels.wrapping_add(level * 2 * LANES);
    // SAFETY: the caller promises these levels.
    let load = |level: usize| unsafe { (s.load_i32(at(level)), s.load_i32(at(level).add(LANES))) };
    let mut old = load(kept);
    let mut better = s.lt_i32(old.0, new.0);
    // Going up, every level gets what the one above has, or the new element, where this is better than what it has itself.
    for level in (1..=kept).rev() {
        if level.is_multiple_of(LOOK) && !s.any(better) {
            break;
        }
        // Read before the level below is written: a choice between what lies there and a new element would become a store
        // with a mask, which some processors take many times as long for.
        let above = load(level - 1);
        let moves = s.lt_i32(above.0, new.0);
        let next = s.select_i32(moves, above.1, new.1);
        // SAFETY: the caller promises these levels.
        unsafe {
            s.store_i32(at(level), s.max_i32(old.0, s.min_i32(above.0, new.0)));
            s.store_i32(at(level).add(LANES), s.select_i32(better, next, old.1));
        }
        (old, better) = (above, moves);
    }
}
