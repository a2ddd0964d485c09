//! The program that is timed: a compiled model and a server of requests.

use super::code_size::code_bytes;
use super::participant::Participant;
use crate::cli::verify::built::krate::{self, Crate};
use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::options::{Emit, Options, WeightsFile, WeightsMode};
use crate::output::Output;
use crate::source::Source;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A model built for timing.
pub struct Program {
    /// What the compiler says about it.
    pub output: Output,
    /// The executable.
    path: PathBuf,
    folder: PathBuf,
}

/// What a started program says about itself.
pub struct Start {
    /// Instruction set.
    pub isa: String,
    /// Nanoseconds to make the model, with weights in a file also to load and check them.
    pub load: f64,
    /// Nanoseconds of the first run.
    pub first: f64,
}

impl Program {
    /// Compiles; with a hook for the steps to a copy with weights of its own.
    ///
    /// # Errors
    /// Problems of the model.
    pub fn compile(source: &Source, options: &Options, krate: &Crate) -> Result<Output, Diagnostics> {
        let weights = weights(krate.folder(), options.step_hook.is_some());
        let mut options = options.clone();
        (options.emit, options.module) = (Emit::Rust, Some("model".to_owned()));
        options.weights_file = WeightsFile::At(weights.clone());
        let output = crate::compile(source, &options)?;
        if output.text.is_empty() || output.module.is_empty() {
            let message = "option `--stop-after` leaves nothing to time";
            return Err(Diagnostic::error(&codes::OPTION, message).into());
        }
        if !output.weights.is_empty() {
            crate::artifact::replace(&weights, &output.weights, None)?;
        }
        Ok(output)
    }

    /// Builds the model, and with `profiled` the same model that times its steps.
    ///
    /// # Errors
    /// The build fails.
    pub fn build(output: Output, profiled: Option<&Output>, options: &Options, krate: &Crate) -> Result<Self, String> {
        krate.write("src/timing.rs", include_bytes!("timing.rs"))?;
        let mut main = String::from("//! Times a model.\n");
        for module in ["harness", "timing", "timed"].into_iter().chain(profiled.map(|_| "profiled")) {
            let _ = writeln!(main, "#[path = \"../{module}.rs\"]\nmod {module};");
        }
        krate.write("src/timed.rs", module(&output, options, krate)?.as_bytes())?;
        let mut other = "Err(\"no profile\".to_owned())";
        if let Some(profiled) = profiled {
            krate.write("src/profiled.rs", module(profiled, options, krate)?.as_bytes())?;
            other = "profiled::serve(io, isas)";
        }
        let isas: Vec<String> = options.isa.members().iter().map(|isa| format!("include_ir::Isa::{isa:?}")).collect();
        let _ = write!(
            main,
            "fn main() {{\n    let isas = &[{}];\n    let arguments: Vec<String> = std::env::args().collect();\n    \
             let result = harness::Io::open(&arguments[1]).and_then(|mut io| {{\n        let io = &mut io;\n        \
             if arguments[2] == \"timed\" {{ timed::serve(io, isas) }} else {{ {other} }}\n    }});\n    \
             if let Err(problem) = result {{ timing::say(&format!(\"error {{problem}}\")); }}\n}}\n",
            isas.join(", ")
        );
        let path = krate.program(&main)?;
        Ok(Program { output, path, folder: krate.folder().to_owned() })
    }

    /// The program in a new process, ready to run: the model, or with `profiled` its profiled copy.
    ///
    /// # Errors
    /// The model cannot be run.
    pub fn start(&self, profiled: bool) -> Result<(Participant, Start), String> {
        self.start_as(Command::new(&self.path), if profiled { "profiled" } else { "timed" })
    }

    /// Instructions of one run, counted by valgrind.
    ///
    /// # Errors
    /// There is no valgrind, or the model cannot be run in it.
    pub fn instructions(&self) -> Result<u64, String> {
        let count = |runs: usize| {
            let mut command = Command::new("valgrind");
            let out = self.folder.join("callgrind.out");
            command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display())).arg(&self.path);
            let (mut program, _) = self.start_as(command, "timed")?;
            program.run(runs)?;
            let text = program.finish();
            let line = text.lines().find_map(|line| line.split_once("Collected : "));
            let count = line.and_then(|(_, count)| count.trim().parse::<u64>().ok());
            count.ok_or_else(|| "valgrind does not say how many instructions ran".to_owned())
        };
        Ok(count(5)?.saturating_sub(count(1)?) / 4)
    }

    fn start_as(&self, mut command: Command, mode: &str) -> Result<(Participant, Start), String> {
        command.arg(self.folder.join("inputs")).arg(mode);
        let (participant, ready) = Participant::start("include-ir", &mut command)?;
        let mut words = ready.split_whitespace();
        let isa = words.next().unwrap_or_default().to_owned();
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
        Ok((participant, Start { isa, load: number(), first: number() }))
    }

    /// Bytes of machine code, if the executable tells.
    pub fn code_bytes(&self) -> Option<u64> {
        code_bytes(&self.path)
    }
}

fn weights(folder: &Path, profiled: bool) -> PathBuf {
    folder.join(if profiled { "profiled.weights.bin" } else { "timed.weights.bin" })
}

/// The module of a model and the function that serves it.
fn module(output: &Output, options: &Options, krate: &Crate) -> Result<String, String> {
    let (bindings, inputs) = krate::inputs(output)?;
    let threads = krate.threads();
    let (module, text) = (&output.module, &output.text);
    let external = options.weights == WeightsMode::External && !output.weights.is_empty();
    let mut body = bindings;
    body.push_str("        let start = std::time::Instant::now();\n");
    if external {
        let _ = writeln!(
            body,
            "        let file = include_ir::mapped::MappedFile::open(std::path::Path::new({:?})).map_err(|e| e.to_string())?;\n        \
             let weights = {module}::Weights::from_bytes(file.bytes()).map_err(|e| e.to_string())?;",
            weights(krate.folder(), false)
        );
    }
    let _ = writeln!(body, "        let mut model = {module}::Model::boxed();\n        let load = start.elapsed();");
    if threads > 1 {
        let _ = writeln!(body, "        model.set_threads({threads});");
    }
    body.push_str("        timing::serve(load, isas, || {\n");
    if output.stateful {
        body.push_str("            model.reset();\n");
    }
    body.push_str("            let mut problem = None;\n");
    let arguments: Vec<&str> =
        external.then_some("weights").into_iter().chain((!inputs.is_empty()).then_some(inputs.as_str())).collect();
    let arguments = arguments.join(", ");
    let keep = if output.fallible { ".map_err(|error| problem = Some(error.to_string())).ok()" } else { "" };
    let _ = writeln!(
        body,
        "            let time = timing::clock(|| {{ std::hint::black_box(model.run({arguments}){keep}); }});\n            \
         match problem {{ None => Ok(time), Some(problem) => Err::<_, String>(problem) }}\n        }})"
    );
    Ok(format!(
        "{text}\nuse super::harness::Io;\nuse super::timing;\n\n/// Times the model.\n\
         pub fn serve(io: &mut Io, isas: &[include_ir::Isa]) -> Result<(), String> {{\n{body}}}\n"
    ))
}
