//! Reductions over axes that are known only when the model runs.
//!
//! Dimension `d` of the result with kept dimensions is a run-time size: 1 where the axis is reduced, else that of the
//! operand. The reduction along `d` then runs `operand + 1 - result` times, and as one of the two indices is always 0,
//! their sum is the index into the operand.

use super::Reduce;
use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::fact::Fact;
use crate::op::open_axes::OpenAxes;
use crate::op::operands::shape_error;
use crate::op::{InferContext, typing};
use crate::program::BufferId;
use crate::program::builder::Builder;
use crate::program::nest::Const;

impl Reduce {
    /// Dimensions of the result.
    pub(super) fn open_dims(&self, x: &Fact, axes: &Fact, context: &mut InferContext) -> Result<Vec<Dim>, Diagnostic> {
        typing::integer(axes.element, "the list of axes")?;
        if axes.rank() > 1 {
            return Err(shape_error(format!("the list of axes has rank {}, not 0 or 1", axes.rank())));
        }
        if self.keep_dims {
            let most: Vec<i64> = x.dims.iter().map(|dim| dim.upper_bound().max(1)).collect();
            return Ok(context.found("reduced", &most, most.iter().fold(1, |all, one| all.saturating_mul(*one))));
        }
        let count = product(&axes.dims).as_usize().filter(|count| *count <= x.rank()).ok_or_else(|| {
            let message = "the number of axes must be known where reduced dimensions are not kept";
            Diagnostic::error(&codes::UNSUPPORTED, message).help(crate::op::operands::NOT_KNOWN)
        })?;
        let largest = x.dims.iter().map(Dim::upper_bound).max().unwrap_or(1);
        Ok(context.found("left", &vec![largest; x.rank() - count], product(&x.dims).upper_bound()))
    }

    pub(super) fn lower_open(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, axes, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let dims = builder.dims(x);
        let reduced = OpenAxes::read(builder, axes, dims.len())?;
        let variables = match self.keep_dims {
            true => (0..dims.len()).map(|d| builder.found(out, d)).collect::<Result<_, _>>()?,
            false => dims.iter().map(|dim| builder.fresh("reduced", 0, dim.upper_bound().max(1))).collect::<Vec<_>>(),
        };
        let kept: Vec<Dim> = variables.iter().map(|variable| Dim::variable(*variable)).collect();
        reduced.find_sizes(builder, variables, |n, d| {
            let (reduced, one) = (reduced.names(n, d)?, n.constant(Const::I64(1)));
            let size = n.index(dims.get(d).unwrap_or(&Dim::constant(1)));
            Ok(n.select(reduced, one, size))
        })?;
        let result = if self.keep_dims { out } else { builder.temporary(builder.element(out), kept.clone()) };
        self.reduce_open(builder, x, result, &kept)?;
        if !self.keep_dims {
            reduced.find_left(builder, &dims, out)?;
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
