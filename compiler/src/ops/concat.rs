//! Operations that join and divide tensors along one axis: Concat, Split, VariadicSplit.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::operands::{self, operand, require_equal, same_element, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::Builder;
use crate::read::Layer;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    OpDef {
        name: "Concat",
        version: 1,
        opsets: 1..=17,
        inputs: 1..=usize::MAX,
        outputs: one_output,
        parse: |a| Ok(Rc::new(Concat { axis: a.int("axis")? })),
        ignorable: &[],
        support: Support::Full,
    },
    OpDef {
        name: "Split",
        version: 1,
        opsets: 1..=17,
        inputs: 2..=2,
        outputs: ports,
        parse: |a| {
            let parts = a.int("num_splits")?;
            if usize::try_from(parts) != Ok(a.layer().output_ports.len()) || parts < 1 {
                return Err(a.invalid("num_splits", "the number of the layer's outputs"));
            }
            Ok(Rc::new(Split { parts: Some(parts) }))
        },
        ignorable: &[],
        support: Support::Full,
    },
    OpDef {
        name: "VariadicSplit",
        version: 1,
        opsets: 1..=17,
        inputs: 3..=3,
        outputs: ports,
        parse: |_| Ok(Rc::new(Split { parts: None })),
        ignorable: &[],
        support: Support::Full,
    },
];

fn ports(layer: &Layer) -> usize {
    layer.output_ports.len()
}

/// The operands one after the other along an axis.
#[derive(Debug)]
struct Concat {
    axis: i64,
}

impl Op for Concat {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let first = operand(inputs, 0)?;
        let axis = operands::axis(self.axis, first.rank())?;
        let mut dims = first.dims.clone();
        for (i, other) in inputs.iter().enumerate().skip(1) {
            same_element(inputs, 0, i)?;
            if other.rank() != first.rank() {
                return Err(shape_error(format!(
                    "operand {i} has {} dimensions, operand 0 has {}",
                    other.rank(),
                    first.rank()
                )));
            }
            for (at, (dim, more)) in dims.iter_mut().zip(&other.dims).enumerate() {
                if at == axis {
                    *dim = dim.clone() + more;
                } else {
                    require_equal(context, dim, more, &format!("dimensions {at} of operands 0 and {i}"))?;
                    if more.as_const().is_some() {
                        *dim = more.clone();
                    }
                }
            }
        }
        Ok(vec![Fact::new(first.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let out = builder.output(0)?;
        let axis = operands::axis(self.axis, builder.dims(out).len())?;
        let mut offset = Dim::constant(0);
        for i in 0..builder.input_count() {
            let x = builder.input(i)?;
            let dims = builder.dims(x);
            let size = dims.get(axis).cloned().unwrap_or(Dim::constant(0));
            if !size.is(0) {
                let mut n = builder.nest(&dims);
                let index = n.map_axes();
                let value = n.load(x, &index)?;
                n.store(out, &shifted(&index, axis, &offset), value);
            }
            offset = offset + &size;
        }
        Ok(())
    }
}

fn shifted(index: &[Dim], axis: usize, offset: &Dim) -> Vec<Dim> {
    index.iter().enumerate().map(|(i, at)| if i == axis { at.clone() + offset } else { at.clone() }).collect()
}

/// Consecutive parts along the axis in the second operand: `parts` equal ones, or with the lengths in the third operand,
/// one of which may be -1 (the rest).
#[derive(Debug)]
struct Split {
    parts: Option<i64>,
}

/// Two sizes that must be equal.
type Equal = (Dim, Dim);

impl Split {
    /// The axis, the lengths and the sizes that must be equal.
    fn lengths(&self, inputs: &[Fact]) -> Result<(usize, Vec<Dim>, Equal), Diagnostic> {
        let data = operand(inputs, 0)?;
        let axis = operands::axis(operands::integer(inputs, 1, "the axis of a split")?, data.rank())?;
        let size = data.dims.get(axis).cloned().unwrap_or_default();
        if let Some(parts) = self.parts {
            let part = size.floor_div(&Dim::constant(parts));
            let lengths = (0..parts).map(|_| part.clone()).collect();
            return Ok((axis, lengths, (part * parts, size)));
        }
        let mut lengths = operands::sizes(inputs, 2, "the lengths of a split")?;
        let negative = |d: &Dim| d.as_const().is_some_and(|d| d < 0);
        let known = lengths.iter().filter(|d| !negative(d)).fold(Dim::constant(0), |sum, d| sum + d);
        let open = lengths.iter().filter(|d| negative(d)).count();
        if open > 1 || lengths.iter().any(|d| negative(d) && !d.is(-1)) {
            return Err(shape_error("at most one length of a split may be -1, the others must not be negative"));
        }
        if let Some(rest) = lengths.iter_mut().find(|d| d.is(-1)) {
            *rest = size.clone() - &known;
            if rest.range().max < 0 {
                return Err(shape_error(format!(
                    "the lengths of a split add up to {known}, but the dimension is {size}"
                )));
            }
            return Ok((axis, lengths, (size.clone(), size)));
        }
        Ok((axis, lengths, (known, size)))
    }
}

impl Op for Split {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        let (axis, lengths, (have, want)) = self.lengths(inputs)?;
        require_equal(context, &have, &want, "the sum of the parts and the divided dimension")?;
        let part = |length: Dim| {
            let mut dims = data.dims.clone();
            if let Some(slot) = dims.get_mut(axis) {
                *slot = length;
            }
            Fact::new(data.element, dims)
        };
        Ok(lengths.into_iter().map(part).collect())
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let x = builder.input(0)?;
        let (axis, lengths, _) = self.lengths(builder.facts())?;
        let mut offset = Dim::constant(0);
        for (i, length) in lengths.iter().enumerate() {
            let out = builder.output(i)?;
            if !length.is(0) {
                builder.map(out, |n, index| n.load(x, &shifted(index, axis, &offset)))?;
            }
            offset = offset + length;
        }
        Ok(())
    }
}
