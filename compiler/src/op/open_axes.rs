//! Axes that are known only when the model runs.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn};

/// For every dimension of a tensor of this rank, whether one of the elements of `axes` names it.
///
/// # Errors
/// Strings.
pub fn flags(builder: &mut Builder, axes: BufferId, rank: usize) -> Result<BufferId, Diagnostic> {
    let flags = builder.temporary(ElementType::Boolean, vec![Dim::from(rank)]);
    let listed = builder.dims(axes);
    let mut nest = builder.nest(&[Dim::from(rank)]);
    let map = nest.map_axes();
    let at: Vec<Dim> = listed.iter().map(|dim| nest.reduction_axis(dim)).collect();
    let axis = nest.load(axes, &at)?;
    let axis = nest.cast(ElementType::I64, axis);
    let (from_start, from_end) = (nest.index(&Dim::axis(0)), nest.index(&(Dim::axis(0) - rank as i64)));
    let (a, b) = (nest.binary(Binary::Eq, axis, from_start), nest.binary(Binary::Eq, axis, from_end));
    let named = nest.binary(Binary::Or, a, b);
    let named = if listed.is_empty() { named } else { nest.reduce(ReduceFn::Any, named) };
    nest.store(flags, &map, named);
    Ok(flags)
}

/// Entry `d` of [`flags`].
///
/// # Errors
/// None: flags are no strings.
pub fn flag(n: &mut NestBuilder, flags: BufferId, d: usize) -> Result<Node, Diagnostic> {
    n.load(flags, &[Dim::from(d)])
}

/// Finds the dimensions of `out`: those of `dims` that `flags` does not name, in their order. Where their number
/// is not the rank of `out`, because axes are named twice or out of range, they are -1, which a run refuses.
///
/// # Errors
/// An internal error where they are no sizes that the operation finds.
pub fn find_left(builder: &mut Builder, flags: BufferId, dims: &[Dim], out: BufferId) -> Result<(), Diagnostic> {
    let rank = builder.dims(out).len();
    let sizes = (0..rank).map(|k| builder.found(out, k)).collect::<Result<_, _>>()?;
    builder.find_sizes(sizes, |n, k| {
        let (zero, one) = (n.constant(Const::I64(0)), n.constant(Const::I64(1)));
        let (mut place, mut size, wanted) = (zero, zero, n.constant(Const::I64(k as i64)));
        for (d, dim) in dims.iter().enumerate() {
            let gone = flag(n, flags, d)?;
            let here = n.binary(Binary::Eq, place, wanted);
            let extent = n.index(dim);
            let found = n.select(here, extent, size);
            size = n.select(gone, size, found);
            let next = n.binary(Binary::Add, place, one);
            place = n.select(gone, place, next);
        }
        let (all, none) = (n.constant(Const::I64(rank as i64)), n.constant(Const::I64(-1)));
        let fits = n.binary(Binary::Eq, place, all);
        Ok(n.select(fits, size, none))
    })
}
