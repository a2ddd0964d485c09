//! The boxes of one class, best first, and the suppression of those that overlap kept ones.
use super::super::rank::{element, halves, position, rank, whole};
use super::batch::{Batch, LANES};
use super::heap::{self, Entries};
use super::overlap::{Corners, corner};
use crate::cx::Cx;
use crate::isa::VECTORS;
use crate::math;

/// What is suppressed, and when suppression ends.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Most boxes that are kept.
    pub keep: usize,
    /// Most boxes that are looked at, best first.
    pub examine: usize,
    /// A larger overlap with a kept box suppresses.
    pub overlap: f32,
    /// After every kept box the overlap shrinks by this factor while it is above a half.
    pub shrink: f32,
    /// A box whose score decays to this or less is suppressed.
    pub score: f32,
    /// Overlaps multiply scores by `exp(decay * overlap * overlap)`; 0 leaves scores alone.
    pub decay: f32,
    /// Whether decayed scores replace suppression by `overlap`.
    pub only_decay: bool,
}

impl Rule {
    /// Suppression by overlap alone.
    #[inline]
    pub fn hard(overlap: f32) -> Self {
        Rule {
            keep: usize::MAX,
            examine: usize::MAX,
            overlap,
            shrink: 1.0,
            score: f32::NEG_INFINITY,
            decay: 0.0,
            only_decay: false,
        }
    }
}

/// A queue of boxes with scores at the front of the slice, the kept boxes at its end, the first one last. The queue loses a
/// box before one more is kept, so they never meet.
#[derive(Debug)]
pub struct Candidates<'a> {
    /// Ranks in halves: of larger scores, and where these are equal of boxes with smaller numbers, they are greater.
    ranks: &'a mut [[i32; 2]],
    /// Number of kept boxes with which the score of a box has been compared, as bits.
    compared: &'a mut [f32],
    waiting: usize,
    kept: usize,
}

#[derive(Clone, Copy)]
struct Candidate {
    index: i32,
    score: f32,
}

impl Candidate {
    #[inline]
    fn rank(self) -> i64 {
        rank(self.score, self.index, false)
    }

    #[inline]
    fn of(rank: i64) -> Self {
        Candidate { index: position(rank), score: element(rank) }
    }
}

impl Entries for Candidates<'_> {
    type Entry = i64;

    #[inline]
    fn get(&self, at: usize) -> Option<i64> {
        self.ranks.get(at).copied().map(whole)
    }

    #[inline]
    fn set(&mut self, at: usize, rank: i64) {
        if let Some(slot) = self.ranks.get_mut(at) {
            *slot = halves(rank);
        }
    }

    #[inline]
    fn before(&self, a: i64, b: i64) -> bool {
        a > b
    }
}

impl<'a> Candidates<'a> {
    /// Room for as many boxes as `compared` has elements; `ranks` has twice as many.
    #[inline]
    pub fn new(ranks: &'a mut [i32], compared: &'a mut [f32]) -> Self {
        let ranks = ranks.as_chunks_mut().0;
        let room = compared.len().min(ranks.len());
        Candidates { ranks: ranks.get_mut(..room).unwrap_or_default(), compared, waiting: 0, kept: 0 }
    }

    /// Starts again with the boxes whose scores pass.
    #[inline]
    pub fn fill(&mut self, scores: impl Iterator<Item = f32>, pass: impl Fn(f32) -> bool) {
        (self.waiting, self.kept) = (0, 0);
        for (index, score) in (0..).zip(scores).take(self.ranks.len()) {
            // Computed, not branched on: it is as good as random.
            self.set(self.waiting, Candidate { index, score }.rank());
            self.waiting += usize::from(pass(score));
        }
        heap::build(self, self.waiting, false);
    }

    #[inline]
    fn pop(&mut self) -> Option<Candidate> {
        let rank = heap::pop(self, self.waiting, false)?;
        self.waiting -= 1;
        Some(Candidate::of(rank))
    }

    #[inline]
    fn keep(&mut self, candidate: Candidate) {
        if let Some(at) = self.ranks.len().checked_sub(self.kept + 1) {
            self.set(at, candidate.rank());
            self.kept += 1;
        }
    }

    /// The ranks of the kept boxes, the first one last.
    #[inline(always)]
    fn kept_ranks(&self) -> &[[i32; 2]] {
        self.ranks.get(self.ranks.len() - self.kept..).unwrap_or(&[])
    }

    /// The kept boxes and their scores, in the order in which they were kept.
    #[inline]
    pub fn kept(&self) -> impl DoubleEndedIterator<Item = (usize, f32)> + ExactSizeIterator {
        self.kept_ranks().iter().rev().map(|rank| {
            let kept = Candidate::of(whole(*rank));
            (kept.index as usize, kept.score)
        })
    }

    /// Keeps the best boxes.
    #[inline]
    pub fn take(&mut self, most: usize) {
        while self.kept < most {
            let Some(next) = self.pop() else { return };
            self.keep(next);
        }
    }

    /// Keeps boxes, best first, that kept ones do not suppress.
    #[inline]
    pub fn suppress(&mut self, rule: &Rule, overlap: impl Fn(usize, usize) -> f32) {
        self.suppress_usable(rule, |_| true, overlap);
    }

    /// The same for boxes that are given by corners: where neither scores nor the limit change, several candidates at once.
    #[inline]
    pub fn suppress_boxes(&mut self, rule: &Rule, boxes: &[Corners], overlap: impl Fn(Corners, Corners) -> f32 + Copy) {
        if !VECTORS || rule.decay != 0.0 || (rule.shrink != 1.0 && rule.overlap > 0.5) {
            return self.suppress(rule, |a, b| overlap(corner(boxes, a), corner(boxes, b)));
        }
        let mut examined = 0;
        while self.kept < rule.keep && examined < rule.examine {
            let (mut batch, mut taken) = (Batch::new(), 0);
            let mut candidates = [Candidate { index: 0, score: 0.0 }; LANES];
            for slot in candidates.iter_mut().take(rule.examine - examined) {
                let Some(next) = self.pop() else { break };
                batch.set(taken, corner(boxes, next.index as usize));
                (*slot, taken) = (next, taken + 1);
            }
            if taken == 0 {
                return;
            }
            examined += taken;
            Cx::detect().vectorize(
                #[inline(always)]
                || {
                    for rank in self.kept_ranks() {
                        batch.compare(corner(boxes, position(whole(*rank)) as usize), overlap);
                    }
                },
            );
            for (lane, candidate) in candidates.iter().enumerate().take(taken) {
                if self.kept == rule.keep {
                    return;
                }
                if !batch.exceeds(lane, rule.overlap) {
                    self.keep(*candidate);
                    Cx::detect().vectorize(
                        #[inline(always)]
                        || batch.compare(corner(boxes, candidate.index as usize), overlap),
                    );
                }
            }
        }
    }

    /// Keeps boxes, best first, that are usable and that kept ones do not suppress.
    #[inline]
    pub fn suppress_usable(
        &mut self,
        rule: &Rule,
        usable: impl Fn(usize) -> bool,
        overlap: impl Fn(usize, usize) -> f32,
    ) {
        let (mut rule, mut examined) = (*rule, 0);
        if rule.decay != 0.0 {
            self.compared.fill(0.0);
        }
        while self.kept < rule.keep && examined < rule.examine {
            let Some(next) = self.pop() else { return };
            examined += 1;
            if !usable(next.index as usize) {
                continue;
            }
            match self.decayed(next, &rule, &overlap) {
                Some(score) if score == next.score => {
                    self.keep(next);
                    if rule.overlap > 0.5 {
                        rule.overlap *= rule.shrink;
                    }
                }
                Some(score) if score > rule.score => {
                    if let Some(compared) = self.compared.get_mut(next.index as usize) {
                        *compared = f32::from_bits(self.kept as u32);
                    }
                    heap::rise(self, self.waiting, Candidate { score, ..next }.rank());
                    self.waiting += 1;
                }
                _ => {}
            }
        }
    }

    /// The score of a candidate after its overlaps with the boxes that were kept since the last comparison; none if one of
    /// them suppresses it.
    #[inline]
    fn decayed(&self, candidate: Candidate, rule: &Rule, overlap: impl Fn(usize, usize) -> f32) -> Option<f32> {
        let mut score = candidate.score;
        let compared = if rule.decay == 0.0 { None } else { self.compared.get(candidate.index as usize) };
        let fresh = self.kept.saturating_sub(compared.map_or(0, |bits| bits.to_bits() as usize));
        for (index, _) in self.kept().rev().take(fresh) {
            let common = overlap(candidate.index as usize, index);
            if common > rule.overlap && !rule.only_decay {
                return None;
            }
            if rule.decay != 0.0 {
                score *= math::exp(rule.decay * common * common);
                if score <= rule.score {
                    return None;
                }
            }
        }
        Some(score)
    }
}

#[cfg(test)]
mod tests {
    use super::super::overlap;
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn several_candidates_at_once_are_suppressed_as_one_by_one() {
        let unit = |i: usize, step: usize| (i * step % 101) as f32 / 20.0;
        let boxes: Vec<Corners> =
            (0..300).map(|i| [unit(i, 37), unit(i, 59), unit(i, 37) + unit(i, 17), unit(i, 59) + 2.0]).collect();
        let scores: Vec<f32> = (0..300).map(|i| unit(i, 83)).collect();
        for (keep, examine, limit, shrink) in [
            (300, 300, 0.3, 1.0),
            (7, 300, 0.2, 0.9),
            (300, 33, 0.5, 0.5),
            (0, 9, 0.5, 1.0),
            (40, 0, 0.1, 1.0),
            (99, 200, 0.7, 0.9),
        ] {
            let rule = Rule { keep, examine, shrink, ..Rule::hard(limit) };
            let [one_by_one, at_once] = [false, true].map(|at_once| {
                let (mut indices, mut values) = (std::vec![0; 600], std::vec![0.0; 300]);
                let mut candidates = Candidates::new(&mut indices, &mut values);
                candidates.fill(scores.iter().copied(), |score| score > 0.5);
                let common = |a, b| overlap::overlap(a, b, 0.0);
                match at_once {
                    true => candidates.suppress_boxes(&rule, &boxes, common),
                    false => candidates.suppress(&rule, |a, b| common(boxes[a], boxes[b])),
                }
                candidates.kept().collect::<Vec<_>>()
            });
            assert_eq!(one_by_one, at_once, "{keep} {examine} {limit}");
            assert_eq!(at_once.is_empty(), keep.min(examine) == 0);
        }
    }
}
