//! Pooling of regions of interest of feature maps: ROIPooling, ROIAlign, ROIAlignRotated.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::sampling::{self, Cells, Image, Sides, listed, positive, regions, sides};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, Unary};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("ROIAlign", 3, 3..=8, 3, |a| align(a, Alignment::Asymmetric)),
    row("ROIAlign", 9, 9..=17, 3, |a| {
        let modes = [
            ("asymmetric", Alignment::Asymmetric),
            ("half_pixel_for_nn", Alignment::HalfPixelForNn),
            ("half_pixel", Alignment::HalfPixel),
        ];
        align(a, a.choice_or("aligned_mode", &modes, Alignment::Asymmetric)?)
    }),
    row("ROIAlignRotated", 15, 15..=17, 3, |a| {
        let clockwise = a.bool("clockwise_mode", false)?;
        Ok(Rc::new(RoiAlign { grid: Grid::parse(a)?, max: false, region: Region::Rotated { clockwise } }))
    }),
    // Version 1 was first registered in opset2.
    row("ROIPooling", 1, 2..=17, 2, |a| {
        let bilinear = a.choice_or("method", &[("max", false), ("bilinear", true)], false)?;
        Ok(Rc::new(RoiPooling { pooled: pooled(a)?, scale: scale(a)?, bilinear }))
    }),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    // The size of the result is written twice; the first spelling is not read.
    let ignorable = &["output_size", "output_roi"];
    OpDef {
        name,
        version,
        opsets,
        inputs: inputs..=inputs,
        outputs: one_output,
        parse,
        ignorable,
        support: Support::Full,
    }
}

/// Rows and columns of a pooled region.
fn pooled(attributes: &Attributes) -> Result<[i64; 2], Diagnostic> {
    Ok([positive(attributes, "pooled_h", None)?, positive(attributes, "pooled_w", None)?])
}

/// The attribute that turns coordinates of regions into pixels: a number of 32 bits.
fn scale(attributes: &Attributes) -> Result<f64, Diagnostic> {
    Ok(f64::from(attributes.float("spatial_scale")? as f32))
}

/// `[regions, channels, pooled rows, pooled columns]`.
fn result(maps: &Fact, regions: &Dim, [rows, columns]: [i64; 2]) -> Vec<Fact> {
    let channels = maps.dims.get(1).cloned().unwrap_or_default();
    let dims = vec![regions.clone(), channels, Dim::constant(rows), Dim::constant(columns)];
    vec![Fact::new(maps.element, dims)]
}

/// Region, channel, row and column of a result.
fn place(index: &[Dim]) -> Result<[&Dim; 4], Diagnostic> {
    let [region, channel, row, column] = index else {
        return Err(Diagnostic::internal("a pooled region lacks dimensions"));
    };
    Ok([region, channel, row, column])
}

/// ROIPooling-1: every region `[batch, x0, y0, x1, y1]` becomes `pooled` cells, each the maximum of its pixels (zero
/// without any), or the value at a point of a grid whose corners are those of the region. For the maximum coordinates
/// are pixels times a scale and rounded; for the grid 1 is the last pixel. A batch index of -1 ends the list.
#[derive(Debug)]
struct RoiPooling {
    pooled: [i64; 2],
    scale: f64,
    bilinear: bool,
}

impl Op for RoiPooling {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (maps, regions) = regions(inputs, 5, context)?;
        Ok(result(maps, regions, self.pooled))
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let buffers = [builder.input(0)?, builder.input(1)?, listed(builder)?];
        if self.bilinear { self.lower_grid(builder, buffers) } else { self.lower_maximum(builder, buffers) }
    }
}

impl RoiPooling {
    /// The cells along the dimension of the given size; coordinates are field `field` and the second next one.
    fn cells(&self, builder: &mut Builder, field: i64, size: &Dim, pooled: i64) -> Result<Cells, Diagnostic> {
        let regions = builder.input(1)?;
        Cells::new(builder, pooled, &|n, region, cell| {
            let start = self.rounded(n, regions, region, field)?;
            let end = self.rounded(n, regions, region, field + 2)?;
            let (one, extent) = (n.constant(Const::I64(1)), n.binary(Binary::Sub, end, start));
            let extent = n.binary(Binary::Add, extent, one);
            // Regions without pixels get one.
            let extent = n.binary(Binary::Max, extent, one);
            let (from, to) = (n.index(cell), n.index(&(cell.clone() + 1)));
            let (from, to) = (n.binary(Binary::Mul, from, extent), n.binary(Binary::Mul, to, extent));
            let (divisor, rest) = (n.constant(Const::I64(pooled)), n.constant(Const::I64(pooled - 1)));
            let to = n.binary(Binary::Add, to, rest);
            let (from, to) = (n.binary(Binary::FloorDiv, from, divisor), n.binary(Binary::FloorDiv, to, divisor));
            Ok([from, to].map(|offset| clipped(n, offset, start, size)))
        })
    }

    /// A coordinate in pixels.
    fn rounded(&self, n: &mut NestBuilder, regions: BufferId, region: &Dim, field: i64) -> Result<Node, Diagnostic> {
        let value = n.load(regions, &[region.clone(), Dim::constant(field)])?;
        let scale = n.constant_like(value, self.scale);
        let value = n.binary(Binary::Mul, value, scale);
        let value = n.unary(Unary::RoundHalfAway, value);
        Ok(n.cast(ElementType::I64, value))
    }

    fn lower_maximum(&self, builder: &mut Builder, buffers: [BufferId; 3]) -> Result<(), Diagnostic> {
        let out = builder.output(0)?;
        let (dims, sizes) = (builder.dims(out), builder.dims(buffers[0]));
        let size = |axis: usize| sizes.get(axis).cloned().unwrap_or_default();
        let rows = self.cells(builder, 2, &size(2), self.pooled[0])?;
        let columns = self.cells(builder, 1, &size(3), self.pooled[1])?;
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let [region, channel, row, column] = place(&i)?;
        let image = Image::of_region(&mut n, buffers, region, channel)?;
        let (y, rows) = rows.axis(&mut n, [region, row], &size(2))?;
        let (x, columns) = columns.axis(&mut n, [region, column], &size(3))?;
        let pixel = image.pixel_at(&mut n, &y, &x)?;
        let maximum = n.reduce(ReduceFn::Max, pixel);
        let empty = sampling::empty(&mut n, rows, columns);
        let nothing = n.constant_like(maximum, 0.0);
        let value = n.select(empty, nothing, maximum);
        n.store(out, &i, value);
        Ok(())
    }

    /// A coordinate of point `cell` of the grid, and whether it lies on the feature map.
    fn coordinate(
        n: &mut NestBuilder,
        [start, end]: [Node; 2],
        (cell, pooled): (&Dim, i64),
        size: &Dim,
    ) -> (Node, Node) {
        let element = n.type_of(start).element();
        let last = n.index(&(size.clone() - 1));
        let (last, zero) = (n.cast(element, last), n.constant_like(start, 0.0));
        let at = if pooled == 1 {
            let (sum, half) = (n.binary(Binary::Add, start, end), n.constant_like(start, 0.5));
            let middle = n.binary(Binary::Mul, sum, half);
            n.binary(Binary::Mul, middle, last)
        } else {
            let extent = n.binary(Binary::Sub, end, start);
            let (extent, steps) = (n.binary(Binary::Mul, extent, last), n.constant_like(start, (pooled - 1) as f64));
            let step = n.binary(Binary::Div, extent, steps);
            let place = n.index(cell);
            let far = n.constant(Const::I64(pooled - 1));
            let is_far = n.binary(Binary::Eq, place, far);
            let place = n.cast(element, place);
            let (moved, origin) = (n.binary(Binary::Mul, place, step), n.binary(Binary::Mul, start, last));
            let inner = n.binary(Binary::Add, moved, origin);
            // The last point is the corner itself, whatever rounding makes of the sum.
            let corner = n.binary(Binary::Mul, end, last);
            n.select(is_far, corner, inner)
        };
        (at, sampling::inside(n, at, zero, last))
    }

    fn lower_grid(&self, builder: &mut Builder, buffers: [BufferId; 3]) -> Result<(), Diagnostic> {
        let out = builder.output(0)?;
        builder.map(out, |n, i| {
            let [region, channel, row, column] = place(i)?;
            let image = Image::of_region(n, buffers, region, channel)?;
            let field = |n: &mut NestBuilder, k: i64| n.load(buffers[1], &[region.clone(), Dim::constant(k)]);
            let xs = [field(n, 1)?, field(n, 3)?];
            let ys = [field(n, 2)?, field(n, 4)?];
            let (y, y_inside) = Self::coordinate(n, ys, (row, self.pooled[0]), &image.height());
            let (x, x_inside) = Self::coordinate(n, xs, (column, self.pooled[1]), &image.width());
            let (y, x) = (sides(n, y, &image.height()), sides(n, x, &image.width()));
            let value = image.between(n, y, x)?;
            let (inside, zero) = (n.binary(Binary::And, y_inside, x_inside), n.constant_like(value, 0.0));
            Ok(n.select(inside, value, zero))
        })
    }
}

/// `start + offset`, but not outside of `0..=size`.
fn clipped(n: &mut NestBuilder, offset: Node, start: Node, size: &Dim) -> Node {
    let (zero, size) = (n.constant(Const::I64(0)), n.index(size));
    let at = n.binary(Binary::Add, offset, start);
    let at = n.binary(Binary::Max, at, zero);
    n.binary(Binary::Min, at, size)
}

/// Cells of a region and the points in every cell at which it is sampled.
#[derive(Debug)]
struct Grid {
    pooled: [i64; 2],
    /// Points along each side of a cell; zero: as many as it has pixels.
    ratio: i64,
    scale: f64,
}

impl Grid {
    /// More points along a side of a cell are not taken.
    const MOST: i64 = 1 << 16;

    fn parse(attributes: &Attributes) -> Result<Self, Diagnostic> {
        let ratio = attributes.int("sampling_ratio")?;
        if !(0..=Self::MOST).contains(&ratio) {
            return Err(attributes.invalid("sampling_ratio", "a number from 0 to 65536"));
        }
        Ok(Grid { pooled: pooled(attributes)?, ratio, scale: scale(attributes)? })
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

fn align(attributes: &Attributes, alignment: Alignment) -> Result<Rc<dyn Op>, Diagnostic> {
    let max = attributes.choice("mode", &[("avg", false), ("max", true)])?;
    Ok(Rc::new(RoiAlign { grid: Grid::parse(attributes)?, max, region: Region::Upright(alignment) }))
}

/// The points along one side of a cell.
#[derive(Clone, Copy)]
struct Points {
    /// First coordinate of the region.
    start: Node,
    /// Extent of a cell.
    cell: Node,
    /// Number of points.
    count: Node,
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
        let (ys, xs) = (self.points(&mut n, &fields, 1)?, self.points(&mut n, &fields, 0)?);
        let y = self.coordinate(&mut n, ys, row);
        let x = self.coordinate(&mut n, xs, column);
        let (y, x) = self.turned(&mut n, &fields, y, x)?;
        let value = sampled(&mut n, &image, y, x)?;
        let value = if self.max {
            let maximum = n.reduce(ReduceFn::Max, value);
            let zero = n.constant_like(maximum, 0.0);
            n.binary(Binary::Max, maximum, zero)
        } else {
            let sum = n.reduce(ReduceFn::Sum, value);
            let count = n.binary(Binary::Mul, ys.count, xs.count);
            let one = n.constant(Const::I64(1));
            let count = n.binary(Binary::Max, count, one);
            let count = n.cast(n.type_of(sum).element(), count);
            n.binary(Binary::Div, sum, count)
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
        let count = if self.grid.ratio > 0 {
            n.constant(Const::I64(self.grid.ratio))
        } else {
            let count = n.unary(Unary::Ceil, cell);
            let count = n.cast(ElementType::I64, count);
            let (zero, most) = (n.constant(Const::I64(0)), n.constant(Const::I64(Grid::MOST)));
            let count = n.binary(Binary::Max, count, zero);
            n.binary(Binary::Min, count, most)
        };
        Ok(Points { start, cell, count })
    }

    /// A coordinate in pixels.
    fn pixels(&self, n: &mut NestBuilder, alignment: Alignment, value: Node) -> Node {
        let (half, scale) = (n.constant_like(value, 0.5), n.constant_like(value, self.grid.scale));
        let value = if alignment == Alignment::HalfPixel { n.binary(Binary::Add, value, half) } else { value };
        let value = n.binary(Binary::Mul, value, scale);
        if alignment == Alignment::Asymmetric { value } else { n.binary(Binary::Sub, value, half) }
    }

    /// The coordinate of the points of a cell along a new reduction axis.
    fn coordinate(&self, n: &mut NestBuilder, points: Points, cell: &Dim) -> Node {
        let point = match self.grid.ratio {
            0 => n.counted_axis(points.count, &Dim::constant(Grid::MOST)),
            ratio => n.reduction_axis(&Dim::constant(ratio)),
        };
        let element = n.type_of(points.start).element();
        let count = n.cast(element, points.count);
        let step = n.binary(Binary::Div, points.cell, count);
        let (cell, point) = (n.index(cell), n.index(&point));
        let (cell, point) = (n.cast(element, cell), n.cast(element, point));
        let moved = n.binary(Binary::Mul, cell, points.cell);
        let corner = n.binary(Binary::Add, points.start, moved);
        let half = n.constant_like(points.start, 0.5);
        let point = n.binary(Binary::Add, point, half);
        let inside = n.binary(Binary::Mul, step, point);
        n.binary(Binary::Add, corner, inside)
    }

    /// Coordinates on the feature map of a point of a region.
    fn turned(&self, n: &mut NestBuilder, field: Field<'_>, y: Node, x: Node) -> Result<(Node, Node), Diagnostic> {
        let Region::Rotated { clockwise } = self.region else { return Ok((y, x)) };
        let (centre_x, centre_y, angle) = (field(n, 0)?, field(n, 1)?, field(n, 4)?);
        let [centre_x, centre_y] = [centre_x, centre_y].map(|value| self.pixels(n, Alignment::HalfPixelForNn, value));
        let angle = if clockwise { n.unary(Unary::Neg, angle) } else { angle };
        let (cos, sin) = (n.unary(Unary::Cos, angle), n.unary(Unary::Sin, angle));
        let (y_cos, y_sin) = (n.binary(Binary::Mul, y, cos), n.binary(Binary::Mul, y, sin));
        let (x_cos, x_sin) = (n.binary(Binary::Mul, x, cos), n.binary(Binary::Mul, x, sin));
        let (y, x) = (n.binary(Binary::Sub, y_cos, x_sin), n.binary(Binary::Add, y_sin, x_cos));
        Ok((n.binary(Binary::Add, y, centre_y), n.binary(Binary::Add, x, centre_x)))
    }
}

/// The value at a point; zero further than one pixel outside.
fn sampled(n: &mut NestBuilder, image: &Image, y: Node, x: Node) -> Result<Node, Diagnostic> {
    let near = |n: &mut NestBuilder, at: Node, size: &Dim| -> (Sides, Node) {
        let element = n.type_of(at).element();
        let (before, zero, size_node) = (n.constant_like(at, -1.0), n.constant_like(at, 0.0), n.index(size));
        let size_node = n.cast(element, size_node);
        let inside = sampling::inside(n, at, before, size_node);
        let at = n.binary(Binary::Max, at, zero);
        (sides(n, at, size), inside)
    };
    let ((y, y_inside), (x, x_inside)) = (near(n, y, &image.height()), near(n, x, &image.width()));
    let value = image.between(n, y, x)?;
    let (inside, zero) = (n.binary(Binary::And, y_inside, x_inside), n.constant_like(value, 0.0));
    Ok(n.select(inside, value, zero))
}
