//! The stages up to a point: what `--emit`, `--stop-after` and the interpreter need of the pipeline.

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::graph::Graph;
use crate::options::{Emit, Options};
use crate::output::{Output, PassTime};
use crate::passes;
use crate::program::Program;
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
