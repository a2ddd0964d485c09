//! Functions of two elements with broadcasting: arithmetic, minimum, maximum, remainders.

use crate::diag::Diagnostic;
use crate::fact::Fact;
use crate::op::broadcast::{self, Broadcast};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::Builder;
use crate::program::nest::Binary as Function;
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Add", |a| binary(a, Function::Add)),
    row("Divide", |a| {
        let floor = a.bool("m_pythondiv", true)?;
        binary(a, if floor { Function::FloorDiv } else { Function::Div })
    }),
    row("FloorMod", |a| binary(a, Function::FloorMod)),
    row("Maximum", |a| binary(a, Function::Max)),
    row("Minimum", |a| binary(a, Function::Min)),
    row("Mod", |a| binary(a, Function::Rem)),
    row("Multiply", |a| binary(a, Function::Mul)),
    row("Power", |a| binary(a, Function::Pow)),
    row("SquaredDifference", |a| Ok(Rc::new(SquaredDifference { broadcast: Broadcast::parse(a)? }))),
    row("Subtract", |a| binary(a, Function::Sub)),
];

const fn row(name: &'static str, parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>) -> OpDef {
    OpDef {
        name,
        version: 1,
        opsets: 1..=17,
        inputs: 2..=2,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// `out[i] = f(a[i], b[i])` with both operands broadcast; their element types are equal.
#[derive(Debug)]
struct Binary {
    function: Function,
    broadcast: Broadcast,
}

fn binary(attributes: &Attributes, function: Function) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Binary { function, broadcast: Broadcast::parse(attributes)? }))
}

/// `a - b` with numpy broadcasting.
pub fn subtract() -> Rc<dyn Op> {
    Rc::new(Binary { function: Function::Sub, broadcast: Broadcast::Numpy })
}

impl Op for Binary {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        infer(self.broadcast, inputs, context)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (a, b, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let float = builder.scalar_type(a)?.is_float();
        let function = if float && self.function == Function::FloorDiv { Function::Div } else { self.function };
        builder.map(out, |n, i| {
            let a = n.load(a, &self.broadcast.index(&n.dims(a), i))?;
            let b = n.load(b, &self.broadcast.index(&n.dims(b), i))?;
            Ok(n.binary(function, a, b))
        })
    }
}

/// `out[i] = (a[i] - b[i])^2` with both operands broadcast.
#[derive(Debug)]
struct SquaredDifference {
    broadcast: Broadcast,
}

impl Op for SquaredDifference {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        infer(self.broadcast, inputs, context)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (a, b, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        builder.map(out, |n, i| {
            let a = n.load(a, &self.broadcast.index(&n.dims(a), i))?;
            let b = n.load(b, &self.broadcast.index(&n.dims(b), i))?;
            let difference = n.binary(Function::Sub, a, b);
            Ok(n.binary(Function::Mul, difference, difference))
        })
    }
}

fn infer(broadcast: Broadcast, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
    let (element, dims) = broadcast::infer(broadcast, inputs, context)?;
    typing::number(element, "the operand of an arithmetic operation")?;
    Ok(vec![Fact::new(element, dims)])
}
