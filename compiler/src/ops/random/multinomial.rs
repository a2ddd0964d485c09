//! Multinomial: classes drawn with given probabilities.

use super::Alignment;
use super::words::{Seeds, Words};
use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, flatten, operand, shape_error};
use crate::op::running::{Along, Running};
use crate::op::{InferContext, Op, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, Unary};
use crate::read::Attributes;
use std::rc::Rc;

/// Multinomial-13: `[batch, samples]`, numbers of classes drawn with the probabilities (or logarithms of them) of
/// operand 0, `[batch, classes]`, whose sum need not be 1. Operand 1 is the number of samples. Without replacement a
/// class is drawn once at most. Random numbers are those of RandomUniform, the same in every run; seeds that are both
/// zero are seeds like others.
#[derive(Debug)]
struct Multinomial {
    element: ElementType,
    seeds: Seeds,
    replacement: bool,
    logarithms: bool,
}

/// Reads the attributes.
///
/// # Errors
/// Attributes that are missing or cannot be read.
pub fn parse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let element = attributes.element_type("convert_type")?;
    if !matches!(element, ElementType::I32 | ElementType::I64) {
        return Err(attributes.invalid("convert_type", "`i32` or `i64`"));
    }
    for name in ["with_replacement", "log_probs"] {
        attributes.string(name)?;
    }
    Ok(Rc::new(Multinomial {
        element,
        seeds: Seeds::parse(attributes)?,
        replacement: attributes.bool("with_replacement", false)?,
        logarithms: attributes.bool("log_probs", false)?,
    }))
}

impl Multinomial {
    fn samples(inputs: &[Fact]) -> Result<Dim, Diagnostic> {
        match operands::sizes(inputs, 1, "the number of samples")?.as_slice() {
            [count] if count.range().max >= 0 => Ok(count.maximum(&Dim::constant(0))),
            _ => Err(shape_error("the number of samples must be one number that is not negative")),
        }
    }

    /// Probabilities up to every class, relative to that up to the last one.
    fn distribution(&self, builder: &mut Builder, dims: &[Dim; 2]) -> Result<BufferId, Diagnostic> {
        let mut probabilities = builder.input(0)?;
        let wide = builder.scalar_type(probabilities)?.element();
        let sums = builder.temporary(wide, dims.to_vec());
        if self.logarithms {
            let logarithms = probabilities;
            probabilities = builder.temporary(wide, dims.to_vec());
            builder.map(probabilities, |n, i| {
                let value = n.load(logarithms, i)?;
                Ok(n.unary(Unary::Exp, value))
            })?;
        }
        Running { along: Along::Axis(1), exclusive: false, reverse: false }.sum(builder, probabilities, sums)?;
        let [_, classes] = dims;
        let relative = builder.temporary(wide, dims.to_vec());
        builder.map(relative, |n, i| {
            let last: Vec<Dim> = i.iter().take(1).cloned().chain([classes.clone() - 1]).collect();
            let (sum, whole) = (n.load(sums, i)?, n.load(sums, &last)?);
            Ok(n.binary(Binary::Div, sum, whole))
        })?;
        Ok(relative)
    }

    /// A random number in the element type of the probabilities for every sample.
    fn numbers(&self, builder: &mut Builder) -> Result<BufferId, Diagnostic> {
        let (probabilities, out) = (builder.input(0)?, builder.output(0)?);
        let (element, dims) = (builder.element(probabilities), builder.dims(out));
        let words = if element == ElementType::F64 { 2 } else { 1 };
        let words = Words::philox(builder, self.seeds, &(product(&dims) * words), None)?;
        let wide = builder.scalar_type(probabilities)?.element();
        let numbers = builder.temporary(wide, dims.clone());
        builder.map(numbers, |n, i| words.unit(n, &flatten(i, &dims), element, Alignment::TensorFlow))?;
        Ok(numbers)
    }
}

/// The first class up to which the probability reaches a number, along a new reduction axis.
fn chosen(
    n: &mut NestBuilder,
    distribution: BufferId,
    batch: &Dim,
    classes: &Dim,
    number: Node,
) -> Result<Node, Diagnostic> {
    let class = n.reduction_axis(classes);
    let reached = n.load(distribution, &[batch.clone(), class.clone()])?;
    let enough = n.binary(Binary::Le, number, reached);
    let (class, last) = (n.index(&class), n.index(&(classes.clone() - 1)));
    let class = n.select(enough, class, last);
    Ok(n.reduce(ReduceFn::Min, class))
}

impl Op for Multinomial {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let probabilities = operand(inputs, 0)?;
        typing::float(probabilities.element, "the list of probabilities")?;
        let [batch, classes] = probabilities.dims.as_slice() else {
            return Err(shape_error(format!("probabilities have {} dimensions, not 2", probabilities.rank())));
        };
        let samples = Self::samples(inputs)?;
        if !self.replacement && (classes.clone() - &samples).range().max < 0 {
            return Err(shape_error(format!("{classes} classes cannot give {samples} different samples")));
        }
        Ok(vec![Fact::new(self.element, vec![batch.clone(), samples])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (out, dims) = (builder.output(0)?, builder.dims(builder.input(0)?));
        let [batches, classes] = dims.as_slice() else {
            return Err(Diagnostic::internal("probabilities lack dimensions"));
        };
        let distribution = self.distribution(builder, &[batches.clone(), classes.clone()])?;
        let numbers = self.numbers(builder)?;
        if self.replacement {
            let dims = builder.dims(out);
            let mut n = builder.nest(&dims);
            let i = n.map_axes();
            let number = n.load(numbers, &i)?;
            let batch = i.first().cloned().unwrap_or_default();
            let class = chosen(&mut n, distribution, &batch, classes, number)?;
            n.store(out, &i, class);
            return Ok(());
        }
        let samples = builder.dims(out).get(1).cloned().unwrap_or_default();
        builder.repeat(&samples, |builder, sample| {
            draw(builder, [distribution, numbers, out], sample, &[batches.clone(), classes.clone()])
        })
    }
}

/// One sample of every batch; the class that was drawn has no probability afterwards.
fn draw(
    builder: &mut Builder,
    [distribution, numbers, out]: [BufferId; 3],
    sample: &Dim,
    dims: &[Dim; 2],
) -> Result<Vec<(BufferId, BufferId)>, Diagnostic> {
    let [batches, classes] = dims;
    let drawn = builder.temporary(ElementType::I64, vec![batches.clone()]);
    let mut n = builder.nest(std::slice::from_ref(batches));
    let i = n.map_axes();
    let batch = i.first().cloned().unwrap_or_default();
    let number = n.load(numbers, &[batch.clone(), sample.clone()])?;
    let class = chosen(&mut n, distribution, &batch, classes, number)?;
    n.store(drawn, &i, class);
    let mut n = builder.nest(std::slice::from_ref(batches));
    let i = n.map_axes();
    let class = n.load(drawn, &i)?;
    n.store(out, &[i.first().cloned().unwrap_or_default(), sample.clone()], class);
    let next = builder.temporary(builder.element(distribution), dims.to_vec());
    builder.map(next, |n, i| {
        let [batch, class] = i else { return Err(Diagnostic::internal("a distribution lacks dimensions")) };
        let drawn = n.load(drawn, std::slice::from_ref(batch))?;
        let one = n.constant(Const::I64(1));
        let before = n.binary(Binary::Sub, drawn, one);
        let (last, before) = (n.as_index(drawn), n.as_index(before));
        let up_to = n.load(distribution, &[batch.clone(), last])?;
        let nothing = n.zero_of(distribution)?;
        let bound = crate::program::Bound { value: before.clone(), limit: classes.clone() };
        let up_to_before = n.load_within(distribution, &[batch.clone(), before], vec![bound], nothing)?;
        let gone = n.binary(Binary::Sub, up_to, up_to_before);
        let (value, class) = (n.load(distribution, i)?, n.index(class));
        let behind = n.binary(Binary::Le, drawn, class);
        let lowered = n.binary(Binary::Sub, value, gone);
        let value = n.select(behind, lowered, value);
        let whole = n.constant_like(value, 1.0);
        let rest = n.binary(Binary::Sub, whole, gone);
        Ok(n.binary(Binary::Div, value, rest))
    })?;
    Ok(vec![(next, distribution)])
}
