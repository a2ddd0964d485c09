//! Connects layers by `<edges>`: port labels become positions, inputs are checked for gaps and doubles.

use super::xml::Element;
use super::{Input, Layer, fields};
use crate::diag::{Diagnostic, Diagnostics, Span, codes};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What `<edges>` says about a graph.
pub(super) struct Edges {
    /// For each layer, where its edges come from, in file order.
    pub sources: Vec<Vec<usize>>,
    /// Problems with edges into a layer; they matter only if the layer is computed.
    pub problems: Vec<(Option<usize>, Diagnostic)>,
}

struct Edge {
    from_layer: u64,
    from_port: u64,
    to_layer: u64,
    to_port: u64,
    span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    Input,
    Output,
}

/// Position of a port by layer, side and label.
type Positions = HashMap<(usize, Side, u64), usize>;

/// Fills [`Layer::inputs`].
pub(super) fn connect(
    net: Element<'_>,
    ids: &BTreeMap<u64, usize>,
    layers: &mut [Layer],
    diagnostics: &mut Diagnostics,
) -> Edges {
    let mut edges = Edges { sources: vec![Vec::new(); layers.len()], problems: Vec::new() };
    let positions = positions(layers);
    let mut inputs: Vec<Vec<(usize, Input)>> = vec![Vec::new(); layers.len()];
    let list = net.child("edges");
    for element in list.into_iter().flat_map(|list| list.children_named("edge")) {
        let Some(edge) = read_edge(element, diagnostics) else {
            continue;
        };
        let target = ids.get(&edge.to_layer).copied();
        let resolved = resolve(&edge, target, ids, layers, &positions);
        match resolved {
            Ok((target, position, input)) => {
                push_at(&mut edges.sources, target, input.layer);
                push_at(&mut inputs, target, (position, input));
            }
            Err(diagnostic) => {
                if let (Some(target), Some(&source)) = (target, ids.get(&edge.from_layer)) {
                    push_at(&mut edges.sources, target, source);
                }
                edges.problems.push((target, diagnostic));
            }
        }
    }
    // Inputs that an edge failed to reach would only be reported again.
    let broken: BTreeSet<usize> = edges.problems.iter().filter_map(|(target, _)| *target).collect();
    for (index, (layer, inputs)) in layers.iter_mut().zip(inputs).enumerate() {
        if !broken.contains(&index) {
            assign_inputs(index, layer, inputs, &mut edges.problems);
        }
    }
    edges
}

fn push_at<T>(lists: &mut [Vec<T>], index: usize, item: T) {
    if let Some(list) = lists.get_mut(index) {
        list.push(item);
    }
}

fn read_edge(element: Element<'_>, diagnostics: &mut Diagnostics) -> Option<Edge> {
    let mut field = |name| fields::unsigned(element, name, diagnostics);
    // All four first, so that all problems are reported.
    let (from_layer, from_port) = (field("from-layer"), field("from-port"));
    let (to_layer, to_port) = (field("to-layer"), field("to-port"));
    Some(Edge {
        from_layer: from_layer?,
        from_port: from_port?,
        to_layer: to_layer?,
        to_port: to_port?,
        span: element.span(),
    })
}

fn positions(layers: &[Layer]) -> Positions {
    let mut positions = HashMap::new();
    for (index, layer) in layers.iter().enumerate() {
        for (side, ports) in [(Side::Input, &layer.input_ports), (Side::Output, &layer.output_ports)] {
            for (position, port) in ports.iter().enumerate() {
                positions.entry((index, side, port.id)).or_insert(position);
            }
        }
    }
    positions
}

fn resolve(
    edge: &Edge,
    target: Option<usize>,
    ids: &BTreeMap<u64, usize>,
    layers: &[Layer],
    positions: &Positions,
) -> Result<(usize, usize, Input), Diagnostic> {
    let unknown = |end: &str, id: u64| {
        let message = format!("the edge {end} layer {id}, which does not exist");
        Diagnostic::error(&codes::EDGE, message).at(edge.span)
    };
    let target = target.ok_or_else(|| unknown("leads to", edge.to_layer))?;
    let source = *ids.get(&edge.from_layer).ok_or_else(|| unknown("comes from", edge.from_layer))?;
    let find = |layer: usize, side: Side, id: u64| {
        positions.get(&(layer, side, id)).copied().ok_or_else(|| {
            let described = layers.get(layer).map_or(String::new(), Layer::describe);
            let side = if side == Side::Input { "input" } else { "output" };
            let message = format!("the edge names {side} port {id}, which {described} does not have");
            Diagnostic::error(&codes::PORT, message).at(edge.span)
        })
    };
    let port = find(source, Side::Output, edge.from_port)?;
    let position = find(target, Side::Input, edge.to_port)?;
    let span = edge.span;
    Ok((target, position, Input { layer: source, port, span }))
}

/// Sorts the inputs of one layer by position and checks that they are 0, 1, 2, ...
fn assign_inputs(
    index: usize,
    layer: &mut Layer,
    mut inputs: Vec<(usize, Input)>,
    problems: &mut Vec<(Option<usize>, Diagnostic)>,
) {
    inputs.sort_by_key(|&(position, _)| position);
    for pair in inputs.windows(2) {
        if let [(first, one), (second, other)] = pair
            && first == second
        {
            let message = format!("two edges lead to input {first} of {}", layer.describe());
            let mut diagnostic = Diagnostic::error(&codes::EDGE, message).at(other.span);
            if one.layer != other.layer {
                diagnostic = diagnostic.note("only one of the two values can be meant");
            }
            problems.push((Some(index), diagnostic));
        }
    }
    inputs.dedup_by_key(|&mut (position, _)| position);
    let gap = inputs.iter().enumerate().find(|&(expected, &(position, _))| expected != position);
    if let Some((missing, _)) = gap {
        let message =
            format!("no edge leads to input {missing} of {}, but one leads to a later input", layer.describe());
        problems.push((Some(index), Diagnostic::error(&codes::EDGE, message).at(layer.span)));
    }
    layer.inputs = inputs.into_iter().map(|(_, input)| input).collect();
    let expected = match layer.kind.as_str() {
        "Parameter" => 0,
        "Result" => 1,
        _ => return,
    };
    if layer.inputs.len() != expected {
        let count = layer.inputs.len();
        let message = format!("{} has {count} inputs instead of {expected}", layer.describe());
        problems.push((Some(index), Diagnostic::error(&codes::ARITY, message).at(layer.span)));
    }
}
