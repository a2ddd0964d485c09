//! Activation functions that the runtime knows, by form.

use crate::program::nest::{Binary, Const, Nest, Node, Scalar, Unary};
use core::f32::consts::FRAC_1_SQRT_2;
use include_ir_runtime::__private::v1::Activation;

/// The function of node `x` that the nest stores, and how many nodes it takes.
pub(super) fn find(nest: &Nest, x: Node) -> Option<(Activation, usize)> {
    let forms = Forms { nest, x };
    let result = nest.result;
    if forms.sigmoid(result) {
        return Some((Activation::Sigmoid, 1));
    }
    if forms.hard_sigmoid(result) {
        return Some((Activation::HardSigmoid, 4));
    }
    if forms.gelu_erf(result) {
        return Some((Activation::GeluErf, 5));
    }
    let gate = forms.gate(result)?;
    if forms.sigmoid(gate) {
        return Some((Activation::Swish, 2));
    }
    if forms.gelu_tanh_gate(gate) {
        return Some((Activation::GeluTanh, 7));
    }
    forms.hard_sigmoid(gate).then_some((Activation::HardSwish, 5))
}

struct Forms<'a> {
    nest: &'a Nest,
    x: Node,
}

impl Forms<'_> {
    /// The other factor of a product with x.
    fn gate(&self, node: Node) -> Option<Node> {
        self.other(node, Binary::Mul, |factor| factor == self.x)
    }

    /// `sigmoid(x)`
    fn sigmoid(&self, node: Node) -> bool {
        self.nest.nodes.get(node as usize) == Some(&Scalar::Unary(Unary::Sigmoid, self.x))
    }

    /// `min(max(x + 3, 0), 6) / 6`
    fn hard_sigmoid(&self, node: Node) -> bool {
        let Some(Scalar::Binary(Binary::Div, clipped, six)) = self.nest.nodes.get(node as usize) else { return false };
        let raised = self.other(*clipped, Binary::Min, |limit| self.is(limit, 6.0));
        let shifted = raised.and_then(|raised| self.other(raised, Binary::Max, |limit| self.is(limit, 0.0)));
        let x = shifted.and_then(|shifted| self.other(shifted, Binary::Add, |three| self.is(three, 3.0)));
        self.is(*six, 6.0) && x == Some(self.x)
    }

    /// `(0.5 * x) * (1 + erf(x * sqrt(1/2)))`
    fn gelu_erf(&self, node: Node) -> bool {
        let half = |node| self.other(node, Binary::Mul, |half| self.is(half, 0.5)) == Some(self.x);
        let erf = |node| match self.nest.nodes.get(node as usize) {
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
        let Some(Scalar::Unary(Unary::Sigmoid, argument)) = self.nest.nodes.get(node as usize) else { return false };
        let sum = self.other(*argument, Binary::Mul, scaled);
        let bent = sum.and_then(|sum| self.other(sum, Binary::Add, |one| self.is(one, 1.0)));
        let square = bent.and_then(|bent| self.other(bent, Binary::Mul, |cubic| self.is(cubic, 0.044_715)));
        square.is_some_and(|square| {
            self.nest.nodes.get(square as usize) == Some(&Scalar::Binary(Binary::Mul, self.x, self.x))
        })
    }

    /// The operand of a commutative function whose other operand is as wanted.
    fn other(&self, node: Node, function: Binary, wanted: impl Fn(Node) -> bool) -> Option<Node> {
        match self.nest.nodes.get(node as usize)? {
            Scalar::Binary(f, a, b) if *f == function && wanted(*b) => Some(*a),
            Scalar::Binary(f, a, b) if *f == function && wanted(*a) => Some(*b),
            _ => None,
        }
    }

    fn is(&self, node: Node, value: f32) -> bool {
        self.nest.nodes.get(node as usize) == Some(&Scalar::Const(Const::F32(value)))
    }
}
