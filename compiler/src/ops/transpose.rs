//! Operations that permute elements along axes: Transpose, Reverse, ReverseSequence, Roll.

mod run_time;

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::Builder;
use crate::program::nest::Binary;
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Reverse", 1, 1..=1, 2, |a| {
        Ok(Rc::new(Reverse { mask: a.choice("mode", &[("index", false), ("mask", true)])? }))
    }),
    row("ReverseSequence", 1, 1..=17, 2, |a| {
        Ok(Rc::new(ReverseSequence { batch_axis: a.int_or("batch_axis", 0)?, seq_axis: a.int_or("seq_axis", 1)? }))
    }),
    row("Roll", 7, 7..=17, 3, |_| Ok(Rc::new(Roll))),
    row("Transpose", 1, 1..=17, 2, |_| Ok(Rc::new(Transpose))),
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

/// `out[i[order[0]], i[order[1]], ..] = x[i]`; an empty order reverses the axes.
#[derive(Debug)]
struct Transpose;

impl Transpose {
    fn order(inputs: &[Fact]) -> Result<Vec<usize>, Diagnostic> {
        let rank = operand(inputs, 0)?.rank();
        let order = operands::axes(&operands::integers(inputs, 1, "the order of the axes")?, rank)?;
        match order.len() {
            0 => Ok((0..rank).rev().collect()),
            n if n == rank => Ok(order),
            n => Err(shape_error(format!("the order has {n} axes, the tensor {rank}"))),
        }
    }
}

impl Op for Transpose {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        if run_time::is_open(inputs, 1) {
            return run_time::transposed(inputs, context);
        }
        let data = operand(inputs, 0)?;
        let dims = Transpose::order(inputs)?.iter().filter_map(|axis| data.dims.get(*axis).cloned()).collect();
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if run_time::is_open(builder.facts(), 1) {
            return run_time::transpose(builder);
        }
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let order = Transpose::order(builder.facts())?;
        builder.map(out, |n, i| {
            let mut index = vec![Dim::constant(0); order.len()];
            for (axis, i) in order.iter().zip(i) {
                if let Some(slot) = index.get_mut(*axis) {
                    *slot = i.clone();
                }
            }
            n.load(x, &index)
        })
    }
}

/// Reverses whole axes, given by number or by a mask.
#[derive(Debug)]
struct Reverse {
    mask: bool,
}

impl Reverse {
    fn axes(&self, inputs: &[Fact]) -> Result<Vec<usize>, Diagnostic> {
        let (rank, second) = (operand(inputs, 0)?.rank(), operand(inputs, 1)?);
        if !self.mask {
            return operands::axes(&operands::integers(inputs, 1, "the axes to reverse")?, rank);
        }
        let Some(mask) = second.as_constant().filter(|t| t.element == ElementType::Boolean).and_then(|t| t.to_i64s())
        else {
            return Err(Diagnostic::error(
                &codes::UNSUPPORTED,
                "the mask of the axes to reverse must be a boolean constant",
            ));
        };
        if mask.len() != rank {
            return Err(shape_error(format!("the mask has {} elements, the tensor {rank} axes", mask.len())));
        }
        Ok((0..rank).filter(|axis| mask.get(*axis).is_some_and(|m| *m != 0)).collect())
    }
}

impl Op for Reverse {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        self.axes(inputs)?;
        let data = operand(inputs, 0)?;
        Ok(vec![Fact::new(data.element, data.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let axes = self.axes(builder.facts())?;
        builder.map(out, |n, i| {
            let index: Vec<Dim> = n
                .dims(x)
                .iter()
                .zip(i)
                .enumerate()
                .map(|(axis, (dim, i))| if axes.contains(&axis) { dim.clone() - i - 1 } else { i.clone() })
                .collect();
            n.load(x, &index)
        })
    }
}

/// Reverses the first `seq_lengths[b]` elements along the sequence axis for every index `b` of the batch axis.
#[derive(Debug)]
struct ReverseSequence {
    batch_axis: i64,
    seq_axis: i64,
}

impl Op for ReverseSequence {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (data, lengths) = (operand(inputs, 0)?, operand(inputs, 1)?);
        let batch = operands::axis(self.batch_axis, data.rank())?;
        operands::axis(self.seq_axis, data.rank())?;
        match (lengths.dims.as_slice(), data.dims.get(batch)) {
            ([count], Some(dim)) => {
                require_equal(context, count, dim, "the number of sequence lengths and the batch size")?
            }
            _ => return Err(shape_error("the sequence lengths must be a vector")),
        }
        Ok(vec![Fact::new(data.element, data.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, lengths, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let dims = builder.dims(x);
        let rank = dims.len();
        let (batch, sequence) = (operands::axis(self.batch_axis, rank)?, operands::axis(self.seq_axis, rank)?);
        builder.map(out, |n, i| {
            let zero = Dim::constant(0);
            let b = i.get(batch).unwrap_or(&zero).clone();
            let length = n.load(lengths, &[b])?;
            let length = n.cast(ElementType::I64, length);
            let size = n.index(dims.get(sequence).unwrap_or(&zero));
            let length = n.binary(Binary::Min, length, size);
            let position = i.get(sequence).unwrap_or(&zero).clone();
            let last = n.as_index(length) - 1;
            let (here, mirrored) = (n.index(&position), n.index(&(last - &position)));
            let inside = n.binary(Binary::Lt, here, length);
            let from = n.select(inside, mirrored, here);
            let mut index = i.to_vec();
            if let Some(slot) = index.get_mut(sequence) {
                *slot = n.as_index(from);
            }
            n.load(x, &index)
        })
    }
}

/// `out[i + shift] = x[i]` along some axes, wrapping around; shifts of an axis that occurs twice add up.
#[derive(Debug)]
struct Roll;

impl Roll {
    fn axes(inputs: &[Fact], rank: usize) -> Result<Vec<usize>, Diagnostic> {
        let axes = operands::integers(inputs, 2, "the axes to roll")?;
        axes.into_iter().map(|axis| operands::axis(axis, rank)).collect()
    }

    fn is_open(inputs: &[Fact]) -> bool {
        run_time::is_open(inputs, 1) || run_time::is_open(inputs, 2)
    }

    fn shifts(inputs: &[Fact]) -> Result<Vec<Dim>, Diagnostic> {
        let rank = operand(inputs, 0)?.rank();
        let shifts = operands::sizes(inputs, 1, "the shifts")?;
        let axes = Roll::axes(inputs, rank)?;
        if shifts.len() != axes.len() && shifts.len() != 1 {
            return Err(shape_error(format!("{} shifts for {} axes", shifts.len(), axes.len())));
        }
        let mut total = vec![Dim::constant(0); rank];
        for (axis, shift) in axes.iter().zip(shifts.iter().cycle()) {
            if let Some(slot) = total.get_mut(*axis) {
                *slot = slot.clone() + shift;
            }
        }
        Ok(total)
    }
}

impl Op for Roll {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        if Roll::is_open(inputs) {
            return run_time::rolled(inputs, context);
        }
        Roll::shifts(inputs)?;
        let data = operand(inputs, 0)?;
        Ok(vec![Fact::new(data.element, data.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if Roll::is_open(builder.facts()) {
            return run_time::roll(builder);
        }
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let shifts = Roll::shifts(builder.facts())?;
        builder.map(out, |n, i| {
            let dims = n.dims(x);
            let rolled = |((i, dim), shift): ((&Dim, &Dim), &Dim)| {
                let shift = shift.modulo(dim);
                if shift.is(0) { i.clone() } else { (i.clone() - shift).modulo(dim) }
            };
            let index: Vec<Dim> = i.iter().zip(&dims).zip(&shifts).map(rolled).collect();
            n.load(x, &index)
        })
    }
}
