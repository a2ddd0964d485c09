//! What the committed cases use: every layer with its row of the tables, its operands and the case it stands in.

use include_ir_compiler::Options;
use include_ir_compiler::build::build;
use include_ir_compiler::cli::verify::Case;
use include_ir_compiler::diag::{Diagnostics, Span};
use include_ir_compiler::element::ElementType;
use include_ir_compiler::fact::Fact;
use include_ir_compiler::graph::{self, Graph, VariableInfo};
use include_ir_compiler::op::{OpDef, row};
use include_ir_compiler::passes::{self, graph::PASSES};
use include_ir_compiler::read::{self, Layer, Net};
use include_ir_compiler::state::StateInfo;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// One layer of a case.
pub struct Use {
    pub row: &'static OpDef,
    pub layer: Layer,
    /// Number of the case.
    pub case: usize,
    /// What is known of the operands.
    pub operands: Vec<Fact>,
    /// Element types of the operands, or of the result where there is none.
    pub types: Vec<ElementType>,
    /// Whether the operation stands on its own: without bodies, states and sizes that it finds in operands.
    pub plain: bool,
    pub variables: Rc<Vec<VariableInfo>>,
    pub states: Rc<Vec<StateInfo>>,
    pub options: Rc<Options>,
}

/// All layers of the case in a folder that its outputs need.
pub fn uses(folder: &Path, number: usize) -> Vec<Use> {
    let case = Case::load(folder).expect("a case");
    let (source, options) = case.open(&Options::default()).unwrap_or_else(|_| panic!("{}", folder.display()));
    let mut diagnostics = Diagnostics::new();
    let net = read::read(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", folder.display()));
    let mut graph = build(&net, &source, &options, &mut diagnostics).unwrap_or_default();
    passes::run(&PASSES[..1], &mut graph, graph::verify, &options, &mut diagnostics, &mut Vec::new());
    assert!(!diagnostics.has_errors(), "{} is inferred", folder.display());
    let mut collected =
        Collection { number, nodes: nodes(&graph), uses: Vec::new(), context: Context::new(&graph, options) };
    collected.net(&graph, &net);
    collected.uses
}

/// Numbers of nodes by the place of their layer.
fn nodes(graph: &Graph) -> HashMap<Span, usize> {
    let spans = graph.nodes.iter().enumerate().filter_map(|(i, node)| Some((node.origin.span?, i)));
    spans.collect()
}

struct Context {
    variables: Rc<Vec<VariableInfo>>,
    states: Rc<Vec<StateInfo>>,
    options: Rc<Options>,
}

impl Context {
    fn new(graph: &Graph, options: Options) -> Self {
        Context {
            variables: Rc::new(graph.variables.clone()),
            states: Rc::new(graph.states.clone()),
            options: Rc::new(options),
        }
    }
}

struct Collection {
    number: usize,
    nodes: HashMap<Span, usize>,
    uses: Vec<Use>,
    context: Context,
}

impl Collection {
    fn net(&mut self, graph: &Graph, net: &Net) {
        // Of what is behind an operation that is folded, all counts: a case tests it too.
        for layer in net.order.iter().chain(&net.results).filter_map(|index| net.layers.get(*index)) {
            layer.bodies.iter().for_each(|body| self.net(graph, &body.net));
            let Ok(row) = row(layer) else { continue };
            let node = self.nodes.get(&layer.span).and_then(|node| graph.nodes.get(*node));
            let node = node.filter(|_| !["Parameter", "Constant", "Result"].contains(&row.name));
            let fact = |value| graph.fact(value).cloned();
            let facts: Option<Vec<Fact>> = node.and_then(|node| node.inputs.iter().map(|value| fact(*value)).collect());
            let mut types: Vec<ElementType> = facts.iter().flatten().map(|fact| fact.element).collect();
            if types.is_empty() {
                let result = node.and_then(|node| node.outputs.first()).and_then(|value| fact(*value));
                types.extend(result.map(|fact| fact.element).or_else(|| declared(net, layer)));
            }
            let plain = node.is_some_and(|node| {
                node.regions.is_empty() && node.reads.is_empty() && node.locals.is_empty() && !node.op.props().effect
            });
            self.uses.push(Use {
                row,
                layer: layer.clone(),
                case: self.number,
                plain: plain && facts.is_some(),
                operands: facts.unwrap_or_default(),
                types,
                variables: self.context.variables.clone(),
                states: self.context.states.clone(),
                options: self.context.options.clone(),
            });
        }
    }
}

/// The declared element type of the first operand, or of the result.
fn declared(net: &Net, layer: &Layer) -> Option<ElementType> {
    let port = match layer.inputs.first() {
        Some(input) => net.layers.get(input.layer).and_then(|source| source.output_ports.get(input.port)),
        None => layer.output_ports.first(),
    };
    port.and_then(|port| port.precision)
}
