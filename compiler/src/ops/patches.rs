//! Patches of images as columns, and images from such columns: ExtractImagePatches, Col2Im.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::fact::Fact;
use crate::op::operands::{self, MapAxes, flatten, operand, require_equal, shape_error};
use crate::op::window::{AutoPad, Rounding, Slide, Window, positive, reduce, reduction_axis};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::Builder;
use crate::program::nest::ReduceFn;
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] =
    &[row("Col2Im", 15, 15..=17, 3, col2im), row("ExtractImagePatches", 3, 3..=17, 1, extract_image_patches)];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name,
        version,
        opsets,
        inputs: inputs..=inputs,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// `out[n, (ky * KX + kx) * C + c, y, x] = data[n, c, y * stride + ky * rate - pad, x * stride + kx * rate - pad]`, zero
/// outside.
#[derive(Debug)]
struct ExtractImagePatches {
    sizes: Vec<i64>,
    window: Window,
}

fn extract_image_patches(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let modes = [("valid", AutoPad::Valid), ("same_upper", AutoPad::SameUpper), ("same_lower", AutoPad::SameLower)];
    let list = |name: &str| positive(attributes, name, attributes.ints(name)?);
    let window = Window {
        strides: list("strides")?,
        dilations: list("rates")?,
        pads_begin: Vec::new(),
        pads_end: Vec::new(),
        auto_pad: attributes.choice("auto_pad", &modes)?,
        rounding: Rounding::Floor,
    };
    Ok(Rc::new(ExtractImagePatches { sizes: list("sizes")?, window }))
}

impl ExtractImagePatches {
    fn slides(&self, sizes: &[Dim]) -> Result<Vec<Slide>, Diagnostic> {
        if self.sizes.len() != sizes.len() || self.window.dilations.len() != sizes.len() {
            return Err(shape_error(format!("sizes, strides and rates must have {} elements", sizes.len())));
        }
        let kernel: Vec<Dim> = self.sizes.iter().map(|size| Dim::constant(*size)).collect();
        if self.window.auto_pad != AutoPad::Valid {
            return self.window.slides(sizes, &kernel);
        }
        self.window.check_lengths(sizes.len())?;
        let (zero, lists) = (Dim::constant(0), self.window.strides.iter().zip(&self.window.dilations));
        let slide = |((size, kernel), (stride, dilation)): ((&Dim, Dim), (&i64, &i64))| {
            let room = size.clone() - 1 - &((kernel.clone() - 1) * *dilation);
            // Where no patch fits, there is none.
            let out = (room.floor_div(&Dim::constant(*stride)) + 1).maximum(&zero);
            let (before, after) = (zero.clone(), zero.clone());
            Slide { size: size.clone(), kernel, stride: *stride, dilation: *dilation, before, after, out }
        };
        Ok(sizes.iter().zip(kernel).zip(lists).map(slide).collect())
    }
}

impl Op for ExtractImagePatches {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        let [batch, depth, sizes @ ..] = data.dims.as_slice() else {
            return Err(shape_error("patches are taken from data with 4 dimensions"));
        };
        if sizes.len() != 2 {
            return Err(shape_error(format!("patches are taken from data with 4 dimensions, not {}", data.rank())));
        }
        let slides = self.slides(sizes)?;
        let depth = slides.iter().fold(depth.clone(), |depth, slide| depth * &slide.kernel);
        let dims = [batch.clone(), depth].into_iter().chain(slides.into_iter().map(|slide| slide.out)).collect();
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let dims = builder.dims(x);
        let (outer, sizes) = dims.split_at_checked(2).ok_or_else(|| Diagnostic::internal("data without channels"))?;
        let slides = self.slides(sizes)?;
        let kernel: Vec<Dim> = slides.iter().map(|slide| slide.kernel.clone()).collect();
        let mut maps = MapAxes::default();
        let mut data = maps.axes(outer.get(..1).unwrap_or(&[]));
        let taps = maps.axes(&kernel);
        data.extend(maps.axes(outer.get(1..).unwrap_or(&[])));
        let mut index = data.clone();
        let mut bounds = Vec::new();
        for (slide, tap) in slides.iter().zip(&taps) {
            let window = maps.axis(&slide.out);
            let at = slide.position(&window, tap);
            bounds.extend(slide.bound(&at));
            data.push(at);
            index.push(window);
        }
        if let (Some(channel), Some(depth)) = (index.get_mut(1), outer.get(1)) {
            *channel = flatten(&taps, &kernel) * depth + &*channel;
        }
        let mut n = builder.nest(&maps.extents);
        let zero = n.zero_of(x)?;
        let value = n.load_within(x, &data, bounds, zero)?;
        n.store(out, &index, value);
        Ok(())
    }
}

/// The adjoint of taking patches: every pixel is the sum of the elements of patches that lie on it. Data [N, C * KY * KX,
/// blocks] (or without N) becomes [N, C, height, width]; size and kernel are operands.
#[derive(Debug)]
struct Col2Im {
    window: Window,
}

fn col2im(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    // The specification also calls strides and dilations by their singular.
    let list = |names: [&'static str; 2], least: i64| {
        let [name, other] = names;
        let name = if attributes.has(other) { other } else { name };
        let list = attributes.ints_or(name, &[least, least])?;
        match list.len() == 2 && list.iter().all(|v| (least..=i64::from(i32::MAX)).contains(v)) {
            true => Ok(list),
            false => Err(attributes.invalid(name, &format!("two numbers of at least {least}"))),
        }
    };
    let window = Window {
        strides: list(["strides", "stride"], 1)?,
        dilations: list(["dilations", "dilation"], 1)?,
        pads_begin: list(["pads_begin"; 2], 0)?,
        pads_end: list(["pads_end"; 2], 0)?,
        auto_pad: AutoPad::Explicit,
        rounding: Rounding::Floor,
    };
    Ok(Rc::new(Col2Im { window }))
}

impl Col2Im {
    fn slides(&self, inputs: &[Fact]) -> Result<Vec<Slide>, Diagnostic> {
        let sizes = operands::sizes(inputs, 1, "the output size of a Col2Im")?;
        let kernel = operands::sizes(inputs, 2, "the kernel size of a Col2Im")?;
        if sizes.len() != 2 || kernel.len() != 2 || kernel.iter().any(|size| size.range().max < 1) {
            return Err(shape_error(
                "output size and kernel size must be two numbers each, those of the kernel positive",
            ));
        }
        self.window.slides(&sizes, &kernel)
    }
}

impl Op for Col2Im {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        // The elements of an image, under a kernel that is known.
        let images = operand(inputs, 0)?.dims.iter().rev().skip(1).fold(Dim::constant(1), |all, dim| all * dim);
        let known = operand(inputs, 2)?.as_sizes().map(|kernel| images.floor_div(&product(&kernel)));
        let inputs = context.sized(inputs, &[1], "the output size of a Col2Im", &known.unwrap_or(Dim::constant(1)))?;
        let inputs = &*context.sized_within(&inputs, &[2], "the kernel size of a Col2Im", images.upper_bound())?;
        let data = operand(inputs, 0)?;
        typing::number(data.element, "the data of a Col2Im")?;
        let slides = self.slides(inputs)?;
        let (batch, columns, blocks) = match data.dims.as_slice() {
            [columns, blocks] => (None, columns, blocks),
            [batch, columns, blocks] => (Some(batch.clone()), columns, blocks),
            dims => return Err(shape_error(format!("columns have 2 or 3 dimensions, not {}", dims.len()))),
        };
        let taps = slides.iter().fold(Dim::constant(1), |taps, slide| taps * &slide.kernel);
        let count = slides.iter().fold(Dim::constant(1), |count, slide| count * &slide.out);
        let channels = columns.floor_div(&taps);
        require_equal(
            context,
            &(channels.clone() * &taps),
            columns,
            "columns and a multiple of the kernel's elements",
        )?;
        require_equal(context, &count, blocks, "the number of blocks that fit and that there are")?;
        let dims = batch.into_iter().chain([channels]).chain(slides.into_iter().map(|slide| slide.size)).collect();
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let slides = self.slides(builder.facts())?;
        let (kernel, counts): (Vec<Dim>, Vec<Dim>) =
            slides.iter().map(|slide| (slide.kernel.clone(), slide.out.clone())).unzip();
        let mut maps = MapAxes::default();
        let index = maps.axes(&builder.dims(out));
        let mut n = builder.nest(&maps.extents);
        let taps: Vec<Dim> = kernel.iter().map(|extent| reduction_axis(&mut n, extent)).collect();
        let (outer, pixel) = index.split_at(index.len().saturating_sub(2));
        let (mut blocks, mut bounds) = (Vec::new(), Vec::new());
        for ((slide, y), k) in slides.iter().zip(pixel).zip(&taps) {
            let (at, conditions) = slide.window_of(y, k);
            blocks.push(at);
            bounds.extend(conditions);
        }
        let mut data = outer.to_vec();
        if let Some(channel) = data.last_mut() {
            *channel = channel.clone() * &product(&kernel) + &flatten(&taps, &kernel);
        }
        data.push(flatten(&blocks, &counts));
        let zero = n.zero_of(x)?;
        let value = n.load_within(x, &data, bounds, zero)?;
        let sum = reduce(&mut n, ReduceFn::Sum, &taps, value);
        n.store(out, &index, sum);
        Ok(())
    }
}
