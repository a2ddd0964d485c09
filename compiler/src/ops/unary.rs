//! Functions of one element: arithmetic, trigonometric, rounding, and tests for special values.

use crate::diag::Diagnostic;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::{InferContext, Op, OpDef, Props, Support, one_output, typing};
use crate::program::builder::Builder;
use crate::program::nest::{Binary, Const, Unary as Function};
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
    row("Identity", 16, |_| Ok(Rc::new(Identity))),
    row("IsFinite", 10, |_| test(&[Function::IsFinite])),
    row("IsInf", 10, |attributes| {
        let negative = attributes.bool("detect_negative", true)?.then_some(Function::IsNegInf);
        let positive = attributes.bool("detect_positive", true)?.then_some(Function::IsPosInf);
        test(&negative.into_iter().chain(positive).collect::<Vec<_>>())
    }),
    row("IsNaN", 10, |_| test(&[Function::IsNan])),
    row("Log", 1, |_| unary(Function::Ln)),
    row("Negative", 1, |_| unary(Function::Neg)),
    row("Round", 5, |attributes| {
        let modes = [("half_to_even", Function::Round), ("half_away_from_zero", Function::RoundHalfAway)];
        unary(attributes.choice_or("mode", &modes, Function::Round)?)
    }),
    row("Sigmoid", 1, |_| unary(Function::Sigmoid)),
    row("Sign", 1, |_| unary(Function::Sign)),
    row("Sin", 1, |_| unary(Function::Sin)),
    row("Sinh", 1, |_| unary(Function::Sinh)),
    row("Sqrt", 1, |_| unary(Function::Sqrt)),
    row("Tan", 1, |_| unary(Function::Tan)),
    row("Tanh", 1, |_| unary(Function::Tanh)),
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
        let x = typing::operand(inputs, 0)?;
        typing::number(x.element, "the operand")?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    /// Integers are computed in their own type by functions that are closed over them, else in f64 and converted back:
    /// Exp, Log, Sqrt, Sin and Asin as Convert does, the others rounded to the nearest integer.
    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let element = builder.element(x);
        let integer = !builder.scalar_type(x)?.is_float();
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            if integer && is_rounded(self.function) {
                let wide = n.cast(ElementType::F64, x);
                let value = n.unary(self.function, wide);
                return Ok(n.unary(Function::Round, value));
            }
            Ok(n.unary_in_float(self.function, x, element))
        })
    }
}

/// Functions whose results for integers are rounded instead of truncated.
fn is_rounded(function: Function) -> bool {
    use Function::*;
    matches!(function, Acos | Acosh | Asinh | Atan | Atanh | Cos | Cosh | Erf | Sigmoid | Sinh | Tan | Tanh)
}

/// `out[i]` is true where one of the tests holds for `x[i]`.
#[derive(Debug)]
struct Test {
    tests: Vec<Function>,
}

fn test(tests: &[Function]) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Test { tests: tests.to_vec() }))
}

impl Op for Test {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::number(x.element, "the operand")?;
        Ok(vec![Fact::new(ElementType::Boolean, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            let mut found = None;
            for test in &self.tests {
                let holds = n.unary(*test, x);
                found = Some(found.map_or(holds, |others| n.binary(Binary::Or, others, holds)));
            }
            Ok(found.unwrap_or_else(|| n.constant(Const::Bool(false))))
        })
    }
}

/// `out[i] = x[i]`, of any type.
#[derive(Debug)]
struct Identity;

impl Op for Identity {
    fn props(&self) -> Props {
        Props { identity_if_same: true, ..Props::default() }
    }

    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        builder.reshape(x, out);
        Ok(())
    }
}
