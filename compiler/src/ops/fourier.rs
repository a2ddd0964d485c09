//! Fourier transforms: DFT, IDFT, RDFT and IRDFT along axes, STFT and ISTFT of overlapping frames.

mod frames;
mod line;
mod table;

use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::fact::Fact;
use crate::op::operands::{self, operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::Builder;
use crate::read::Attributes;
use line::{Line, Place};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("DFT", 7, 7..=17, 2..=3, |_| transform(false, Values::Complex, Values::Complex)),
    row("IDFT", 7, 7..=17, 2..=3, |_| transform(true, Values::Complex, Values::Complex)),
    row("IRDFT", 9, 9..=17, 2..=3, |_| transform(true, Values::Complex, Values::Real)),
    row("ISTFT", 16, 16..=17, 4..=5, frames::parse_inverse),
    row("RDFT", 9, 9..=17, 2..=3, |_| transform(false, Values::Real, Values::Complex)),
    row("STFT", 15, 15..=17, 4..=4, frames::parse),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: RangeInclusive<usize>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Real,
    /// The last dimension holds real and imaginary part.
    Complex,
}

impl Values {
    /// Dimensions of a tensor of such values.
    fn dims(self, mut dims: Vec<Dim>) -> Vec<Dim> {
        if self == Values::Complex {
            dims.push(Dim::constant(2));
        }
        dims
    }
}

/// DFT-7, IDFT-7, RDFT-9 and IRDFT-9: the transform along the axes in operand 1. Operand 2 holds the number of values
/// that take part along each of them: more than there are means zeros, -1 what is there. Real values have a spectrum of
/// conjugate halves, of which only the first is stored: along the last of the axes, `n / 2 + 1` of n.
#[derive(Debug)]
struct Transform {
    inverse: bool,
    input: Values,
    output: Values,
}

fn transform(inverse: bool, input: Values, output: Values) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Transform { inverse, input, output }))
}

/// The transform along one axis.
#[derive(Debug)]
struct Stage {
    axis: usize,
    /// Number of values that take part.
    length: Dim,
    /// Only half of the spectrum is stored.
    halved: bool,
}

impl Stage {
    /// Number of values before the transform, of which only some may be there.
    fn before(&self, inverse: bool) -> Dim {
        if self.halved && inverse { half(&self.length) } else { self.length.clone() }
    }

    /// Number of values after the transform.
    fn after(&self, inverse: bool) -> Dim {
        if self.halved && !inverse { half(&self.length) } else { self.length.clone() }
    }
}

/// Number of values of a spectrum of which the other ones are conjugates.
fn half(length: &Dim) -> Dim {
    length.floor_div(&Dim::constant(2)) + 1
}

impl Transform {
    /// The dimensions of the operand without that of real and imaginary part.
    fn points(&self, data: &Fact) -> Result<Vec<Dim>, Diagnostic> {
        match (self.input, data.dims.as_slice()) {
            (Values::Real, [_, ..]) => Ok(data.dims.clone()),
            (Values::Complex, [points @ .., last]) if !points.is_empty() && last.range().max >= 2 => {
                Ok(points.to_vec())
            }
            (Values::Real, []) => Err(shape_error("a scalar cannot be transformed")),
            _ => Err(shape_error("complex values need a last dimension of 2, for real and imaginary part")),
        }
    }

    fn axes(inputs: &[Fact], points: &[Dim]) -> Result<Vec<usize>, Diagnostic> {
        operands::axes(&operands::integers(inputs, 1, "the axes of a transform")?, points.len())
    }

    /// Whether only half of the values along number `i` of `count` axes are stored.
    fn halves(&self, i: usize, count: usize) -> bool {
        (self.input == Values::Real || self.output == Values::Real) && i + 1 == count
    }

    /// Number of values that take part along number `i` of the axes where the signal sizes do not say.
    fn natural(&self, axes: &[usize], i: usize, points: &[Dim]) -> Dim {
        let size = axes.get(i).and_then(|axis| points.get(*axis)).cloned().unwrap_or_default();
        match self.inverse && self.halves(i, axes.len()) {
            true => ((size - 1) * 2).maximum(&Dim::constant(0)),
            false => size,
        }
    }

    /// The operands, with run-time sizes as signal sizes that are data.
    fn sized<'f>(
        &self,
        inputs: &'f [Fact],
        points: &[Dim],
        context: &mut InferContext,
    ) -> Result<Cow<'f, [Fact]>, Diagnostic> {
        if inputs.len() < 3 {
            return Ok(Cow::Borrowed(inputs));
        }
        let axes = Transform::axes(inputs, points)?;
        let natural = (0..axes.len()).map(|i| self.natural(&axes, i, points)).collect();
        let kept = points.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, dim)| dim.clone());
        let times = product(&self.output.dims(kept.collect()));
        context.sized_or(inputs, 2, "the signal sizes", &times, natural)
    }

    /// The transforms in the order in which the axes are named.
    fn stages(&self, inputs: &[Fact], points: &[Dim]) -> Result<Vec<Stage>, Diagnostic> {
        let axes = Transform::axes(inputs, points)?;
        let sizes = if inputs.len() > 2 { operands::sizes(inputs, 2, "the signal sizes")? } else { Vec::new() };
        if inputs.len() > 2 && sizes.len() != axes.len() {
            return Err(shape_error(format!("{} signal sizes for {} axes", sizes.len(), axes.len())));
        }
        let real = self.input == Values::Real || self.output == Values::Real;
        if real && axes.is_empty() {
            return Err(shape_error("a transform between real and complex values needs an axis"));
        }
        let mut stages = Vec::with_capacity(axes.len());
        for (i, axis) in axes.iter().enumerate() {
            let length = match sizes.get(i) {
                Some(length) if !length.is(-1) => length.clone(),
                _ => self.natural(&axes, i, points),
            };
            if sizes.get(i).is_some_and(|given| !given.is(-1) && given.range().max < 1) {
                let message = format!("the signal size of axis {axis} is {length}, not positive and not -1");
                return Err(Diagnostic::error(&codes::VALUE, message));
            }
            stages.push(Stage { axis: *axis, length, halved: self.halves(i, axes.len()) });
        }
        Ok(stages)
    }
}

impl Op for Transform {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        typing::float(data.element, "the data of a Fourier transform")?;
        let mut dims = self.points(data)?;
        if let (Values::Complex, Some(last)) = (self.input, data.dims.last()) {
            require_equal(context, last, &Dim::constant(2), "the last dimension of complex values and 2")?;
        }
        let inputs = self.sized(inputs, &dims, context)?;
        for stage in self.stages(&inputs, &dims)? {
            if let Some(dim) = dims.get_mut(stage.axis) {
                *dim = stage.after(self.inverse);
            }
        }
        Ok(vec![Fact::new(data.element, self.output.dims(dims))])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let mut points = self.points(builder.fact(0)?)?;
        let mut stages = self.stages(builder.facts(), &points)?;
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        if stages.is_empty() {
            return builder.convert(x, out);
        }
        // The axis along which half of the spectrum is stored is the first to have one and the last to lose it.
        if !self.inverse {
            stages.reverse();
        }
        for stage in &stages {
            if let Some(dim) = points.get_mut(stage.axis) {
                *dim = dim.minimum(&stage.before(self.inverse));
            }
        }
        let element = builder.scalar_type(x)?.element();
        let (mut from, mut values, last) = (x, self.input, stages.len() - 1);
        for (i, stage) in stages.iter().enumerate() {
            let mut rows = points.clone();
            let taps = if stage.axis < rows.len() { rows.remove(stage.axis) } else { Dim::constant(0) };
            let after = stage.after(self.inverse);
            if let Some(dim) = points.get_mut(stage.axis) {
                *dim = after.clone();
            }
            let to_values = if i == last { self.output } else { Values::Complex };
            let to = if i == last { out } else { builder.temporary(element, to_values.dims(points.clone())) };
            let line = Line {
                rows,
                from: Place { buffer: from, axis: stage.axis, values },
                taps,
                to: Place { buffer: to, axis: stage.axis, values: to_values },
                results: after,
                length: stage.length.clone(),
                inverse: self.inverse,
                unitary: false,
            };
            line.transform(builder)?;
            (from, values) = (to, to_values);
        }
        Ok(())
    }
}
