//! The `irc` command: compiles, runs, verifies and explains OpenVINO models.
//!
//! Exit codes: 0 success; 1 the model was rejected, a case failed or `--check` found a stale file; 2 wrong usage, a file
//! that cannot be read or written, or an internal error.

mod arguments;
mod bench;
mod compile;
mod inspect;
mod lists;
pub mod npz;
mod progress;
mod report;
mod run;
pub mod verify;

pub use report::Reporter;

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::options::Options;
use crate::source::Source;
use clap::{Parser, Subcommand};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Compiles OpenVINO IR models to Rust.
#[derive(Parser, Debug)]
#[command(name = "irc", version, about, max_term_width = 120, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    report: report::ReportArguments,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  irc compile models/digits.xml -o src/digits.rs      Rust source, weights beside it
  irc compile m.xml --shape x=1..8,3,224,224 -o m.rs  a run-time batch of up to 8
  irc verify --interpret tests/cases/*/*              case directories against the reference
  irc bench m.xml --against openvino                  times, ratios, the dearest steps
  irc inspect m.xml                                   inputs, outputs, layers, weights

Exit codes: 0 success; 1 model rejected, case failed or --check found a stale file; 2 wrong usage, unreadable or
unwritable file, internal error.";

#[derive(Subcommand, Debug)]
enum Command {
    /// Compile a model to a Rust module and a weights file.
    Compile(compile::CompileArguments),
    /// Run a model once on the arrays of an .npz file.
    Run(run::RunArguments),
    /// Time a compiled model, alone or against installed engines.
    Bench(bench::BenchArguments),
    /// Check case directories: model.xml, model.bin, inputs.npz, expected.npz.
    Verify(verify::VerifyArguments),
    /// Show inputs, outputs, layers, edges, an operation histogram and weights.
    Inspect(inspect::InspectArguments),
    /// List the supported operations.
    Ops(lists::OpsArguments),
    /// List the passes in the order in which they run.
    Passes,
    /// Explain a diagnostic code such as IR0105.
    Explain(lists::ExplainArguments),
    /// Print shell completions.
    Completions(lists::CompletionsArguments),
}

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// Problems to report; 2 if files or the compiler are to blame, else 1.
    Problems(Diagnostics),
    /// The problems are reported already, or the output says it all; 1.
    Negative,
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Self {
        Failure::Problems(diagnostics)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Failure::Problems(diagnostic.into())
    }
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    let reporter = cli.report.reporter();
    let result = match cli.command {
        Command::Compile(arguments) => compile::compile(arguments, &reporter),
        Command::Run(arguments) => run::run(arguments, &reporter),
        Command::Bench(arguments) => bench::bench(arguments, &reporter),
        Command::Verify(arguments) => verify::verify(arguments, &reporter),
        Command::Inspect(arguments) => inspect::inspect(arguments, &reporter),
        Command::Ops(arguments) => lists::ops(&arguments),
        Command::Passes => lists::passes(),
        Command::Explain(arguments) => lists::explain(&arguments),
        Command::Completions(arguments) => lists::completions(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Negative) => ExitCode::FAILURE,
        Err(Failure::Problems(diagnostics)) => {
            reporter.report(&diagnostics);
            ExitCode::from(exit_code(&diagnostics))
        }
    }
}

fn exit_code(diagnostics: &Diagnostics) -> u8 {
    let ours = [&codes::INTERNAL, &codes::IO, &codes::OPTION];
    if diagnostics.errors().any(|error| ours.iter().any(|code| code.id == error.code.id)) { 2 } else { 1 }
}

/// Opens a model; `-` reads the XML from standard input, with the weights from the option `bin`.
fn open(model: &Path, options: &Options) -> Result<Source, Diagnostics> {
    if model != Path::new("-") {
        return Source::from_path(model, options.bin.as_deref());
    }
    let io = |what: &str, error: std::io::Error| Diagnostic::error(&codes::IO, format!("cannot read {what}: {error}"));
    let mut xml = Vec::new();
    std::io::stdin().read_to_end(&mut xml).map_err(|error| io("standard input", error))?;
    let weights = match &options.bin {
        Some(bin) => std::fs::read(bin).map_err(|error| io(&format!("`{}`", bin.display()), error))?,
        None => Vec::new(),
    };
    Source::from_memory("<stdin>", xml, weights)
}

/// Writes text to standard output; a closed pipe is not an error.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    match anstream::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::error(&codes::IO, format!("cannot write to standard output: {error}")).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn files_and_bugs_are_not_the_models_fault() {
        assert_eq!(exit_code(&Diagnostic::error(&codes::IO, "x").into()), 2);
        assert_eq!(exit_code(&Diagnostic::internal("x").into()), 2);
        assert_eq!(exit_code(&Diagnostic::error(&codes::XML, "x").into()), 1);
    }
}
