//! Normalisations: by given or by computed statistics.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::reduction::{self, pinned};
use crate::op::{InferContext, Op, OpDef, Support, axes, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Bound, Node, ReduceFn, Unary};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("BatchNormInference", 1, 1..=4, 5, |a| batch_norm(a, [2, 0, 1, 3, 4])),
    row("BatchNormInference", 5, 5..=17, 5, |a| batch_norm(a, [0, 1, 2, 3, 4])),
    row("GRN", 1, 1..=17, 1, |a| Ok(Rc::new(Grn { bias: a.float("bias")? }))),
    row("GroupNormalization", 12, 12..=17, 3, |a| {
        let (groups, epsilon) = (a.int("num_groups")?, a.float("epsilon")?);
        match groups {
            1.. => Ok(Rc::new(GroupNorm { groups, epsilon })),
            _ => Err(a.invalid("num_groups", "a positive number")),
        }
    }),
    row("LRN", 1, 1..=17, 2, |a| {
        let size = a.int("size")?;
        let (alpha, beta, bias) = (a.float("alpha")?, a.float("beta")?, a.float("bias")?);
        match size {
            1..=0xffff_ffff => Ok(Rc::new(Lrn { alpha, beta, bias, size })),
            _ => Err(a.invalid("size", "a positive number")),
        }
    }),
    row("MVN", 1, 2..=5, 1, mvn_1),
    row("MVN", 6, 6..=17, 2, |a| {
        let modes = [("inside_sqrt", true), ("outside_sqrt", false)];
        Ok(Rc::new(Mvn {
            axes: MvnAxes::Operand,
            normalize_variance: a.bool("normalize_variance", true)?,
            epsilon: a.float("eps")?,
            epsilon_inside: a.choice("eps_mode", &modes)?,
        }))
    }),
    row("NormalizeL2", 1, 1..=17, 2, |a| {
        let modes = [("add", Binary::Add), ("max", Binary::Max)];
        Ok(Rc::new(NormalizeL2 { epsilon: a.float("eps")?, combine: a.choice("eps_mode", &modes)? }))
    }),
];

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

/// Type and dimensions of a floating-point operand, which are those of the result.
fn same_as(x: &Fact) -> Result<Vec<Fact>, Diagnostic> {
    typing::float(x.element, "the operand of a normalisation")?;
    Ok(vec![Fact::new(x.element, x.dims.clone())])
}

/// Dimension 1.
fn channels(x: &Fact) -> Result<&Dim, Diagnostic> {
    x.dims.get(1).ok_or_else(|| {
        Diagnostic::error(&codes::SHAPE, format!("the operand has rank {}: there is no channel dimension", x.rank()))
    })
}

/// Demands a vector with one element per channel.
fn per_channel(fact: &Fact, channels: &Dim, what: &str, context: &mut InferContext) -> Result<(), Diagnostic> {
    match fact.dims.as_slice() {
        [dim] if context.require_equal(dim, channels) => Ok(()),
        _ => {
            let dims: Vec<String> = fact.dims.iter().map(ToString::to_string).collect();
            let message = format!("{what} has shape [{}], not [{channels}]", dims.join(", "));
            Err(Diagnostic::error(&codes::SHAPE, message))
        }
    }
}

/// BatchNormInference: `(x - mean) / sqrt(variance + epsilon) * gamma + beta` for every channel (dimension 1).
#[derive(Debug)]
struct BatchNorm {
    epsilon: f64,
    /// Operands x, gamma, beta, mean, variance.
    order: [usize; 5],
}

fn batch_norm(attributes: &Attributes, order: [usize; 5]) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(BatchNorm { epsilon: attributes.float("epsilon")?, order }))
}

impl Op for BatchNorm {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let [x, parameters @ ..] = self.order;
        let x = typing::operand(inputs, x)?;
        typing::equal(inputs)?;
        let channels = channels(x)?;
        for (i, what) in parameters.into_iter().zip(["gamma", "beta", "the mean", "the variance"]) {
            per_channel(typing::operand(inputs, i)?, channels, what, context)?;
        }
        same_as(x)
    }

    /// As `x * scale + shift`: the form that folds into a convolution before it.
    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let [x, gamma, beta, mean, variance] = self.order;
        let (x, gamma, beta) = (builder.input(x)?, builder.input(gamma)?, builder.input(beta)?);
        let (mean, variance, out) = (builder.input(mean)?, builder.input(variance)?, builder.output(0)?);
        let wide = builder.scalar_type(x)?.element();
        let (scale, shift) =
            (builder.temporary(wide, builder.dims(gamma)), builder.temporary(wide, builder.dims(gamma)));
        builder.map(scale, |n, i| {
            let (gamma, variance) = (n.load(gamma, i)?, n.load(variance, i)?);
            let epsilon = n.constant_like(variance, self.epsilon);
            let sum = n.binary(Binary::Add, variance, epsilon);
            let root = n.unary(Unary::Sqrt, sum);
            Ok(n.binary(Binary::Div, gamma, root))
        })?;
        builder.map(shift, |n, i| {
            let (beta, mean, scale) = (n.load(beta, i)?, n.load(mean, i)?, n.load(scale, i)?);
            let moved = n.binary(Binary::Mul, mean, scale);
            Ok(n.binary(Binary::Sub, beta, moved))
        })?;
        builder.map(out, |n, i| {
            let channel: Vec<Dim> = i.get(1).cloned().into_iter().collect();
            let (x, scale, shift) = (n.load(x, i)?, n.load(scale, &channel)?, n.load(shift, &channel)?);
            let scaled = n.binary(Binary::Mul, x, scale);
            Ok(n.binary(Binary::Add, scaled, shift))
        })
    }
}

/// MVN: `x - mean`, divided by the standard deviation where `normalize_variance` says so.
#[derive(Debug)]
struct Mvn {
    axes: MvnAxes,
    normalize_variance: bool,
    epsilon: f64,
    /// `sqrt(variance + epsilon)`, else `sqrt(variance) + epsilon`.
    epsilon_inside: bool,
}

/// Where the axes of the statistics come from.
#[derive(Debug)]
enum MvnAxes {
    /// Operand 1.
    Operand,
    /// An attribute.
    List(Vec<i64>),
    /// All axes from this one.
    From(usize),
}

fn mvn_1(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let list = attributes.ints_or("reduction_axes", &[])?;
    let across_channels = attributes.bool("across_channels", false)?;
    let axes = match list.is_empty() {
        false => MvnAxes::List(list),
        true => MvnAxes::From(if across_channels { 1 } else { 2 }),
    };
    Ok(Rc::new(Mvn {
        axes,
        normalize_variance: attributes.bool("normalize_variance", true)?,
        epsilon: attributes.float("eps")?,
        epsilon_inside: true,
    }))
}

impl Mvn {
    fn axes(&self, operand: Option<&Fact>, rank: usize) -> Result<Vec<usize>, Diagnostic> {
        match &self.axes {
            MvnAxes::Operand => {
                let missing = || Diagnostic::error(&codes::INTERNAL, "MVN has no axes");
                axes::constant(operand.ok_or_else(missing)?, "the list of axes", rank)
            }
            MvnAxes::List(list) => {
                let mut axes = list.iter().map(|axis| axes::normalize(*axis, rank)).collect::<Result<Vec<_>, _>>()?;
                axes.sort_unstable();
                axes.dedup();
                Ok(axes)
            }
            MvnAxes::From(first) if *first < rank => Ok((*first..rank).collect()),
            MvnAxes::From(first) => {
                let message = format!("the operand has rank {rank}: there is no dimension {first} to normalise");
                Err(Diagnostic::error(&codes::SHAPE, message))
            }
        }
    }
}

impl Op for Mvn {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        self.axes(inputs.get(1), x.rank())?;
        same_as(x)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let dims = builder.dims(x);
        let operand = (builder.input_count() > 1).then(|| builder.fact(1)).transpose()?;
        let axes = self.axes(operand, dims.len())?;
        let space = (dims.as_slice(), axes.as_slice());
        let wide = builder.scalar_type(x)?.element();
        let count = reduction::count(&dims, &axes);
        let mean = reduction::along(
            builder,
            space,
            wide,
            ReduceFn::Sum,
            |n, i| n.load(x, i),
            |n, sum| reduction::mean(n, sum, &count),
        )?;
        let centred = |n: &mut NestBuilder, i: &[Dim]| -> Result<Node, Diagnostic> {
            let (x, mean) = (n.load(x, i)?, n.load(mean, &pinned(i, &axes))?);
            Ok(n.binary(Binary::Sub, x, mean))
        };
        if !self.normalize_variance {
            return builder.map(out, |n, i| centred(n, i));
        }
        let factor = reduction::along(
            builder,
            space,
            wide,
            ReduceFn::Sum,
            |n, i| {
                let difference = centred(n, i)?;
                Ok(n.binary(Binary::Mul, difference, difference))
            },
            |n, sum| {
                let variance = reduction::mean(n, sum, &count);
                let deviation = deviation(n, variance, self.epsilon, self.epsilon_inside);
                reduction::reciprocal(n, deviation)
            },
        )?;
        builder.map(out, |n, i| {
            let (difference, factor) = (centred(n, i)?, n.load(factor, &pinned(i, &axes))?);
            Ok(n.binary(Binary::Mul, difference, factor))
        })
    }
}

/// `sqrt(variance + epsilon)` or `sqrt(variance) + epsilon`.
fn deviation(n: &mut NestBuilder, variance: Node, epsilon: f64, inside: bool) -> Node {
    let epsilon = n.constant_like(variance, epsilon);
    if inside {
        let sum = n.binary(Binary::Add, variance, epsilon);
        return n.unary(Unary::Sqrt, sum);
    }
    let root = n.unary(Unary::Sqrt, variance);
    n.binary(Binary::Add, root, epsilon)
}

/// NormalizeL2-1: `x / sqrt(s + epsilon)` or `x / sqrt(max(s, epsilon))` with s the sum of squares along the axes that
/// operand 1 names; without axes, of the element alone.
#[derive(Debug)]
struct NormalizeL2 {
    epsilon: f64,
    combine: Binary,
}

impl Op for NormalizeL2 {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        axes::constant(typing::operand(inputs, 1)?, "the list of axes", x.rank())?;
        same_as(x)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let axes = axes::constant(builder.fact(1)?, "the list of axes", builder.dims(x).len())?;
        divide_by_norm(builder, (x, out), &axes, self.combine, self.epsilon)
    }
}

/// GRN-1: `x / sqrt(bias + s)` with s the sum of squares over the channels (dimension 1).
#[derive(Debug)]
struct Grn {
    bias: f64,
}

impl Op for Grn {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        channels(x)?;
        same_as(x)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        divide_by_norm(builder, (x, out), &[1], Binary::Add, self.bias)
    }
}

/// `out = x / sqrt(combine(sum of squares of x along axes, epsilon))`.
fn divide_by_norm(
    builder: &mut Builder,
    (x, out): (BufferId, BufferId),
    axes: &[usize],
    combine: Binary,
    epsilon: f64,
) -> Result<(), Diagnostic> {
    let dims = builder.dims(x);
    let wide: ElementType = builder.scalar_type(x)?.element();
    let factor = reduction::along(
        builder,
        (&dims, axes),
        wide,
        ReduceFn::Sum,
        |n, i| {
            let x = n.load(x, i)?;
            Ok(n.binary(Binary::Mul, x, x))
        },
        |n, sum| {
            let epsilon = n.constant_like(sum, epsilon);
            let guarded = n.binary(combine, sum, epsilon);
            let norm = n.unary(Unary::Sqrt, guarded);
            reduction::reciprocal(n, norm)
        },
    )?;
    builder.map(out, |n, i| {
        let (x, factor) = (n.load(x, i)?, n.load(factor, &pinned(i, axes))?);
        Ok(n.binary(Binary::Mul, x, factor))
    })
}

/// GroupNormalization-12: x of shape [N, C, ...] is normalised over each of `groups` runs of C / `groups` channels,
/// then scaled and shifted per channel.
#[derive(Debug)]
struct GroupNorm {
    groups: i64,
    epsilon: f64,
}

impl Op for GroupNorm {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::equal(inputs)?;
        let channels = channels(x)?;
        per_channel(typing::operand(inputs, 1)?, channels, "the scale", context)?;
        per_channel(typing::operand(inputs, 2)?, channels, "the bias", context)?;
        let groups = Dim::constant(self.groups);
        if !context.require_equal(&channels.modulo(&groups), &Dim::constant(0)) {
            let message = format!("{channels} channels cannot be divided into {groups} groups");
            return Err(Diagnostic::error(&codes::SHAPE, message));
        }
        same_as(x)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, scale, bias) = (builder.input(0)?, builder.input(1)?, builder.input(2)?);
        let (out, fact) = (builder.output(0)?, builder.fact(0)?);
        let wide = builder.scalar_type(x)?.element();
        let size = channels(fact)?.floor_div(&Dim::constant(self.groups));
        // The index space [N, groups, channels of a group, ...].
        let batch = fact.dims.first().cloned().unwrap_or(Dim::constant(1));
        let mut dims = vec![batch, Dim::constant(self.groups), size.clone()];
        dims.extend(fact.dims.iter().skip(2).cloned());
        let axes: Vec<usize> = (2..dims.len()).collect();
        let count = reduction::count(&dims, &axes);
        let element = |i: &[Dim]| -> Vec<Dim> {
            let [batch, group, member, rest @ ..] = i else { return Vec::new() };
            let channel = group.clone() * &size + member;
            [batch.clone(), channel].into_iter().chain(rest.iter().cloned()).collect()
        };
        let mean = reduction::along(
            builder,
            (&dims, &axes),
            wide,
            ReduceFn::Sum,
            |n, i| n.load(x, &element(i)),
            |n, sum| reduction::mean(n, sum, &count),
        )?;
        let factor = reduction::along(
            builder,
            (&dims, &axes),
            wide,
            ReduceFn::Sum,
            |n, i| {
                let (x, mean) = (n.load(x, &element(i))?, n.load(mean, &pinned(i, &axes))?);
                let difference = n.binary(Binary::Sub, x, mean);
                Ok(n.binary(Binary::Mul, difference, difference))
            },
            |n, sum| {
                let variance = reduction::mean(n, sum, &count);
                let deviation = deviation(n, variance, self.epsilon, true);
                reduction::reciprocal(n, deviation)
            },
        )?;
        let rank = dims.len();
        builder.map(out, |n, i| {
            let [batch, channel, ..] = i else { return channels(fact).map(|_| 0) };
            let mut statistic = vec![Dim::constant(0); rank];
            statistic.splice(..2, [batch.clone(), channel.floor_div(&size)]);
            let channel = std::slice::from_ref(channel);
            let (x, mean, factor) = (n.load(x, i)?, n.load(mean, &statistic)?, n.load(factor, &statistic)?);
            let (scale, bias) = (n.load(scale, channel)?, n.load(bias, channel)?);
            let difference = n.binary(Binary::Sub, x, mean);
            let normal = n.binary(Binary::Mul, difference, factor);
            let scaled = n.binary(Binary::Mul, normal, scale);
            Ok(n.binary(Binary::Add, scaled, bias))
        })
    }
}

/// LRN-1: `x / (bias + alpha / size^k * s)^beta` with s the sum of squares over a window of `size` elements along each
/// of the k axes that operand 1 names, centred (an even size reaches as far as the next smaller odd one) and clipped.
#[derive(Debug)]
struct Lrn {
    alpha: f64,
    beta: f64,
    bias: f64,
    size: i64,
}

impl Op for Lrn {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        axes::constant(typing::operand(inputs, 1)?, "the list of axes", x.rank())?;
        same_as(x)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let dims = builder.dims(x);
        let axes = axes::constant(builder.fact(1)?, "the list of axes", dims.len())?;
        let ty = builder.scalar_type(x)?;
        let mut nest = builder.nest(&dims);
        let map = nest.map_axes();
        let (mut index, mut bounds) = (map.clone(), Vec::new());
        let mut divisor = 1.0;
        for axis in &axes {
            let (Some(slot), Some(limit)) = (index.get_mut(*axis), dims.get(*axis)) else { continue };
            // A window that reaches past both ends sums no more than one that just reaches them.
            let reach = ((self.size - 1) / 2).min(limit.range().max.max(0));
            let step = nest.reduction_axis(&Dim::constant(2 * reach + 1));
            *slot = slot.clone() + &step - reach;
            bounds.push(Bound { value: slot.clone(), limit: limit.clone() });
            divisor *= self.size as f64;
        }
        let zero = nest.constant(crate::program::nest::Const::of(ty, 0.0));
        let near = nest.load_within(x, &index, bounds, zero)?;
        let square = nest.binary(Binary::Mul, near, near);
        let sum = if axes.is_empty() { square } else { nest.reduce(ReduceFn::Sum, square) };
        let (alpha, bias) = (nest.constant_like(sum, self.alpha / divisor), nest.constant_like(sum, self.bias));
        let scaled = nest.binary(Binary::Mul, alpha, sum);
        let base = nest.binary(Binary::Add, bias, scaled);
        let beta = nest.constant_like(sum, self.beta);
        let power = nest.binary(Binary::Pow, base, beta);
        let x = nest.load(x, &map)?;
        let value = nest.binary(Binary::Div, x, power);
        nest.store(out, &map, value);
        Ok(())
    }
}
