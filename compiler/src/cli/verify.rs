//! `irc verify`: case directories through the interpreter or through compiled Rust, against expected outputs.

pub mod built;
mod case;
mod compare;
mod interpreted;

pub use case::{Case, Port};
pub use compare::{Distance, compare};
pub use interpreted::once as interpret_once;

use super::arguments::OptionArguments;
use super::npz::{self, Array};
use super::progress::Progress;
use super::{Failure, Reporter};
use crate::diag::{Code, Diagnostic, Diagnostics, codes};
use crate::element::ElementType;
use crate::options::Options;
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `irc verify`.
#[derive(Args, Debug)]
pub struct VerifyArguments {
    /// Case directories: model.xml, model.bin, inputs.npz, expected.npz and optionally case.json.
    #[arg(required = true, value_name = "CASE")]
    cases: Vec<PathBuf>,
    /// Run the loop program in the interpreter instead of building the generated Rust.
    #[arg(long)]
    interpret: bool,
    /// Write one JSON object per case and line; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the actual outputs of each case as `CASE.npz`.
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    #[command(flatten)]
    build: built::BuildArguments,
    #[command(flatten)]
    options: OptionArguments,
}

/// Pass: `|got - expected| <= abs + rel * |expected|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Absolute part.
    pub abs: f64,
    /// Part relative to the expected value.
    pub rel: f64,
}

impl Tolerance {
    /// For integers and booleans.
    pub const EXACT: Tolerance = Tolerance { abs: 0.0, rel: 0.0 };
}

impl Default for Tolerance {
    /// What a case without tolerance gets.
    fn default() -> Self {
        Tolerance { abs: 1e-4, rel: 1e-3 }
    }
}

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// All outputs are as expected.
    Pass,
    /// An output differs.
    Mismatch,
    /// The model uses something that the compiler does not support.
    Unsupported,
    /// The model or the case is wrong.
    Rejected,
    /// A bug of the compiler, or generated code that died or does not compile.
    Crash,
}

impl Status {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Mismatch => "mismatch",
            Status::Unsupported => "unsupported",
            Status::Rejected => "rejected",
            Status::Crash => "crash",
        }
    }
}

/// The result of one case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Path of the case.
    pub case: String,
    /// What became of it.
    pub status: Status,
    /// Largest absolute difference of any output.
    pub max_abs: f64,
    /// Largest relative difference of any output.
    pub max_rel: f64,
    /// One line for anything but a pass.
    pub message: String,
    /// The actual outputs: `out0`, ...
    pub outputs: Vec<(String, Array)>,
}

impl Outcome {
    fn failed(case: &str, status: Status, message: impl Into<String>) -> Self {
        let message = message.into();
        Outcome { case: case.to_owned(), status, max_abs: 0.0, max_rel: 0.0, message, outputs: Vec::new() }
    }

    /// The outcome of a model that does not compile.
    fn from_diagnostics(case: &str, diagnostics: &Diagnostics) -> Self {
        let is = |list: &[&Code]| diagnostics.errors().filter(|e| list.contains(&e.code)).count();
        let status = if is(&[&codes::INTERNAL]) > 0 {
            Status::Crash
        } else if is(&[&codes::UNSUPPORTED, &codes::UNKNOWN_OPERATION]) > 0 {
            Status::Unsupported
        } else {
            Status::Rejected
        };
        let lines: Vec<String> =
            diagnostics.errors().take(5).map(|error| format!("{}: {}", error.code.id, error.message)).collect();
        Outcome::failed(case, status, lines.join("; "))
    }

    fn json(&self) -> Value {
        // JSON has no infinity.
        let number = |value: f64| if value.is_finite() { json!(value) } else { json!(1e308) };
        json!({
            "case": self.case, "status": self.status.word(), "max_abs": number(self.max_abs),
            "max_rel": number(self.max_rel), "message": self.message,
        })
    }
}

/// The outputs of all runs of a case: per run, per output.
type Runs = Vec<Vec<Array>>;

/// Compares what came out with what was expected.
fn judge(case: &Case, ports: &[Port], runs: Runs) -> Outcome {
    let mut outcome = Outcome::failed(&case.name, Status::Pass, "");
    let mut problems = Vec::new();
    for (step, outputs) in runs.into_iter().enumerate() {
        let expected = match case.expected(ports, step) {
            Ok(expected) => expected,
            Err(problem) => return Outcome::failed(&case.name, Status::Rejected, problem),
        };
        for (i, ((port, got), expected)) in ports.iter().zip(outputs).zip(expected).enumerate() {
            let name = if case.steps.is_some() { format!("out{i}_step{step}") } else { format!("out{i}") };
            if let Some(expected) = expected {
                problems.extend(outcome.add(&name, port.element, &got, expected, case.tolerance));
            }
            outcome.outputs.push((name, got));
        }
    }
    if !problems.is_empty() {
        outcome.status = Status::Mismatch;
        outcome.message = problems.join("; ");
    }
    outcome
}

impl Outcome {
    /// Adds one output; a line if it is wrong.
    fn add(
        &mut self,
        name: &str,
        element: ElementType,
        got: &Array,
        expected: &Array,
        tolerance: Tolerance,
    ) -> Option<String> {
        match compare(element, got, expected, tolerance) {
            Err(problem) => Some(format!("{name}: {problem}")),
            Ok(distance) => {
                self.max_abs = self.max_abs.max(distance.max_abs);
                self.max_rel = self.max_rel.max(distance.max_rel);
                let count: usize = got.dims.iter().product();
                distance.first.map(|first| format!("{name}: {} of {count} differ, {first}", distance.wrong))
            }
        }
    }
}

/// Interprets cases, on all processors; outcomes are in the order of the cases.
pub fn interpret(cases: &[PathBuf], options: &Options) -> Vec<Outcome> {
    interpreted::verify(cases, options)
}

/// Builds and runs cases as generated Rust; outcomes are in the order of the cases.
///
/// # Errors
/// The build cannot be set up: no cargo, no runtime, no space.
pub fn build(cases: &[PathBuf], options: &Options, arguments: &built::BuildArguments) -> Result<Vec<Outcome>, String> {
    built::verify(cases, options, arguments)
}

/// Runs the command.
pub fn verify(arguments: VerifyArguments, reporter: &Reporter) -> Result<(), Failure> {
    let options = &arguments.options.options;
    let outcomes = if arguments.interpret {
        interpret(&arguments.cases, options)
    } else {
        build(&arguments.cases, options, &arguments.build).map_err(|problem| Diagnostic::error(&codes::IO, problem))?
    };
    if let Some(folder) = &arguments.dump {
        dump(folder, &outcomes)?;
    }
    let lines: String = outcomes.iter().map(|outcome| format!("{}\n", outcome.json())).collect();
    match &arguments.json {
        Some(file) if file.as_path() == Path::new("-") => super::print(&lines)?,
        Some(file) => _ = crate::artifact::replace(file, lines.as_bytes(), None)?,
        None => {}
    }
    let failed = summary(&outcomes, reporter);
    if failed == 0 { Ok(()) } else { Err(Failure::Negative) }
}

fn dump(folder: &Path, outcomes: &[Outcome]) -> Result<(), Failure> {
    for outcome in outcomes.iter().filter(|outcome| !outcome.outputs.is_empty()) {
        // Cases of different folders may have the same last name; components that are no names are left out.
        let names: Vec<String> = Path::new(&outcome.case)
            .components()
            .filter_map(|part| match part {
                std::path::Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
                _ => None,
            })
            .collect();
        let last = names.last().cloned().unwrap_or_else(|| "case".to_owned());
        let same = |other: &Outcome| Path::new(&other.case).file_name() == Path::new(&outcome.case).file_name();
        let name = if outcomes.iter().filter(|other| same(other)).count() > 1 { names.join("_") } else { last };
        let path = folder.join(format!("{name}.npz"));
        npz::write(&path, &outcome.outputs).map_err(|problem| Diagnostic::error(&codes::IO, problem))?;
    }
    Ok(())
}

/// One line per failure and one with the counts; returns the number of failures.
fn summary(outcomes: &[Outcome], reporter: &Reporter) -> usize {
    for outcome in outcomes.iter().filter(|outcome| outcome.status != Status::Pass) {
        let line = format!("{}: {}: {}", outcome.status.word(), outcome.case, outcome.message);
        reporter.failure(&line, &outcome.json());
    }
    let mut counts = Vec::new();
    for status in [Status::Pass, Status::Mismatch, Status::Unsupported, Status::Rejected, Status::Crash] {
        let count = outcomes.iter().filter(|outcome| outcome.status == status).count();
        if count > 0 {
            counts.push(format!("{count} {}", status.word()));
        }
    }
    reporter.remark(&counts.join(", "));
    outcomes.iter().filter(|outcome| outcome.status != Status::Pass).count()
}

/// The text of a panic.
fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "panic".to_owned())
}

/// Calls `work` for every item on all processors and keeps the order. Progress is shown on a terminal.
fn in_parallel<T: Sync, R: Send>(what: &str, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let progress = Mutex::new(Progress::new(what, items.len()));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, item)) = {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    items.get(i).map(|item| (i, item))
                } {
                    let result = work(item);
                    if let Ok(mut results) = results.lock() {
                        results.push((index, result));
                    }
                    if let Ok(progress) = progress.lock() {
                        progress.step();
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
