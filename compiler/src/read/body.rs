//! Bodies of `If`, `Loop` and `TensorIterator` and the maps that wire them to the outer layer.

use super::net::{Context, read_graph};
use super::xml::Element;
use super::{BackEdge, Body, BodyInput, BodyOutput, BodyRole, Layer, NESTING_LIMIT, Net, Port, Slice, fields};
use crate::diag::{Diagnostic, Diagnostics, Span, codes, quote};
use std::collections::{BTreeMap, BTreeSet};

/// Reads all bodies of a layer; after an error there may be fewer.
pub(super) fn read(
    element: Element<'_>,
    layer: &Layer,
    context: &Context<'_>,
    depth: usize,
    diagnostics: &mut Diagnostics,
) -> Vec<Body> {
    let expected: &[_] = if layer.kind == "If" {
        &[(BodyRole::Then, "then_body", "then_port_map"), (BodyRole::Else, "else_body", "else_port_map")]
    } else {
        &[(BodyRole::Iteration, "body", "port_map")]
    };
    let mut bodies = Vec::new();
    for &(role, body, map) in expected {
        let (Some(body), Some(map)) =
            (child(element, body, layer, diagnostics), child(element, map, layer, diagnostics))
        else {
            continue;
        };
        if depth >= NESTING_LIMIT {
            let message = format!("sub-graphs are nested more than {NESTING_LIMIT} levels deep");
            diagnostics.push(Diagnostic::error(&codes::LIMIT, message).at(body.span()));
            continue;
        }
        let net = read_graph(body, context, depth + 1, diagnostics);
        let mut wiring = Wiring::new(layer, &net, role, diagnostics);
        let inputs = wiring.inputs(map);
        let outputs = wiring.outputs(map);
        let back_edges = match (role, element.child("back_edges")) {
            (BodyRole::Iteration, Some(edges)) => wiring.back_edges(edges, &inputs),
            _ => Vec::new(),
        };
        wiring.check_parameters(&inputs, body.span());
        bodies.push(Body { role, inputs, outputs, back_edges, net, span: body.span() });
    }
    if let [then, other] = bodies.as_slice() {
        check_branches(layer, then, other, diagnostics);
    }
    bodies
}

fn child<'a>(element: Element<'a>, name: &str, layer: &Layer, diagnostics: &mut Diagnostics) -> Option<Element<'a>> {
    let child = element.child(name);
    if child.is_none() {
        let message = format!("{} has no `<{name}>`", layer.describe());
        diagnostics.push(Diagnostic::error(&codes::BODY, message).at(layer.span));
    }
    child
}

/// Both branches must produce the same outputs.
fn check_branches(layer: &Layer, then: &Body, other: &Body, diagnostics: &mut Diagnostics) {
    let outputs = |body: &Body| body.outputs.iter().filter_map(|o| o.external).collect::<Vec<_>>();
    if outputs(then) != outputs(other) {
        let message = format!("the branches of {} map different outputs", layer.describe());
        diagnostics.push(Diagnostic::error(&codes::BODY, message).at(layer.span));
    }
}

/// Translates ids of one port map to positions.
struct Wiring<'a> {
    layer: &'a Layer,
    role: BodyRole,
    /// Position in the body's parameters and results by layer id.
    parameters: BTreeMap<u64, usize>,
    results: BTreeMap<u64, usize>,
    names: Vec<&'a str>,
    /// Position of the outer layer's ports by id.
    input_ports: BTreeMap<u64, usize>,
    output_ports: BTreeMap<u64, usize>,
    diagnostics: &'a mut Diagnostics,
}

impl<'a> Wiring<'a> {
    fn new(layer: &'a Layer, net: &'a Net, role: BodyRole, diagnostics: &'a mut Diagnostics) -> Self {
        let positions = |list: &[usize]| {
            let id = |index: &usize| net.layers.get(*index).map(|layer| layer.id);
            list.iter().enumerate().filter_map(|(at, index)| Some((id(index)?, at))).collect()
        };
        let name = |index: &usize| net.layers.get(*index).map_or("", |layer| layer.name.as_str());
        let ports = |list: &[Port]| list.iter().enumerate().map(|(at, port)| (port.id, at)).collect();
        Wiring {
            layer,
            role,
            parameters: positions(&net.parameters),
            results: positions(&net.results),
            names: net.parameters.iter().map(name).collect(),
            input_ports: ports(&layer.input_ports),
            output_ports: ports(&layer.output_ports),
            diagnostics,
        }
    }

    fn error(&mut self, span: Span, message: String) {
        self.diagnostics.push(Diagnostic::error(&codes::BODY, message).at(span));
    }

    fn parameter(&mut self, element: Element<'_>, attribute: &str) -> Option<usize> {
        let id = fields::unsigned(element, attribute, self.diagnostics)?;
        let position = self.parameters.get(&id).copied();
        if position.is_none() {
            self.error(element.span(), format!("the body has no Parameter with id {id}"));
        }
        position
    }

    fn result(&mut self, element: Element<'_>, attribute: &str) -> Option<usize> {
        let id = fields::unsigned(element, attribute, self.diagnostics)?;
        let position = self.results.get(&id).copied();
        if position.is_none() {
            self.error(element.span(), format!("the body has no Result with id {id}"));
        }
        position
    }

    /// The outer port; the inner `None` is -1, not connected.
    fn external(&mut self, element: Element<'_>) -> Option<Option<u64>> {
        let id = fields::signed(element, "external_port_id", self.diagnostics)?;
        if id < -1 {
            self.error(element.span(), format!("`external_port_id` is {id}"));
            return None;
        }
        Some(u64::try_from(id).ok())
    }

    fn inputs(&mut self, map: Element<'_>) -> Vec<BodyInput> {
        let mut inputs = Vec::new();
        let mut used = BTreeSet::new();
        for element in map.children_named("input") {
            let external = self.external(element);
            let parameter = self.parameter(element, "internal_layer_id");
            let (Some(external), Some(parameter)) = (external, parameter) else {
                continue;
            };
            let span = element.span();
            let current_iteration = self.purpose(element, "current_iteration");
            let external = match external {
                None if current_iteration => None,
                None => {
                    self.error(span, "an input of a body is not connected to anything".into());
                    continue;
                }
                Some(id) => match self.input_position(id, span) {
                    Some(position) => Some(position),
                    None => continue,
                },
            };
            if external.is_some() && !used.insert(external) {
                let message = "two entries of the port map use the same outer input";
                self.error(span, message.into());
            }
            let slice = self.slice(element);
            inputs.push(BodyInput { external, parameter, slice, current_iteration, span });
        }
        inputs.sort_by_key(|input| input.external);
        inputs
    }

    /// Port ids of inputs are used as positions, which is only safe if they are the same.
    fn input_position(&mut self, id: u64, span: Span) -> Option<usize> {
        let position = usize::try_from(id).ok().filter(|&at| at < self.layer.inputs.len());
        let declared = self.input_ports.get(&id).copied();
        if position.is_none() || declared.is_some_and(|declared| Some(declared) != position) {
            let described = self.layer.describe();
            let message = match position {
                None => format!("{described} has no connected input {id}"),
                Some(_) => format!("the input ports of {described} are not numbered from 0 in their order"),
            };
            self.error(span, message);
            return None;
        }
        position
    }

    fn outputs(&mut self, map: Element<'_>) -> Vec<BodyOutput> {
        let mut outputs = Vec::new();
        let mut externals = BTreeMap::new();
        for element in map.children_named("output") {
            let external = self.external(element);
            let result = self.result(element, "internal_layer_id");
            let (Some(external), Some(result)) = (external, result) else {
                continue;
            };
            let span = element.span();
            if let Some(id) = external
                && externals.insert(id, span).is_some()
            {
                self.error(span, format!("the port map has two entries for output port {id}"));
            }
            let execution_condition = self.purpose(element, "execution_condition");
            let concat = self.slice(element);
            outputs.push((external, BodyOutput { external: None, result, concat, execution_condition, span }));
        }
        // Outputs are numbered by ascending port id.
        let positions: BTreeMap<u64, usize> =
            externals.keys().enumerate().map(|(position, &id)| (id, position)).collect();
        for (&id, &position) in &positions {
            let declared = self.output_ports.get(&id).copied();
            if declared != Some(position) {
                let span = externals.get(&id).copied().unwrap_or(self.layer.span);
                let described = self.layer.describe();
                let message = match declared {
                    None => format!("{described} has no output port {id}"),
                    Some(at) => {
                        format!("output port {id} is number {at} of {described}, but number {position} of its port map")
                    }
                };
                self.error(span, message);
            }
        }
        for (external, output) in &mut outputs {
            output.external = external.and_then(|id| positions.get(&id).copied());
        }
        let mut outputs: Vec<BodyOutput> = outputs.into_iter().map(|(_, output)| output).collect();
        outputs.sort_by_key(|output| output.external);
        outputs
    }

    /// Purposes exist for Loop only.
    fn purpose(&self, element: Element<'_>, purpose: &str) -> bool {
        self.layer.kind == "Loop" && element.attribute("purpose").is_some_and(|a| a.value() == purpose)
    }

    fn slice(&mut self, element: Element<'_>) -> Option<Slice> {
        if self.role != BodyRole::Iteration {
            return None;
        }
        element.attribute("axis")?;
        let axis = fields::signed(element, "axis", self.diagnostics)?;
        let mut field = |name, default| fields::signed_or(element, name, default, self.diagnostics);
        let slice = Slice {
            axis,
            start: field("start", 0),
            end: field("end", -1),
            stride: field("stride", 1),
            part_size: field("part_size", 1),
        };
        if slice.stride == 0 || slice.part_size < 1 {
            let message = "`stride` must not be 0 and `part_size` must be at least 1";
            self.error(element.span(), message.into());
            return None;
        }
        Some(slice)
    }

    fn back_edges(&mut self, list: Element<'_>, inputs: &[BodyInput]) -> Vec<BackEdge> {
        let mut edges: Vec<BackEdge> = Vec::new();
        let by_parameter: BTreeMap<usize, &BodyInput> = inputs.iter().map(|input| (input.parameter, input)).collect();
        let mut targets = BTreeSet::new();
        for element in list.children_named("edge") {
            let result = self.result(element, "from-layer");
            let parameter = self.parameter(element, "to-layer");
            let (Some(result), Some(parameter)) = (result, parameter) else {
                continue;
            };
            let span = element.span();
            if !targets.insert(parameter) {
                self.error(span, "two back edges lead to the same Parameter".into());
            }
            match by_parameter.get(&parameter) {
                Some(input) if input.slice.is_some() => {
                    self.error(span, "a back edge leads to a Parameter that is sliced from an input".into());
                }
                Some(input) if input.external.is_none() => {
                    self.error(span, "a back edge leads to the iteration counter".into());
                }
                // A Parameter that is missing in the map is reported elsewhere.
                _ => edges.push(BackEdge { result, parameter, span }),
            }
        }
        edges
    }

    /// Every Parameter of the body must get a value from exactly one entry.
    fn check_parameters(&mut self, inputs: &[BodyInput], body: Span) {
        let mut sources = vec![0usize; self.names.len()];
        for input in inputs {
            let Some(count) = sources.get_mut(input.parameter) else {
                continue;
            };
            *count += 1;
            if *count == 2 {
                let name = self.names.get(input.parameter).copied().unwrap_or("");
                let message = format!("two entries of the port map set Parameter {}", quote(name));
                self.error(input.span, message);
            }
        }
        for (position, count) in sources.into_iter().enumerate() {
            if count == 0 {
                let name = self.names.get(position).copied().unwrap_or("");
                let message = format!("the port map gives no value to Parameter {} of the body", quote(name));
                self.error(body, message);
            }
        }
    }
}
