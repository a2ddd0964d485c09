//! MatMul: products of matrices and vectors, batched.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::broadcast::Broadcast;
use crate::op::operands::{MapAxes, operand, require_equal, same_element, shape_error};
use crate::op::window::{reduce, reduction_axis};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::Builder;
use crate::program::nest::{Binary, ReduceFn};
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "MatMul",
    version: 1,
    opsets: 1..=17,
    inputs: 2..=2,
    outputs: one_output,
    parse: |a| {
        Ok(Rc::new(MatMul { transpose_a: a.bool("transpose_a", false)?, transpose_b: a.bool("transpose_b", false)? }))
    },
    ignorable: &[],
    support: Support::Full,
}];

/// `out[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]`. A vector is a row on the left and a column on the right
/// (and is never transposed); its dimension of size 1 is not in the result. Batch dimensions broadcast.
#[derive(Debug)]
struct MatMul {
    transpose_a: bool,
    transpose_b: bool,
}

/// Dimensions of one operand by their meaning: batch, outer (`m` or `n`; none for a vector) and inner (`k`).
struct Sides {
    batch: Vec<Dim>,
    outer: Option<Dim>,
    inner: Dim,
}

/// `inner_last`: the matrix is stored as [outer, inner].
fn sides(dims: &[Dim], inner_last: bool) -> Result<Sides, Diagnostic> {
    match dims {
        [] => Err(shape_error("a scalar cannot be an operand of a MatMul").help("use Multiply")),
        [inner] => Ok(Sides { batch: Vec::new(), outer: None, inner: inner.clone() }),
        [batch @ .., a, b] => {
            let (outer, inner) = if inner_last { (a, b) } else { (b, a) };
            Ok(Sides { batch: batch.to_vec(), outer: Some(outer.clone()), inner: inner.clone() })
        }
    }
}

/// Index into an operand.
fn index(sides: &Sides, batch: &[Dim], outer: &Dim, inner: &Dim, inner_last: bool) -> Vec<Dim> {
    let mut index = Broadcast::Numpy.index(&sides.batch, batch);
    match (&sides.outer, inner_last) {
        (None, _) => index.push(inner.clone()),
        (Some(_), true) => index.extend([outer.clone(), inner.clone()]),
        (Some(_), false) => index.extend([inner.clone(), outer.clone()]),
    }
    index
}

impl Op for MatMul {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let element = same_element(inputs, 0, 1)?;
        if matches!(element, ElementType::Boolean | ElementType::String) {
            return Err(Diagnostic::error(&codes::TYPE, format!("{element} cannot be multiplied")));
        }
        let a = sides(&operand(inputs, 0)?.dims, !self.transpose_a)?;
        let b = sides(&operand(inputs, 1)?.dims, self.transpose_b)?;
        require_equal(context, &a.inner, &b.inner, "the summed dimensions of a MatMul")?;
        let mut dims = Broadcast::Numpy.dims(&a.batch, &b.batch, context)?;
        dims.extend(a.outer.into_iter().chain(b.outer));
        Ok(vec![Fact::new(element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, y, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let a = sides(&builder.dims(x), !self.transpose_a)?;
        let b = sides(&builder.dims(y), self.transpose_b)?;
        let dims = builder.dims(out);
        let batches = a.batch.len().max(b.batch.len());
        let one = Dim::constant(1);
        let mut maps = MapAxes::default();
        let batch = maps.axes(dims.get(..batches).unwrap_or(&[]));
        let (m, n) = (maps.axis(a.outer.as_ref().unwrap_or(&one)), maps.axis(b.outer.as_ref().unwrap_or(&one)));
        let mut nest = builder.nest(&maps.extents);
        let k = reduction_axis(&mut nest, if a.inner.as_const().is_some() { &a.inner } else { &b.inner });
        let left = nest.load(x, &index(&a, &batch, &m, &k, !self.transpose_a))?;
        let right = nest.load(y, &index(&b, &batch, &n, &k, self.transpose_b))?;
        let product = nest.binary(Binary::Mul, left, right);
        let sum = reduce(&mut nest, ReduceFn::Sum, &[k], product);
        let outer = a.outer.as_ref().map(|_| m).into_iter().chain(b.outer.as_ref().map(|_| n));
        let to: Vec<Dim> = batch.into_iter().chain(outer).collect();
        nest.store(out, &to, sum);
        Ok(())
    }
}
