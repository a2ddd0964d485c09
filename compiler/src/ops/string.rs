//! Strings as bytes with the places where they begin and end: StringTensorUnpack, StringTensorPack.
//!
//! A string tensor is stored as in the weights file: the number of strings, the end of each one counted from the first
//! (with a leading 0), all as little-endian i32, then the bytes. Strings that are known only at run time have no place in
//! memory that is planned ahead, so both operations work on constants.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, shape_error};
use crate::op::{InferContext, Op, OpDef, Support};
use crate::program::builder::Builder;
use crate::read::Attributes;
use crate::tensor::Tensor;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("StringTensorPack", 3..=3, |_| 1, |_| Ok(Rc::new(Pack))),
    row("StringTensorUnpack", 1..=1, |_| 3, |_| Ok(Rc::new(Unpack))),
];

const fn row(
    name: &'static str,
    inputs: std::ops::RangeInclusive<usize>,
    outputs: fn(&crate::read::Layer) -> usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name,
        version: 15,
        opsets: 15..=17,
        inputs,
        outputs,
        parse,
        ignorable: &[],
        support: Support::Partial("constant strings only: memory is planned before the model runs"),
    }
}

fn at_run_time() -> Diagnostic {
    Diagnostic::error(&codes::UNSUPPORTED, "strings must be constants")
        .note("their length is known only at run time, and memory is planned when the model is compiled")
        .help("convert text to numbers before the model runs, or fix the input: --value INPUT=NUMBER,..")
}

/// The operations fold while facts are inferred: nothing is left to lower.
fn nothing_to_lower(_: &mut Builder) -> Result<(), Diagnostic> {
    Err(at_run_time())
}

/// Where each string begins and ends (i32, dimensions of the strings), and all bytes (u8).
#[derive(Debug)]
struct Unpack;

impl Op for Unpack {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let strings = operand(inputs, 0)?;
        if strings.element != ElementType::String {
            let message = format!("the operand of StringTensorUnpack has element type {}, not string", strings.element);
            return Err(Diagnostic::error(&codes::TYPE, message));
        }
        let tensor = strings.as_constant().ok_or_else(at_run_time)?;
        let malformed = || Diagnostic::internal("a string constant is not of its form");
        let (ends, symbols) = stored(tensor).ok_or_else(malformed)?;
        let begins: Vec<i32> = [0].iter().chain(&ends).take(ends.len()).copied().collect();
        let places = |list: &[i32]| {
            let bytes: Vec<u8> = list.iter().flat_map(|place| place.to_le_bytes()).collect();
            Tensor::new(ElementType::I32, tensor.dims.clone(), bytes.into()).ok_or_else(malformed)
        };
        let symbols = Tensor::new(ElementType::U8, vec![symbols.len()], symbols.to_vec().into());
        Ok([places(&begins)?, places(&ends)?, symbols.ok_or_else(malformed)?].map(Fact::constant).to_vec())
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        nothing_to_lower(builder)
    }
}

/// Ends and bytes of a stored string tensor.
fn stored(tensor: &Tensor) -> Option<(Vec<i32>, &[u8])> {
    let count = tensor.len();
    let bytes = tensor.bytes.as_slice();
    if count == 0 {
        return Some((Vec::new(), &[]));
    }
    let (header, symbols) = bytes.split_at_checked(count.checked_add(2)?.checked_mul(4)?)?;
    let (numbers, _) = header.as_chunks::<4>();
    let ends: Vec<i32> = numbers.iter().skip(2).map(|bytes| i32::from_le_bytes(*bytes)).collect();
    let last = usize::try_from(ends.last().copied()?).ok()?;
    Some((ends, symbols.get(..last)?))
}

/// Strings from where each begins and ends (integers of one shape) and all bytes (u8).
#[derive(Debug)]
struct Pack;

impl Op for Pack {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (begins, ends, symbols) = (operand(inputs, 0)?, operand(inputs, 1)?, operand(inputs, 2)?);
        if symbols.element != ElementType::U8 || symbols.rank() != 1 {
            return Err(Diagnostic::error(&codes::TYPE, "the bytes of strings must be a vector of u8"));
        }
        let same = begins.rank() == ends.rank()
            && begins.dims.iter().zip(&ends.dims).all(|(a, b): (&Dim, &Dim)| context.require_equal(a, b));
        if !same {
            return Err(shape_error("the beginnings and ends of strings have different shapes"));
        }
        let symbols = symbols.as_constant().ok_or_else(at_run_time)?;
        let (begins, ends) = (begins.as_i64s().ok_or_else(at_run_time)?, ends.as_i64s().ok_or_else(at_run_time)?);
        let dims = operand(inputs, 0)?.static_dims().ok_or_else(at_run_time)?;
        let bytes = packed(&begins, &ends, symbols.bytes.as_slice()).ok_or_else(|| {
            Diagnostic::error(&codes::VALUE, "a string begins or ends outside of the bytes of the strings")
        })?;
        let tensor = Tensor::new(ElementType::String, dims, bytes.into());
        Ok(vec![Fact::constant(tensor.ok_or_else(|| Diagnostic::internal("strings do not fit their dimensions"))?)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        nothing_to_lower(builder)
    }
}

/// The stored form of strings; `None` where one lies outside of `symbols`.
fn packed(begins: &[i64], ends: &[i64], symbols: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut header: Vec<i32> = vec![i32::try_from(begins.len()).ok()?, 0];
    for (begin, end) in begins.iter().zip(ends) {
        text.extend_from_slice(symbols.get(usize::try_from(*begin).ok()?..usize::try_from(*end).ok()?)?);
        header.push(i32::try_from(text.len()).ok()?);
    }
    let mut bytes: Vec<u8> = header.iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.append(&mut text);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_and_unpacking_are_inverse() {
        let bytes = packed(&[0, 3, 1], &[3, 3, 2], b"abcd").unwrap();
        let tensor = Tensor::new(ElementType::String, vec![3], bytes.into()).unwrap();
        assert_eq!(stored(&tensor), Some((vec![3, 3, 4], &b"abcb"[..])));
        assert_eq!(packed(&[2], &[9], b"abcd"), None);
        assert_eq!(packed(&[3], &[2], b"abcd"), None);
    }
}
