//! Non-maximum suppression of the boxes of every class of every image.
use super::super::Arguments;
use super::super::rank::{element, halves, position, rank, whole};
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
        selected.sort();
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

    /// Sorts by score. Of equal ones the smaller image, class and box come first, as they do already, but where scores have
    /// decayed to the same one.
    #[inline]
    fn sort(&mut self) {
        let (rows, scored) = (self.indices.as_chunks_mut::<3>().0, self.scores.as_chunks_mut::<3>().0);
        let (Some(rows), Some(scored)) = (rows.get_mut(..self.count), scored.get_mut(..self.count)) else { return };
        rank_rows(scored);
        arrange(rows, scored);
        for end in 1..rows.len() {
            for at in (0..end).rev() {
                let same = scored.get(at).zip(scored.get(at + 1)).is_some_and(|(a, b)| a[2] == b[2]);
                let Ok([first, second]) = rows.get_disjoint_mut([at, at + 1]) else { break };
                if !same || *first < *second {
                    break;
                }
                core::mem::swap(first, second);
            }
        }
        // Both are in the other row as well.
        for ([image, class, _], row) in scored.iter_mut().zip(rows) {
            (*image, *class) = (row[0] as f32, row[1] as f32);
        }
    }
}

/// Sorts rows by their scores, behind two other numbers; the first one is then the place, as bits, where a row has been.
#[inline]
fn rank_rows(rows: &mut [[f32; 3]]) {
    let mut ranked = Ranked(rows);
    let count = ranked.0.len();
    for at in 0..count {
        let rank = ranked.0.get(at).map_or(0, |row| rank(row[2], at as i32, false));
        ranked.set(at, rank);
    }
    // Those of one class are sorted already.
    let are_mixed = |at: usize| ranked.get(at).zip(ranked.get(at + 1)).is_some_and(|(a, b)| ranked.before(b, a));
    if (0..count).any(are_mixed) {
        heap::sort(&mut ranked, count);
    }
    for at in 0..count {
        if let (Some(rank), Some([place, _, score])) = (ranked.get(at), ranked.0.get_mut(at)) {
            (*place, *score) = (f32::from_bits(position(rank).cast_unsigned()), element(rank));
        }
    }
}

/// Rows that begin with the halves of a rank, as bits: the greatest score comes first, and the smallest place.
struct Ranked<'a>(&'a mut [[f32; 3]]);

impl Entries for Ranked<'_> {
    type Entry = i64;

    #[inline]
    fn get(&self, at: usize) -> Option<i64> {
        self.0.get(at).map(|[low, high, _]| whole([*low, *high].map(|half| half.to_bits().cast_signed())))
    }

    #[inline]
    fn set(&mut self, at: usize, rank: i64) {
        if let Some([low, high, _]) = self.0.get_mut(at) {
            [*low, *high] = halves(rank).map(|half| f32::from_bits(half.cast_unsigned()));
        }
    }

    #[inline]
    fn before(&self, a: i64, b: i64) -> bool {
        a > b
    }
}

/// Moves every row to where its place is named; that place then names itself.
#[inline]
fn arrange(rows: &mut [[i64; 3]], places: &mut [[f32; 3]]) {
    for start in 0..rows.len() {
        let Some(first) = rows.get(start).copied() else { return };
        let mut at = start;
        while let Some([place, ..]) = places.get_mut(at) {
            let from = core::mem::replace(place, f32::from_bits(at as u32)).to_bits() as usize;
            let moved = if from == start { Some(first) } else { rows.get(from).copied() };
            if let (Some(slot), Some(row)) = (rows.get_mut(at), moved) {
                *slot = row;
            }
            if from == start {
                break;
            }
            at = from;
        }
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

    #[test]
    fn selected_boxes_are_sorted_by_score_then_image_class_and_box() {
        extern crate std;
        use std::vec::Vec;
        for (count, values) in [(0, 1), (1, 1), (40, 5), (61, 1), (61, 1000)] {
            let score = |i: usize| (i * 389 % 997 % values) as f32 / 10.0 - 0.2;
            let mut want: Vec<(f32, [i64; 3])> =
                (0..count).map(|i| (score(i), [i as i64 / 20, i as i64 % 20 / 7, (i * 11 % 7) as i64])).collect();
            let mut indices: Vec<i64> = want.iter().flat_map(|(_, row)| *row).collect();
            let mut scores: Vec<f32> =
                want.iter().flat_map(|(score, row)| [row[0] as f32, row[1] as f32, *score]).collect();
            Selected { indices: &mut indices, scores: &mut scores, count }.sort();
            want.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            assert_eq!(indices, want.iter().flat_map(|(_, row)| *row).collect::<Vec<_>>(), "{count} {values}");
            let rows = want.iter().flat_map(|(score, row)| [row[0] as f32, row[1] as f32, *score]);
            assert_eq!(scores, rows.collect::<Vec<_>>(), "{count} {values}");
        }
    }
}
