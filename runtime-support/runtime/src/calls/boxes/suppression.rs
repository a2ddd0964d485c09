//! Non-maximum suppression of the boxes of every class of every image.
use super::super::Arguments;
use super::candidates::{Candidates, Rule};
use super::heap::{self, Entries};
use super::limit;
use super::overlap::{corners, overlap};
use super::rotated;
use crate::blocks::blocks;

/// Selects boxes that no better box of the same class and image overlaps.
///
/// Inputs: boxes (f32 `[images, boxes, 4]`, two corners, or `[.., 5]`: centre, size and angle), scores (f32 `[images,
/// classes, boxes]`), most boxes per class (i64), largest overlap, smallest score and sigma of the decay (f32).
/// Integers: 1 to sort all selected boxes by score; 1 to suppress by overlap even where scores decay.
/// Outputs: image, class and box (i64 `[selected, 3]`), image, class and score (f32 `[selected, 3]`); working memory (i32
/// with twice and f32 with as many elements as there are boxes). Size 0 is the number of selected boxes; without a size,
/// the rest of the outputs is -1.
#[inline]
pub fn non_max_suppression(arguments: Arguments<'_>) {
    let (boxes, scores) = (arguments.input(0), arguments.input(1));
    let scalar = |i: usize| arguments.input(i).get::<f32>().first().copied().unwrap_or(0.0);
    let most = arguments.input(2).get::<i64>().first().copied().unwrap_or(0);
    let (threshold, sigma) = (scalar(4), scalar(5));
    let decay = if sigma > 0.0 { -0.5 / sigma } else { 0.0 };
    let rule = Rule {
        keep: limit(most),
        score: threshold,
        decay,
        only_decay: decay != 0.0 && arguments.integer(1) == 0,
        ..Rule::hard(scalar(3))
    };
    let sorted = arguments.integer(0) != 0;
    let [indices, selected_scores, working_indices, working_scores, ..] = &mut *arguments.outputs else { return };
    let mut selected = Selected { indices: indices.get(), scores: selected_scores.get(), count: 0 };
    let mut candidates = Candidates::new(working_indices.get(), working_scores.get());
    let (count, numbers) = (boxes.dim(1), boxes.dim(2));
    let images = blocks(boxes.get::<f32>(), count * numbers);
    let classes = blocks(scores.get::<f32>(), count * scores.dim(1));
    for (image, (boxes, scores)) in (0..).zip(images.zip(classes)) {
        let (plain, turned) = (corners(boxes), boxes.as_chunks().0);
        for (class, scores) in (0..).zip(blocks(scores, count)) {
            candidates.fill(scores.iter().copied(), |score| score > threshold);
            if numbers == 5 {
                let turned = |at: usize| turned.get(at).copied().unwrap_or_default();
                candidates.suppress(&rule, |a, b| rotated::overlap(turned(a), turned(b)));
            } else {
                candidates.suppress_boxes(&rule, plain, |a, b| overlap(a, b, 0.0));
            }
            for (index, score) in candidates.kept() {
                selected.push(image, class, index, score);
            }
        }
    }
    if sorted {
        let count = selected.count;
        heap::sort(&mut selected, count);
    }
    match arguments.sizes.first_mut() {
        Some(size) => *size = selected.count,
        None => selected.pad(),
    }
}

/// The selected boxes: rows of image, class and box, and of image, class and score.
struct Selected<'a> {
    indices: &'a mut [i64],
    scores: &'a mut [f32],
    count: usize,
}

impl Selected<'_> {
    #[inline]
    fn push(&mut self, image: i64, class: i64, index: usize, score: f32) {
        let (rows, scores) = (self.indices.as_chunks_mut().0, self.scores.as_chunks_mut().0);
        if let (Some(row), Some(scored)) = (rows.get_mut(self.count), scores.get_mut(self.count)) {
            *row = [image, class, index as i64];
            *scored = [image as f32, class as f32, score];
            self.count += 1;
        }
    }

    #[inline]
    fn pad(&mut self) {
        self.indices.iter_mut().skip(3 * self.count).for_each(|index| *index = -1);
        self.scores.iter_mut().skip(3 * self.count).for_each(|score| *score = -1.0);
    }
}

impl Entries for Selected<'_> {
    type Key = (f32, [i64; 3]);

    #[inline]
    fn key(&self, at: usize) -> Self::Key {
        let (rows, scores) = (self.indices.as_chunks().0, self.scores.as_chunks::<3>().0);
        (-scores.get(at).map_or(0.0, |row| row[2]), rows.get(at).copied().unwrap_or_default())
    }

    #[inline]
    fn swap(&mut self, a: usize, b: usize) {
        heap::swap(self.indices.as_chunks_mut::<3>().0, a, b);
        heap::swap(self.scores.as_chunks_mut::<3>().0, a, b);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Operand, Target};
    use super::*;

    /// Three boxes: the second overlaps the first by a third, the third is apart.
    const BOXES: [f32; 12] = [0.0, 0.0, 2.0, 2.0, 1.0, 0.0, 3.0, 2.0, 8.0, 8.0, 9.0, 9.0];

    fn run(scores: &[f32; 6], most: i64, floats: [f32; 3], integers: [i64; 2]) -> ([usize; 1], [i64; 18], [f32; 18]) {
        let (mut indices, mut out, mut sizes) = ([0; 18], [0.0; 18], [0]);
        let (mut places, mut working) = ([0i32; 6], [0f32; 3]);
        non_max_suppression(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &[
                Operand::new(&BOXES, &[1, 3, 4]),
                Operand::new(scores, &[1, 2, 3]),
                Operand::new(&[most], &[1]),
                Operand::new(&floats[..1], &[1]),
                Operand::new(&floats[1..2], &[1]),
                Operand::new(&floats[2..], &[1]),
            ],
            outputs: &mut [
                Target::new(&mut indices, &[6, 3]),
                Target::new(&mut out, &[6, 3]),
                Target::new(&mut places, &[6]),
                Target::new(&mut working, &[3]),
            ],
            integers: &integers,
            floats: &[],
            sizes: &mut sizes,
        });
        (sizes, indices, out)
    }

    const SCORES: [f32; 6] = [0.6, 0.9, 0.1, 0.8, 0.2, 0.7];

    #[test]
    fn better_boxes_suppress_those_they_overlap() {
        let (size, indices, scores) = run(&SCORES, 9, [0.3, 0.0, 0.0], [0, 0]);
        assert_eq!((size, &indices[..12]), ([4], &[0, 0, 1, 0, 0, 2, 0, 1, 0, 0, 1, 2][..]));
        assert_eq!(scores[..6], [0.0, 0.0, 0.9, 0.0, 0.0, 0.1]);
        let (size, indices, _) = run(&SCORES, 9, [0.3, 0.15, 0.0], [1, 0]);
        assert_eq!((size, &indices[..9]), ([3], &[0, 0, 1, 0, 1, 0, 0, 1, 2][..]));
        assert_eq!(run(&SCORES, 9, [0.34, 0.0, 0.0], [0, 0]).0, [6]);
        assert_eq!(run(&SCORES, 1, [0.34, 0.0, 0.0], [0, 0]).0, [2]);
        assert_eq!(run(&SCORES, -1, [0.34, 0.0, 0.0], [0, 0]).0, [0]);
    }

    #[test]
    fn scores_decay_with_overlap() {
        let (size, indices, scores) = run(&SCORES, 9, [0.3, 0.0, 0.1], [0, 0]);
        assert_eq!((size, &indices[..9]), ([6], &[0, 0, 1, 0, 0, 0, 0, 0, 2][..]));
        let expected = 0.6 * (-0.5f32 / 9.0 / 0.1).exp();
        assert!((scores[5] - expected).abs() < 1e-6, "{} {expected}", scores[5]);
        assert_eq!(run(&SCORES, 9, [0.3, 0.0, 0.1], [0, 1]).0, [4]);
    }
}
