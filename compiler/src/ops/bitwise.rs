//! Functions of the bits of one or two integers; booleans count as one bit, except for shifts.

use crate::diag::Diagnostic;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::broadcast::{self, Broadcast};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::Builder;
use crate::program::nest::{Binary as Function, Unary};
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("BitwiseAnd", 13, 2, |a| bitwise(a, Function::And)),
    row("BitwiseLeftShift", 15, 2, |a| bitwise(a, Function::Shl)),
    row("BitwiseNot", 13, 1, |_| Ok(Rc::new(Not))),
    row("BitwiseOr", 13, 2, |a| bitwise(a, Function::Or)),
    row("BitwiseRightShift", 15, 2, |a| bitwise(a, Function::Shr)),
    row("BitwiseXor", 13, 2, |a| bitwise(a, Function::Xor)),
];

const fn row(
    name: &'static str,
    version: u8,
    inputs: usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name,
        version,
        opsets: version..=17,
        inputs: inputs..=inputs,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// `out[i] = f(a[i], b[i])`, both operands broadcast and of one type. Shifts by the width of the type or more, or by
/// a negative number, are left open by the specification; they give what shifting bit by bit for ever would give.
#[derive(Debug)]
struct Bitwise {
    function: Function,
    broadcast: Broadcast,
}

fn bitwise(attributes: &Attributes, function: Function) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Bitwise { function, broadcast: Broadcast::parse(attributes)? }))
}

impl Op for Bitwise {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (element, dims) = broadcast::infer(self.broadcast, inputs, context)?;
        let shift = matches!(self.function, Function::Shl | Function::Shr);
        check(element, !shift)?;
        Ok(vec![Fact::new(element, dims)])
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

/// `out[i] = !x[i]`, bit by bit.
#[derive(Debug)]
struct Not;

impl Op for Not {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        check(x.element, true)?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let function = if builder.element(x) == ElementType::Boolean { Unary::Not } else { Unary::BitNot };
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            Ok(n.unary(function, x))
        })
    }
}

fn check(element: ElementType, boolean: bool) -> Result<(), Diagnostic> {
    match boolean && element == ElementType::Boolean {
        true => Ok(()),
        false => typing::integer(element, "the operand of a bitwise operation"),
    }
}
