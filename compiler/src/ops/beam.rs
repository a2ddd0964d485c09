//! Results of beam search: GatherTree.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, ReduceFn};
use crate::program::{Bound, BufferId};
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "GatherTree",
    version: 1,
    opsets: 1..=17,
    inputs: 4..=4,
    outputs: one_output,
    parse: |_| Ok(Rc::new(GatherTree)),
    ignorable: &[],
    support: Support::Full,
}];

/// GatherTree-1: `[time, batch, beam]`, the tokens of every beam, found from its last one back through its parents;
/// only end tokens behind the first one, and from the length of the sequence on. Operands: tokens and parents of all
/// beams at all times, lengths of the sequences, end token.
#[derive(Debug)]
struct GatherTree;

/// Time, batch and beam.
fn place(index: &[Dim]) -> Result<[&Dim; 3], Diagnostic> {
    let [time, batch, beam] = index else { return Err(Diagnostic::internal("beams lack dimensions")) };
    Ok([time, batch, beam])
}

/// The element of beam `beam` at a time; `otherwise` where there is no such beam.
fn of_beam(
    n: &mut NestBuilder,
    buffer: BufferId,
    [time, batch]: [&Dim; 2],
    beam: Node,
    otherwise: Node,
) -> Result<Node, Diagnostic> {
    let beam = n.as_index(beam);
    let limit = n.dims(buffer).get(2).cloned().unwrap_or_default();
    let bound = Bound { value: beam.clone(), limit };
    n.load_within(buffer, &[time.clone(), batch.clone(), beam], vec![bound], otherwise)
}

impl Op for GatherTree {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let [tokens, parents, lengths, end] =
            [operand(inputs, 0)?, operand(inputs, 1)?, operand(inputs, 2)?, operand(inputs, 3)?];
        typing::number(tokens.element, "the list of tokens")?;
        typing::equal(inputs)?;
        if tokens.rank() != 3 || parents.rank() != 3 || lengths.rank() != 1 || !end.dims.iter().all(|dim| dim.is(1)) {
            return Err(shape_error("tokens and parents must have three dimensions, lengths one, the end token none"));
        }
        for (a, b) in tokens.dims.iter().zip(&parents.dims) {
            require_equal(context, a, b, "dimensions of tokens and parents")?;
        }
        for (a, b) in tokens.dims.iter().skip(1).zip(&lengths.dims) {
            require_equal(context, a, b, "the batch of the tokens and the number of lengths")?;
        }
        Ok(vec![Fact::new(tokens.element, tokens.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (tokens, end, out) = (builder.input(0)?, builder.input(3)?, builder.output(0)?);
        let (dims, element) = (builder.dims(tokens), builder.element(tokens));
        let [steps, _, _] = place(&dims)?;
        let found = builder.temporary(element, dims.clone());
        trace(builder, found, steps)?;
        let origin = vec![Dim::constant(0); builder.dims(end).len()];
        let first = builder.temporary(ElementType::I64, dims.iter().skip(1).cloned().collect());
        let mut n = builder.nest(dims.get(1..).unwrap_or(&[]));
        let i = n.map_axes();
        let time = n.reduction_axis(steps);
        let at: Vec<Dim> = [time.clone()].into_iter().chain(i.iter().cloned()).collect();
        let (token, end_token) = (n.load(found, &at)?, n.load(end, &origin)?);
        let ends = n.binary(Binary::Eq, token, end_token);
        let (time, steps) = (n.index(&time), n.index(steps));
        let place = n.select(ends, time, steps);
        let place = n.reduce(ReduceFn::Min, place);
        n.store(first, &i, place);
        builder.map(out, |n, i| {
            let (token, end_token) = (n.load(found, i)?, n.load(end, &origin)?);
            let first = n.load(first, i.get(1..).unwrap_or(&[]))?;
            let time = n.index(i.first().unwrap_or(&Dim::constant(0)));
            let behind = n.binary(Binary::Lt, first, time);
            Ok(n.select(behind, end_token, token))
        })
    }
}

/// Follows the parents of every beam back in time, and writes the tokens on the way.
fn trace(builder: &mut Builder, found: BufferId, steps: &Dim) -> Result<(), Diagnostic> {
    let (tokens, parents, lengths, end) = (builder.input(0)?, builder.input(1)?, builder.input(2)?, builder.input(3)?);
    let beams: Vec<Dim> = builder.dims(tokens).into_iter().skip(1).collect();
    let origin = vec![Dim::constant(0); builder.dims(end).len()];
    let current = builder.temporary(ElementType::I64, beams.clone());
    builder.map(current, |n, i| Ok(n.index(i.last().unwrap_or(&Dim::constant(0)))))?;
    builder.repeat(steps, |builder, iteration| {
        let next = builder.temporary(ElementType::I64, beams.clone());
        for out in [found, next] {
            let mut n = builder.nest(&beams);
            let i = n.map_axes();
            let [batch, beam] = i.as_slice() else { return Err(Diagnostic::internal("beams lack dimensions")) };
            let at = steps.clone() - 1 - iteration;
            let time = n.index(&at);
            let length = n.load(lengths, std::slice::from_ref(batch))?;
            let length = n.cast(ElementType::I64, length);
            let (listed, parent) = (n.binary(Binary::Lt, time, length), n.load(current, &i)?);
            let end = n.load(end, &origin)?;
            if out == found {
                let token = of_beam(&mut n, tokens, [&at, batch], parent, end)?;
                let token = n.select(listed, token, end);
                n.store(found, &[at, batch.clone(), beam.clone()], token);
            } else {
                let none = n.constant_like(end, 0.0);
                let above = of_beam(&mut n, parents, [&at, batch], parent, none)?;
                let above = n.cast(ElementType::I64, above);
                let parent = n.select(listed, above, parent);
                n.store(next, &i, parent);
            }
        }
        Ok(vec![(next, current)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        let fact = |dims: &[i64]| Fact::new(ElementType::I32, dims.iter().map(|dim| Dim::constant(*dim)).collect());
        let infer = |operands: [Fact; 4]| GatherTree.infer(&operands, &mut InferContext::default());
        let tokens = || fact(&[4, 2, 3]);
        assert_eq!(infer([tokens(), tokens(), fact(&[2]), fact(&[])]).unwrap()[0].dims, tokens().dims);
        assert!(infer([tokens(), fact(&[4, 2, 2]), fact(&[2]), fact(&[])]).is_err());
        assert!(infer([tokens(), tokens(), fact(&[3]), fact(&[])]).is_err());
        assert!(infer([tokens(), tokens(), fact(&[2]), fact(&[2])]).is_err());
    }
}
