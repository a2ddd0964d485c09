//! Inputs whose values are given when the model is compiled: they become constants.

use super::{Building, origin};
use crate::diag::{Diagnostic, codes, quote};
use crate::element::ElementType;
use crate::graph::ValueId;
use crate::ops::convert;
use crate::options::InputValue;
use crate::read::{Dims, Layer};
use crate::tensor::Tensor;

impl Building<'_> {
    /// The constant that option `value` makes of an input.
    pub(super) fn fixed_input(
        &mut self,
        layer: &Layer,
        given: &InputValue,
        declared: ElementType,
        shape: &Dims,
    ) -> Result<Option<ValueId>, Diagnostic> {
        let dims = dims(given, shape).ok_or_else(|| {
            let message = format!("option `value` gives {} {} numbers", quote(&given.input), given.numbers.len());
            Diagnostic::error(&codes::OPTION, message).at(layer.span).note("the input has another number of elements")
        })?;
        let (element, bytes): (_, Vec<u8>) = match given.integers() {
            Some(integers) => (ElementType::I64, integers.iter().flat_map(|v| v.to_le_bytes()).collect()),
            None => (ElementType::F64, given.numbers.iter().flat_map(|v| v.to_le_bytes()).collect()),
        };
        let tensor = Tensor::new(element, dims, bytes.into())
            .ok_or_else(|| Diagnostic::internal("the values of an input do not fit its dimensions"))?;
        let value = self.graph.add_constant(&layer.name, tensor);
        Ok(match element == declared {
            true => Some(value),
            false => self.add(convert::to(declared), vec![value], origin(layer)),
        })
    }
}

/// The dimensions of the input; one that the model leaves open follows from the number of values.
fn dims(given: &InputValue, shape: &Dims) -> Option<Vec<usize>> {
    let count = given.numbers.len();
    if shape.dynamic_rank {
        return Some(vec![count]);
    }
    let sizes: Vec<Option<usize>> =
        shape.dims.iter().map(|range| range.fixed().and_then(|size| usize::try_from(size).ok())).collect();
    let known = sizes.iter().flatten().try_fold(1usize, |n, size| n.checked_mul(*size))?;
    let open = sizes.iter().filter(|size| size.is_none()).count();
    let rest = match open {
        0 => (known == count).then_some(1)?,
        1 => count.is_multiple_of(known.max(1)).then(|| count / known.max(1))?,
        _ => return None,
    };
    Some(sizes.into_iter().map(|size| size.unwrap_or(rest)).collect())
}
