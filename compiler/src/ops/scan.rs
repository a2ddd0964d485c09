//! Sums that run along an axis.

use crate::diag::Diagnostic;
use crate::fact::Fact;
use crate::op::running::Running;
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

/// CumSum-3: `out[i] = sum(x[0..=i])` along the axis that operand 1 names (default 0); `exclusive` leaves `x[i]` out,
/// `reverse` sums from the end.
#[derive(Debug)]
struct CumSum {
    exclusive: bool,
    reverse: bool,
}

impl CumSum {
    fn axis(axis: Option<&Fact>, rank: usize) -> Result<usize, Diagnostic> {
        let axis = axis.map_or(Ok(0), |axis| axes::scalar(axis, "the axis"))?;
        axes::normalize(axis, rank)
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
        let axis = CumSum::axis(named, builder.dims(out).len())?;
        Running { axis, exclusive: self.exclusive, reverse: self.reverse }.sum(builder, x, out)
    }
}
