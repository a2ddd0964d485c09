//! Activation functions: pointwise, some with parameters as operands.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::broadcast::{self, Broadcast, padded};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, Unary};
use crate::read::Attributes;
use std::f64::consts;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Clamp", 1, 1..=17, 1..=1, |a| {
        let (low, high) = (a.float("min")?, a.float("max")?);
        if low.is_nan() || high.is_nan() || low > high {
            return Err(a.invalid("max", "a number that is at least `min`"));
        }
        Ok(Rc::new(Clamp { low, high }))
    }),
    row("Elu", 1, 1..=17, 1..=1, |a| function(Function::Elu(a.float("alpha")?))),
    row("Gelu", 2, 2..=6, 1..=1, |_| function(Function::GeluErf)),
    row("Gelu", 7, 7..=17, 1..=1, |a| {
        let modes = [("erf", Function::GeluErf), ("tanh", Function::GeluTanh)];
        function(a.choice_or("approximation_mode", &modes, Function::GeluErf)?)
    }),
    row("HSigmoid", 5, 5..=17, 1..=1, |_| function(Function::HSigmoid)),
    row("HSwish", 4, 4..=17, 1..=1, |_| function(Function::HSwish)),
    row("HardSigmoid", 1, 1..=17, 3..=3, |_| function(Function::HardSigmoid)),
    row("Mish", 4, 4..=17, 1..=1, |_| function(Function::Mish)),
    row("PRelu", 1, 1..=17, 2..=2, |_| Ok(Rc::new(PRelu))),
    row("Relu", 1, 1..=17, 1..=1, |_| Ok(Rc::new(Relu))),
    row("Selu", 1, 1..=17, 3..=3, |_| function(Function::Selu)),
    row("SoftPlus", 4, 4..=17, 1..=1, |_| function(Function::SoftPlus)),
    row("SoftSign", 9, 9..=17, 1..=1, |_| function(Function::SoftSign)),
    row("Swish", 4, 4..=17, 1..=2, |_| function(Function::Swish)),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: RangeInclusive<usize>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

/// `out[i] = max(x[i], 0)` for every numeric type; NaN stays NaN.
#[derive(Debug)]
struct Relu;

impl Op for Relu {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::number(x.element, "the operand of Relu")?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            let zero = n.constant_like(x, 0.0);
            Ok(n.binary(Binary::Max, x, zero))
        })
    }
}

/// `out[i] = min(max(x[i], low), high)` for every numeric type; NaN stays NaN. Integers stay within the integers that
/// lie between the bounds.
#[derive(Debug)]
struct Clamp {
    low: f64,
    high: f64,
}

impl Op for Clamp {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::number(x.element, "the operand of Clamp")?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let float = builder.scalar_type(x)?.is_float();
        let (low, high) = if float { (self.low, self.high) } else { (self.low.ceil(), self.high.floor()) };
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            let (low, high) = (n.constant_like(x, low), n.constant_like(x, high));
            let raised = n.binary(Binary::Max, x, low);
            Ok(n.binary(Binary::Min, raised, high))
        })
    }
}

/// `out[i] = x[i] < 0 ? x[i] * slope : x[i]`. A one-dimensional slope as long as dimension 1 belongs to the channels;
/// any other one is broadcast to `x` from the last dimension.
#[derive(Debug)]
struct PRelu;

impl PRelu {
    fn broadcast(x: &[Dim], slope: &[Dim]) -> Broadcast {
        match (x, slope) {
            ([_, channels, ..], [count]) if channels == count => Broadcast::Pdpd(1),
            _ => Broadcast::Numpy,
        }
    }
}

impl Op for PRelu {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (x, slope) = (typing::operand(inputs, 0)?, typing::operand(inputs, 1)?);
        typing::equal(inputs)?;
        typing::number(x.element, "the operand of PRelu")?;
        broadcast::stretches_to(&slope.dims, &x.dims, PRelu::broadcast(&x.dims, &slope.dims), "the slope", context)?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, slope, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let slopes = builder.dims(slope);
        let broadcast = PRelu::broadcast(&builder.dims(x), &slopes);
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            let slope = n.load(slope, &padded(broadcast.index(&slopes, i), &slopes))?;
            let zero = n.constant_like(x, 0.0);
            let negative = n.binary(Binary::Lt, x, zero);
            let scaled = n.binary(Binary::Mul, x, slope);
            Ok(n.select(negative, scaled, x))
        })
    }
}

/// A function of a float and, for some, of scalar operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    /// `x < 0 ? alpha * (exp(x) - 1) : x`.
    Elu(f64),
    /// `x * P(X <= x)` for a standard normal X.
    GeluErf,
    /// Gelu with the customary approximation by a hyperbolic tangent.
    GeluTanh,
    /// `min(max(x + 3, 0), 6) / 6`.
    HSigmoid,
    /// `x * HSigmoid(x)`.
    HSwish,
    /// `min(max(alpha * x + beta, 0), 1)`; operands alpha and beta.
    HardSigmoid,
    /// `x * tanh(SoftPlus(x))`.
    Mish,
    /// `lambda * (x > 0 ? x : alpha * (exp(x) - 1))`; operands alpha and lambda.
    Selu,
    /// `ln(1 + exp(x))`.
    SoftPlus,
    /// `x / (1 + |x|)`.
    SoftSign,
    /// `x * Sigmoid(beta * x)`; operand beta, else 1.
    Swish,
}

/// One of these functions for every element.
#[derive(Debug)]
struct Activation {
    function: Function,
}

fn function(function: Function) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Activation { function }))
}

impl Op for Activation {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::equal(inputs)?;
        typing::float(x.element, "the operand of an activation function")?;
        for (i, parameter) in inputs.iter().enumerate().skip(1) {
            if parameter.dims.iter().any(|dim| !dim.is(1)) {
                let message = format!("operand {i} of an activation function has more than one element");
                return Err(Diagnostic::error(&codes::SHAPE, message));
            }
        }
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let parameters = (1..builder.input_count()).map(|i| builder.input(i)).collect::<Result<Vec<_>, _>>()?;
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            self.function.value(n, x, &parameters)
        })
    }
}

impl Function {
    fn value(self, n: &mut NestBuilder, x: Node, parameters: &[BufferId]) -> Result<Node, Diagnostic> {
        Ok(match self {
            Function::Elu(alpha) => {
                let alpha = n.constant_like(x, alpha);
                exponential_unit(n, x, alpha)
            }
            Function::GeluErf => gelu_erf(n, x),
            Function::GeluTanh => gelu_tanh(n, x),
            Function::HSigmoid => hard_gate(n, x),
            Function::HSwish => {
                let gate = hard_gate(n, x);
                n.binary(Binary::Mul, x, gate)
            }
            Function::HardSigmoid => {
                let (alpha, beta) = (parameter(n, parameters, 0)?, parameter(n, parameters, 1)?);
                let (zero, one) = (n.constant_like(x, 0.0), n.constant_like(x, 1.0));
                let scaled = n.binary(Binary::Mul, alpha, x);
                let line = n.binary(Binary::Add, scaled, beta);
                let raised = n.binary(Binary::Max, line, zero);
                n.binary(Binary::Min, raised, one)
            }
            Function::Mish => mish(n, x),
            Function::Selu => {
                let (alpha, lambda) = (parameter(n, parameters, 0)?, parameter(n, parameters, 1)?);
                let value = exponential_unit(n, x, alpha);
                n.binary(Binary::Mul, lambda, value)
            }
            Function::SoftPlus => n.unary(Unary::SoftPlus, x),
            Function::SoftSign => {
                let (one, size) = (n.constant_like(x, 1.0), n.unary(Unary::Abs, x));
                let divisor = n.binary(Binary::Add, one, size);
                n.binary(Binary::Div, x, divisor)
            }
            Function::Swish => {
                let scaled = match parameters {
                    [] => x,
                    _ => {
                        let beta = parameter(n, parameters, 0)?;
                        n.binary(Binary::Mul, beta, x)
                    }
                };
                let gate = n.unary(Unary::Sigmoid, scaled);
                n.binary(Binary::Mul, x, gate)
            }
        })
    }
}

/// The only element of a parameter.
fn parameter(n: &mut NestBuilder, parameters: &[BufferId], i: usize) -> Result<Node, Diagnostic> {
    let missing = || Diagnostic::error(&codes::INTERNAL, "an activation function lacks a parameter");
    let buffer = *parameters.get(i).ok_or_else(missing)?;
    let origin = vec![Dim::constant(0); n.dims(buffer).len()];
    n.load(buffer, &origin)
}

fn exponential_unit(n: &mut NestBuilder, x: Node, alpha: Node) -> Node {
    let zero = n.constant_like(x, 0.0);
    let negative = n.binary(Binary::Lt, x, zero);
    let power = n.unary(Unary::ExpM1, x);
    let scaled = n.binary(Binary::Mul, alpha, power);
    n.select(negative, scaled, x)
}

fn gelu_erf(n: &mut NestBuilder, x: Node) -> Node {
    let (half, one, scale) =
        (n.constant_like(x, 0.5), n.constant_like(x, 1.0), n.constant_like(x, consts::FRAC_1_SQRT_2));
    let scaled = n.binary(Binary::Mul, x, scale);
    let erf = n.unary(Unary::Erf, scaled);
    let sum = n.binary(Binary::Add, one, erf);
    let halved = n.binary(Binary::Mul, half, x);
    n.binary(Binary::Mul, halved, sum)
}

/// `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, by the identity `(1 + tanh(y)) / 2 = Sigmoid(2 y)`, which does
/// not cancel for large negative x.
fn gelu_tanh(n: &mut NestBuilder, x: Node) -> Node {
    let (cubic, one) = (n.constant_like(x, 0.044_715), n.constant_like(x, 1.0));
    let scale = n.constant_like(x, 2.0 * (2.0 / consts::PI).sqrt());
    let square = n.binary(Binary::Mul, x, x);
    let bent = n.binary(Binary::Mul, cubic, square);
    let factor = n.binary(Binary::Add, one, bent);
    let scaled = n.binary(Binary::Mul, scale, x);
    let argument = n.binary(Binary::Mul, scaled, factor);
    let gate = n.unary(Unary::Sigmoid, argument);
    n.binary(Binary::Mul, x, gate)
}

fn hard_gate(n: &mut NestBuilder, x: Node) -> Node {
    let (zero, three, six) = (n.constant_like(x, 0.0), n.constant_like(x, 3.0), n.constant_like(x, 6.0));
    let shifted = n.binary(Binary::Add, x, three);
    let raised = n.binary(Binary::Max, shifted, zero);
    let clipped = n.binary(Binary::Min, raised, six);
    n.binary(Binary::Div, clipped, six)
}

/// With `e = exp(x)`, `tanh(ln(1 + e)) = e (e + 2) / (e (e + 2) + 2)`: no cancellation for small e; where e^2 would
/// overflow the quotient is 1 long since, so x is bounded first.
fn mish(n: &mut NestBuilder, x: Node) -> Node {
    let (two, limit) = (n.constant_like(x, 2.0), n.constant_like(x, 20.0));
    let bounded = n.binary(Binary::Min, x, limit);
    let e = n.unary(Unary::Exp, bounded);
    let sum = n.binary(Binary::Add, e, two);
    let numerator = n.binary(Binary::Mul, e, sum);
    let denominator = n.binary(Binary::Add, numerator, two);
    let gate = n.binary(Binary::Div, numerator, denominator);
    n.binary(Binary::Mul, x, gate)
}
