//! Layers of YOLO detectors: RegionYolo, ReorgYolo.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, operand, require_equal, shape_error};
use crate::op::reduction;
use crate::op::{InferContext, Op, OpDef, Support, one_output, sampling, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, Unary};
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    // The sizes of boxes are not used by the operation itself.
    row("RegionYolo", 1, &["anchors"], region),
    // Version 1 was first registered in opset2.
    row("ReorgYolo", 2, &[], |a| match a.ints("stride")?.as_slice() {
        [stride, ..] if (1..=1 << 15).contains(stride) => Ok(Rc::new(ReorgYolo { stride: *stride })),
        _ => Err(a.invalid("stride", "a positive number")),
    }),
];

const fn row(
    name: &'static str,
    opset: u8,
    ignorable: &'static [&'static str],
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name,
        version: 1,
        opsets: opset..=17,
        inputs: 1..=1,
        outputs: one_output,
        parse,
        ignorable,
        support: Support::Full,
    }
}

/// RegionYolo-1: the channels of every region of `[N, C, H, W]` are `coords` coordinates of a box, the first two of
/// which become sigmoids, an objectness, which becomes its sigmoid, and scores of `classes`, which become their softmax
/// or their sigmoids. With softmax, dimensions `axis` to `end_axis` of the result are merged.
#[derive(Debug)]
struct RegionYolo {
    coords: i64,
    classes: i64,
    regions: i64,
    /// The axes that are merged; `None` for sigmoids.
    softmax: Option<[i64; 2]>,
}

fn region(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let natural = |name: &str| {
        let value = attributes.int(name)?;
        let fits = (0..=1 << 20).contains(&value);
        if fits { Ok(value) } else { Err(attributes.invalid(name, "a number from 0 to 1048576")) }
    };
    let (coords, classes, regions) = (natural("coords")?, natural("classes")?, natural("num")?);
    let mask = attributes.ints_or("mask", &[])?;
    let axes = [attributes.int("axis")?, attributes.int("end_axis")?];
    let softmax = attributes.bool("do_softmax", true)?.then_some(axes);
    let regions = if softmax.is_some() { regions } else { mask.len() as i64 };
    Ok(Rc::new(RegionYolo { coords, classes, regions, softmax }))
}

impl RegionYolo {
    /// Channels of one region.
    fn channels(&self) -> i64 {
        self.coords + self.classes + 1
    }

    /// The first and the last merged dimension.
    fn merged(&self, rank: usize) -> Result<Option<(usize, usize)>, Diagnostic> {
        let Some([first, last]) = self.softmax else { return Ok(None) };
        let (first, last) = (operands::axis(first, rank)?, operands::axis(last, rank)?);
        if first > last {
            return Err(shape_error(format!("`end_axis` {last} comes before `axis` {first}")));
        }
        Ok(Some((first, last)))
    }

    /// Maximum and sum of exponentials of the scores: `[N, regions, H, W]` each.
    fn statistics(&self, builder: &mut Builder) -> Result<[BufferId; 2], Diagnostic> {
        let x = builder.input(0)?;
        let wide = builder.scalar_type(x)?.element();
        let mut dims = builder.dims(x);
        if let Some(channels) = dims.get_mut(1) {
            *channels = Dim::constant(self.regions);
        }
        let max = builder.temporary(wide, dims.clone());
        let sum = builder.temporary(wide, dims.clone());
        for out in [max, sum] {
            let mut n = builder.nest(&dims);
            let i = n.map_axes();
            let class = n.reduction_axis(&Dim::constant(self.classes));
            let mut at = i.clone();
            if let Some(channel) = at.get_mut(1) {
                *channel = channel.clone() * self.channels() + class + (self.coords + 1);
            }
            let score = n.load(x, &at)?;
            let reduced = if out == max {
                n.reduce(ReduceFn::Max, score)
            } else {
                let max = n.load(max, &i)?;
                let power = exponential(&mut n, score, max);
                n.reduce(ReduceFn::Sum, power)
            };
            n.store(out, &i, reduced);
        }
        Ok([max, sum])
    }
}

/// `exp(score - max)`.
fn exponential(n: &mut NestBuilder, score: Node, max: Node) -> Node {
    let difference = n.binary(Binary::Sub, score, max);
    reduction::exponential(n, difference)
}

impl Op for RegionYolo {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = operand(inputs, 0)?;
        typing::float(x.element, "the feature map")?;
        let [batch, channels, height, width] = x.dims.as_slice() else {
            return Err(shape_error(format!("the feature map has {} dimensions, not 4", x.rank())));
        };
        let used = Dim::constant(self.regions) * self.channels();
        if (channels.clone() - &used).range().min < 0 {
            return Err(shape_error(format!(
                "{channels} channels are fewer than the {used} of {} regions",
                self.regions
            )));
        }
        let dims = match self.merged(x.rank())? {
            None => vec![batch.clone(), used, height.clone(), width.clone()],
            Some((first, last)) => {
                let (before, behind) = (x.dims.iter().take(first), x.dims.iter().skip(last + 1));
                let merged = product(x.dims.get(first..=last).unwrap_or(&[]));
                before.cloned().chain([merged]).chain(behind.cloned()).collect()
            }
        };
        Ok(vec![Fact::new(x.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let statistics = match self.softmax {
            Some(_) if self.regions > 0 => Some(self.statistics(builder)?),
            _ => None,
        };
        let to = match self.softmax {
            Some(_) => builder.temporary(builder.element(x), builder.dims(x)),
            None => out,
        };
        builder.map(to, |n, i| {
            let value = n.load(x, i)?;
            let channel = i.get(1).cloned().unwrap_or_default();
            let own = Dim::constant(self.channels());
            let (region, entry) = (channel.floor_div(&own), n.index(&channel.modulo(&own)));
            let (two, first) = (n.constant(Const::I64(2)), n.constant(Const::I64(self.coords)));
            let last = if self.softmax.is_some() { self.coords } else { self.coords + self.classes };
            let last = n.constant(Const::I64(last));
            let corner = n.binary(Binary::Lt, entry, two);
            let objectness = sampling::inside(n, entry, first, last);
            let mut result = value;
            for condition in [corner, objectness] {
                let sigmoid = n.unary(Unary::Sigmoid, result);
                result = n.select(condition, sigmoid, result);
            }
            let Some(statistics) = statistics else { return Ok(if self.softmax.is_some() { value } else { result }) };
            // Channels behind the last region stay as they are.
            let place = region.minimum(&Dim::constant(self.regions - 1));
            let mut at = i.to_vec();
            if let Some(channel) = at.get_mut(1) {
                *channel = place;
            }
            let [max, sum] = statistics.map(|buffer| n.load(buffer, &at));
            let power = exponential(n, value, max?);
            let share = n.binary(Binary::Div, power, sum?);
            let score = n.binary(Binary::Lt, last, entry);
            let result = n.select(score, share, result);
            let (region, regions) = (n.index(&region), n.constant(Const::I64(self.regions)));
            let used = n.binary(Binary::Lt, region, regions);
            Ok(n.select(used, result, value))
        })?;
        if to != out {
            builder.reshape(to, out);
        }
        Ok(())
    }
}

/// ReorgYolo-1: `[N, C, H, W]` becomes `[N, C * stride^2, H / stride, W / stride]`. Seen as `[N, C / stride^2,
/// H * stride, W * stride]`, every one of stride^2 interleaved parts becomes a run of channels of `[N, C, H, W]`, which
/// is then seen as the result.
#[derive(Debug)]
struct ReorgYolo {
    stride: i64,
}

impl Op for ReorgYolo {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = operand(inputs, 0)?;
        if x.element == ElementType::String {
            typing::number(x.element, "the feature map")?;
        }
        let [batch, channels, height, width] = x.dims.as_slice() else {
            return Err(shape_error(format!("the feature map has {} dimensions, not 4", x.rank())));
        };
        let area = self.stride * self.stride;
        let divided = |size: &Dim, by: i64, what: &str, context: &mut InferContext| {
            let part = size.floor_div(&Dim::constant(by));
            require_equal(context, &(part.clone() * by), size, &format!("{what} and a multiple of {by}"))?;
            Ok(part)
        };
        divided(channels, area, "channels", context)?;
        let height = divided(height, self.stride, "rows", context)?;
        let width = divided(width, self.stride, "columns", context)?;
        Ok(vec![Fact::new(x.element, vec![batch.clone(), channels.clone() * area, height, width])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let (element, dims) = (builder.element(x), builder.dims(x));
        let [batch, channels, height, width] = dims.as_slice() else {
            return Err(Diagnostic::internal("a feature map lacks dimensions"));
        };
        let (stride, run) = (Dim::constant(self.stride), channels.floor_div(&Dim::constant(self.stride * self.stride)));
        let wide = vec![batch.clone(), run.clone(), height.clone() * self.stride, width.clone() * self.stride];
        let (from, to) = (builder.temporary(element, wide), builder.temporary(element, dims.clone()));
        builder.reshape(x, from);
        let mut n = builder.nest(&[batch.clone(), stride.clone(), stride, run.clone(), height.clone(), width.clone()]);
        let i = n.map_axes();
        let [batch, y, x, channel, row, column] = i.as_slice() else {
            return Err(Diagnostic::internal("a feature map lacks dimensions"));
        };
        let at = [batch.clone(), channel.clone(), row.clone() * self.stride + y, column.clone() * self.stride + x];
        let value = n.load(from, &at)?;
        let plane = (y.clone() * self.stride + x) * &run + channel;
        n.store(to, &[batch.clone(), plane, row.clone(), column.clone()], value);
        builder.reshape(to, out);
        Ok(())
    }
}
