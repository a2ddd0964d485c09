//! Suppression within many classes with limits per class and per image: MulticlassNms and MatrixNms.
use super::super::{Arguments, Target};
use super::candidates::{Candidates, Rule};
use super::limit;
use super::overlap::{Corners, area, corner, corners, overlap};
use super::table::Table;
use crate::blocks::blocks;
use crate::math;

/// Selects boxes that no better box of the same class and image overlaps, the best ones of every image.
///
/// Inputs: boxes (f32 `[images, boxes, 4]`, two corners) and scores (f32 `[images, classes, boxes]`); or boxes of every
/// class (f32 `[classes, boxes, 4]`), scores (f32 `[classes, boxes]`) and the number of boxes of every image (i64).
/// Integers and outputs: see `Limits` and `tables`. Numbers: 1 where coordinates are those of whole pixels, else 0;
/// smallest score; largest overlap; factor by which it shrinks.
#[inline]
pub fn multiclass_nms(arguments: Arguments<'_>) {
    let (boxes, scores, counts) = (arguments.input(0), arguments.input(1), arguments.input(2).get::<i64>());
    let (offset, threshold) = (arguments.float(0), arguments.float(1));
    let limits = Limits::of(&arguments);
    let rule = Rule { examine: limits.per_class, shrink: arguments.float(3), ..Rule::hard(arguments.float(2)) };
    let shared = arguments.inputs.len() < 3;
    let (images, classes) =
        if shared { (scores.dim(0), scores.dim(1)) } else { (arguments.input(2).dim(0), scores.dim(0)) };
    let (all, row) = (corners(boxes.get()), boxes.dim(1));
    let Some((mut table, mut candidates, found, _)) = tables(arguments.outputs) else { return };
    let mut first = 0;
    for (image, slot) in (0..images).zip(found.iter_mut()) {
        let count = if shared { row } else { counts.get(image).map_or(0, |n| limit(*n)) };
        for class in (0..classes).filter(|class| *class as i64 != limits.background) {
            let (boxes_at, scores_at) = match shared {
                true => (image * row, (image * classes + class) * row),
                false => (class * row + first, class * row + first),
            };
            let boxes = all.get(boxes_at..).and_then(|boxes| boxes.get(..count)).unwrap_or(&[]);
            let scores = scores.get::<f32>().get(scores_at..).and_then(|scores| scores.get(..count)).unwrap_or(&[]);
            candidates.fill(scores.iter().copied(), |score| score >= threshold);
            candidates.suppress_boxes(&rule, boxes, |a, b| overlap(a, b, offset));
            for (at, score) in candidates.kept() {
                let index = if shared { image * row + at } else { (first + at) * classes + class };
                table.offer(limits.per_image, class, score, corner(boxes, at), index as i64);
            }
        }
        first += if shared { 0 } else { count };
        *slot = table.finish_image(limits.by_class) as i64;
    }
    limits.finish(&mut table, arguments.sizes);
}

/// Selects boxes whose scores stay large when they decay with the overlaps of better boxes of the same class and image.
///
/// Inputs: boxes (f32 `[images, boxes, 4]`, two corners) and scores (f32 `[images, classes, boxes]`). Integers and outputs:
/// see `Limits` and `tables`; one more integer, 1 for Gaussian and 0 for linear decay, and one more f32 working memory
/// with as many elements as there are boxes. Numbers: 1 where coordinates are those of whole pixels, else 0; smallest
/// score before and after the decay; sigma of Gaussian decay.
#[inline]
pub fn matrix_nms(arguments: Arguments<'_>) {
    let (boxes, scores) = (arguments.input(0), arguments.input(1));
    let [offset, threshold, threshold_after, sigma] = [0, 1, 2, 3].map(|i| arguments.float(i));
    let limits = Limits::of(&arguments);
    let (row, classes) = (boxes.dim(1), scores.dim(1));
    let gaussian = arguments.integer(5) != 0;
    let decay = |common: f32, most: f32| match gaussian {
        true => math::exp((most * most - common * common) * sigma),
        false => (1.0 - common) / (1.0 - most + 1e-10),
    };
    let Some((mut table, mut candidates, found, largest)) = tables(arguments.outputs) else { return };
    let images = blocks(corners(boxes.get()), row).zip(blocks(scores.get(), row * classes));
    for (image, (slot, (boxes, scores))) in found.iter_mut().zip(images).enumerate() {
        let scores = blocks(scores, row).enumerate();
        for (class, scores) in scores.filter(|(class, _)| *class as i64 != limits.background) {
            candidates.fill(scores.iter().copied(), |score: f32| score > threshold);
            candidates.take(limits.per_class);
            for (rank, (at, score)) in candidates.kept().enumerate() {
                // The largest overlap of every box with a better one, and what is left of the score.
                let (mut most, mut factor) = (0.0f32, 1.0f32);
                for ((better, _), better_most) in candidates.kept().zip(&*largest).take(rank) {
                    let common = decaying_overlap(corner(boxes, at), corner(boxes, better), offset);
                    most = most.max(common);
                    factor = factor.min(decay(common, *better_most));
                }
                if let Some(slot) = largest.get_mut(rank) {
                    *slot = most;
                }
                let score = factor * score;
                if score > threshold_after {
                    table.offer(limits.per_image, class, score, corner(boxes, at), (image * row + at) as i64);
                }
            }
        }
        *slot = table.finish_image(false) as i64;
    }
    limits.finish(&mut table, arguments.sizes);
}

/// Intersection over union where `offset` counts in boxes that touch or overlap only; boxes that end before they begin have
/// no area.
#[inline]
fn decaying_overlap(a: Corners, b: Corners, offset: f32) -> f32 {
    if b[0] > a[2] || b[2] < a[0] || b[1] > a[3] || b[3] < a[1] {
        return 0.0;
    }
    let own = |b: Corners| if b[2] < b[0] || b[3] < b[1] { 0.0 } else { area(b, offset) };
    let common = area([a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])], offset);
    common / (own(a) + own(b) - common)
}

/// Limits, as integers: most boxes that are looked at in a class, most rows of an image, the class that is left out, 1 to
/// order rows by class instead of score, 1 to order the rows of all images.
struct Limits {
    per_class: usize,
    per_image: usize,
    background: i64,
    by_class: bool,
    across: bool,
}

impl Limits {
    #[inline]
    fn of(arguments: &Arguments<'_>) -> Self {
        Limits {
            per_class: limit(arguments.integer(0)),
            per_image: limit(arguments.integer(1)),
            background: arguments.integer(2),
            by_class: arguments.integer(3) != 0,
            across: arguments.integer(4) != 0,
        }
    }

    #[inline]
    fn finish(&self, table: &mut Table<'_>, sizes: &mut [usize]) {
        if self.across {
            table.sort_all(self.by_class);
        }
        if let Some(size) = sizes.first_mut() {
            *size = table.len();
        }
    }
}

/// The outputs: rows of class, score and corners (f32 `[selected, 6]`), index of the box (i64 `[selected, 1]`), number of
/// rows per image (i64); working memory: i32 with as many elements as there are rows, i32 with twice and f32 with as many
/// as there are boxes. Size 0 is the number of selected boxes.
#[inline]
fn tables<'a>(outputs: &'a mut [Target<'_>]) -> Option<(Table<'a>, Candidates<'a>, &'a mut [i64], &'a mut [f32])> {
    let [rows, indices, found, places, working_indices, working_scores, rest @ ..] = outputs else { return None };
    let table = Table::new(rows.get(), indices.get(), places.get());
    let candidates = Candidates::new(working_indices.get(), working_scores.get());
    Some((table, candidates, found.get(), rest.first_mut().map_or(&mut [], Target::get)))
}

#[cfg(test)]
mod tests {
    use super::super::super::Operand;
    use super::*;
    extern crate std;

    /// The second box overlaps the first by a third, the third is apart.
    const BOXES: [f32; 12] = [0.0, 0.0, 2.0, 2.0, 1.0, 0.0, 3.0, 2.0, 8.0, 8.0, 9.0, 9.0];
    const SCORES: [f32; 6] = [0.6, 0.9, 0.1, 0.8, 0.2, 0.7];

    /// Class and score of the selected boxes, their indices, and how many there are per image.
    fn run(
        function: fn(Arguments<'_>),
        inputs: &[Operand<'_>],
        integers: &[i64; 6],
        floats: &[f32; 4],
    ) -> (std::vec::Vec<(f32, f32, i64)>, [i64; 2]) {
        let (mut rows, mut indices, mut found, mut sizes) = ([0f32; 36], [0i64; 6], [0i64; 2], [0]);
        let (mut places, mut candidates, mut scores, mut largest) = ([0i32; 6], [0i32; 6], [0f32; 3], [0f32; 3]);
        function(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs,
            outputs: &mut [
                Target::new(&mut rows, &[6, 6]),
                Target::new(&mut indices, &[6, 1]),
                Target::new(&mut found, &[2]),
                Target::new(&mut places, &[6]),
                Target::new(&mut candidates, &[6]),
                Target::new(&mut scores, &[3]),
                Target::new(&mut largest, &[3]),
            ],
            integers,
            floats,
            sizes: &mut sizes,
        });
        let rows = rows.chunks(6).zip(indices).take(sizes[0]);
        (rows.map(|(row, index)| (row[0], row[1], index)).collect(), found)
    }

    #[test]
    fn the_best_of_an_image_are_kept() {
        let inputs = [Operand::new(&BOXES, &[1, 3, 4]), Operand::new(&SCORES, &[1, 2, 3])];
        let all = run(multiclass_nms, &inputs, &[9, 9, -1, 0, 0, 0], &[0.0, 0.15, 0.3, 1.0]);
        assert_eq!(all, ([(0.0, 0.9, 1), (1.0, 0.8, 0), (1.0, 0.7, 2)].into(), [3, 0]));
        let best = run(multiclass_nms, &inputs, &[9, 2, 0, 1, 0, 0], &[0.0, 0.15, 0.3, 1.0]);
        assert_eq!(best, ([(1.0, 0.8, 0), (1.0, 0.7, 2)].into(), [2, 0]));
    }

    #[test]
    fn classes_may_have_boxes_of_their_own() {
        let boxes = [BOXES, BOXES].concat();
        let counts = [1i64, 2];
        let inputs = [Operand::new(&boxes, &[2, 3, 4]), Operand::new(&SCORES, &[2, 3]), Operand::new(&counts, &[2])];
        let (rows, found) = run(multiclass_nms, &inputs, &[9, 9, -1, 0, 0, 0], &[0.0, 0.15, 0.3, 1.0]);
        assert_eq!((rows[..2].to_vec(), found), ([(1.0, 0.8, 1), (0.0, 0.6, 0)].into(), [2, 3]));
        let (rows, _) = run(multiclass_nms, &inputs, &[9, 9, -1, 1, 1, 0], &[0.0, 0.15, 0.3, 1.0]);
        let classes: std::vec::Vec<(f32, i64)> = rows.iter().map(|row| (row.0, row.2)).collect();
        assert_eq!(classes, [(0.0, 0), (0.0, 2), (1.0, 1), (1.0, 5), (1.0, 3)]);
    }

    #[test]
    fn scores_decay_with_the_overlap_of_better_boxes() {
        let inputs = [Operand::new(&BOXES, &[1, 3, 4]), Operand::new(&SCORES, &[1, 2, 3])];
        let (rows, _) = run(matrix_nms, &inputs, &[9, 9, 1, 0, 0, 0], &[0.0, 0.0, 0.0, 2.0]);
        assert_eq!(rows.len(), 3);
        assert!((rows[1].1 - 0.6 * 2.0 / 3.0).abs() < 1e-6 && rows[1].2 == 0, "{rows:?}");
        let (rows, _) = run(matrix_nms, &inputs, &[9, 9, 1, 0, 0, 1], &[0.0, 0.0, 0.0, 2.0]);
        assert!((rows[1].1 - 0.6 * (-2.0f32 / 9.0).exp()).abs() < 1e-6, "{rows:?}");
    }
}
