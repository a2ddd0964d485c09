//! Interpolation between the elements of a tensor: Interpolate.
//!
//! All modes but `nearest` are separable: one nest per resized dimension sums a few weighted elements of the dimension.
//! Which elements and with which weights stands in two tables (see `taps`).

mod nearest;
mod run_time;
mod sizes;
mod taps;

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, shape_error};
use crate::op::sampling::{saturated, weighted_in};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, Unary};
use crate::program::{Bound, BufferId};
use crate::read::Attributes;
use nearest::Rounding;
use sizes::{Plan, Resize};
use std::ops::RangeInclusive;
use std::rc::Rc;
use taps::{Kernel, Taps, Transform};

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Interpolate", 1, 1..=3, 2..=2, first),
    row("Interpolate", 4, 4..=10, 3..=4, |a| later(a, false)),
    row("Interpolate", 11, 11..=17, 2..=3, |a| later(a, true)),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: RangeInclusive<usize>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

/// How elements of the result come from those of the data.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    LinearOnnx,
    Cubic,
    BilinearPillow,
    BicubicPillow,
    /// The mean of the elements that an element of the result covers.
    Area,
}

/// Which operands say what, and the attributes that only one version has.
#[derive(Debug)]
enum Version {
    /// Data and sizes.
    First { axes: Vec<i64>, align_corners: bool },
    /// Data, sizes, scales and perhaps axes.
    Fourth,
    /// Data, sizes or scales, and perhaps axes.
    Eleventh,
}

/// Resizes some dimensions of the data, which is padded with zeros before. The sizes of the result are an operand, or
/// follow from scales: `floor(size * scale)`.
#[derive(Debug)]
struct Interpolate {
    version: Version,
    mode: Mode,
    /// Scales decide on sizes and coordinates, else sizes do.
    scales: bool,
    transform: Transform,
    rounding: Rounding,
    antialias: bool,
    pads_begin: Vec<i64>,
    pads_end: Vec<i64>,
    cube_coeff: f64,
}

fn pads(attributes: &Attributes, name: &str) -> Result<Vec<i64>, Diagnostic> {
    let pads = attributes.ints_or(name, &[])?;
    // Larger ones are no images, and sums of them would overflow.
    if pads.iter().any(|pad| !(0..1 << 40).contains(pad)) {
        return Err(attributes.invalid(name, "a list of non-negative sizes"));
    }
    Ok(pads)
}

fn first(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let modes = [("nearest", Mode::Nearest), ("linear", Mode::Linear), ("cubic", Mode::Cubic), ("area", Mode::Area)];
    let align_corners = attributes.bool("align_corners", true)?;
    Ok(Rc::new(Interpolate {
        version: Version::First { axes: attributes.ints("axes")?, align_corners },
        mode: attributes.choice("mode", &modes)?,
        scales: false,
        transform: if align_corners { Transform::AlignCorners } else { Transform::Asymmetric },
        rounding: Rounding::Simple,
        antialias: attributes.bool("antialias", false)?,
        pads_begin: pads(attributes, "pads_begin")?,
        pads_end: pads(attributes, "pads_end")?,
        cube_coeff: -0.75,
    }))
}

fn later(attributes: &Attributes, pillow: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    let modes = [
        ("nearest", Mode::Nearest),
        ("linear", Mode::Linear),
        ("linear_onnx", Mode::LinearOnnx),
        ("cubic", Mode::Cubic),
        ("bilinear_pillow", Mode::BilinearPillow),
        ("bicubic_pillow", Mode::BicubicPillow),
    ];
    let transforms = [
        ("half_pixel", Transform::HalfPixel),
        ("pytorch_half_pixel", Transform::PytorchHalfPixel),
        ("asymmetric", Transform::Asymmetric),
        ("tf_half_pixel_for_nn", Transform::TfHalfPixelForNn),
        ("align_corners", Transform::AlignCorners),
    ];
    let roundings = [
        ("round_prefer_floor", Rounding::PreferFloor),
        ("round_prefer_ceil", Rounding::PreferCeil),
        ("floor", Rounding::Floor),
        ("ceil", Rounding::Ceil),
        ("simple", Rounding::Simple),
    ];
    Ok(Rc::new(Interpolate {
        version: if pillow { Version::Eleventh } else { Version::Fourth },
        mode: attributes.choice("mode", modes.get(..if pillow { 6 } else { 4 }).unwrap_or(&[]))?,
        scales: attributes.choice("shape_calculation_mode", &[("sizes", false), ("scales", true)])?,
        transform: attributes.choice_or("coordinate_transformation_mode", &transforms, Transform::HalfPixel)?,
        rounding: attributes.choice_or("nearest_mode", &roundings, Rounding::PreferFloor)?,
        antialias: attributes.bool("antialias", false)?,
        pads_begin: pads(attributes, "pads_begin")?,
        pads_end: pads(attributes, "pads_end")?,
        cube_coeff: attributes.float_or("cube_coeff", -0.75)?,
    }))
}

impl Interpolate {
    /// Mode and transformation. Those of the first version depend on the data: what version 4 has for them was fixed
    /// only when the first version was replaced by it.
    fn mode(&self, inputs: &[Fact]) -> Result<(Mode, Transform), Diagnostic> {
        let Version::First { axes, align_corners } = &self.version else { return Ok((self.mode, self.transform)) };
        let rank = operand(inputs, 0)?.rank();
        let mode = match self.mode {
            Mode::Linear if rank < 5 => Mode::LinearOnnx,
            mode => mode,
        };
        let padded = self.pads_begin.iter().chain(&self.pads_end).any(|pad| *pad != 0);
        let image = rank == 4 && axes.len() == 2 && axes.contains(&2) && axes.contains(&3);
        let linear = matches!(mode, Mode::Linear | Mode::LinearOnnx);
        let centred = linear && !align_corners && !padded && !image;
        Ok((mode, if centred { Transform::HalfPixel } else { self.transform }))
    }

    /// The weights that all resized dimensions use.
    fn kernel(&self, mode: Mode, resizes: &[Resize]) -> Kernel {
        match mode {
            Mode::Nearest | Mode::Area => Kernel::Mean,
            Mode::LinearOnnx => Kernel::Corners,
            Mode::Linear if self.antialias && resizes.iter().any(Resize::may_shrink) => Kernel::Stretched,
            Mode::Linear => Kernel::Triangle,
            Mode::Cubic => Kernel::Cubic(self.cube_coeff),
            Mode::BilinearPillow => Kernel::PillowTriangle,
            Mode::BicubicPillow => Kernel::PillowCubic(self.cube_coeff),
        }
    }
}

impl Op for Interpolate {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        typing::number(operand(inputs, 0)?.element, "the data of an Interpolate")?;
        let (inputs, open) = self.open(inputs, context)?;
        let (inputs, data) = (&*inputs, operand(&inputs, 0)?);
        let plan = self.plan(inputs, open)?;
        for Resize { axis, size, out, .. } in &plan.resizes {
            if size.is(0) && out.range().max > 0 {
                return Err(shape_error(format!("dimension {axis} is empty: nothing to interpolate between")));
            }
            let whole = size.quotient(out).or_else(|| out.quotient(size));
            if self.mode == Mode::Area && whole.is_none_or(|ratio| ratio.as_const().is_none()) {
                let message = format!("mode `area` does not say how {size} elements become {out}");
                return Err(shape_error(message).help("the mean is defined where one size is a multiple of the other"));
            }
        }
        Ok(vec![Fact::new(data.element, plan.out)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let open = self.find_sizes(builder)?;
        let plan = self.plan(builder.facts(), open)?;
        let (mode, transform) = self.mode(builder.facts())?;
        if mode == Mode::Nearest {
            return nearest::lower(builder, &plan, transform, self.rounding);
        }
        let mut from = if plan.padded() { pad(builder, x, &plan)? } else { x };
        let kernel = self.kernel(mode, &plan.resizes);
        let wide = weighted_in(builder.element(x));
        let resizes = ordered(plan.resizes, kernel.rounds_each_pass());
        let Some(last) = resizes.len().checked_sub(1) else {
            builder.reshape(from, out);
            return Ok(());
        };
        let element = builder.element(x);
        for (i, resize) in resizes.iter().enumerate() {
            let taps = kernel.taps(builder, resize, &resizes, transform, wide)?;
            let mut to = out;
            if i < last {
                let mut dims = builder.dims(from);
                if let Some(slot) = dims.get_mut(resize.axis) {
                    *slot = resize.out.clone();
                }
                let rounded = kernel.rounds_each_pass() && element.is_integer();
                to = builder.temporary(if rounded { element } else { wide }, dims);
            }
            pass(builder, (from, to), resize.axis, &taps, wide)?;
            from = to;
        }
        Ok(())
    }
}

/// Resizes in the order of the passes: what shrinks most first, so that least is computed. Where sizes grow alike, the
/// passes along slow dimensions, whose loops run along memory, come last and do most of the work; where they shrink
/// alike, first. Modes that round after every pass have an order of their own: the last axis first.
fn ordered(mut resizes: Vec<Resize>, fixed: bool) -> Vec<Resize> {
    if fixed {
        resizes.reverse();
        return resizes;
    }
    resizes.sort_by(|a, b| {
        let (x, y) = (a.growth(), b.growth());
        let slow_first = a.axis.cmp(&b.axis);
        x.total_cmp(&y).then(if x < 1.0 { slow_first } else { slow_first.reverse() })
    });
    resizes
}

/// The data within zeros.
fn pad(builder: &mut Builder, x: BufferId, plan: &Plan) -> Result<BufferId, Diagnostic> {
    let zero = Const::of(builder.scalar_type(x)?, 0.0);
    let to = builder.temporary(builder.element(x), plan.padded.clone());
    builder.map(to, |n, i| {
        let (index, bounds) = unpadded(plan, i);
        let zero = n.constant(zero);
        n.load_within(x, &index, bounds, zero)
    })?;
    Ok(to)
}

/// The index into the data that belongs to one into the padded data, and the conditions that there is such an element.
fn unpadded(plan: &Plan, index: &[Dim]) -> (Vec<Dim>, Vec<Bound>) {
    let (mut at, mut bounds) = (Vec::with_capacity(index.len()), Vec::new());
    let pads = plan.pads_begin.iter().zip(&plan.pads_end);
    for ((i, size), (before, after)) in index.iter().zip(&plan.data).zip(pads) {
        let value = i.clone() - *before;
        if *before > 0 || *after > 0 {
            bounds.push(Bound { value: value.clone(), limit: size.clone() });
        }
        at.push(value);
    }
    (at, bounds)
}

/// Longest weighted sum that is written out instead of looped over.
const UNROLLED: i64 = 4;

/// One nest: every element of `to` is a weighted sum of elements of `from` along `axis`.
fn pass(
    builder: &mut Builder,
    (from, to): (BufferId, BufferId),
    axis: usize,
    taps: &Taps,
    wide: ElementType,
) -> Result<(), Diagnostic> {
    let element = builder.element(to);
    builder.map(to, |n, i| {
        let position = i.get(axis).cloned().unwrap_or_default();
        let term = |n: &mut NestBuilder, tap: Dim| {
            let entry = [tap, position.clone()];
            let at = n.load(taps.index, &entry)?;
            let mut index = i.to_vec();
            if let Some(slot) = index.get_mut(axis) {
                *slot = n.as_index(at);
            }
            let value = n.load(from, &index)?;
            let (value, weight) = (n.cast(wide, value), n.load(taps.weight, &entry)?);
            Ok::<Node, Diagnostic>(n.binary(Binary::Mul, value, weight))
        };
        let sum = match taps.count.as_const() {
            Some(count) if (1..=UNROLLED).contains(&count) => {
                let mut sum = term(n, Dim::constant(0))?;
                for tap in 1..count {
                    let next = term(n, Dim::constant(tap))?;
                    sum = n.binary(Binary::Add, sum, next);
                }
                sum
            }
            _ => {
                let tap = n.reduction_axis(&taps.count);
                let term = term(n, tap)?;
                n.reduce(ReduceFn::Sum, term)
            }
        };
        Ok(rounded(n, sum, element))
    })
}

/// Integers take the nearest value that they have, halves away from zero.
fn rounded(n: &mut NestBuilder, value: Node, element: ElementType) -> Node {
    if !element.is_integer() {
        return value;
    }
    let nearest = n.unary(Unary::RoundHalfAway, value);
    saturated(n, nearest, element)
}
