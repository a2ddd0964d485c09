//! Constants: tensors over the mapped weights, without a copy.

use super::Building;
use crate::diag::{Diagnostic, codes};
use crate::element::ElementType;
use crate::read::{Constant, Layer, Location};
use crate::source::{Source, Weights};
use crate::tensor::{Bytes, Tensor};
use std::sync::Arc;

struct Owner(Weights);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// The weights of a source, shared by all tensors over them.
pub(super) fn shared(source: &Source) -> Bytes {
    Bytes::new(Arc::new(Owner(source.weights.clone())))
}

impl Building<'_> {
    pub(super) fn constant(&mut self, index: usize, layer: &Layer) {
        let Some(constant) = &layer.constant else { return };
        match self.tensor(constant) {
            Some(tensor) => self.outputs[index] = vec![self.graph.add_constant(&layer.name, tensor)],
            None => {
                let message = format!("{} does not fit its bytes", layer.describe());
                self.diagnostics.push(Diagnostic::error(&codes::CONSTANT_SIZE, message).at(layer.span));
            }
        }
    }

    fn tensor(&self, constant: &Constant) -> Option<Tensor> {
        let bytes = match &constant.location {
            Location::Weights { offset, len } => self.weights.slice(*offset, *len)?,
            Location::Inline(bytes) => Bytes::new(Arc::new(Arc::clone(bytes))),
        };
        if constant.element == ElementType::Boolean && bytes.as_slice().iter().any(|b| *b > 1) {
            // Any non-zero byte is true; from here on true is 1.
            let clean: Vec<u8> = bytes.as_slice().iter().map(|b| u8::from(*b != 0)).collect();
            return Tensor::new(constant.element, constant.dims.clone(), clean.into());
        }
        Tensor::new(constant.element, constant.dims.clone(), bytes)
    }
}
