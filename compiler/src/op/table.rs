//! Rows of the operation tables and the lookup of a layer's type and opset.

use super::Op;
use crate::diag::{Diagnostic, codes, quote};
use crate::extension::Extension;
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

/// Makes an operation of its attributes.
pub type Parse = dyn Fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>;

/// What the build stage needs of an operation.
pub struct Definition<'a> {
    /// Number of operands.
    pub inputs: RangeInclusive<usize>,
    /// Number of results.
    pub outputs: usize,
    /// Reads the attributes.
    pub parse: &'a Parse,
    /// Attributes that are legal and mean nothing here.
    pub ignorable: &'static [&'static str],
}

/// An operation with one result.
pub fn one_output(_: &Layer) -> usize {
    1
}

/// The operation of a layer's type and opset (`opset8`; the extension opsets count as opset6): one of `extensions`, or the
/// compiler's own.
///
/// # Errors
/// An unknown type, an unknown opset, or a type that is not in that opset.
pub fn lookup<'a>(layer: &Layer, extensions: &'a [Extension]) -> Result<Definition<'a>, Diagnostic> {
    if let Some(extension) = extensions.iter().find(|extension| extension.is_for(layer)) {
        return Ok(Definition {
            inputs: extension.inputs.clone(),
            outputs: extension.outputs,
            parse: &*extension.parse,
            ignorable: &[],
        });
    }
    let row = row(layer).map_err(|diagnostic| match is_standard(&layer.opset) {
        true => diagnostic,
        false => diagnostic.note(
            "operations of other opsets are added in a build script, with `Build::operation`; \
             `irc` and `include_ir!` know none",
        ),
    })?;
    Ok(Definition {
        inputs: row.inputs.clone(),
        outputs: (row.outputs)(layer),
        parse: &row.parse,
        ignorable: row.ignorable,
    })
}

/// The row of the compiler's own tables for a layer.
///
/// # Errors
/// See [`lookup`].
pub fn row(layer: &Layer) -> Result<&'static OpDef, Diagnostic> {
    let rows =
        || FAMILIES.iter().flat_map(|family| family.iter()).filter(|row| row.name.eq_ignore_ascii_case(&layer.kind));
    if rows().next().is_none() {
        return Err(Diagnostic::error(&codes::UNKNOWN_OPERATION, format!("unknown operation {}", quote(&layer.kind)))
            .at(layer.type_span)
            .help("`irc ops` lists the supported operations"));
    }
    let opset = opset(layer)?;
    rows().find(|row| row.opsets.contains(&opset)).ok_or_else(|| {
        let versions: Vec<String> =
            rows().map(|row| format!("opset{} to opset{}", row.opsets.start(), row.opsets.end())).collect();
        let message = format!("operation {} is not in {}", quote(&layer.kind), quote(&layer.opset));
        Diagnostic::error(&codes::NOT_IN_OPSET, message)
            .at(layer.opset_span)
            .help(format!("it is supported in {}", versions.join(" and ")))
    })
}

/// The opset of a layer.
///
/// # Errors
/// It is unknown.
pub fn opset(layer: &Layer) -> Result<u8, Diagnostic> {
    opset_number(layer).ok_or_else(|| {
        let message = format!("unknown opset {}", quote(&layer.opset));
        Diagnostic::error(&codes::UNKNOWN_OPSET, message).at(layer.opset_span)
    })
}

/// Whether a layer's `version` is of the form `opset8`.
fn is_standard(opset: &str) -> bool {
    opset.strip_prefix("opset").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// Operations that files name with the opset `extension` or `experimental`; opset6 standardised them.
const EXTENSIONS: &[&str] = &[
    "ExperimentalDetectronDetectionOutput",
    "ExperimentalDetectronGenerateProposalsSingleImage",
    "ExperimentalDetectronPriorGridGenerator",
    "ExperimentalDetectronROIFeatureExtractor",
    "ExperimentalDetectronTopKROIs",
    "GRUCell",
    "RNNCell",
    "Proposal",
];

/// Operations that files name with opset1 although the first opset that has them is opset2.
const SINCE_OPSET2: &[&str] = &["MVN", "ROIPooling", "ReorgYolo"];

/// The opset to look a layer up in: `opset7` is 7.
fn opset_number(layer: &Layer) -> Option<u8> {
    match layer.opset.as_str() {
        "extension" | "experimental" => EXTENSIONS.contains(&layer.kind.as_str()).then_some(6),
        "opset1" if SINCE_OPSET2.contains(&layer.kind.as_str()) => Some(2),
        name => match name.strip_prefix("opset")?.parse() {
            // The spelling is exact: no sign, no leading zero.
            Ok(number @ 1..=17) if name == format!("opset{number}") => Some(number),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opset_names() {
        let number = |kind: &str, opset: &str| {
            opset_number(&Layer { kind: kind.into(), opset: opset.into(), ..Layer::default() })
        };
        assert_eq!(number("Relu", "opset1"), Some(1));
        assert_eq!(number("Relu", "opset17"), Some(17));
        for opset in ["opset0", "opset18", "opset01", "opset+1", "OPSET1", "", "util", "extension", "experimental"] {
            assert_eq!(number("Relu", opset), None, "{opset}");
        }
        assert_eq!(number("GRUCell", "experimental"), Some(6));
        assert_eq!(number("MVN", "opset1"), Some(2));
        assert_eq!(number("MVN", "opset6"), Some(6));
    }
}
