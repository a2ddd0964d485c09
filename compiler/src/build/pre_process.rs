//! Mean subtraction of old files: a Subtract behind the Parameter.

use super::Building;
use crate::diag::{Diagnostic, codes};
use crate::element::ElementType;
use crate::ops::{binary, convert};
use crate::read::Mean;
use crate::tensor::Tensor;

impl Building<'_> {
    pub(super) fn pre_process(&mut self) -> Result<(), Diagnostic> {
        let net = self.net;
        for entry in &net.pre_process {
            let Some([input]) = self.outputs.get(entry.layer).map(Vec::as_slice) else { continue };
            let input = *input;
            let element = self.graph.fact(input).map_or(ElementType::F32, |fact| fact.element);
            let tensor = match &entry.mean {
                Mean::Channels { dims, values } => Some(Tensor::from_f32s(dims.clone(), values)),
                Mean::Images { dims, element, offsets, len } => self.images(dims, *element, offsets, *len),
            };
            let tensor =
                tensor.ok_or_else(|| Diagnostic::error(&codes::PRE_PROCESS, "a mean image does not fit its shape"))?;
            let origin = Self::internal_origin("mean", "Subtract");
            let mean_element = tensor.element;
            let mut mean = self.graph.add_constant("mean", tensor);
            if mean_element != element {
                mean = self.add(convert::to(element), vec![mean], origin.clone()).unwrap_or(mean);
            }
            if let Some(value) = self.add(binary::subtract(), vec![input, mean], origin) {
                self.outputs[entry.layer] = vec![value];
            }
        }
        Ok(())
    }

    fn images(&self, dims: &[usize], element: ElementType, offsets: &[usize], len: usize) -> Option<Tensor> {
        let mut bytes = Vec::new();
        for offset in offsets {
            bytes.extend_from_slice(self.weights.slice(*offset, len)?.as_slice());
        }
        Tensor::new(element, dims.to_vec(), bytes.into())
    }
}
