//! Operands whose elements an operation must know at compile time, axes, and the omission of loops that run once.

use crate::diag::{Diagnostic, codes, quote};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::InferContext;

/// What to do about an operand that must be known when the model is compiled.
pub const NOT_KNOWN: &str = "make it a constant, compute it from shapes (ShapeOf) and constants only, or fix the input that \
    it comes from: --value INPUT=NUMBER,..";

/// Operand `i`.
///
/// # Errors
/// An internal error where it is missing: the table's arity was checked before.
pub fn operand(inputs: &[Fact], i: usize) -> Result<&Fact, Diagnostic> {
    inputs.get(i).ok_or_else(|| Diagnostic::internal(format!("operand {i} is missing")))
}

/// Elements of operand `i` (`what` names it) as size expressions.
///
/// # Errors
/// Elements that are not known before the model runs.
pub fn sizes(inputs: &[Fact], i: usize, what: &str) -> Result<Vec<Dim>, Diagnostic> {
    let fact = operand(inputs, i)?;
    if !fact.element.is_integer() {
        return Err(Diagnostic::error(&codes::TYPE, format!("{what} must be integers, not {}", fact.element)));
    }
    fact.as_sizes().ok_or_else(|| {
        Diagnostic::error(&codes::UNSUPPORTED, format!("{what} must be known when the model is compiled"))
            .help(NOT_KNOWN)
    })
}

/// Elements of operand `i` as integers.
///
/// # Errors
/// Elements that are not constants.
pub fn integers(inputs: &[Fact], i: usize, what: &str) -> Result<Vec<i64>, Diagnostic> {
    let constants = sizes(inputs, i, what)?.iter().map(Dim::as_const).collect::<Option<Vec<i64>>>();
    constants.ok_or_else(|| {
        Diagnostic::error(&codes::UNSUPPORTED, format!("{what} must be a constant, not a run-time size"))
    })
}

/// The only element of operand `i`.
///
/// # Errors
/// Operands that are not one known integer.
pub fn integer(inputs: &[Fact], i: usize, what: &str) -> Result<i64, Diagnostic> {
    match integers(inputs, i, what)?.as_slice() {
        [one] => Ok(*one),
        other => Err(Diagnostic::error(&codes::SHAPE, format!("{what} must be one number, not {}", other.len()))),
    }
}

/// `axis`, counted from the end where it is negative.
///
/// # Errors
/// An axis that a tensor of this rank does not have.
pub fn axis(axis: i64, rank: usize) -> Result<usize, Diagnostic> {
    let from_start = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    from_start.and_then(|a| usize::try_from(a).ok()).filter(|a| *a < rank).ok_or_else(|| {
        Diagnostic::error(&codes::VALUE, format!("axis {axis} does not exist: the tensor has {rank} dimensions"))
    })
}

/// Axes that are all different.
///
/// # Errors
/// Axes that do not exist or occur twice.
pub fn axes(list: &[i64], rank: usize) -> Result<Vec<usize>, Diagnostic> {
    let mut found = Vec::with_capacity(list.len());
    for one in list {
        let one = axis(*one, rank)?;
        if found.contains(&one) {
            return Err(Diagnostic::error(&codes::VALUE, format!("axis {one} occurs twice")));
        }
        found.push(one);
    }
    Ok(found)
}

/// Demands that `a` and `b` (described by `what`) are equal sizes.
///
/// # Errors
/// Sizes that cannot be equal.
pub fn require_equal(context: &mut InferContext, a: &Dim, b: &Dim, what: &str) -> Result<(), Diagnostic> {
    if context.require_equal(a, b) {
        return Ok(());
    }
    Err(Diagnostic::error(&codes::SHAPE, format!("{what} must be equal: {a} and {b}")))
}

/// Demands that operands `a` and `b` have one element type, which it returns.
///
/// # Errors
/// Different element types.
pub fn same_element(inputs: &[Fact], a: usize, b: usize) -> Result<ElementType, Diagnostic> {
    let (a, b) = (operand(inputs, a)?.element, operand(inputs, b)?.element);
    if a == b {
        return Ok(a);
    }
    Err(Diagnostic::error(&codes::TYPE, format!("operands have different element types, {a} and {b}"))
        .help("insert a Convert layer: operands are never converted silently"))
}

/// An error about shapes.
pub fn shape_error(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(&codes::SHAPE, message)
}

/// Dimensions as text, for messages.
pub fn text(dims: &[Dim]) -> String {
    let list: Vec<String> = dims.iter().map(ToString::to_string).collect();
    quote(&format!("[{}]", list.join(", ")))
}

/// Row-major position of `index` in a tensor with dimensions `dims`.
pub fn flatten(index: &[Dim], dims: &[Dim]) -> Dim {
    let flat = |sum: Dim, (i, dim): (&Dim, &Dim)| sum * dim + i;
    index.iter().zip(dims).fold(Dim::constant(0), flat)
}

/// Index of position `flat` in a tensor with dimensions `dims`.
pub fn unflatten(flat: &Dim, dims: &[Dim]) -> Vec<Dim> {
    (0..dims.len())
        .map(|axis| {
            let inner = flat.floor_div(&product(dims.get(axis + 1..).unwrap_or(&[])));
            if axis == 0 { inner } else { inner.modulo(dims.get(axis).unwrap_or(&Dim::constant(1))) }
        })
        .collect()
}

/// The map axes of a nest. Extents of one make no axis: their index is the constant zero.
#[derive(Debug, Default)]
pub struct MapAxes {
    /// Extents of the axes, slowest first: what [`crate::program::builder::Builder::nest`] takes.
    pub extents: Vec<Dim>,
}

impl MapAxes {
    /// The index along one more axis.
    pub fn axis(&mut self, extent: &Dim) -> Dim {
        if extent.is(1) {
            return Dim::constant(0);
        }
        self.extents.push(extent.clone());
        Dim::axis(self.extents.len() - 1)
    }

    /// The indices along some more axes.
    pub fn axes(&mut self, extents: &[Dim]) -> Vec<Dim> {
        extents.iter().map(|extent| self.axis(extent)).collect()
    }
}
