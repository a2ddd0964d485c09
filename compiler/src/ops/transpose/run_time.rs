//! Transpose whose order and Roll whose shifts or axes are known only when the model runs.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::open_axes::{OpenAxes, names};
use crate::op::operands::{operand, shape_error, unflatten};
use crate::op::{InferContext, found};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder, as_variable};
use crate::program::nest::{Binary, Const, Node, ReduceFn};

/// Whether the elements of operand `i` are data.
pub(super) fn is_open(inputs: &[Fact], i: usize) -> bool {
    inputs.get(i).is_some_and(|fact| fact.as_sizes().is_none() && fact.element.is_integer() && !is_empty(fact))
}

fn is_empty(fact: &Fact) -> bool {
    product(&fact.dims).is(0)
}

/// The result of a Transpose: its dimensions are those of the data in an order that is found, so it has as many elements.
pub(super) fn transposed(inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
    let (data, order) = (operand(inputs, 0)?, operand(inputs, 1)?);
    let count = found::listed(order, "the order of the axes")?;
    if count != data.rank() {
        return Err(shape_error(format!("the order has {count} axes, the tensor {}", data.rank())));
    }
    let bounds = data.dims.iter().map(Dim::upper_bound);
    let largest = bounds.clone().max().unwrap_or(1);
    let most = match product(&data.dims).upper_bound() {
        // The other dimensions of what has no elements say nothing about memory.
        0 => bounds.fold(1, |all: i64, bound| all.saturating_mul(bound.max(1))),
        most => most,
    };
    Ok(vec![Fact::new(data.element, context.found("transposed", &vec![largest; count], most))])
}

/// Finds dimensions and strides of the result of a Transpose, which reads the elements of the data in another order.
pub(super) fn transpose(builder: &mut Builder) -> Result<(), Diagnostic> {
    let (x, order, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
    let (dims, listed) = (builder.dims(x), builder.dims(order));
    let strides: Vec<Dim> = (1..=dims.len()).map(|d| product(dims.get(d..).unwrap_or(&[]))).collect();
    let sizes = (0..dims.len()).map(|k| builder.found(out, k)).collect::<Result<_, _>>()?;
    let named = OpenAxes::read(builder, order, dims.len())?;
    named.find_sizes(builder, sizes, |n, k| along(n, (order, &listed), k, &dims))?;
    let steps = builder.temporary(ElementType::I64, vec![Dim::from(dims.len())]);
    for k in 0..dims.len() {
        let mut n = builder.nest(&[]);
        let step = along(&mut n, (order, &listed), k, &strides)?;
        n.store(steps, &[Dim::from(k)], step);
    }
    let flat = builder.temporary(builder.element(x), vec![product(&dims)]);
    builder.reshape(x, flat);
    builder.map(out, |n, i| {
        let mut at = Dim::constant(0);
        for (k, i) in i.iter().enumerate() {
            let step = n.load(steps, &[Dim::from(k)])?;
            at = at + n.as_index(step) * i;
        }
        n.load(flat, &[at])
    })
}

/// Of `list`, the element of the axis that is number `k` of the order.
fn along(n: &mut NestBuilder, order: (BufferId, &[Dim]), k: usize, list: &[Dim]) -> Result<Node, Diagnostic> {
    let axis = n.load(order.0, &unflatten(&Dim::from(k), order.1))?;
    let mut chosen = n.constant(Const::I64(0));
    for (d, element) in list.iter().enumerate() {
        let (is_it, element) = (names(n, axis, &Dim::from(d), list.len()), n.index(element));
        chosen = n.select(is_it, element, chosen);
    }
    Ok(chosen)
}

/// The result of a Roll. Axes that are data are checked when the model runs: a size that is 0 stands for it.
pub(super) fn rolled(inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
    let (data, shifts, axes) = (operand(inputs, 0)?, operand(inputs, 1)?, operand(inputs, 2)?);
    let (shifts, count) = (found::listed(shifts, "the shifts")?, found::listed(axes, "the axes to roll")?);
    if shifts != count && shifts != 1 {
        return Err(shape_error(format!("{shifts} shifts for {count} axes")));
    }
    if is_open(inputs, 2) {
        let exist = context.fresh("the axes to roll", 0, 0);
        context.locals.push(exist);
    } else {
        super::Roll::axes(inputs, data.rank())?;
    }
    Ok(vec![Fact::new(data.element, data.dims.clone())])
}

/// Sums up the shifts of every dimension, then rolls.
pub(super) fn roll(builder: &mut Builder) -> Result<(), Diagnostic> {
    let (x, out) = (builder.input(0)?, builder.output(0)?);
    let (shifts, axes) = (builder.input(1)?, builder.input(2)?);
    let (dims, listed) = (builder.dims(x), [builder.dims(shifts), builder.dims(axes)]);
    let rank = dims.len();
    if let Some(exist) = builder.locals().first().and_then(as_variable) {
        builder.find_sizes(vec![exist], |n, _| {
            let at: Vec<Dim> = listed[1].iter().map(|dim| n.reduction_axis(dim)).collect();
            let axis = n.load(axes, &at)?;
            let axis = n.cast(ElementType::I64, axis);
            let (low, high) = (n.index(&Dim::constant(-(rank as i64))), n.index(&Dim::from(rank)));
            let (above, below) = (n.binary(Binary::Le, low, axis), n.binary(Binary::Lt, axis, high));
            let exists = n.binary(Binary::And, above, below);
            let all = if at.is_empty() { exists } else { n.reduce(ReduceFn::All, exists) };
            let (yes, no) = (n.constant(Const::I64(0)), n.constant(Const::I64(-1)));
            Ok(n.select(all, yes, no))
        })?;
    }
    let totals = builder.temporary(ElementType::I64, vec![Dim::from(rank)]);
    for (d, size) in dims.iter().enumerate() {
        let mut n = builder.nest(&[]);
        let k = n.reduction_axis(&product(&listed[1]));
        let one = product(&listed[0]).is(1);
        let place = if one { Dim::constant(0) } else { k.clone() };
        let (shift, axis) =
            (n.load(shifts, &unflatten(&place, &listed[0]))?, n.load(axes, &unflatten(&k, &listed[1]))?);
        let shift = n.cast(ElementType::I64, shift);
        let (size, zero, is_it) = (n.index(size), n.constant(Const::I64(0)), names(&mut n, axis, &Dim::from(d), rank));
        let shift = n.binary(Binary::FloorMod, shift, size);
        let shift = n.select(is_it, shift, zero);
        let total = n.reduce(ReduceFn::Sum, shift);
        n.store(totals, &[Dim::from(d)], total);
    }
    builder.map(out, |n, i| {
        let mut index = Vec::with_capacity(rank);
        for (d, (i, size)) in i.iter().zip(&dims).enumerate() {
            let total = n.load(totals, &[Dim::from(d)])?;
            index.push((i.clone() - n.as_index(total)).modulo(size));
        }
        n.load(x, &index)
    })
}
