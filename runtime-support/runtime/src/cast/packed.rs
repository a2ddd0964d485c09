//! Packed elements below one byte, as OpenVINO IR stores them. Indices outside give 0.

#[inline(always)]
fn byte(bytes: &[u8], i: usize) -> u8 {
    bytes.get(i).copied().unwrap_or(0)
}

/// Nibble `i`, low one first.
#[inline(always)]
fn nibble(bytes: &[u8], i: usize) -> u8 {
    byte(bytes, i / 2) >> (4 * (i % 2)) & 15
}

/// Element `i` of u1: eight per byte, most significant bit first.
#[inline(always)]
#[must_use]
pub fn unpack_u1(bytes: &[u8], i: usize) -> u8 {
    byte(bytes, i / 8) >> (7 - i % 8) & 1
}

/// Element `i` of u2: four per byte, least significant bits first.
#[inline(always)]
#[must_use]
pub fn unpack_u2(bytes: &[u8], i: usize) -> u8 {
    byte(bytes, i / 4) >> (2 * (i % 4)) & 3
}

/// Element `i` of u3: three bytes per eight; two hold the low bits and one the high bit, most significant first.
#[inline(always)]
#[must_use]
pub fn unpack_u3(bytes: &[u8], i: usize) -> u8 {
    let (group, v) = (i / 8 * 3, i % 8);
    let low = byte(bytes, group + v / 4) >> (6 - 2 * (v % 4)) & 3;
    let high = byte(bytes, group + 2) >> (7 - v) & 1;
    low | high << 2
}

/// Element `i` of u4: two per byte, low half first.
#[inline(always)]
#[must_use]
pub fn unpack_u4(bytes: &[u8], i: usize) -> u8 {
    nibble(bytes, i)
}

/// Element `i` of i4: two per byte, low half first, two's complement.
#[inline(always)]
#[must_use]
pub fn unpack_i4(bytes: &[u8], i: usize) -> i8 {
    ((nibble(bytes, i) << 4) as i8) >> 4
}

/// Element `i` of u6: three bytes per four; two hold the low halves (high half of the byte first), one the upper bits.
#[inline(always)]
#[must_use]
pub fn unpack_u6(bytes: &[u8], i: usize) -> u8 {
    let (group, v) = (i / 4 * 3, i % 4);
    let low = byte(bytes, group + v / 2) >> (4 - 4 * (v % 2)) & 15;
    let high = byte(bytes, group + 2) >> (6 - 2 * v) & 3;
    low | high << 4
}

/// Element `i` of nf4: two per byte, low half first.
#[inline(always)]
#[must_use]
pub fn unpack_nf4(bytes: &[u8], i: usize) -> f32 {
    if i / 2 < bytes.len() { super::nf4_bits_to_f32(nibble(bytes, i)) } else { 0.0 }
}

/// Element `i` of f4e2m1: two per byte, low half first.
#[inline(always)]
#[must_use]
pub fn unpack_f4e2m1(bytes: &[u8], i: usize) -> f32 {
    super::f4e2m1_bits_to_f32(nibble(bytes, i))
}
