//! Operations with bodies: If, Loop, TensorIterator.
//!
//! A loop that runs no iteration gives what its carried values start with, empty concatenations, and zeros for results
//! of the last iteration that nothing carries: there is no last iteration.

mod branch;
mod repeat;

use crate::diag::{Diagnostic, codes};
use crate::fact::Fact;
use crate::op::{OpDef, Support};
use crate::read::{Attributes, Layer};
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("If", 8, 8..=17, 1, branch::parse),
    row("Loop", 5, 5..=17, 2, repeat::parse_loop),
    row("TensorIterator", 1, 1..=17, 1, repeat::parse_iterator),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    operands: usize,
    parse: fn(&Attributes) -> Result<Rc<dyn crate::op::Op>, Diagnostic>,
) -> OpDef {
    let inputs = operands..=usize::MAX;
    OpDef { name, version, opsets, inputs, outputs, parse, ignorable: &[], support: Support::Full }
}

fn outputs(layer: &Layer) -> usize {
    layer.bodies.first().map_or(0, |body| body.outputs.iter().filter(|output| output.external.is_some()).count())
}

/// The only element of a condition, where it is known.
fn condition(fact: &Fact, what: &str) -> Result<Option<bool>, Diagnostic> {
    if fact.element != crate::element::ElementType::Boolean || !fact.dims.iter().all(|dim| dim.is(1)) {
        let message = format!("{what} must be one boolean, not {fact}");
        return Err(Diagnostic::error(&codes::TYPE, message));
    }
    Ok(fact.as_i64s().and_then(|values| values.first().map(|value| *value != 0)))
}
