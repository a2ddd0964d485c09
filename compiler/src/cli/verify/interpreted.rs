//! Cases through the interpreter of the loop program.

use super::{Case, Outcome, Port, Runs, Status, in_parallel, judge, panic_text};
use crate::cli::npz::Array;
use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::options::Options;
use crate::program::interpret::Interpreter;
use crate::program::{BufferId, Program};
use crate::source::Source;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Interprets all cases.
pub fn verify(cases: &[PathBuf], options: &Options) -> Vec<Outcome> {
    in_parallel("interpreting", cases, |folder: &PathBuf| {
        let outcome = catch_unwind(AssertUnwindSafe(|| one(folder, options)));
        outcome
            .unwrap_or_else(|panic| Outcome::failed(&folder.display().to_string(), Status::Crash, panic_text(&*panic)))
    })
}

fn one(folder: &Path, options: &Options) -> Outcome {
    let case = match Case::load(folder) {
        Ok(case) => case,
        Err(problem) => return Outcome::failed(&folder.display().to_string(), Status::Rejected, problem),
    };
    let program = match program(&case, options) {
        Ok(program) => program,
        Err(diagnostics) => return Outcome::from_diagnostics(&case.name, &diagnostics),
    };
    let outputs = ports(&program, &program.outputs);
    match runs(&case, &program) {
        Ok(runs) => judge(&case, &outputs, runs),
        Err((status, problem)) => Outcome::failed(&case.name, status, problem),
    }
}

fn program(case: &Case, options: &Options) -> Result<Program, Diagnostics> {
    let (source, options) = case.open(options)?;
    crate::stages::program(&source, &options)
}

/// The outputs of one run.
///
/// # Errors
/// Problems of the model, or inputs that do not fit.
pub fn once(case: &Case, source: &Source, options: &Options) -> Result<Vec<(String, Array)>, Diagnostics> {
    let program = crate::stages::program(source, options)?;
    let outputs = ports(&program, &program.outputs);
    match runs(case, &program) {
        Ok(runs) => Ok(judge(case, &outputs, runs).outputs),
        Err((Status::Crash, problem)) => Err(Diagnostic::internal(problem).into()),
        Err((_, problem)) => Err(Diagnostic::error(&codes::OPTION, problem).into()),
    }
}

/// Names and types of inputs or outputs.
pub fn ports(program: &Program, list: &[(BufferId, crate::graph::Interface)]) -> Vec<Port> {
    let port = |(buffer, interface): &(BufferId, crate::graph::Interface)| {
        let names = std::iter::once(&interface.name).chain(&interface.tensor_names).cloned().collect();
        Port { names, element: program.buffer(*buffer).element }
    };
    list.iter().map(port).collect()
}

fn runs(case: &Case, program: &Program) -> Result<Runs, (Status, String)> {
    let inputs = ports(program, &program.inputs);
    let mut runs = Vec::new();
    let mut interpreter = Interpreter::new(program).map_err(|problem| (Status::Crash, problem))?;
    for step in 0..case.runs() {
        let tensors = case.inputs(&inputs, step).map_err(|problem| (Status::Rejected, problem))?;
        let ran = interpreter.run(&tensors);
        let status = if interpreter.refused() { Status::Rejected } else { Status::Crash };
        let outputs = ran.map_err(|problem| (status, problem))?;
        let arrays: Option<Vec<Array>> = outputs.iter().map(Array::from_tensor).collect();
        runs.push(arrays.ok_or((Status::Unsupported, "string outputs cannot be compared".to_owned()))?);
    }
    Ok(runs)
}
