//! Pooling over windows that divide the data into a given number of parts: AdaptiveAvgPool, AdaptiveMaxPool.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, MapAxes, flatten, operand, shape_error};
use crate::op::window::{lowest, reduce, reduction_axis, within};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, Unary};
use crate::program::{Bound, BufferId};
use crate::read::{Attributes, Layer};
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("AdaptiveAvgPool", one_output, |_| Ok(Rc::new(AdaptiveAvgPool))),
    row("AdaptiveMaxPool", two_outputs, |a| {
        Ok(Rc::new(AdaptiveMaxPool { positions: a.index_type_or("index_element_type", ElementType::I64)? }))
    }),
];

const fn row(
    name: &'static str,
    outputs: fn(&Layer) -> usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version: 8, opsets: 8..=17, inputs: 2..=2, outputs, parse, ignorable: &[], support: Support::Full }
}

fn two_outputs(_: &Layer) -> usize {
    2
}

/// The windows along one dimension: window `o` of `out` has the elements from `floor(o * size / out)` to
/// `ceil((o + 1) * size / out)`.
struct Windows {
    size: Dim,
    out: Dim,
}

impl Windows {
    /// Whether all windows are equal and none overlap.
    fn even(&self) -> Option<Dim> {
        self.size.quotient(&self.out)
    }

    fn start(&self, o: &Dim) -> Dim {
        match self.even() {
            Some(length) => o.clone() * &length,
            None => (o.clone() * &self.size).floor_div(&self.out),
        }
    }

    fn length(&self, o: &Dim) -> Dim {
        self.even().unwrap_or_else(|| ((o.clone() + 1) * &self.size).ceil_div(&self.out) - self.start(o))
    }

    /// Length of the longest one.
    fn longest(&self) -> Dim {
        self.even().unwrap_or_else(|| self.size.ceil_div(&self.out) + 1)
    }
}

fn dims(inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Dim>, Diagnostic> {
    let kept = product(operand(inputs, 0)?.dims.get(..2).unwrap_or(&[]));
    let inputs = &*context.sized(inputs, &[1], "the output shape of an adaptive pooling", &kept)?;
    let data = operand(inputs, 0)?;
    typing::number(data.element, "the data of an adaptive pooling")?;
    let [batch, channels, sizes @ ..] = data.dims.as_slice() else {
        return Err(shape_error("batch, channels and spatial dimensions are required"));
    };
    let outs = operands::sizes(inputs, 1, "the output shape of an adaptive pooling")?;
    if !(1..=3).contains(&sizes.len()) {
        let message = format!("data with {} dimensions cannot be pooled", data.rank());
        return Err(shape_error(message).help("supported are one to three spatial dimensions after batch and channels"));
    }
    if outs.len() != sizes.len() {
        return Err(shape_error(format!("{} sizes for {} spatial dimensions", outs.len(), sizes.len())));
    }
    if sizes.iter().zip(&outs).any(|(size, out)| size.is(0) && out.range().max > 0) {
        return Err(shape_error("an empty dimension cannot be divided into windows"));
    }
    Ok([batch, channels].into_iter().chain(&outs).cloned().collect())
}

/// Index expressions of a nest over windows.
struct Axes {
    /// Batch, channel and window: where the result is stored.
    out: Vec<Dim>,
    taps: Vec<Dim>,
    /// Batch, channel and position in the data.
    data: Vec<Dim>,
    /// Conditions that the position lies in the window.
    bounds: Vec<Bound>,
    /// Number of elements of the window.
    count: Dim,
}

/// Starts a nest with map axes for batch, channels and windows and reduction axes for taps.
fn nest<'b, 'a>(builder: &'b mut Builder<'a>, x: BufferId, out: BufferId) -> (NestBuilder<'b, 'a>, Axes) {
    let (sizes, outs) = (builder.dims(x), builder.dims(out));
    let mut maps = MapAxes::default();
    let index = maps.axes(&outs);
    let mut n = builder.nest(&maps.extents);
    let data: Vec<Dim> = index.iter().take(2).cloned().collect();
    let mut axes = Axes { out: index, taps: Vec::new(), data, bounds: Vec::new(), count: Dim::constant(1) };
    for ((size, out), o) in sizes.iter().zip(&outs).zip(&axes.out).skip(2) {
        let windows = Windows { size: size.clone(), out: out.clone() };
        let tap = reduction_axis(&mut n, &windows.longest());
        let length = windows.length(o);
        if windows.even().is_none() {
            axes.bounds.push(Bound { value: tap.clone(), limit: length.clone() });
        }
        axes.data.push(windows.start(o) + &tap);
        axes.count = axes.count * &length;
        axes.taps.push(tap);
    }
    (n, axes)
}

/// AdaptiveAvgPool-8: the mean of every window. Bytes are rounded, halves to even; other integers toward zero.
#[derive(Debug)]
struct AdaptiveAvgPool;

impl Op for AdaptiveAvgPool {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        Ok(vec![Fact::new(operand(inputs, 0)?.element, dims(inputs, context)?)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let element = builder.element(x);
        let (mut n, axes) = nest(builder, x, out);
        let zero = n.zero_of(x)?;
        let value = n.load_within(x, &axes.data, axes.bounds, zero)?;
        let sum = reduce(&mut n, ReduceFn::Sum, &axes.taps, value);
        let rounds = element.is_integer() && element.bits() <= 8;
        let wide = if rounds { ElementType::F32 } else { n.type_of(sum).element() };
        let sum = n.cast(wide, sum);
        let count = match axes.count.as_const() {
            Some(count) => n.constant_like(sum, count.max(1) as f64),
            None => {
                let count = n.index(&axes.count.maximum(&Dim::constant(1)));
                n.cast(wide, count)
            }
        };
        let mean = n.binary(Binary::Div, sum, count);
        let mean = if rounds { n.unary(Unary::Round, mean) } else { mean };
        n.store(out, &axes.out, mean);
        Ok(())
    }
}

/// AdaptiveMaxPool-8: the maximum of every window, and the position of its first occurrence, counted row-major over
/// the spatial dimensions.
#[derive(Debug)]
struct AdaptiveMaxPool {
    /// Element type of the positions.
    positions: ElementType,
}

impl Op for AdaptiveMaxPool {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let dims = dims(inputs, context)?;
        Ok(vec![Fact::new(operand(inputs, 0)?.element, dims.clone()), Fact::new(self.positions, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, max) = (builder.input(0)?, builder.output(0)?);
        let lowest = lowest(builder.element(x), builder.scalar_type(x)?);
        let (mut n, axes) = nest(builder, x, max);
        let value = load(&mut n, x, &axes, lowest)?;
        let value = reduce(&mut n, ReduceFn::Max, &axes.taps, value);
        n.store(max, &axes.out, value);
        lower_positions(builder, lowest)
    }
}

fn load(n: &mut NestBuilder, x: BufferId, axes: &Axes, otherwise: Const) -> Result<Node, Diagnostic> {
    let otherwise = n.constant(otherwise);
    n.load_within(x, &axes.data, axes.bounds.clone(), otherwise)
}

/// The smallest position at which the data equals the maximum.
fn lower_positions(builder: &mut Builder, lowest: Const) -> Result<(), Diagnostic> {
    let (x, max, out) = (builder.input(0)?, builder.output(0)?, builder.output(1)?);
    let sizes = builder.dims(x);
    let (mut n, axes) = nest(builder, x, max);
    let (value, max) = (load(&mut n, x, &axes, lowest)?, n.load(max, &axes.out)?);
    let mut found = n.binary(Binary::Eq, value, max);
    for bound in &axes.bounds {
        found = within(&mut n, found, bound);
    }
    let (spatial, sizes) = (axes.data.get(2..).unwrap_or(&[]), sizes.get(2..).unwrap_or(&[]));
    // Without any (all elements are NaN), the first one.
    let (position, none) = (n.index(&flatten(spatial, sizes)), n.constant(Const::I64(i64::MAX)));
    let candidate = n.select(found, position, none);
    let first = reduce(&mut n, ReduceFn::Min, &axes.taps, candidate);
    let (nothing, zero) = (n.binary(Binary::Eq, first, none), n.constant(Const::I64(0)));
    let first = n.select(nothing, zero, first);
    n.store(out, &axes.out, first);
    Ok(())
}
