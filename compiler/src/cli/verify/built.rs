//! Cases through generated Rust: all models of a batch in one crate, built once in release mode.

pub mod krate;
mod process;
pub mod tensors;

use super::{Case, Outcome, Port, Runs, Status, in_parallel, judge, panic_text};
use crate::cli::npz::Array;
use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::options::{Emit, Options, WeightsFile};
use crate::output::{self, Output};
use crate::source::Source;
use clap::Args;
use krate::Crate;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// How generated code is built.
#[derive(Args, Clone, Debug, Default)]
pub struct BuildArguments {
    /// Folder of the package `include-ir` to build against. Default: the one beside the compiler's source if it exists,
    /// else the version of this compiler from the registry.
    #[arg(long, value_name = "DIR", env = "IRC_RUNTIME")]
    pub runtime: Option<PathBuf>,
    /// Cargo's target folder; keeping it makes the next build faster. Default: a folder below the system's temporary one.
    #[arg(long, value_name = "DIR")]
    pub target_dir: Option<PathBuf>,
    /// Keep the generated crate in this folder.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Threads among which the model splits its steps.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
}

impl BuildArguments {
    /// Threads, at least one.
    pub fn threads(&self) -> usize {
        usize::from(self.threads.max(1))
    }
}

/// A case whose model was compiled and whose inputs were written.
struct Prepared {
    number: usize,
    case: Case,
    outputs: Vec<Port>,
    /// The module and the function that runs it.
    source: String,
}

/// Compiles, builds and runs all cases.
///
/// # Errors
/// The crate cannot be written or cargo cannot be started.
pub fn verify(cases: &[PathBuf], options: &Options, arguments: &BuildArguments) -> Result<Vec<Outcome>, String> {
    let krate = Crate::new(arguments)?;
    let numbered: Vec<(usize, &PathBuf)> = cases.iter().enumerate().collect();
    let prepared = in_parallel("compiling", &numbered, |(number, folder)| {
        let prepared = catch_unwind(AssertUnwindSafe(|| load(*number, folder, options, &krate)));
        prepared.unwrap_or_else(|panic| {
            Err(Outcome::failed(&folder.display().to_string(), Status::Crash, panic_text(&*panic)))
        })
    });
    let mut outcomes = BTreeMap::new();
    let mut ready = Vec::new();
    for (number, result) in prepared.into_iter().enumerate() {
        match result {
            Ok(prepared) => ready.push(prepared),
            Err(outcome) => _ = outcomes.insert(number, outcome),
        }
    }
    let mut problems = run(&ready, &krate)?;
    for case in &ready {
        let outcome = match problems.remove(&case.number) {
            Some((status, problem)) => Outcome::failed(&case.case.name, status, problem),
            None => finish(case, &krate),
        };
        outcomes.insert(case.number, outcome);
    }
    Ok(outcomes.into_values().collect())
}

fn load(number: usize, folder: &Path, options: &Options, krate: &Crate) -> Result<Prepared, Outcome> {
    let name = folder.display().to_string();
    let case = Case::load(folder).map_err(|problem| Outcome::failed(&name, Status::Rejected, problem))?;
    let (source, options) = case.open(options).map_err(|diagnostics| Outcome::from_diagnostics(&name, &diagnostics))?;
    match prepare(number, case, &source, options, krate) {
        Ok((prepared, _)) => Ok(prepared),
        Err(Problem::Model(diagnostics)) => Err(Outcome::from_diagnostics(&name, &diagnostics)),
        Err(Problem::Case(status, problem)) => Err(Outcome::failed(&name, status, problem)),
    }
}

/// Why a case cannot be built.
enum Problem {
    Model(Diagnostics),
    Case(Status, String),
}

fn prepare(
    number: usize,
    case: Case,
    source: &Source,
    options: Options,
    krate: &Crate,
) -> Result<(Prepared, Diagnostics), Problem> {
    let output = compile(number, source, options, krate).map_err(Problem::Model)?;
    let inputs = ports(&output.inputs);
    let mut bytes = Vec::new();
    for step in 0..case.runs() {
        for tensor in case.inputs(&inputs, step).map_err(|problem| Problem::Case(Status::Rejected, problem))? {
            tensors::write(&mut bytes, &tensor);
        }
    }
    krate.write(&format!("case_{number}.in"), &bytes).map_err(|problem| Problem::Case(Status::Crash, problem))?;
    let outputs = ports(&output.outputs);
    let text =
        krate::case_source(&output, krate.threads()).map_err(|problem| Problem::Case(Status::Unsupported, problem))?;
    Ok((Prepared { number, case, outputs, source: text }, output.warnings))
}

fn compile(number: usize, source: &Source, mut options: Options, krate: &Crate) -> Result<Output, Diagnostics> {
    options.emit = Emit::Rust;
    options.module = Some("model".to_owned());
    let weights = krate.folder().join(format!("case_{number}.weights.bin"));
    options.weights_file = WeightsFile::At(weights.clone());
    let output = crate::compile(source, &options)?;
    if !output.weights.is_empty() {
        crate::artifact::replace(&weights, &output.weights, None)?;
    }
    Ok(output)
}

/// Builds one model and runs it once; gives the warnings and the outputs.
///
/// # Errors
/// Problems of the model, of the inputs, of the build.
pub fn once(
    case: Case,
    source: &Source,
    options: &Options,
    arguments: &BuildArguments,
) -> Result<(Diagnostics, Vec<(String, Array)>), Diagnostics> {
    let io = |problem: String| Diagnostics::from(Diagnostic::error(&codes::IO, problem));
    let krate = Crate::new(arguments).map_err(io)?;
    let (prepared, warnings) = prepare(0, case, source, options.clone(), &krate).map_err(|problem| match problem {
        Problem::Model(diagnostics) => diagnostics,
        Problem::Case(_, problem) => Diagnostic::error(&codes::OPTION, problem).into(),
    })?;
    let list = [prepared];
    let mut problems = run(&list, &krate).map_err(io)?;
    match (problems.remove(&0), &list) {
        (None, [prepared]) => Ok((warnings, finish(prepared, &krate).outputs)),
        (Some((Status::Crash, problem)), _) => Err(Diagnostic::internal(problem).into()),
        (Some((_, problem)), _) => Err(Diagnostic::error(&codes::OPTION, problem).into()),
    }
}

/// Builds and runs; gives the cases that did not finish with the reason.
fn run(cases: &[Prepared], krate: &Crate) -> Result<BTreeMap<usize, (Status, String)>, String> {
    let sources = cases.iter().map(|case| (case.number, (case.case.runs(), case.source.as_str()))).collect();
    let built = krate.build(&sources)?;
    let mut problems = built.broken;
    for program in &built.programs {
        problems.extend(process::run(&program.path, krate.folder(), &program.cases)?);
    }
    Ok(problems)
}

/// What a case needs to know of inputs or outputs.
pub fn ports(ports: &[output::Port]) -> Vec<Port> {
    let names = |port: &output::Port| std::iter::once(&port.name).chain(&port.tensor_names).cloned().collect();
    ports.iter().map(|port| Port { names: names(port), element: port.element }).collect()
}

/// Reads the outputs of a case that ran and judges them.
fn finish(case: &Prepared, krate: &Crate) -> Outcome {
    let crash = |problem: String| Outcome::failed(&case.case.name, Status::Crash, problem);
    let bytes = match std::fs::read(krate.folder().join(format!("case_{}.out", case.number))) {
        Ok(bytes) => bytes,
        Err(error) => return crash(format!("the outputs cannot be read: {error}")),
    };
    let mut reader = tensors::Reader::new(&bytes);
    let mut runs = Runs::new();
    for _ in 0..case.case.runs() {
        let outputs: Option<Vec<_>> = case.outputs.iter().map(|port| reader.array(port.element)).collect();
        match outputs {
            Some(outputs) => runs.push(outputs),
            None => return crash("the program wrote fewer outputs than the model has".to_owned()),
        }
    }
    judge(&case.case, &case.outputs, runs)
}
