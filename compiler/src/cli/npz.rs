//! Reads and writes `.npz` files, and translates between numpy's arrays and tensors.
//!
//! A tensor has numpy's type of the same name (f16 float16, boolean bool). bf16 and 8-bit floats are their bits as uint16
//! and uint8; types below 8 bits take one int8 or uint8 per value.

use crate::element::ElementType;
use crate::tensor::{Tensor, packed};
use npyz::{DType, NpyHeader, Order, TypeChar, TypeStr, WriteOptions, WriterBuilder};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::path::Path;

/// An array: numpy type like `<f4` or `|b1`, dimensions, elements in row-major order, little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type string without its byte order: `f4`, `i8`, `u1`, `b1`, ...
    pub kind: String,
    /// Dimensions.
    pub dims: Vec<usize>,
    /// Elements.
    pub bytes: Vec<u8>,
}

/// Arrays by name.
pub type Arrays = BTreeMap<String, Array>;

/// Reads all arrays of a file.
///
/// # Errors
/// One line that names the file.
pub fn read(path: &Path) -> Result<Arrays, String> {
    let failure = |problem: String| format!("cannot read `{}`: {problem}", path.display());
    let file = File::open(path).map_err(|error| failure(error.to_string()))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| failure(error.to_string()))?;
    let mut arrays = Arrays::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| failure(error.to_string()))?;
        let name = entry.name().map_err(|error| failure(error.to_string()))?.trim_end_matches(".npy").to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|error| failure(error.to_string()))?;
        let array = parse(&bytes).map_err(|problem| failure(format!("array `{name}`: {problem}")))?;
        arrays.insert(name, array);
    }
    Ok(arrays)
}

fn parse(file: &[u8]) -> Result<Array, String> {
    let mut reader = Cursor::new(file);
    let header = NpyHeader::from_reader(&mut reader).map_err(|error| error.to_string())?;
    let DType::Plain(ty) = header.dtype() else { return Err("structured arrays are not tensors".into()) };
    let kind = format!("{}{}", ty.type_char().to_str(), ty.size_field());
    let size = match ty.type_char() {
        TypeChar::Bool | TypeChar::Int | TypeChar::Uint | TypeChar::Float => ty.num_bytes().unwrap_or(0),
        _ => return Err(format!("numpy type `{ty}` is not supported")),
    };
    let dims: Vec<usize> = header.shape().iter().map(|d| *d as usize).collect();
    let count = dims.iter().try_fold(size, |n, d| n.checked_mul(*d)).ok_or("the shape overflows")?;
    let start = reader.position() as usize;
    let data = file.get(start..).and_then(|rest| rest.get(..count)).ok_or("the file is too short")?;
    let mut bytes = data.to_vec();
    if ty.to_string().starts_with('>') {
        bytes.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse);
    }
    if header.order() == Order::Fortran && dims.len() > 1 {
        bytes = row_major(&bytes, &dims, size);
    }
    Ok(Array { kind, dims, bytes })
}

/// Reorders elements of which the first index runs fastest.
fn row_major(bytes: &[u8], dims: &[usize], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0; dims.len()];
    for _ in 0..bytes.len() / size.max(1) {
        let (at, _) = index.iter().zip(dims).fold((0, 1), |(at, stride), (i, d)| (at + i * stride, stride * d));
        out.extend_from_slice(bytes.get(at * size..(at + 1) * size).unwrap_or(&[]));
        for (i, d) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *d {
                break;
            }
            *i = 0;
        }
    }
    out
}

/// Writes arrays to a file.
///
/// # Errors
/// One line that names the file.
pub fn write(path: &Path, arrays: &[(String, Array)]) -> Result<(), String> {
    let bytes = encode(arrays).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
    crate::artifact::replace(path, &bytes, None).map(|_| ()).map_err(|error| error.message)
}

fn encode(arrays: &[(String, Array)]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for (name, array) in arrays {
        archive.start_file(format!("{name}.npy"), options)?;
        let order = if array.kind.ends_with('1') { '|' } else { '<' };
        let ty: TypeStr = format!("{order}{}", array.kind).parse()?;
        let dims: Vec<u64> = array.dims.iter().map(|d| *d as u64).collect();
        let header = Vec::new();
        let builder = WriteOptions::new_header_only().dtype(DType::Plain(ty)).shape(&dims).writer(header);
        archive.write_all(&builder.write_header_only()?)?;
        archive.write_all(&array.bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Numpy's type for the elements of a tensor.
pub fn kind(element: ElementType) -> Option<&'static str> {
    use ElementType::*;
    Some(match element {
        Boolean => "b1",
        F16 => "f2",
        F32 => "f4",
        F64 => "f8",
        I4 | I8 => "i1",
        I16 => "i2",
        I32 => "i4",
        I64 => "i8",
        U1 | U2 | U3 | U4 | U6 | U8 | Nf4 | F4e2m1 | F8e4m3 | F8e5m2 | F8e8m0 => "u1",
        Bf16 | U16 => "u2",
        U32 => "u4",
        U64 => "u8",
        String => return None,
    })
}

impl Array {
    /// The array that holds a tensor's elements; `None` for strings.
    pub fn from_tensor(tensor: &Tensor) -> Option<Array> {
        let bytes = packed::unpack(tensor.element, tensor.bytes.as_slice(), tensor.len());
        Some(Array { kind: kind(tensor.element)?.to_owned(), dims: tensor.dims.clone(), bytes })
    }

    /// The elements as a tensor of this type.
    ///
    /// # Errors
    /// The numpy type is not the one that stands for `element`.
    pub fn to_tensor(&self, element: ElementType) -> Result<Tensor, String> {
        if kind(element) != Some(self.kind.as_str()) {
            let wanted = kind(element).unwrap_or("no array");
            return Err(format!("numpy type `{}` where {element} needs `{wanted}`", self.kind));
        }
        let bytes = packed::pack(element, &self.bytes);
        Tensor::new(element, self.dims.clone(), bytes.into()).ok_or_else(|| "the array is too short".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_round_trip() {
        let path = std::env::temp_dir().join(format!("include-ir-npz-{}.npz", std::process::id()));
        let arrays = vec![
            ("in0".to_owned(), Array { kind: "f4".into(), dims: vec![2, 1], bytes: vec![0, 0, 128, 63, 1, 2, 3, 4] }),
            ("in1".to_owned(), Array { kind: "b1".into(), dims: vec![], bytes: vec![1] }),
        ];
        write(&path, &arrays).unwrap();
        assert_eq!(read(&path).unwrap().into_iter().collect::<Vec<_>>(), arrays);
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path).unwrap_err().contains("npz"));
    }

    #[test]
    fn fortran_order_becomes_row_major() {
        assert_eq!(row_major(&[1, 4, 2, 5, 3, 6], &[2, 3], 1), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn every_element_type_survives() {
        for element in ElementType::all() {
            let Some(kind) = kind(element) else { continue };
            let size: usize = kind[1..].parse().unwrap();
            let mask = if element.bits() < 8 { (1u8 << element.bits()) - 1 } else { 255 };
            let bytes: Vec<u8> = (0..11 * size as u8)
                .map(|i| match element {
                    ElementType::Boolean => i & 1,
                    ElementType::I4 => (((i & 15) << 4) as i8 >> 4) as u8,
                    _ => i.wrapping_mul(37) & mask,
                })
                .collect();
            let array = Array { kind: kind.to_owned(), dims: vec![11], bytes };
            let tensor = array.to_tensor(element).unwrap();
            assert_eq!(Some(tensor.bytes.as_slice().len()), element.storage_bytes(11), "{element}");
            assert_eq!(Array::from_tensor(&tensor).unwrap(), array, "{element}");
        }
    }
}
