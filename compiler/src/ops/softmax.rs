//! Softmax and its logarithm along one axis.

use crate::diag::Diagnostic;
use crate::fact::Fact;
use crate::op::reduction::pinned;
use crate::op::{InferContext, Op, OpDef, Support, axes, one_output, reduction, typing};
use crate::program::builder::{Builder, NestBuilder};
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
        let axis = [axes::normalize(self.axis, dims.len())?];
        let wide = builder.scalar_type(x)?.element();
        let space = (dims.as_slice(), axis.as_slice());
        let maximum = reduction::along(builder, space, wide, ReduceFn::Max, |n, i| n.load(x, i), |_, max| max)?;
        let exponential = builder.temporary(wide, dims.clone());
        builder.map(exponential, |n, i| {
            let x = n.load(x, i)?;
            let maximum = n.load(maximum, &pinned(i, &axis))?;
            let difference = n.binary(Binary::Sub, x, maximum);
            Ok(reduction::exponential(n, difference))
        })?;
        // Once for a row, not for each of its elements.
        let finish = |n: &mut NestBuilder<'_, '_>, sum| if self.log { n.unary(Unary::Ln, sum) } else { sum };
        let sum = reduction::along(builder, space, wide, ReduceFn::Sum, |n, i| n.load(exponential, i), finish)?;
        builder.map(out, |n, i| {
            let sum = n.load(sum, &pinned(i, &axis))?;
            if !self.log {
                let exponential = n.load(exponential, i)?;
                return Ok(n.binary(Binary::Div, exponential, sum));
            }
            let x = n.load(x, i)?;
            let maximum = n.load(maximum, &pinned(i, &axis))?;
            let difference = n.binary(Binary::Sub, x, maximum);
            Ok(n.binary(Binary::Sub, difference, sum))
        })
    }
}
