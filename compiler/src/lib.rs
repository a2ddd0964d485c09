//! Ahead-of-time compiler from OpenVINO IR to Rust.
#![forbid(unsafe_code)]

pub mod diag;
pub mod element;
