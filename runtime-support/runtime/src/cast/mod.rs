//! Element conversions: float to integer, narrow floats, packed types below one byte.
mod element;
mod integer;
mod narrow;
mod packed;

pub use element::{Bf16, F8e4m3, F8e5m2, F8e8m0, F16};
pub use integer::*;
pub use narrow::*;
pub use packed::*;

#[cfg(test)]
mod tests;
