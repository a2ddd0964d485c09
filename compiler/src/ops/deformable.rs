//! Convolution whose taps are moved by offsets: DeformableConvolution.
//!
//! The first nest takes a sample for every tap of every window, the second one is an ordinary sum of products.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{MapAxes, operand, require_equal, shape_error, text};
use crate::op::window::{Slide, Window, positive, reduce, reduction_axis};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, Unary};
use crate::program::{Bound, BufferId};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("DeformableConvolution", 1, 1..=7, 3..=3, |a| deformable(a, false)),
    row("DeformableConvolution", 8, 8..=17, 3..=4, |a| deformable(a, a.bool("bilinear_interpolation_pad", false)?)),
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

/// `out[n, g * O + o, y, x] = sum over c, ky, kx of sample[n, g * C + c, ky, kx, y, x] * w[g * O + o, c, ky, kx]`, where
/// the sample lies at `y * stride + ky * dilation - pad + offset[n, d, ky, kx, 0, y, x]`, the same for x with offset 1,
/// between four elements of the data, and is multiplied by `mask[n, d, ky, kx, y, x]`. Channels are divided into
/// groups for the weights (g) and for offsets and masks (d).
#[derive(Debug)]
struct DeformableConvolution {
    window: Window,
    groups: i64,
    offset_groups: i64,
    /// Samples less than one element outside see zeros there, else only those inside count.
    pad: bool,
}

fn deformable(attributes: &Attributes, pad: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    let mut window = Window::parse(attributes)?;
    window.dilations = positive(attributes, "dilations", attributes.ints("dilations")?)?;
    let groups = |name: &str| match attributes.int_or(name, 1)? {
        groups if groups < 1 => Err(attributes.invalid(name, "a positive number")),
        groups => Ok(groups),
    };
    let (groups, offset_groups) = (groups("group")?, groups("deformable_group")?);
    Ok(Rc::new(DeformableConvolution { window, groups, offset_groups, pad }))
}

/// Dimensions by their meaning.
struct Shape {
    batch: Dim,
    /// Channels of the data in each group of weights, and in each group of offsets.
    channels: [Dim; 2],
    /// Channels of the result in each group.
    outs: Dim,
    slides: Vec<Slide>,
}

impl DeformableConvolution {
    fn shape(&self, inputs: &[Fact]) -> Result<Shape, Diagnostic> {
        let (x, w) = (operand(inputs, 0)?, operand(inputs, 2)?);
        let ([batch, channels, sizes @ ..], [outs, ins, kernel @ ..]) = (x.dims.as_slice(), w.dims.as_slice()) else {
            return Err(shape_error("data and weights must have 4 dimensions"));
        };
        if sizes.len() != 2 || kernel.len() != 2 {
            let message = format!("data {} and weights {} must have 4 dimensions", text(&x.dims), text(&w.dims));
            return Err(shape_error(message));
        }
        let slides = self.window.slides(sizes, kernel)?;
        let outs = outs.floor_div(&Dim::constant(self.groups));
        let per_offset = channels.floor_div(&Dim::constant(self.offset_groups));
        Ok(Shape { batch: batch.clone(), channels: [ins.clone(), per_offset], outs, slides })
    }
}

impl Op for DeformableConvolution {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (x, w) = (operand(inputs, 0)?, operand(inputs, 2)?);
        typing::number(x.element, "the data of a DeformableConvolution")?;
        typing::equal(inputs)?;
        let Shape { batch, channels: [ins, per_offset], outs, slides } = self.shape(inputs)?;
        let channels = |fact: &Fact, i: usize| fact.dims.get(i).cloned().unwrap_or_default();
        let mut same = |a: &Dim, b: &Dim, what: &str| require_equal(context, a, b, what);
        same(&(ins * self.groups), &channels(x, 1), "channels of the data and of all groups of weights")?;
        same(&(per_offset * self.offset_groups), &channels(x, 1), "channels and a multiple of the deformable groups")?;
        same(&(outs * self.groups), &channels(w, 0), "output channels and a multiple of the groups")?;
        let taps = slides.iter().fold(Dim::constant(self.offset_groups), |taps, slide| taps * &slide.kernel);
        let spatial: Vec<Dim> = slides.into_iter().map(|slide| slide.out).collect();
        for (i, (count, what)) in [(1, (taps.clone() * 2, "offsets")), (3, (taps, "the mask"))] {
            let Some(fact) = inputs.get(i) else { continue };
            if fact.rank() != 4 {
                return Err(shape_error(format!("{what} must have 4 dimensions, not {}", fact.rank())));
            }
            for (dim, wanted) in fact.dims.iter().zip([&batch, &count].into_iter().chain(&spatial)) {
                same(dim, wanted, &format!("a dimension of {what} and what windows and groups ask for"))?;
            }
        }
        let dims = [batch, channels(w, 0)].into_iter().chain(spatial).collect();
        Ok(vec![Fact::new(x.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let shape = self.shape(builder.facts())?;
        let samples = self.lower_samples(builder, &shape)?;
        let (w, out) = (builder.input(2)?, builder.output(0)?);
        let wide = builder.element(samples);
        let mut maps = MapAxes::default();
        let (b, g, o) = (maps.axis(&shape.batch), maps.axis(&Dim::constant(self.groups)), maps.axis(&shape.outs));
        let at: Vec<Dim> = shape.slides.iter().map(|slide| maps.axis(&slide.out)).collect();
        let mut n = builder.nest(&maps.extents);
        let taps: Vec<Dim> = shape.slides.iter().map(|slide| reduction_axis(&mut n, &slide.kernel)).collect();
        let [ins, _] = &shape.channels;
        let c = reduction_axis(&mut n, ins);
        let out_channel = g.clone() * &shape.outs + &o;
        let sample: Vec<Dim> = std::iter::once(&b).chain(&at).chain(&taps).cloned().chain([g * ins + &c]).collect();
        let weight: Vec<Dim> = [&out_channel, &c].into_iter().chain(&taps).cloned().collect();
        let (sample, weight) = (n.load(samples, &sample)?, n.load(w, &weight)?);
        let weight = n.cast(wide, weight);
        let product = n.binary(Binary::Mul, sample, weight);
        let axes: Vec<Dim> = taps.into_iter().chain([c]).collect();
        let sum = reduce(&mut n, ReduceFn::Sum, &axes, product);
        let to: Vec<Dim> = [b, out_channel].into_iter().chain(at).collect();
        n.store(out, &to, sum);
        Ok(())
    }
}

/// A coordinate between two elements.
struct Between {
    low: Node,
    high: Node,
    /// Weights of the two.
    weights: [Node; 2],
    /// Whether the sample counts.
    counts: Node,
}

impl DeformableConvolution {
    /// All samples, with dimensions [N, Y, X, KY, KX, C].
    fn lower_samples(&self, builder: &mut Builder, shape: &Shape) -> Result<BufferId, Diagnostic> {
        let (x, offsets) = (builder.input(0)?, builder.input(1)?);
        let mask = if builder.input_count() > 3 { Some(builder.input(3)?) } else { None };
        let scalar = builder.scalar_type(x)?;
        let real = if scalar.is_float() { scalar.element() } else { ElementType::F32 };
        let [_, per_group] = &shape.channels;
        let (kernel, windows): (Vec<Dim>, Vec<Dim>) =
            shape.slides.iter().map(|slide| (slide.kernel.clone(), slide.out.clone())).unzip();
        let all = per_group.clone() * self.offset_groups;
        let dims = std::iter::once(&shape.batch).chain(&windows).chain(&kernel).chain([&all]).cloned().collect();
        let to = builder.temporary(scalar.element(), dims);
        let mut maps = MapAxes::default();
        let (b, at, taps) = (maps.axis(&shape.batch), maps.axes(&windows), maps.axes(&kernel));
        let (d, c) = (maps.axis(&Dim::constant(self.offset_groups)), maps.axis(per_group));
        let channel = d.clone() * per_group + &c;
        let mut n = builder.nest(&maps.extents);
        let tap = taps.iter().zip(&kernel).fold(d, |flat, (tap, size)| flat * size + tap);
        let parameter = |n: &mut NestBuilder, buffer: BufferId, index: Dim| {
            let index: Vec<Dim> = [b.clone(), index].into_iter().chain(at.iter().cloned()).collect();
            let value = n.load(buffer, &index)?;
            Ok::<Node, Diagnostic>(n.cast(real, value))
        };
        let mut places = Vec::with_capacity(2);
        for (axis, ((slide, window), k)) in (0i64..).zip(shape.slides.iter().zip(&at).zip(&taps)) {
            let offset = parameter(&mut n, offsets, tap.clone() * 2 + axis)?;
            let start = n.index(&slide.position(window, k));
            let start = n.cast(real, start);
            let coordinate = n.binary(Binary::Add, start, offset);
            places.push(self.between(&mut n, coordinate, &slide.size));
        }
        let mut value = interpolated(&mut n, x, [&b, &channel], &places, real)?;
        for place in &places {
            let nothing = n.constant_like(value, 0.0);
            value = n.select(place.counts, value, nothing);
        }
        if let Some(mask) = mask {
            let factor = parameter(&mut n, mask, tap)?;
            value = n.binary(Binary::Mul, value, factor);
        }
        let index: Vec<Dim> = std::iter::once(b.clone()).chain(at.clone()).chain(taps).chain([channel]).collect();
        n.store(to, &index, value);
        Ok(to)
    }

    fn between(&self, n: &mut NestBuilder, coordinate: Node, size: &Dim) -> Between {
        let real = n.type_of(coordinate).element();
        let floor = n.unary(Unary::Floor, coordinate);
        let low = n.cast(ElementType::I64, floor);
        let fraction = n.binary(Binary::Sub, coordinate, floor);
        let one = n.constant(Const::I64(1));
        let mut high = n.binary(Binary::Add, low, one);
        let limit = n.index(size);
        let end = n.cast(real, limit);
        let below = n.binary(Binary::Lt, coordinate, end);
        let above = if self.pad {
            let before = n.constant_like(coordinate, -1.0);
            n.binary(Binary::Lt, before, coordinate)
        } else {
            let last = n.index(&(size.clone() - 1));
            high = n.binary(Binary::Min, high, last);
            let first = n.constant_like(coordinate, 0.0);
            n.binary(Binary::Le, first, coordinate)
        };
        let whole = n.constant_like(fraction, 1.0);
        let rest = n.binary(Binary::Sub, whole, fraction);
        Between { low, high, weights: [rest, fraction], counts: n.binary(Binary::And, above, below) }
    }
}

/// The value between four elements of a channel, zero where there is none.
fn interpolated(
    n: &mut NestBuilder,
    x: BufferId,
    [batch, channel]: [&Dim; 2],
    places: &[Between],
    real: ElementType,
) -> Result<Node, Diagnostic> {
    let [y, x_place] = places else { return Err(Diagnostic::internal("a sample without coordinates")) };
    let sizes = n.dims(x);
    let mut sum = None;
    for (row, across) in [y.low, y.high].into_iter().zip(y.weights) {
        for (column, along) in [x_place.low, x_place.high].into_iter().zip(x_place.weights) {
            let at = [n.as_index(row), n.as_index(column)];
            let limits = at.iter().zip(sizes.iter().skip(2));
            let bounds = limits.map(|(at, size)| Bound { value: at.clone(), limit: size.clone() }).collect();
            let index: Vec<Dim> = [batch, channel].into_iter().chain(&at).cloned().collect();
            let zero = n.zero_of(x)?;
            let element = n.load_within(x, &index, bounds, zero)?;
            let (element, weight) = (n.cast(real, element), n.binary(Binary::Mul, across, along));
            let part = n.binary(Binary::Mul, weight, element);
            sum = Some(sum.map_or(part, |sum| n.binary(Binary::Add, sum, part)));
        }
    }
    sum.ok_or_else(|| Diagnostic::internal("a sample of no elements"))
}
