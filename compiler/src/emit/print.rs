//! From tokens to text: in lines, with comments, where people read generated code; as it comes where only rustc does.

#[cfg(not(feature = "readable"))]
mod plain;
#[cfg(feature = "readable")]
mod readable;

#[cfg(not(feature = "readable"))]
pub use plain::{comment, text};
#[cfg(feature = "readable")]
pub use readable::{comment, text};
