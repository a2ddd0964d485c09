//! Detections of a region-based detector, whose boxes are refined for every class.
use super::super::Arguments;
use super::candidates::{Candidates, Rule};
use super::decode::{centre_size, with_last_pixel};
use super::limit;
use super::overlap::{Corners, corner, corners, overlap_touching};
use super::table::Table;
use crate::blocks::blocks;

/// Lists detections of one image.
///
/// Inputs: regions (f32 `[regions, 4]`), deltas (f32 `[regions, classes * 4]`) and scores (f32 `[regions, classes]`) of all
/// classes. Integers: classes (the first one is the background), most detections of a class. Numbers: smallest score,
/// largest overlap, largest logarithm of a growth, divisors of the deltas.
/// Outputs: corners (f32 `[most, 4]`), classes (i32 `[most]`) and scores (f32 `[most]`), the rest 0; working memory:
/// refined boxes (f32 `[regions, 4]`), i32 with twice and f32 with as many elements as regions, and for every detection six
/// f32, an i64 and an i32. If there are more detections than `most`, the best ones are listed by score, else by class.
#[inline]
pub fn detectron_detection_output(arguments: Arguments<'_>) {
    let regions = corners(arguments.input(0).get());
    let (deltas, scores) = (corners(arguments.input(1).get()), arguments.input(2).get::<f32>());
    let (classes, threshold, most_growth) = (arguments.size(0), arguments.float(0), arguments.float(2));
    let divisors: [f32; 4] = core::array::from_fn(|i| arguments.float(3 + i));
    let rule = Rule { keep: limit(arguments.integer(1)), ..Rule::hard(arguments.float(1)) };
    let [boxes, labels, out, refined, indices, values, rows, places, ranks, ..] = &mut *arguments.outputs else {
        return;
    };
    let (boxes, labels, out) = (boxes.get::<f32>().as_chunks_mut().0, labels.get::<i32>(), out.get::<f32>());
    let refined = refined.get::<f32>().as_chunks_mut().0;
    let mut candidates = Candidates::new(indices.get(), values.get());
    let mut table = Table::new(rows.get(), places.get(), ranks.get()).with_ties_by_index();
    let (most, mut found) = (out.len(), 0);
    for class in 1..classes {
        for (at, (region, slot)) in regions.iter().zip(refined.iter_mut()).enumerate() {
            let delta = corner(deltas, at * classes + class);
            let delta = core::array::from_fn(|i| delta[i] / divisors[i]);
            *slot = with_last_pixel(centre_size(*region, delta, 1.0, most_growth), 1.0).map(|side| side.max(0.0));
        }
        let own = regions.iter().zip(blocks(scores, classes));
        let own = own.map(|(region, scores)| match has_area(region) {
            true => scores.get(class).copied().unwrap_or(0.0),
            false => f32::NAN,
        });
        candidates.fill(own, |score| score > threshold);
        candidates.suppress_boxes(&rule, refined, |a, b| overlap_touching(a, b, 1.0));
        for (at, score) in candidates.kept() {
            table.offer(most, class, score, corner(refined, at), at as i64);
            found += 1;
        }
    }
    let count = table.finish_image(found <= most);
    let results = boxes.iter_mut().zip(labels.iter_mut().zip(out));
    let rows = table.rows(0..count).iter().copied().chain(core::iter::repeat([0.0; 6]));
    for ((corners, (label, score)), row) in results.zip(rows) {
        let [class, own, sides @ ..] = row;
        (*corners, *label, *score) = (sides, class as i32, own);
    }
}

#[inline]
fn has_area(b: &Corners) -> bool {
    b[2] - b[0] > 0.0 && b[3] - b[1] > 0.0
}

#[cfg(test)]
mod tests {
    use super::super::super::{Operand, Target};
    use super::*;

    fn run(most: usize) -> ([f32; 16], [i32; 4], [f32; 4]) {
        let (mut boxes, mut labels, mut scores) = ([9f32; 16], [9i32; 4], [9f32; 4]);
        let (mut refined, mut indices, mut values) = ([0f32; 12], [0i32; 6], [0f32; 3]);
        let (mut rows, mut places, mut ranks) = ([0f32; 24], [0i64; 4], [0i32; 4]);
        let regions = [0f32, 0.0, 9.0, 9.0, 1.0, 0.0, 9.0, 9.0, 5.0, 5.0, 5.0, 9.0];
        let deltas: [f32; 36] = core::array::from_fn(|i| if i % 12 == 4 { 1.0 } else { 0.0 });
        let probabilities = [0f32, 0.5, 0.1, 0.0, 0.4, 0.7, 0.0, 0.9, 0.9];
        detectron_detection_output(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &[
                Operand::new(&regions, &[3, 4]),
                Operand::new(&deltas, &[3, 12]),
                Operand::new(&probabilities, &[3, 3]),
            ],
            outputs: &mut [
                Target::new(&mut boxes[..4 * most], &[most, 4]),
                Target::new(&mut labels[..most], &[most]),
                Target::new(&mut scores[..most], &[most]),
                Target::new(&mut refined, &[3, 4]),
                Target::new(&mut indices, &[6]),
                Target::new(&mut values, &[3]),
                Target::new(&mut rows[..6 * most], &[most, 6]),
                Target::new(&mut places[..most], &[most]),
                Target::new(&mut ranks[..most], &[most]),
            ],
            integers: &[3, 9],
            floats: &[0.05, 0.5, 9.0, 10.0, 10.0, 5.0, 5.0],
            sizes: &mut [],
        });
        (boxes, labels, scores)
    }

    #[test]
    fn classes_have_their_own_boxes() {
        let (boxes, labels, scores) = run(4);
        assert_eq!((labels, scores), ([1, 2, 0, 0], [0.5, 0.7, 0.0, 0.0]));
        // The first region moves to the right by a tenth of its ten pixels.
        assert_eq!(boxes[..8], [1.0, 0.0, 10.0, 9.0, 1.0, 0.0, 9.0, 9.0]);
        let (_, labels, scores) = run(1);
        assert_eq!((labels[0], scores[0]), (2, 0.7));
    }
}
