//! ScaledDotProductAttention: products of queries with keys, masked, normalised, times values.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::broadcast::Broadcast;
use crate::op::operands::{MapAxes, operand, require_equal, same_element, shape_error};
use crate::op::reduction;
use crate::op::typing;
use crate::op::window::{reduce, reduction_axis};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, ReduceFn, ScalarType, Unary};
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "ScaledDotProductAttention",
    version: 13,
    opsets: 13..=17,
    inputs: 3..=5,
    outputs: one_output,
    parse: |a| Ok(Rc::new(Attention { causal: a.bool("causal", false)? })),
    ignorable: &[],
    support: Support::Full,
}];

/// `out[.., l, v] = sum over s of softmax over s(query[.., l, e] * key[.., s, e] * scale + mask[.., l, s]) * value[.., s, v]`.
/// Operands: query, key, value, mask (boolean: true keeps; else added), scale (default 1 / sqrt(e)). With `causal` the
/// mask is ignored and position `l` sees keys up to `l`. A row without any key is NaN.
#[derive(Debug)]
struct Attention {
    causal: bool,
}

/// The two last dimensions and what comes before.
fn split(dims: &[Dim]) -> Result<(&[Dim], &Dim, &Dim), Diagnostic> {
    match dims {
        [batch @ .., a, b] => Ok((batch, a, b)),
        _ => Err(shape_error("queries, keys and values need at least two dimensions")),
    }
}

impl Op for Attention {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let element = same_element(inputs, 0, 1)?;
        same_element(inputs, 0, 2)?;
        typing::float(element, "the operands of an attention")?;
        let (queries, length, width) = split(&operand(inputs, 0)?.dims)?;
        let (keys, positions, key_width) = split(&operand(inputs, 1)?.dims)?;
        let (values, value_positions, value_width) = split(&operand(inputs, 2)?.dims)?;
        require_equal(context, width, key_width, "the widths of queries and keys")?;
        require_equal(context, positions, value_positions, "the numbers of keys and values")?;
        let batch = Broadcast::Numpy.dims(queries, keys, context)?;
        let mut dims = Broadcast::Numpy.dims(&batch, values, context)?;
        dims.push(length.clone());
        if let (Some(mask), false) = (inputs.get(3), self.causal) {
            let scores: Vec<Dim> = dims.iter().chain([positions]).cloned().collect();
            if mask.element != ElementType::Boolean {
                same_element(inputs, 0, 3)?;
            }
            let masked = Broadcast::Numpy.dims(&scores, &mask.dims, context)?;
            if masked.len() != scores.len() {
                return Err(shape_error("the mask has more dimensions than the scores"));
            }
        }
        if inputs.len() > 4 {
            same_element(inputs, 0, 4)?;
        }
        dims.push(value_width.clone());
        Ok(vec![Fact::new(element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (query, key, value, out) = (builder.input(0)?, builder.input(1)?, builder.input(2)?, builder.output(0)?);
        let (out_dims, key_dims) = (builder.dims(out), builder.dims(key));
        let (batch, length, _) = split(&out_dims)?;
        let (_, positions, _) = split(&key_dims)?;
        let dims: Vec<Dim> = batch.iter().chain([length, positions]).cloned().collect();
        let element = builder.scalar_type(query)?.element();
        let scores = builder.temporary(element, dims.clone());
        self.scores(builder, query, key, scores)?;
        let rows: Vec<Dim> = batch.iter().chain([length]).cloned().collect();
        let maximum = row_reduction(builder, scores, &rows, positions, ReduceFn::Max)?;
        let weights = builder.temporary(element, dims);
        builder.map(weights, |n, i| {
            let score = n.load(scores, i)?;
            let maximum = n.load(maximum, i.split_last().map_or(i, |(_, row)| row))?;
            let difference = n.binary(Binary::Sub, score, maximum);
            Ok(reduction::exponential(n, difference))
        })?;
        let sum = row_reduction(builder, weights, &rows, positions, ReduceFn::Sum)?;
        weighted_values(builder, weights, value, sum, out)
    }
}

impl Attention {
    /// `scores[.., l, s]`, scaled and masked.
    fn scores(
        &self,
        builder: &mut Builder,
        query: BufferId,
        key: BufferId,
        scores: BufferId,
    ) -> Result<(), Diagnostic> {
        let (query_dims, key_dims, dims) = (builder.dims(query), builder.dims(key), builder.dims(scores));
        let (queries, _, width) = split(&query_dims)?;
        let (keys, ..) = split(&key_dims)?;
        let mask = if self.causal || builder.input_count() < 4 { None } else { Some(builder.input(3)?) };
        let scale = if builder.input_count() < 5 { None } else { Some(builder.input(4)?) };
        let mut maps = MapAxes::default();
        let index = maps.axes(&dims);
        let (batch, l, s) = split(&index)?;
        let mut n = builder.nest(&maps.extents);
        let e = reduction_axis(&mut n, width);
        let at = |dims: &[Dim], row: &Dim| -> Vec<Dim> {
            Broadcast::Numpy.index(dims, batch).into_iter().chain([row.clone(), e.clone()]).collect()
        };
        let left = n.load(query, &at(queries, l))?;
        let right = n.load(key, &at(keys, s))?;
        let product = n.binary(Binary::Mul, left, right);
        let sum = reduce(&mut n, ReduceFn::Sum, std::slice::from_ref(&e), product);
        let factor = scale_factor(&mut n, scale, width, sum)?;
        let scaled = n.binary(Binary::Mul, sum, factor);
        let masked = match mask {
            Some(mask) => {
                let at = Broadcast::Numpy.index(&n.dims(mask), &index);
                let mask = n.load(mask, &at)?;
                match n.type_of(mask) {
                    ScalarType::Bool => masked(&mut n, mask, scaled),
                    _ => n.binary(Binary::Add, scaled, mask),
                }
            }
            None if self.causal => {
                let (l, s) = (n.index(l), n.index(s));
                let seen = n.binary(Binary::Le, s, l);
                masked(&mut n, seen, scaled)
            }
            None => scaled,
        };
        n.store(scores, &index, masked);
        Ok(())
    }
}

fn masked(n: &mut NestBuilder<'_, '_>, keep: Node, score: Node) -> Node {
    let never = n.constant_like(score, f64::NEG_INFINITY);
    n.select(keep, score, never)
}

/// The scale operand (its only element), or 1 / sqrt(width).
fn scale_factor(
    n: &mut NestBuilder<'_, '_>,
    scale: Option<BufferId>,
    width: &Dim,
    like: Node,
) -> Result<Node, Diagnostic> {
    if let Some(scale) = scale {
        let first: Vec<Dim> = n.dims(scale).iter().map(|_| Dim::constant(0)).collect();
        return n.load(scale, &first);
    }
    if let Some(width) = width.as_const() {
        return Ok(n.constant_like(like, 1.0 / (width as f64).sqrt()));
    }
    let width = n.index(width);
    let width = n.cast(n.type_of(like).element(), width);
    let root = n.unary(Unary::Sqrt, width);
    let one = n.constant_like(like, 1.0);
    Ok(n.binary(Binary::Div, one, root))
}

/// Reduces the last dimension.
fn row_reduction(
    builder: &mut Builder,
    from: BufferId,
    rows: &[Dim],
    length: &Dim,
    function: ReduceFn,
) -> Result<BufferId, Diagnostic> {
    let out = builder.temporary(builder.element(from), rows.to_vec());
    let mut n = builder.nest(rows);
    let index = n.map_axes();
    let s = n.reduction_axis(length);
    let x = n.load(from, &index.iter().cloned().chain([s]).collect::<Vec<_>>())?;
    let value = n.reduce(function, x);
    n.store(out, &index, value);
    Ok(out)
}

/// `out[.., l, v]`: weighted sums of values, divided by the sums of the weights.
fn weighted_values(
    builder: &mut Builder,
    weights: BufferId,
    value: BufferId,
    sum: BufferId,
    out: BufferId,
) -> Result<(), Diagnostic> {
    let (value_dims, dims) = (builder.dims(value), builder.dims(out));
    let (values, positions, _) = split(&value_dims)?;
    let mut maps = MapAxes::default();
    let index = maps.axes(&dims);
    let (batch, l, v) = split(&index)?;
    let mut n = builder.nest(&maps.extents);
    let s = reduction_axis(&mut n, positions);
    let row: Vec<Dim> = batch.iter().chain([l]).cloned().collect();
    let weight = n.load(weights, &row.iter().chain([&s]).cloned().collect::<Vec<_>>())?;
    let from: Vec<Dim> = Broadcast::Numpy.index(values, batch).into_iter().chain([s.clone(), v.clone()]).collect();
    let value = n.load(value, &from)?;
    let product = n.binary(Binary::Mul, weight, value);
    let total = reduce(&mut n, ReduceFn::Sum, std::slice::from_ref(&s), product);
    let sum = n.load(sum, &row)?;
    let normalised = n.binary(Binary::Div, total, sum);
    n.store(out, &index, normalised);
    Ok(())
}
