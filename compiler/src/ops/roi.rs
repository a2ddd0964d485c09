//! Pooling of regions of interest of feature maps: ROIPooling, ROIAlign, ROIAlignRotated.

mod align;

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::sampling::{self, Cells, Image, listed, place, positive, regions, sides};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, Unary};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("ROIAlign", 3, 3..=8, 3, align::parse),
    row("ROIAlign", 9, 9..=17, 3, align::parse_aligned),
    row("ROIAlignRotated", 15, 15..=17, 3, align::parse_rotated),
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
            let (y, y_inside) = Self::coordinate(n, ys, (row, self.pooled[0]), image.height());
            let (x, x_inside) = Self::coordinate(n, xs, (column, self.pooled[1]), image.width());
            let (y, x) = (sides(n, y, image.height()), sides(n, x, image.width()));
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
