//! Cases without the passes that improve them, with those of the graph, and with all: the same numbers.
//!
//! A third of every family's cases, without those that take seconds; with `INCLUDE_IR_ALL_CASES=1` all of them.

use include_ir_compiler::cli::npz::Array;
use include_ir_compiler::cli::verify::{Case, Port, Tolerance, compare};
use include_ir_compiler::diag::Diagnostics;
use include_ir_compiler::passes::{self, graph::PASSES};
use include_ir_compiler::program::Program;
use include_ir_compiler::program::interpret::Interpreter;
use include_ir_compiler::source::Source;
use include_ir_compiler::tensor::Tensor;
use include_ir_compiler::{Options, build, emit, graph, lower, read, stages};
use std::path::{Path, PathBuf};

/// Operations of a case, at most: four in a hundred have more, and take most of the time.
const OPERATIONS: u64 = 2_000_000;

fn all_cases() -> bool {
    std::env::var_os("INCLUDE_IR_ALL_CASES").is_some()
}

/// The program after the first `count` graph passes and no others.
fn after(count: usize, source: &Source, options: &Options) -> Result<Program, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    let net = read::read(source, &mut diagnostics);
    let graph = net.and_then(|net| build::build(&net, source, options, &mut diagnostics));
    let program = graph.and_then(|mut graph| {
        passes::run(&PASSES[..count], &mut graph, graph::verify, options, &mut diagnostics, &mut Vec::new());
        lower::lower(&graph, &mut diagnostics)
    });
    program.filter(|_| !diagnostics.has_errors()).ok_or(diagnostics)
}

/// The outputs of all runs of a case.
fn outputs(case: &Case, program: &Program) -> Result<Vec<Tensor>, String> {
    let port = |(buffer, interface): &(_, graph::Interface)| Port {
        names: std::iter::once(&interface.name).chain(&interface.tensor_names).cloned().collect(),
        element: program.buffer(*buffer).element,
    };
    let ports: Vec<Port> = program.inputs.iter().map(port).collect();
    let mut interpreter = Interpreter::new(program)?;
    let runs: Result<Vec<Vec<Tensor>>, String> =
        (0..case.runs()).map(|step| interpreter.run(&case.inputs(&ports, step)?)).collect();
    Ok(runs?.concat())
}

/// What differs by more than rounding; `Ok(false)` if anything differs at all.
fn equal(got: &[Tensor], want: &[Tensor], tolerance: Tolerance) -> Result<bool, String> {
    let mut identical = got.len() == want.len();
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        if got.element == want.element && got.dims == want.dims && got.bytes.as_slice() == want.bytes.as_slice() {
            continue;
        }
        identical = false;
        let arrays = Array::from_tensor(got).zip(Array::from_tensor(want));
        let (got_array, want_array) = arrays.ok_or("an output that cannot be compared")?;
        if let Some(first) = compare(got.element, &got_array, &want_array, tolerance)?.first {
            return Err(format!("output {i}: {first}"));
        }
    }
    Ok(identical)
}

/// What a comparison finds.
#[derive(Clone, Copy, PartialEq)]
enum Found {
    Identical,
    Close,
    /// Strings, and results whose sizes only folding finds, give no program without it.
    NoProgram,
    TooLarge,
}

/// Compares the three programs of a case.
fn check(folder: &Path) -> Result<Found, String> {
    let case = Case::load(folder)?;
    let (source, options) = case.open(&Options::default()).map_err(|problems| problems.to_string())?;
    let Ok(program) = stages::program(&source, &options) else { return Ok(Found::NoProgram) };
    if emit::flops(&program) > OPERATIONS && !all_cases() {
        return Ok(Found::TooLarge);
    }
    let want = outputs(&case, &program)?;
    let mut identical = true;
    for count in [1, PASSES.len()] {
        let Ok(plain) = after(count, &source, &options) else { return Ok(Found::NoProgram) };
        let got = outputs(&case, &plain)?;
        let same = equal(&got, &want, case.tolerance);
        identical &= same.map_err(|problem| format!("after {count} graph passes: {problem}"))?;
    }
    Ok(if identical { Found::Identical } else { Found::Close })
}

fn cases() -> Vec<PathBuf> {
    let folders = |root: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        folders.sort();
        folders
    };
    let all = folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cases"));
    let step = if all_cases() { 1 } else { 3 };
    all.iter().flat_map(|family| folders(family).into_iter().step_by(step)).collect()
}

#[test]
fn passes_keep_the_numbers() {
    let cases = cases();
    assert!(cases.len() > 500, "the cases were not found");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<(&PathBuf, Result<Found, String>)> = std::thread::scope(|scope| {
        let part = |i: usize| {
            let mine: Vec<&PathBuf> = cases.iter().skip(i).step_by(threads).collect();
            scope.spawn(move || mine.into_iter().map(|case| (case, check(case))).collect::<Vec<_>>())
        };
        let parts: Vec<_> = (0..threads).map(part).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let wrong: Vec<String> = results
        .iter()
        .filter_map(|(case, result)| Some(format!("{}: {}", case.display(), result.as_ref().err()?)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    // Passes may change the order of sums and where a scale is multiplied, seldom more.
    let count = |found| results.iter().filter(|(_, result)| *result == Ok(found)).count();
    let (identical, close, without) = (count(Found::Identical), count(Found::Close), count(Found::NoProgram));
    assert!(identical > close * 9, "{identical} cases are identical bit by bit, {close} are not");
    assert!(without * 100 < results.len() * 2, "{without} of {} have no program", results.len());
    let large = count(Found::TooLarge);
    assert!(large * 100 < results.len() * 6, "{large} of {} are too large", results.len());
}
