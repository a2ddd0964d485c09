//! Functions of one element: arithmetic, trigonometric and rounding.

use crate::diag::{Diagnostic, codes};
use crate::fact::Fact;
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::Builder;
use crate::program::nest::Unary as Function;
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Abs", 1, |_| unary(Function::Abs)),
    row("Acos", 1, |_| unary(Function::Acos)),
    row("Acosh", 4, |_| unary(Function::Acosh)),
    row("Asin", 1, |_| unary(Function::Asin)),
    row("Asinh", 4, |_| unary(Function::Asinh)),
    row("Atan", 1, |_| unary(Function::Atan)),
    row("Atanh", 4, |_| unary(Function::Atanh)),
    row("Ceiling", 1, |_| unary(Function::Ceil)),
    row("Cos", 1, |_| unary(Function::Cos)),
    row("Cosh", 1, |_| unary(Function::Cosh)),
    row("Erf", 1, |_| unary(Function::Erf)),
    row("Exp", 1, |_| unary(Function::Exp)),
    row("Floor", 1, |_| unary(Function::Floor)),
    row("Log", 1, |_| unary(Function::Ln)),
    row("Negative", 1, |_| unary(Function::Neg)),
    row("Round", 5, |attributes| {
        let modes = [("half_to_even", Function::Round), ("half_away_from_zero", Function::RoundHalfAway)];
        unary(attributes.choice_or("mode", &modes, Function::Round)?)
    }),
    row("Sign", 1, |_| unary(Function::Sign)),
    row("Sin", 1, |_| unary(Function::Sin)),
    row("Sinh", 1, |_| unary(Function::Sinh)),
    row("Sqrt", 1, |_| unary(Function::Sqrt)),
    row("Tan", 1, |_| unary(Function::Tan)),
];

const fn row(name: &'static str, version: u8, parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>) -> OpDef {
    OpDef {
        name,
        version,
        opsets: version..=17,
        inputs: 1..=1,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// `out[i] = f(x[i])` for every element; element type and shape are those of the operand.
#[derive(Debug)]
struct Unary {
    function: Function,
}

fn unary(function: Function) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Unary { function }))
}

impl Op for Unary {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let [x] = inputs else { return Err(Diagnostic::error(&codes::INTERNAL, "a unary operation has one operand")) };
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    /// Integers are computed in their own type by functions that are closed over them, else in f32 (f64 for 64 bits)
    /// and converted back as Convert does.
    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let element = builder.element(x);
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            Ok(n.unary_in_float(self.function, x, element))
        })
    }
}
