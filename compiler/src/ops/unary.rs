//! Functions of one element: arithmetic, trigonometric, rounding, and tests for special values.

use crate::diag::Diagnostic;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::{InferContext, Op, OpDef, Props, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, Unary as Function};
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
    row("ErfInv", 17, |_| Ok(Rc::new(ErfInv))),
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
    /// Exp, Log, Sin and Asin as Convert does, the others rounded to the nearest integer.
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
    matches!(function, Acos | Acosh | Asinh | Atan | Atanh | Cos | Cosh | Erf | Sigmoid | Sinh | Sqrt | Tan | Tanh)
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
        typing::float(x.element, "the operand")?;
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

/// ErfInv-17: the y with `erf(y) = x`; infinite for x of -1 and 1, NaN beyond.
#[derive(Debug)]
struct ErfInv;

/// Coefficients of `erfinv(x) / x` in `w - 2.5` for `w = -ln(1 - x^2) < 5`, highest power first; from M. Giles,
/// "Approximating the erfinv function", GPU Computing Gems, 2010.
const CENTRAL: [f64; 9] = [
    2.81022636e-8,
    3.43273939e-7,
    -3.5233877e-6,
    -4.39150654e-6,
    2.1858087e-4,
    -1.25372503e-3,
    -4.17768164e-3,
    0.246640727,
    1.50140941,
];

/// The same in `sqrt(w) - 3` for larger w.
const TAIL: [f64; 9] = [
    -2.00214257e-4,
    1.00950558e-4,
    1.34934322e-3,
    -3.67342844e-3,
    5.73950773e-3,
    -7.6224613e-3,
    9.43887047e-3,
    1.00167406,
    2.83297682,
];

impl Op for ErfInv {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::float(x.element, "the operand of ErfInv")?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let double = builder.element(x) == ElementType::F64;
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            let mut y = erf_inv(n, x);
            // The polynomials are made for f32; every Newton step doubles the number of right digits.
            for _ in 0..if double { 2 } else { 0 } {
                y = newton_step(n, x, y);
            }
            let (one, size) = (n.constant_like(x, 1.0), n.unary(Function::Abs, x));
            let infinity = n.constant_like(x, f64::INFINITY);
            let (pole, end) = (n.binary(Binary::Mul, x, infinity), n.binary(Binary::Eq, size, one));
            Ok(n.select(end, pole, y))
        })
    }
}

/// Inverse error function of x, not of -1 and 1.
fn erf_inv(n: &mut NestBuilder, x: Node) -> Node {
    let square = n.binary(Binary::Mul, x, x);
    let negative = n.unary(Function::Neg, square);
    let logarithm = n.unary(Function::Ln1p, negative);
    let w = n.unary(Function::Neg, logarithm);
    let (five, middle, three) = (n.constant_like(x, 5.0), n.constant_like(x, 2.5), n.constant_like(x, 3.0));
    let near = n.binary(Binary::Sub, w, middle);
    let root = n.unary(Function::Sqrt, w);
    let far = n.binary(Binary::Sub, root, three);
    let (central, tail) = (polynomial(n, near, &CENTRAL), polynomial(n, far, &TAIL));
    let is_central = n.binary(Binary::Lt, w, five);
    let ratio = n.select(is_central, central, tail);
    n.binary(Binary::Mul, ratio, x)
}

/// Horner's scheme.
fn polynomial(n: &mut NestBuilder, x: Node, coefficients: &[f64]) -> Node {
    let mut sum = n.constant_like(x, 0.0);
    for (i, coefficient) in coefficients.iter().enumerate() {
        let coefficient = n.constant_like(x, *coefficient);
        sum = match i {
            0 => coefficient,
            _ => {
                let product = n.binary(Binary::Mul, sum, x);
                n.binary(Binary::Add, product, coefficient)
            }
        };
    }
    sum
}

/// `y - (erf(y) - x) / erf'(y)`.
fn newton_step(n: &mut NestBuilder, x: Node, y: Node) -> Node {
    let erf = n.unary(Function::Erf, y);
    let error = n.binary(Binary::Sub, erf, x);
    let square = n.binary(Binary::Mul, y, y);
    let inverse = n.unary(Function::Exp, square);
    let scale = n.constant_like(x, 1.0 / std::f64::consts::FRAC_2_SQRT_PI);
    let factor = n.binary(Binary::Mul, scale, inverse);
    let correction = n.binary(Binary::Mul, error, factor);
    n.binary(Binary::Sub, y, correction)
}
