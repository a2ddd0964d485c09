//! Writes a planned program as Rust: one function per distinct step, a typed interface, and the weights as a blob.

mod attention;
mod blocks;
mod call;
mod chain;
mod comments;
mod cost;
mod dims;
mod epilogue;
mod interface;
mod kernel;
mod module;
mod names;
mod nest;
mod nodes;
mod physical;
mod pieces;
mod print;
mod rows;
mod scalar;
mod short_rows;
mod split;
mod state;
mod steps;
mod transpose;
mod types;
mod views;

pub use cost::{flops, stack_bytes};
pub use interface::Field;
pub use names::snake_case;

use crate::diag::{Diagnostic, SourceText};
use crate::output::StepInfo;
use crate::plan::{Plan, weights_file};
use crate::program::Program;

/// How generated code reaches its weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsAccess {
    /// `include_bytes!` of this Rust expression: `"mnist.weights.bin"`, `concat!(env!("OUT_DIR"), "/mnist.weights.bin")`.
    Embedded(String),
    /// `.incbin` of this Rust expression of an absolute path: builds faster from some 16 MiB on.
    Incbin(String),
    /// The caller passes them to `run` (memory-mapped, loaded, or in a flash section).
    External,
}

/// What emission may be asked for.
#[derive(Clone, Debug)]
pub struct EmitOptions {
    /// Name of the module that wraps everything; `None` leaves the items bare, for a file that is a module itself.
    pub module: Option<String>,
    /// Where the weights are.
    pub weights: WeightsAccess,
    /// Path of the runtime crate.
    pub runtime: String,
    /// Names of the instruction sets (`Avx2`, ...) that may be used; empty for all.
    pub isas: Vec<String>,
    /// Whether one of them has vectors: else loops take less memory than kernels.
    pub vectors: bool,
    /// Emits the defining loops of every step instead of kernels.
    pub reference: bool,
    /// Path of a function that every step calls with its number before it runs.
    pub step_hook: Option<String>,
    /// The model's XML, for line numbers in comments.
    pub source: Option<SourceText>,
}

impl Default for EmitOptions {
    fn default() -> Self {
        EmitOptions {
            module: Some("model".to_owned()),
            weights: WeightsAccess::Embedded("\"model.weights.bin\"".to_owned()),
            runtime: "::include_ir".to_owned(),
            isas: Vec::new(),
            vectors: true,
            reference: false,
            step_hook: None,
            source: None,
        }
    }
}

/// Generated code and what belongs to it.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// Rust source.
    pub rust: String,
    /// The weights file (header and payload); `None` for a model without weights.
    pub weights: Option<Vec<u8>>,
    /// Fields of `Inputs`, in the order of the model's inputs.
    pub inputs: Vec<Field>,
    /// Fields of `Outputs`, in the order of the model's outputs.
    pub outputs: Vec<Field>,
    /// Whether `run` returns a `Result`.
    pub fallible: bool,
    /// Whether the model has state and therefore `reset()`.
    pub stateful: bool,
    /// All steps, in the order of the source text.
    pub steps: Vec<StepInfo>,
}

/// Emits a planned program; its constants move to the weights.
///
/// # Errors
/// Steps that cannot be emitted yet, all named at once; internal errors for plans that do not fit the program.
pub fn emit(program: &mut Program, plan: &Plan, options: &EmitOptions) -> Result<Emitted, Diagnostic> {
    let interface = interface::Interface::new(program, plan)?;
    let (rust, steps) = module::source(program, plan, options, &interface)?;
    let weights = weights_file(program, plan)?;
    Ok(Emitted {
        rust,
        steps,
        weights,
        fallible: interface.fallible,
        stateful: !(interface.states.is_empty() && program.state.hidden.is_empty()),
        inputs: interface.inputs,
        outputs: interface.outputs,
    })
}
