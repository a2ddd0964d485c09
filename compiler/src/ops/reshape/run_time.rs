//! Reshape, Squeeze and Unsqueeze where the second operand is data: nests compute the dimensions of the result.
//!
//! These share the number of elements of the data as their capacity, so the result needs no more memory than the data;
//! that the numbers of elements are equal is checked when the model runs.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::InferContext;
use crate::op::found;
use crate::op::open_axes::OpenAxes;
use crate::op::operands::{operand, require_equal, unflatten};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node};

/// Largest product of the dimensions of an empty tensor that are not zero.
const EMPTY: i64 = 1 << 16;

/// Whether the second operand is data.
pub(super) fn is_open(inputs: &[Fact]) -> bool {
    inputs.get(1).is_some_and(|fact| fact.as_sizes().is_none() && fact.element.is_integer())
}

/// Number of elements of the second operand, which is `what`.
pub(super) fn listed(inputs: &[Fact], what: &str) -> Result<usize, Diagnostic> {
    found::listed(operand(inputs, 1)?, what)
}

/// A result with `rank` dimensions that the operation finds.
pub(super) fn infer(data: &Fact, rank: usize, context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
    let elements = product(&data.dims);
    let most = match elements.upper_bound() {
        // The other dimensions of what has no elements say nothing about memory.
        0 => EMPTY,
        most => most,
    };
    let dims = context.found("reshaped", &vec![most; rank], most);
    require_equal(context, &elements, &product(&dims), "the numbers of elements before and after")?;
    Ok(vec![Fact::new(data.element, dims)])
}

/// Finds the dimensions that a Reshape has.
pub(super) fn reshape(builder: &mut Builder, special_zero: bool) -> Result<(), Diagnostic> {
    let (x, target, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
    let (from, listed, rank) = (builder.dims(x), builder.dims(target), builder.dims(out).len());
    // The target with copied dimensions in place of zeros, and with -1.
    let wanted = builder.temporary(ElementType::I64, vec![Dim::from(rank)]);
    for i in 0..rank {
        let mut n = builder.nest(&[]);
        let size = n.load(target, &unflatten(&Dim::from(i), &listed))?;
        let mut size = n.cast(ElementType::I64, size);
        if special_zero && let Some(copied) = from.get(i) {
            let (zero, copied) = (n.constant(Const::I64(0)), n.index(copied));
            let copy = n.binary(Binary::Eq, size, zero);
            size = n.select(copy, copied, size);
        }
        n.store(wanted, &[Dim::from(i)], size);
    }
    let sizes = (0..rank).map(|axis| builder.found(out, axis)).collect::<Result<_, _>>()?;
    builder.find_sizes(sizes, |n, i| {
        let (open, one) = (n.constant(Const::I64(-1)), n.constant(Const::I64(1)));
        let mut given = one;
        for other in 0..rank {
            let size = n.load(wanted, &[Dim::from(other)])?;
            let left = n.binary(Binary::Eq, size, open);
            let size = n.select(left, one, size);
            given = n.binary(Binary::Mul, given, size);
        }
        let (size, elements) = (n.load(wanted, &[Dim::from(i)])?, n.index(&product(&from)));
        let (left, rest) = (n.binary(Binary::Eq, size, open), n.binary(Binary::FloorDiv, elements, given));
        Ok(n.select(left, rest, size))
    })
}

/// Finds the dimensions that a Squeeze leaves.
pub(super) fn squeeze(builder: &mut Builder) -> Result<(), Diagnostic> {
    let (x, out) = (builder.input(0)?, builder.output(0)?);
    let (dims, list) = (builder.dims(x), builder.input(1)?);
    OpenAxes::read(builder, list, dims.len())?.find_left(builder, &dims, out)
}

/// Finds the dimensions between which an Unsqueeze inserts others.
pub(super) fn unsqueeze(builder: &mut Builder) -> Result<(), Diagnostic> {
    let (x, out) = (builder.input(0)?, builder.output(0)?);
    let (dims, list, rank) = (builder.dims(x), builder.input(1)?, builder.dims(out).len());
    let inserted = OpenAxes::read(builder, list, rank)?;
    let sizes = (0..rank).map(|axis| builder.found(out, axis)).collect::<Result<_, _>>()?;
    inserted.find_sizes(builder, sizes, |n, i| {
        let (new, place, one) = (inserted.names(n, i)?, inserted.before(n, i, false)?, n.constant(Const::I64(1)));
        let size = element_of(n, &dims, place);
        Ok(n.select(new, one, size))
    })
}

/// Entry `place` of a list of sizes; 1 if there is none.
fn element_of(n: &mut NestBuilder, list: &[Dim], place: Node) -> Node {
    let mut found = n.constant(Const::I64(1));
    for (i, size) in list.iter().enumerate() {
        let (number, size) = (n.constant(Const::I64(i as i64)), n.index(size));
        let here = n.binary(Binary::Eq, place, number);
        found = n.select(here, size, found);
    }
    found
}
