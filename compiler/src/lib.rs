//! Ahead-of-time compiler from OpenVINO IR to Rust.
#![forbid(unsafe_code)]

pub mod artifact;
pub mod build;
pub mod build_script;
#[cfg(feature = "cli")]
pub mod cli;
pub mod diag;
pub mod dim;
pub mod element;
pub mod emit;
pub mod extension;
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
pub mod state;
pub mod tensor;

pub use build_script::{Build, BuildError, build};
pub use options::Options;
pub use output::Output;

use diag::Diagnostics;
use source::Source;
use stages::{Compilation, Stage};

/// Compiles a model: the whole pipeline, from XML and weights to a Rust module and its weights file.
///
/// The same model and options give the same output on every machine. Nothing is printed, read or written here.
///
/// # Errors
/// All problems of the first stage that has one, with their places in the XML.
pub fn compile(source: &Source, options: &Options) -> Result<Output, Diagnostics> {
    let mut compilation = Compilation::new(source, options);
    let program = match compilation.program()? {
        Stage::Done(program) => program,
        Stage::Stopped(text) => return Ok(compilation.stopped(text)),
    };
    let plan = match compilation.plan(&program)? {
        Stage::Done(plan) => plan,
        Stage::Stopped(text) => return Ok(compilation.stopped(text)),
    };
    compilation.emit(program, &plan)
}
