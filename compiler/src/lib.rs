//! Ahead-of-time compiler from OpenVINO IR to Rust.
#![forbid(unsafe_code)]

pub mod diag;
pub mod element;
pub mod options;
pub mod output;
pub mod read;
pub mod source;

pub use options::Options;
pub use output::Output;
