//! Sampling of an image at given points: GridSample.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, shape_error, text};
use crate::op::sampling::{cubic_far, cubic_near, saturated, weighted_in};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ScalarType, Unary};
use crate::program::{Bound, BufferId};
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "GridSample",
    version: 9,
    opsets: 9..=17,
    inputs: 2..=2,
    outputs: one_output,
    parse: grid_sample,
    ignorable: &[],
    support: Support::Full,
}];

/// How a value follows from the elements around a point.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Bilinear,
    Bicubic,
    Nearest,
}

/// Which elements there are outside of the image.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// `out[n, c, y, x]` is the value of channel c of image n at the point whose coordinates, x and y between -1 and 1, are
/// `grid[n, y, x]`.
#[derive(Debug)]
struct GridSample {
    mode: Mode,
    padding: Padding,
    /// -1 and 1 are the centres of the first and last elements, else their outer edges.
    align_corners: bool,
}

fn grid_sample(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let modes = [("bilinear", Mode::Bilinear), ("bicubic", Mode::Bicubic), ("nearest", Mode::Nearest)];
    let paddings = [("zeros", Padding::Zeros), ("border", Padding::Border), ("reflection", Padding::Reflection)];
    Ok(Rc::new(GridSample {
        mode: attributes.choice_or("mode", &modes, Mode::Bilinear)?,
        padding: attributes.choice_or("padding_mode", &paddings, Padding::Zeros)?,
        align_corners: attributes.bool("align_corners", false)?,
    }))
}

/// Parameter of the cubic function.
const SHARPNESS: f64 = -0.75;

impl Op for GridSample {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (data, grid) = (operand(inputs, 0)?, operand(inputs, 1)?);
        typing::float(grid.element, "the grid")?;
        if self.mode != Mode::Nearest {
            typing::number(data.element, "the data of an interpolating GridSample")?;
        }
        let ([batch, channels, height, width], [points, rows, columns, pair]) =
            (data.dims.as_slice(), grid.dims.as_slice())
        else {
            let message = format!("data {} and grid {} must have 4 dimensions", text(&data.dims), text(&grid.dims));
            return Err(shape_error(message));
        };
        require_equal(context, batch, points, "batch sizes of data and grid")?;
        require_equal(context, pair, &Dim::constant(2), "the coordinates of a point and what they must be")?;
        if (height.is(0) || width.is(0)) && self.padding != Padding::Zeros {
            return Err(shape_error("an image without elements cannot be sampled"));
        }
        Ok(vec![Fact::new(data.element, vec![batch.clone(), channels.clone(), rows.clone(), columns.clone()])])
    }

    /// Where the points lie is computed once for all channels.
    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, grid, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let element = builder.element(x);
        let scalar = builder.scalar_type(grid)?;
        let wide = if scalar == ScalarType::F64 { ElementType::F64 } else { weighted_in(element) };
        let dims = builder.dims(x);
        let [_, _, height, width] = dims.as_slice() else {
            return Err(Diagnostic::internal("an image without 4 dimensions"));
        };
        let rows = self.places(builder, 1, height, wide)?;
        let columns = self.places(builder, 0, width, wide)?;
        builder.map(out, |n, i| {
            let [batch, channel, row, column] = i else { return Err(Diagnostic::internal("a point without a place")) };
            let point = [batch.clone(), row.clone(), column.clone()];
            let image = Image { op: self, buffer: x, batch, channel, sizes: [height, width] };
            if self.mode == Mode::Nearest {
                let (y, x) = (n.load(rows.first, &point)?, n.load(columns.first, &point)?);
                return image.element(n, y, x);
            }
            let (rows, columns) = (self.taps(n, &rows, &point)?, self.taps(n, &columns, &point)?);
            let value = image.weighted(n, &rows, &columns, wide)?;
            // Integers are truncated.
            Ok(saturated(n, value, element))
        })
    }
}

/// Coordinates of all points along one dimension of the image, with dimensions [N, Y, X].
struct Places {
    /// The element at or before the point (i64), which may be outside; for `nearest` the nearest one.
    first: BufferId,
    /// Distance from it.
    fraction: BufferId,
}

/// An element beside a point, and its weight.
struct Tap {
    /// Index (i64), which may be outside.
    at: Node,
    weight: Node,
}

impl GridSample {
    /// The coordinate in elements.
    fn position(&self, n: &mut NestBuilder, value: Node, size: &Dim) -> Node {
        let element = n.type_of(value).element();
        let (one, two) = (n.constant_like(value, 1.0), n.constant_like(value, 2.0));
        let from_start = n.binary(Binary::Add, value, one);
        let size = n.index(size);
        let size = n.cast(element, size);
        let scaled = if self.align_corners {
            let last = n.binary(Binary::Sub, size, one);
            n.binary(Binary::Mul, from_start, last)
        } else {
            let scaled = n.binary(Binary::Mul, from_start, size);
            n.binary(Binary::Sub, scaled, one)
        };
        n.binary(Binary::Div, scaled, two)
    }

    fn places(&self, builder: &mut Builder, axis: i64, size: &Dim, wide: ElementType) -> Result<Places, Diagnostic> {
        let grid = builder.input(1)?;
        let points: Vec<Dim> = builder.dims(grid).into_iter().take(3).collect();
        let (first, fraction) = (builder.temporary(ElementType::I64, points.clone()), builder.temporary(wide, points));
        let coordinate = |n: &mut NestBuilder, point: &[Dim]| {
            let index: Vec<Dim> = point.iter().cloned().chain([Dim::constant(axis)]).collect();
            let value = n.load(grid, &index)?;
            let coordinate = self.position(n, value, size);
            let rounding = if self.mode == Mode::Nearest { Unary::Round } else { Unary::Floor };
            Ok::<[Node; 2], Diagnostic>([coordinate, n.unary(rounding, coordinate)])
        };
        builder.map(first, |n, point| Ok(coordinate(n, point)?[1]))?;
        if self.mode != Mode::Nearest {
            builder.map(fraction, |n, point| {
                let [coordinate, floor] = coordinate(n, point)?;
                Ok(n.binary(Binary::Sub, coordinate, floor))
            })?;
        }
        Ok(Places { first, fraction })
    }

    /// The two or four elements beside a point.
    fn taps(&self, n: &mut NestBuilder, places: &Places, point: &[Dim]) -> Result<Vec<Tap>, Diagnostic> {
        let (first, fraction) = (n.load(places.first, point)?, n.load(places.fraction, point)?);
        let (one, two) = (n.constant_like(fraction, 1.0), n.constant_like(fraction, 2.0));
        let rest = n.binary(Binary::Sub, one, fraction);
        let weights = match self.mode {
            Mode::Bicubic => {
                let (before, behind) = (n.binary(Binary::Add, fraction, one), n.binary(Binary::Sub, two, fraction));
                vec![
                    (-1, cubic_far(n, before, SHARPNESS)),
                    (0, cubic_near(n, fraction, SHARPNESS)),
                    (1, cubic_near(n, rest, SHARPNESS)),
                    (2, cubic_far(n, behind, SHARPNESS)),
                ]
            }
            _ => vec![(0, rest), (1, fraction)],
        };
        let tap = |(step, weight)| {
            let step = n.constant(Const::I64(step));
            Tap { at: n.binary(Binary::Add, first, step), weight }
        };
        Ok(weights.into_iter().map(tap).collect())
    }

    /// The index of an element of the image that stands at `at`.
    fn inside(&self, at: Dim, size: &Dim) -> Dim {
        let (zero, last) = (Dim::constant(0), size.clone() - 1);
        match self.padding {
            Padding::Zeros => at,
            Padding::Border => at.maximum(&zero).minimum(&last),
            Padding::Reflection if self.align_corners => {
                // 0 1 2 3 2 1 0 1 ..: the ends do not repeat.
                let period = (last * 2).maximum(&Dim::constant(1));
                let phase = at.modulo(&period);
                phase.minimum(&(period - &phase))
            }
            Padding::Reflection => {
                // 0 1 2 3 3 2 1 0 0 1 ..
                let period = size.clone() * 2;
                let phase = at.modulo(&period);
                phase.minimum(&(period - 1 - &phase))
            }
        }
    }
}

/// One channel of one image.
struct Image<'a> {
    op: &'a GridSample,
    buffer: BufferId,
    batch: &'a Dim,
    channel: &'a Dim,
    /// Height and width.
    sizes: [&'a Dim; 2],
}

impl Image<'_> {
    fn element(&self, n: &mut NestBuilder, y: Node, x: Node) -> Result<Node, Diagnostic> {
        let [height, width] = self.sizes;
        let (y, x) = (n.as_index(y), n.as_index(x));
        let (y, x) = (self.op.inside(y, height), self.op.inside(x, width));
        let bound = |value: &Dim, limit: &Dim| Bound { value: value.clone(), limit: limit.clone() };
        let bounds = match self.op.padding {
            Padding::Zeros => vec![bound(&y, height), bound(&x, width)],
            Padding::Border | Padding::Reflection => Vec::new(),
        };
        let index = [self.batch.clone(), self.channel.clone(), y, x];
        let zero = n.zero_of(self.buffer)?;
        n.load_within(self.buffer, &index, bounds, zero)
    }

    /// The sum of elements times their weights in both directions.
    fn weighted(
        &self,
        n: &mut NestBuilder,
        rows: &[Tap],
        columns: &[Tap],
        wide: ElementType,
    ) -> Result<Node, Diagnostic> {
        let mut total = None;
        for row in rows {
            let mut along = None;
            for column in columns {
                let element = self.element(n, row.at, column.at)?;
                let element = n.cast(wide, element);
                add_product(n, &mut along, element, column.weight);
            }
            if let Some(along) = along {
                add_product(n, &mut total, along, row.weight);
            }
        }
        total.ok_or_else(|| Diagnostic::internal("a point without elements"))
    }
}

fn add_product(n: &mut NestBuilder, sum: &mut Option<Node>, value: Node, weight: Node) {
    let product = n.binary(Binary::Mul, value, weight);
    *sum = Some(sum.map_or(product, |sum| n.binary(Binary::Add, sum, product)));
}
