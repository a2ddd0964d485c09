//! Elements in storage: strided copies, and conversion between bytes and lanes.

use super::lanes::Lanes;
use crate::element::ElementType;
use crate::tensor::packed::{self, is_packed};
use include_ir_runtime::__private::v1::cast;

/// Row-major copy of a strided tensor.
pub fn gather(
    storage: &[u8],
    element: ElementType,
    dims: &[usize],
    strides: Vec<i64>,
    offset: i64,
) -> Result<Vec<u8>, String> {
    let count: usize = dims.iter().product();
    if element == ElementType::String {
        return Ok(storage.to_vec()); // strings are never laid out otherwise
    }
    if is_packed(element) {
        let mut codes = Vec::with_capacity(count);
        runs(dims, &strides, offset, |_, start, stride, length| {
            for i in 0..length {
                let at = usize::try_from(start + i as i64 * stride).map_err(|_| "a negative element index")?;
                codes.push(packed::get(element, storage, at));
            }
            Ok(())
        })?;
        return Ok(packed::pack(element, &codes));
    }
    let size = element.bits() as usize / 8;
    if is_row_major(dims, &strides) {
        let first = byte_range(offset, size)?.start;
        let length = count.checked_mul(size).ok_or("a tensor does not fit memory")?;
        let whole = storage.get(first..first.saturating_add(length));
        return Ok(whole.ok_or("an element lies outside its storage")?.to_vec());
    }
    let mut out = vec![0; count.checked_mul(size).ok_or("a tensor does not fit memory")?];
    runs(dims, &strides, offset, |row, start, stride, length| {
        for i in 0..length {
            let from = byte_range(start + i as i64 * stride, size)?;
            let source = storage.get(from).ok_or("an element lies outside its storage")?;
            let to = (row * length + i) * size;
            out.get_mut(to..to + size).ok_or("an element lies outside its tensor")?.copy_from_slice(source);
        }
        Ok(())
    })?;
    Ok(out)
}

/// Whether elements follow each other as they do in a tensor.
fn is_row_major(dims: &[usize], strides: &[i64]) -> bool {
    let mut step = 1i64;
    dims.iter().zip(strides).rev().all(|(dim, stride)| {
        let follows = *dim == 1 || *stride == step;
        step = step.saturating_mul(*dim as i64);
        follows
    })
}

/// Row-major elements into a strided tensor.
pub fn scatter(
    storage: &mut [u8],
    element: ElementType,
    dims: &[usize],
    strides: Vec<i64>,
    offset: i64,
    from: &[u8],
) -> Result<(), String> {
    if element == ElementType::String {
        return Err("a tensor of strings is written".to_owned());
    }
    if is_packed(element) {
        return runs(dims, &strides, offset, |row, start, stride, length| {
            for i in 0..length {
                let at = usize::try_from(start + i as i64 * stride).map_err(|_| "a negative element index")?;
                let code = packed::get(element, from, row * length + i);
                packed::put(element, storage, at, code).ok_or("an element lies outside its storage")?;
            }
            Ok(())
        });
    }
    let size = element.bits() as usize / 8;
    runs(dims, &strides, offset, |row, start, stride, length| {
        for i in 0..length {
            let at = (row * length + i) * size;
            let source = from.get(at..at + size).ok_or("a tensor is too short")?;
            let to = byte_range(start + i as i64 * stride, size)?;
            storage.get_mut(to).ok_or("an element lies outside its storage")?.copy_from_slice(source);
        }
        Ok(())
    })
}

/// Calls `visit(row, start, stride, length)` for every run along the last dimension.
fn runs(
    dims: &[usize],
    strides: &[i64],
    offset: i64,
    mut visit: impl FnMut(usize, i64, i64, usize) -> Result<(), String>,
) -> Result<(), String> {
    let (length, outer) = dims.split_last().map_or((1, dims), |(last, outer)| (*last, outer));
    let stride = strides.last().copied().unwrap_or(0);
    for row in 0..outer.iter().product() {
        let (mut rest, mut start) = (row, offset);
        for (dim, stride) in outer.iter().zip(strides).rev() {
            start += (rest % dim) as i64 * stride;
            rest /= dim;
        }
        visit(row, start, stride, length)?;
    }
    Ok(())
}

fn byte_range(index: i64, size: usize) -> Result<std::ops::Range<usize>, String> {
    let start = usize::try_from(index).ok().and_then(|i| i.checked_mul(size)).ok_or("a negative element index")?;
    Ok(start..start + size)
}

/// Loads `lanes.len()` elements, the first at `start`, `stride` elements apart, into the given part of `lanes`.
pub fn load(
    storage: &[u8],
    element: ElementType,
    start: i64,
    stride: i64,
    lanes: &mut Lanes,
    part: std::ops::Range<usize>,
) -> Result<(), String> {
    use ElementType::*;
    macro_rules! wide {
        ($lanes:ident, $size:literal, $read:expr) => {{
            let out = $lanes.get_mut(part).ok_or("a block is too short")?;
            load_wide::<_, $size>(storage, start, stride, out, $read)
        }};
    }
    match (lanes, element) {
        (Lanes::F32(v), F32) => wide!(v, 4, f32::from_le_bytes),
        (Lanes::F32(v), F16) => wide!(v, 2, |b| cast::f16_bits_to_f32(u16::from_le_bytes(b))),
        (Lanes::F32(v), Bf16) => wide!(v, 2, |b| cast::bf16_bits_to_f32(u16::from_le_bytes(b))),
        (Lanes::F32(v), F8e4m3) => wide!(v, 1, |[b]| cast::f8e4m3_bits_to_f32(b)),
        (Lanes::F32(v), F8e5m2) => wide!(v, 1, |[b]| cast::f8e5m2_bits_to_f32(b)),
        (Lanes::F32(v), F8e8m0) => wide!(v, 1, |[b]| cast::f8e8m0_bits_to_f32(b)),
        (Lanes::F64(v), F64) => wide!(v, 8, f64::from_le_bytes),
        (Lanes::I32(v), I8) => wide!(v, 1, |b| i32::from(i8::from_le_bytes(b))),
        (Lanes::I32(v), U8) => wide!(v, 1, |[b]| i32::from(b)),
        (Lanes::I32(v), I16) => wide!(v, 2, |b| i32::from(i16::from_le_bytes(b))),
        (Lanes::I32(v), U16) => wide!(v, 2, |b| i32::from(u16::from_le_bytes(b))),
        (Lanes::I32(v), I32) => wide!(v, 4, i32::from_le_bytes),
        (Lanes::I64(v), U32) => wide!(v, 4, |b| i64::from(u32::from_le_bytes(b))),
        (Lanes::I64(v), I64) => wide!(v, 8, i64::from_le_bytes),
        (Lanes::U64(v), U64) => wide!(v, 8, u64::from_le_bytes),
        (Lanes::Bool(v), Boolean) => wide!(v, 1, |[b]| b != 0),
        (lanes, element) => load_packed(storage, element, start, stride, lanes, part),
    }
}

fn load_wide<T, const SIZE: usize>(
    storage: &[u8],
    start: i64,
    stride: i64,
    out: &mut [T],
    read: impl Fn([u8; SIZE]) -> T,
) -> Result<(), String> {
    const OUTSIDE: &str = "an element lies outside its storage";
    if stride == 1 {
        let from = byte_range(start, SIZE)?.start;
        let run = storage.get(from..).and_then(|s| s.get(..out.len() * SIZE)).ok_or(OUTSIDE)?;
        let (chunks, _) = run.as_chunks::<SIZE>();
        for (out, bytes) in out.iter_mut().zip(chunks) {
            *out = read(*bytes);
        }
        return Ok(());
    }
    let (chunks, _) = storage.as_chunks::<SIZE>();
    let mut at = start;
    for out in out {
        let index = usize::try_from(at).map_err(|_| OUTSIDE)?;
        *out = read(*chunks.get(index).ok_or(OUTSIDE)?);
        at += stride;
    }
    Ok(())
}

/// Element types below eight bits.
fn load_packed(
    storage: &[u8],
    element: ElementType,
    start: i64,
    stride: i64,
    lanes: &mut Lanes,
    part: std::ops::Range<usize>,
) -> Result<(), String> {
    use ElementType::*;
    let mut at = start;
    for lane in part {
        let i = usize::try_from(at).map_err(|_| "an element lies outside its storage")?;
        let code = packed::get(element, storage, i);
        match (&mut *lanes, element) {
            (Lanes::I32(v), I4) => v[lane] = i32::from(code as i8),
            (Lanes::I32(v), U1 | U2 | U3 | U4 | U6) => v[lane] = i32::from(code),
            (Lanes::F32(v), Nf4) => v[lane] = cast::nf4_bits_to_f32(code),
            (Lanes::F32(v), F4e2m1) => v[lane] = cast::f4e2m1_bits_to_f32(code),
            (_, element) => return Err(format!("elements of type {element} cannot be loaded into this block")),
        }
        at += stride;
    }
    Ok(())
}

/// Stores lanes as elements, the first at `start`, `stride` elements apart. The lanes hold values of `element`.
pub fn store(
    storage: &mut [u8],
    element: ElementType,
    start: i64,
    stride: i64,
    lanes: &Lanes,
    count: usize,
) -> Result<(), String> {
    use ElementType::*;
    macro_rules! wide {
        ($lanes:ident, $size:literal, $write:expr) => {
            store_wide::<_, $size>(storage, start, stride, $lanes.get(..count).ok_or("a block is too short")?, $write)
        };
    }
    match (lanes, element) {
        (Lanes::F32(v), F32) => wide!(v, 4, |x: f32| x.to_le_bytes()),
        (Lanes::F32(v), F16) => wide!(v, 2, |x| cast::f32_to_f16_bits(x).to_le_bytes()),
        (Lanes::F32(v), Bf16) => wide!(v, 2, |x| cast::f32_to_bf16_bits(x).to_le_bytes()),
        (Lanes::F32(v), F8e4m3) => wide!(v, 1, |x| [cast::f32_to_f8e4m3_bits(x)]),
        (Lanes::F32(v), F8e5m2) => wide!(v, 1, |x| [cast::f32_to_f8e5m2_bits(x)]),
        (Lanes::F32(v), F8e8m0) => wide!(v, 1, |x| [cast::f32_to_f8e8m0_bits(x)]),
        (Lanes::F64(v), F64) => wide!(v, 8, |x: f64| x.to_le_bytes()),
        (Lanes::I32(v), I8 | U8) => wide!(v, 1, |x: i32| [x as u8]),
        (Lanes::I32(v), I16 | U16) => wide!(v, 2, |x: i32| (x as u16).to_le_bytes()),
        (Lanes::I32(v), I32) => wide!(v, 4, |x: i32| x.to_le_bytes()),
        (Lanes::I64(v), U32) => wide!(v, 4, |x: i64| (x as u32).to_le_bytes()),
        (Lanes::I64(v), I64) => wide!(v, 8, |x: i64| x.to_le_bytes()),
        (Lanes::U64(v), U64) => wide!(v, 8, |x: u64| x.to_le_bytes()),
        (Lanes::Bool(v), Boolean) => wide!(v, 1, |x: bool| [u8::from(x)]),
        (_, element) if is_packed(element) => store_packed(storage, element, start, stride, lanes, count),
        (_, element) => Err(format!("a block of another type is stored as {element}")),
    }
}

fn store_wide<T: Copy, const SIZE: usize>(
    storage: &mut [u8],
    start: i64,
    stride: i64,
    values: &[T],
    write: impl Fn(T) -> [u8; SIZE],
) -> Result<(), String> {
    let (chunks, _) = storage.as_chunks_mut::<SIZE>();
    let mut at = start;
    for value in values {
        let index = usize::try_from(at).map_err(|_| "a negative element index")?;
        *chunks.get_mut(index).ok_or("an element lies outside its storage")? = write(*value);
        at += stride;
    }
    Ok(())
}

/// Writes the low bits of each lane into the layout of the packed type.
fn store_packed(
    storage: &mut [u8],
    element: ElementType,
    start: i64,
    stride: i64,
    lanes: &Lanes,
    count: usize,
) -> Result<(), String> {
    let mut at = start;
    for lane in 0..count {
        let code = match lanes {
            Lanes::I32(v) => v.get(lane).map(|x| *x as u8),
            Lanes::F32(v) if element == ElementType::Nf4 => v.get(lane).map(|x| cast::f32_to_nf4_bits(*x)),
            Lanes::F32(v) => v.get(lane).map(|x| cast::f32_to_f4e2m1_bits(*x)),
            _ => None,
        };
        let index = usize::try_from(at).map_err(|_| "a negative element index")?;
        let code = code.ok_or("a block of another type is stored as a packed type")?;
        packed::put(element, storage, index, code).ok_or("an element lies outside its storage")?;
        at += stride;
    }
    Ok(())
}
