//! Tables of which a run reads a few rows keep the 16-bit floats that they were stored as: half the memory, and what is read is
//! converted on the way.

use super::blocks::for_each_step;
use crate::diag::Diagnostics;
use crate::dim::product;
use crate::element::ElementType;
use crate::options::{Kernels, Options};
use crate::program::{BufferId, Nest, Program, Role, Step, StepKind};
use crate::tensor::Tensor;
use include_ir_runtime::__private::v1::cast;

/// Smaller tables stay as they are.
const LEAST: usize = 64 * 1024;
/// A step reads at most this part of the elements.
const PART: i64 = 4;

/// Gives tables whose numbers 16-bit floats have that type.
pub fn narrow_tables(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if options.kernels == Kernels::Reference {
        return;
    }
    let mut fits: Vec<bool> = program.buffers.iter().map(is_large).collect();
    for view in &program.buffers {
        // Views would need the type of what they look into.
        let id = view.layout.storage.0 as usize;
        if program.buffers.get(id).is_some_and(|storage| !std::ptr::eq(storage, view)) {
            fits[id] = false;
        }
    }
    let mut read = vec![false; fits.len()];
    for_each_step(program, &mut |program, step| {
        let few = |nest: &Nest, buffer: BufferId| {
            let points: Vec<_> = nest.axes.iter().map(|axis| axis.extent.clone()).collect();
            let elements = program.buffer(buffer).len().upper_bound();
            product(&points).upper_bound().saturating_mul(PART) <= elements
        };
        let nests: &[Nest] = nests(step);
        let (reads, writes) = step.own_accesses();
        for buffer in reads.into_iter().chain(writes) {
            let id = buffer.0 as usize;
            let own = nests.iter().filter(|nest| nest.loads().any(|access| access.buffer == buffer));
            read[id] = true;
            fits[id] &= !nests.is_empty() && own.into_iter().all(|nest| few(nest, buffer));
        }
    });
    for (buffer, fits) in program.buffers.iter_mut().zip(fits.into_iter().zip(read).map(|(fits, read)| fits && read)) {
        if let Role::Constant(tensor) = &mut buffer.role
            && fits
            && let Some(narrow) = narrowed(tensor)
        {
            (buffer.element, *tensor) = (ElementType::F16, narrow);
        }
    }
}

fn is_large(buffer: &crate::program::Buffer) -> bool {
    let Role::Constant(tensor) = &buffer.role else { return false };
    tensor.element == ElementType::F32 && tensor.len() >= LEAST
}

/// The nests of a step that has nothing else.
fn nests(step: &Step) -> &[Nest] {
    match &step.kind {
        StepKind::Nest(nest) => std::slice::from_ref(nest),
        StepKind::Rows(rows) => &rows.nests,
        _ => &[],
    }
}

/// The same numbers as 16-bit floats, where these have all of them.
fn narrowed(tensor: &Tensor) -> Option<Tensor> {
    let mut bytes = Vec::with_capacity(tensor.len() * 2);
    for number in tensor.bytes.as_slice().as_chunks::<4>().0.iter().take(tensor.len()) {
        let number = f32::from_le_bytes(*number);
        let bits = cast::f32_to_f16_bits(number);
        if cast::f16_bits_to_f32(bits).to_bits() != number.to_bits() {
            return None;
        }
        bytes.extend(bits.to_le_bytes());
    }
    Some(Tensor { element: ElementType::F16, dims: tensor.dims.clone(), bytes: bytes.into() })
}
