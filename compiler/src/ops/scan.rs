//! Sums that run along an axis.

use crate::diag::{Diagnostic, codes};
use crate::fact::Fact;
use crate::op::running::{Along, Running};
use crate::op::{InferContext, Op, OpDef, Support, axes, one_output, typing};
use crate::program::builder::Builder;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "CumSum",
    version: 3,
    opsets: 3..=17,
    inputs: 1..=2,
    outputs: one_output,
    parse: |attributes| {
        Ok(Rc::new(CumSum {
            exclusive: attributes.bool("exclusive", false)?,
            reverse: attributes.bool("reverse", false)?,
        }))
    },
    ignorable: &[],
    support: Support::Full,
}];

/// CumSum-3: `out[i] = sum(x[0..=i])` along the axis that operand 1 names (default 0), possibly
/// only when the model runs; `exclusive` leaves `x[i]` out, `reverse` sums from the end.
#[derive(Debug)]
struct CumSum {
    exclusive: bool,
    reverse: bool,
}

impl CumSum {
    /// The axis; `None` where only a run knows it.
    fn axis(axis: Option<&Fact>, rank: usize) -> Result<Option<usize>, Diagnostic> {
        let Some(axis) = axis else { return axes::normalize(0, rank).map(Some) };
        typing::integer(axis.element, "the axis")?;
        if !axis.dims.iter().all(|dim| dim.is(1)) {
            return Err(Diagnostic::error(&codes::SHAPE, "the axis is not a scalar"));
        }
        match axis.as_i64s() {
            Some(_) => axes::normalize(axes::scalar(axis, "the axis")?, rank).map(Some),
            None => axes::normalize(0, rank).map(|_| None),
        }
    }
}

impl Op for CumSum {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::number(x.element, "the operand of CumSum")?;
        CumSum::axis(inputs.get(1), x.rank())?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let named = (builder.input_count() > 1).then(|| builder.fact(1)).transpose()?;
        let rank = builder.dims(out).len();
        let along = match CumSum::axis(named, rank)? {
            Some(axis) => Along::Axis(axis),
            None => Along::Named(builder.input(1)?),
        };
        Running { along, exclusive: self.exclusive, reverse: self.reverse }.sum(builder, x, out)
    }
}
