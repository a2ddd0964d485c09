//! Constant tensors: an element type, dimensions, and little-endian bytes that may lie in a mapped file.

pub mod packed;

use crate::element::ElementType;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A cheap-to-clone slice of immutable bytes with any owner: a mapped weights file or a vector.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Bytes {
    /// All bytes of `owner`.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Bytes { owner, range }
    }

    /// A part of these bytes; `None` where it does not lie inside.
    pub fn slice(&self, offset: usize, length: usize) -> Option<Bytes> {
        let start = self.range.start.checked_add(offset)?;
        let end = start.checked_add(length)?;
        (end <= self.range.end).then(|| Bytes { owner: Arc::clone(&self.owner), range: start..end })
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        (*self.owner).as_ref().get(self.range.clone()).unwrap_or(&[])
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::new(Arc::new(bytes))
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        let same = Arc::ptr_eq(&self.owner, &other.owner) && self.range == other.range;
        same || self.as_slice() == other.as_slice()
    }
}

/// A constant tensor in row-major order, in the storage form of the IR (sub-byte types packed).
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub element: ElementType,
    /// Dimensions; none for a scalar.
    pub dims: Vec<usize>,
    /// Little-endian elements.
    pub bytes: Bytes,
}

impl Tensor {
    /// A tensor over `bytes`; `None` where these are too few.
    pub fn new(element: ElementType, dims: Vec<usize>, bytes: Bytes) -> Option<Self> {
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
        let enough = element == ElementType::String || element.storage_bytes(count)? <= bytes.as_slice().len();
        enough.then_some(Tensor { element, dims, bytes })
    }

    /// An i64 vector.
    pub fn from_i64s(values: &[i64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor { element: ElementType::I64, dims: vec![values.len()], bytes: bytes.into() }
    }

    /// A tensor of i32 or i64 elements; `None` for other types or values that do not fit.
    pub fn from_integers(element: ElementType, dims: Vec<usize>, values: &[i64]) -> Option<Self> {
        let bytes: Vec<u8> = match element {
            ElementType::I64 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            ElementType::I32 => {
                let narrow: Vec<i32> = values.iter().map(|v| i32::try_from(*v).ok()).collect::<Option<_>>()?;
                narrow.iter().flat_map(|v| v.to_le_bytes()).collect()
            }
            ElementType::Boolean => values.iter().map(|v| u8::from(*v != 0)).collect(),
            _ => return None,
        };
        Tensor::new(element, dims, bytes.into())
    }

    /// An f32 tensor.
    pub fn from_f32s(dims: Vec<usize>, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Tensor { element: ElementType::F32, dims, bytes: bytes.into() }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements as integers, where the type is an integer type (or boolean) and each value fits.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        use ElementType::*;
        let bytes = self.bytes.as_slice();
        let wide = |size: usize, read: fn(&[u8]) -> Option<i64>| -> Option<Vec<i64>> {
            bytes.chunks_exact(size).take(self.len()).map(read).collect()
        };
        match self.element {
            Boolean | U8 => wide(1, |b| Some(i64::from(*b.first()?))),
            I8 => wide(1, |b| Some(i64::from(i8::from_le_bytes(b.try_into().ok()?)))),
            I16 => wide(2, |b| Some(i64::from(i16::from_le_bytes(b.try_into().ok()?)))),
            U16 => wide(2, |b| Some(i64::from(u16::from_le_bytes(b.try_into().ok()?)))),
            I32 => wide(4, |b| Some(i64::from(i32::from_le_bytes(b.try_into().ok()?)))),
            U32 => wide(4, |b| Some(i64::from(u32::from_le_bytes(b.try_into().ok()?)))),
            I64 => wide(8, |b| Some(i64::from_le_bytes(b.try_into().ok()?))),
            U64 => wide(8, |b| i64::try_from(u64::from_le_bytes(b.try_into().ok()?)).ok()),
            I4 => Some((0..self.len()).map(|i| i64::from(packed::get(I4, bytes, i) as i8)).collect()),
            U1 | U2 | U3 | U4 | U6 => {
                Some((0..self.len()).map(|i| i64::from(packed::get(self.element, bytes, i))).collect())
            }
            _ => None,
        }
    }

    /// All elements as f64, where the type is a numeric type of 8 to 64 bits with a standard form.
    pub fn to_f64s(&self) -> Option<Vec<f64>> {
        use ElementType::*;
        use include_ir_runtime::__private::v1::cast;
        let bytes = self.bytes.as_slice();
        let wide = |size: usize, read: fn(&[u8]) -> Option<f64>| -> Option<Vec<f64>> {
            bytes.chunks_exact(size).take(self.len()).map(read).collect()
        };
        let narrow = |bits: [u8; 2], convert: fn(u16) -> f32| f64::from(convert(u16::from_le_bytes(bits)));
        match self.element {
            F64 => wide(8, |b| Some(f64::from_le_bytes(b.try_into().ok()?))),
            F32 => wide(4, |b| Some(f64::from(f32::from_le_bytes(b.try_into().ok()?)))),
            F16 | Bf16 => {
                let convert = if self.element == F16 { cast::f16_bits_to_f32 } else { cast::bf16_bits_to_f32 };
                let pairs = bytes.chunks_exact(2).take(self.len());
                pairs.map(|b| Some(narrow(b.try_into().ok()?, convert))).collect()
            }
            _ => Some(self.to_i64s()?.into_iter().map(|value| value as f64).collect()),
        }
    }
}
