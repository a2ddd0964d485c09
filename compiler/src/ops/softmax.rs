//! Softmax and its logarithm along one axis.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::{InferContext, Op, OpDef, Support, axes, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::Builder;
use crate::program::nest::{Binary, ReduceFn, Unary};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("LogSoftmax", 5, 5..=17, |a| softmax(a, true)),
    row("Softmax", 1, 1..=7, |a| match a.int_or("axis", 1)? {
        0.. => softmax(a, false),
        _ => Err(a.invalid("axis", "zero or more, as this version needs it")),
    }),
    row("Softmax", 8, 8..=17, |a| softmax(a, false)),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs: 1..=1, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

/// With `m` the maximum and the sum taken along `axis`: `exp(x - m) / sum(exp(x - m))`, or
/// `x - m - ln(sum(exp(x - m)))`. A row without a finite element is NaN.
#[derive(Debug)]
struct Softmax {
    axis: i64,
    log: bool,
}

fn softmax(attributes: &Attributes, log: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Softmax { axis: attributes.int_or("axis", 1)?, log }))
}

impl Op for Softmax {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::float(x.element, "the operand of a softmax")?;
        axes::normalize(self.axis, x.rank())?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let dims = builder.dims(x);
        let axis = axes::normalize(self.axis, dims.len())?;
        let wide = builder.scalar_type(x)?.element();
        let maximum = reduce(builder, x, axis, ReduceFn::Max)?;
        let exponential = builder.temporary(wide, dims);
        builder.map(exponential, |n, i| {
            let x = n.load(x, i)?;
            let maximum = n.load(maximum, &row_of(i, axis))?;
            let difference = n.binary(Binary::Sub, x, maximum);
            Ok(n.unary(Unary::Exp, difference))
        })?;
        let sum = reduce(builder, exponential, axis, ReduceFn::Sum)?;
        builder.map(out, |n, i| {
            let sum = n.load(sum, &row_of(i, axis))?;
            if !self.log {
                let exponential = n.load(exponential, i)?;
                return Ok(n.binary(Binary::Div, exponential, sum));
            }
            let x = n.load(x, i)?;
            let maximum = n.load(maximum, &row_of(i, axis))?;
            let difference = n.binary(Binary::Sub, x, maximum);
            let logarithm = n.unary(Unary::Ln, sum);
            Ok(n.binary(Binary::Sub, difference, logarithm))
        })
    }
}

/// The index of an element with 0 on `axis`.
fn row_of(index: &[Dim], axis: usize) -> Vec<Dim> {
    let mut row = index.to_vec();
    if let Some(slot) = row.get_mut(axis) {
        *slot = Dim::constant(0);
    }
    row
}

/// A temporary with the reduction of `from` along `axis`, which stays as a dimension of size 1.
fn reduce(builder: &mut Builder, from: BufferId, axis: usize, function: ReduceFn) -> Result<BufferId, Diagnostic> {
    let dims = builder.dims(from);
    let mut kept = dims.clone();
    if let Some(slot) = kept.get_mut(axis) {
        *slot = Dim::constant(1);
    }
    let to = builder.temporary(builder.scalar_type(from)?.element(), kept.clone());
    let mut nest = builder.nest(&kept);
    let map = nest.map_axes();
    let mut index = map.clone();
    if let (Some(slot), Some(extent)) = (index.get_mut(axis), dims.get(axis)) {
        *slot = nest.reduction_axis(extent);
    }
    let value = nest.load(from, &index)?;
    let value = nest.reduce(function, value);
    nest.store(to, &map, value);
    Ok(to)
}
