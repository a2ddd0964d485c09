//! Boxes that detectors start from, around the cells of a layer: PriorBox, PriorBoxClustered.

use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, flatten, operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node};
use crate::read::Attributes;
use crate::tensor::Tensor;
use include_ir_runtime::__private::v1::math;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("PriorBox", 1, 1..=7, |a| prior_box(a, true)),
    row("PriorBox", 8, 8..=17, |a| prior_box(a, a.bool("min_max_aspect_ratios_order", true)?)),
    row("PriorBoxClustered", 1, 1..=17, clustered),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs: 2..=2, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

/// One of the boxes around the centre of a cell, along x and y.
#[derive(Clone, Copy, Debug)]
struct Prior {
    /// Distance from the centre of the cell.
    shift: [f32; 2],
    /// Half the extent.
    half: [f32; 2],
    /// Whether results are not below 0 at the lower corner, and not above 1 at the upper one.
    clipped: bool,
}

/// Distance of neighbouring cells along an axis, in pixels.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The extent of the image by the number of cells.
    Image,
    /// The height of the image by the number of rows.
    ImageRow,
    /// A number.
    Pixels(f32),
    /// A number of image heights.
    ImageHeights(f32),
}

/// PriorBox-1, -8 and PriorBoxClustered-1: `[2, cells * boxes * 4]`. Row 0 holds the corners `x0, y0, x1, y1` of all
/// boxes of all cells of a layer, where 1 is the extent of the image; row 1 their variances. Operands: rows and columns
/// of the layer, height and width of the image.
#[derive(Debug)]
struct Priors {
    boxes: Vec<Prior>,
    variances: [f32; 4],
    /// Place of the centre in the first cell.
    origin: f32,
    /// Along x and y.
    steps: [Step; 2],
    /// Extents of boxes are in image heights, else in pixels.
    in_heights: bool,
    /// All results are clipped to 0 and 1.
    clip: bool,
}

/// More boxes in a cell are taken for a mistake.
const MOST: usize = 1 << 16;

fn floats(attributes: &Attributes, name: &str) -> Result<Vec<f32>, Diagnostic> {
    Ok(attributes.floats_or(name, &[])?.into_iter().map(|value| value as f32).collect())
}

fn variances(attributes: &Attributes) -> Result<[f32; 4], Diagnostic> {
    match floats(attributes, "variance")?.as_slice() {
        [] => Ok([0.1; 4]),
        [one] => Ok([*one; 4]),
        [a, b, c, d] => Ok([*a, *b, *c, *d]),
        _ => Err(attributes.invalid("variance", "a list of one or four numbers")),
    }
}

/// The attributes that say which boxes a PriorBox has.
struct Sizes {
    min: Vec<f32>,
    max: Vec<f32>,
    /// Without 1.
    ratios: Vec<f32>,
    /// Different ratios, with 1.
    ratio_count: i64,
    fixed: Vec<f32>,
    fixed_ratios: Vec<f32>,
    densities: Vec<i64>,
    scale_all: bool,
    max_first: bool,
}

impl Sizes {
    fn parse(attributes: &Attributes, max_first: bool) -> Result<Self, Diagnostic> {
        let flip = attributes.bool("flip", false)?;
        let (mut ratios, mut rounded) = (vec![1.0f32], vec![1.0f32]);
        let near = |list: &[f32], value: f32| list.iter().any(|other| math::abs(value - other) < 1e-6);
        for ratio in floats(attributes, "aspect_ratio")? {
            let flipped = flip.then_some(1.0 / ratio);
            if !near(&ratios, ratio) {
                ratios.extend([Some(ratio), flipped].into_iter().flatten());
            }
            for value in [Some(ratio), flipped].into_iter().flatten() {
                let value = math::round_half_away(value * 1e6) / 1e6;
                if !rounded.contains(&value) {
                    rounded.push(value);
                }
            }
        }
        let densities = floats(attributes, "density")?;
        if densities.iter().any(|density| !(1.0..=256.0).contains(density)) {
            return Err(attributes.invalid("density", "a list of numbers from 1 to 256"));
        }
        Ok(Sizes {
            min: floats(attributes, "min_size")?,
            max: floats(attributes, "max_size")?,
            ratios: ratios.into_iter().filter(|ratio| math::abs(ratio - 1.0) >= 1e-6).collect(),
            ratio_count: rounded.len() as i64,
            fixed: floats(attributes, "fixed_size")?,
            fixed_ratios: floats(attributes, "fixed_ratio")?,
            densities: densities.into_iter().map(|density| density as i64).collect(),
            scale_all: attributes.bool("scale_all_sizes", true)?,
            max_first,
        })
    }

    /// How many boxes the shape of the result counts.
    fn count(&self) -> i64 {
        let (min, max) = (self.min.len() as i64, self.max.len() as i64);
        let mut count = match (self.fixed.is_empty(), self.scale_all) {
            (false, _) => self.ratio_count * self.fixed.len() as i64,
            (true, true) => self.ratio_count * min + max,
            (true, false) => self.ratio_count + min - 1,
        };
        let ratios = if self.fixed_ratios.is_empty() { self.ratio_count } else { self.fixed_ratios.len() as i64 };
        for density in &self.densities {
            count += ratios * (density * density - 1);
        }
        count
    }

    fn boxes(&self) -> Vec<Prior> {
        let mut boxes = Vec::new();
        for (size, density) in self.fixed.iter().zip(&self.densities) {
            self.dense(&mut boxes, *size, *density);
        }
        let mut around = |half: [f32; 2]| boxes.push(Prior { shift: [0.0; 2], half, clipped: false });
        for (i, min) in self.min.iter().enumerate() {
            around([min * 0.5; 2]);
            let larger = self.max.get(i).map(|max| [math::sqrt(min * max) * 0.5; 2]);
            let last = i + 1 == self.min.len();
            let base = if self.scale_all { Some(*min) } else { self.min.first().copied().filter(|_| last) };
            let stretched = base.iter().flat_map(|base| self.ratios.iter().map(|ratio| stretched(*base, *ratio)));
            match self.max_first {
                true => larger.into_iter().chain(stretched).for_each(&mut around),
                false => stretched.chain(larger).for_each(&mut around),
            }
        }
        boxes
    }

    /// Boxes of a fixed size on a grid with `density` places along each axis.
    fn dense(&self, boxes: &mut Vec<Prior>, size: f32, density: i64) {
        let (whole, distance) = (size as i64, (size / density as f32) as i64);
        let square = self.fixed_ratios.is_empty().then_some([whole as f32 * 0.5; 2]);
        let ratios = if self.fixed_ratios.is_empty() { &self.ratios } else { &self.fixed_ratios };
        for half in square.into_iter().chain(ratios.iter().map(|ratio| stretched(size, *ratio))) {
            let place = |i: i64| distance as f32 / 2.0 - (whole / 2) as f32 + (i * distance) as f32;
            for (y, x) in (0..density).flat_map(|y| (0..density).map(move |x| (y, x))) {
                boxes.push(Prior { shift: [place(x), place(y)], half, clipped: true });
            }
        }
    }
}

/// Half the extents of a box whose width is to its height as `ratio` to 1.
fn stretched(size: f32, ratio: f32) -> [f32; 2] {
    let root = math::sqrt(ratio);
    [size * 0.5 * root, size * 0.5 / root]
}

fn prior_box(attributes: &Attributes, max_first: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    let sizes = Sizes::parse(attributes, max_first)?;
    let estimate =
        sizes.densities.iter().map(|d| (d * d) as usize).sum::<usize>() + sizes.min.len() + sizes.fixed.len();
    let ratios = sizes.ratios.len() + sizes.fixed_ratios.len() + 2;
    let boxes = if estimate.saturating_mul(ratios) <= MOST { sizes.boxes() } else { Vec::new() };
    if boxes.is_empty() || boxes.len() as i64 != sizes.count() {
        let message =
            format!("sizes, ratios and densities describe {} boxes per cell, not {}", boxes.len(), sizes.count());
        return Err(Diagnostic::error(&codes::BAD_ATTRIBUTE, message)
            .at(attributes.layer().span)
            .help("`density` belongs to `fixed_size`, `max_size` to `min_size`; they are not mixed"));
    }
    let step = attributes.float_or("step", 0.0)? as f32;
    let (offset, heights) = (attributes.float("offset")? as f32, !sizes.scale_all);
    let (origin, step) = match step {
        0.0 => (0.5, Step::Image),
        -1.0 if heights => (offset, Step::ImageRow),
        _ if heights => (offset, Step::ImageHeights(step)),
        _ => (offset, Step::Pixels(step)),
    };
    Ok(Rc::new(Priors {
        boxes,
        variances: variances(attributes)?,
        origin,
        steps: [step; 2],
        in_heights: heights && sizes.fixed.is_empty(),
        clip: attributes.bool("clip", false)?,
    }))
}

fn clustered(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let list = |name: &str| attributes.floats_or(name, &[1.0]);
    let (widths, heights) = (list("width")?, list("height")?);
    if widths.len() != heights.len() || widths.is_empty() || widths.len() > MOST {
        return Err(attributes.invalid("height", "as long as `width`"));
    }
    let step = |name: &str| Ok(attributes.float_or(name, 0.0)? as f32);
    let both = step("step")?;
    let or_both = |own: f32| if own == 0.0 { both } else { own };
    let steps = [or_both(step("step_w")?), or_both(step("step_h")?)];
    let extent = |(width, height): (&f64, &f64)| Prior {
        shift: [0.0; 2],
        half: [*width as f32 / 2.0, *height as f32 / 2.0],
        clipped: false,
    };
    Ok(Rc::new(Priors {
        boxes: widths.iter().zip(&heights).map(extent).collect(),
        variances: variances(attributes)?,
        origin: attributes.float("offset")? as f32,
        steps: if steps == [0.0; 2] { [Step::Image; 2] } else { steps.map(Step::Pixels) },
        in_heights: false,
        clip: attributes.bool("clip", true)?,
    }))
}

/// Columns of the table of boxes: distance of a corner from the centre of the cell, half the extent with a sign, and
/// the interval of results.
const COLUMNS: usize = 4;

impl Priors {
    /// Rows and columns of the layer.
    fn layer(inputs: &[Fact]) -> Result<[Dim; 2], Diagnostic> {
        match operands::sizes(inputs, 0, "the size of the layer")?.as_slice() {
            [rows, columns] => Ok([rows.clone(), columns.clone()]),
            other => Err(shape_error(format!("the size of the layer has {} elements, not 2", other.len()))),
        }
    }

    /// `[boxes, 4, COLUMNS]`.
    fn table(&self) -> Tensor {
        let mut values = Vec::new();
        for prior in &self.boxes {
            for (sign, axis) in [(-1.0, 0), (-1.0, 1), (1.0, 0), (1.0, 1)] {
                let ([x, y], [width, height]) = (prior.shift, prior.half);
                let (shift, half) = if axis == 0 { (x, width) } else { (y, height) };
                let (all, low, high) = (self.clip, prior.clipped && sign < 0.0, prior.clipped && sign > 0.0);
                let least = if all || low { 0.0 } else { f32::NEG_INFINITY };
                let most = if all || high { 1.0 } else { f32::INFINITY };
                values.extend([shift, half * sign, least, most]);
            }
        }
        Tensor::from_f32s(vec![self.boxes.len(), 4, COLUMNS], &values)
    }

    /// The centre of a cell along an axis, in pixels.
    fn centre(&self, n: &mut NestBuilder, axis: usize, cell: &Dim, layer: &[Dim; 2], image: [Node; 2]) -> Node {
        let [rows, columns] = layer;
        let [height, width] = image;
        let (cells, extent) = if axis == 0 { (columns, width) } else { (rows, height) };
        let float = |n: &mut NestBuilder, dim: &Dim| {
            let value = n.index(dim);
            n.cast(ElementType::F32, value)
        };
        let step = match self.steps.get(axis).copied().unwrap_or(Step::Image) {
            Step::Image => {
                let cells = float(n, cells);
                n.binary(Binary::Div, extent, cells)
            }
            Step::ImageRow => {
                let rows = float(n, rows);
                n.binary(Binary::Div, height, rows)
            }
            Step::Pixels(step) => n.constant(Const::F32(step)),
            Step::ImageHeights(step) => {
                let step = n.constant(Const::F32(step));
                n.binary(Binary::Mul, step, height)
            }
        };
        let (cell, origin) = (float(n, cell), n.constant(Const::F32(self.origin)));
        let place = n.binary(Binary::Add, cell, origin);
        n.binary(Binary::Mul, place, step)
    }

    /// The corners along one axis.
    fn lower_axis(
        &self,
        builder: &mut Builder,
        axis: usize,
        layer: &[Dim; 2],
        table: BufferId,
    ) -> Result<(), Diagnostic> {
        let (image, out) = (builder.input(1)?, builder.output(0)?);
        let [rows, columns] = layer;
        let extents = [rows.clone(), columns.clone(), Dim::from(self.boxes.len()), Dim::constant(2)];
        let mut n = builder.nest(&extents);
        let i = n.map_axes();
        let [row, column, prior, corner] = i.as_slice() else {
            return Err(Diagnostic::internal("boxes lack dimensions"));
        };
        let size = |n: &mut NestBuilder, k: i64| -> Result<Node, Diagnostic> {
            let size = n.load(image, &[Dim::constant(k)])?;
            Ok(n.cast(ElementType::F32, size))
        };
        let sizes = [size(&mut n, 0)?, size(&mut n, 1)?];
        let [height, width] = sizes;
        let centre = self.centre(&mut n, axis, if axis == 0 { column } else { row }, layer, sizes);
        let coordinate = corner.clone() * 2 + Dim::from(axis);
        let mut entries = [0; COLUMNS];
        for (k, entry) in entries.iter_mut().enumerate() {
            *entry = n.load(table, &[prior.clone(), coordinate.clone(), Dim::from(k)])?;
        }
        let [shift, half, least, most] = entries;
        let half = if self.in_heights { n.binary(Binary::Mul, half, height) } else { half };
        let centre = n.binary(Binary::Add, centre, shift);
        let edge = n.binary(Binary::Add, centre, half);
        let value = n.binary(Binary::Div, edge, if axis == 0 { width } else { height });
        let value = n.binary(Binary::Max, value, least);
        let value = n.binary(Binary::Min, value, most);
        let at = [row.clone(), column.clone(), prior.clone(), coordinate];
        let flat = flatten(&at, &[rows.clone(), columns.clone(), Dim::from(self.boxes.len()), Dim::constant(4)]);
        n.store(out, &[Dim::constant(0), flat], value);
        Ok(())
    }
}

impl Op for Priors {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let image = operand(inputs, 1)?;
        typing::integer(image.element, "the size of the image")?;
        match image.dims.as_slice() {
            [size] => require_equal(context, size, &Dim::constant(2), "the size of the image and height and width")?,
            dims => return Err(shape_error(format!("the size of the image has {} dimensions, not 1", dims.len()))),
        }
        let layer = Self::layer(inputs)?;
        if let Some(size) = layer.iter().find(|size| size.range().max < 0) {
            return Err(Diagnostic::error(&codes::VALUE, format!("the size of the layer contains {size}")));
        }
        let numbers = product(&layer) * 4 * &Dim::from(self.boxes.len());
        Ok(vec![Fact::new(ElementType::F32, vec![Dim::constant(2), numbers])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let out = builder.output(0)?;
        let layer = Self::layer(builder.facts())?;
        let table = builder.constant(self.table());
        for axis in [0, 1] {
            self.lower_axis(builder, axis, &layer, table)?;
        }
        let variances = builder.constant(Tensor::from_f32s(vec![4], &self.variances));
        let mut n = builder.nest(&[product(&layer) * &Dim::from(self.boxes.len()), Dim::constant(4)]);
        let i = n.map_axes();
        let [prior, coordinate] = i.as_slice() else { return Err(Diagnostic::internal("boxes lack dimensions")) };
        let variance = n.load(variances, std::slice::from_ref(coordinate))?;
        n.store(out, &[Dim::constant(1), prior.clone() * 4 + coordinate], variance);
        Ok(())
    }
}
