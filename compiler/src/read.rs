//! Reads OpenVINO IR v10 and v11 into [`Net`]s: raw layers, attributes, ports and edges with their places.

pub mod attributes;
mod body;
mod constant;
mod edges;
mod fields;
mod layer;
mod net;
pub mod number;
mod order;
mod pre_process;
pub mod shape;
mod state;
mod xml;

pub use attributes::Attributes;
pub use constant::{Constant, Location};
pub use pre_process::{Mean, PreProcess};
pub use shape::{DimRange, Dims};

use crate::diag::{Diagnostic, Diagnostics, Span, codes, quote};
use crate::element::ElementType;
use crate::source::Source;

/// Sub-graphs inside sub-graphs: more levels than this are refused.
pub const NESTING_LIMIT: usize = 64;

/// A graph as the file describes it: the whole model, or the body of a layer.
#[derive(Clone, Debug, Default)]
pub struct Net {
    /// The name of the model; empty for bodies.
    pub name: String,
    /// 10 or 11.
    pub version: u32,
    /// Version 10: inputs and outputs get the types that users of the model expect, see [`Net::legacy_input_type`]
    /// and [`Net::legacy_output_type`].
    pub legacy_io: bool,
    /// All layers in file order, also those that nothing depends on.
    pub layers: Vec<Layer>,
    /// The model inputs: layers of type `Parameter` in file order, unused ones too.
    pub parameters: Vec<usize>,
    /// The model outputs: layers of type `Result` in file order.
    pub results: Vec<usize>,
    /// Layers of type `Assign` in file order.
    pub sinks: Vec<usize>,
    /// Layers to compute, each behind its inputs: the parameters, then what results and sinks depend on.
    pub order: Vec<usize>,
    /// Mean values to subtract from inputs.
    pub pre_process: Vec<PreProcess>,
    /// The `<net>` or body element.
    pub span: Span,
}

/// One `<layer>`.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// The `id`, unique in its net.
    pub id: u64,
    /// The friendly name; not unique.
    pub name: String,
    /// The operation: `type` with the spellings of the file format translated (`Const` is `Constant`, ...).
    pub kind: String,
    /// The attribute `version`: `opset1`, ...
    pub opset: String,
    /// The start tag.
    pub span: Span,
    /// The value of `type`.
    pub type_span: Span,
    /// The value of `version`.
    pub opset_span: Span,
    /// The attributes of the first `<data>`, in file order.
    pub attributes: Vec<Attribute>,
    /// Whether there is a `<data>` at all.
    pub has_data: bool,
    /// What is connected to each input; its length is the number of inputs.
    pub inputs: Vec<Input>,
    /// Declared input ports.
    pub input_ports: Vec<Port>,
    /// Declared output ports.
    pub output_ports: Vec<Port>,
    /// Names of the model output, for a `Result`.
    pub output_names: Vec<String>,
    /// The value of a `Constant` that is part of [`Net::order`].
    pub constant: Option<Constant>,
    /// Sub-graphs of `If` (then, else), `Loop` and `TensorIterator`, if the layer is part of [`Net::order`].
    pub bodies: Vec<Body>,
}

/// One attribute of a `<data>` element.
#[derive(Clone, Debug, Default)]
pub struct Attribute {
    /// The name.
    pub name: String,
    /// The decoded value.
    pub value: String,
    /// Where the name stands.
    pub name_span: Span,
    /// Where the value stands.
    pub value_span: Span,
}

/// The source of one input of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Input {
    /// Index of the producing layer in [`Net::layers`].
    pub layer: usize,
    /// Which of its outputs, from 0.
    pub port: usize,
    /// The edge.
    pub span: Span,
}

/// A declared port. Types and shapes are inferred again, so these are only for messages and names.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// The label that edges use.
    pub id: u64,
    /// The declared element type; `None` on inputs and where it is not specified.
    pub precision: Option<ElementType>,
    /// The declared dimensions, -1 for unknown ones.
    pub dims: Vec<i64>,
    /// Tensor names, in file order.
    pub names: Vec<String>,
    /// The layout of version 11 files, such as `[N,C,H,W]`.
    pub layout: Option<String>,
    /// The start tag.
    pub span: Span,
}

/// Which sub-graph of a layer a body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyRole {
    /// The only one, of `Loop` and `TensorIterator`.
    Iteration,
    /// The one of `If` that runs when the condition is true.
    Then,
    /// The one of `If` that runs when the condition is false.
    Else,
}

/// A sub-graph and how it is wired to the layer that holds it.
#[derive(Clone, Debug)]
pub struct Body {
    /// Which sub-graph.
    pub role: BodyRole,
    /// Its graph.
    pub net: Net,
    /// Where each Parameter of the body gets its value from, sorted by the index of the outer input.
    pub inputs: Vec<BodyInput>,
    /// What becomes of Results of the body, sorted by the index of the outer output.
    pub outputs: Vec<BodyOutput>,
    /// Which Result of one iteration becomes which Parameter of the next.
    pub back_edges: Vec<BackEdge>,
    /// The element that holds the body.
    pub span: Span,
}

/// The initial or per-iteration value of one Parameter of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyInput {
    /// Index of the input of the outer layer; `None` only for the iteration counter.
    pub external: Option<usize>,
    /// Position in the body's [`Net::parameters`].
    pub parameter: usize,
    /// The Parameter gets one part per iteration.
    pub slice: Option<Slice>,
    /// The Parameter is the iteration counter.
    pub current_iteration: bool,
    /// The element of the port map.
    pub span: Span,
}

/// The use of one Result of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodyOutput {
    /// Index of the output of the outer layer; `None` if the result is only used inside.
    pub external: Option<usize>,
    /// Position in the body's [`Net::results`].
    pub result: usize,
    /// The results of all iterations are concatenated; otherwise the last one is the output.
    pub concat: Option<Slice>,
    /// The Result tells whether another iteration follows.
    pub execution_condition: bool,
    /// The element of the port map.
    pub span: Span,
}

/// How a tensor is cut into iterations, or put together from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The axis, negative ones count from the back.
    pub axis: i64,
    /// First element, negative ones count from the back (-1 is the last).
    pub start: i64,
    /// Last element, counted like `start`.
    pub end: i64,
    /// Step, negative to go backwards, never 0.
    pub stride: i64,
    /// Elements per iteration.
    pub part_size: i64,
}

/// A value carried from one iteration to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackEdge {
    /// Position in the body's [`Net::results`].
    pub result: usize,
    /// Position in the body's [`Net::parameters`].
    pub parameter: usize,
    /// The element.
    pub span: Span,
}

impl Net {
    /// The element type in which users pass an input of declared type `element`.
    pub fn legacy_input_type(&self, element: ElementType) -> ElementType {
        match element {
            ElementType::F16 if self.legacy_io => ElementType::F32,
            other => other,
        }
    }

    /// The element type in which users get an output of inferred type `element`.
    pub fn legacy_output_type(&self, element: ElementType) -> ElementType {
        use ElementType::{F32, I32, I64, U32, U64};
        match element {
            other if !self.legacy_io => other,
            I32 | I64 | U32 | U64 => I32,
            _ => F32,
        }
    }

    /// The names under which the input at this position of [`Net::parameters`] is known.
    pub fn input_names(&self, position: usize) -> Vec<&str> {
        let layer = self.parameters.get(position).and_then(|&i| self.layers.get(i));
        let mut names = layer.map_or(Vec::new(), |layer| layer.tensor_names(0));
        if let Some(layer) = layer
            && self.legacy_io
            && !names.contains(&layer.name.as_str())
        {
            names.push(&layer.name);
        }
        names
    }

    /// The names under which the output at this position of [`Net::results`] is known.
    pub fn output_names(&self, position: usize) -> Vec<&str> {
        let result = self.results.get(position).and_then(|&i| self.layers.get(i));
        let Some(result) = result else {
            return Vec::new();
        };
        if !result.output_names.is_empty() {
            return result.output_names.iter().map(String::as_str).collect();
        }
        let Some(input) = result.inputs.first() else {
            return Vec::new();
        };
        let Some(producer) = self.layers.get(input.layer) else {
            return Vec::new();
        };
        let mut names = producer.tensor_names(input.port);
        if self.legacy_io && producer.output_ports.len() == 1 && !names.contains(&producer.name.as_str()) {
            names.push(&producer.name);
        }
        names
    }
}

impl Layer {
    /// Whether the operation has this name; the opsets compare without case.
    pub fn is(&self, kind: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind)
    }

    /// The value of an attribute of `<data>`.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The tensor names of an output.
    pub fn tensor_names(&self, port: usize) -> Vec<&str> {
        let port = self.output_ports.get(port);
        port.map_or(Vec::new(), |port| port.names.iter().map(String::as_str).collect())
    }

    /// The layer for messages: kind and name, escaped and cut.
    pub fn describe(&self) -> String {
        format!("{} layer {}", quote(&self.kind), quote(&self.name))
    }
}

/// Reads a model. All problems are added to `diagnostics`; with errors among them there is no net.
///
/// Time and memory are linear in the size of the XML (up to a logarithm); constants are not copied.
pub fn read(source: &Source, diagnostics: &mut Diagnostics) -> Option<Net> {
    let mut found = Diagnostics::new();
    let net = read_net(source, &mut found);
    let failed = found.has_errors();
    diagnostics.extend(found);
    net.filter(|_| !failed)
}

fn read_net(source: &Source, diagnostics: &mut Diagnostics) -> Option<Net> {
    let document = diagnostics.ok(xml::Document::parse(&source.xml))?;
    let Some(root) = document.root() else {
        diagnostics.push(
            Diagnostic::error(&codes::STRUCTURE, "the file has no XML element")
                .at(Span::default())
                .help("an OpenVINO model is an XML file that starts with `<net ...>`"),
        );
        return None;
    };
    net::read_root(root, source, diagnostics)
}

#[cfg(test)]
mod tests;
