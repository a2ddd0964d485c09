//! Element types below 8 bits: packed in tensors as in `.bin` files, one byte per value everywhere else.

use crate::element::ElementType;
use include_ir_runtime::__private::v1::cast;

/// Whether elements share bytes.
pub fn is_packed(element: ElementType) -> bool {
    (1..8).contains(&element.bits())
}

/// The bits of element `i`, sign-extended for i4; 0 outside. Only for packed types.
pub fn get(element: ElementType, bytes: &[u8], i: usize) -> u8 {
    match element {
        ElementType::U1 => cast::unpack_u1(bytes, i),
        ElementType::U2 => cast::unpack_u2(bytes, i),
        ElementType::U3 => cast::unpack_u3(bytes, i),
        ElementType::U6 => cast::unpack_u6(bytes, i),
        ElementType::I4 => cast::unpack_i4(bytes, i) as u8,
        _ => cast::unpack_u4(bytes, i),
    }
}

/// Sets element `i`: the inverse of [`get`]. `None` if there is no such element.
pub fn put(element: ElementType, bytes: &mut [u8], i: usize, code: u8) -> Option<()> {
    let mut set = |byte: usize, shift: usize, mask: u8, bits: u8| {
        let slot = bytes.get_mut(byte)?;
        *slot = (*slot & !(mask << shift)) | ((bits & mask) << shift);
        Some(())
    };
    match element {
        ElementType::U1 => set(i / 8, 7 - i % 8, 1, code),
        ElementType::U2 => set(i / 4, 2 * (i % 4), 3, code),
        ElementType::U3 => {
            set(i / 8 * 3 + i % 8 / 4, 6 - 2 * (i % 4), 3, code)?;
            set(i / 8 * 3 + 2, 7 - i % 8, 1, code >> 2)
        }
        ElementType::U6 => {
            set(i / 4 * 3 + i % 4 / 2, 4 - 4 * (i % 2), 15, code)?;
            set(i / 4 * 3 + 2, 6 - 2 * (i % 4), 3, code >> 4)
        }
        _ => set(i / 2, 4 * (i % 2), 15, code),
    }
}

/// One byte per value; types of whole bytes unchanged.
pub fn unpack(element: ElementType, bytes: &[u8], count: usize) -> Vec<u8> {
    if is_packed(element) {
        return (0..count).map(|i| get(element, bytes, i)).collect();
    }
    let length = element.storage_bytes(count).unwrap_or(0);
    bytes.get(..length).unwrap_or(bytes).to_vec()
}

/// The inverse of [`unpack`].
pub fn pack(element: ElementType, values: &[u8]) -> Vec<u8> {
    if !is_packed(element) {
        return values.to_vec();
    }
    let mut out = vec![0; element.storage_bytes(values.len()).unwrap_or(0)];
    for (i, code) in values.iter().enumerate() {
        put(element, &mut out, i, *code);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packed_type_survives() {
        for element in ElementType::all().filter(|element| is_packed(*element)) {
            let mask = (1u8 << element.bits()) - 1;
            let signed = |code: u8| if element == ElementType::I4 { ((code << 4) as i8 >> 4) as u8 } else { code };
            let values: Vec<u8> = (0..29u8).map(|i| signed(i.wrapping_mul(37) & mask)).collect();
            let bytes = pack(element, &values);
            assert_eq!(Some(bytes.len()), element.storage_bytes(values.len()), "{element}");
            assert_eq!(unpack(element, &bytes, values.len()), values, "{element}");
        }
    }
}
