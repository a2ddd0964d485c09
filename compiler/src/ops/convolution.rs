//! Convolutions and transposed convolutions of one to three spatial dimensions, with and without groups, and of bits.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, MapAxes, operand, require_equal, same_element, shape_error, text};
use crate::op::window::{AutoPad, Slide, Window, positive, reduce, reduction_axis};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, ScalarType};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("BinaryConvolution", 2..=2, binary),
    row("Convolution", 2..=2, |a| Ok(Rc::new(Convolution { window: window(a)?, grouped: false }))),
    row("ConvolutionBackpropData", 2..=3, |a| transposed(a, false)),
    row("GroupConvolution", 2..=2, |a| Ok(Rc::new(Convolution { window: window(a)?, grouped: true }))),
    row("GroupConvolutionBackpropData", 2..=3, |a| transposed(a, true)),
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

fn window(attributes: &Attributes) -> Result<Window, Diagnostic> {
    let mut window = Window::parse(attributes)?;
    window.dilations = positive(attributes, "dilations", attributes.ints("dilations")?)?;
    Ok(window)
}

fn transposed(attributes: &Attributes, grouped: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    let window = window(attributes)?;
    let output_padding = attributes.ints_or("output_padding", &[])?;
    if output_padding.iter().any(|pad| *pad < 0) {
        return Err(attributes.invalid("output_padding", "a list of non-negative numbers"));
    }
    Ok(Rc::new(Transposed { window, output_padding, grouped }))
}

/// Dimensions of the operands by their meaning. Without groups there is one.
struct Operands {
    batch: Dim,
    groups: Dim,
    /// Channels of the data.
    channels: Dim,
    sizes: Vec<Dim>,
    /// The two channel dimensions of the weights, in their order.
    weights: [Dim; 2],
    kernel: Vec<Dim>,
}

impl Operands {
    fn new(x: &[Dim], w: &[Dim], grouped: bool) -> Result<Self, Diagnostic> {
        let (groups, rest) = match (grouped, w) {
            (true, [groups, rest @ ..]) => (groups.clone(), rest),
            (_, w) => (Dim::constant(1), w),
        };
        match (x, rest) {
            ([batch, channels, sizes @ ..], [a, b, kernel @ ..])
                if sizes.len() == kernel.len() && (1..=3).contains(&sizes.len()) =>
            {
                Ok(Operands {
                    batch: batch.clone(),
                    groups,
                    channels: channels.clone(),
                    sizes: sizes.to_vec(),
                    weights: [a.clone(), b.clone()],
                    kernel: kernel.to_vec(),
                })
            }
            _ => Err(shape_error(format!("data {} cannot be convolved with weights {}", text(x), text(w)))
                .help("supported are one to three spatial dimensions after batch and channels")),
        }
    }

    fn of(inputs: &[Fact], grouped: bool) -> Result<Self, Diagnostic> {
        Operands::new(&operand(inputs, 0)?.dims, &operand(inputs, 1)?.dims, grouped)
    }
}

fn element(inputs: &[Fact]) -> Result<ElementType, Diagnostic> {
    let element = same_element(inputs, 0, 1)?;
    if matches!(element, ElementType::Boolean | ElementType::String) {
        return Err(Diagnostic::error(&codes::TYPE, format!("{element} cannot be multiplied")));
    }
    Ok(element)
}

/// What is known of the result of a convolution.
fn result(
    inputs: &[Fact],
    window: &Window,
    grouped: bool,
    element: ElementType,
    context: &mut InferContext,
) -> Result<Vec<Fact>, Diagnostic> {
    let Operands { batch, groups, channels, sizes, weights: [outs, ins], kernel } = Operands::of(inputs, grouped)?;
    require_equal(context, &channels, &(ins * &groups), "channels of data and weights")?;
    let spatial = window.slides(&sizes, &kernel)?.into_iter().map(|slide| slide.out);
    let dims = [batch, groups * outs].into_iter().chain(spatial).collect();
    Ok(vec![Fact::new(element, dims)])
}

/// Index into the weights: group (if there is one), the two channels, the taps.
fn weights_index(grouped: bool, group: &Dim, channels: [&Dim; 2], taps: &[Dim]) -> Vec<Dim> {
    let group = grouped.then_some(group);
    group.into_iter().chain(channels).chain(taps).cloned().collect()
}

/// `out[n, g * O + o, y..] = sum over c, k.. of x[n, g * C + c, y * stride + k * dilation - pad..] * w[g, o, c, k..]`.
#[derive(Debug)]
struct Convolution {
    window: Window,
    grouped: bool,
}

impl Op for Convolution {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        result(inputs, &self.window, self.grouped, element(inputs)?, context)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let multiply = |n: &mut NestBuilder, data, weight| n.binary(Binary::Mul, data, weight);
        convolve(builder, &self.window, self.grouped, 0.0, multiply)
    }
}

/// The nest of a convolution with `product` in place of the multiplication and `padding` around the data.
fn convolve(
    builder: &mut Builder,
    window: &Window,
    grouped: bool,
    padding: f64,
    product: impl FnOnce(&mut NestBuilder, Node, Node) -> Node,
) -> Result<(), Diagnostic> {
    let (x, w, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
    let padding = Const::of(builder.scalar_type(x)?, padding);
    let shape = Operands::of(builder.facts(), grouped)?;
    let slides = window.slides(&shape.sizes, &shape.kernel)?;
    let [outs, ins] = &shape.weights;
    let mut maps = MapAxes::default();
    let (b, g, o) = (maps.axis(&shape.batch), maps.axis(&shape.groups), maps.axis(outs));
    let y: Vec<Dim> = slides.iter().map(|slide| maps.axis(&slide.out)).collect();
    let mut n = builder.nest(&maps.extents);
    let c = reduction_axis(&mut n, ins);
    let k: Vec<Dim> = shape.kernel.iter().map(|extent| reduction_axis(&mut n, extent)).collect();
    let (mut index, mut bounds) = (vec![b.clone(), g.clone() * ins + &c], Vec::new());
    for ((slide, y), k) in slides.iter().zip(&y).zip(&k) {
        let at = slide.position(y, k);
        bounds.extend(slide.bound(&at));
        index.push(at);
    }
    let padding = n.constant(padding);
    let data = n.load_within(x, &index, bounds, padding)?;
    let weight = n.load(w, &weights_index(grouped, &g, [&o, &c], &k))?;
    let product = product(&mut n, data, weight);
    let axes: Vec<Dim> = [c].into_iter().chain(k).collect();
    let sum = reduce(&mut n, ReduceFn::Sum, &axes, product);
    let to: Vec<Dim> = [b, g * outs + &o].into_iter().chain(y).collect();
    n.store(out, &to, sum);
    Ok(())
}

/// BinaryConvolution-1: the number of equal bits of window and weights minus that of different ones. Data are 0 or 1 in
/// any numeric type.
#[derive(Debug)]
struct BinaryConvolution {
    window: Window,
    pad_value: f64,
}

fn binary(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    attributes.choice("mode", &[("xnor-popcount", ())])?;
    Ok(Rc::new(BinaryConvolution { window: window(attributes)?, pad_value: attributes.float("pad_value")? }))
}

impl Op for BinaryConvolution {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (element, weights) = (operand(inputs, 0)?.element, operand(inputs, 1)?.element);
        typing::number(element, "the data of a BinaryConvolution")?;
        if weights != ElementType::U1 {
            return Err(Diagnostic::error(&codes::TYPE, format!("the weights must be u1, not {weights}")));
        }
        result(inputs, &self.window, false, element, context)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        convolve(builder, &self.window, false, self.pad_value, |n, data, bit| {
            let element = n.type_of(data).element();
            let bit = n.cast(element, bit);
            // u64 has no -1, but its sums wrap around.
            let minus_one = match n.type_of(data) {
                ScalarType::U64 => Const::U64(u64::MAX),
                scalar => Const::of(scalar, -1.0),
            };
            let (equal, different) = (n.constant_like(data, 1.0), n.constant(minus_one));
            let same = n.binary(Binary::Eq, data, bit);
            n.select(same, equal, different)
        })
    }
}

/// The gradient of a convolution with respect to its data, in gather form:
/// `out[n, g * O + o, y..] = sum over c, k.. of x[n, g * C + c, (y + pad - k * dilation) / stride..] * w[g, c, o, k..]`,
/// where the division is exact and the position exists.
#[derive(Debug)]
struct Transposed {
    window: Window,
    output_padding: Vec<i64>,
    grouped: bool,
}

impl Transposed {
    /// The windows of the convolution of which this is the gradient: its data is our output.
    fn slides(&self, inputs: &[Fact], shape: &Operands) -> Result<Vec<Slide>, Diagnostic> {
        let spatial = shape.sizes.len();
        self.window.check_lengths(spatial)?;
        if !self.output_padding.is_empty() && self.output_padding.len() != spatial {
            return Err(shape_error(format!(
                "`output_padding` has {} elements for {spatial} spatial dimensions",
                self.output_padding.len()
            )));
        }
        let wanted = match inputs.len() {
            2 => None,
            _ => Some(operands::sizes(inputs, 2, "the output shape")?),
        };
        if wanted.as_ref().is_some_and(|wanted| wanted.len() != spatial) {
            return Err(shape_error(format!("the output shape must have {spatial} elements, the spatial dimensions")));
        }
        let mut slides = Vec::with_capacity(spatial);
        for (i, (size, kernel)) in shape.sizes.iter().zip(&shape.kernel).enumerate() {
            let stride = Window::element(&self.window.strides, i, 1);
            let dilation = Window::element(&self.window.dilations, i, 1);
            let extra = Window::element(&self.output_padding, i, 0);
            let full = (size.clone() - 1) * stride + &((kernel.clone() - 1) * dilation) + 1 + extra;
            let wanted = wanted.as_ref().and_then(|list| list.get(i));
            let (before, after) = self.pads(i, &full, wanted);
            let result = wanted.cloned().unwrap_or(full - &before - &after);
            if result.range().max < 1 {
                return Err(shape_error(format!("spatial dimension {i} of the result has size {result}")));
            }
            let kernel = kernel.clone();
            slides.push(Slide {
                size: result.maximum(&Dim::constant(0)),
                kernel,
                stride,
                dilation,
                before,
                after,
                out: size.clone(),
            });
        }
        Ok(slides)
    }

    /// The padding that is removed from the `full` result.
    fn pads(&self, i: usize, full: &Dim, wanted: Option<&Dim>) -> (Dim, Dim) {
        let explicit = |list: &[i64]| Dim::constant(Window::element(list, i, 0));
        match (wanted, self.window.auto_pad) {
            (_, AutoPad::Explicit) => (explicit(&self.window.pads_begin), explicit(&self.window.pads_end)),
            (Some(wanted), AutoPad::SameUpper | AutoPad::SameLower) => {
                let total = (full.clone() - wanted).maximum(&Dim::constant(0));
                let less = total.floor_div(&Dim::constant(2));
                let more = total - &less;
                if self.window.auto_pad == AutoPad::SameUpper { (more, less) } else { (less, more) }
            }
            _ => (Dim::constant(0), Dim::constant(0)),
        }
    }
}

impl Op for Transposed {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let element = element(inputs)?;
        let shape = Operands::of(inputs, self.grouped)?;
        let images = shape.batch.clone() * &shape.groups * &shape.weights[1];
        let wanted: &[usize] = if inputs.len() > 2 { &[2] } else { &[] };
        let inputs = &*context.sized(inputs, wanted, "the output shape", &images)?;
        let slides = self.slides(inputs, &shape)?;
        let Operands { batch, groups, channels, weights: [ins, outs], .. } = shape;
        require_equal(context, &channels, &(ins * &groups), "channels of data and weights")?;
        let dims = [batch, groups * outs].into_iter().chain(slides.into_iter().map(|slide| slide.size)).collect();
        Ok(vec![Fact::new(element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let shape = Operands::of(builder.facts(), self.grouped)?;
        let slides = self.slides(builder.facts(), &shape)?;
        for phases in combinations(&slides, shape.groups.is(1)) {
            self.sum(builder, &shape, &slides, &phases)?;
        }
        Ok(())
    }
}

impl Transposed {
    /// The nest of the elements in one phase per dimension.
    fn sum(
        &self,
        builder: &mut Builder,
        shape: &Operands,
        slides: &[Slide],
        phases: &[Phase],
    ) -> Result<(), Diagnostic> {
        let (x, w, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let zero = Const::of(builder.scalar_type(x)?, 0.0);
        let [ins, outs] = &shape.weights;
        let mut maps = MapAxes::default();
        let (b, g) = (maps.axis(&shape.batch), maps.axis(&shape.groups));
        let first = phases.iter().all(|phase| phase.reach != Reach::Apart).then(|| maps.axis(outs));
        let y: Vec<Dim> = phases.iter().map(|phase| maps.axis(&phase.count) * phase.step + phase.first).collect();
        let side = |phase: &Phase| (phase.reach == Reach::Apart).then(|| maps.axis(&Dim::constant(phase.step)));
        let sides: Vec<Option<Dim>> = phases.iter().map(side).collect();
        // Channels of neighbours are columns, those of a pixel innermost.
        let o = first.unwrap_or_else(|| maps.axis(outs));
        let mut n = builder.nest(&maps.extents);
        let c = reduction_axis(&mut n, ins);
        let (mut index, mut bounds) = (vec![b.clone(), g.clone() * ins + &c], Vec::new());
        let (mut axes, mut k) = (vec![c.clone()], Vec::new());
        let mut to = vec![b.clone(), g.clone() * outs + &o];
        for (((slide, y), phase), side) in slides.iter().zip(&y).zip(phases).zip(sides) {
            if let Some(tap) = side {
                to.push(y.clone() + &tap);
                index.push(y.floor_div(&Dim::constant(phase.step)));
                k.push(tap);
                continue;
            }
            to.push(y.clone());
            if phase.reach == Reach::OnePixel {
                index.push(Dim::constant(0));
                k.push(y.clone() + phase.first_tap);
                continue;
            }
            let t = reduction_axis(&mut n, &phase.taps);
            let tap = t.clone() * phase.tap_step + phase.first_tap;
            let (at, condition) = slide.window_of(y, &tap);
            index.push(at);
            bounds.extend(condition);
            axes.push(t);
            k.push(tap);
        }
        let zero = n.constant(zero);
        let data = n.load_within(x, &index, bounds, zero)?;
        let weight = n.load(w, &weights_index(self.grouped, &g, [&c, &o], &k))?;
        let product = n.binary(Binary::Mul, data, weight);
        let sum = reduce(&mut n, ReduceFn::Sum, &axes, product);
        n.store(out, &to, sum);
        Ok(())
    }
}

/// Elements along one dimension of a transposed convolution that the same taps reach: `first`, `first + step`, ...
///
/// Each phase is a convolution of stride 1 with every `tap_step`th tap (sub-pixel convolution).
#[derive(Clone, Debug)]
struct Phase {
    first: i64,
    step: i64,
    count: Dim,
    first_tap: i64,
    tap_step: i64,
    taps: Dim,
    reach: Reach,
}

/// What reaches an element.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reach {
    /// Several taps, each of a pixel of its own.
    Taps,
    /// Of the only pixel of the data, element i has tap `first_tap + i` alone; `taps` does not count.
    OnePixel,
    /// Windows do not overlap: element `step * i + k` has tap k of pixel i. Neither `first` nor `taps` counts.
    Apart,
}

/// More phases in all dimensions together are not worth their code.
const MOST_PHASES: i64 = 64;

/// All combinations of one phase per dimension; a single one with all elements and taps where phases are not known. Where channels
/// are not in groups, windows that do not overlap along the last dimension are one phase: there they are columns.
fn combinations(slides: &[Slide], dense: bool) -> Vec<Vec<Phase>> {
    let count = slides.iter().fold(1i64, |count, slide| count.saturating_mul(slide.stride));
    let all = |(i, slide)| match Phase::apart(slide).filter(|_| dense && i + 1 == slides.len()) {
        Some(phase) => Some(vec![phase]),
        None => Phase::all(slide),
    };
    let phases = || slides.iter().enumerate().map(all).collect::<Option<Vec<_>>>();
    let Some(phases) = (count <= MOST_PHASES).then(phases).flatten() else {
        return vec![slides.iter().map(Phase::whole).collect()];
    };
    phases.into_iter().fold(vec![Vec::new()], |before, phases| {
        let with = |list: &Vec<Phase>, phase: &Phase| list.iter().chain([phase]).cloned().collect();
        before.iter().flat_map(|list| phases.iter().map(move |phase| with(list, phase))).collect()
    })
}

impl Phase {
    fn whole(slide: &Slide) -> Phase {
        let (count, taps) = (slide.size.clone(), slide.kernel.clone());
        Phase { first: 0, step: 1, count, first_tap: 0, tap_step: 1, taps, reach: Reach::Taps }
    }

    /// All elements, where the data has one pixel and each has a tap that reaches it.
    fn of_one_pixel(slide: &Slide) -> Option<Phase> {
        let (kernel, before) = (slide.kernel.as_const()?, slide.before.as_const()?);
        let reached = before >= 0 && slide.size.as_const()?.checked_add(before)? <= kernel;
        let phase = Phase { first_tap: before, reach: Reach::OnePixel, ..Phase::whole(slide) };
        (slide.out.is(1) && slide.dilation == 1 && reached).then_some(phase)
    }

    /// All elements, where each pixel has a window of its own.
    fn apart(slide: &Slide) -> Option<Phase> {
        let step = slide.stride;
        let alone = step > 1 && slide.kernel.is(step) && slide.dilation == 1 && slide.before.is(0);
        let whole = slide.size == slide.out.clone() * step;
        let phase = Phase { count: slide.out.clone(), step, reach: Reach::Apart, ..Phase::whole(slide) };
        (alone && whole).then_some(phase)
    }

    fn all(slide: &Slide) -> Option<Vec<Phase>> {
        if let Some(phase) = Phase::of_one_pixel(slide) {
            return Some(vec![phase]);
        }
        let (kernel, before) = (slide.kernel.as_const()?, slide.before.as_const()?);
        (0..slide.stride).map(|first| Phase::one(slide, first, (kernel, before))).collect()
    }

    fn one(slide: &Slide, first: i64, (kernel, before): (i64, i64)) -> Option<Phase> {
        let step = slide.stride;
        let reaches = |tap: i64| {
            let distance = tap.checked_mul(slide.dilation).and_then(|at| first.checked_add(before)?.checked_sub(at));
            distance.map(|distance| distance.rem_euclid(step) == 0)
        };
        let mut taps = (0..kernel.min(step.saturating_mul(2))).filter(|tap| reaches(*tap) == Some(true));
        let first_tap = taps.next();
        let tap_step = taps.next().zip(first_tap).map_or(step, |(next, first)| next - first);
        let count = (slide.size.clone() - first).maximum(&Dim::constant(0)).ceil_div(&Dim::constant(step));
        let taps = first_tap.map_or(0, |first| (kernel - first - 1) / tap_step + 1);
        // From the last tap to the first one: these read pixels in their order, as kernels for lines do.
        let last_tap = first_tap.map_or(0, |first| first + (taps - 1) * tap_step);
        let taps = Dim::constant(taps);
        Some(Phase { first, step, count, first_tap: last_tap, tap_step: -tap_step, taps, reach: Reach::Taps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_made_where_they_are_few() {
        let slide = |stride| Slide {
            size: Dim::constant(9),
            kernel: Dim::constant(3),
            stride,
            dilation: 1,
            before: Dim::constant(0),
            after: Dim::constant(0),
            out: Dim::constant(4),
        };
        assert_eq!(combinations(&[slide(2), slide(3)], true).len(), 6);
        // As many phases would fill the memory.
        assert_eq!(combinations(&[slide(1 << 60), slide(1)], true).len(), 1);
        // Windows that do not overlap along lines are computed together.
        let apart = || Slide { size: Dim::constant(8), kernel: Dim::constant(2), ..slide(2) };
        assert_eq!([true, false].map(|dense| combinations(&[apart(), apart()], dense).len()), [2, 4]);
        // A single pixel reaches each element through one tap.
        let pixel = Slide { size: Dim::constant(3), out: Dim::constant(1), ..slide(2) };
        assert_eq!(combinations(&[slide(2), pixel], true).len(), 2);
    }
}
