//! The stages up to a point: what `--emit`, `--stop-after` and the interpreter need of the pipeline.

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::emit::{self, EmitOptions, WeightsAccess};
use crate::graph::{Graph, Interface};
use crate::options::{Emit, Kernels, Options, WeightsFile, WeightsMode};
use crate::output::{Output, PassTime, Port, Sizes};
use crate::passes;
use crate::plan::{self, Plan};
use crate::program::{BufferId, Program};
use crate::source::Source;
use std::time::Instant;

/// A compilation in progress: problems and times gathered so far.
#[derive(Debug)]
pub struct Compilation<'a> {
    /// The model.
    pub source: &'a Source,
    /// What was asked for.
    pub options: &'a Options,
    /// Problems found so far.
    pub diagnostics: Diagnostics,
    /// Time of every pass and stage so far.
    pub times: Vec<PassTime>,
}

/// A stage's form, or the text to stop with.
pub enum Stage<T> {
    /// Go on.
    Done(T),
    /// The pass to stop after has run, or this stage's text form was asked for.
    Stopped(String),
}

impl<'a> Compilation<'a> {
    /// Starts a compilation.
    pub fn new(source: &'a Source, options: &'a Options) -> Self {
        let mut diagnostics = Diagnostics::default();
        diagnostics.set_source(source.text());
        Compilation { source, options, diagnostics, times: Vec::new() }
    }

    /// Runs one stage under the clock.
    pub fn stage<T>(&mut self, name: &'static str, run: impl FnOnce(&mut Self) -> T) -> T {
        let start = Instant::now();
        let result = run(self);
        if self.options.time_passes {
            self.times.push(PassTime { pass: name, time: start.elapsed() });
        }
        result
    }

    /// read, build, graph: the graph after its passes.
    ///
    /// # Errors
    /// All problems of the first stage that has one.
    pub fn graph(&mut self) -> Result<Stage<Graph>, Diagnostics> {
        self.check_stop_after()?;
        let net = self.stage("read", |c| crate::read::read(c.source, &mut c.diagnostics));
        let net = self.checked(net)?;
        let graph = self.stage("build", |c| crate::build::build(&net, c.source, c.options, &mut c.diagnostics));
        let mut graph = self.checked(graph)?;
        let verify = crate::graph::verify;
        let (options, diagnostics) = (self.options, &mut self.diagnostics);
        let all = passes::run(passes::graph::PASSES, &mut graph, verify, options, diagnostics, &mut self.times);
        self.checked(Some(()))?;
        match all && self.options.emit != Emit::Graph {
            true => Ok(Stage::Done(graph)),
            false => Ok(Stage::Stopped(graph.to_string())),
        }
    }

    /// lower, program: the loop program after its passes.
    ///
    /// # Errors
    /// All problems of the first stage that has one.
    pub fn program(&mut self) -> Result<Stage<Program>, Diagnostics> {
        let graph = match self.graph()? {
            Stage::Done(graph) => graph,
            Stage::Stopped(text) => return Ok(Stage::Stopped(text)),
        };
        let program = self.stage("lower", |c| crate::lower::lower(&graph, &mut c.diagnostics));
        let mut program = self.checked(program)?;
        drop(graph);
        let verify = crate::program::verify;
        let (options, diagnostics) = (self.options, &mut self.diagnostics);
        let all = passes::run(passes::program::PASSES, &mut program, verify, options, diagnostics, &mut self.times);
        self.checked(Some(()))?;
        match all && self.options.emit != Emit::Program {
            true => Ok(Stage::Done(program)),
            false => Ok(Stage::Stopped(program.to_string())),
        }
    }

    /// plan: the place of everything.
    ///
    /// # Errors
    /// Sizes without bound, and what cannot be placed.
    pub fn plan(&mut self, program: &Program) -> Result<Stage<Plan>, Diagnostics> {
        let planned = self.stage("plan", |_| plan::plan(program, &plan::PlanOptions::default()));
        let plan = self.checked_result(planned)?;
        let verified = plan::verify(program, &plan).map_err(Diagnostic::internal);
        self.checked_result(verified)?;
        match self.options.emit == Emit::Plan {
            true => Ok(Stage::Stopped(plan.table(program).to_string())),
            false => Ok(Stage::Done(plan)),
        }
    }

    /// emit: Rust source and weights file.
    ///
    /// # Errors
    /// Steps that cannot be emitted.
    pub fn emit(mut self, mut program: Program, plan: &Plan) -> Result<Output, Diagnostics> {
        let module = self.options.module.clone().unwrap_or_else(|| self.source.stem());
        let module = emit::snake_case(&module, "model");
        let weights_name = match &self.options.weights_file {
            WeightsFile::Beside(Some(name)) | WeightsFile::InPackage { name: Some(name), .. } => name.clone(),
            _ => format!("{module}.weights.bin"),
        };
        let options = EmitOptions {
            module: Some(module.clone()),
            weights: weights_access(self.options, &weights_name, plan.weight_bytes),
            isas: self.options.isa.members().iter().map(|isa| format!("{isa:?}")).collect(),
            vectors: self.options.isa.has_vectors(),
            reference: self.options.kernels == Kernels::Reference,
            source: Some(self.source.text()),
            step_hook: self.options.step_hook.clone(),
            ..EmitOptions::default()
        };
        let emitted = self.stage("emit", |_| emit::emit(&mut program, plan, &options));
        let emitted = self.checked_result(emitted)?;
        let sizes = Sizes {
            arena: plan.arena_bytes,
            peak_live: plan.peak_live_bytes,
            state: plan.state_bytes,
            weights: plan.weight_bytes,
            steps: program.root.steps.len(),
            flops: emit::flops(&program),
        };
        let (text, weights) = (emitted.rust, emitted.weights.unwrap_or_default());
        Ok(Output {
            text,
            weights,
            weights_name,
            module,
            inputs: ports(&emitted.inputs, &program.inputs),
            outputs: ports(&emitted.outputs, &program.outputs),
            fallible: emitted.fallible,
            stateful: emitted.stateful,
            steps: emitted.steps,
            warnings: self.diagnostics,
            sizes,
            times: self.times,
        })
    }

    fn checked_result<T>(&mut self, result: Result<T, Diagnostic>) -> Result<T, Diagnostics> {
        match result {
            Ok(value) => self.checked(Some(value)),
            Err(diagnostic) => {
                self.diagnostics.push(diagnostic);
                Err(std::mem::take(&mut self.diagnostics))
            }
        }
    }

    /// The value of a stage without errors, else all diagnostics.
    ///
    /// # Errors
    /// The diagnostics, if one of them is an error.
    pub fn checked<T>(&mut self, value: Option<T>) -> Result<T, Diagnostics> {
        if !self.diagnostics.has_errors() {
            if let Some(value) = value {
                return Ok(value);
            }
            self.diagnostics.push(Diagnostic::error(&codes::INTERNAL, "a stage failed without a message"));
        }
        Err(std::mem::take(&mut self.diagnostics))
    }

    /// The output that stops early with a text form.
    pub fn stopped(self, text: String) -> Output {
        Output { text, warnings: self.diagnostics, times: self.times, ..Output::default() }
    }

    fn check_stop_after(&mut self) -> Result<(), Diagnostics> {
        let Some(name) = &self.options.stop_after else { return Ok(()) };
        let known: Vec<&str> = pass_names().collect();
        if !known.contains(&name.as_str()) {
            let message = format!("option `stop_after` names {}, which is no pass", crate::diag::quote(name));
            let help = format!("the passes are {}", known.join(", "));
            self.diagnostics.push(Diagnostic::error(&codes::OPTION, message).help(help));
        }
        self.checked(Some(()))
    }
}

fn ports(fields: &[emit::Field], list: &[(BufferId, Interface)]) -> Vec<Port> {
    let port = |(field, (_, interface)): (&emit::Field, &(BufferId, Interface))| Port {
        field: field.name.clone(),
        name: interface.name.clone(),
        tensor_names: interface.tensor_names.clone(),
        element: field.element,
        dims: field.dims.clone(),
    };
    fields.iter().zip(list).map(port).collect()
}

/// Embedded weights above this size go through the assembler, which is faster than `include_bytes!` for the user's build.
const INCLUDE_BYTES_LIMIT: usize = 16 << 20;

fn weights_access(options: &Options, name: &str, bytes: usize) -> WeightsAccess {
    match (&options.weights, &options.weights_file) {
        (WeightsMode::External, _) => WeightsAccess::External,
        (_, WeightsFile::Beside(_)) => WeightsAccess::Embedded(format!("{name:?}")),
        (_, WeightsFile::InPackage { folder, .. }) if bytes > INCLUDE_BYTES_LIMIT => {
            let path: String =
                ["", folder, name].iter().filter(|p| !p.is_empty()).map(|part| format!("/{part}")).collect();
            WeightsAccess::Incbin(format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?})"))
        }
        (_, WeightsFile::InPackage { .. }) => WeightsAccess::Embedded(format!("{name:?}")),
        (_, WeightsFile::At(path)) => {
            let path = format!("{:?}", path.to_string_lossy());
            if bytes > INCLUDE_BYTES_LIMIT { WeightsAccess::Incbin(path) } else { WeightsAccess::Embedded(path) }
        }
    }
}

/// Names of all passes, in order.
pub fn pass_names() -> impl Iterator<Item = &'static str> {
    let graph = passes::graph::PASSES.iter().map(|pass| pass.name);
    graph.chain(passes::program::PASSES.iter().map(|pass| pass.name))
}

/// The loop program of a model after all passes, for interpretation.
///
/// # Errors
/// All problems of the first stage that has one.
pub fn program(source: &Source, options: &Options) -> Result<Program, Diagnostics> {
    let mut compilation = Compilation::new(source, options);
    match compilation.program()? {
        Stage::Done(program) => Ok(program),
        Stage::Stopped(_) => {
            let message = "the options stop the compilation before there is a program";
            Err(Diagnostic::error(&codes::OPTION, message).into())
        }
    }
}
