//! Rows of the operation tables and the lookup of a layer's type and opset.

use super::Op;
use crate::diag::{Diagnostic, codes, quote};
use crate::ops::FAMILIES;
use crate::read::{Attributes, Layer};
use std::ops::RangeInclusive;
use std::rc::Rc;

/// How well an operation version is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Everything the specification allows.
    Full,
    /// With the exceptions that the text names.
    Partial(&'static str),
}

/// One row: a version of an operation. The only thing a family exports.
pub struct OpDef {
    /// Type as the IR spells it (after `Const` became `Constant`, `ReLU` `Relu`, `PReLU` `PRelu`, `SoftMax` `Softmax`).
    pub name: &'static str,
    /// Version of the operation: the opset in which it appeared.
    pub version: u8,
    /// Opsets whose table holds this version.
    pub opsets: RangeInclusive<u8>,
    /// Number of operands.
    pub inputs: RangeInclusive<usize>,
    /// Number of results.
    pub outputs: fn(&Layer) -> usize,
    /// Reads the attributes.
    pub parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
    /// Attributes that are legal and mean nothing here.
    pub ignorable: &'static [&'static str],
    /// How much of it works.
    pub support: Support,
}

/// An operation with one result.
pub fn one_output(_: &Layer) -> usize {
    1
}

/// The row for a layer's type and opset (`opset8`; the extension opsets count as opset6).
///
/// # Errors
/// An unknown type, an unknown opset, or a type that is not in that opset.
pub fn lookup(layer: &Layer) -> Result<&'static OpDef, Diagnostic> {
    let rows =
        || FAMILIES.iter().flat_map(|family| family.iter()).filter(|row| row.name.eq_ignore_ascii_case(&layer.kind));
    if rows().next().is_none() {
        return Err(Diagnostic::error(&codes::UNKNOWN_OPERATION, format!("unknown operation {}", quote(&layer.kind)))
            .at(layer.type_span)
            .help("`irc ops` lists the supported operations"));
    }
    let Some(opset) = opset_number(&layer.opset) else {
        let message = format!("unknown opset {}", quote(&layer.opset));
        return Err(Diagnostic::error(&codes::UNKNOWN_OPSET, message).at(layer.opset_span));
    };
    rows().find(|row| row.opsets.contains(&opset)).ok_or_else(|| {
        let versions: Vec<String> =
            rows().map(|row| format!("opset{} to opset{}", row.opsets.start(), row.opsets.end())).collect();
        let message = format!("operation {} is not in {}", quote(&layer.kind), quote(&layer.opset));
        Diagnostic::error(&codes::NOT_IN_OPSET, message)
            .at(layer.opset_span)
            .help(format!("it is supported in {}", versions.join(" and ")))
    })
}

/// `opset7` is 7; `extension` and `experimental` stand for opset6, where their operations were standardised.
fn opset_number(name: &str) -> Option<u8> {
    match name {
        "extension" | "experimental" => Some(6),
        _ => match name.strip_prefix("opset")?.parse() {
            // The spelling is exact: no sign, no leading zero.
            Ok(number @ 1..=17) if name == format!("opset{number}") => Some(number),
            _ => None,
        },
    }
}
