//! Checks of operand types that many operations share.

use crate::diag::{Diagnostic, codes};
use crate::element::ElementType;
use crate::fact::Fact;

/// Operand `i`.
///
/// # Errors
/// An internal error where it is missing: the table's arity was checked before.
pub fn operand(inputs: &[Fact], i: usize) -> Result<&Fact, Diagnostic> {
    inputs.get(i).ok_or_else(|| Diagnostic::error(&codes::INTERNAL, format!("operand {i} is missing")))
}

/// Demands a floating-point type.
///
/// # Errors
/// Any other type.
pub fn float(element: ElementType, what: &str) -> Result<(), Diagnostic> {
    demand(element, element.is_float(), what, "a floating-point type")
}

/// Demands a floating-point or integer type.
///
/// # Errors
/// Booleans and strings.
pub fn number(element: ElementType, what: &str) -> Result<(), Diagnostic> {
    demand(element, element.is_float() || element.is_integer(), what, "a numeric type")
}

/// Demands an integer type.
///
/// # Errors
/// Any other type.
pub fn integer(element: ElementType, what: &str) -> Result<(), Diagnostic> {
    demand(element, element.is_integer(), what, "an integer type")
}

/// Demands booleans.
///
/// # Errors
/// Any other type.
pub fn boolean(element: ElementType, what: &str) -> Result<(), Diagnostic> {
    demand(element, element == ElementType::Boolean, what, "boolean")
}

/// Demands equal types of all operands.
///
/// # Errors
/// The first operand that differs from operand 0.
pub fn equal(inputs: &[Fact]) -> Result<(), Diagnostic> {
    let Some(first) = inputs.first() else { return Ok(()) };
    match inputs.iter().enumerate().find(|(_, fact)| fact.element != first.element) {
        None => Ok(()),
        Some((i, fact)) => Err(Diagnostic::error(
            &codes::TYPE,
            format!("operand {i} has element type {}, operand 0 has {}", fact.element, first.element),
        )
        .help("insert a Convert layer: operands are never converted silently")),
    }
}

fn demand(element: ElementType, holds: bool, what: &str, expected: &str) -> Result<(), Diagnostic> {
    match holds {
        true => Ok(()),
        false => Err(Diagnostic::error(&codes::TYPE, format!("{what} has element type {element}, not {expected}"))),
    }
}
