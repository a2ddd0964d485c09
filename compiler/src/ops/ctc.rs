//! Connectionist temporal classification: greedy decoding of class scores and the loss of label sequences.

mod compact;
mod loss;

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, same_element, shape_error, text};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn};
use crate::read::{Attributes, Layer};
use compact::Listed;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("CTCGreedyDecoder", 1, 1..=17, 2..=2, one_output, |a| {
        Ok(Rc::new(Masked { merge: a.bool("ctc_merge_repeated", true)? }))
    }),
    row("CTCGreedyDecoderSeqLen", 6, 6..=17, 2..=3, two_outputs, |a| {
        Ok(Rc::new(Counted {
            merge: a.bool("merge_repeated", true)?,
            classes: index_type(a, "classes_index_type")?,
            lengths: index_type(a, "sequence_length_type")?,
        }))
    }),
    row("CTCLoss", 4, 4..=17, 4..=5, one_output, loss::parse),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: RangeInclusive<usize>,
    outputs: fn(&Layer) -> usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs, outputs, parse, ignorable: &[], support: Support::Full }
}

fn two_outputs(_: &Layer) -> usize {
    2
}

fn index_type(attributes: &Attributes, name: &str) -> Result<ElementType, Diagnostic> {
    match attributes.element_type_or(name, ElementType::I32)? {
        element @ (ElementType::I32 | ElementType::I64) => Ok(element),
        _ => Err(attributes.invalid(name, "`i32` or `i64`")),
    }
}

/// CTCGreedyDecoder-1: for every element of the batch the best classes of the scores `[time, batch, class]` up to the
/// first zero of the mask `[time, batch]`, without repetitions (if these are merged) and without the last class, which
/// is the blank: `[batch, time, 1, 1]`, filled with -1.
#[derive(Debug)]
struct Masked {
    merge: bool,
}

impl Op for Masked {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (scores, mask) = (operand(inputs, 0)?, operand(inputs, 1)?);
        typing::float(scores.element, "the list of scores")?;
        same_element(inputs, 0, 1)?;
        let ([time, batch, _], [mask_time, mask_batch]) = (scores.dims.as_slice(), mask.dims.as_slice()) else {
            let message = format!("scores {} and mask {}", text(&scores.dims), text(&mask.dims));
            return Err(shape_error(message + " are not [time, batch, class] and [time, batch]"));
        };
        require_equal(context, time, mask_time, "the numbers of steps of scores and mask")?;
        require_equal(context, batch, mask_batch, "the batch sizes of scores and mask")?;
        let one = Dim::constant(1);
        Ok(vec![Fact::new(scores.element, vec![batch.clone(), time.clone(), one.clone(), one])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (scores, mask, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let dims = builder.dims(scores);
        let [time, batch, classes] = dims.as_slice() else { return Err(lacks_dimensions()) };
        let lengths = builder.temporary(ElementType::I64, vec![batch.clone()]);
        let mut n = builder.nest(std::slice::from_ref(batch));
        let i = n.map_axes();
        let t = n.reduction_axis(time);
        let at: Vec<Dim> = [t.clone()].into_iter().chain(i.iter().cloned()).collect();
        let flag = n.load(mask, &at)?;
        let (zero, step, end) = (n.constant_like(flag, 0.0), n.index(&t), n.index(time));
        let (off, none) = (n.binary(Binary::Eq, flag, zero), end);
        let first = n.select(off, step, none);
        let first = n.reduce(ReduceFn::Min, first);
        let first = n.binary(Binary::Min, first, end);
        n.store(lengths, &i, first);
        let scores = Scores { buffer: scores, time_first: true, batch, time, classes };
        let greedy = Greedy { merge: self.merge, lengths, blank: None };
        let listed = greedy.decode(builder, &scores)?;
        let zero = Dim::constant(0);
        listed.scatter(builder, out, None, &|i| [i, &[zero.clone(), zero.clone()]].concat())
    }
}

/// CTCGreedyDecoderSeqLen-6: the same for scores `[batch, time, class]` and lengths `[batch]`; operand 2 names the blank
/// (default: the last class). Results: the classes `[batch, time]`, filled with -1, and their number `[batch]`.
#[derive(Debug)]
struct Counted {
    merge: bool,
    classes: ElementType,
    lengths: ElementType,
}

impl Op for Counted {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (scores, lengths) = (operand(inputs, 0)?, operand(inputs, 1)?);
        typing::float(scores.element, "the list of scores")?;
        typing::integer(lengths.element, "the list of lengths")?;
        let ([batch, time, _], [length_batch]) = (scores.dims.as_slice(), lengths.dims.as_slice()) else {
            let message = format!("scores {} and lengths {}", text(&scores.dims), text(&lengths.dims));
            return Err(shape_error(message + " are not [batch, time, class] and [batch]"));
        };
        require_equal(context, batch, length_batch, "the batch sizes of scores and lengths")?;
        check_blank(inputs.get(2))?;
        let classes = Fact::new(self.classes, vec![batch.clone(), time.clone()]);
        Ok(vec![classes, Fact::new(self.lengths, vec![batch.clone()])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (scores, out, counts) = (builder.input(0)?, builder.output(0)?, builder.output(1)?);
        let dims = builder.dims(scores);
        let [batch, time, classes] = dims.as_slice() else { return Err(lacks_dimensions()) };
        let lengths = builder.input(1)?;
        let lengths = limited(builder, lengths, time)?;
        let blank = if builder.input_count() > 2 { Some(builder.input(2)?) } else { None };
        let scores = Scores { buffer: scores, time_first: false, batch, time, classes };
        let listed = Greedy { merge: self.merge, lengths, blank }.decode(builder, &scores)?;
        listed.scatter(builder, out, Some(counts), &<[Dim]>::to_vec)
    }
}

fn lacks_dimensions() -> Diagnostic {
    Diagnostic::internal("scores lack dimensions")
}

fn check_blank(blank: Option<&Fact>) -> Result<(), Diagnostic> {
    let Some(blank) = blank else { return Ok(()) };
    typing::integer(blank.element, "the index of the blank")?;
    match blank.dims.iter().all(|dim| dim.is(1)) {
        true => Ok(()),
        false => Err(shape_error(format!("the index of the blank has dimensions {}", text(&blank.dims)))),
    }
}

/// Lengths, kept between zero and a size.
fn limited(builder: &mut Builder, lengths: BufferId, size: &Dim) -> Result<BufferId, Diagnostic> {
    let to = builder.temporary(ElementType::I64, builder.dims(lengths));
    builder.map(to, |n, i| {
        let length = n.load(lengths, i)?;
        let length = n.cast(ElementType::I64, length);
        let (zero, most) = (n.constant(Const::I64(0)), n.index(size));
        let length = n.binary(Binary::Max, length, zero);
        Ok(n.binary(Binary::Min, length, most))
    })?;
    Ok(to)
}

/// The class of the blank: an operand, or the last one.
fn blank(n: &mut NestBuilder, operand: Option<BufferId>, classes: &Dim) -> Result<Node, Diagnostic> {
    let Some(operand) = operand else { return Ok(n.index(&(classes.clone() - 1))) };
    let origin = vec![Dim::constant(0); n.dims(operand).len()];
    let blank = n.load(operand, &origin)?;
    Ok(n.cast(ElementType::I64, blank))
}

/// Scores of classes over time.
struct Scores<'d> {
    buffer: BufferId,
    time_first: bool,
    batch: &'d Dim,
    time: &'d Dim,
    classes: &'d Dim,
}

impl Scores<'_> {
    /// The index of a score; `at` is batch and time.
    fn index(&self, at: &[Dim], class: &Dim) -> Vec<Dim> {
        let mut index = at.to_vec();
        if self.time_first {
            index.reverse();
        }
        index.push(class.clone());
        index
    }

    /// The best class of every step, the first one of equal scores: `[batch, time]`.
    fn best(&self, builder: &mut Builder) -> Result<BufferId, Diagnostic> {
        let dims = vec![self.batch.clone(), self.time.clone()];
        let highest = builder.temporary(builder.scalar_type(self.buffer)?.element(), dims.clone());
        let best = builder.temporary(ElementType::I64, dims.clone());
        let mut n = builder.nest(&dims);
        let at = n.map_axes();
        let class = n.reduction_axis(self.classes);
        let score = n.load(self.buffer, &self.index(&at, &class))?;
        let score = n.reduce(ReduceFn::Max, score);
        n.store(highest, &at, score);
        let mut n = builder.nest(&dims);
        let at = n.map_axes();
        let class = n.reduction_axis(self.classes);
        let (score, highest) = (n.load(self.buffer, &self.index(&at, &class))?, n.load(highest, &at)?);
        let (class, last) = (n.index(&class), n.index(&(self.classes.clone() - 1)));
        let found = n.binary(Binary::Eq, score, highest);
        let class = n.select(found, class, last);
        let class = n.reduce(ReduceFn::Min, class);
        n.store(best, &at, class);
        Ok(best)
    }
}

/// What greedy decoding keeps of the best classes.
struct Greedy {
    merge: bool,
    lengths: BufferId,
    blank: Option<BufferId>,
}

impl Greedy {
    fn decode(&self, builder: &mut Builder, scores: &Scores) -> Result<Listed, Diagnostic> {
        let best = scores.best(builder)?;
        Listed::new(builder, best, |n, at| {
            let [batch, time] = at else { return Err(lacks_dimensions()) };
            let (class, blank) = (n.load(best, at)?, blank(n, self.blank, scores.classes)?);
            let (length, step) = (n.load(self.lengths, std::slice::from_ref(batch))?, n.index(time));
            let (inside, sign) = (n.binary(Binary::Lt, step, length), n.binary(Binary::Ne, class, blank));
            let mut keep = n.binary(Binary::And, inside, sign);
            if self.merge {
                let differs = compact::differs(n, best, at, class)?;
                keep = n.binary(Binary::And, keep, differs);
            }
            Ok(keep)
        })
    }
}
