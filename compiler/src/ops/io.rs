//! Layers that become values of the graph instead of operations: inputs, outputs and constants.
//!
//! The build stage makes them. Their rows are here so that lists of operations are complete.

use crate::diag::{Diagnostic, codes};
use crate::op::{OpDef, Support, one_output};
use std::ops::RangeInclusive;

/// The layers of this family.
pub const OPS: &[OpDef] =
    &[row("Constant", 0..=0, one_output), row("Parameter", 0..=0, one_output), row("Result", 1..=1, |_| 0)];

const fn row(name: &'static str, inputs: RangeInclusive<usize>, outputs: fn(&crate::read::Layer) -> usize) -> OpDef {
    OpDef {
        name,
        version: 1,
        opsets: 1..=17,
        inputs,
        outputs,
        parse: |_| Err(Diagnostic::error(&codes::INTERNAL, "a value of the graph was taken for an operation")),
        ignorable: &[],
        support: Support::Full,
    }
}
