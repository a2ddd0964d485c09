//! Detections of a single-shot detector: prior boxes are decoded, suppressed per class, and the best ones listed.
use super::super::{Arguments, Operand};
use super::candidates::{Candidates, Rule};
use super::decode::{centre_size, clip};
use super::limit;
use super::overlap::{Corners, corner, corners, overlap_touching};
use super::table::Table;
use crate::blocks::{blocks, blocks_mut};

/// Lists detections.
///
/// Inputs: deltas (f32 `[images, priors * locations * 4]`), scores (f32 `[images, priors * classes]`), priors (f32 `[images
/// or 1, 1 or 2, priors * numbers]`); for cascades also scores (f32 `[images, priors * 2]`) and deltas of a first stage.
/// Integers: priors, classes, locations (1 or classes), background class, most boxes that are looked at in a class, most
/// detections of an image, how deltas code boxes (0 corners, 1 centre and size, 2 corners in units of the prior's size), 1
/// to multiply deltas by variances, 1 to clip before and 1 to clip after suppression, 1 to give every prior its best class
/// only and to number classes from the one after the first. Numbers: largest overlap, smallest score, width and height of
/// the image (0 where priors are normalised), smallest objectness of the first stage.
/// Outputs: rows of image, class, score and corners (f32 `[.., rows, 7]`), the first one behind the last detection starts
/// with -1, the others are 0; working memory: decoded boxes (f32 `[locations, priors, 4]`), i32 with three times and f32
/// with as many elements as priors, and for every row six f32, an i64 and an i32.
#[inline]
pub fn detection_output(arguments: Arguments<'_>) {
    let model = Model::of(&arguments);
    let [out, decoded, places, scores, rows, indices, ranks, ..] = &mut *arguments.outputs else { return };
    let decoded = decoded.get::<f32>().as_chunks_mut().0;
    let Some((labels, places)) = places.get::<i32>().split_at_mut_checked(model.priors) else { return };
    let mut candidates = Candidates::new(places, scores.get());
    let mut table = Table::new(rows.get(), indices.get(), ranks.get()).with_ties_by_index();
    let mut out = out.get::<f32>().as_chunks_mut::<7>().0.iter_mut();
    let images = arguments.inputs.first().map_or(0, |deltas| deltas.dim(0));
    for image in 0..images {
        let image = Image::of(&model, arguments.inputs, image);
        image.decode(decoded);
        if model.best_class {
            image.select_of_best_classes(decoded, labels, &mut candidates, &mut table);
        } else {
            image.select(decoded, &mut candidates, &mut table);
        }
        let first = table.len();
        table.finish_image(true);
        for (row, slot) in table.rows(first..table.len()).iter().zip(&mut out) {
            let [class, score, corners @ ..] = *row;
            let [x0, y0, x1, y1] = if model.clip_after { clip(corners, 1.0, 1.0) } else { corners };
            *slot = [image.number, class - f32::from(u8::from(model.best_class)), score, x0, y0, x1, y1];
        }
    }
    for (i, slot) in out.enumerate() {
        *slot = [if i == 0 { -1.0 } else { 0.0 }, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    }
}

/// Attributes.
struct Model {
    priors: usize,
    classes: usize,
    locations: usize,
    background: i64,
    most: usize,
    code: i64,
    variances: bool,
    clip_before: bool,
    clip_after: bool,
    best_class: bool,
    rule: Rule,
    score: f32,
    /// Width and height of the image where priors have five numbers.
    size: Option<[f32; 2]>,
    objectness: f32,
}

impl Model {
    #[inline]
    fn of(arguments: &Arguments<'_>) -> Self {
        let [overlap, score, width, height, objectness] = [0, 1, 2, 3, 4].map(|i| arguments.float(i));
        let flag = |i| arguments.integer(i) != 0;
        Model {
            priors: arguments.size(0),
            classes: arguments.size(1),
            locations: arguments.size(2),
            background: arguments.integer(3),
            most: limit(arguments.integer(5)),
            code: arguments.integer(6),
            variances: flag(7),
            clip_before: flag(8),
            clip_after: flag(9),
            best_class: flag(10),
            rule: Rule { examine: limit(arguments.integer(4)), ..Rule::hard(overlap) },
            score,
            size: (width > 0.0).then_some([width, height]),
            objectness,
        }
    }

    #[inline]
    fn decode(&self, prior: Corners, delta: Corners, variance: Corners) -> Corners {
        let prior = match self.size {
            Some([width, height]) => [prior[0] / width, prior[1] / height, prior[2] / width, prior[3] / height],
            None => prior,
        };
        let delta: Corners = core::array::from_fn(|i| delta[i] * variance[i]);
        let unit = [prior[2] - prior[0], prior[3] - prior[1]];
        let decoded = match self.code {
            0 => core::array::from_fn(|i| prior[i] + delta[i]),
            1 => centre_size(prior, delta, 0.0, f32::INFINITY),
            _ => core::array::from_fn(|i| prior[i] + delta[i] * unit[i % 2]),
        };
        if self.clip_before { clip(decoded, 1.0, 1.0) } else { decoded }
    }
}

/// The operands of one image.
struct Image<'a> {
    model: &'a Model,
    number: f32,
    deltas: &'a [f32],
    scores: &'a [f32],
    priors: &'a [f32],
    first_deltas: &'a [f32],
    first_scores: &'a [f32],
}

impl<'a> Image<'a> {
    #[inline]
    fn of(model: &'a Model, inputs: &[Operand<'a>], image: usize) -> Self {
        let of = |i: usize| {
            let Some(operand) = inputs.get(i) else { return &[][..] };
            let length = operand.dim(1) * operand.dim(2);
            let at = if operand.dim(0) == 1 { 0 } else { image };
            blocks(operand.get::<f32>(), length).nth(at).unwrap_or(&[])
        };
        Image {
            model,
            number: image as f32,
            deltas: of(0),
            scores: of(1),
            priors: of(2),
            first_scores: of(3),
            first_deltas: of(4),
        }
    }

    /// All boxes: `[locations, priors]`.
    #[inline]
    fn decode(&self, decoded: &mut [Corners]) {
        let model = self.model;
        let numbers = if model.size.is_some() { 5 } else { 4 };
        let variances = self.priors.get(model.priors * numbers..).unwrap_or(&[]);
        for (location, boxes) in blocks_mut(decoded, model.priors).enumerate() {
            for ((at, prior), slot) in blocks(self.priors, numbers).enumerate().zip(boxes) {
                let variance = if model.variances { corner(corners(variances), at) } else { [1.0; 4] };
                let mut decoded = prior.last_chunk().copied().unwrap_or_default();
                // The boxes of the first stage are the priors of the second one, also where priors are in pixels.
                for stage in [self.first_deltas, self.deltas] {
                    if let Some(delta) = corners(stage).get(at * model.locations + location) {
                        decoded = model.decode(decoded, *delta, variance);
                    }
                }
                *slot = decoded;
            }
        }
    }

    /// The score of a class: that of the background where the first stage saw no object.
    #[inline]
    fn score(&self, prior: usize, class: usize) -> f32 {
        match self.first_scores.get(2 * prior + 1) {
            Some(objectness) if *objectness < self.model.objectness => {
                f32::from(u8::from(class as i64 == self.model.background))
            }
            _ => self.scores.get(prior * self.model.classes + class).copied().unwrap_or(0.0),
        }
    }

    /// The boxes of a class.
    #[inline]
    fn boxes<'b>(&self, decoded: &'b [Corners], class: usize) -> &'b [Corners] {
        let location = if self.model.locations == 1 { 0 } else { class };
        decoded.get(location * self.model.priors..).unwrap_or(&[])
    }

    /// Every prior may be selected for every class.
    #[inline]
    fn select(&self, decoded: &[Corners], candidates: &mut Candidates<'_>, table: &mut Table<'_>) {
        let model = self.model;
        for class in (0..model.classes).filter(|class| *class as i64 != model.background) {
            let boxes = self.boxes(decoded, class);
            candidates.fill((0..model.priors).map(|prior| self.score(prior, class)), |score| score > model.score);
            candidates.suppress_boxes(&model.rule, boxes, |a, b| overlap_touching(a, b, 0.0));
            for (at, score) in candidates.kept() {
                table.offer(model.most, class, score, corner(boxes, at), at as i64);
            }
        }
    }

    /// Every prior may be selected for its best class, which is never the first one.
    #[inline]
    fn select_of_best_classes(
        &self,
        decoded: &[Corners],
        labels: &mut [i32],
        candidates: &mut Candidates<'_>,
        table: &mut Table<'_>,
    ) {
        let model = self.model;
        let best = |prior: usize| {
            let classes = (1..model.classes).filter(|class| *class as i64 != model.background);
            classes.fold((0, -1.0), |(label, best), class| match self.score(prior, class) {
                score if score > best => (class, score),
                _ => (label, best),
            })
        };
        for (prior, label) in labels.iter_mut().enumerate() {
            *label = best(prior).0 as i32;
        }
        let scores = (0..model.priors).map(|prior| match best(prior) {
            (0, _) => f32::NAN,
            (_, score) => score,
        });
        candidates.fill(scores, |score| score >= model.score);
        let label = |at: usize| labels.get(at).map_or(0, |label| *label as usize);
        candidates.suppress(&model.rule, |a, b| {
            let boxes = self.boxes(decoded, label(a));
            let same = label(a) == label(b);
            if same { overlap_touching(corner(boxes, a), corner(boxes, b), 0.0) } else { f32::NEG_INFINITY }
        });
        for (at, score) in candidates.kept() {
            let corners = corner(self.boxes(decoded, label(at)), at);
            table.offer(model.most, label(at), score, corners, at as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Target;
    use super::*;
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    /// Two priors that overlap by half, and a third one apart.
    const PRIORS: [f32; 12] = [0.0, 0.0, 0.5, 0.5, 0.25, 0.0, 0.5, 0.5, 0.75, 0.75, 1.0, 1.0];
    /// Of three classes per prior.
    const SCORES: [f32; 9] = [0.1, 0.2, 0.6, 0.1, 0.9, 0.5, 0.1, 0.3, 0.4];

    /// Detections where `deltas` moves the corners, with the last integers and numbers as given.
    fn run(deltas: &[f32; 12], keep: i64, rest: [i64; 5], floats: [f32; 5]) -> Vec<[f32; 7]> {
        let (mut out, mut decoded, mut places) = ([9f32; 42], [0f32; 12], [0i32; 9]);
        let (mut scores, mut rows, mut indices, mut ranks) = ([0f32; 3], [0f32; 36], [0i64; 6], [0i32; 6]);
        let [code, variances, clip_before, clip_after, best_class] = rest;
        detection_output(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &[
                Operand::new(deltas, &[1, 12]),
                Operand::new(&SCORES, &[1, 9]),
                Operand::new(&PRIORS, &[1, 1, 12]),
            ],
            outputs: &mut [
                Target::new(&mut out, &[1, 1, 6, 7]),
                Target::new(&mut decoded, &[1, 3, 4]),
                Target::new(&mut places, &[9]),
                Target::new(&mut scores, &[3]),
                Target::new(&mut rows, &[6, 6]),
                Target::new(&mut indices, &[6]),
                Target::new(&mut ranks, &[6]),
            ],
            integers: &[3, 3, 1, 0, 9, keep, code, variances, clip_before, clip_after, best_class],
            floats: &floats,
            sizes: &mut [],
        });
        out.as_chunks().0.to_vec()
    }

    fn listed(rows: &[[f32; 7]]) -> Vec<(f32, f32)> {
        rows.iter().take_while(|row| row[0] >= 0.0).map(|row| (row[1], row[2])).collect()
    }

    #[test]
    fn detections_are_listed_by_class() {
        let floats = [0.4, 0.25, 0.0, 0.0, 0.0];
        let rows = run(&[0.0; 12], 9, [0; 5], floats);
        assert_eq!(listed(&rows), vec![(1.0, 0.9), (1.0, 0.3), (2.0, 0.6), (2.0, 0.4)]);
        assert_eq!(rows[4..], [[-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0; 7]]);
        assert_eq!(rows[0][3..], [0.25, 0.0, 0.5, 0.5]);
        assert_eq!(listed(&run(&[0.0; 12], 2, [0; 5], floats)), vec![(1.0, 0.9), (2.0, 0.6)]);
    }

    #[test]
    fn every_prior_may_have_one_class() {
        let rows = run(&[0.0; 12], 9, [0, 0, 0, 0, 1], [0.4, 0.25, 0.0, 0.0, 0.0]);
        assert_eq!(listed(&rows), vec![(0.0, 0.9), (1.0, 0.6), (1.0, 0.4)]);
    }

    #[test]
    fn deltas_move_corners_and_boxes_are_clipped() {
        let floats = [0.4, 0.8, 0.0, 0.0, 0.0];
        let corners = |rest| run(&[0.5; 12], 9, rest, floats)[0].last_chunk::<4>().copied();
        assert_eq!(corners([0, 0, 0, 0, 0]), Some([0.75, 0.5, 1.0, 1.0]));
        assert_eq!(corners([2, 0, 0, 0, 0]), Some([0.375, 0.25, 0.625, 0.75]));
        let far = |rest| run(&[0.75; 12], 9, rest, floats)[0].last_chunk::<4>().copied();
        assert_eq!(far([0, 0, 0, 1, 0]), Some([1.0, 0.75, 1.0, 1.0]));
        assert_eq!(far([0, 0, 1, 0, 0]), Some([1.0, 0.75, 1.0, 1.0]));
    }
}
