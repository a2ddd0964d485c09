//! Pad: adds elements around a tensor, or with negative pads removes some.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::found;
use crate::op::operands::{self, operand, same_element, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const};
use crate::program::{Bound, BufferId};
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
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        if inputs.len() > 3 && self.mode == Mode::Constant {
            same_element(inputs, 0, 3)?;
            if operand(inputs, 3)?.rank() > 0 {
                return Err(shape_error("the pad value must be a scalar"));
            }
        }
        if is_open(inputs) {
            for list in [operand(inputs, 1)?, operand(inputs, 2)?] {
                if found::listed(list, "the list of pads")? != data.rank() || list.rank() != 1 {
                    return Err(shape_error(format!("pads {list} for {} dimensions", data.rank())));
                }
            }
            let dims = context.bounded("the pads", data.rank(), &Dim::constant(1))?;
            return Ok(vec![Fact::new(data.element, dims)]);
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
        let known = if is_open(builder.facts()) { None } else { Some(pads(builder.facts())?) };
        if known.is_none() {
            self.find_dims(builder)?;
        }
        let (begin, end) = (builder.input(1)?, builder.input(2)?);
        let value = if builder.input_count() > 3 { Some(builder.input(3)?) } else { None };
        let zero = Const::of(builder.scalar_type(x)?, 0.0);
        builder.map(out, |n, i| {
            let (mut index, mut bounds) = (Vec::new(), Vec::new());
            let pads = match &known {
                Some(pads) => pads.clone(),
                None => (0..i.len()).map(|d| read(n, (begin, end), d)).collect::<Result<_, _>>()?,
            };
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

/// Whether there are pads that are data.
fn is_open(inputs: &[Fact]) -> bool {
    let open = |fact: &Fact| fact.as_sizes().is_none() && fact.element.is_integer();
    inputs.iter().skip(1).take(2).any(open)
}

/// The pads of dimension `d` as the operands have them.
fn read(n: &mut NestBuilder, (begin, end): (BufferId, BufferId), d: usize) -> Result<(Dim, Dim), Diagnostic> {
    let mut pad = |list| {
        let value = n.load(list, &[Dim::from(d)])?;
        let value = n.cast(ElementType::I64, value);
        Ok::<Dim, Diagnostic>(n.as_index(value))
    };
    Ok((pad(begin)?, pad(end)?))
}

impl Pad {
    /// Finds the dimensions of the result of pads that are data. Pads for which a dimension is too small put it out of
    /// its bounds.
    fn find_dims(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, begin, end, out) = (builder.input(0)?, builder.input(1)?, builder.input(2)?, builder.output(0)?);
        let dims = builder.dims(x);
        let sizes = (0..dims.len()).map(|d| builder.found(out, d)).collect::<Result<_, _>>()?;
        builder.find_sizes(sizes, |n, d| {
            let (before, after) = read(n, (begin, end), d)?;
            let size = dims.get(d).cloned().unwrap_or_default();
            let padded = n.index(&(size.clone() + &before + &after));
            let (before, after, size) = (n.index(&before), n.index(&after), n.index(&size));
            let (zero, nowhere) = (n.constant(Const::I64(0)), n.constant(Const::I64(-1)));
            let most = n.binary(Binary::Max, before, after);
            let most = n.binary(Binary::Max, most, zero);
            let enough = match self.mode {
                Mode::Constant => return Ok(padded),
                Mode::Reflect => n.binary(Binary::Lt, most, size),
                Mode::Symmetric => n.binary(Binary::Le, most, size),
                Mode::Edge => n.binary(Binary::Lt, zero, size),
            };
            let kept = n.binary(Binary::Eq, padded, size);
            let enough = n.binary(Binary::Or, enough, kept);
            Ok(n.select(enough, padded, nowhere))
        })
    }

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
