//! Position-sensitive pooling of regions, where every cell has its own channels: PSROIPooling, DeformablePSROIPooling.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{flatten, operand, require_equal, same_element, shape_error};
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
    row("DeformablePSROIPooling", 2..=3, |a| {
        a.choice_or("mode", &[("bilinear_deformable", ())], ())?;
        Ok(Rc::new(Deformable {
            parts: Parts::parse(a)?,
            bins: bins(a)?,
            offset_scale: f64::from(a.float_or("trans_std", 1.0)? as f32),
            offsets: positive(a, "part_size", Some(1))?,
        }))
    }),
    row("PSROIPooling", 2..=2, |a| {
        let (parts, bins) = (Parts::parse(a)?, bins(a)?);
        Ok(match a.choice_or("mode", &[("average", false), ("bilinear", true)], false)? {
            false => Rc::new(Average { parts }),
            true => Rc::new(Bilinear { parts, bins }),
        })
    }),
];

const fn row(
    name: &'static str,
    inputs: RangeInclusive<usize>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name,
        version: 1,
        opsets: 1..=17,
        inputs,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// Points of a cell along y and x.
fn bins(attributes: &Attributes) -> Result<[i64; 2], Diagnostic> {
    Ok([positive(attributes, "spatial_bins_y", Some(1))?, positive(attributes, "spatial_bins_x", Some(1))?])
}

/// What the operations have in common: a region becomes `size` times `size` cells of `channels` channels.
#[derive(Debug)]
struct Parts {
    channels: i64,
    size: i64,
    scale: f64,
}

impl Parts {
    fn parse(attributes: &Attributes) -> Result<Self, Diagnostic> {
        Ok(Parts {
            channels: positive(attributes, "output_dim", None)?,
            size: positive(attributes, "group_size", Some(1))?,
            scale: f64::from(attributes.float("spatial_scale")? as f32),
        })
    }

    /// `[regions, channels, size, size]`; every one of the channels needs `each` channels of the feature map.
    fn infer(&self, inputs: &[Fact], each: i64, context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (maps, regions) = regions(inputs, 5, context)?;
        let channels = maps.dims.get(1).cloned().unwrap_or_default();
        let expected = Dim::constant(self.channels) * each;
        require_equal(context, &channels, &expected, "channels and those that all cells need")?;
        let size = Dim::constant(self.size);
        Ok(vec![Fact::new(maps.element, vec![regions.clone(), Dim::constant(self.channels), size.clone(), size])])
    }

    /// Feature maps, regions and the number of regions that are listed.
    fn buffers(&self, builder: &mut Builder) -> Result<[BufferId; 3], Diagnostic> {
        Ok([builder.input(0)?, builder.input(1)?, listed(builder)?])
    }

    /// The channel of the feature map that belongs to a cell.
    fn channel(&self, channel: &Dim, row: &Dim, column: &Dim) -> Dim {
        let size = Dim::constant(self.size);
        flatten(&[channel.clone(), row.clone(), column.clone()], &[Dim::constant(self.channels), size.clone(), size])
    }

    /// First coordinate along x (field 1) or y (field 2), and extent of a region: its rounded pixels in units of the
    /// feature map.
    fn rounded(
        &self,
        n: &mut NestBuilder,
        regions: BufferId,
        region: &Dim,
        field: i64,
    ) -> Result<[Node; 2], Diagnostic> {
        let (start, end) = (coordinate(n, regions, region, field)?, coordinate(n, regions, region, field + 2)?);
        let (start, end) = (n.unary(Unary::RoundHalfAway, start), n.unary(Unary::RoundHalfAway, end));
        let (one, scale) = (n.constant_like(start, 1.0), n.constant_like(start, self.scale));
        let end = n.binary(Binary::Add, end, one);
        let (start, end) = (n.binary(Binary::Mul, start, scale), n.binary(Binary::Mul, end, scale));
        Ok([start, n.binary(Binary::Sub, end, start)])
    }
}

/// A field of a region. Coordinates are numbers of 32 bits, whatever pixels are.
fn coordinate(n: &mut NestBuilder, regions: BufferId, region: &Dim, field: i64) -> Result<Node, Diagnostic> {
    let value = n.load(regions, &[region.clone(), Dim::constant(field)])?;
    Ok(n.cast(ElementType::F32, value))
}

/// `start + at * step`.
fn along(n: &mut NestBuilder, start: Node, at: &Dim, step: Node) -> Node {
    let at = n.index(at);
    let at = n.cast(n.type_of(start).element(), at);
    let moved = n.binary(Binary::Mul, at, step);
    n.binary(Binary::Add, start, moved)
}

/// `value / parts`.
fn divided(n: &mut NestBuilder, value: Node, parts: i64) -> Node {
    let parts = n.constant_like(value, parts as f64);
    n.binary(Binary::Div, value, parts)
}

/// PSROIPooling-1, average: the mean of all pixels that a cell of a region `[batch, x0, y0, x1, y1]` touches. Cells end
/// where the feature map ends but have a pixel there; those before the first pixel are zero. A batch index of -1 ends
/// the list.
#[derive(Debug)]
struct Average {
    parts: Parts,
}

impl Average {
    fn cells(&self, builder: &mut Builder, field: i64, size: &Dim) -> Result<Cells, Diagnostic> {
        let (regions, parts) = (builder.input(1)?, &self.parts);
        Cells::new(builder, parts.size, &|n, region, cell| {
            let [start, extent] = parts.rounded(n, regions, region, field)?;
            let step = divided(n, extent, parts.size);
            let (from, to) = (along(n, start, cell, step), along(n, start, &(cell.clone() + 1), step));
            let (from, to) = (n.unary(Unary::Floor, from), n.unary(Unary::Ceil, to));
            let [from, to] = [(from, size.clone() - 1), (to, size.clone())].map(|(edge, last)| {
                let (edge, zero, last) = (n.cast(ElementType::I64, edge), n.constant(Const::I64(0)), n.index(&last));
                let edge = n.binary(Binary::Max, edge, zero);
                n.binary(Binary::Min, edge, last)
            });
            Ok([from, to])
        })
    }
}

impl Op for Average {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        self.parts.infer(inputs, self.parts.size.saturating_mul(self.parts.size), context)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (buffers, out) = (self.parts.buffers(builder)?, builder.output(0)?);
        let (dims, sizes) = (builder.dims(out), builder.dims(builder.input(0)?));
        let size = |axis: usize| sizes.get(axis).cloned().unwrap_or_default();
        let (rows, columns) = (self.cells(builder, 2, &size(2))?, self.cells(builder, 1, &size(3))?);
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let [region, channel, row, column] = place(&i)?;
        let image = Image::of_region(&mut n, buffers, region, &self.parts.channel(channel, row, column))?;
        let (y, rows) = rows.axis(&mut n, [region, row], &size(2))?;
        let (x, columns) = columns.axis(&mut n, [region, column], &size(3))?;
        let pixel = image.pixel_at(&mut n, &y, &x)?;
        let sum = n.reduce(ReduceFn::Sum, pixel);
        let count = n.binary(Binary::Mul, rows, columns);
        let count = n.cast(n.type_of(sum).element(), count);
        let (mean, empty) = (n.binary(Binary::Div, sum, count), sampling::empty(&mut n, rows, columns));
        let zero = n.constant_like(mean, 0.0);
        let value = n.select(empty, zero, mean);
        n.store(out, &i, value);
        Ok(())
    }
}

/// PSROIPooling-1, bilinear: a region is divided into `bins`, a bin has a grid of points whose corners are its own, and
/// a cell is the mean of its points of all bins, each from a channel of the bin. Coordinates go from 0 to 1; points
/// outside of the feature map are zero.
#[derive(Debug)]
struct Bilinear {
    parts: Parts,
    bins: [i64; 2],
}

impl Bilinear {
    /// The coordinate of point `cell` of a bin, and whether it lies on the feature map.
    fn coordinate(
        &self,
        n: &mut NestBuilder,
        [start, end]: [Node; 2],
        (bin, bins): (&Dim, i64),
        cell: &Dim,
        size: &Dim,
    ) -> [Node; 2] {
        let element = n.type_of(start).element();
        let scale = n.constant_like(start, self.parts.scale);
        let (start, end) = (n.binary(Binary::Mul, start, scale), n.binary(Binary::Mul, end, scale));
        let extent = n.binary(Binary::Sub, end, start);
        let step = divided(n, extent, bins);
        let corner = along(n, start, bin, step);
        let last = n.index(&(size.clone() - 1));
        let last = n.cast(element, last);
        let at = if self.parts.size == 1 {
            let half = divided(n, step, 2);
            let middle = n.binary(Binary::Add, corner, half);
            n.binary(Binary::Mul, middle, last)
        } else {
            let reach = n.binary(Binary::Mul, step, last);
            let step = divided(n, reach, self.parts.size - 1);
            let corner = n.binary(Binary::Mul, corner, last);
            along(n, corner, cell, step)
        };
        let (zero, size) = (n.constant_like(at, 0.0), n.index(size));
        let size = n.cast(element, size);
        let (above, below) = (n.binary(Binary::Le, zero, at), n.binary(Binary::Lt, at, size));
        [at, n.binary(Binary::And, above, below)]
    }
}

impl Op for Bilinear {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let [rows, columns] = self.bins;
        self.parts.infer(inputs, rows.saturating_mul(columns), context)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (buffers, out) = (self.parts.buffers(builder)?, builder.output(0)?);
        let dims = builder.dims(out);
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let [region, channel, row, column] = place(&i)?;
        let [y_bin, x_bin] = self.bins.map(|bins| n.reduction_axis(&Dim::constant(bins)));
        let [y_bins, x_bins] = self.bins;
        let plane = (y_bin.clone() * x_bins + &x_bin) * self.parts.channels + channel;
        let image = Image::of_region(&mut n, buffers, region, &plane)?;
        let field = |n: &mut NestBuilder, k: i64| coordinate(n, buffers[1], region, k);
        let xs = [field(&mut n, 1)?, field(&mut n, 3)?];
        let ys = [field(&mut n, 2)?, field(&mut n, 4)?];
        let [y, y_inside] = self.coordinate(&mut n, ys, (&y_bin, y_bins), row, image.height());
        let [x, x_inside] = self.coordinate(&mut n, xs, (&x_bin, x_bins), column, image.width());
        let (y, x) = (sides(&mut n, y, image.height()), sides(&mut n, x, image.width()));
        let value = image.between(&mut n, y, x)?;
        let (inside, zero) = (n.binary(Binary::And, y_inside, x_inside), n.constant_like(value, 0.0));
        let value = n.select(inside, value, zero);
        let sum = n.reduce(ReduceFn::Sum, value);
        let mean = divided(&mut n, sum, y_bins.saturating_mul(x_bins));
        n.store(out, &i, mean);
        Ok(())
    }
}

/// DeformablePSROIPooling-1: the mean of `bins` equally spaced points of a cell, those outside of the feature map left
/// out. Operand 2, if any, moves cells: `[regions, 2 * classes, part_size, part_size]` holds offsets along x and y in
/// units of the region. A batch index of -1 ends the list.
#[derive(Debug)]
struct Deformable {
    parts: Parts,
    bins: [i64; 2],
    offset_scale: f64,
    offsets: i64,
}

/// Where offsets are: their buffer and the channels that share one.
type Offsets = Option<(BufferId, Dim)>;

impl Deformable {
    /// The coordinate along y (0) or x (1) of a point of a cell, moved to the nearest pixel, and whether it was inside.
    fn coordinate(
        &self,
        n: &mut NestBuilder,
        (regions, offsets): (BufferId, &Offsets),
        [region, channel, row, column]: [&Dim; 4],
        (axis, bin, bins): (i64, &Dim, i64),
        size: &Dim,
    ) -> Result<[Node; 2], Diagnostic> {
        let cell = if axis == 0 { row } else { column };
        let [start, extent] = self.parts.rounded(n, regions, region, 2 - axis)?;
        let (half, least) = (n.constant_like(start, 0.5), n.constant_like(start, f64::from(0.1f32)));
        let (start, extent) = (n.binary(Binary::Sub, start, half), n.binary(Binary::Max, extent, least));
        let step = divided(n, extent, self.parts.size);
        let mut corner = along(n, start, cell, step);
        if let Some((offsets, shared)) = offsets {
            let plane = channel.floor_div(shared) * 2 + (1 - axis);
            let part = |cell: &Dim| (cell.clone() * self.offsets).floor_div(&Dim::constant(self.parts.size));
            let offset = n.load(*offsets, &[region.clone(), plane, part(row), part(column)])?;
            let scale = n.constant_like(offset, self.offset_scale);
            let offset = n.binary(Binary::Mul, offset, scale);
            let offset = n.cast(ElementType::F32, offset);
            let offset = n.binary(Binary::Mul, offset, extent);
            corner = n.binary(Binary::Add, corner, offset);
        }
        let step = divided(n, step, bins);
        let at = along(n, corner, bin, step);
        let last = n.index(&(size.clone() - 1));
        let last = n.cast(n.type_of(at).element(), last);
        let (zero, before) = (n.constant_like(at, 0.0), n.constant_like(at, -0.5));
        let behind = n.binary(Binary::Add, last, half);
        let inside = sampling::inside(n, at, before, behind);
        let at = n.binary(Binary::Max, at, zero);
        Ok([n.binary(Binary::Min, at, last), inside])
    }
}

impl Op for Deformable {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let facts = self.parts.infer(inputs, self.parts.size.saturating_mul(self.parts.size), context)?;
        if inputs.len() > 2 {
            same_element(inputs, 0, 2)?;
            let [count, planes, rows, columns] = operand(inputs, 2)?.dims.as_slice() else {
                return Err(shape_error(format!("offsets have {} dimensions, not 4", operand(inputs, 2)?.rank())));
            };
            let size = Dim::constant(self.offsets);
            let regions = operand(inputs, 1)?.dims.first().cloned().unwrap_or_default();
            require_equal(context, count, &regions, "the number of offsets and of regions")?;
            require_equal(context, rows, &size, "rows of the offsets and `part_size`")?;
            require_equal(context, columns, &size, "columns of the offsets and `part_size`")?;
            let classes = planes.as_const().filter(|planes| *planes > 0 && planes % 2 == 0).map(|planes| planes / 2);
            if classes.is_none_or(|classes| self.parts.channels % classes != 0) {
                return Err(shape_error(format!(
                    "offsets have {planes} channels: not two for each of some classes that share {} channels",
                    self.parts.channels
                )));
            }
        }
        Ok(facts)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (buffers, out) = (self.parts.buffers(builder)?, builder.output(0)?);
        let offsets: Offsets = match builder.input_count() {
            0..=2 => None,
            _ => {
                let buffer = builder.input(2)?;
                let classes = builder.dims(buffer).get(1).cloned().unwrap_or_default().floor_div(&Dim::constant(2));
                Some((buffer, Dim::constant(self.parts.channels).floor_div(&classes)))
            }
        };
        let (dims, sizes) = (builder.dims(out), builder.dims(buffers[0]));
        let size = |axis: usize| sizes.get(axis).cloned().unwrap_or_default();
        let count = builder.temporary(ElementType::I32, dims.clone());
        for to in [count, out] {
            let mut n = builder.nest(&dims);
            let i = n.map_axes();
            let at = place(&i)?;
            let [region, channel, row, column] = at;
            let [y_bin, x_bin] = self.bins.map(|bins| n.reduction_axis(&Dim::constant(bins)));
            let from = (buffers[1], &offsets);
            let [y, y_inside] = self.coordinate(&mut n, from, at, (0, &y_bin, self.bins[0]), &size(2))?;
            let [x, x_inside] = self.coordinate(&mut n, from, at, (1, &x_bin, self.bins[1]), &size(3))?;
            let inside = n.binary(Binary::And, y_inside, x_inside);
            let value = if to == count {
                let inside = n.cast(ElementType::I32, inside);
                n.reduce(ReduceFn::Sum, inside)
            } else {
                let image = Image::of_region(&mut n, buffers, region, &self.parts.channel(channel, row, column))?;
                let (y, x) = (sides(&mut n, y, &size(2)), sides(&mut n, x, &size(3)));
                let value = image.between(&mut n, y, x)?;
                let zero = n.constant_like(value, 0.0);
                let value = n.select(inside, value, zero);
                let sum = n.reduce(ReduceFn::Sum, value);
                let (count, one) = (n.load(count, &i)?, n.constant(Const::I32(1)));
                let count = n.binary(Binary::Max, count, one);
                let count = n.cast(n.type_of(sum).element(), count);
                n.binary(Binary::Div, sum, count)
            };
            n.store(to, &i, value);
        }
        Ok(())
    }
}
