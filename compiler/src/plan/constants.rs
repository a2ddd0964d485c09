//! Which constants the weights hold, where, and their bytes.

use super::{ALIGN, Plan, Space, element_bytes};
use crate::diag::{Diagnostic, codes};
use crate::element::ElementType;
use crate::program::kernel::{Kernel, KernelKind};
use crate::program::nest::{Const, Scalar, ScalarType};
use crate::program::{Buffer, BufferId, Layout, Program, Role};
use crate::tensor::{Tensor, packed};
use include_ir_runtime::__private::v1::{HEADER_BYTES, blob_header, cast};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Constants up to this many elements become literals where they are read at a constant index.
const INLINE_ELEMENTS: usize = 16;

/// The literal that a load reads, where the element is known and small enough to stand in the code.
pub fn inline_constant(program: &Program, node: &Scalar) -> Option<Const> {
    let Scalar::Load { access, bounds, .. } = node else { return None };
    let buffer = program.buffer(access.buffer);
    let tensor = buffer.constant()?;
    if !bounds.is_empty() || tensor.len() > INLINE_ELEMENTS {
        return None;
    }
    if buffer.layout != Layout::row_major(access.buffer, &buffer.dims) {
        return None;
    }
    let mut flat = 0usize;
    for (index, size) in access.index.iter().zip(&tensor.dims) {
        let at = index.as_usize().filter(|at| at < size)?;
        flat = flat * size + at;
    }
    element_at(tensor, flat)
}

/// The element with this row-major number, widened.
fn element_at(tensor: &Tensor, flat: usize) -> Option<Const> {
    let size = element_bytes(tensor.element).filter(|_| tensor.element.bits() >= 8)?;
    let bytes = tensor.bytes.as_slice().get(flat * size..flat * size + size)?;
    let mut word = [0u8; 8];
    word[..size].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(word);
    let shift = 64 - 8 * size as u32;
    let signed = ((bits << shift) as i64) >> shift;
    let integer = if tensor.element.is_signed() { signed } else { bits as i64 };
    Some(match ScalarType::of(tensor.element)? {
        ScalarType::Bool => Const::Bool(bits != 0),
        ScalarType::I32 => Const::I32(integer as i32),
        ScalarType::I64 => Const::I64(integer),
        ScalarType::U64 => Const::U64(bits),
        ScalarType::F64 => Const::F64(f64::from_bits(bits)),
        ScalarType::F32 => Const::F32(match tensor.element {
            ElementType::F32 => f32::from_bits(bits as u32),
            ElementType::F16 => cast::f16_bits_to_f32(bits as u16),
            ElementType::Bf16 => cast::bf16_bits_to_f32(bits as u16),
            _ => return None,
        }),
    })
}

/// The buffer that a node of an emitted nest reads, if it reads one at run time.
pub(super) fn needed(program: &Program, node: &Scalar) -> Option<BufferId> {
    match node {
        Scalar::Load { access, .. } if inline_constant(program, node).is_none() => Some(access.buffer),
        _ => None,
    }
}

/// Buffers that a kernel reads, and the scratch it fills.
pub(super) fn kernel_reads(program: &Program, kernel: &Kernel) -> (Vec<BufferId>, Vec<BufferId>) {
    let (weights, packed) = match &kernel.kind {
        KernelKind::Contraction { weights, packed, .. } => (Some(*weights), Some(*packed)),
        KernelKind::Window { weights, packed, .. } => (*weights, *packed),
    };
    let constant = packed.is_some_and(|packed| program.buffer(packed).constant().is_some());
    let mut reads = Vec::new();
    for (i, node) in kernel.nest.nodes.iter().enumerate() {
        let replaced = constant && Some(i as u32) == weights;
        reads.extend(needed(program, node).filter(|_| !replaced));
    }
    let mut scratch: Vec<BufferId> = kernel.scratch().into_iter().collect();
    if constant { &mut reads } else { &mut scratch }.extend(packed);
    (reads, scratch)
}

/// Gives every constant its offset; equal constants share one.
pub(super) fn place(program: &Program, plan: &mut Plan) -> Result<(), Diagnostic> {
    let mut known: BTreeMap<(u64, usize), Vec<(BufferId, usize)>> = BTreeMap::new();
    let constants: Vec<BufferId> =
        plan.storages.iter().filter(|(_, p)| p.space == Space::Weights).map(|(id, _)| *id).collect();
    for id in constants {
        let bytes = storage_form(program.buffer(id))?;
        let key = (hash(&bytes), bytes.len());
        let mut same = None;
        for (other, offset) in known.entry(key).or_default().iter() {
            if *storage_form(program.buffer(*other))? == *bytes {
                same = Some(*offset);
                break;
            }
        }
        let offset = match same {
            Some(offset) => {
                plan.shared_constants += 1;
                offset
            }
            None => {
                let offset = plan.weight_bytes;
                plan.weight_bytes += bytes.len().next_multiple_of(ALIGN);
                known.entry(key).or_default().push((id, offset));
                offset
            }
        };
        if let Some(placement) = plan.storages.get_mut(&id) {
            (placement.offset, placement.bytes) = (offset, bytes.len());
        }
    }
    Ok(())
}

/// Of both ends only: equal hashes are compared in whole, and build scripts, which are not optimised, compare much faster.
fn hash(bytes: &[u8]) -> u64 {
    const END: usize = 4096;
    let step = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3).rotate_left(29);
    let (first, last) = (bytes.get(..END).unwrap_or(bytes), bytes.get(bytes.len().saturating_sub(END)..));
    first.iter().chain(last.unwrap_or_default()).fold(0xCBF2_9CE4_8422_2325, step)
}

/// The weights file: header and payload, `None` where there are no weights. The bytes of the constants move there, one after
/// the other, so that memory does not hold all of them twice.
///
/// # Errors
/// Constants of a type that cannot be stored.
pub fn weights_file(program: &mut Program, plan: &Plan) -> Result<Option<Vec<u8>>, Diagnostic> {
    if plan.weight_bytes == 0 {
        return Ok(None);
    }
    let mut file = vec![0u8; HEADER_BYTES + plan.weight_bytes];
    let (header, payload) = file.split_at_mut(HEADER_BYTES);
    for (id, placement) in plan.storages.iter().filter(|(_, p)| p.space == Space::Weights) {
        let bytes = storage_form(program.buffer(*id))?;
        let place = payload.get_mut(placement.offset..placement.offset + bytes.len());
        place.ok_or_else(|| Diagnostic::internal("a constant lies outside the weights"))?.copy_from_slice(&bytes);
        drop(bytes);
        if let Role::Constant(tensor) = &mut program.buffer_mut(*id).role {
            tensor.bytes = Vec::new().into();
        }
    }
    header.copy_from_slice(&blob_header(payload));
    Ok(Some(file))
}

/// The elements as they lie in memory: types below a byte are unpacked.
fn storage_form(buffer: &Buffer) -> Result<Cow<'_, [u8]>, Diagnostic> {
    let Role::Constant(tensor) = &buffer.role else { return Err(Diagnostic::internal("not a constant")) };
    let size = element_bytes(tensor.element)
        .ok_or_else(|| Diagnostic::error(&codes::UNSUPPORTED, "string constants cannot be compiled"))?;
    Ok(match tensor.element.bits() {
        bits if bits < 8 => packed::unpack(tensor.element, tensor.bytes.as_slice(), tensor.len()).into(),
        _ => tensor.bytes.as_slice().get(..tensor.len() * size).unwrap_or_default().into(),
    })
}
