//! CTCLoss: the probability of a label sequence, summed over all paths, by dynamic programming over time.

use super::compact::{self, Listed};
use super::{blank, check_blank, lacks_dimensions, limited};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, shape_error, text};
use crate::op::reduction;
use crate::op::{InferContext, Op, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Bound, Const, Node, ReduceFn, Unary};
use crate::read::Attributes;
use std::rc::Rc;

/// CTCLoss-4: `-ln` of the probability of the labels `[batch, time]` under scores `[batch, time, class]` that softmax
/// turns into probabilities. Operands: scores, their lengths, labels, their lengths, blank (default: the last class).
#[derive(Debug)]
struct Loss {
    /// Repeated labels are taken once.
    collapse: bool,
    /// A class that a path repeats is one label; otherwise it is several.
    merge: bool,
    /// Every label is taken where it occurs first.
    unique: bool,
}

pub(super) fn parse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Loss {
        collapse: attributes.bool("preprocess_collapse_repeated", false)?,
        merge: attributes.bool("ctc_merge_repeated", true)?,
        unique: attributes.bool("unique", false)?,
    }))
}

impl Op for Loss {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (scores, labels) = (operand(inputs, 0)?, operand(inputs, 2)?);
        typing::float(scores.element, "the list of scores")?;
        typing::integer(labels.element, "the list of labels")?;
        let ([batch, time, _], [labels_batch, labels_time]) = (scores.dims.as_slice(), labels.dims.as_slice()) else {
            let message = format!("scores {} and labels {}", text(&scores.dims), text(&labels.dims));
            return Err(shape_error(message + " are not [batch, time, class] and [batch, time]"));
        };
        require_equal(context, batch, labels_batch, "the batch sizes of scores and labels")?;
        require_equal(context, time, labels_time, "the numbers of steps and of labels")?;
        for i in [1, 3] {
            let lengths = operand(inputs, i)?;
            typing::integer(lengths.element, "the list of lengths")?;
            let [length_batch] = lengths.dims.as_slice() else {
                return Err(shape_error(format!("the lengths have dimensions {}", text(&lengths.dims))));
            };
            require_equal(context, batch, length_batch, "the batch sizes of scores and lengths")?;
        }
        check_blank(inputs.get(4))?;
        Ok(vec![Fact::new(scores.element, vec![batch.clone()])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (scores, out) = (builder.input(0)?, builder.output(0)?);
        let dims = builder.dims(scores);
        let [_, time, classes] = dims.as_slice() else { return Err(lacks_dimensions()) };
        let (lengths, given) = (builder.input(1)?, builder.input(3)?);
        let (lengths, given) = (limited(builder, lengths, time)?, limited(builder, given, time)?);
        let (labels, counts) = self.labels(builder, given)?;
        let blank = if builder.input_count() > 4 { Some(builder.input(4)?) } else { None };
        let totals = totals(builder, scores, &dims)?;
        let paths = Paths { merge: self.merge, scores, totals, lengths, labels, blank, time, classes };
        let last = paths.follow(builder)?;
        paths.finish(builder, last, counts, out)
    }
}

impl Loss {
    /// The labels to be found and their number, given the number before preprocessing.
    fn labels(&self, builder: &mut Builder, given: BufferId) -> Result<(BufferId, BufferId), Diagnostic> {
        let labels = builder.input(2)?;
        let labels = builder.converted(labels, ElementType::I64)?;
        if !self.unique && !self.collapse {
            return Ok((labels, given));
        }
        let dims = builder.dims(labels);
        let seen = if self.unique { Some(seen(builder, labels)?) } else { None };
        let listed = Listed::new(builder, labels, |n, at| {
            let [batch, place] = at else { return Err(lacks_dimensions()) };
            let (length, place) = (n.load(given, std::slice::from_ref(batch))?, n.index(place));
            let inside = n.binary(Binary::Lt, place, length);
            let other = match seen {
                Some(seen) => {
                    let seen = n.load(seen, at)?;
                    n.unary(Unary::Not, seen)
                }
                None => {
                    let label = n.load(labels, at)?;
                    compact::differs(n, labels, at, label)?
                }
            };
            Ok(n.binary(Binary::And, inside, other))
        })?;
        let to = builder.temporary(ElementType::I64, dims);
        listed.scatter(builder, to, None, &<[Dim]>::to_vec)?;
        Ok((to, listed.count))
    }
}

/// For every label whether it occurs earlier in its row.
fn seen(builder: &mut Builder, labels: BufferId) -> Result<BufferId, Diagnostic> {
    let dims = builder.dims(labels);
    let [_, time] = dims.as_slice() else { return Err(lacks_dimensions()) };
    let to = builder.temporary(ElementType::Boolean, dims.clone());
    let mut n = builder.nest(&dims);
    let at = n.map_axes();
    let [batch, place] = at.as_slice() else { return Err(lacks_dimensions()) };
    let earlier = n.reduction_axis(time);
    let (label, other) = (n.load(labels, &at)?, n.load(labels, &[batch.clone(), earlier.clone()])?);
    let (place, earlier) = (n.index(place), n.index(&earlier));
    let (same, before) = (n.binary(Binary::Eq, label, other), n.binary(Binary::Lt, earlier, place));
    let found = n.binary(Binary::And, same, before);
    let found = n.reduce(ReduceFn::Any, found);
    n.store(to, &at, found);
    Ok(to)
}

/// `ln(sum of exp(score))` over the classes: `[batch, time, 1]`.
fn totals(builder: &mut Builder, scores: BufferId, dims: &[Dim]) -> Result<BufferId, Diagnostic> {
    let (element, class) = (builder.scalar_type(scores)?.element(), [2]);
    let highest = reduction::along(
        builder,
        (dims, &class),
        element,
        ReduceFn::Max,
        |n, i| n.load(scores, i),
        |_, highest| highest,
    )?;
    let sum = reduction::along(
        builder,
        (dims, &class),
        element,
        ReduceFn::Sum,
        |n, i| {
            let (score, highest) = (n.load(scores, i)?, n.load(highest, &reduction::pinned(i, &class))?);
            let distance = n.binary(Binary::Sub, score, highest);
            Ok(n.unary(Unary::Exp, distance))
        },
        |_, sum| sum,
    )?;
    let to = builder.temporary(element, builder.dims(sum));
    builder.map(to, |n, i| {
        let (sum, highest) = (n.load(sum, i)?, n.load(highest, i)?);
        let rest = n.unary(Unary::Ln, sum);
        Ok(n.binary(Binary::Add, highest, rest))
    })?;
    Ok(to)
}

/// The paths through the labels with blanks in between: state `2 i + 1` is label i, the others are blanks.
struct Paths<'d> {
    merge: bool,
    scores: BufferId,
    totals: BufferId,
    /// Number of steps: `[batch]`.
    lengths: BufferId,
    labels: BufferId,
    blank: Option<BufferId>,
    time: &'d Dim,
    classes: &'d Dim,
}

impl Paths<'_> {
    fn states(&self) -> Dim {
        self.time.clone() * 2 + 1
    }

    /// The logarithms of the probabilities of all paths that end in a state, after all steps: `[batch, state]`.
    fn follow(&self, builder: &mut Builder) -> Result<BufferId, Diagnostic> {
        let mut dims = builder.dims(self.lengths);
        dims.push(self.states());
        let element = builder.element(self.totals);
        let ends = builder.temporary(element, dims.clone());
        builder.map(ends, |n, i| {
            let state = n.index(i.last().unwrap_or(&Dim::constant(0)));
            let (zero, certain) = (n.constant(Const::I64(0)), n.zero_of(ends)?);
            let (start, impossible) = (n.binary(Binary::Eq, state, zero), n.constant_like(certain, f64::NEG_INFINITY));
            Ok(n.select(start, certain, impossible))
        })?;
        builder.repeat(self.time, |builder, step| {
            let next = builder.temporary(element, dims);
            builder.map(next, |n, i| {
                let [batch, state] = i else { return Err(lacks_dimensions()) };
                let (old, new) = (n.load(ends, i)?, self.advance(n, ends, [batch, state], step)?);
                let (length, step) = (n.load(self.lengths, std::slice::from_ref(batch))?, n.index(step));
                let inside = n.binary(Binary::Lt, step, length);
                Ok(n.select(inside, new, old))
            })?;
            Ok(vec![(next, ends)])
        })?;
        Ok(ends)
    }

    /// The label of a state, and the one before it; the blank where there is none.
    fn label(&self, n: &mut NestBuilder, batch: &Dim, place: &Dim, otherwise: Node) -> Result<Node, Diagnostic> {
        let bound = Bound { value: place.clone(), limit: self.time.clone() };
        n.load_within(self.labels, &[batch.clone(), place.clone()], vec![bound], otherwise)
    }

    /// The logarithm for one state after one more step.
    fn advance(
        &self,
        n: &mut NestBuilder,
        ends: BufferId,
        [batch, state]: [&Dim; 2],
        step: &Dim,
    ) -> Result<Node, Diagnostic> {
        let two = Dim::constant(2);
        let (place, one) = (state.floor_div(&two), n.constant(Const::I64(1)));
        let blank = blank(n, self.blank, self.classes)?;
        let (label, before) =
            (self.label(n, batch, &place, blank)?, self.label(n, batch, &(place.clone() - 1), blank)?);
        let odd = n.index(&state.modulo(&two));
        let is_label = n.binary(Binary::Eq, odd, one);
        let class = n.select(is_label, label, blank);
        let certain = n.zero_of(ends)?;
        let impossible = n.constant_like(certain, f64::NEG_INFINITY);
        let mut from = |distance: i64| -> Result<Node, Diagnostic> {
            let from = state.clone() - distance;
            let bound = Bound { value: from.clone(), limit: self.states() };
            let bounds = if distance == 0 { Vec::new() } else { vec![bound] };
            n.load_within(ends, &[batch.clone(), from], bounds, impossible)
        };
        let (stay, next, skip) = (from(0)?, from(1)?, from(2)?);
        let stay = if self.merge { stay } else { n.select(is_label, impossible, stay) };
        let mut skips = is_label;
        if self.merge {
            let other = n.binary(Binary::Ne, label, before);
            skips = n.binary(Binary::And, skips, other);
        }
        let skip = n.select(skips, skip, impossible);
        let ways = log_sum(n, &[stay, next, skip], impossible);
        let class = n.as_index(class);
        let bound = Bound { value: class.clone(), limit: self.classes.clone() };
        let score = n.load_within(self.scores, &[batch.clone(), step.clone(), class], vec![bound], impossible)?;
        let total = n.load(self.totals, &[batch.clone(), step.clone(), Dim::constant(0)])?;
        let probability = n.binary(Binary::Sub, score, total);
        Ok(n.binary(Binary::Add, ways, probability))
    }

    /// The paths that end in the last label or in the blank behind it.
    fn finish(&self, builder: &mut Builder, ends: BufferId, counts: BufferId, out: BufferId) -> Result<(), Diagnostic> {
        builder.map(out, |n, i| {
            let [batch] = i else { return Err(lacks_dimensions()) };
            let count = n.load(counts, i)?;
            let behind = n.as_index(count) * 2;
            let certain = n.zero_of(ends)?;
            let impossible = n.constant_like(certain, f64::NEG_INFINITY);
            let mut end = |state: Dim| -> Result<Node, Diagnostic> {
                let bound = Bound { value: state.clone(), limit: self.states() };
                n.load_within(ends, &[batch.clone(), state], vec![bound], impossible)
            };
            let ways = [end(behind.clone())?, end(behind - 1)?];
            let sum = log_sum(n, &ways, impossible);
            Ok(n.unary(Unary::Neg, sum))
        })
    }
}

/// `ln(sum of exp(x))`, from the largest one.
fn log_sum(n: &mut NestBuilder, logarithms: &[Node], impossible: Node) -> Node {
    let mut highest = impossible;
    for one in logarithms {
        highest = n.binary(Binary::Max, highest, *one);
    }
    let zero = n.constant_like(highest, 0.0);
    let none = n.binary(Binary::Eq, highest, impossible);
    // Without any way there is nothing to measure the others from.
    let origin = n.select(none, zero, highest);
    let mut sum = zero;
    for one in logarithms {
        let distance = n.binary(Binary::Sub, *one, origin);
        let part = n.unary(Unary::Exp, distance);
        sum = n.binary(Binary::Add, sum, part);
    }
    let logarithm = n.unary(Unary::Ln, sum);
    n.binary(Binary::Add, origin, logarithm)
}
