//! Operation families: one file each. A new family is a `mod` line and a row of [`FAMILIES`].

pub mod binary;
pub mod convert;
pub mod unary;

use crate::op::OpDef;

/// All operation tables, alphabetically.
pub const FAMILIES: &[&[OpDef]] = &[binary::OPS, convert::OPS, unary::OPS];
