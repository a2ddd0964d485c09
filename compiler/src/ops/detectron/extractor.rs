//! ExperimentalDetectronROIFeatureExtractor: features of regions, each from the level of a pyramid that fits its size.

use super::regions;
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::points::{self, Points};
use crate::op::sampling::{Image, place};
use crate::op::{InferContext, Op, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, Unary};
use crate::read::Attributes;
use std::rc::Rc;

/// Side of the regions that belong between two levels.
const CANONICAL_SIDE: f64 = 224.0;
/// The level above it.
const CANONICAL_LEVEL: i32 = 2;

/// ExperimentalDetectronROIFeatureExtractor-6: features of every region from the level of a pyramid that fits its size,
/// `[regions, channels, cells, cells]`, zero for regions without area, and the regions.
///
/// Operands: regions `[regions, 4]` and the feature maps `[1, channels, rows, columns]` of all levels.
#[derive(Debug)]
struct FeatureExtractor {
    cells: i64,
    /// Points along each side of a cell; 0: as many as it has pixels.
    ratio: i64,
    /// Pixels of the image per pixel of every level.
    scales: Vec<i64>,
    /// Coordinates count from the centres of pixels.
    aligned: bool,
}

/// ExperimentalDetectronROIFeatureExtractor-6.
///
/// # Errors
/// Attributes that are missing or cannot be read.
pub fn parse(a: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let (cells, scales) = (a.int("output_size")?, a.ints("pyramid_scales")?);
    if cells < 1 {
        return Err(a.invalid("output_size", "a positive number"));
    }
    if scales.iter().any(|scale| *scale < 1) {
        return Err(a.invalid("pyramid_scales", "a list of positive numbers"));
    }
    Ok(Rc::new(FeatureExtractor { cells, ratio: points::ratio(a)?, scales, aligned: a.bool("aligned", false)? }))
}

impl Op for FeatureExtractor {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        typing::equal(inputs)?;
        let boxes = operand(inputs, 0)?;
        let count = regions(boxes, context)?;
        let levels = inputs.get(1..).unwrap_or(&[]);
        if levels.len() != self.scales.len() {
            let message = format!("there are {} feature maps, but {} scales", levels.len(), self.scales.len());
            return Err(shape_error(message));
        }
        let channels = operand(inputs, 1)?.dims.get(1).cloned().unwrap_or_default();
        for map in levels {
            let [images, own, _, _] = map.dims.as_slice() else {
                return Err(shape_error("feature maps must have four dimensions"));
            };
            require_equal(context, images, &Dim::constant(1), "images of a feature map and one image")?;
            require_equal(context, own, &channels, "channels of the feature maps")?;
        }
        let cells = Dim::constant(self.cells);
        let features = Fact::new(boxes.element, vec![count, channels, cells.clone(), cells]);
        Ok(vec![features, Fact::new(boxes.element, boxes.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (regions, out) = (builder.input(0)?, builder.output(0)?);
        let (levels, pyramid) = (self.levels(builder, regions)?, Pyramid::new(builder)?);
        let dims = builder.dims(out);
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let [region, channel, row, column] = place(&i)?;
        let level = n.load(levels, std::slice::from_ref(region))?;
        let image = pyramid.image(&mut n, level, channel);
        let field = |n: &mut NestBuilder, k: i64| n.load(regions, &[region.clone(), Dim::constant(k)]);
        let mut sides = Vec::new();
        for axis in [1, 0] {
            let edges = [field(&mut n, axis)?, field(&mut n, axis + 2)?];
            sides.push(self.points(&mut n, edges, level));
        }
        let [ys, xs] = sides[..] else { return Err(Diagnostic::internal("a region has two sides")) };
        let first = n.constant_like(ys.start, -1.0);
        let y = ys.coordinate(&mut n, row, first, &pyramid.most);
        let x = xs.coordinate(&mut n, column, first, &pyramid.most);
        let value = points::sampled(&mut n, &image, y, x)?;
        let sum = n.reduce(ReduceFn::Sum, value);
        let (mean, none) = (points::mean(&mut n, sum, ys, xs), n.constant(Const::I64(-1)));
        let (empty, zero) = (n.binary(Binary::Eq, level, none), n.constant_like(mean, 0.0));
        let value = n.select(empty, zero, mean);
        n.store(out, &i, value);
        builder.convert(regions, builder.output(1)?)
    }
}

impl FeatureExtractor {
    /// A new list of the levels of regions; -1 for those without area.
    fn levels(&self, builder: &mut Builder, regions: BufferId) -> Result<BufferId, Diagnostic> {
        let count = builder.dims(regions).first().cloned().unwrap_or_default();
        let levels = builder.temporary(ElementType::I64, vec![count]);
        builder.map(levels, |n, i| {
            let mut extents = Vec::new();
            for side in [0, 1] {
                let [start, end] = [side, side + 2].map(|field| [i, &[Dim::constant(field)]].concat());
                let (start, end) = (n.load(regions, &start)?, n.load(regions, &end)?);
                extents.push(n.binary(Binary::Sub, end, start));
            }
            let [width, height] = extents[..] else { return Err(Diagnostic::internal("a region has two sides")) };
            let area = n.binary(Binary::Mul, width, height);
            let (side, canonical) = (n.unary(Unary::Sqrt, area), n.constant_like(area, CANONICAL_SIDE));
            let (size, little) = (n.binary(Binary::Div, side, canonical), n.constant_like(area, 1e-6));
            let size = n.binary(Binary::Add, size, little);
            // The level above the logarithm: as many levels begin below the size, each with twice the size of the last.
            let mut level = n.constant(Const::I64(0));
            for above in (1 - CANONICAL_LEVEL..).take(self.scales.len().saturating_sub(1)) {
                let begins = n.constant_like(size, 2f64.powi(above));
                let reached = n.binary(Binary::Le, begins, size);
                let reached = n.cast(ElementType::I64, reached);
                level = n.binary(Binary::Add, level, reached);
            }
            let (zero, none) = (n.constant_like(area, 0.0), n.constant(Const::I64(-1)));
            let positive = n.binary(Binary::Lt, zero, area);
            Ok(n.select(positive, level, none))
        })?;
        Ok(levels)
    }

    /// The points between two edges of a region.
    fn points(&self, n: &mut NestBuilder, edges: [Node; 2], level: Node) -> Points {
        let scales = self.scales.iter().map(|scale| n.constant_like(edges[0], *scale as f64)).collect();
        let (scale, shift) = (chosen(n, level, scales), if self.aligned { 0.5 } else { 0.0 });
        let shift = n.constant_like(scale, shift);
        let [start, end] = edges.map(|edge| {
            let at = n.binary(Binary::Div, edge, scale);
            n.binary(Binary::Sub, at, shift)
        });
        let (extent, one) = (n.binary(Binary::Sub, end, start), n.constant_like(start, 1.0));
        let (extent, cells) = (n.binary(Binary::Max, extent, one), n.constant_like(start, self.cells as f64));
        let cell = n.binary(Binary::Div, extent, cells);
        Points::new(n, start, cell, self.ratio)
    }
}

/// The pixels of all levels in one list, so that a region of any level looks its pixels up there.
struct Pyramid {
    /// `[pixels, channels]`.
    pixels: BufferId,
    /// By level: first pixel, rows and columns.
    levels: Vec<[Dim; 3]>,
    /// Points of a cell along a side that are on a map: neighbours are more than half a pixel apart, where there are several.
    most: Dim,
}

impl Pyramid {
    fn new(builder: &mut Builder) -> Result<Self, Diagnostic> {
        let (mut levels, mut first, mut most) = (Vec::new(), Dim::constant(0), Dim::constant(0));
        let maps = (1..builder.input_count()).map(|i| builder.input(i)).collect::<Result<Vec<_>, _>>()?;
        for map in &maps {
            let dims = builder.dims(*map);
            let [_, _, rows, columns] = &dims[..] else {
                return Err(Diagnostic::internal("feature maps lack dimensions"));
            };
            levels.push([first.clone(), rows.clone(), columns.clone()]);
            first = first + &(rows.clone() * columns);
            most = most.maximum(&rows.maximum(columns));
        }
        let channels = maps.first().and_then(|map| builder.dims(*map).get(1).cloned()).unwrap_or_default();
        let element = builder.element(builder.output(0)?);
        let pixels = builder.temporary(element, vec![first, channels.clone()]);
        for (map, [first, rows, columns]) in maps.iter().zip(&levels) {
            let mut n = builder.nest(&[channels.clone(), rows.clone(), columns.clone()]);
            let [channel, row, column] = [0, 1, 2].map(Dim::axis);
            let value = n.load(*map, &[Dim::constant(0), channel.clone(), row.clone(), column.clone()])?;
            n.store(pixels, &[row * columns + &column + first, channel], value);
        }
        Ok(Pyramid { pixels, levels, most: most * 2 + 8 })
    }

    /// A channel of a level.
    fn image(&self, n: &mut NestBuilder, level: Node, channel: &Dim) -> Image {
        let [first, rows, columns] = [0, 1, 2].map(|part: usize| {
            let parts = self.levels.iter().map(|level| n.index(&level[part])).collect();
            chosen(n, level, parts)
        });
        Image::of_pixels(n, self.pixels, first, [rows, columns], channel)
    }
}

/// The value of a level; that of the first one for those below.
fn chosen(n: &mut NestBuilder, level: Node, values: Vec<Node>) -> Node {
    let mut values = values.into_iter();
    let first = values.next().unwrap_or(level);
    (1..).zip(values).fold(first, |chosen, (at, value)| {
        let at = n.constant(Const::I64(at));
        let this = n.binary(Binary::Eq, level, at);
        n.select(this, value, chosen)
    })
}
