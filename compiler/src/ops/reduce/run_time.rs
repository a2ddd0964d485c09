//! Reductions over axes that are known only when the model runs.
//!
//! Dimension `d` of the result with kept dimensions is a run-time size: 1 where the axis is reduced, else that of the
//! operand. The reduction along `d` then runs `operand + 1 - result` times, and as one of the two indices is always 0,
//! their sum is the index into the operand.

use super::Reduce;
use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::shape_error;
use crate::op::{InferContext, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn};

impl Reduce {
    /// Dimensions of the result.
    pub(super) fn open_dims(&self, x: &Fact, axes: &Fact, context: &mut InferContext) -> Result<Vec<Dim>, Diagnostic> {
        typing::integer(axes.element, "the list of axes")?;
        if axes.rank() > 1 {
            return Err(shape_error(format!("the list of axes has rank {}, not 0 or 1", axes.rank())));
        }
        if self.keep_dims {
            let open = |dim: &Dim| context.fresh("reduced", dim.range().min.clamp(0, 1), dim.upper_bound().max(1));
            return Ok(x.dims.iter().map(open).collect());
        }
        let count = product(&axes.dims).as_usize().filter(|count| *count <= x.rank()).ok_or_else(|| {
            let message = "the number of axes must be known where reduced dimensions are not kept";
            Diagnostic::error(&codes::UNSUPPORTED, message).help(crate::op::operands::NOT_KNOWN)
        })?;
        let largest = x.dims.iter().map(Dim::upper_bound).max().unwrap_or(1);
        Ok((count..x.rank()).map(|_| context.fresh("left", 0, largest)).collect())
    }

    pub(super) fn lower_open(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, axes, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let dims = builder.dims(x);
        let reduced = flags(builder, axes, dims.len())?;
        let sizes = builder.temporary(ElementType::I64, vec![Dim::from(dims.len())]);
        for (d, dim) in dims.iter().enumerate() {
            let mut nest = builder.nest(&[]);
            let (reduced, one) = (flag(&mut nest, reduced, d)?, nest.constant(Const::I64(1)));
            let size = nest.index(dim);
            let value = nest.select(reduced, one, size);
            nest.store(sizes, &[Dim::from(d)], value);
        }
        let variables = match self.keep_dims {
            true => (0..dims.len()).map(|d| builder.found(out, d)).collect::<Result<_, _>>()?,
            false => dims.iter().map(|dim| builder.fresh("reduced", 0, dim.upper_bound().max(1))).collect::<Vec<_>>(),
        };
        let kept: Vec<Dim> = variables.iter().map(|variable| Dim::variable(*variable)).collect();
        builder.read_sizes(sizes, variables)?;
        let result = if self.keep_dims { out } else { builder.temporary(builder.element(out), kept.clone()) };
        self.reduce_open(builder, x, result, &kept)?;
        if !self.keep_dims {
            left_sizes(builder, reduced, &dims, out)?;
            builder.reshape(result, out);
        }
        Ok(())
    }

    fn reduce_open(&self, builder: &mut Builder, x: BufferId, out: BufferId, kept: &[Dim]) -> Result<(), Diagnostic> {
        let (dims, element) = (builder.dims(x), builder.element(x));
        let mut nest = builder.nest(kept);
        let map = nest.map_axes();
        let extents: Vec<Dim> = dims.iter().zip(kept).map(|(dim, kept)| dim.clone() + 1 - kept).collect();
        let index: Vec<Dim> =
            map.iter().zip(&extents).map(|(i, extent)| i.clone() + nest.reduction_axis(extent)).collect();
        let value = nest.load(x, &index)?;
        let value = self.before(&mut nest, value);
        let value = if dims.is_empty() { value } else { nest.reduce(self.reduction(), value) };
        let value = self.after(&mut nest, value, &product(&extents), element);
        nest.store(out, &map, value);
        Ok(())
    }
}

/// For every dimension, whether one of the axes names it.
fn flags(builder: &mut Builder, axes: BufferId, rank: usize) -> Result<BufferId, Diagnostic> {
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

fn flag(n: &mut NestBuilder, flags: BufferId, d: usize) -> Result<Node, Diagnostic> {
    n.load(flags, &[Dim::from(d)])
}

/// Finds the dimensions of `out`: those of `dims` that are not reduced, in their order.
fn left_sizes(builder: &mut Builder, reduced: BufferId, dims: &[Dim], out: BufferId) -> Result<(), Diagnostic> {
    let rank = builder.dims(out).len();
    let left = builder.temporary(ElementType::I64, vec![Dim::from(rank)]);
    for k in 0..rank {
        let mut nest = builder.nest(&[]);
        let (zero, one) = (nest.constant(Const::I64(0)), nest.constant(Const::I64(1)));
        let (mut place, mut size, wanted) = (zero, zero, nest.constant(Const::I64(k as i64)));
        for (d, dim) in dims.iter().enumerate() {
            let gone = flag(&mut nest, reduced, d)?;
            let here = nest.binary(Binary::Eq, place, wanted);
            let extent = nest.index(dim);
            let found = nest.select(here, extent, size);
            size = nest.select(gone, size, found);
            let next = nest.binary(Binary::Add, place, one);
            place = nest.select(gone, place, next);
        }
        nest.store(left, &[Dim::from(k)], size);
    }
    let variables = (0..rank).map(|k| builder.found(out, k)).collect::<Result<_, _>>()?;
    builder.read_sizes(left, variables)
}
