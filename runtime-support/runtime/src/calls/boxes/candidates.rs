//! The boxes of one class, best first, and the suppression of those that overlap kept ones.
use super::heap::{self, Entries};
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

/// A queue of boxes with scores at the front of the slices, the kept boxes at their end, the first one last. The queue
/// loses a box before one more is kept, so they never meet.
#[derive(Debug)]
pub struct Candidates<'a> {
    boxes: &'a mut [i32],
    /// Number of kept boxes with which the scores have been compared.
    compared: &'a mut [i32],
    scores: &'a mut [f32],
    waiting: usize,
    kept: usize,
}

#[derive(Clone, Copy)]
struct Candidate {
    index: i32,
    compared: i32,
    score: f32,
}

impl Entries for Candidates<'_> {
    type Key = (f32, i32);

    #[inline]
    fn key(&self, at: usize) -> Self::Key {
        match (self.scores.get(at), self.boxes.get(at)) {
            (Some(score), Some(index)) => (-score, *index),
            _ => (0.0, 0),
        }
    }

    #[inline]
    fn swap(&mut self, a: usize, b: usize) {
        heap::swap(self.boxes, a, b);
        heap::swap(self.compared, a, b);
        heap::swap(self.scores, a, b);
    }
}

impl<'a> Candidates<'a> {
    /// Room for as many boxes as `scores` has elements; `indices` has twice as many.
    #[inline]
    pub fn new(indices: &'a mut [i32], scores: &'a mut [f32]) -> Self {
        let room = scores.len().min(indices.len() / 2);
        let (boxes, compared) = indices.split_at_mut_checked(room).unwrap_or_default();
        Candidates { boxes, compared, scores, waiting: 0, kept: 0 }
    }

    /// Starts again with the boxes whose scores pass.
    #[inline]
    pub fn fill(&mut self, scores: impl Iterator<Item = f32>, pass: impl Fn(f32) -> bool) {
        (self.waiting, self.kept) = (0, 0);
        for (index, score) in (0..).zip(scores).filter(|(_, score)| pass(*score)) {
            if self.set(self.waiting, Candidate { index, compared: 0, score }) {
                self.waiting += 1;
            }
        }
        heap::build(self, self.waiting, false);
    }

    #[inline]
    fn set(&mut self, at: usize, candidate: Candidate) -> bool {
        let slots = (self.boxes.get_mut(at), self.compared.get_mut(at), self.scores.get_mut(at));
        let (Some(index), Some(compared), Some(score)) = slots else { return false };
        (*index, *compared, *score) = (candidate.index, candidate.compared, candidate.score);
        true
    }

    #[inline]
    fn pop(&mut self) -> Option<Candidate> {
        let last = self.waiting.checked_sub(1)?;
        let (index, compared, score) = (*self.boxes.first()?, *self.compared.first()?, *self.scores.first()?);
        self.swap(0, last);
        self.waiting = last;
        heap::sink(self, 0, last, false);
        Some(Candidate { index, compared, score })
    }

    #[inline]
    fn keep(&mut self, candidate: Candidate) {
        if let Some(at) = self.boxes.len().checked_sub(self.kept + 1)
            && self.set(at, candidate)
        {
            self.kept += 1;
        }
    }

    /// The kept boxes and their scores, in the order in which they were kept.
    #[inline]
    pub fn kept(&self) -> impl DoubleEndedIterator<Item = (usize, f32)> + ExactSizeIterator {
        let start = self.boxes.len() - self.kept;
        let (boxes, scores) = (self.boxes.get(start..).unwrap_or(&[]), self.scores.get(start..).unwrap_or(&[]));
        boxes.iter().zip(scores).map(|(index, score)| (*index as usize, *score)).rev()
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

    /// Keeps boxes, best first, that are usable and that kept ones do not suppress.
    #[inline]
    pub fn suppress_usable(
        &mut self,
        rule: &Rule,
        usable: impl Fn(usize) -> bool,
        overlap: impl Fn(usize, usize) -> f32,
    ) {
        let (mut rule, mut examined) = (*rule, 0);
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
                    let at = self.waiting;
                    if self.set(at, Candidate { compared: self.kept as i32, score, ..next }) {
                        self.waiting += 1;
                        heap::rise(self, at, false);
                    }
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
        let fresh = self.kept.saturating_sub(candidate.compared as usize);
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
