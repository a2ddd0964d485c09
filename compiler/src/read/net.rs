//! Reads a graph: the `<net>` or the body of a layer, with everything below it.

use super::xml::Element;
use super::{Net, body, constant, edges, fields, layer, number, order, pre_process, state};
use crate::diag::{Diagnostic, Diagnostics, codes, quote};
use crate::source::Source;
use std::cell::Cell;
use std::collections::BTreeMap;

/// What is the same for a model and all bodies in it.
pub(super) struct Context<'a> {
    pub source: &'a Source,
    pub version: u32,
    /// One message about a missing weights file is enough.
    pub weights_reported: Cell<bool>,
}

/// Reads the root element.
pub(super) fn read_root(root: Element<'_>, source: &Source, diagnostics: &mut Diagnostics) -> Option<Net> {
    if !root.name().eq_ignore_ascii_case("net") {
        let message = format!("the root element is {} instead of `<net>`", fields::tag(root));
        diagnostics.push(
            Diagnostic::error(&codes::STRUCTURE, message)
                .at(root.span())
                .help("give the `.xml` of a model converted to OpenVINO IR"),
        );
        return None;
    }
    let version = diagnostics.ok(version(root))?;
    let context = Context { source, version, weights_reported: Cell::new(false) };
    let mut net = read_graph(root, &context, 0, diagnostics);
    net.name = fields::text_or_empty(root, "name");
    net.legacy_io = version == 10;
    pre_process::read(root, source, &mut net, diagnostics);
    Some(net)
}

fn version(root: Element<'_>) -> Result<u32, Diagnostic> {
    let help = "only IR versions 10 and 11 exist in use: convert the original model with a current OpenVINO";
    let Some(attribute) = root.attribute("version") else {
        return Err(Diagnostic::error(&codes::VERSION, "`<net>` has no attribute `version`")
            .at(root.span())
            .help(help));
    };
    let value = attribute.value();
    match number::unsigned(&value) {
        Ok(10) => Ok(10),
        Ok(11) => Ok(11),
        parsed => {
            let message = match parsed {
                Ok(_) => format!("version {} of the IR is not supported", quote(&value)),
                Err(_) => format!("the IR version {} is not a whole number", quote(&value)),
            };
            Err(Diagnostic::error(&codes::VERSION, message).at(attribute.value_span()).help(help))
        }
    }
}

/// Reads `<layers>` and `<edges>` below an element, `depth` levels of bodies inside the model.
pub(super) fn read_graph(
    element: Element<'_>,
    context: &Context<'_>,
    depth: usize,
    diagnostics: &mut Diagnostics,
) -> Net {
    let mut net = Net { version: context.version, span: element.span(), ..Net::default() };
    let elements = read_layers(element, &mut net, diagnostics);
    let ids = index_ids(&net, diagnostics);
    let edges = edges::connect(element, &ids, &mut net.layers, diagnostics);
    order::sort(&mut net, &edges.sources, diagnostics);
    report_edges(&net, edges.problems, diagnostics);
    read_contents(&mut net, &elements, context, depth, diagnostics);
    state::check(&net, diagnostics);
    net
}

/// Reads all layers and notes inputs, outputs and sinks; the elements belong to `net.layers` one by one.
fn read_layers<'a>(net_element: Element<'a>, net: &mut Net, diagnostics: &mut Diagnostics) -> Vec<Element<'a>> {
    let mut elements = Vec::new();
    let list = net_element.child("layers");
    for element in list.into_iter().flat_map(|list| list.children_named("layer")) {
        let Some(layer) = layer::read(element, net.version, diagnostics) else {
            continue;
        };
        let index = net.layers.len();
        match layer.kind.as_str() {
            "Parameter" => net.parameters.push(index),
            "Result" => net.results.push(index),
            "Assign" => net.sinks.push(index),
            _ => {}
        }
        net.layers.push(layer);
        elements.push(element);
    }
    elements
}

fn index_ids(net: &Net, diagnostics: &mut Diagnostics) -> BTreeMap<u64, usize> {
    let mut ids = BTreeMap::new();
    for (index, layer) in net.layers.iter().enumerate() {
        if let Some(first) = ids.insert(layer.id, index) {
            let other = net.layers.get(first).map_or(String::new(), |l| l.describe());
            let message = format!("{} has the same id {} as {other}", layer.describe(), layer.id);
            diagnostics.push(Diagnostic::error(&codes::DUPLICATE_ID, message).at(layer.span));
        }
    }
    ids
}

/// Problems with edges into layers that nothing depends on are only warnings; an edge into no layer may be the lost
/// optional input of any.
fn report_edges(net: &Net, problems: Vec<(Option<usize>, Diagnostic)>, diagnostics: &mut Diagnostics) {
    let mut needed = vec![false; net.layers.len()];
    for &index in &net.order {
        if let Some(slot) = needed.get_mut(index) {
            *slot = true;
        }
    }
    for (target, diagnostic) in problems {
        let is_needed = target.is_none_or(|index| needed.get(index).copied().unwrap_or(false));
        diagnostics.push(if is_needed {
            diagnostic
        } else {
            Diagnostic { level: crate::diag::Level::Warning, ..diagnostic }
                .note("nothing depends on it, so it is ignored")
        });
    }
}

/// Constants and bodies of the layers that are needed.
fn read_contents(
    net: &mut Net,
    elements: &[Element<'_>],
    context: &Context<'_>,
    depth: usize,
    diagnostics: &mut Diagnostics,
) {
    for &index in &net.order {
        let (Some(layer), Some(&element)) = (net.layers.get_mut(index), elements.get(index)) else {
            continue;
        };
        match layer.kind.as_str() {
            "Constant" => layer.constant = constant::read(layer, context, diagnostics),
            "If" | "Loop" | "TensorIterator" => {
                layer.bodies = body::read(element, layer, context, depth, diagnostics);
            }
            _ => {}
        }
    }
}
