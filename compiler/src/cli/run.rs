//! `irc run`: a model once, on the arrays of a file.

use super::arguments::OptionArguments;
use super::{Failure, Reporter, npz, open, verify};
use crate::diag::{Diagnostic, codes};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `irc run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// The model: an .xml file, or - for standard input.
    model: PathBuf,
    /// Inputs: arrays named in0, in1, ... or like the tensors.
    #[arg(long, value_name = "FILE")]
    inputs: PathBuf,
    /// Where the outputs go: arrays out0, out1, ...
    #[arg(long, value_name = "FILE")]
    outputs: PathBuf,
    /// Run the loop program in the interpreter instead of building the generated Rust.
    #[arg(long)]
    interpret: bool,
    #[command(flatten)]
    build: verify::built::BuildArguments,
    #[command(flatten)]
    options: OptionArguments,
}

/// Runs and writes the outputs.
pub fn run(arguments: RunArguments, reporter: &Reporter) -> Result<(), Failure> {
    let options = arguments.options.options;
    let source = open(&arguments.model, &options)?;
    let arrays = npz::read(&arguments.inputs).map_err(|problem| Diagnostic::error(&codes::IO, problem))?;
    let name = arguments.model.display().to_string();
    let case = verify::Case::without_expectation(&name, arrays);
    let outputs = if arguments.interpret {
        verify::interpret_once(&case, &source, &options)?
    } else {
        let (warnings, outputs) = verify::built::once(case, &source, &options, &arguments.build)?;
        reporter.report(&warnings);
        outputs
    };
    npz::write(&arguments.outputs, &outputs).map_err(|problem| Diagnostic::error(&codes::IO, problem).into())
}
