//! ROIAlign and ROIAlignRotated: regions sampled at points between pixels.

use super::{pooled, result, scale};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::points::{self, Points};
use crate::op::sampling::{Image, place, regions};
use crate::op::{InferContext, Op, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, ReduceFn, Unary};
use crate::read::Attributes;
use std::rc::Rc;

/// Cells of a region and the points in every cell at which it is sampled.
#[derive(Debug)]
struct Grid {
    pooled: [i64; 2],
    /// Points along each side of a cell; zero: as many as it has pixels.
    ratio: i64,
    scale: f64,
}

impl Grid {
    fn parse(attributes: &Attributes) -> Result<Self, Diagnostic> {
        Ok(Grid { pooled: pooled(attributes)?, ratio: points::ratio(attributes)?, scale: scale(attributes)? })
    }
}

/// How regions lie on the feature map.
#[derive(Debug)]
enum Region {
    /// `[x0, y0, x1, y1]`.
    Upright(Alignment),
    /// `[x, y, width, height, angle]` with the centre of the region and an angle in radians.
    Rotated {
        /// Positive angles turn from x to y, else from y to x.
        clockwise: bool,
    },
}

/// What coordinates count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alignment {
    /// Pixels; regions are at least one pixel large.
    Asymmetric,
    /// Edges of pixels.
    HalfPixelForNn,
    /// Edges of pixels, from half a unit before the first edge on.
    HalfPixel,
}

/// ROIAlign-3, -9 and ROIAlignRotated-15: every region becomes `pooled` cells, each the mean or the maximum (but not
/// less than zero) of the values at equally spaced points of the cell. Points further than one pixel outside are zero.
/// Operands: feature maps, regions, batch indices.
#[derive(Debug)]
struct RoiAlign {
    grid: Grid,
    max: bool,
    region: Region,
}

fn upright(attributes: &Attributes, alignment: Alignment) -> Result<Rc<dyn Op>, Diagnostic> {
    let max = attributes.choice("mode", &[("avg", false), ("max", true)])?;
    Ok(Rc::new(RoiAlign { grid: Grid::parse(attributes)?, max, region: Region::Upright(alignment) }))
}

/// ROIAlign-3.
///
/// # Errors
/// Attributes that are missing or cannot be read.
pub fn parse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    upright(attributes, Alignment::Asymmetric)
}

/// ROIAlign-9.
///
/// # Errors
/// Attributes that are missing or cannot be read.
pub fn parse_aligned(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let modes = [
        ("asymmetric", Alignment::Asymmetric),
        ("half_pixel_for_nn", Alignment::HalfPixelForNn),
        ("half_pixel", Alignment::HalfPixel),
    ];
    upright(attributes, attributes.choice_or("aligned_mode", &modes, Alignment::Asymmetric)?)
}

/// ROIAlignRotated-15.
///
/// # Errors
/// Attributes that are missing or cannot be read.
pub fn parse_rotated(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let clockwise = attributes.bool("clockwise_mode", false)?;
    Ok(Rc::new(RoiAlign { grid: Grid::parse(attributes)?, max: false, region: Region::Rotated { clockwise } }))
}

/// Where a rotated region lies.
#[derive(Clone, Copy)]
struct Turn {
    cos: Node,
    sin: Node,
    y: Node,
    x: Node,
}

/// Loads a field of the region at hand.
type Field<'f> = &'f dyn Fn(&mut NestBuilder<'_, '_>, i64) -> Result<Node, Diagnostic>;

impl Op for RoiAlign {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let fields = if matches!(self.region, Region::Upright(_)) { 4 } else { 5 };
        let (maps, regions) = regions(inputs, fields, context)?;
        let batches = operand(inputs, 2)?;
        typing::integer(batches.element, "the list of batch indices")?;
        match batches.dims.as_slice() {
            [count] => require_equal(context, count, regions, "the number of batch indices and of regions")?,
            dims => return Err(shape_error(format!("batch indices have {} dimensions, not 1", dims.len()))),
        }
        Ok(result(maps, regions, self.grid.pooled))
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (maps, regions, batches) = (builder.input(0)?, builder.input(1)?, builder.input(2)?);
        let out = builder.output(0)?;
        let dims = builder.dims(out);
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let [region, channel, row, column] = place(&i)?;
        let batch = n.load(batches, std::slice::from_ref(region))?;
        let image = Image::new(&mut n, maps, batch, channel);
        let fields = |n: &mut NestBuilder, k: i64| n.load(regions, &[region.clone(), Dim::constant(k)]);
        let turn = self.turn(&mut n, &fields)?;
        let (ys, xs) = (self.points(&mut n, &fields, 1)?, self.points(&mut n, &fields, 0)?);
        let [y_first, x_first] = first_coordinates(&mut n, ys.start, &image, turn);
        // Neighbouring points are more than half a pixel apart, where there are several.
        let most = (image.height().clone() + image.width()) * 2 + 8;
        let y = ys.coordinate(&mut n, row, y_first, &most);
        let x = xs.coordinate(&mut n, column, x_first, &most);
        let (y, x) = turn.map_or((y, x), |turn| turned(&mut n, turn, y, x));
        let value = points::sampled(&mut n, &image, y, x)?;
        let value = if self.max {
            let maximum = n.reduce(ReduceFn::Max, value);
            let zero = n.constant_like(maximum, 0.0);
            n.binary(Binary::Max, maximum, zero)
        } else {
            let sum = n.reduce(ReduceFn::Sum, value);
            points::mean(&mut n, sum, ys, xs)
        };
        n.store(out, &i, value);
        Ok(())
    }
}

impl RoiAlign {
    /// The points along x (0) or y (1).
    fn points(&self, n: &mut NestBuilder, field: Field<'_>, axis: i64) -> Result<Points, Diagnostic> {
        let (start, extent) = match self.region {
            Region::Upright(alignment) => {
                let (start, end) = (field(n, axis)?, field(n, axis + 2)?);
                let (start, end) = (self.pixels(n, alignment, start), self.pixels(n, alignment, end));
                let extent = n.binary(Binary::Sub, end, start);
                let one = n.constant_like(extent, 1.0);
                let at_least_one = alignment == Alignment::Asymmetric;
                (start, if at_least_one { n.binary(Binary::Max, extent, one) } else { extent })
            }
            Region::Rotated { .. } => {
                let extent = field(n, axis + 2)?;
                let (scale, half) = (n.constant_like(extent, self.grid.scale), n.constant_like(extent, -0.5));
                let extent = n.binary(Binary::Mul, extent, scale);
                (n.binary(Binary::Mul, extent, half), extent)
            }
        };
        let [rows, columns] = self.grid.pooled;
        let cells = n.constant_like(extent, if axis == 0 { columns } else { rows } as f64);
        let cell = n.binary(Binary::Div, extent, cells);
        Ok(Points::new(n, start, cell, self.grid.ratio))
    }

    /// A coordinate in pixels.
    fn pixels(&self, n: &mut NestBuilder, alignment: Alignment, value: Node) -> Node {
        let (half, scale) = (n.constant_like(value, 0.5), n.constant_like(value, self.grid.scale));
        let value = if alignment == Alignment::HalfPixel { n.binary(Binary::Add, value, half) } else { value };
        let value = n.binary(Binary::Mul, value, scale);
        if alignment == Alignment::Asymmetric { value } else { n.binary(Binary::Sub, value, half) }
    }

    /// How the region is rotated.
    fn turn(&self, n: &mut NestBuilder, field: Field<'_>) -> Result<Option<Turn>, Diagnostic> {
        let Region::Rotated { clockwise } = self.region else { return Ok(None) };
        let (x, y, angle) = (field(n, 0)?, field(n, 1)?, field(n, 4)?);
        let [y, x] = [y, x].map(|value| self.pixels(n, Alignment::HalfPixelForNn, value));
        let angle = if clockwise { n.unary(Unary::Neg, angle) } else { angle };
        Ok(Some(Turn { cos: n.unary(Unary::Cos, angle), sin: n.unary(Unary::Sin, angle), y, x }))
    }
}

/// The coordinates y and x of a region, in its own directions, before which no point is on the feature map or at most
/// one pixel outside.
fn first_coordinates(n: &mut NestBuilder, like: Node, image: &Image, turn: Option<Turn>) -> [Node; 2] {
    let Some(Turn { cos, sin, y, x }) = turn else { return [n.constant_like(like, -1.0); 2] };
    let element = n.type_of(like).element();
    let (half, one) = (n.constant_like(like, 0.5), n.constant_like(like, 1.0));
    let [(y, height), (x, width)] = [(y, image.height()), (x, image.width())].map(|(centre, size)| {
        let size = n.index(size);
        let size = n.cast(element, size);
        let (last, reach) = (n.binary(Binary::Sub, size, one), n.binary(Binary::Add, size, one));
        let (middle, reach) = (n.binary(Binary::Mul, last, half), n.binary(Binary::Mul, reach, half));
        (n.binary(Binary::Sub, middle, centre), reach)
    });
    let (y_cos, x_sin) = (n.binary(Binary::Mul, y, cos), n.binary(Binary::Mul, x, sin));
    let (x_cos, y_sin) = (n.binary(Binary::Mul, x, cos), n.binary(Binary::Mul, y, sin));
    let middles = [n.binary(Binary::Add, y_cos, x_sin), n.binary(Binary::Sub, x_cos, y_sin)];
    let (cos, sin) = (n.unary(Unary::Abs, cos), n.unary(Unary::Abs, sin));
    let mut first = |middle: Node, [along, across]: [Node; 2]| {
        let (along, across) = (n.binary(Binary::Mul, along, cos), n.binary(Binary::Mul, across, sin));
        let reach = n.binary(Binary::Add, along, across);
        n.binary(Binary::Sub, middle, reach)
    };
    let [y, x] = middles;
    [first(y, [height, width]), first(x, [width, height])]
}

/// Coordinates on the feature map of a point of a rotated region.
fn turned(n: &mut NestBuilder, turn: Turn, y: Node, x: Node) -> (Node, Node) {
    let (y_cos, y_sin) = (n.binary(Binary::Mul, y, turn.cos), n.binary(Binary::Mul, y, turn.sin));
    let (x_cos, x_sin) = (n.binary(Binary::Mul, x, turn.cos), n.binary(Binary::Mul, x, turn.sin));
    let (y, x) = (n.binary(Binary::Sub, y_cos, x_sin), n.binary(Binary::Add, y_sin, x_cos));
    (n.binary(Binary::Add, y, turn.y), n.binary(Binary::Add, x, turn.x))
}
