//! Activation functions that the runtime knows, by form.

use super::literal;
use crate::program::Program;
use crate::program::nest::{Binary, Nest, Node, Scalar, Unary};
use core::f32::consts::FRAC_1_SQRT_2;
use core::ops::RangeInclusive;
use include_ir_runtime::__private::v1::Activation;

/// The function of node `x` that the nest stores, and how many nodes it takes.
pub(super) fn find(program: &Program, nest: &Nest, x: Node) -> Option<(Activation, usize)> {
    let forms = Forms { program, nest, x };
    let result = nest.result;
    if let Some(function) = forms.unary(result) {
        return Some((function, 1));
    }
    if forms.hard_sigmoid(result) {
        return Some((Activation::HardSigmoid, 4));
    }
    if forms.gelu_erf(result) {
        return Some((Activation::GeluErf, 5));
    }
    if let Some(alpha) = forms.elu(result) {
        return Some((Activation::Elu(alpha), 4));
    }
    if let Some(slope) = forms.leaky_relu(result) {
        return Some((Activation::LeakyRelu(slope), 3));
    }
    let gate = forms.gate(result)?;
    if forms.unary(gate) == Some(Activation::Sigmoid) {
        return Some((Activation::Swish, 2));
    }
    if let Some(beta) = forms.scaled_sigmoid(gate) {
        return Some((Activation::ScaledSwish(beta), 3));
    }
    if forms.mish_gate(gate) {
        return Some((Activation::Mish, 7));
    }
    if forms.gelu_tanh_gate(gate) {
        return Some((Activation::GeluTanh, 7));
    }
    forms.hard_sigmoid(gate).then_some((Activation::HardSwish, 5))
}

/// Factors of x in a Swish for which no limit of the kernel overflows.
const BETA: RangeInclusive<f32> = 0.01..=100.0;

struct Forms<'a> {
    program: &'a Program,
    nest: &'a Nest,
    x: Node,
}

impl Forms<'_> {
    /// The other factor of a product with x.
    fn gate(&self, node: Node) -> Option<Node> {
        self.other(node, Binary::Mul, |factor| factor == self.x)
    }

    fn node(&self, node: Node) -> Option<&Scalar> {
        self.nest.nodes.get(node as usize)
    }

    fn literal(&self, node: Node) -> Option<f32> {
        literal(self.program, self.node(node)?)
    }

    /// `sigmoid(x)` or `tanh(x)`
    fn unary(&self, node: Node) -> Option<Activation> {
        match self.node(node)? {
            Scalar::Unary(Unary::Sigmoid, x) if *x == self.x => Some(Activation::Sigmoid),
            Scalar::Unary(Unary::Tanh, x) if *x == self.x => Some(Activation::Tanh),
            _ => None,
        }
    }

    /// `sigmoid(beta * x)`
    fn scaled_sigmoid(&self, node: Node) -> Option<f32> {
        let Scalar::Unary(Unary::Sigmoid, scaled) = self.node(node)? else { return None };
        self.literal(self.other(*scaled, Binary::Mul, |factor| factor == self.x)?).filter(|beta| BETA.contains(beta))
    }

    /// `x < 0 ? alpha * (e^x - 1) : x`
    fn elu(&self, node: Node) -> Option<f32> {
        let power = |node| self.node(node) == Some(&Scalar::Unary(Unary::ExpM1, self.x));
        self.literal(self.other(self.below_zero(node)?, Binary::Mul, power)?).filter(|alpha| alpha.is_finite())
    }

    /// `x < 0 ? slope * x : x`
    fn leaky_relu(&self, node: Node) -> Option<f32> {
        let slope = self.other(self.below_zero(node)?, Binary::Mul, |factor| factor == self.x)?;
        self.literal(slope).filter(|slope| slope.is_finite())
    }

    /// What takes the place of x below zero, if all others stay.
    fn below_zero(&self, node: Node) -> Option<Node> {
        let Scalar::Select(negative, below, above) = self.node(node)? else { return None };
        let Scalar::Binary(Binary::Lt, x, zero) = self.node(*negative)? else { return None };
        ((*x, *above) == (self.x, self.x) && self.is(*zero, 0.0)).then_some(*below)
    }

    /// `n / (n + 2)` where n is `e (e + 2)` and e `exp(min(x, 20))`
    fn mish_gate(&self, node: Node) -> bool {
        let Some(Scalar::Binary(Binary::Div, numerator, denominator)) = self.node(node) else { return false };
        let plus_two = |node| self.other(node, Binary::Add, |two| self.is(two, 2.0));
        let Some(Scalar::Binary(Binary::Mul, a, b)) = self.node(*numerator) else { return false };
        let e = if plus_two(*b) == Some(*a) { *a } else { *b };
        let product = plus_two(*a) == Some(e) || plus_two(*b) == Some(e);
        let Some(Scalar::Unary(Unary::Exp, bounded)) = self.node(e) else { return false };
        let x = self.other(*bounded, Binary::Min, |limit| self.is(limit, 20.0));
        product && plus_two(*denominator) == Some(*numerator) && x == Some(self.x)
    }

    /// `min(max(x + 3, 0), 6) / 6`
    fn hard_sigmoid(&self, node: Node) -> bool {
        let Some(Scalar::Binary(Binary::Div, clipped, six)) = self.node(node) else { return false };
        let raised = self.other(*clipped, Binary::Min, |limit| self.is(limit, 6.0));
        let shifted = raised.and_then(|raised| self.other(raised, Binary::Max, |limit| self.is(limit, 0.0)));
        let x = shifted.and_then(|shifted| self.other(shifted, Binary::Add, |three| self.is(three, 3.0)));
        self.is(*six, 6.0) && x == Some(self.x)
    }

    /// `(0.5 * x) * (1 + erf(x * sqrt(1/2)))`
    fn gelu_erf(&self, node: Node) -> bool {
        let half = |node| self.other(node, Binary::Mul, |half| self.is(half, 0.5)) == Some(self.x);
        let erf = |node| match self.node(node) {
            Some(Scalar::Unary(Unary::Erf, scaled)) => {
                self.other(*scaled, Binary::Mul, |scale| self.is(scale, FRAC_1_SQRT_2)) == Some(self.x)
            }
            _ => false,
        };
        let sum = self.other(node, Binary::Mul, half);
        sum.and_then(|sum| self.other(sum, Binary::Add, |one| self.is(one, 1.0))).is_some_and(erf)
    }

    /// `sigmoid((x * sqrt(8 / pi)) * (1 + 0.044715 * (x * x)))`
    fn gelu_tanh_gate(&self, node: Node) -> bool {
        let scale = (8.0 / core::f64::consts::PI).sqrt() as f32;
        let scaled = |node| self.other(node, Binary::Mul, |factor| self.is(factor, scale)) == Some(self.x);
        let Some(Scalar::Unary(Unary::Sigmoid, argument)) = self.node(node) else { return false };
        let sum = self.other(*argument, Binary::Mul, scaled);
        let bent = sum.and_then(|sum| self.other(sum, Binary::Add, |one| self.is(one, 1.0)));
        let square = bent.and_then(|bent| self.other(bent, Binary::Mul, |cubic| self.is(cubic, 0.044_715)));
        square.is_some_and(|square| self.node(square) == Some(&Scalar::Binary(Binary::Mul, self.x, self.x)))
    }

    /// The operand of a commutative function whose other operand is as wanted.
    fn other(&self, node: Node, function: Binary, wanted: impl Fn(Node) -> bool) -> Option<Node> {
        match self.node(node)? {
            Scalar::Binary(f, a, b) if *f == function && wanted(*b) => Some(*a),
            Scalar::Binary(f, a, b) if *f == function && wanted(*a) => Some(*b),
            _ => None,
        }
    }

    fn is(&self, node: Node, value: f32) -> bool {
        self.literal(node) == Some(value)
    }
}
