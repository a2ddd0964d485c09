//! Operation families: one file each. A new family is a `mod` line and a row of [`FAMILIES`].

pub mod activation;
pub mod binary;
pub mod bitwise;
pub mod comparison;
pub mod convert;
pub mod generate;
pub mod logical;
pub mod norm;
pub mod promote;
pub mod quantize;
pub mod reduce;
pub mod scan;
pub mod select;
pub mod softmax;
pub mod unary;

use crate::op::OpDef;

/// All operation tables, alphabetically.
pub const FAMILIES: &[&[OpDef]] = &[
    activation::OPS,
    binary::OPS,
    bitwise::OPS,
    comparison::OPS,
    convert::OPS,
    generate::OPS,
    logical::OPS,
    norm::OPS,
    promote::OPS,
    quantize::OPS,
    reduce::OPS,
    scan::OPS,
    select::OPS,
    softmax::OPS,
    unary::OPS,
];
