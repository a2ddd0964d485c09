//! Comparisons of two elements with broadcasting. NaN is unequal to and unordered with everything.

use crate::diag::{Diagnostic, codes};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::broadcast::{self, Broadcast};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::Builder;
use crate::program::nest::Binary as Function;
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Equal", |a| comparison(a, Function::Eq, false)),
    row("Greater", |a| comparison(a, Function::Lt, true)),
    row("GreaterEqual", |a| comparison(a, Function::Le, true)),
    row("Less", |a| comparison(a, Function::Lt, false)),
    row("LessEqual", |a| comparison(a, Function::Le, false)),
    row("NotEqual", |a| comparison(a, Function::Ne, false)),
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

/// `out[i] = a[i] <function> b[i]` as boolean, both operands broadcast and of one type.
#[derive(Debug)]
struct Comparison {
    function: Function,
    /// `b` is the left-hand side: a greater b is b less a.
    swapped: bool,
    broadcast: Broadcast,
}

fn comparison(attributes: &Attributes, function: Function, swapped: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Comparison { function, swapped, broadcast: Broadcast::parse(attributes)? }))
}

impl Op for Comparison {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (element, dims) = broadcast::infer(self.broadcast, inputs, context)?;
        if element == ElementType::String {
            return Err(Diagnostic::error(&codes::TYPE, "strings cannot be compared"));
        }
        Ok(vec![Fact::new(ElementType::Boolean, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (a, b, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        builder.map(out, |n, i| {
            let a = n.load(a, &self.broadcast.index(&n.dims(a), i))?;
            let b = n.load(b, &self.broadcast.index(&n.dims(b), i))?;
            let (left, right) = if self.swapped { (b, a) } else { (a, b) };
            Ok(n.binary(self.function, left, right))
        })
    }
}
