//! Net -> Graph: every layer becomes a typed operation, and the model's interface its inputs and outputs.

mod constants;
mod fixed_inputs;
mod interface;
mod pre_process;

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::extension::Extension;
use crate::graph::{Graph, Origin, ROOT, RegionId, ValueId};
use crate::op::{lookup, opset};
use crate::options::Options;
use crate::read::{Attributes, Body, Layer, Net};
use crate::source::Source;
use std::rc::Rc;

/// The graph of a model, not yet inferred. All layers that cannot be used are reported at once.
pub fn build(net: &Net, source: &Source, options: &Options, diagnostics: &mut Diagnostics) -> Option<Graph> {
    let before = diagnostics.errors().count();
    let mut building = Building {
        net,
        region: ROOT,
        extensions: &options.extensions,
        graph: Graph::new(&net.name),
        outputs: vec![Vec::new(); net.layers.len()],
        weights: constants::shared(source),
        diagnostics,
    };
    building.parameters(options);
    building.layers();
    building.results(options);
    let Building { graph, diagnostics, .. } = building;
    (diagnostics.errors().count() == before).then_some(graph)
}

/// Note of problems that follow from others.
const NO_PRODUCER: &str = "the layer that should produce it cannot be used";

/// A graph under construction.
struct Building<'a> {
    net: &'a Net,
    /// The region that the layers of `net` go to.
    region: RegionId,
    /// Operations that the user added.
    extensions: &'a [Extension],
    graph: Graph,
    /// Values of every layer's outputs.
    outputs: Vec<Vec<ValueId>>,
    weights: crate::tensor::Bytes,
    diagnostics: &'a mut Diagnostics,
}

impl<'a> Building<'a> {
    /// All layers of the present net that are needed.
    fn layers(&mut self) {
        let net = self.net;
        for layer in &net.order {
            match net.sinks.contains(layer) {
                true => self.pass_on(*layer),
                false => self.layer(*layer),
            }
        }
        // All state is read before any is written.
        for layer in &net.sinks {
            self.layer(*layer);
        }
    }

    fn layer(&mut self, index: usize) {
        let net = self.net;
        let Some(layer) = net.layers.get(index) else { return };
        let added = match layer.kind.as_str() {
            "Parameter" | "Result" => opset(layer).map(|_| ()),
            "Constant" => opset(layer).map(|_| self.constant(index, layer)),
            _ => self.operation(index, layer),
        };
        if let Err(diagnostic) = added {
            self.report(diagnostic);
        }
    }

    /// What reads an Assign reads what it is given.
    fn pass_on(&mut self, index: usize) {
        if let Some(Ok(values)) = self.net.layers.get(index).map(|layer| self.inputs(layer)) {
            self.outputs[index] = values;
        }
    }

    /// Adds a problem, unless it only follows from one that was found already.
    fn report(&mut self, diagnostic: Diagnostic) {
        let follows = diagnostic.notes.iter().any(|note| note == NO_PRODUCER) && self.diagnostics.has_errors();
        if !follows {
            self.diagnostics.push(diagnostic);
        }
    }

    fn operation(&mut self, index: usize, layer: &'a Layer) -> Result<(), Diagnostic> {
        let row = lookup(layer, self.extensions)?;
        if !row.inputs.contains(&layer.inputs.len()) {
            let message = format!("{} has {} inputs, {}", layer.describe(), layer.inputs.len(), expected(&row.inputs));
            return Err(Diagnostic::error(&codes::EDGE, message).at(layer.span));
        }
        let attributes = Attributes::new(layer);
        let op = (row.parse)(&attributes).map_err(|diagnostic| placed(diagnostic, layer))?;
        self.diagnostics.extend(attributes.finish(row.ignorable));
        let inputs = self.inputs(layer)?;
        let regions = layer.bodies.iter().map(|body| self.body(body)).collect();
        let node = self.graph.add_node(self.region, op, inputs, row.outputs, origin(layer));
        self.graph.node_mut(node).regions = regions;
        let outputs = self.graph.node(node).outputs.clone();
        if !outputs.is_empty() {
            self.outputs[index] = outputs;
        }
        Ok(())
    }

    /// A body as a region: its Parameters are the region's, and what its Results read are the region's results. Bodies in
    /// bodies are as deep as the reader allows, [`crate::read::NESTING_LIMIT`].
    fn body(&mut self, body: &'a Body) -> RegionId {
        let region = self.graph.add_region();
        let empty = vec![Vec::new(); body.net.layers.len()];
        let outer = (self.net, self.region, std::mem::replace(&mut self.outputs, empty));
        (self.net, self.region) = (&body.net, region);
        for index in &body.net.parameters {
            let name = body.net.layers.get(*index).map_or("", |layer| layer.name.as_str());
            let value = self.graph.add_value(name, None);
            self.graph.region_mut(region).parameters.push(value);
            self.outputs[*index] = vec![value];
        }
        self.layers();
        for index in &body.net.results {
            let Some(layer) = body.net.layers.get(*index) else { continue };
            match self.result_value(layer) {
                Ok(value) => self.graph.region_mut(region).results.push(value),
                Err(diagnostic) => self.report(diagnostic),
            }
        }
        (self.net, self.region, self.outputs) = outer;
        region
    }

    /// The values that enter a layer. A missing one belongs to a layer that was reported already.
    fn inputs(&self, layer: &Layer) -> Result<Vec<ValueId>, Diagnostic> {
        let value = |input: &crate::read::Input| {
            let outputs = self.outputs.get(input.layer)?;
            outputs.get(input.port).copied()
        };
        let mut values = Vec::with_capacity(layer.inputs.len());
        for (i, input) in layer.inputs.iter().enumerate() {
            match value(input) {
                Some(value) => values.push(value),
                None => {
                    let message = format!("input {i} of {} has no value", layer.describe());
                    return Err(Diagnostic::error(&codes::EDGE, message).at(input.span).note(NO_PRODUCER));
                }
            }
        }
        Ok(values)
    }

    /// The value that a Result takes out of its net.
    fn result_value(&self, layer: &Layer) -> Result<ValueId, Diagnostic> {
        match self.inputs(layer)?.as_slice() {
            [value] => Ok(*value),
            _ => {
                let message = format!("{} needs exactly one input", layer.describe());
                Err(Diagnostic::error(&codes::EDGE, message).at(layer.span))
            }
        }
    }

    fn add(&mut self, op: Rc<dyn crate::op::Op>, inputs: Vec<ValueId>, origin: Origin) -> Option<ValueId> {
        let node = self.graph.add_node(self.region, op, inputs, 1, origin);
        self.graph.node(node).outputs.first().copied()
    }
}

fn expected(range: &std::ops::RangeInclusive<usize>) -> String {
    match (range.start(), range.end()) {
        (1, 1) => "not 1".to_owned(),
        (a, b) if a == b => format!("not {a}"),
        (a, &usize::MAX) => format!("not {a} or more"),
        (a, b) => format!("not {a} to {b}"),
    }
}

/// Adds the layer's place and name to a message of an operation.
fn placed(mut diagnostic: Diagnostic, layer: &Layer) -> Diagnostic {
    if diagnostic.span.is_none() {
        diagnostic = diagnostic.at(layer.span);
    }
    if !diagnostic.message.contains(&layer.describe()) {
        diagnostic = diagnostic.note(format!("in {}", layer.describe()));
    }
    diagnostic
}

/// Name, type and place of a layer.
fn origin(layer: &Layer) -> Origin {
    Origin { name: layer.name.clone(), kind: layer.kind.clone(), span: Some(layer.span) }
}
