//! ScatterNDUpdate-3 and -15.

use super::{Reduction, Scattered, check_types, wrapped};
use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, operand};
use crate::op::{InferContext, Op};
use crate::program::builder::Builder;
use crate::program::nest::{Binary, Const};
use crate::read::Attributes;
use std::rc::Rc;

/// `out[indices[j]...] = updates[j]`, or combined with what is there. The last dimension of the indices holds the first
/// indices into the data.
#[derive(Debug)]
pub(super) struct ScatterNd {
    pub(super) reduction: Option<Reduction>,
}

pub(super) fn parse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let reductions = [
        ("none", None),
        ("sum", Some(Reduction::Sum)),
        ("sub", Some(Reduction::Sub)),
        ("prod", Some(Reduction::Prod)),
        ("min", Some(Reduction::Min)),
        ("max", Some(Reduction::Max)),
    ];
    Ok(Rc::new(ScatterNd { reduction: attributes.choice_or("reduction", &reductions, None)? }))
}

/// How many indices one place has.
fn depth(inputs: &[Fact]) -> Result<usize, Diagnostic> {
    let (data, indices) = (operand(inputs, 0)?, operand(inputs, 1)?);
    let Some(last) = indices.dims.last() else {
        return Err(operands::shape_error("the indices of a ScatterNDUpdate must not be a scalar"));
    };
    let depth = last.as_usize().ok_or_else(|| {
        let message = format!("the last dimension of the indices must be a constant, not {last}");
        Diagnostic::error(&codes::UNSUPPORTED, message)
    })?;
    match depth <= data.rank() {
        true => Ok(depth),
        false => Err(operands::shape_error(format!("{depth} indices, but the data has {} dimensions", data.rank()))),
    }
}

impl Op for ScatterNd {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = check_types(inputs, 1, 2)?;
        let (indices, updates) = (operand(inputs, 1)?, operand(inputs, 2)?);
        let depth = depth(inputs)?;
        let places = indices.dims.iter().take(indices.rank() - 1);
        let expected: Vec<&Dim> = places.chain(data.dims.iter().skip(depth)).collect();
        // A single update may come as a scalar or a vector of one.
        let single = product(&updates.dims).is(1) && expected.iter().all(|dim| dim.is(1));
        if !single {
            if expected.len() != updates.rank() {
                let message = format!("updates have {} dimensions, not {}", updates.rank(), expected.len());
                return Err(operands::shape_error(message));
            }
            for (a, b) in expected.into_iter().zip(&updates.dims) {
                operands::require_equal(context, a, b, "dimensions of indices or data and updates")?;
            }
        }
        Ok(vec![Fact::new(data.element, data.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (data, indices, updates) = (builder.input(0)?, builder.input(1)?, builder.input(2)?);
        let depth = depth(builder.facts())?;
        let (dims, mut counted) = (builder.dims(data), builder.dims(indices));
        counted.pop();
        let found = builder.temporary(ElementType::I64, counted.clone());
        builder.map(found, |n, i| {
            let (zero, nowhere) = (n.constant(Const::I64(0)), n.constant(Const::I64(-1)));
            let mut place = zero;
            let mut outside = n.constant(Const::Bool(false));
            for (k, dim) in dims.iter().enumerate().take(depth) {
                let index = n.load(indices, &[i, &[Dim::from(k)]].concat())?;
                let at = wrapped(n, index, dim);
                let beyond = n.binary(Binary::Lt, at, zero);
                outside = n.binary(Binary::Or, outside, beyond);
                let size = n.index(dim);
                let scaled = n.binary(Binary::Mul, place, size);
                place = n.binary(Binary::Add, scaled, at);
            }
            Ok(n.select(outside, nowhere, place))
        })?;
        let places = builder.temporary(ElementType::I64, vec![product(&counted)]);
        builder.reshape(found, places);
        let scattered = Scattered { data, places, updates, out: builder.output(0)?, targets: depth };
        match self.reduction {
            None => scattered.replace(builder),
            Some(reduction) => scattered.reduce(builder, reduction, true),
        }
    }
}
