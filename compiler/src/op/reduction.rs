//! Reductions into temporaries whose reduced axes stay as dimensions of size 1, and terms of their sums.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, ReduceFn, Unary};

/// A new temporary with `finish(reduce(value))` along `axes` of an index space `dims`; without axes, `finish(value)` of
/// every point. `value` gets the index, `finish` the reduced value.
///
/// # Errors
/// What `value` returns.
pub fn along<'a>(
    builder: &mut Builder<'a>,
    (dims, axes): (&[Dim], &[usize]),
    element: ElementType,
    function: ReduceFn,
    value: impl FnOnce(&mut NestBuilder<'_, 'a>, &[Dim]) -> Result<Node, Diagnostic>,
    finish: impl FnOnce(&mut NestBuilder<'_, 'a>, Node) -> Node,
) -> Result<BufferId, Diagnostic> {
    let mut kept = dims.to_vec();
    for axis in axes {
        if let Some(slot) = kept.get_mut(*axis) {
            *slot = Dim::constant(1);
        }
    }
    let to = builder.temporary(element, kept.clone());
    let mut nest = builder.nest(&kept);
    let map = nest.map_axes();
    let mut index = map.clone();
    for axis in axes {
        if let (Some(slot), Some(extent)) = (index.get_mut(*axis), dims.get(*axis)) {
            *slot = nest.reduction_axis(extent);
        }
    }
    let mut node = value(&mut nest, &index)?;
    if !axes.is_empty() {
        node = nest.reduce(function, node);
    }
    let node = finish(&mut nest, node);
    nest.store(to, &map, node);
    Ok(to)
}

/// The index into such a temporary that belongs to `index`: 0 on the reduced axes.
pub fn pinned(index: &[Dim], axes: &[usize]) -> Vec<Dim> {
    let pin = |(i, dim): (usize, &Dim)| if axes.contains(&i) { Dim::constant(0) } else { dim.clone() };
    index.iter().enumerate().map(pin).collect()
}

/// Number of points along `axes`.
pub fn count(dims: &[Dim], axes: &[usize]) -> Dim {
    axes.iter().filter_map(|axis| dims.get(*axis)).fold(Dim::constant(1), |count, dim| count * dim)
}

/// `sum / count`; zero where nothing was summed. Integers round toward zero.
pub fn mean(n: &mut NestBuilder, sum: Node, count: &Dim) -> Node {
    let element = n.type_of(sum).element();
    let divisor = match count.as_const() {
        Some(count) => n.constant_like(sum, count.max(1) as f64),
        None => {
            let count = n.index(&count.maximum(&Dim::constant(1)));
            n.cast(element, count)
        }
    };
    n.binary(Binary::Div, sum, divisor)
}

/// e^difference, a term of a sum of which the greatest is 1. What would be subnormal is 0: it adds nothing to the sum, and masks
/// (-100 in Swin) make many of them.
pub fn exponential(n: &mut NestBuilder, difference: Node) -> Node {
    n.unary(Unary::ExpOrZero, difference)
}

/// `1 / x`, for a factor of many elements: products take less time than divisions.
pub fn reciprocal(n: &mut NestBuilder, x: Node) -> Node {
    let one = n.constant_like(x, 1.0);
    n.binary(Binary::Div, one, x)
}
