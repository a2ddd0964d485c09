//! Index expressions compiled for fast evaluation: a sum over axes where they are linear, else the expression itself.

use crate::dim::{Atom, Dim};

/// An index expression under fixed run-time variables.
pub enum Address {
    /// `constant + sum(factor * axis)`.
    Linear { constant: i64, factors: Vec<(usize, i64)> },
    /// Anything else: divisions, products of axes, loaded values.
    General(Dim),
}

impl Address {
    /// Compiles an expression; `variable` gives the run-time variables.
    pub fn new(dim: &Dim, variable: &dyn Fn(&Atom) -> i64) -> Address {
        let fixed = dim.substitute(&|atom| match atom {
            Atom::Variable(_) => Some(Dim::constant(variable(atom))),
            _ => None,
        });
        let (terms, constant) = fixed.parts();
        let mut factors = Vec::with_capacity(terms.len());
        for (product, factor) in terms {
            match product.as_slice() {
                [Atom::Axis(axis)] => factors.push((*axis as usize, *factor)),
                _ => return Address::General(fixed.clone()),
            }
        }
        Address::Linear { constant, factors }
    }

    /// Factor of an axis, where the expression is linear.
    pub fn stride(&self, axis: usize) -> Option<i64> {
        match self {
            Address::Linear { factors, .. } => Some(factors.iter().find(|(a, _)| *a == axis).map_or(0, |(_, f)| *f)),
            Address::General(_) => None,
        }
    }

    /// Value at a point; `scalar` gives the loaded values.
    pub fn at(&self, point: &[i64], scalar: &dyn Fn(u32) -> i64) -> i64 {
        let axis = |i: usize| point.get(i).copied().unwrap_or(0);
        match self {
            Address::Linear { constant, factors } => factors.iter().fold(*constant, |sum, (a, f)| sum + f * axis(*a)),
            Address::General(dim) => dim.evaluate(&|atom| match atom {
                Atom::Axis(a) => axis(*a as usize),
                Atom::Scalar(node) => scalar(*node),
                _ => 0,
            }),
        }
    }
}
