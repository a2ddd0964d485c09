//! Unique-10.

use super::keys;
use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::{self, operand};
use crate::op::{InferContext, Op, OpDef, Support};
use crate::program::builder::Builder;
use crate::program::{BufferId, Call};
use std::rc::Rc;

pub(super) const ROW: OpDef = OpDef {
    name: "Unique",
    version: 10,
    opsets: 10..=17,
    inputs: 1..=2,
    outputs: |_| 4,
    parse: |a| {
        Ok(Rc::new(Unique {
            sorted: a.bool("sorted", true)?,
            index: a.index_type_or("index_element_type", ElementType::I64)?,
            count: a.index_type_or("count_element_type", ElementType::I64)?,
        }))
    },
    ignorable: &[],
    support: Support::Full,
};

/// The different elements, or slices along an axis: they themselves, where each occurs first, which one each element is, and
/// how often each occurs. Without an axis the tensor counts as a vector.
#[derive(Debug)]
struct Unique {
    sorted: bool,
    index: ElementType,
    count: ElementType,
}

/// The axis, if there is one.
fn axis(inputs: &[Fact]) -> Result<Option<usize>, Diagnostic> {
    match inputs.len() {
        1 => Ok(None),
        _ => Ok(Some(operands::axis(operands::integer(inputs, 1, "the axis of Unique")?, operand(inputs, 0)?.rank())?)),
    }
}

/// Number of elements or slices.
fn total(dims: &[Dim], axis: Option<usize>) -> Dim {
    match axis {
        Some(axis) => dims.get(axis).cloned().unwrap_or_default(),
        None => product(dims),
    }
}

impl Op for Unique {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = operand(inputs, 0)?;
        let axis = axis(inputs)?;
        let all = total(&x.dims, axis);
        let bound = all.upper_bound();
        let different = context.fresh("unique", bound.min(1), bound);
        let dims = match axis {
            None => vec![different.clone()],
            Some(axis) => x
                .dims
                .iter()
                .enumerate()
                .map(|(i, dim)| if i == axis { different.clone() } else { dim.clone() })
                .collect(),
        };
        Ok(vec![
            Fact::new(x.element, dims),
            Fact::new(self.index, vec![different.clone()]),
            Fact::new(self.index, vec![all]),
            Fact::new(self.count, vec![different]),
        ])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let x = builder.input(0)?;
        let axis = axis(builder.facts())?;
        let rows = self.rows(builder, x, axis)?;
        let outputs = [builder.output(1)?, builder.output(2)?, builder.output(3)?];
        let staged = outputs.map(|output| builder.staged(output, ElementType::I64));
        let count = total(&builder.dims(x), axis);
        let order = builder.temporary(ElementType::I32, vec![count * 3]);
        let sizes = vec![builder.found(outputs[0], 0)?];
        builder.call(Call {
            function: function!(unique),
            inputs: vec![rows],
            outputs: [staged.to_vec(), vec![order]].concat(),
            integers: vec![Dim::constant(i64::from(self.sorted))],
            floats: Vec::new(),
            sizes,
        });
        let first = staged[0];
        let dims = builder.dims(x);
        builder.map(builder.output(0)?, |n, i| {
            let which = i.get(axis.unwrap_or(0)).cloned().unwrap_or_default();
            let at = n.load(first, &[which])?;
            let at = n.as_index(at);
            let from = match axis {
                None => operands::unflatten(&at, &dims),
                Some(axis) => {
                    i.iter().enumerate().map(|(d, dim)| if d == axis { at.clone() } else { dim.clone() }).collect()
                }
            };
            n.load(x, &from)
        })?;
        staged.into_iter().zip(outputs).try_for_each(|(from, to)| builder.convert(from, to))
    }
}

impl Unique {
    /// The elements or slices to compare, one per row.
    fn rows(&self, builder: &mut Builder, x: BufferId, axis: Option<usize>) -> Result<BufferId, Diagnostic> {
        let keys = keys(builder, x)?;
        let dims = builder.dims(x);
        let others: Vec<usize> = (0..dims.len()).filter(|d| Some(*d) != axis && axis.is_some()).collect();
        let others_dims: Vec<Dim> = others.iter().filter_map(|d| dims.get(*d).cloned()).collect();
        let rows = builder.temporary(builder.element(keys), vec![total(&dims, axis), product(&others_dims)]);
        match axis {
            None => builder.reshape(keys, rows),
            Some(axis) => {
                let mut moved_dims = vec![total(&dims, Some(axis))];
                moved_dims.extend(others_dims);
                let moved = builder.temporary(builder.element(keys), moved_dims);
                builder.map(moved, |n, i| {
                    let mut from = vec![Dim::constant(0); dims.len()];
                    for (place, at) in [axis].iter().chain(&others).zip(i) {
                        if let Some(slot) = from.get_mut(*place) {
                            *slot = at.clone();
                        }
                    }
                    n.load(keys, &from)
                })?;
                builder.reshape(moved, rows);
            }
        }
        Ok(rows)
    }
}
