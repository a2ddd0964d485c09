//! Proposals of regions: the anchors of every place of a feature map are moved by deltas, and the best ones are kept.
use super::super::Arguments;
use super::candidates::{Candidates, Rule};
use super::decode::{centre_size, clip, with_last_pixel};
use super::limit;
use super::overlap::{Corners, corner, corners, overlap_touching};
use crate::blocks::{blocks, blocks_mut};

/// Logarithm of the largest factor by which an anchor grows: `ln(1000 / 16)`.
const MOST_GROWTH: f32 = 4.135_166_6;

/// Scores and deltas of the anchors of every place of a feature map: `[anchors, rows, columns]` and `[anchors * 4, rows,
/// columns]`. Boxes count anchors first, then columns, then rows.
#[derive(Clone, Copy)]
struct Map<'a> {
    scores: &'a [f32],
    deltas: &'a [f32],
    anchors: usize,
    columns: usize,
    places: usize,
}

impl Map<'_> {
    #[inline]
    fn split(&self, at: usize) -> (usize, usize) {
        let anchors = self.anchors.max(1);
        (at / anchors, at % anchors)
    }

    #[inline]
    fn score(&self, at: usize) -> f32 {
        let (place, anchor) = self.split(at);
        self.scores.get(anchor * self.places + place).copied().unwrap_or(0.0)
    }

    #[inline]
    fn delta(&self, at: usize) -> [f32; 4] {
        let (place, anchor) = self.split(at);
        core::array::from_fn(|i| self.deltas.get((anchor * 4 + i) * self.places + place).copied().unwrap_or(0.0))
    }
}

/// Proposes regions from anchors that are the same at every place.
///
/// Inputs: scores (f32 `[images, 2 * anchors, rows, columns]`, those of objects last), deltas (f32 `[images, 4 * anchors,
/// rows, columns]`), height, width and scales of the image (f32 with three or four elements), anchors (f32 `[anchors, 4]`).
/// Integers: most boxes that are looked at, most boxes of an image, distance of places in pixels, 1 to clip before and 1 to
/// clip after suppression, 1 to divide by the image's size, 1 where coordinates are y before x and end where boxes end
/// instead of at their last pixel. Numbers: largest overlap, smallest size, divisors of the deltas of positions and sizes.
/// Outputs: image and corners (f32 `[images * most, 5]`), the first row behind the last box of an image starts with -1,
/// the others are 0; scores (f32 `[images * most]`); working memory: f32 with four times, i32 with twice and f32 with as
/// many elements as boxes.
#[inline]
pub fn proposal(arguments: Arguments<'_>) {
    let (scores, deltas, info) = (arguments.input(0), arguments.input(1), arguments.input(2).get::<f32>());
    let anchors = corners(arguments.input(3).get());
    let [examine, most] = [0, 1].map(|i| limit(arguments.integer(i)));
    let [clip_before, clip_after, normalize, swapped] = [3, 4, 5, 6].map(|i| arguments.integer(i) != 0);
    let (stride, smallest) = (arguments.integer(2) as f32, arguments.float(1));
    let [position_scale, size_scale] = [2, 3].map(|i| arguments.float(i));
    let offset = if swapped { 0.0 } else { 1.0 };
    let number = |i: usize| info.get(i).copied().unwrap_or(0.0);
    let (width, height) = if swapped { (number(0), number(1)) } else { (number(1), number(0)) };
    let (least_height, least_width) =
        (smallest * number(2), smallest * if info.len() > 3 { number(3) } else { number(2) });
    let rule = Rule { examine, keep: most, ..Rule::hard(arguments.float(0)) };
    let places = scores.dim(2) * scores.dim(3);
    let (count, columns) = (anchors.len() * places, scores.dim(3));
    let [rois, probabilities, decoded, indices, values, ..] = &mut *arguments.outputs else { return };
    let decoded = decoded.get::<f32>().as_chunks_mut().0;
    let mut candidates = Candidates::new(indices.get(), values.get());
    let images = blocks(scores.get::<f32>(), 2 * count);
    let images = images.zip(blocks(deltas.get::<f32>(), 4 * count));
    let rois = blocks_mut(rois.get::<f32>().as_chunks_mut::<5>().0, most);
    let rows = rois.zip(blocks_mut(probabilities.get::<f32>(), most));
    for (image, ((scores, deltas), (rois, probabilities))) in images.zip(rows).enumerate() {
        let map = Map { scores: scores.get(count..).unwrap_or(&[]), deltas, anchors: anchors.len(), columns, places };
        for (at, slot) in decoded.iter_mut().enumerate().take(count) {
            let (place, anchor) = map.split(at);
            let (row, column) = (place / map.columns.max(1), place % map.columns.max(1));
            let (x, y) = if swapped { (row, column) } else { (column, row) };
            let [x0, y0, x1, y1] = corner(anchors, anchor);
            let (x, y) = (x as f32 * stride, y as f32 * stride);
            let moved = [x0 + x, y0 + y, x1 + x, y1 + y];
            let moved = if swapped { clip(moved, width, height) } else { moved };
            let [dx, dy, dw, dh] = map.delta(at);
            let delta = [dx / position_scale, dy / position_scale, dw / size_scale, dh / size_scale];
            let found = centre_size(moved, delta, offset, f32::INFINITY);
            *slot = if clip_before { clip(found, width - offset, height - offset) } else { found };
        }
        let boxes = &*decoded;
        let score = |at: usize| {
            let large = is_large(corner(boxes, at), offset, least_width, least_height);
            f32::from(u8::from(large)) * map.score(at)
        };
        candidates.fill((0..count).map(score), |score| !score.is_nan());
        candidates.suppress_boxes(&rule, boxes, |a, b| overlap_touching(a, b, offset));
        let mut kept = candidates.kept();
        let ends = candidates.kept().len();
        for (at, (roi, probability)) in rois.iter_mut().zip(probabilities).enumerate() {
            (*roi, *probability) = match kept.next() {
                Some((index, score)) => {
                    let found = corner(boxes, index);
                    let found = if clip_after { clip(found, width, height) } else { found };
                    let [w, h] = if normalize { [width, height] } else { [1.0, 1.0] };
                    ([image as f32, found[0] / w, found[1] / h, found[2] / w, found[3] / h], score)
                }
                None => ([if at == ends { -1.0 } else { 0.0 }, 0.0, 0.0, 0.0, 0.0], 0.0),
            };
        }
    }
}

#[inline]
fn is_large(b: Corners, offset: f32, width: f32, height: f32) -> bool {
    width <= b[2] - b[0] + offset && height <= b[3] - b[1] + offset
}

/// Proposes regions from anchors that are given for every place.
///
/// Inputs: height, width and scales of the images (f32 `[images, 3 or 4]`, or `[3]` for one image), anchors (f32, four per
/// box), deltas (f32 `[images, 4 * anchors, rows, columns]`), scores (f32 `[images, anchors, rows, columns]`). Integers:
/// most boxes that are looked at, most boxes of an image, boxes, anchors per place, 1 to give small boxes score 0, whatever
/// the scale, instead of dropping them. Numbers: largest overlap, smallest size, factor by which the overlap shrinks, 1
/// where the last pixel belongs to a box, and the same for the overlap of boxes.
/// Outputs: corners (f32 `[found, 4]`), scores (f32 `[found]`), boxes per image (i64 `[images]`); working memory: f32 with
/// four times, i32 with twice and f32 with as many elements as boxes. Size 0 is the number of boxes of all images; without
/// a size, the rest of the outputs is 0.
#[inline]
pub fn generate_proposals(arguments: Arguments<'_>) {
    let (info, anchors) = (arguments.input(0), corners(arguments.input(1).get()));
    let [examine, most] = [0, 1].map(|i| limit(arguments.integer(i)));
    let (count, kinds, by_score) = (arguments.size(2), arguments.size(3), arguments.integer(4) != 0);
    let [overlap, smallest, shrink, offset, overlap_offset] = [0, 1, 2, 3, 4].map(|i| arguments.float(i));
    let rule = Rule { examine, keep: most, shrink, ..Rule::hard(overlap) };
    let numbers = info.dims.last().copied().unwrap_or(0);
    let infos = blocks(info.get::<f32>(), numbers);
    let deltas = blocks(arguments.input(2).get::<f32>(), 4 * count);
    let images = deltas.zip(blocks(arguments.input(3).get::<f32>(), count));
    let [rois, scores, found, decoded, indices, values, ..] = &mut *arguments.outputs else { return };
    let decoded = decoded.get::<f32>().as_chunks_mut().0;
    let mut candidates = Candidates::new(indices.get(), values.get());
    let mut rows = rois.get::<f32>().as_chunks_mut::<4>().0.iter_mut().zip(scores.get::<f32>());
    let mut total = 0;
    found.get::<i64>().fill(0);
    for ((info, (deltas, scores)), found) in infos.zip(images).zip(found.get::<i64>()) {
        let number = |i: usize| info.get(i).copied().unwrap_or(1.0);
        let (height, width) = (number(0) - offset, number(1) - offset);
        let scale_width = if numbers > 3 { number(3) } else { number(2) };
        let [least_height, least_width] =
            [number(2), scale_width].map(|scale| if by_score { smallest } else { smallest * scale });
        let map = Map { scores, deltas, anchors: kinds, columns: 0, places: count / kinds.max(1) };
        for (at, (slot, anchor)) in decoded.iter_mut().zip(anchors).enumerate().take(count) {
            let moved = centre_size(*anchor, map.delta(at), offset, MOST_GROWTH);
            *slot = clip(with_last_pixel(moved, offset), width, height);
        }
        let boxes = &*decoded;
        let large = |at: usize| is_large(corner(boxes, at), offset, least_width, least_height);
        let score = |at: usize| if by_score { f32::from(u8::from(large(at))) * map.score(at) } else { map.score(at) };
        candidates.fill((0..count).map(score), |score| !score.is_nan());
        let overlap = |a, b| overlap_touching(corner(boxes, a), corner(boxes, b), overlap_offset);
        candidates.suppress_usable(&rule, |at| by_score || large(at), overlap);
        for ((index, score), (roi, probability)) in candidates.kept().zip(&mut rows) {
            (*roi, *probability) = (corner(boxes, index), score);
            total += 1;
            *found += 1;
        }
    }
    match arguments.sizes.first_mut() {
        Some(size) => *size = total,
        None => rows.for_each(|(roi, score)| (*roi, *score) = ([0.0; 4], 0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Operand, Target};
    use super::*;

    /// Two places in a row with one anchor of four pixels each; the second score is the larger one.
    const SCORES: [f32; 4] = [0.9, 0.8, 0.3, 0.6];
    const DELTAS: [f32; 8] = [0.0, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];

    #[test]
    fn anchors_of_all_places_are_moved() {
        let run = |stride: i64, normalize: i64| {
            let (mut rois, mut scores) = ([9f32; 15], [9f32; 3]);
            let (mut decoded, mut indices, mut values) = ([0f32; 8], [0i32; 4], [0f32; 2]);
            proposal(Arguments {
                cx: crate::cx::Cx::detect(),
                inputs: &[
                    Operand::new(&SCORES, &[1, 2, 1, 2]),
                    Operand::new(&DELTAS, &[1, 4, 1, 2]),
                    Operand::new(&[8f32, 16.0, 1.0], &[3]),
                    Operand::new(&[0f32, 0.0, 3.0, 3.0], &[1, 4]),
                ],
                outputs: &mut [
                    Target::new(&mut rois, &[3, 5]),
                    Target::new(&mut scores, &[3]),
                    Target::new(&mut decoded, &[2, 4]),
                    Target::new(&mut indices, &[4]),
                    Target::new(&mut values, &[2]),
                ],
                integers: &[9, 3, stride, 1, 0, normalize, 0],
                floats: &[0.5, 1.0, 1.0, 1.0],
                sizes: &mut [],
            });
            (rois, scores)
        };
        let (rois, scores) = run(8, 0);
        assert_eq!(rois[..5], [0.0, 9.0, 0.0, 13.0, 4.0]);
        assert_eq!((&rois[5..], scores), (&[0.0, 0.0, 0.0, 4.0, 4.0, -1.0, 0.0, 0.0, 0.0, 0.0][..], [0.6, 0.3, 0.0]));
        assert_eq!(run(8, 1).0[..5], [0.0, 9.0 / 16.0, 0.0, 13.0 / 16.0, 0.5]);
        assert_eq!(run(1, 0).1, [0.6, 0.3, 0.0]);
    }

    #[test]
    fn small_boxes_are_dropped_or_come_last() {
        let run = |by_score: i64, smallest: f32| {
            let (mut rois, mut scores, mut counts, mut sizes) = ([9f32; 8], [9f32; 2], [9i64; 1], [9]);
            let (mut decoded, mut indices, mut values) = ([0f32; 8], [0i32; 4], [0f32; 2]);
            generate_proposals(Arguments {
                cx: crate::cx::Cx::detect(),
                inputs: &[
                    Operand::new(&[8f32, 16.0, 2.0], &[1, 3]),
                    Operand::new(&[0f32, 0.0, 4.0, 4.0, 8.0, 0.0, 10.0, 2.0], &[1, 2, 1, 4]),
                    Operand::new(&[0f32; 8], &[1, 4, 1, 2]),
                    Operand::new(&SCORES[2..], &[1, 1, 1, 2]),
                ],
                outputs: &mut [
                    Target::new(&mut rois, &[2, 4]),
                    Target::new(&mut scores, &[2]),
                    Target::new(&mut counts, &[1]),
                    Target::new(&mut decoded, &[2, 4]),
                    Target::new(&mut indices, &[4]),
                    Target::new(&mut values, &[2]),
                ],
                integers: &[9, 9, 2, 1, by_score],
                floats: &[0.5, smallest, 1.0, 0.0, 0.0],
                sizes: &mut sizes,
            });
            (scores, counts, sizes)
        };
        assert_eq!(run(0, 1.0), ([0.6, 0.3], [2], [2]));
        assert_eq!((run(0, 1.5).0[0], run(0, 1.5).2), (0.3, [1]));
        assert_eq!(run(1, 3.0), ([0.3, 0.0], [2], [2]));
    }
}
