//! Choice between two tensors, element by element.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::broadcast::Broadcast;
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::Builder;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "Select",
    version: 1,
    opsets: 1..=17,
    inputs: 3..=3,
    outputs: one_output,
    parse: |attributes| Ok(Rc::new(Select { broadcast: Broadcast::parse(attributes)? })),
    ignorable: &[],
    support: Support::Full,
}];

/// Select-1: `out[i] = condition[i] ? then[i] : else[i]`. With `numpy` all three are broadcast; with `pdpd` the result
/// has the shape of `then`, to which the others stretch.
#[derive(Debug)]
struct Select {
    broadcast: Broadcast,
}

impl Op for Select {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (condition, then, otherwise) =
            (typing::operand(inputs, 0)?, typing::operand(inputs, 1)?, typing::operand(inputs, 2)?);
        typing::boolean(condition.element, "the condition of Select")?;
        typing::equal(inputs.get(1..).unwrap_or(&[]))?;
        let values = self.broadcast.dims(&then.dims, &otherwise.dims, context)?;
        let dims: Vec<Dim> = self.broadcast.dims(&values, &condition.dims, context)?;
        Ok(vec![Fact::new(then.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (condition, then, otherwise) = (builder.input(0)?, builder.input(1)?, builder.input(2)?);
        let out = builder.output(0)?;
        builder.map(out, |n, i| {
            let condition = n.load(condition, &self.broadcast.index(&n.dims(condition), i))?;
            let then = n.load(then, &self.broadcast.index(&n.dims(then), i))?;
            let otherwise = n.load(otherwise, &self.broadcast.index(&n.dims(otherwise), i))?;
            Ok(n.select(condition, then, otherwise))
        })
    }
}
