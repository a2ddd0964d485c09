//! Loop and TensorIterator: one body runs again and again.

mod carried;
mod infer;
mod lower;
mod trips;

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::{InferContext, Op};
use crate::program::builder::Builder;
use crate::read::{Attributes, Body, BodyInput, Slice};
use std::rc::Rc;

/// Loop (5), TensorIterator (1): parameters of the body are invariant, carried from iteration to iteration, parts of an
/// operand, or the number of the iteration; results are those of the last iteration or the concatenation of all.
#[derive(Debug)]
struct Repeat {
    name: String,
    /// Operands 0 and 1 are the number of iterations and whether the first one runs.
    counted: bool,
    /// By parameter of the body.
    entries: Vec<Entry>,
    /// By result of the operation.
    exits: Vec<Exit>,
    /// The result of the body that decides on the next iteration.
    next: Option<usize>,
    /// Number of iterations where nothing else says it.
    count: Option<i64>,
}

/// Where a parameter of the body gets its value from.
#[derive(Debug)]
struct Entry {
    name: String,
    source: Source,
    /// The element type that the file demands.
    element: Option<ElementType>,
}

#[derive(Debug)]
enum Source {
    /// An operand.
    Invariant(usize),
    /// An operand, then a result of the iteration before.
    Carried { operand: usize, result: usize },
    /// One part of an operand per iteration.
    Part { operand: usize, slice: Slice },
    /// The number of the iteration.
    Counter { element: ElementType, dims: Vec<Dim> },
}

/// What a result of the operation is.
#[derive(Debug)]
struct Exit {
    /// The result of the body.
    result: usize,
    /// The axis along which all iterations are concatenated, and whether the last one comes first; else the last
    /// iteration counts.
    concat: Option<(i64, bool)>,
    /// Size of the part of one iteration as the file says it.
    part: Option<i64>,
}

pub(super) fn parse_loop(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let repeat = parse(attributes, true)?;
    if repeat.next.is_none() {
        let message = "the body of a Loop has no result with the purpose `execution_condition`";
        return Err(Diagnostic::error(&codes::BODY, message));
    }
    Ok(Rc::new(repeat))
}

pub(super) fn parse_iterator(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(parse(attributes, false)?))
}

fn parse(attributes: &Attributes, counted: bool) -> Result<Repeat, Diagnostic> {
    let layer = attributes.layer();
    let [body] = layer.bodies.as_slice() else {
        return Err(Diagnostic::error(&codes::BODY, "a loop needs one body"));
    };
    let entries = (0..body.net.parameters.len()).map(|i| entry(body, i, counted)).collect::<Result<_, _>>()?;
    let connected = || body.outputs.iter().filter(|output| output.external.is_some());
    let exit = |output: &crate::read::BodyOutput| Exit {
        result: output.result,
        concat: output.concat.map(|slice| (slice.axis, slice.stride < 0)),
        part: output.concat.map(|slice| slice.part_size).filter(|_| !counted),
    };
    // Without parts of operands, the range of the first concatenation tells how often a TensorIterator runs.
    let count = connected().find_map(|output| {
        let slice = output.concat?;
        Some(slice.end.saturating_sub(slice.start).saturating_abs() / slice.part_size.max(1))
    });
    Ok(Repeat {
        name: layer.name.clone(),
        counted,
        entries,
        exits: connected().map(exit).collect(),
        next: body.outputs.iter().find(|output| output.execution_condition).map(|output| output.result),
        count: count.filter(|_| !counted),
    })
}

fn entry(body: &Body, parameter: usize, counted: bool) -> Result<Entry, Diagnostic> {
    let layer = body.net.parameters.get(parameter).and_then(|index| body.net.layers.get(*index));
    let input = body.inputs.iter().find(|input| input.parameter == parameter);
    let (Some(layer), Some(input)) = (layer, input) else {
        return Err(Diagnostic::internal("a parameter is not connected"));
    };
    let back = body.back_edges.iter().find(|edge| edge.parameter == parameter);
    let source = match (*input, back) {
        (BodyInput { external: Some(operand), slice: None, .. }, Some(edge)) => {
            Source::Carried { operand, result: edge.result }
        }
        (BodyInput { current_iteration: true, .. }, None) => counter(&Attributes::new(layer))?,
        (BodyInput { external: Some(operand), slice: Some(slice), .. }, None) => Source::Part { operand, slice },
        (BodyInput { external: Some(operand), slice: None, .. }, None) => Source::Invariant(operand),
        _ => return Err(Diagnostic::error(&codes::BODY, "a parameter gets values in two ways").at(input.span)),
    };
    // A Loop runs on whatever type it gets; a TensorIterator on the type that its body says.
    let element = (!counted).then(|| Attributes::new(layer).element_type("element_type").ok()).flatten();
    Ok(Entry { name: layer.name.clone(), source, element })
}

fn counter(attributes: &Attributes) -> Result<Source, Diagnostic> {
    let element = attributes.element_type("element_type")?;
    let shape = attributes.dims("shape")?;
    if !element.is_integer() {
        return Err(attributes.invalid("element_type", "an integer type, as the number of an iteration needs"));
    }
    // A scalar, or one element under any number of dimensions.
    let rank = if shape.dynamic_rank { 1 } else { shape.dims.len() };
    Ok(Source::Counter { element, dims: vec![Dim::constant(1); rank] })
}

impl Op for Repeat {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        infer::infer(self, inputs, context)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        lower::lower(self, builder)
    }
}
