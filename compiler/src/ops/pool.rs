//! Pooling over spatial dimensions: AvgPool, MaxPool.

use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, MapAxes, flatten, operand, shape_error};
use crate::op::window::{Rounding, Slide, Window, lowest, positive, reduce, reduction_axis, within};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, ReduceFn, ScalarType};
use crate::program::{Bound, BufferId};
use crate::read::{Attributes, Layer};
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("AvgPool", 1, 1..=13, one_output, |a| average(a, false, false)),
    row("AvgPool", 14, 14..=15, one_output, |a| average(a, true, false)),
    row("AvgPool", 16, 16..=17, one_output, |a| average(a, true, true)),
    row("MaxPool", 1, 1..=7, one_output, |a| maximum(a, false, false)),
    row("MaxPool", 8, 8..=13, two_outputs, |a| maximum(a, false, true)),
    row("MaxPool", 14, 14..=17, two_outputs, |a| maximum(a, true, true)),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    outputs: fn(&Layer) -> usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs: 1..=1, outputs, parse, ignorable: &[], support: Support::Full }
}

fn two_outputs(_: &Layer) -> usize {
    2
}

/// A window with its kernel.
#[derive(Debug)]
struct Pool {
    window: Window,
    kernel: Vec<i64>,
}

impl Pool {
    fn parse(attributes: &Attributes, torch: bool, dilated: bool) -> Result<Pool, Diagnostic> {
        let mut window = Window::parse(attributes)?;
        let roundings = [("floor", Rounding::Floor), ("ceil", Rounding::Ceil), ("ceil_torch", Rounding::CeilTorch)];
        let roundings = if torch { &roundings[..] } else { &roundings[..2] };
        window.rounding = attributes.choice_or("rounding_type", roundings, Rounding::Floor)?;
        if dilated {
            window.dilations = positive(attributes, "dilations", attributes.ints_or("dilations", &[])?)?;
        }
        let kernel = positive(attributes, "kernel", attributes.ints("kernel")?)?;
        Ok(Pool { window, kernel })
    }

    fn slides(&self, dims: &[Dim]) -> Result<Vec<Slide>, Diagnostic> {
        let kernel: Vec<Dim> = self.kernel.iter().map(|k| Dim::constant(*k)).collect();
        match dims {
            [_, _, sizes @ ..] if (1..=3).contains(&sizes.len()) => self.window.slides(sizes, &kernel),
            _ => Err(shape_error(format!("data with {} dimensions cannot be pooled", dims.len()))
                .help("supported are one to three spatial dimensions after batch and channels")),
        }
    }

    fn dims(&self, inputs: &[Fact]) -> Result<Vec<Dim>, Diagnostic> {
        let data = operand(inputs, 0)?;
        let spatial = self.slides(&data.dims)?.into_iter().map(|slide| slide.out);
        Ok(data.dims.iter().take(2).cloned().chain(spatial).collect())
    }
}

/// Index expressions of a nest over windows.
struct Axes {
    /// Batch, channel and window: where the result is stored.
    out: Vec<Dim>,
    /// Taps.
    taps: Vec<Dim>,
    /// Batch, channel and position in the data.
    data: Vec<Dim>,
    /// Conditions that the position exists.
    bounds: Vec<Bound>,
}

/// Starts a nest with map axes for batch, channels and windows and reduction axes for taps.
fn nest<'b, 'a>(builder: &'b mut Builder<'a>, x: BufferId, slides: &[Slide]) -> (NestBuilder<'b, 'a>, Axes) {
    let mut maps = MapAxes::default();
    let dims = builder.dims(x);
    let mut out = maps.axes(dims.get(..2).unwrap_or(&[]));
    let windows: Vec<Dim> = slides.iter().map(|slide| maps.axis(&slide.out)).collect();
    let mut n = builder.nest(&maps.extents);
    let taps: Vec<Dim> = slides.iter().map(|slide| reduction_axis(&mut n, &slide.kernel)).collect();
    let (mut data, mut bounds) = (out.clone(), Vec::new());
    for ((slide, window), tap) in slides.iter().zip(&windows).zip(&taps) {
        let at = slide.position(window, tap);
        bounds.extend(slide.bound(&at));
        data.push(at);
    }
    out.extend(windows);
    (n, Axes { out, taps, data, bounds })
}

/// The mean of every window. With `exclude_pad` only elements of the data count, else padding counts as zeros.
#[derive(Debug)]
struct AvgPool {
    pool: Pool,
    exclude_pad: bool,
}

fn average(attributes: &Attributes, torch: bool, dilated: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    if !attributes.has("exclude-pad") {
        attributes.string("exclude-pad")?;
    }
    let exclude_pad = attributes.bool("exclude-pad", true)?;
    Ok(Rc::new(AvgPool { pool: Pool::parse(attributes, torch, dilated)?, exclude_pad }))
}

impl AvgPool {
    /// Number of elements by which the sum of a window is divided.
    fn divisor(&self, slides: &[Slide], out: &[Dim]) -> Dim {
        // Without any padding, what a last window rounded up lacks is not counted; with padding it is.
        let unpadded = slides.iter().all(|slide| slide.before.is(0) && slide.after.is(0));
        let count = |(slide, o): (&Slide, &Dim)| {
            if self.exclude_pad || unpadded { slide.taps_inside(o) } else { slide.kernel.clone() }
        };
        slides.iter().zip(out.iter().skip(2)).map(count).fold(Dim::constant(1), |product, dim| product * dim)
    }
}

impl Op for AvgPool {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let element = operand(inputs, 0)?.element;
        if matches!(element, ElementType::Boolean | ElementType::String) {
            return Err(Diagnostic::error(&codes::TYPE, format!("{element} has no mean")));
        }
        Ok(vec![Fact::new(element, self.pool.dims(inputs)?)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let scalar = builder.scalar_type(x)?;
        let slides = self.pool.slides(&builder.dims(x))?;
        let (mut n, axes) = nest(builder, x, &slides);
        let zero = n.constant(Const::of(scalar, 0.0));
        let value = n.load_within(x, &axes.data, axes.bounds, zero)?;
        let sum = reduce(&mut n, ReduceFn::Sum, &axes.taps, value);
        let divisor = self.divisor(&slides, &axes.out);
        let divisor = match divisor.as_const() {
            Some(count) => n.constant(Const::of(scalar, count.max(1) as f64)),
            None => {
                // A window without any element has the sum zero, and so its mean.
                let count = n.index(&divisor.maximum(&Dim::constant(1)));
                n.cast(scalar.element(), count)
            }
        };
        let mean = n.binary(Binary::Div, sum, divisor);
        n.store(out, &axes.out, mean);
        Ok(())
    }
}

/// The maximum of every window and, from version 8, the position of its first occurrence, counted row-major over the
/// dimensions from `axis` on.
#[derive(Debug)]
struct MaxPool {
    pool: Pool,
    /// Element type and axis of the positions.
    positions: Option<(ElementType, i64)>,
}

fn maximum(attributes: &Attributes, torch: bool, positions: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    let pool = Pool::parse(attributes, torch, positions)?;
    let positions = match positions {
        true => {
            Some((attributes.index_type_or("index_element_type", ElementType::I64)?, attributes.int_or("axis", 0)?))
        }
        false => None,
    };
    Ok(Rc::new(MaxPool { pool, positions }))
}

impl Op for MaxPool {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        if matches!(data.element, ElementType::Boolean | ElementType::String) {
            return Err(Diagnostic::error(&codes::TYPE, format!("{} has no maximum", data.element)));
        }
        let dims = self.pool.dims(inputs)?;
        let mut facts = vec![Fact::new(data.element, dims.clone())];
        if let Some((element, axis)) = self.positions {
            operands::axis(axis, data.rank())?;
            if !matches!(element, ElementType::I32 | ElementType::I64) {
                return Err(Diagnostic::error(&codes::TYPE, format!("positions are i32 or i64, not {element}")));
            }
            facts.push(Fact::new(element, dims));
        }
        Ok(facts)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let slides = self.pool.slides(&builder.dims(x))?;
        let scalar = builder.scalar_type(x)?;
        let lowest = lowest(builder.element(x), scalar);
        let (mut n, axes) = nest(builder, x, &slides);
        let padding = n.constant(lowest);
        let value = n.load_within(x, &axes.data, axes.bounds, padding)?;
        let mut max = reduce(&mut n, ReduceFn::Max, &axes.taps, value);
        if slides.iter().any(Slide::may_be_empty) {
            // The maximum of nothing is the lowest finite number, not -infinity.
            let least = n.constant_like(max, if scalar == ScalarType::F64 { f64::MIN } else { f32::MIN.into() });
            max = if scalar.is_float() { n.binary(Binary::Max, max, least) } else { max };
        }
        n.store(out, &axes.out, max);
        match self.positions {
            Some((element, axis)) => lower_positions(builder, &slides, lowest, element, axis),
            None => Ok(()),
        }
    }
}

/// The smallest position at which the data equals the maximum.
fn lower_positions(
    builder: &mut Builder,
    slides: &[Slide],
    lowest: Const,
    element: ElementType,
    axis: i64,
) -> Result<(), Diagnostic> {
    let (x, max, out) = (builder.input(0)?, builder.output(0)?, builder.output(1)?);
    let dims = builder.dims(x);
    let axis = operands::axis(axis, dims.len())?;
    let (mut n, axes) = nest(builder, x, slides);
    let padding = n.constant(lowest);
    let value = n.load_within(x, &axes.data, axes.bounds.clone(), padding)?;
    let max = n.load(max, &axes.out)?;
    let mut found = n.binary(Binary::Eq, value, max);
    for bound in &axes.bounds {
        found = within(&mut n, found, bound);
    }
    let (spatial, sizes) = (axes.data.get(2..).unwrap_or(&[]), dims.get(2..).unwrap_or(&[]));
    let position = n.index(&flatten(spatial, sizes));
    let none = n.constant(Const::I64(i64::MAX));
    let candidate = n.select(found, position, none);
    let first = reduce(&mut n, ReduceFn::Min, &axes.taps, candidate);
    // A window without data has position zero.
    let (nothing, zero) = (n.binary(Binary::Eq, first, none), n.constant(Const::I64(0)));
    let first = n.select(nothing, zero, first);
    // Positions grow along a window, so the first one is found within the spatial dimensions and then extended to the
    // batch and channel dimensions, or reduced to the last ones.
    let result = if axis < 2 {
        let (outer, sizes) = (axes.data.get(axis..2).unwrap_or(&[]), dims.get(axis..2).unwrap_or(&[]));
        let start = n.index(&(flatten(outer, sizes) * product(dims.get(2..).unwrap_or(&[]))));
        n.binary(Binary::Add, start, first)
    } else {
        let inner = n.index(&product(dims.get(axis..).unwrap_or(&[])));
        n.binary(Binary::FloorMod, first, inner)
    };
    let result = n.cast(element, result);
    n.store(out, &axes.out, result);
    Ok(())
}
