//! Conversion of images between colours and planes of luma and chroma: NV12toRGB, I420toRGB, RGBtoNV12 and those with BGR.
//!
//! Bytes are computed in f32 and rounded, halves away from zero; results lie between 0 and 255.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, ReduceFn, Unary};
use crate::read::{Attributes, Layer};
use crate::tensor::Tensor;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    encoder("BGRtoNV12", |a| to_planes(a, true)),
    decoder("I420toBGR", 1..=3, |_| from_planes(Planes::Three, true)),
    decoder("I420toRGB", 1..=3, |_| from_planes(Planes::Three, false)),
    decoder("NV12toBGR", 1..=2, |_| from_planes(Planes::Two, true)),
    decoder("NV12toRGB", 1..=2, |_| from_planes(Planes::Two, false)),
    encoder("RGBtoNV12", |a| to_planes(a, false)),
];

type Parse = fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>;

const fn decoder(name: &'static str, inputs: RangeInclusive<usize>, parse: Parse) -> OpDef {
    let (version, opsets) = (8, 8..=17);
    OpDef { name, version, opsets, inputs, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

const fn encoder(name: &'static str, parse: Parse) -> OpDef {
    let (version, opsets) = (17, 17..=17);
    OpDef { name, version, opsets, inputs: 1..=1, outputs: ports, parse, ignorable: &[], support: Support::Full }
}

fn ports(layer: &Layer) -> usize {
    layer.output_ports.len()
}

/// Which planes there are besides luma: chroma has half the height and half the width.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planes {
    /// One with pairs of U and V.
    Two,
    /// One of U and one of V.
    Three,
}

fn from_planes(planes: Planes, reversed: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(FromPlanes { planes, reversed }))
}

fn to_planes(attributes: &Attributes, reversed: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    let single = attributes.bool("single_plane", true)?;
    let planes = attributes.layer().output_ports.len();
    if planes != if single { 1 } else { 2 } {
        let message = format!("the layer has {planes} outputs, but `single_plane` is {single}");
        return Err(Diagnostic::error(&codes::BAD_ATTRIBUTE, message).at(attributes.layer().span));
    }
    Ok(Rc::new(ToPlanes { single, reversed }))
}

fn element(fact: &Fact) -> Result<ElementType, Diagnostic> {
    if fact.element == ElementType::U8 {
        return Ok(fact.element);
    }
    typing::float(fact.element, "an image that is not of bytes")?;
    Ok(fact.element)
}

/// The type in which colours are computed.
fn computed_in(element: ElementType) -> ElementType {
    if element == ElementType::F64 { ElementType::F64 } else { ElementType::F32 }
}

/// The four dimensions of an image with channels last.
fn image(fact: &Fact) -> Result<[&Dim; 4], Diagnostic> {
    match fact.dims.as_slice() {
        [batch, height, width, channels] => Ok([batch, height, width, channels]),
        dims => Err(shape_error(format!("an image has 4 dimensions, not {}", dims.len()))),
    }
}

fn half(size: &Dim) -> Dim {
    size.floor_div(&Dim::constant(2))
}

/// A sum with literal factors: one row of factors per result.
fn factors(builder: &mut Builder, rows: &[[f32; 3]]) -> BufferId {
    let values: Vec<f32> = rows.iter().flatten().copied().collect();
    builder.constant(Tensor::from_f32s(vec![rows.len(), 3], &values))
}

/// A value between 0 and 255, rounded for bytes.
fn clipped(n: &mut NestBuilder, value: Node, element: ElementType) -> Node {
    let value = if element.is_integer() { n.unary(Unary::RoundHalfAway, value) } else { value };
    let (low, high) = (n.constant_like(value, 0.0), n.constant_like(value, 255.0));
    let above = n.binary(Binary::Max, value, low);
    n.binary(Binary::Min, above, high)
}

/// `a * 1.164 + u * .. + v * ..` with a = Y - 16, u = U - 128, v = V - 128. All planes are operands of their own, or lie
/// one behind the other in a single one of 3 / 2 the height.
#[derive(Debug)]
struct FromPlanes {
    planes: Planes,
    /// Blue comes first.
    reversed: bool,
}

/// Factors of Y, U and V in red, green and blue.
const COLOURS: [[f32; 3]; 3] = [[1.164, 0.0, 1.596], [1.164, -0.391, -0.813], [1.164, 2.018, 0.0]];

impl FromPlanes {
    /// Height of the image.
    fn height(&self, inputs: &[Fact]) -> Result<Dim, Diagnostic> {
        let [_, height, ..] = image(operand(inputs, 0)?)?;
        Ok(if inputs.len() == 1 { height.floor_div(&Dim::constant(3)) * 2 } else { height.clone() })
    }

    /// Y, U and V at a pixel.
    fn samples(&self, builder: &mut Builder) -> Result<Samples, Diagnostic> {
        let facts = builder.facts();
        let [batch, rows, width, _] = image(operand(facts, 0)?)?;
        let height = self.height(facts)?;
        let luma = height.clone() * width;
        let mut planes = Vec::new();
        for i in 0..builder.input_count() {
            planes.push(builder.input(i)?);
        }
        let [single] = planes.as_slice() else { return Ok(Samples { planes, luma: None, width: width.clone() }) };
        let flat = builder.temporary(builder.element(*single), vec![batch.clone(), rows.clone() * width]);
        builder.reshape(*single, flat);
        Ok(Samples { planes: vec![flat], luma: Some(luma), width: width.clone() })
    }

    fn load(&self, n: &mut NestBuilder, samples: &Samples, pixel: [&Dim; 3]) -> Result<[Node; 3], Diagnostic> {
        let [batch, y, x] = pixel;
        let (row, column, zero) = (half(y), half(x), Dim::constant(0));
        let mut read = |plane: usize, index: &[Dim]| {
            let plane = samples.planes.get(plane).ok_or_else(|| Diagnostic::internal("a plane is missing"))?;
            n.load(*plane, index)
        };
        if let Some(luma) = &samples.luma {
            let (width, narrow) = (&samples.width, half(&samples.width));
            let at = y.clone() * width + x;
            let [u, v] = match self.planes {
                Planes::Two => {
                    let u = luma.clone() + &(row * width) + &(column * 2);
                    [u.clone(), u + 1]
                }
                Planes::Three => {
                    let u = luma.clone() + &(row * &narrow) + &column;
                    [u.clone(), u + &(half(luma).floor_div(&Dim::constant(2)))]
                }
            };
            let mut read = |at: Dim| read(0, &[batch.clone(), at]);
            return Ok([read(at)?, read(u)?, read(v)?]);
        }
        let luma = read(0, &[batch.clone(), y.clone(), x.clone(), zero.clone()])?;
        let chroma = |channel: Dim| [batch.clone(), row.clone(), column.clone(), channel];
        Ok(match self.planes {
            Planes::Two => [luma, read(1, &chroma(zero))?, read(1, &chroma(Dim::constant(1)))?],
            Planes::Three => [luma, read(1, &chroma(zero.clone()))?, read(2, &chroma(zero))?],
        })
    }
}

/// Where luma and chroma lie.
struct Samples {
    /// One per plane, or a single one with dimensions [N, elements].
    planes: Vec<BufferId>,
    /// Number of elements of luma in a single plane.
    luma: Option<Dim>,
    width: Dim,
}

impl Op for FromPlanes {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let first = operand(inputs, 0)?;
        let element = element(first)?;
        typing::equal(inputs)?;
        if self.planes == Planes::Three && inputs.len() == 2 {
            return Err(shape_error("an image comes in a single plane or in three, not in two"));
        }
        let [batch, rows, width, channels] = image(first)?;
        let height = self.height(inputs)?;
        let mut same = |a: &Dim, b: &Dim, what: &str| require_equal(context, a, b, what);
        same(channels, &Dim::constant(1), "channels of the first plane and what they must be")?;
        same(&(half(width) * 2), width, "the width and an even number")?;
        same(&(half(&height) * 2), &height, "the height and an even number")?;
        if inputs.len() == 1 {
            same(&(half(&height) * 3), rows, "rows of a single plane and 3 / 2 of the height")?;
        }
        let pair = if self.planes == Planes::Two { 2 } else { 1 };
        for plane in inputs.iter().skip(1) {
            let wanted = [batch.clone(), half(&height), half(width), Dim::constant(pair)];
            for (dim, wanted) in image(plane)?.into_iter().zip(&wanted) {
                same(dim, wanted, "dimensions of chroma and half of those of the image")?;
            }
        }
        Ok(vec![Fact::new(element, vec![batch.clone(), height, width.clone(), Dim::constant(3)])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let out = builder.output(0)?;
        let samples = self.samples(builder)?;
        let mut rows = COLOURS;
        if self.reversed {
            rows.reverse();
        }
        let factors = factors(builder, &rows);
        let element = builder.element(out);
        let wide = computed_in(element);
        builder.map(out, |n, i| {
            let [batch, y, x, colour] = i else { return Err(Diagnostic::internal("an image without 4 dimensions")) };
            let parts = self.load(n, &samples, [batch, y, x])?;
            let mut sum = None;
            for ((part, black), column) in parts.into_iter().zip([16.0, 128.0, 128.0]).zip(0i64..) {
                let part = n.cast(wide, part);
                let black = n.constant_like(part, black);
                let part = n.binary(Binary::Sub, part, black);
                let factor = n.load(factors, &[colour.clone(), Dim::constant(column)])?;
                let factor = n.cast(wide, factor);
                let term = n.binary(Binary::Mul, factor, part);
                sum = Some(sum.map_or(term, |sum| n.binary(Binary::Add, sum, term)));
            }
            let sum = sum.ok_or_else(|| Diagnostic::internal("a colour of nothing"))?;
            Ok(clipped(n, sum, element))
        })
    }
}

/// RGBtoNV12-17, BGRtoNV12-17: a plane of luma and one with pairs of U and V, each the mean of four pixels. A single
/// plane holds them one above the other.
#[derive(Debug)]
struct ToPlanes {
    single: bool,
    /// Blue comes first.
    reversed: bool,
}

/// Factors of red, green and blue in Y, U and V.
const SAMPLES: [[f32; 3]; 3] = [[0.257, 0.504, 0.098], [-0.148, -0.291, 0.439], [0.439, -0.368, -0.071]];

impl ToPlanes {
    /// A component of a pixel.
    fn component(
        &self,
        n: &mut NestBuilder,
        (x, factors): (BufferId, BufferId),
        pixel: [&Dim; 3],
        (row, black): (&Dim, f64),
        element: ElementType,
    ) -> Result<Node, Diagnostic> {
        let wide = computed_in(element);
        let mut sum = None;
        for colour in 0..3i64 {
            let channel = Dim::constant(if self.reversed { 2 - colour } else { colour });
            let index: Vec<Dim> = pixel.into_iter().cloned().chain([channel]).collect();
            let (value, factor) = (n.load(x, &index)?, n.load(factors, &[row.clone(), Dim::constant(colour)])?);
            let (value, factor) = (n.cast(wide, value), n.cast(wide, factor));
            let term = n.binary(Binary::Mul, factor, value);
            sum = Some(sum.map_or(term, |sum| n.binary(Binary::Add, sum, term)));
        }
        let sum = sum.ok_or_else(|| Diagnostic::internal("a component of nothing"))?;
        let black = n.constant_like(sum, black);
        let value = n.binary(Binary::Add, sum, black);
        Ok(clipped(n, value, element))
    }
}

impl Op for ToPlanes {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let fact = operand(inputs, 0)?;
        let element = element(fact)?;
        let [batch, height, width, channels] = image(fact)?;
        require_equal(context, channels, &Dim::constant(3), "channels of an image and what they must be")?;
        for (size, what) in [(height, "the height and an even number"), (width, "the width and an even number")] {
            require_equal(context, &(half(size) * 2), size, what)?;
        }
        let plane = |height: Dim, width: Dim, channels: i64| {
            Fact::new(element, vec![batch.clone(), height, width, Dim::constant(channels)])
        };
        Ok(match self.single {
            true => vec![plane(half(height) * 3, width.clone(), 1)],
            false => vec![plane(height.clone(), width.clone(), 1), plane(half(height), half(width), 2)],
        })
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, luma) = (builder.input(0)?, builder.output(0)?);
        let chroma = builder.output(if self.single { 0 } else { 1 })?;
        let [batch, height, width, _] = image(builder.fact(0)?)?;
        let element = builder.element(x);
        let (rows, zero) = (factors(builder, &SAMPLES), Dim::constant(0));
        let mut n = builder.nest(&[batch.clone(), height.clone(), width.clone()]);
        let axes = n.map_axes();
        let [b, y, x_at] = axes.as_slice() else { return Err(Diagnostic::internal("a nest without axes")) };
        let value = self.component(&mut n, (x, rows), [b, y, x_at], (&zero, 16.0), element)?;
        n.store(luma, &[b.clone(), y.clone(), x_at.clone(), zero.clone()], value);
        let two = Dim::constant(2);
        let mut n = builder.nest(&[batch.clone(), half(height), half(width), two.clone()]);
        let axes = n.map_axes();
        let (dy, dx) = (n.reduction_axis(&two), n.reduction_axis(&two));
        let [b, row, column, pair] = axes.as_slice() else { return Err(Diagnostic::internal("a nest without axes")) };
        let (y, x_at) = (row.clone() * 2 + &dy, column.clone() * 2 + &dx);
        let value = self.component(&mut n, (x, rows), [b, &y, &x_at], (&(pair.clone() + 1), 128.0), element)?;
        let sum = n.reduce(ReduceFn::Sum, value);
        let four = n.constant_like(sum, 4.0);
        let mean = n.binary(Binary::Div, sum, four);
        let mean = clipped(&mut n, mean, element);
        let to = match self.single {
            true => [b.clone(), row.clone() + height, column.clone() * 2 + pair, zero],
            false => [b.clone(), row.clone(), column.clone(), pair.clone()],
        };
        n.store(chroma, &to, mean);
        Ok(())
    }
}
