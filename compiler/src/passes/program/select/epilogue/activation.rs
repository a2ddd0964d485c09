//! Activation functions that the runtime knows, by form.

use crate::program::nest::{Binary, Const, Nest, Node, Scalar, Unary};
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
    let gate = forms.gate(result)?;
    if forms.sigmoid(gate) {
        return Some((Activation::Swish, 2));
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
