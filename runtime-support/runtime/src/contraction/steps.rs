//! Which rows lie at the same distances, so that they can be computed in strips.
use super::Contraction;
use super::job::MOST_ROWS;
use super::kernel::{LINE, ZERO_ROW};
use super::table::Row;
use crate::isa::{Isa, VECTORS};
use crate::math::floor_mod_usize;
use core::ops::Range;

/// Weights of a strip up to which it is worth it: they stay in the first-level cache. Of the widest strips, and of others.
const MOST: usize = 6400;
const WIDEST: usize = 32;
const NARROWEST: usize = 16;
/// Most contiguous runs of the left operand that one sum takes: those of a cube of five.
const RUNS: usize = 25;
/// Products per sum for which copies of lines would take longer.
const SHORT: usize = 40;
/// Channels, and columns, for which they would where a vector of these takes half as long as one of [`LINE`].
const FEW: usize = 8;
/// Products per sum with these for which copies of lines pay in any case.
const HELD: usize = 192;
/// Least rows of a line of windows: the last tile of a strip computes some rows again. Of rows that are one vector, each of
/// which takes little beside its addresses, fewer.
const LEAST: usize = 3 * MOST_ROWS;
const LEAST_NARROW: usize = 2 * MOST_ROWS;

/// Rows at the same distances in the left operand, the result and the residual.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    pub a: isize,
    pub out: usize,
    pub residual: usize,
    /// Rows at these distances, then follow others.
    line: usize,
    /// Those of them whose windows do not leave the input along the line.
    inside: (usize, usize),
    /// Whether the sums of a row take one run of the left operand.
    pub single: bool,
    /// Elements of a run.
    pub run: usize,
}

impl Steps {
    /// The distances, if sums are short and rows are many.
    pub fn of(c: &Contraction) -> Option<Steps> {
        let (runs, run) = runs_of(c);
        let weights = c.k().saturating_mul(c.cols.clamp(NARROWEST, WIDEST));
        if !VECTORS || weights > MOST || runs > RUNS || run > ZERO_ROW.len() {
            return None;
        }
        let fast = c.rows.iter().rposition(|axis| axis.extent != 1)? & 3;
        let own = c.rows[fast];
        let mut steps = Steps {
            a: own.a,
            out: own.out,
            residual: own.residual,
            line: own.extent,
            inside: (0, 0),
            single: false,
            run,
        };
        if c.bounds.iter().all(|bound| bound.limit == 0) {
            steps.single = runs == 1;
            for axis in c.rows.iter().take(fast).rev().filter(|axis| axis.extent != 1) {
                let along = Some(axis.a) == isize::try_from(steps.line).ok().and_then(|n| n.checked_mul(steps.a));
                let same = |own: usize, step: usize| Some(own) == steps.line.checked_mul(step);
                if !(along && same(axis.out, steps.out) && same(axis.residual, steps.residual)) {
                    break;
                }
                steps.line = steps.line.checked_mul(axis.extent)?;
            }
        }
        let whole = steps.line == c.m();
        let mut inside = 0..steps.line;
        for bound in c.bounds.iter().filter(|bound| bound.limit != 0) {
            if usize::from(bound.row) == fast {
                let bound = bound.inside(c);
                inside = inside.start.max(bound.start)..inside.end.min(bound.end);
            } else if bound.tap == 3 {
                return None;
            }
        }
        steps.inside = (inside.start, inside.end);
        let least = if c.cols <= LINE { LEAST_NARROW } else { LEAST };
        (whole || inside.len() >= least).then_some(steps)
    }

    /// Whether strips take less time than lines would, of which copies take longer than what they save.
    pub(super) fn beat_lines(&self, c: &Contraction, isa: Isa) -> bool {
        let (start, end) = self.inside;
        let outside = self.line.saturating_sub(end.saturating_sub(start));
        // Windows of one row share no lines with others.
        let beat = match c.taps[..3].iter().all(|tap| tap.extent == 1) {
            true => c.k() <= SHORT,
            false if isa == Isa::Avx2 => c.k() <= SHORT,
            false => isa.is_halved() && c.depth.max(c.cols) <= FEW && c.k() <= HELD,
        };
        beat && outside <= self.line / 8
    }

    /// Rows between two strips.
    pub(super) fn between(&self) -> usize {
        self.line - (self.inside.1 - self.inside.0)
    }

    /// Of the rows of a block from `row` on, those that strips need no addresses of: all but the first of the block and of a
    /// stretch, and some of the last ones, of which tiles may be made. Short stretches are tiles.
    pub(super) fn between_ends(&self, row: usize, block: &Range<usize>, last: usize) -> Range<usize> {
        let (start, end) = self.inside;
        let at = floor_mod_usize(row, self.line);
        let first = start.saturating_sub(at);
        let end = end.saturating_sub(at).min(block.end.saturating_sub(row));
        let (from, to) = (first + 1, end.saturating_sub(last));
        if first + MOST_ROWS <= end && from < to { from..to } else { 0..0 }
    }

    /// Rows from row `first` of a batch on that are a strip, or not (then `false`): how many of them there are.
    pub(super) fn stretch(&self, first: usize) -> (bool, usize) {
        let (start, end) = self.inside;
        // A division takes as long as some products.
        let at = if first < self.line { first } else { floor_mod_usize(first, self.line) };
        match at {
            _ if at < start => (false, start - at),
            _ if at < end => (true, end - at),
            _ => (false, (self.line - at).saturating_add(start)),
        }
    }
}

/// Contiguous runs of the left operand in one sum, and their length.
fn runs_of(c: &Contraction) -> (usize, usize) {
    let [t0, t1, t2, t3] = c.taps;
    let outer = t0.extent.saturating_mul(t1.extent).saturating_mul(t2.extent);
    if is_adjacent(c) { (outer, t3.extent.saturating_mul(c.depth)) } else { (outer.saturating_mul(t3.extent), c.depth) }
}

/// Whether the elements of neighbouring taps of the last axis follow each other.
fn is_adjacent(c: &Contraction) -> bool {
    c.taps[3].extent == 1 || isize::try_from(c.depth) == Ok(c.taps[3].a)
}

/// A contiguous run of the left operand for the first row, and how far the next row's is.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub a: *const f32,
    pub step: isize,
}

/// The runs of one sum, in the order of their weights.
pub(super) struct Runs {
    list: [Run; RUNS],
    count: usize,
}

impl Runs {
    /// The runs of rows that start with `first` and lie `step` apart; `a` is the left operand.
    pub fn new(c: &Contraction, a: *const f32, first: &Row, step: isize) -> Runs {
        let mut runs = Runs { list: [Run { a, step }; RUNS], count: 0 };
        let last = if is_adjacent(c) { 1 } else { c.taps[3].extent };
        let inside = |axis, index| first.has_tap(&c.bounds, axis, index);
        for i0 in 0..c.taps[0].extent {
            for i1 in 0..c.taps[1].extent {
                for i2 in 0..c.taps[2].extent {
                    let valid = inside(0, i0) && inside(1, i1) && inside(2, i2);
                    for i3 in 0..last {
                        let mut at = first.a;
                        for (tap, index) in c.taps.iter().zip([i0, i1, i2, i3]) {
                            at = at.wrapping_add((index as isize).wrapping_mul(tap.a));
                        }
                        let inner = Run { a: a.wrapping_offset(at), step };
                        // All rows are in the padding there, and read zeros.
                        runs.push(if valid { inner } else { Run { a: ZERO_ROW.as_ptr(), step: 0 } });
                    }
                }
            }
        }
        runs
    }

    /// All of them.
    pub fn list(&self) -> &[Run] {
        self.list.get(..self.count).unwrap_or_default()
    }

    fn push(&mut self, run: Run) {
        if let Some(slot) = self.list.get_mut(self.count) {
            (*slot, self.count) = (run, self.count + 1);
        }
    }
}
