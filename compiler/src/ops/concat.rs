//! Operations that join and divide tensors along one axis: Concat, Split, VariadicSplit.

use crate::diag::Diagnostic;
use crate::dim::{Dim, Variable};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::found;
use crate::op::operands::{self, operand, require_equal, same_element, shape_error, unflatten};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::Builder;
use crate::program::nest::{Binary, Const};
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
            Ok(Rc::new(Split { parts: Some(parts), results: a.layer().output_ports.len() }))
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
        parse: |a| Ok(Rc::new(Split { parts: None, results: a.layer().output_ports.len() })),
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
    results: usize,
}

/// Two sizes that must be equal.
type Equal = (Dim, Dim);

impl Split {
    fn check_count(&self, lengths: usize) -> Result<(), Diagnostic> {
        if lengths != self.results {
            return Err(shape_error(format!("{lengths} lengths for {} results of a split", self.results)));
        }
        Ok(())
    }

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
        self.check_count(lengths.len())?;
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

/// Splits whose lengths are data.
impl Split {
    fn is_open(&self, inputs: &[Fact]) -> bool {
        let open = |fact: &Fact| fact.as_sizes().is_none() && fact.element.is_integer();
        self.parts.is_none() && inputs.get(2).is_some_and(open)
    }

    fn axis(inputs: &[Fact]) -> Result<usize, Diagnostic> {
        operands::axis(operands::integer(inputs, 1, "the axis of a split")?, operand(inputs, 0)?.rank())
    }

    /// Every part may be as long as the dimension; that all of them together are is checked when the model runs.
    fn infer_open(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (data, axis) = (operand(inputs, 0)?, Split::axis(inputs)?);
        let count = found::listed(operand(inputs, 2)?, "the lengths of a split")?;
        self.check_count(count)?;
        let size = data.dims.get(axis).cloned().unwrap_or_default();
        let (mut facts, mut sum) = (Vec::with_capacity(count), Dim::constant(0));
        for _ in 0..count {
            let length = context.fresh("part", 0, size.upper_bound());
            sum = sum + &length;
            let mut dims = data.dims.clone();
            if let Some(slot) = dims.get_mut(axis) {
                *slot = length;
            }
            facts.push(Fact::new(data.element, dims));
        }
        require_equal(context, &sum, &size, "the sum of the parts and the divided dimension")?;
        Ok(facts)
    }

    /// Finds the lengths: what the others leave where one is -1.
    fn find_lengths(&self, builder: &mut Builder) -> Result<(usize, Vec<Dim>), Diagnostic> {
        let (x, list, axis) = (builder.input(0)?, builder.input(2)?, Split::axis(builder.facts())?);
        let (size, listed) = (builder.dims(x).get(axis).cloned().unwrap_or_default(), builder.dims(list));
        let count = found::listed(operand(builder.facts(), 2)?, "the lengths of a split")?;
        let found = |i| builder.found(builder.output(i)?, axis);
        let sizes: Vec<Variable> = (0..count).map(found).collect::<Result<_, Diagnostic>>()?;
        let lengths = sizes.iter().map(|size| Dim::variable(*size)).collect();
        builder.find_sizes(sizes, |n, i| {
            let (open, zero) = (n.constant(Const::I64(-1)), n.constant(Const::I64(0)));
            let (mut rest, mut length) = (n.index(&size), zero);
            for other in 0..count {
                let given = n.load(list, &unflatten(&Dim::from(other), &listed))?;
                let given = n.cast(ElementType::I64, given);
                let left = n.binary(Binary::Eq, given, open);
                let taken = n.select(left, zero, given);
                rest = n.binary(Binary::Sub, rest, taken);
                length = if other == i { given } else { length };
            }
            let left = n.binary(Binary::Eq, length, open);
            Ok(n.select(left, rest, length))
        })?;
        Ok((axis, lengths))
    }
}

impl Op for Split {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        if self.is_open(inputs) {
            return self.infer_open(inputs, context);
        }
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
        let (axis, lengths) = match self.is_open(builder.facts()) {
            true => self.find_lengths(builder)?,
            false => self.lengths(builder.facts()).map(|(axis, lengths, _)| (axis, lengths))?,
        };
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
