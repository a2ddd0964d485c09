//! Sums that run along an axis.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::{InferContext, Op, OpDef, Support, axes, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::Builder;
use crate::program::nest::{Bound, Const, ReduceFn};
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "CumSum",
    version: 3,
    opsets: 3..=17,
    inputs: 1..=2,
    outputs: one_output,
    parse: |attributes| {
        Ok(Rc::new(CumSum {
            exclusive: attributes.bool("exclusive", false)?,
            reverse: attributes.bool("reverse", false)?,
        }))
    },
    ignorable: &[],
    support: Support::Full,
}];

/// Windows are widened by this factor from one nest to the next.
const RADIX: i64 = 16;

/// CumSum-3: `out[i] = sum(x[0..=i])` along the axis that operand 1 names (default 0); `exclusive` leaves `x[i]` out,
/// `reverse` sums from the end.
#[derive(Debug)]
struct CumSum {
    exclusive: bool,
    reverse: bool,
}

impl CumSum {
    fn axis(axis: Option<&Fact>, rank: usize) -> Result<usize, Diagnostic> {
        let axis = axis.map_or(Ok(0), |axis| axes::scalar(axis, "the axis"))?;
        axes::normalize(axis, rank)
    }
}

impl Op for CumSum {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::number(x.element, "the operand of CumSum")?;
        CumSum::axis(inputs.get(1), x.rank())?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    /// A window sum of at most 16 elements, then sums of 16 such windows, and so on until a window holds the whole
    /// axis: n log n additions in nests without a dependency from element to element.
    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let out = builder.output(0)?;
        let dims = builder.dims(out);
        let named = (builder.input_count() > 1).then(|| builder.fact(1)).transpose()?;
        let axis = CumSum::axis(named, dims.len())?;
        let longest = dims.get(axis).map_or(1, |dim| dim.range().max).max(1);
        let wide = builder.scalar_type(out)?.element();
        let mut from = builder.input(0)?;
        let mut window = 1;
        let mut shift = i64::from(self.exclusive);
        loop {
            let parts = RADIX.min((longest - 1) / window + 1);
            let reach = window.saturating_mul(RADIX);
            let to = if reach >= longest { out } else { builder.temporary(wide, dims.clone()) };
            self.window(builder, from, to, Window { axis, parts, stride: window, shift })?;
            if reach >= longest {
                return Ok(());
            }
            (from, window, shift) = (to, reach, 0);
        }
    }
}

/// `to[i] = sum of from[i - shift - j * stride]` for j in `0..parts`, what lies outside being zero.
struct Window {
    axis: usize,
    parts: i64,
    stride: i64,
    shift: i64,
}

impl CumSum {
    fn window(&self, builder: &mut Builder, from: BufferId, to: BufferId, window: Window) -> Result<(), Diagnostic> {
        let dims = builder.dims(to);
        let ty = builder.scalar_type(from)?;
        let mut nest = builder.nest(&dims);
        let map = nest.map_axes();
        let step = nest.reduction_axis(&Dim::constant(window.parts));
        let offset = step * window.stride + window.shift;
        let mut index = map.clone();
        let mut bounds = Vec::new();
        if let (Some(slot), Some(limit)) = (index.get_mut(window.axis), dims.get(window.axis)) {
            *slot = if self.reverse { slot.clone() + &offset } else { slot.clone() - &offset };
            bounds.push(Bound { value: slot.clone(), limit: limit.clone() });
        }
        let zero = nest.constant(Const::of(ty, 0.0));
        let value = nest.load_within(from, &index, bounds, zero)?;
        let sum = nest.reduce(ReduceFn::Sum, value);
        nest.store(to, &map, sum);
        Ok(())
    }
}
