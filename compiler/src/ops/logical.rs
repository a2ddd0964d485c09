//! Boolean functions of one or two elements.

use crate::diag::Diagnostic;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::broadcast::{self, Broadcast};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::Builder;
use crate::program::nest::{Binary as Function, Unary};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("LogicalAnd", 1..=17, 2, |a| logical(a, Function::And)),
    row("LogicalNot", 1..=17, 1, |_| Ok(Rc::new(Not))),
    row("LogicalOr", 1..=17, 2, |a| logical(a, Function::Or)),
    row("LogicalXor", 1..=17, 2, |a| logical(a, Function::Xor)),
    // The first opset spells LogicalXor this way too.
    row("Xor", 1..=1, 2, |a| logical(a, Function::Xor)),
];

const fn row(
    name: &'static str,
    opsets: RangeInclusive<u8>,
    inputs: usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name,
        version: 1,
        opsets,
        inputs: inputs..=inputs,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// `out[i] = f(a[i], b[i])` for booleans, both operands broadcast.
#[derive(Debug)]
struct Logical {
    function: Function,
    broadcast: Broadcast,
}

fn logical(attributes: &Attributes, function: Function) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Logical { function, broadcast: Broadcast::parse(attributes)? }))
}

impl Op for Logical {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (element, dims) = broadcast::infer(self.broadcast, inputs, context)?;
        typing::boolean(element, "the operand of a logical operation")?;
        Ok(vec![Fact::new(ElementType::Boolean, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (a, b, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        builder.map(out, |n, i| {
            let a = n.load(a, &self.broadcast.index(&n.dims(a), i))?;
            let b = n.load(b, &self.broadcast.index(&n.dims(b), i))?;
            Ok(n.binary(self.function, a, b))
        })
    }
}

/// `out[i] = !x[i]` for booleans.
#[derive(Debug)]
struct Not;

impl Op for Not {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::boolean(x.element, "the operand of LogicalNot")?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            Ok(n.unary(Unary::Not, x))
        })
    }
}
