//! Element types below 8 bits: one byte per value in arrays, packed in tensors.

use crate::element::ElementType;
use include_ir_runtime::__private::v1::cast;

/// Reads the bits of value `i`, sign-extended for signed integers.
type Unpack = fn(&[u8], usize) -> u8;

fn unpacker(element: ElementType) -> Option<Unpack> {
    use ElementType::*;
    Some(match element {
        U1 => cast::unpack_u1,
        U2 => cast::unpack_u2,
        U3 => cast::unpack_u3,
        U4 | Nf4 | F4e2m1 => cast::unpack_u4,
        I4 => |bytes, i| cast::unpack_i4(bytes, i) as u8,
        U6 => cast::unpack_u6,
        _ => return None,
    })
}

/// Values and bytes of the smallest group of whole bytes.
fn group(element: ElementType) -> (usize, usize) {
    match element {
        ElementType::U3 => (8, 3),
        ElementType::U6 => (4, 3),
        _ => ((8 / element.bits().max(1) as usize).max(1), 1),
    }
}

/// One byte per value; types of whole bytes unchanged.
pub fn unpack(element: ElementType, bytes: &[u8], count: usize) -> Vec<u8> {
    match unpacker(element) {
        Some(value) => (0..count).map(|i| value(bytes, i)).collect(),
        None => {
            let length = element.storage_bytes(count).unwrap_or(0);
            bytes.get(..length).unwrap_or(bytes).to_vec()
        }
    }
}

/// The inverse of [`unpack`]. Where a bit belongs is asked of the unpacking function, so that there is one definition.
pub fn pack(element: ElementType, values: &[u8]) -> Vec<u8> {
    let Some(value) = unpacker(element) else { return values.to_vec() };
    let (per_group, group_bytes) = group(element);
    let mask = ((1u32 << element.bits()) - 1) as u8;
    let mut places = Vec::new();
    for bit in 0..group_bytes * 8 {
        let mut probe = vec![0u8; group_bytes];
        if let Some(byte) = probe.get_mut(bit / 8) {
            *byte = 1 << (bit % 8);
        }
        let hit = (0..per_group).map(|i| (i, value(&probe, i) & mask)).find(|(_, bits)| *bits != 0);
        places.extend(hit.map(|(i, bits)| (bit, i, bits)));
    }
    let mut out = Vec::with_capacity(values.len().div_ceil(per_group) * group_bytes);
    for chunk in values.chunks(per_group) {
        let mut packed = [0u8; 3];
        for (bit, i, bits) in &places {
            if chunk.get(*i).is_some_and(|v| v & bits != 0)
                && let Some(byte) = packed.get_mut(bit / 8)
            {
                *byte |= 1 << (bit % 8);
            }
        }
        out.extend(packed.iter().take(group_bytes));
    }
    out
}
