//! What a compilation produces: text, weights, warnings, sizes and times.

use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::element::ElementType;
use std::time::Duration;

/// The result of a compilation.
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The Rust module, or the text form of the stage that was asked for.
    pub text: String,
    /// Contents of the weights file with its header; empty where the model has no weights or the text is not Rust.
    pub weights: Vec<u8>,
    /// Name of the weights file, where [`crate::options::WeightsFile::Beside`] leaves it to the compiler.
    pub weights_name: String,
    /// Name of the generated module.
    pub module: String,
    /// Inputs, in the order of the IR.
    pub inputs: Vec<Port>,
    /// Outputs, in the order of the IR; additional ones last.
    pub outputs: Vec<Port>,
    /// Whether `run` returns a `Result`: something is known at run time only.
    pub fallible: bool,
    /// Whether the model has state and therefore `reset()`.
    pub stateful: bool,
    /// Problems that did not stop the compilation.
    pub warnings: Diagnostics,
    /// Sizes, for reports.
    pub sizes: Sizes,
    /// The steps of one run in the order of the source text, those of loops and branches included.
    pub steps: Vec<StepInfo>,
    /// How long each pass took, in order; empty unless [`crate::Options::time_passes`] is set.
    pub times: Vec<PassTime>,
}

/// Sizes of a compiled model, in bytes unless said otherwise.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Arena.
    pub arena: usize,
    /// The largest sum of simultaneously live buffers: no plan can do with less.
    pub peak_live: usize,
    /// State that survives from run to run.
    pub state: usize,
    /// Packed weights.
    pub weights: usize,
    /// Steps of one run.
    pub steps: usize,
    /// Floating-point operations of one run, a multiply-add counted as two.
    pub flops: u64,
}

/// One step of a compiled model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepInfo {
    /// What computes it: `contraction`, `depthwise`, `max`, `sum`, `nest`, `copy`, or the name of a function.
    pub kind: &'static str,
    /// Layers, shapes and line in the XML.
    pub text: String,
    /// Arithmetic operations of one execution, a multiply-add counted as two, at the bounds of run-time sizes.
    pub flops: u64,
    /// Whether they are fewer where such sizes are less.
    pub at_most: bool,
}

/// The time of one pass.
#[derive(Clone, Copy, Debug)]
pub struct PassTime {
    /// Name of the pass or stage.
    pub pass: &'static str,
    /// Wall-clock time.
    pub time: Duration,
}

/// An input or output as generated code spells it: what a program needs that calls the module without knowing the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Field of `Inputs` or `Outputs`.
    pub field: String,
    /// Name of the Parameter or Result layer.
    pub name: String,
    /// Tensor names.
    pub tensor_names: Vec<String>,
    /// Element type.
    pub element: ElementType,
    /// Dimensions; those that are not constant become run-time sizes of the call.
    pub dims: Vec<Dim>,
}
