//! Operations that keep the elements in their order and change the dimensions, and ShapeOf, which reads these.

mod run_time;

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, operand, require_equal, shape_error, text};
use crate::op::{InferContext, Op, OpDef, Props, Support, one_output};
use crate::program::builder::Builder;
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Reshape", 1, 1..=17, 2..=2, |a| {
        let special_zero = a.bool("special_zero", false)?;
        if !a.has("special_zero") {
            a.string("special_zero")?;
        }
        Ok(Rc::new(Reshape { special_zero }))
    }),
    row("ShapeOf", 1, 1..=2, 1..=1, |_| Ok(Rc::new(ShapeOf { element: ElementType::I64 }))),
    row("ShapeOf", 3, 3..=17, 1..=1, |a| {
        Ok(Rc::new(ShapeOf { element: a.index_type_or("output_type", ElementType::I64)? }))
    }),
    row("Squeeze", 1, 1..=14, 1..=2, |_| Ok(Rc::new(Squeeze))),
    row("Squeeze", 15, 15..=17, 1..=2, |a| {
        // Only whether the rank is known depends on it, and here it always is.
        a.bool("allow_axis_skip", false)?;
        Ok(Rc::new(Squeeze))
    }),
    row("Unsqueeze", 1, 1..=17, 2..=2, |_| Ok(Rc::new(Unsqueeze))),
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

const VIEW: Props = Props { effect: false, identity_if_same: true };

fn lower_view(builder: &mut Builder) -> Result<(), Diagnostic> {
    let (from, to) = (builder.input(0)?, builder.output(0)?);
    builder.reshape(from, to);
    Ok(())
}

/// Dimensions from the second operand: one -1 is what is left, and with `special_zero` a 0 is the operand's dimension
/// at that place.
#[derive(Debug)]
struct Reshape {
    special_zero: bool,
}

impl Op for Reshape {
    fn props(&self) -> Props {
        VIEW
    }

    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        if operand(inputs, 1)?.rank() > 1 {
            return Err(shape_error("the target shape must be a vector"));
        }
        if run_time::is_open(inputs) {
            return run_time::infer(data, run_time::listed(inputs, "the target shape")?, context);
        }
        let target = operands::sizes(inputs, 1, "the target shape")?;
        let (dims, check) = reshaped(&data.dims, &target, self.special_zero)?;
        if let Some((have, want)) = check {
            let message = format!("{} elements reshaped to {} elements (target {})", have, want, text(&target));
            require_equal(context, &have, &want, &message)?;
        }
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if run_time::is_open(builder.facts()) {
            run_time::reshape(builder, self.special_zero)?;
        }
        lower_view(builder)
    }
}

/// Sizes that must be equal, where that is not clear.
type Check = Option<(Dim, Dim)>;

/// The dimensions that `target` asks for. Factors that occur on both sides are cancelled first, so that run-time sizes
/// stay simple.
fn reshaped(from: &[Dim], target: &[Dim], special_zero: bool) -> Result<(Vec<Dim>, Check), Diagnostic> {
    let mut rest: Vec<Option<&Dim>> = from.iter().map(Some).collect();
    let mut dims = Vec::with_capacity(target.len());
    let mut unmatched = Vec::new();
    let mut open = None;
    for (i, dim) in target.iter().enumerate() {
        if dim.is(0) && special_zero {
            let copied = from.get(i).ok_or_else(|| {
                shape_error(format!("target dimension {i} is 0 (copy), but the data has {} dimensions", from.len()))
            })?;
            if let Some(slot) = rest.get_mut(i) {
                *slot = None;
            }
            dims.push(copied.clone());
        } else if dim.is(-1) {
            if open.replace(i).is_some() {
                return Err(shape_error(format!("the target shape {} has more than one -1", text(target))));
            }
            dims.push(Dim::constant(1));
        } else if dim.as_const().is_some_and(|d| d < 0) {
            return Err(shape_error(format!("the target shape {} has a negative size", text(target))));
        } else {
            unmatched.push(dim);
            dims.push(dim.clone());
        }
    }
    unmatched.retain(|dim| {
        let same = rest.iter_mut().find(|slot| **slot == Some(*dim) && !dim.is(0));
        same.map(|slot| *slot = None).is_none()
    });
    let have = rest.into_iter().flatten().fold(Dim::constant(1), |size, dim| size * dim);
    let want = unmatched.into_iter().fold(Dim::constant(1), |size, dim| size * dim);
    let Some(open) = open else {
        return Ok((dims, (have != want).then_some((have, want))));
    };
    let size = if want.is(0) { Dim::constant(0) } else { have.floor_div(&want) };
    let check = size.clone() * &want;
    if let Some(slot) = dims.get_mut(open) {
        *slot = size;
    }
    Ok((dims, (check != have).then_some((have, check))))
}

/// Removes dimensions of size 1: those that the second operand names, else all. Named dimensions of another size stay.
#[derive(Debug)]
struct Squeeze;

impl Op for Squeeze {
    fn props(&self) -> Props {
        VIEW
    }

    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        if run_time::is_open(inputs) {
            let count = run_time::listed(inputs, "the axes to squeeze")?;
            let rank = data.rank().checked_sub(count).ok_or_else(|| {
                shape_error(format!("{count} axes to squeeze, but the data has {} dimensions", data.rank()))
            })?;
            return run_time::infer(data, rank, context);
        }
        let named = match inputs.len() {
            1 => None,
            _ => Some(operands::integers(inputs, 1, "the axes to squeeze")?),
        };
        let mut selected = vec![named.as_ref().is_none_or(Vec::is_empty); data.rank()];
        for one in named.iter().flatten() {
            if let Some(slot) = selected.get_mut(operands::axis(*one, data.rank())?) {
                *slot = true;
            }
        }
        let mut dims = Vec::new();
        for (dim, selected) in data.dims.iter().zip(selected) {
            let range = dim.range();
            if !selected || range.min > 1 || range.max < 1 {
                dims.push(dim.clone());
            } else if named.as_ref().is_none_or(Vec::is_empty) && !dim.is(1) {
                return Err(Diagnostic::error(
                    &codes::UNSUPPORTED,
                    format!("whether dimension {dim} is squeezed depends on its run-time size"),
                )
                .help("name the axes to squeeze in the second input"));
            } else {
                require_equal(context, dim, &Dim::constant(1), "a squeezed dimension and 1")?;
            }
        }
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if run_time::is_open(builder.facts()) {
            run_time::squeeze(builder)?;
        }
        lower_view(builder)
    }
}

/// Inserts dimensions of size 1 at the axes of the result that the second operand names.
#[derive(Debug)]
struct Unsqueeze;

impl Op for Unsqueeze {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        if run_time::is_open(inputs) {
            let rank = data.rank() + run_time::listed(inputs, "the axes to insert")?;
            return run_time::infer(data, rank, context);
        }
        let mut list = operands::integers(inputs, 1, "the axes to insert")?;
        list.sort_unstable();
        list.dedup();
        let rank = data.rank() + list.len();
        let inserted = operands::axes(&list, rank)?;
        let mut rest = data.dims.iter();
        let next = |axis| if inserted.contains(&axis) { Some(Dim::constant(1)) } else { rest.next().cloned() };
        Ok(vec![Fact::new(data.element, (0..rank).map_while(next).collect())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if run_time::is_open(builder.facts()) {
            run_time::unsqueeze(builder)?;
        }
        lower_view(builder)
    }
}

/// The dimensions of the operand as a vector.
#[derive(Debug)]
struct ShapeOf {
    element: ElementType,
}

impl Op for ShapeOf {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        if !matches!(self.element, ElementType::I32 | ElementType::I64) {
            return Err(Diagnostic::error(&codes::TYPE, format!("shapes are i32 or i64, not {}", self.element)));
        }
        let data = operand(inputs, 0)?;
        Ok(vec![Fact::sizes(self.element, vec![Dim::from(data.rank())], data.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let out = builder.output(0)?;
        for (i, dim) in builder.fact(0)?.dims.iter().enumerate() {
            let mut n = builder.nest(&[]);
            let size = n.index(dim);
            let size = n.cast(self.element, size);
            n.store(out, &[Dim::from(i)], size);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Variable;

    fn dims(list: &[i64]) -> Vec<Dim> {
        list.iter().map(|d| Dim::constant(*d)).collect()
    }

    #[test]
    fn reshape_copies_zeros_and_fills_in_the_rest() {
        let (out, check) = reshaped(&dims(&[2, 3, 4]), &dims(&[0, -1]), true).unwrap();
        assert_eq!(out, dims(&[2, 12]));
        assert_eq!(check, None);
        let (out, _) = reshaped(&dims(&[0, 3]), &dims(&[0, 5]), false).unwrap();
        assert_eq!(out, dims(&[0, 5]));
        assert!(reshaped(&dims(&[6]), &dims(&[-1, -1]), false).is_err());
        assert!(reshaped(&dims(&[6]), &dims(&[1, 0]), true).is_err());
    }

    #[test]
    fn reshape_cancels_run_time_sizes() {
        let batch = Dim::variable(Variable::new(0, 1, 8));
        let from = vec![batch.clone(), Dim::constant(12), Dim::constant(64)];
        let target = vec![batch.clone(), Dim::constant(12), Dim::constant(-1), Dim::constant(16)];
        let (out, check) = reshaped(&from, &target, false).unwrap();
        assert_eq!(out.get(2), Some(&Dim::constant(4)));
        assert_eq!(check, None);
        let (out, check) = reshaped(&from, &dims(&[-1, 768]), false).unwrap();
        assert_eq!(out.first(), Some(&batch));
        assert_eq!(check, None);
    }
}
