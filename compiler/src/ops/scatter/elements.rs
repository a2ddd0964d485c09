//! ScatterElementsUpdate-3 and -12.

use super::{Reduction, Scattered, check_types, wrapped};
use crate::diag::Diagnostic;
use crate::dim::product;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, flatten, operand};
use crate::op::{InferContext, Op};
use crate::program::builder::Builder;
use crate::program::nest::{Binary, Const};
use crate::read::Attributes;
use std::rc::Rc;

/// `out[i with indices[i] along the axis] = updates[i]`, or combined with what is there.
#[derive(Debug)]
pub(super) struct ScatterElements {
    reduction: Option<Reduction>,
    keep: bool,
}

impl ScatterElements {
    /// Version 3.
    pub(super) fn without_reduction() -> Self {
        ScatterElements { reduction: None, keep: true }
    }

    fn axis(inputs: &[Fact]) -> Result<usize, Diagnostic> {
        let axis = operands::integer(inputs, 3, "the axis of ScatterElementsUpdate")?;
        operands::axis(axis, operand(inputs, 0)?.rank())
    }
}

pub(super) fn parse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let reductions = [
        ("none", None),
        ("sum", Some(Reduction::Sum)),
        ("prod", Some(Reduction::Prod)),
        ("min", Some(Reduction::Min)),
        ("max", Some(Reduction::Max)),
        ("mean", Some(Reduction::Mean)),
    ];
    let reduction = attributes.choice_or("reduction", &reductions, None)?;
    Ok(Rc::new(ScatterElements { reduction, keep: attributes.bool("use_init_val", true)? }))
}

impl Op for ScatterElements {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = check_types(inputs, 1, 2)?;
        let (indices, updates) = (operand(inputs, 1)?, operand(inputs, 2)?);
        Self::axis(inputs)?;
        if indices.rank() != data.rank() || updates.rank() != data.rank() {
            return Err(operands::shape_error("data, indices and updates must have the same number of dimensions"));
        }
        for (a, b) in indices.dims.iter().zip(&updates.dims) {
            operands::require_equal(context, a, b, "dimensions of indices and updates")?;
        }
        Ok(vec![Fact::new(data.element, data.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (data, indices, updates) = (builder.input(0)?, builder.input(1)?, builder.input(2)?);
        let axis = Self::axis(builder.facts())?;
        let (dims, counted) = (builder.dims(data), builder.dims(indices));
        let size = dims.get(axis).cloned().unwrap_or_default();
        let found = builder.temporary(ElementType::I64, counted.clone());
        builder.map(found, |n, i| {
            let index = n.load(indices, i)?;
            let at = wrapped(n, index, &size);
            let mut to = i.to_vec();
            if let Some(slot) = to.get_mut(axis) {
                *slot = n.as_index(at);
            }
            let place = n.index(&flatten(&to, &dims));
            let (zero, nowhere) = (n.constant(Const::I64(0)), n.constant(Const::I64(-1)));
            let outside = n.binary(Binary::Lt, at, zero);
            Ok(n.select(outside, nowhere, place))
        })?;
        let places = builder.temporary(ElementType::I64, vec![product(&counted)]);
        builder.reshape(found, places);
        let scattered = Scattered { data, places, updates, out: builder.output(0)?, targets: dims.len() };
        match self.reduction {
            None => scattered.replace(builder),
            Some(reduction) => scattered.reduce(builder, reduction, self.keep),
        }
    }
}
