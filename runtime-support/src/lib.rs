//! OpenVINO IR models compiled into your Rust binary.
#![no_std]
#![forbid(unsafe_code)]
pub use include_ir_runtime::*;
