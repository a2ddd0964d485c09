//! Ahead-of-time compiler from OpenVINO IR to Rust.
#![forbid(unsafe_code)]

pub mod build;
pub mod diag;
pub mod dim;
pub mod element;
pub mod emit;
pub mod fact;
pub mod graph;
pub mod lower;
pub mod op;
pub mod ops;
pub mod options;
pub mod output;
pub mod passes;
pub mod plan;
pub mod program;
pub mod read;
pub mod source;
pub mod stages;
pub mod tensor;

pub use options::Options;
pub use output::Output;
