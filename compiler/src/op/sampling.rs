//! Values between the elements of images, and the lists of regions that detectors take them from.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, same_element, shape_error};
use crate::op::{InferContext, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, ScalarType, Unary};
use crate::program::{Bound, BufferId};
use crate::read::Attributes;

/// A positive attribute.
///
/// # Errors
/// A number below one, or none where there is no default.
pub fn positive(attributes: &Attributes, name: &str, default: Option<i64>) -> Result<i64, Diagnostic> {
    let value = match default {
        Some(default) => attributes.int_or(name, default)?,
        None => attributes.int(name)?,
    };
    if (1..=i64::from(i32::MAX)).contains(&value) {
        Ok(value)
    } else {
        Err(attributes.invalid(name, "a positive number"))
    }
}

/// Checks feature maps `[N, C, H, W]` (operand 0) and regions `[R, fields]` (operand 1) of one floating-point type.
/// Returns the feature maps and R.
///
/// # Errors
/// Other shapes or types.
pub fn regions<'f>(
    inputs: &'f [Fact],
    fields: i64,
    context: &mut InferContext,
) -> Result<(&'f Fact, &'f Dim), Diagnostic> {
    let (maps, regions) = (operand(inputs, 0)?, operand(inputs, 1)?);
    typing::float(maps.element, "the feature map")?;
    same_element(inputs, 0, 1)?;
    if maps.rank() != 4 {
        return Err(shape_error(format!("feature maps have {} dimensions, not 4", maps.rank())));
    }
    match regions.dims.as_slice() {
        [count, size] => {
            require_equal(context, size, &Dim::constant(fields), "the fields of a region and what they must be")?;
            Ok((maps, count))
        }
        dims => Err(shape_error(format!("regions have {} dimensions, not 2", dims.len()))),
    }
}

/// A new scalar with the number of regions (operand 1) before the first one whose batch index, field 0, is -1: that is
/// how Proposal ends a list that is shorter than its tensor.
///
/// # Errors
/// An internal error where operand 1 is missing.
pub fn listed(builder: &mut Builder) -> Result<BufferId, Diagnostic> {
    let regions = builder.input(1)?;
    let count = builder.dims(regions).first().cloned().unwrap_or_default();
    let out = builder.temporary(ElementType::I64, Vec::new());
    let mut n = builder.nest(&[]);
    let region = n.reduction_axis(&count);
    let batch = n.load(regions, &[region.clone(), Dim::constant(0)])?;
    let batch = n.cast(ElementType::I64, batch);
    let (end, region, count) = (n.constant(Const::I64(-1)), n.index(&region), n.index(&count));
    let ends = n.binary(Binary::Eq, batch, end);
    let place = n.select(ends, region, count);
    let first = n.reduce(ReduceFn::Min, place);
    n.store(out, &[], first);
    Ok(out)
}

/// Runs of pixels along one side of every region: `[regions, cells]`.
#[derive(Clone, Copy, Debug)]
pub struct Cells {
    first: BufferId,
    pixels: BufferId,
}

/// First pixel of a cell (second index) of a region (first index), and the first one behind it.
type Edges<'a> = dyn Fn(&mut NestBuilder, &Dim, &Dim) -> Result<[Node; 2], Diagnostic> + 'a;

impl Cells {
    /// New cells of the regions (operand 1), `count` each: `edges` gives the first pixel of a cell of a region, and the
    /// first one behind it.
    ///
    /// # Errors
    /// What `edges` returns.
    pub fn new(builder: &mut Builder, count: i64, edges: &Edges) -> Result<Self, Diagnostic> {
        let regions = builder.dims(builder.input(1)?).first().cloned().unwrap_or_default();
        let dims = vec![regions, Dim::constant(count)];
        let first = builder.temporary(ElementType::I64, dims.clone());
        let pixels = builder.temporary(ElementType::I64, dims);
        for out in [first, pixels] {
            builder.map(out, |n, i| {
                let [region, cell] = i else { return Err(Diagnostic::internal("cells lack dimensions")) };
                let [from, to] = edges(n, region, cell)?;
                Ok(if out == first { from } else { n.binary(Binary::Sub, to, from) })
            })?;
        }
        Ok(Cells { first, pixels })
    }

    /// A reduction axis over the pixels of a cell, at most `size`: their index and their number.
    ///
    /// # Errors
    /// An internal error where a buffer does not exist.
    pub fn axis(&self, n: &mut NestBuilder, at: [&Dim; 2], size: &Dim) -> Result<(Dim, Node), Diagnostic> {
        let at = at.map(Dim::clone);
        let (first, pixels) = (n.load(self.first, &at)?, n.load(self.pixels, &at)?);
        Ok((n.as_index(first) + n.counted_axis(pixels, size), pixels))
    }
}

/// Whether cells of `rows` and `columns` pixels have none.
pub fn empty(n: &mut NestBuilder, rows: Node, columns: Node) -> Node {
    let zero = n.constant(Const::I64(0));
    let (no_rows, no_columns) = (n.binary(Binary::Le, rows, zero), n.binary(Binary::Le, columns, zero));
    n.binary(Binary::Or, no_rows, no_columns)
}

/// Region, channel, row and column of a pooled region.
///
/// # Errors
/// An internal error where these are not the dimensions.
pub fn place(index: &[Dim]) -> Result<[&Dim; 4], Diagnostic> {
    let [region, channel, row, column] = index else {
        return Err(Diagnostic::internal("a pooled region lacks dimensions"));
    };
    Ok([region, channel, row, column])
}

/// One channel of the feature map that belongs to a region.
#[derive(Clone, Debug)]
pub struct Image {
    maps: BufferId,
    channel: Dim,
    first: First,
    /// Rows and columns.
    sizes: [Dim; 2],
}

/// Where an image begins.
#[derive(Clone, Debug)]
enum First {
    /// Image by number, in feature maps `[N, C, H, W]`.
    Batch(Dim),
    /// First pixel, in a list `[pixels, C]`.
    Pixel(Dim),
}

/// The pixels on both sides of a coordinate.
#[derive(Clone, Copy, Debug)]
pub struct Sides {
    /// The lower one.
    pub low: Node,
    /// The upper one.
    pub high: Node,
    /// Distance from the lower one.
    pub fraction: Node,
}

impl Image {
    /// The channel of feature maps (operand 0) whose batch index is `batch`, an integer.
    pub fn new(n: &mut NestBuilder, maps: BufferId, batch: Node, channel: &Dim) -> Self {
        let dims = n.dims(maps);
        let sizes = [2, 3].map(|axis: usize| dims.get(axis).cloned().unwrap_or_default());
        Image { maps, channel: channel.clone(), first: First::Batch(n.as_index(batch)), sizes }
    }

    /// The channel of an image of so many rows and columns in a list of pixels `[pixels, C]`, from pixel `first` on.
    pub fn of_pixels(n: &mut NestBuilder, pixels: BufferId, first: Node, sizes: [Node; 2], channel: &Dim) -> Self {
        let first = First::Pixel(n.as_index(first));
        Image { maps: pixels, channel: channel.clone(), first, sizes: sizes.map(|size| n.as_index(size)) }
    }

    /// The channel of feature maps that field 0 of a region names, for the first `listed` regions; see [`listed`].
    ///
    /// # Errors
    /// An internal error where a buffer does not exist.
    pub fn of_region(
        n: &mut NestBuilder,
        [maps, regions, listed]: [BufferId; 3],
        region: &Dim,
        channel: &Dim,
    ) -> Result<Self, Diagnostic> {
        let batch = n.load(regions, &[region.clone(), Dim::constant(0)])?;
        let batch = n.cast(ElementType::I64, batch);
        let (listed, region, none) = (n.load(listed, &[])?, n.index(region), n.constant(Const::I64(-1)));
        let exists = n.binary(Binary::Lt, region, listed);
        let batch = n.select(exists, batch, none);
        Ok(Image::new(n, maps, batch, channel))
    }

    /// Number of rows.
    pub fn height(&self) -> &Dim {
        &self.sizes[0]
    }

    /// Number of columns.
    pub fn width(&self) -> &Dim {
        &self.sizes[1]
    }

    /// A pixel; zero outside.
    ///
    /// # Errors
    /// An internal error where the buffer does not exist.
    pub fn pixel(&self, n: &mut NestBuilder, y: Node, x: Node) -> Result<Node, Diagnostic> {
        let (y, x) = (n.as_index(y), n.as_index(x));
        self.pixel_at(n, &y, &x)
    }

    /// The same by index expressions.
    ///
    /// # Errors
    /// An internal error where the buffer does not exist.
    pub fn pixel_at(&self, n: &mut NestBuilder, y: &Dim, x: &Dim) -> Result<Node, Diagnostic> {
        let inside = |value: &Dim, limit: &Dim| Bound { value: value.clone(), limit: limit.clone() };
        let mut bounds = vec![inside(y, self.height()), inside(x, self.width())];
        let channel = self.channel.clone();
        let at = match &self.first {
            First::Batch(batch) => {
                let images = n.dims(self.maps).first().cloned().unwrap_or_default();
                bounds.insert(0, inside(batch, &images));
                vec![batch.clone(), channel, y.clone(), x.clone()]
            }
            First::Pixel(first) => vec![y.clone() * self.width() + x + first, channel],
        };
        let zero = n.zero_of(self.maps)?;
        n.load_within(self.maps, &at, bounds, zero)
    }

    /// The value between four pixels, linear in both directions.
    ///
    /// # Errors
    /// An internal error where the buffer does not exist.
    pub fn between(&self, n: &mut NestBuilder, y: Sides, x: Sides) -> Result<Node, Diagnostic> {
        let zero = n.zero_of(self.maps)?;
        let element = n.type_of(zero).element();
        let (down, right) = (n.cast(element, y.fraction), n.cast(element, x.fraction));
        let one = n.constant_like(zero, 1.0);
        let (up, left) = (n.binary(Binary::Sub, one, down), n.binary(Binary::Sub, one, right));
        let mut sum = None;
        for (row, weight) in [(y.low, up), (y.high, down)] {
            for (column, share) in [(x.low, left), (x.high, right)] {
                let (pixel, weight) = (self.pixel(n, row, column)?, n.binary(Binary::Mul, weight, share));
                let part = n.binary(Binary::Mul, weight, pixel);
                sum = Some(sum.map_or(part, |sum| n.binary(Binary::Add, sum, part)));
            }
        }
        sum.ok_or_else(|| Diagnostic::internal("no pixels"))
    }
}

/// The pixels around a coordinate that is not below zero, along a dimension of the given size. From the last pixel on,
/// both sides are that pixel.
pub fn sides(n: &mut NestBuilder, coordinate: Node, size: &Dim) -> Sides {
    let element = n.type_of(coordinate).element();
    let low = n.unary(Unary::Floor, coordinate);
    let low = n.cast(ElementType::I64, low);
    let (last, one) = (n.index(&(size.clone() - 1)), n.constant(Const::I64(1)));
    let at_end = n.binary(Binary::Le, last, low);
    let low = n.binary(Binary::Min, low, last);
    let next = n.binary(Binary::Add, low, one);
    let high = n.binary(Binary::Min, next, last);
    let (from, nothing) = (n.cast(element, low), n.constant_like(coordinate, 0.0));
    let distance = n.binary(Binary::Sub, coordinate, from);
    Sides { low, high, fraction: n.select(at_end, nothing, distance) }
}

/// Whether `low <= value <= high`.
pub fn inside(n: &mut NestBuilder, value: Node, low: Node, high: Node) -> Node {
    let (above, below) = (n.binary(Binary::Le, low, value), n.binary(Binary::Le, value, high));
    n.binary(Binary::And, above, below)
}

/// The type in which elements are weighted: f64 where f32 does not hold all of them.
pub fn weighted_in(element: ElementType) -> ElementType {
    match ScalarType::of(element) {
        Some(ScalarType::F32 | ScalarType::Bool) | None => ElementType::F32,
        Some(ScalarType::I32) if element.bits() <= 16 => ElementType::F32,
        _ => ElementType::F64,
    }
}

/// A float within the range of an integer type; other types stay as they are.
pub fn saturated(n: &mut NestBuilder, value: Node, element: ElementType) -> Node {
    if !element.is_integer() {
        return value;
    }
    let precision = if n.type_of(value) == ScalarType::F64 { 53 } else { 24 };
    let bits = element.bits().min(64) as i32 - i32::from(element.is_signed());
    let end = 2f64.powi(bits);
    // The largest float of the range: the largest integer, where floats are that fine.
    let high = end - 2f64.powi((bits - precision).max(0));
    let low = if element.is_signed() { -end } else { 0.0 };
    let (low, high) = (n.constant_like(value, low), n.constant_like(value, high));
    let above = n.binary(Binary::Max, value, low);
    n.binary(Binary::Min, above, high)
}

/// Keys' cubic function with parameter `a` for distances up to 1: `((a + 2) d - (a + 3)) d d + 1`.
pub fn cubic_near(n: &mut NestBuilder, distance: Node, a: f64) -> Node {
    let inner = polynomial(n, distance, &[a + 2.0, -(a + 3.0)]);
    let square = n.binary(Binary::Mul, inner, distance);
    let product = n.binary(Binary::Mul, square, distance);
    let one = n.constant_like(distance, 1.0);
    n.binary(Binary::Add, product, one)
}

/// Keys' cubic function with parameter `a` for distances from 1 to 2: `((a d - 5 a) d + 8 a) d - 4 a`.
pub fn cubic_far(n: &mut NestBuilder, distance: Node, a: f64) -> Node {
    polynomial(n, distance, &[a, -5.0 * a, 8.0 * a, -4.0 * a])
}

/// A polynomial by Horner's rule; the highest coefficient first.
fn polynomial(n: &mut NestBuilder, x: Node, coefficients: &[f64]) -> Node {
    let mut sum = None;
    for coefficient in coefficients {
        let coefficient = n.constant_like(x, *coefficient);
        sum = Some(match sum {
            None => coefficient,
            Some(sum) => {
                let product = n.binary(Binary::Mul, sum, x);
                n.binary(Binary::Add, product, coefficient)
            }
        });
    }
    sum.unwrap_or(x)
}
