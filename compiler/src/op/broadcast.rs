//! Broadcasting of operands, as the attribute `auto_broadcast` says it.

use super::InferContext;
use crate::diag::{Diagnostic, codes};
use crate::dim::{Atom, Dim};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::read::Attributes;

/// How the dimensions of two operands are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broadcast {
    /// The dimensions are equal.
    None,
    /// Both are aligned at the last dimension; 1 stretches.
    Numpy,
    /// The second operand is aligned at dimension `axis` of the first one (-1: at the last); 1 stretches.
    Pdpd(i64),
}

impl Broadcast {
    /// Reads `auto_broadcast` (default `numpy`) and, for `pdpd`, its axis (default 0).
    ///
    /// # Errors
    /// A value that is none of `none`, `explicit`, `numpy`, `pdpd`.
    pub fn parse(attributes: &Attributes) -> Result<Self, Diagnostic> {
        // The default of files: OpenVINO reads them so, while the specification says -1.
        let axis = attributes.int_or("auto_broadcast.auto_broadcast_axis", 0)?;
        let modes = [
            ("numpy", Broadcast::Numpy),
            ("none", Broadcast::None),
            ("explicit", Broadcast::None),
            ("pdpd", Broadcast::Pdpd(axis)),
        ];
        attributes.choice_or("auto_broadcast", &modes, Broadcast::Numpy)
    }

    /// Dimensions of the result.
    ///
    /// # Errors
    /// Dimensions that do not match.
    pub fn dims(self, a: &[Dim], b: &[Dim], context: &mut InferContext) -> Result<Vec<Dim>, Diagnostic> {
        let rank = a.len().max(b.len());
        let stretched = |dims: &[Dim], offset: usize, i: usize| -> Dim {
            i.checked_sub(offset).and_then(|i| dims.get(i)).cloned().unwrap_or(Dim::constant(1))
        };
        let offset_b = match self {
            Broadcast::None if a.len() != b.len() => return Err(mismatch(a, b)),
            Broadcast::Pdpd(axis) if b.len() > a.len() || axis > (a.len() - b.len()) as i64 => {
                return Err(mismatch(a, b));
            }
            Broadcast::Pdpd(axis) if axis >= 0 => axis as usize,
            _ => rank - b.len(),
        };
        let mut dims = Vec::with_capacity(rank);
        for i in 0..rank {
            let (x, y) = (stretched(a, rank - a.len(), i), stretched(b, offset_b, i));
            let dim = match self {
                Broadcast::Numpy if x.is(1) => y,
                Broadcast::Numpy | Broadcast::Pdpd(_) if y.is(1) => x,
                Broadcast::Numpy if may_stretch(&x) || may_stretch(&y) => {
                    stretched_to_both(&x, &y, context).ok_or_else(|| mismatch(a, b))?
                }
                _ if context.require_equal(&x, &y) => {
                    if x.as_const().is_some() {
                        x
                    } else {
                        y
                    }
                }
                _ => return Err(mismatch(a, b)),
            };
            dims.push(dim);
        }
        Ok(dims)
    }

    /// Index into an operand with dimensions `dims` for element `index` of the result.
    pub fn index(self, dims: &[Dim], index: &[Dim]) -> Vec<Dim> {
        let offset = match self {
            Broadcast::Pdpd(axis) if axis >= 0 && dims.len() < index.len() => axis as usize,
            _ => index.len().saturating_sub(dims.len()),
        };
        dims.iter().zip(index.iter().skip(offset)).map(|(dim, i)| along(dim, i)).collect()
    }
}

/// Index along a dimension of an operand for index `i` of the result.
pub fn along(dim: &Dim, i: &Dim) -> Dim {
    match dim {
        _ if dim.is(1) => Dim::constant(0),
        _ if may_stretch(dim) => i.minimum(&(dim.clone() - 1)),
        _ => i.clone(),
    }
}

/// Whether only the run itself tells if a dimension is 1 and has to be stretched. Sizes of inputs are what they seem: they
/// are compared with other dimensions and never stretched, so that loops over them stay simple.
pub fn may_stretch(dim: &Dim) -> bool {
    let mut found = false;
    dim.for_each_atom(&mut |atom| found |= matches!(atom, Atom::Variable(size) if size.shared.is_some()));
    let range = dim.range();
    found && range.min <= 1 && range.max >= 1
}

/// The dimension to which two are stretched, at least one of which may be 1. That the others are equal is checked when
/// the model runs.
fn stretched_to_both(a: &Dim, b: &Dim, context: &mut InferContext) -> Option<Dim> {
    if a == b {
        return Some(a.clone());
    }
    let fixed = |dim: &Dim| dim.range().min > 1 || dim.range().max < 1;
    let both = match (fixed(a), fixed(b)) {
        (true, _) => a.clone(),
        (_, true) => b.clone(),
        _ => a.maximum(b),
    };
    (stretches(a, &both, context) && stretches(b, &both, context)).then_some(both)
}

/// Demands that `dim` is `to`, or 1 where only the run tells: `false` where it can be neither.
pub fn stretches(dim: &Dim, to: &Dim, context: &mut InferContext) -> bool {
    if dim.is(1) {
        return true;
    }
    if !may_stretch(dim) {
        return context.require_equal(dim, to);
    }
    // (dim - 1) * (dim - to) = 0, without negative terms.
    let square = dim.clone() * dim + to;
    context.require_equal(&square, &(dim.clone() * &(to.clone() + 1)))
}

/// Element type and dimensions of a function of two operands of one type.
///
/// # Errors
/// Operands of different types, or dimensions that do not match.
pub fn infer(
    broadcast: Broadcast,
    inputs: &[Fact],
    context: &mut InferContext,
) -> Result<(ElementType, Vec<Dim>), Diagnostic> {
    let [a, b] = inputs else { return Err(Diagnostic::error(&codes::INTERNAL, "a binary operation has two operands")) };
    if a.element != b.element {
        return Err(Diagnostic::error(
            &codes::TYPE,
            format!("operands have different element types, {} and {}", a.element, b.element),
        )
        .help("insert a Convert layer: operands are never converted silently"));
    }
    Ok((a.element, broadcast.dims(&a.dims, &b.dims, context)?))
}

/// Adds leading zeros to an index into an operand with dimensions `dims` that has more dimensions than the result, all of
/// them 1 ([`stretches_to`] allows that).
pub fn padded(index: Vec<Dim>, dims: &[Dim]) -> Vec<Dim> {
    let mut full = vec![Dim::constant(0); dims.len().saturating_sub(index.len())];
    full.extend(index);
    full
}

/// Demands that `dims` can be stretched to `to` without changing it; `what` names the operand.
///
/// # Errors
/// Dimensions that do not match, or that are larger.
pub fn stretches_to(
    dims: &[Dim],
    to: &[Dim],
    broadcast: Broadcast,
    what: &str,
    context: &mut InferContext,
) -> Result<(), Diagnostic> {
    let extra = dims.len().saturating_sub(to.len());
    let (ones, rest) = dims.split_at(extra);
    let result = broadcast.dims(to, rest, context)?;
    match ones.iter().all(|dim| dim.is(1)) && result == to {
        true => Ok(()),
        false => Err(Diagnostic::error(&codes::SHAPE, format!("{what} is larger than operand 0, to which it belongs"))),
    }
}

fn mismatch(a: &[Dim], b: &[Dim]) -> Diagnostic {
    let text = |dims: &[Dim]| dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Diagnostic::error(&codes::SHAPE, format!("shapes [{}] and [{}] cannot be broadcast together", text(a), text(b)))
}
