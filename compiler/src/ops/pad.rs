//! Pad: adds elements around a tensor, or with negative pads removes some.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::operands::{self, operand, same_element, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::Bound;
use crate::program::builder::Builder;
use crate::program::nest::Const;
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[row(1, 1..=11), row(12, 12..=17)];

const fn row(version: u8, opsets: RangeInclusive<u8>) -> OpDef {
    OpDef {
        name: "Pad",
        version,
        opsets,
        inputs: 3..=4,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// Where the added elements come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The last operand, or zero.
    Constant,
    /// The nearest element.
    Edge,
    /// Mirrored at the outermost element.
    Reflect,
    /// Mirrored at the outer face of the outermost element.
    Symmetric,
}

#[derive(Debug)]
struct Pad {
    mode: Mode,
}

fn parse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let modes = [
        ("constant", Mode::Constant),
        ("edge", Mode::Edge),
        ("reflect", Mode::Reflect),
        ("symmetric", Mode::Symmetric),
    ];
    Ok(Rc::new(Pad { mode: attributes.choice("pad_mode", &modes)? }))
}

/// Number of added elements before and after, for every dimension.
fn pads(inputs: &[Fact]) -> Result<Vec<(Dim, Dim)>, Diagnostic> {
    let rank = operand(inputs, 0)?.rank();
    let before = operands::sizes(inputs, 1, "pads_begin")?;
    let after = operands::sizes(inputs, 2, "pads_end")?;
    if before.len() != rank || after.len() != rank {
        return Err(shape_error(format!("{} and {} pads for {rank} dimensions", before.len(), after.len())));
    }
    Ok(before.into_iter().zip(after).collect())
}

impl Op for Pad {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        if inputs.len() > 3 && self.mode == Mode::Constant {
            same_element(inputs, 0, 3)?;
            if operand(inputs, 3)?.rank() > 0 {
                return Err(shape_error("the pad value must be a scalar"));
            }
        }
        let mut dims = Vec::new();
        for (size, (before, after)) in data.dims.iter().zip(pads(inputs)?) {
            let least = match self.mode {
                Mode::Constant => None,
                Mode::Edge => Some(Dim::constant(if before.is(0) && after.is(0) { 0 } else { 1 })),
                Mode::Reflect => Some(before.maximum(&after).maximum(&Dim::constant(-1)) + 1),
                Mode::Symmetric => Some(before.maximum(&after)),
            };
            if least.is_some_and(|least| !(before.is(0) && after.is(0)) && (size.clone() - least).range().max < 0) {
                return Err(shape_error(format!(
                    "a dimension of size {size} is too small for pads {before} and {after}"
                )));
            }
            let padded = size.clone() + &before + &after;
            if padded.range().max < 0 {
                return Err(shape_error(format!(
                    "pads {before} and {after} remove more than the {size} elements of a dimension"
                )));
            }
            dims.push(padded);
        }
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let pads = pads(builder.facts())?;
        let value = if builder.input_count() > 3 { Some(builder.input(3)?) } else { None };
        let zero = Const::of(builder.scalar_type(x)?, 0.0);
        builder.map(out, |n, i| {
            let (mut index, mut bounds) = (Vec::new(), Vec::new());
            for ((size, (before, after)), i) in n.dims(x).iter().zip(&pads).zip(i) {
                let at = i.clone() - before;
                let grows = before.range().max > 0 || after.range().max > 0;
                if grows && self.mode == Mode::Constant {
                    bounds.push(Bound { value: at.clone(), limit: size.clone() });
                }
                index.push(if grows { self.source(&at, size) } else { at });
            }
            if bounds.is_empty() {
                return n.load(x, &index);
            }
            let otherwise = match value {
                Some(value) => n.load(value, &[])?,
                None => n.constant(zero),
            };
            n.load_within(x, &index, bounds, otherwise)
        })
    }
}

impl Pad {
    /// The element that is read for position `at`, which may be outside of the dimension.
    fn source(&self, at: &Dim, size: &Dim) -> Dim {
        let negated = at.clone() * -1;
        match self.mode {
            Mode::Constant => at.clone(),
            Mode::Edge => at.maximum(&Dim::constant(0)).minimum(&(size.clone() - 1)),
            Mode::Reflect => {
                let positive = at.maximum(&negated);
                (size.clone() * 2 - 2 - &positive).minimum(&positive)
            }
            Mode::Symmetric => {
                let positive = at.maximum(&(negated - 1));
                (size.clone() * 2 - 1 - &positive).minimum(&positive)
            }
        }
    }
}
