//! `irc bench`: times a compiled model, alone or against installed engines, in alternating rounds.

mod code_size;
mod cpus;
mod inputs;
mod participant;
mod program;
mod table;

use super::arguments::OptionArguments;
use super::npz::{self, Array, Arrays};
use super::verify::{Case, Port, built};
use super::{Failure, Reporter, open, print};
use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::options::{Isa, IsaSet, Options};
use crate::output::Output;
use clap::{Args, ValueEnum};
use participant::Participant;
use program::{Program, Start};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `irc bench`.
#[derive(Args, Debug)]
pub struct BenchArguments {
    /// The model: an .xml file.
    model: PathBuf,
    /// Engines to compare with, which must be installed for Python: their times over ours are the ratios. OpenVINO is kept
    /// to the instruction sets that `--isa` allows, where these are AVX2 or SSE2 (then SSE4.1).
    #[arg(long, value_name = "ENGINE,..", value_delimiter = ',')]
    against: Vec<Engine>,
    /// A program that takes part, with its arguments, divided at spaces; may be repeated. It says `ready NAME` on a line, and
    /// answers every line `run N` with `run` and the nanoseconds of N runs.
    #[arg(long = "program", value_name = "COMMAND")]
    programs: Vec<String>,
    /// Python with the engines.
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// The model for ONNX Runtime. Default: the .onnx file beside the model.
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
    /// Inputs: arrays named in0, in1, ... or like the tensors. Default: random numbers; integers are 0 or 1, run-time
    /// sizes are at their bounds.
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
    /// Runs of every participant, in up to ten rounds. Default: what fits into `--seconds`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Time for every participant where `--runs` is not given.
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// Rows of the table of steps; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 20)]
    steps: usize,
    /// Count the instructions of one run with valgrind, which knows no AVX-512, instead of measuring times: numbers that
    /// are the same on busy machines.
    #[arg(long, conflicts_with_all = ["against", "programs"])]
    instructions: bool,
    /// Write one JSON object and no tables; - for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    build: built::BuildArguments,
    #[command(flatten)]
    options: OptionArguments,
}

/// Engines to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Openvino,
    Onnxruntime,
}

/// Rounds in which the participants take turns, because machines are shared and their speed drifts.
const ROUNDS: usize = 10;

/// What was measured once.
struct Measured {
    model: String,
    threads: usize,
    program: Program,
    start: Start,
    /// Most bytes of memory that the process with our model had in use.
    memory: Option<u64>,
}

fn wrong(problem: impl Into<String>) -> Diagnostic {
    Diagnostic::error(&codes::OPTION, problem)
}

/// Runs the command.
pub fn bench(arguments: BenchArguments, reporter: &Reporter) -> Result<(), Failure> {
    let options = &arguments.options.options;
    let source = open(&arguments.model, options)?;
    let krate = built::krate::Crate::new(&arguments.build).map_err(wrong)?;
    let output = Program::compile(&source, options, &krate)?;
    reporter.report(&output.warnings);
    let names = write_inputs(&arguments, &output, &krate)?;
    let tables = arguments.json.is_none() && !arguments.instructions;
    let profiled = match tables && arguments.steps > 0 {
        true => {
            let mut options = options.clone();
            options.step_hook = Some("crate::timing::step".to_owned());
            Some(Program::compile(&source, &options, &krate)?)
        }
        false => None,
    };
    let program = Program::build(output, profiled.as_ref(), options, &krate).map_err(wrong)?;
    if arguments.instructions {
        return count_instructions(&arguments, &program);
    }
    cpus::share(arguments.build.threads());
    let (ours, start) = program.start(false).map_err(wrong)?;
    let mut participants = vec![ours];
    for engine in &arguments.against {
        participants.push(peer(*engine, &arguments, &names, krate.folder())?);
    }
    for command in &arguments.programs {
        participants.push(other(command)?);
    }
    take_turns(&mut participants, &arguments).map_err(wrong)?;
    let memory = participants.first_mut().and_then(|ours| ours.numbers("memory").ok()?.first().copied());
    let memory = memory.filter(|bytes| *bytes > 0.0).map(|bytes| bytes as u64);
    let model = stem(&arguments.model);
    let measured = Measured { model, threads: arguments.build.threads(), program, start, memory };
    report(&arguments, &measured, participants, profiled.is_some())
}

fn stem(model: &Path) -> String {
    model.file_stem().unwrap_or(model.as_os_str()).to_string_lossy().into_owned()
}

fn count_instructions(arguments: &BenchArguments, program: &Program) -> Result<(), Failure> {
    let instructions = program.instructions().map_err(|problem| {
        let missing = problem.starts_with("cannot start");
        if missing { wrong(problem).help("install valgrind") } else { wrong(problem) }
    })?;
    let (model, code) = (stem(&arguments.model), program.code_bytes());
    if let Some(file) = &arguments.json {
        let threads = arguments.build.threads();
        let value = json!({
            "model": model, "threads": threads, "instructions": instructions, "code_bytes": code,
        });
        return write_json(file, &value);
    }
    print(&format!("{model}: {instructions} instructions\n"))
}

fn write_json(file: &Path, value: &serde_json::Value) -> Result<(), Failure> {
    let line = format!("{value}\n");
    if file == Path::new("-") {
        return print(&line);
    }
    crate::artifact::replace(file, line.as_bytes(), None)?;
    Ok(())
}

/// Writes the inputs for all participants; gives the names of each.
fn write_inputs(
    arguments: &BenchArguments,
    output: &Output,
    krate: &built::krate::Crate,
) -> Result<serde_json::Value, Diagnostics> {
    let arrays: Arrays = match &arguments.inputs {
        Some(path) => npz::read(path).map_err(|problem| Diagnostic::error(&codes::IO, problem))?,
        None => inputs::random(&output.inputs).map_err(wrong)?,
    };
    let ports: Vec<Port> = built::ports(&output.inputs);
    let case = Case::without_expectation("bench", arrays);
    let tensors = case.inputs(&ports, 0).map_err(|problem| match &arguments.inputs {
        Some(path) => wrong(problem.replace("inputs.npz", &path.display().to_string())),
        None => wrong(problem),
    })?;
    let mut bytes = Vec::new();
    tensors.iter().for_each(|tensor| built::tensors::write(&mut bytes, tensor));
    krate.write("inputs", &bytes).map_err(wrong)?;
    let arrays: Vec<(String, Array)> = tensors
        .iter()
        .enumerate()
        .filter_map(|(i, tensor)| Some((format!("in{i}"), Array::from_tensor(tensor)?)))
        .collect();
    npz::write(&krate.folder().join("inputs.npz"), &arrays).map_err(wrong)?;
    Ok(ports.iter().enumerate().map(|(i, port)| (format!("in{i}"), json!(port.names))).collect())
}

/// An engine with the model.
fn peer(
    engine: Engine,
    arguments: &BenchArguments,
    names: &serde_json::Value,
    folder: &Path,
) -> Result<Participant, Diagnostic> {
    let (word, title) = match engine {
        Engine::Openvino => ("openvino", "OpenVINO"),
        Engine::Onnxruntime => ("onnxruntime", "ONNX Runtime"),
    };
    let options: &Options = &arguments.options.options;
    let onnx = arguments.onnx.clone().unwrap_or_else(|| arguments.model.with_extension("onnx"));
    if engine == Engine::Onnxruntime && !onnx.is_file() {
        let problem = format!("ONNX Runtime needs the model as ONNX, and `{}` does not exist", onnx.display());
        return Err(wrong(problem).help("give `--onnx FILE`"));
    }
    let values: serde_json::Map<String, serde_json::Value> =
        options.value.iter().map(|value| (value.input.clone(), json!(value.numbers))).collect();
    let job = json!({
        "engine": word, "model": arguments.model, "bin": options.bin, "onnx": onnx, "threads": arguments.build.threads(),
        "inputs": folder.join("inputs.npz"), "names": names, "values": values,
    });
    let mut command = Command::new(&arguments.python);
    command.arg("-c").arg(include_str!("bench/peers.py")).arg(job.to_string());
    let limit = limit(engine, &options.isa);
    command.envs(limit);
    let started = Participant::start(title, &mut command);
    let (mut peer, name) = started.map_err(|problem| {
        let missing = problem.contains("ModuleNotFoundError") || problem.starts_with("cannot start");
        let help = format!("`--python PATH` selects a Python with {title}; `pip install {word} numpy` installs it");
        if missing { wrong(problem).help(help) } else { wrong(problem) }
    })?;
    peer.name = limit.map_or_else(|| name.clone(), |(_, isa)| format!("{name}, {isa}"));
    Ok(peer)
}

/// A program of the user's.
fn other(command: &str) -> Result<Participant, Diagnostic> {
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { return Err(wrong("option `--program` names no program")) };
    let (mut participant, name) = Participant::start(program, Command::new(program).args(words)).map_err(wrong)?;
    participant.name = name;
    Ok(participant)
}

/// The variable that keeps an engine from larger instruction sets than ours may use, where it has one.
fn limit(engine: Engine, isas: &IsaSet) -> Option<(&'static str, &'static str)> {
    let isa = match isas.members().iter().max()? {
        Isa::Avx2 => "AVX2",
        Isa::Sse2 => "SSE41",
        _ => return None,
    };
    (engine == Engine::Openvino).then_some(("ONEDNN_MAX_CPU_ISA", isa))
}

/// Rounds of runs until all are done.
fn take_turns(participants: &mut [Participant], arguments: &BenchArguments) -> Result<(), String> {
    let mut counts = Vec::new();
    for one in participants.iter_mut() {
        let runs = match arguments.runs {
            Some(runs) => runs as usize,
            None => {
                one.run(2)?;
                let time = one.times.drain(..).fold(f64::MAX, f64::min).max(1.0);
                (arguments.seconds.max(0.0) * 1e9 / time).clamp(10.0, 20_000.0) as usize
            }
        };
        counts.push(runs);
    }
    for round in 0..ROUNDS {
        for (one, runs) in participants.iter_mut().zip(&counts) {
            let count = runs * (round + 1) / ROUNDS - runs * round / ROUNDS;
            if count > 0 {
                one.run(count)?;
            }
        }
    }
    Ok(())
}

fn report(
    arguments: &BenchArguments,
    measured: &Measured,
    participants: Vec<Participant>,
    profiled: bool,
) -> Result<(), Failure> {
    if let Some(file) = &arguments.json {
        return write_json(file, &table::json(measured, &participants));
    }
    print(&table::times(measured, &participants))?;
    // Nothing else runs while steps are timed.
    drop(participants);
    if !profiled {
        return Ok(());
    }
    let profile = || -> Result<String, String> {
        let (mut program, _) = measured.program.start(true)?;
        program.run(3)?;
        let least = program.times.iter().copied().fold(f64::MAX, f64::min).max(1.0);
        program.run((1e9 / least).clamp(5.0, 2000.0) as usize)?;
        let numbers = program.numbers("steps")?;
        let times: Vec<(f64, f64)> = numbers.as_chunks::<2>().0.iter().map(|[time, count]| (*time, *count)).collect();
        let peak = program.numbers(&format!("peak {}", measured.threads))?.first().copied().unwrap_or(0.0);
        Ok(table::steps(&measured.program.output.steps, &times, peak, arguments.steps))
    };
    print(&profile().map_err(wrong)?)
}
