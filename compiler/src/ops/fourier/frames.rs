//! Transforms of overlapping frames of a signal, weighted by a window, and the way back.

use super::line::{Line, Place};
use super::{Values, half};
use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::operands::{self, MapAxes, operand, require_equal, same_element, shape_error, text};
use crate::op::window::{reduce, reduction_axis};
use crate::op::{InferContext, Op, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Bound, Const, Node, ReduceFn};
use crate::read::Attributes;
use std::rc::Rc;

/// Size of a frame, distance of neighbouring frames, and size of the window.
struct Frames {
    size: i64,
    step: i64,
    window: Dim,
}

impl Frames {
    /// Operands 1 to 3: window, frame size, frame step.
    fn new(inputs: &[Fact]) -> Result<Self, Diagnostic> {
        typing::float(operand(inputs, 0)?.element, "the operand")?;
        same_element(inputs, 0, 1)?;
        let size = operands::integer(inputs, 2, "the frame size")?;
        let step = operands::integer(inputs, 3, "the frame step")?;
        for (value, what) in [(size, "frame size"), (step, "frame step")] {
            if !(1..=i64::from(i32::MAX)).contains(&value) {
                return Err(Diagnostic::error(&codes::VALUE, format!("the {what} is {value}, not a positive number")));
            }
        }
        let [window] = operand(inputs, 1)?.dims.as_slice() else {
            return Err(shape_error(format!("the window has dimensions {}", text(&operand(inputs, 1)?.dims))));
        };
        if window.range().min > size {
            return Err(shape_error(format!("the window has {window} elements, the frame {size}")));
        }
        Ok(Frames { size, step, window: window.clone() })
    }

    /// The window's value for element `j` of a frame, zero outside of `bounds`. A short window stands in the middle,
    /// between zeros.
    fn weight(
        &self,
        n: &mut NestBuilder,
        window: BufferId,
        j: &Dim,
        mut bounds: Vec<Bound>,
        zero: Const,
    ) -> Result<Node, Diagnostic> {
        let left = (self.window.clone() * -1 + self.size).floor_div(&Dim::constant(2));
        let at = j.clone() - &left;
        if !self.window.is(self.size) {
            bounds.push(Bound { value: at.clone(), limit: self.window.clone() });
        }
        if bounds.is_empty() {
            return n.load(window, &[at]);
        }
        let zero = n.constant(zero);
        n.load_within(window, &[at], bounds, zero)
    }

    fn half(&self) -> Dim {
        half(&Dim::constant(self.size))
    }
}

/// STFT-15: `out[.., frame, k, part]`, the first half of the spectrum of `signal[.., frame * step + j] * window[j]`.
#[derive(Debug)]
struct ShortTime {
    /// The frames are the second dimension from the end instead of the third.
    transposed: bool,
}

pub(super) fn parse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(ShortTime { transposed: attributes.bool("transpose_frames", false)? }))
}

impl Op for ShortTime {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (signal, frames) = (operand(inputs, 0)?, Frames::new(inputs)?);
        let ([batch @ .., length], 1..=2) = (signal.dims.as_slice(), signal.rank()) else {
            return Err(shape_error(format!("the signal has dimensions {}", text(&signal.dims))));
        };
        if length.range().max < frames.size {
            return Err(shape_error(format!("the signal has {length} elements, a frame {}", frames.size)));
        }
        let count = (length.clone() - frames.size).floor_div(&Dim::constant(frames.step)) + 1;
        let count = count.maximum(&Dim::constant(0));
        let pair = if self.transposed { [frames.half(), count] } else { [count, frames.half()] };
        let dims = batch.iter().cloned().chain(pair).collect();
        Ok(vec![Fact::new(signal.element, Values::Complex.dims(dims))])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let frames = Frames::new(builder.facts())?;
        let (signal, window, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let mut rows = builder.dims(out);
        rows.pop();
        let position = rows.len().saturating_sub(if self.transposed { 2 } else { 1 });
        if position < rows.len() {
            rows.remove(position);
        }
        let ty = builder.scalar_type(signal)?;
        let size = Dim::constant(frames.size);
        let dims: Vec<Dim> = rows.iter().chain([&size]).cloned().collect();
        let weighted = builder.temporary(ty.element(), dims);
        builder.map(weighted, |n, i| {
            let [batch @ .., frame, j] = i else { return Err(Diagnostic::internal("a frame lacks dimensions")) };
            let at = frame.clone() * frames.step + j;
            let at: Vec<Dim> = batch.iter().cloned().chain([at]).collect();
            let (value, weight) = (n.load(signal, &at)?, frames.weight(n, window, j, Vec::new(), Const::of(ty, 0.0))?);
            Ok(n.binary(Binary::Mul, value, weight))
        })?;
        let line = Line {
            from: Place { buffer: weighted, axis: rows.len(), values: Values::Real },
            taps: size.clone(),
            to: Place { buffer: out, axis: position, values: Values::Complex },
            results: frames.half(),
            length: size,
            inverse: false,
            unitary: false,
            rows,
        };
        line.transform(builder)
    }
}

/// ISTFT-16: the signal whose frames have the given spectra `[.., k, frame, part]`: the sum of the overlapping frames
/// times the window, divided by the sum of the squared window (zero where that is zero).
#[derive(Debug)]
struct InverseShortTime {
    /// The signal was padded by half a frame at both ends, which is taken off again.
    center: bool,
    /// The spectra were divided by the root of the frame size.
    normalized: bool,
}

pub(super) fn parse_inverse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let (center, normalized) = (attributes.bool("center", false)?, attributes.bool("normalized", false)?);
    Ok(Rc::new(InverseShortTime { center, normalized }))
}

impl InverseShortTime {
    /// Elements taken off at the beginning.
    fn margin(&self, frames: &Frames) -> i64 {
        if self.center { frames.size / 2 } else { 0 }
    }

    /// Dimensions in front of the spectra, number of values of a spectrum, number of frames.
    fn spectra(data: &Fact) -> Result<(&[Dim], &Dim, &Dim), Diagnostic> {
        match (data.dims.as_slice(), data.rank()) {
            ([batch @ .., values, frames, _], 3..=4) => Ok((batch, values, frames)),
            _ => Err(shape_error(format!("the spectra have dimensions {}", text(&data.dims)))),
        }
    }
}

impl Op for InverseShortTime {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (data, frames) = (operand(inputs, 0)?, Frames::new(inputs)?);
        let (batch, values, count) = InverseShortTime::spectra(data)?;
        require_equal(context, values, &frames.half(), "the values of a spectrum and half of the frame size plus one")?;
        if let Some(parts) = data.dims.last() {
            require_equal(context, parts, &Dim::constant(2), "the last dimension of complex values and 2")?;
        }
        let length = match inputs.len() {
            5.. => match operands::sizes(inputs, 4, "the length of the signal")?.as_slice() {
                [length] if length.range().max > 0 => length.maximum(&Dim::constant(0)),
                _ => return Err(shape_error("the length of the signal is not one positive number")),
            },
            _ => (count.clone() - 1) * frames.step + frames.size - 2 * self.margin(&frames),
        };
        let dims = batch.iter().cloned().chain([length.maximum(&Dim::constant(0))]).collect();
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let frames = Frames::new(builder.facts())?;
        let (batch, values, count) = InverseShortTime::spectra(builder.fact(0)?)?;
        let data = builder.input(0)?;
        let ty = builder.scalar_type(data)?;
        let rows: Vec<Dim> = batch.iter().chain([count]).cloned().collect();
        let size = Dim::constant(frames.size);
        let pieces = builder.temporary(ty.element(), rows.iter().chain([&size]).cloned().collect());
        let line = Line {
            from: Place { buffer: data, axis: batch.len(), values: Values::Complex },
            taps: values.clone(),
            to: Place { buffer: pieces, axis: rows.len(), values: Values::Real },
            results: size.clone(),
            length: size,
            inverse: true,
            unitary: self.normalized,
            rows,
        };
        line.transform(builder)?;
        let out = builder.output(0)?;
        let dims = builder.dims(out);
        let sums = builder.temporary(ty.element(), dims.clone());
        self.overlap(builder, &frames, count, Some(pieces), sums)?;
        let weights = builder.temporary(ty.element(), dims.last().cloned().into_iter().collect());
        self.overlap(builder, &frames, count, None, weights)?;
        builder.map(out, |n, i| {
            let (sum, weight) = (n.load(sums, i)?, n.load(weights, i.get(batch.len()..).unwrap_or(&[]))?);
            let zero = n.constant_like(sum, 0.0);
            let (none, quotient) = (n.binary(Binary::Eq, weight, zero), n.binary(Binary::Div, sum, weight));
            Ok(n.select(none, zero, quotient))
        })
    }
}

impl InverseShortTime {
    /// The sum over all frames that reach a place of the window's value there, times that of the piece or, without
    /// pieces, of the window once more.
    fn overlap(
        &self,
        builder: &mut Builder,
        frames: &Frames,
        count: &Dim,
        pieces: Option<BufferId>,
        to: BufferId,
    ) -> Result<(), Diagnostic> {
        let (window, step) = (builder.input(1)?, Dim::constant(frames.step));
        let zero = Const::of(builder.scalar_type(to)?, 0.0);
        let mut maps = MapAxes::default();
        let index = maps.axes(&builder.dims(to));
        let Some((at, batch)) = index.split_last() else { return Err(Diagnostic::internal("a signal without length")) };
        let at = at.clone() + self.margin(frames);
        let mut n = builder.nest(&maps.extents);
        let reach = Dim::constant((frames.size + frames.step - 1) / frames.step);
        let k = reduction_axis(&mut n, &reach);
        let (frame, j) = (at.floor_div(&step) - &k, at.modulo(&step) + &(k.clone() * frames.step));
        let bounds = vec![
            Bound { value: frame.clone(), limit: count.clone() },
            Bound { value: j.clone(), limit: Dim::constant(frames.size) },
        ];
        let weight = frames.weight(&mut n, window, &j, bounds.clone(), zero)?;
        let value = match pieces {
            Some(pieces) => {
                let otherwise = n.constant(zero);
                n.load_within(pieces, &[batch, &[frame, j]].concat(), bounds, otherwise)?
            }
            None => weight,
        };
        let product = n.binary(Binary::Mul, value, weight);
        let sum = reduce(&mut n, ReduceFn::Sum, &[k], product);
        n.store(to, &index, sum);
        Ok(())
    }
}
