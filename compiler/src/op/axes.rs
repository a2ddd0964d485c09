//! Axes given as attributes or constant operands: range checks and negative counting.

use crate::diag::{Diagnostic, codes};
use crate::fact::Fact;

/// The axis `value` of a tensor of rank `rank`; negative values count from the end.
///
/// # Errors
/// An axis outside `-rank..rank`.
pub fn normalize(value: i64, rank: usize) -> Result<usize, Diagnostic> {
    let count = i64::try_from(rank).unwrap_or(i64::MAX);
    let axis = if value < 0 { value.checked_add(count) } else { Some(value) };
    match axis.filter(|axis| (0..count).contains(axis)).and_then(|axis| usize::try_from(axis).ok()) {
        Some(axis) => Ok(axis),
        None => {
            Err(Diagnostic::error(&codes::SHAPE, format!("axis {value} does not exist in a tensor of rank {rank}")))
        }
    }
}

/// The axes that operand `what` (a constant scalar or vector) names, ascending and without repetition.
///
/// # Errors
/// An operand that is not constant or has more than one dimension, or an axis that does not exist.
pub fn constant(fact: &Fact, what: &str, rank: usize) -> Result<Vec<usize>, Diagnostic> {
    if fact.rank() > 1 {
        let message = format!("{what} has rank {}, not 0 or 1", fact.rank());
        return Err(Diagnostic::error(&codes::SHAPE, message));
    }
    let mut axes = Vec::new();
    for value in integers(fact, what)? {
        axes.push(normalize(value, rank)?);
    }
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

/// The only element of a constant integer operand.
///
/// # Errors
/// An operand that is not constant, or has several elements.
pub fn scalar(fact: &Fact, what: &str) -> Result<i64, Diagnostic> {
    match integers(fact, what)?.as_slice() {
        [value] => Ok(*value),
        values => Err(Diagnostic::error(&codes::SHAPE, format!("{what} has {} elements instead of one", values.len()))),
    }
}

/// All elements of a constant integer operand.
///
/// # Errors
/// An operand that is not constant, or not of an integer type.
pub fn integers(fact: &Fact, what: &str) -> Result<Vec<i64>, Diagnostic> {
    if !fact.element.is_integer() {
        let message = format!("{what} has element type {}, not an integer type", fact.element);
        return Err(Diagnostic::error(&codes::TYPE, message));
    }
    fact.as_i64s().ok_or_else(|| {
        Diagnostic::error(&codes::UNSUPPORTED, format!("{what} must be a constant"))
            .help("its value decides the shape of the program, which is made when the model is compiled")
    })
}
