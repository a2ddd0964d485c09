//! Tensors in the files through which cases are passed: rank, dimensions (u64 each), one value after the other.

use crate::cli::npz::{self, Array};
use crate::element::ElementType;
use crate::tensor::Tensor;

/// Appends a tensor; types below 8 bits take one byte per value, as in generated code.
pub fn write(out: &mut Vec<u8>, tensor: &Tensor) {
    let Some(array) = Array::from_tensor(tensor) else { return };
    out.extend_from_slice(&(array.dims.len() as u64).to_le_bytes());
    array.dims.iter().for_each(|dim| out.extend_from_slice(&(*dim as u64).to_le_bytes()));
    out.extend_from_slice(&array.bytes);
}

/// Reads tensors one after the other.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next tensor; `None` at the end.
    pub fn array(&mut self, element: ElementType) -> Option<Array> {
        let kind = npz::kind(element)?;
        let size: usize = kind.get(1..)?.parse().ok()?;
        let rank = self.number()?;
        let dims: Vec<usize> = (0..rank.min(64)).map(|_| self.number()).collect::<Option<_>>()?;
        let bytes = dims.iter().try_fold(size, |n, d| n.checked_mul(*d))?;
        Some(Array { kind: kind.to_owned(), dims, bytes: self.take(bytes)?.to_vec() })
    }

    fn number(&mut self) -> Option<usize> {
        let bytes = self.take(8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(head)
    }
}
