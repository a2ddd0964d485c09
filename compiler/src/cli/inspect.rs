//! `irc inspect`: what is in a model file, without compiling it.

use super::{Failure, Reporter, open, print};
use crate::diag::{Diagnostics, quote};
use crate::options::Options;
use crate::read::{Layer, Net, read};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `irc inspect`.
#[derive(Args, Debug)]
pub struct InspectArguments {
    /// The model: an .xml file, or - for standard input.
    model: PathBuf,
    /// The weights file. Default: the file beside the .xml with the extension .bin.
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Reads and prints.
pub fn inspect(arguments: InspectArguments, reporter: &Reporter) -> Result<(), Failure> {
    let options = Options { bin: arguments.bin, ..Options::default() };
    let source = open(&arguments.model, &options)?;
    let mut diagnostics = Diagnostics::new();
    diagnostics.set_source(source.text());
    let Some(net) = read(&source, &mut diagnostics) else { return Err(diagnostics.into()) };
    reporter.report(&diagnostics);
    let weights = source.weights.bytes().len();
    print(&if arguments.json { format!("{:#}\n", object(&net, weights)) } else { tables(&net, weights) })
}

/// Operations with how often they occur.
fn histogram(net: &Net) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for layer in &net.layers {
        *counts.entry(layer.kind.as_str()).or_insert(0) += 1;
    }
    counts
}

/// Element type and dimensions of an output port as the file declares them.
fn port(layer: &Layer, index: usize) -> String {
    let Some(port) = layer.output_ports.get(index) else { return String::new() };
    let element = port.precision.map_or("?", |precision| precision.name());
    let dims: Vec<String> = port.dims.iter().map(|d| if *d < 0 { "?".to_owned() } else { d.to_string() }).collect();
    format!("{element}[{}]", dims.join(","))
}

/// Type and shape of a model output: those of what the Result is connected to.
fn result_port(net: &Net, result: &Layer) -> String {
    let input = result.inputs.first();
    input.and_then(|input| Some(port(net.layers.get(input.layer)?, input.port))).unwrap_or_default()
}

fn tables(net: &Net, weights: usize) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "model {}, IR version {}, {} layers, {weights} bytes of weights",
        quote(&net.name),
        net.version,
        net.layers.len()
    );
    let names = |names: Vec<&str>| names.iter().map(|name| quote(name)).collect::<Vec<_>>().join(", ");
    out.push_str("\ninputs\n");
    for (position, layer) in net.parameters.iter().filter_map(|i| net.layers.get(*i)).enumerate() {
        let _ = writeln!(
            out,
            "  {:2}  {}  {}  {}",
            position,
            quote(&layer.name),
            port(layer, 0),
            names(net.input_names(position))
        );
    }
    out.push_str("\noutputs\n");
    for (position, layer) in net.results.iter().filter_map(|i| net.layers.get(*i)).enumerate() {
        let shape = result_port(net, layer);
        let _ =
            writeln!(out, "  {:2}  {}  {shape}  {}", position, quote(&layer.name), names(net.output_names(position)));
    }
    out.push_str("\nlayers\n");
    for layer in &net.layers {
        let from: Vec<String> = layer.inputs.iter().map(|input| source_name(net, input.layer, input.port)).collect();
        let to: Vec<String> = (0..layer.output_ports.len()).map(|i| port(layer, i)).collect();
        let opset = &layer.opset;
        let _ = writeln!(
            out,
            "  {:4}  {}.{opset}  {}  ({}) -> {}",
            layer.id,
            quote(&layer.kind),
            quote(&layer.name),
            from.join(", "),
            to.join(", ")
        );
        for attribute in &layer.attributes {
            let _ = writeln!(out, "          {} = {}", quote(&attribute.name), quote(&attribute.value));
        }
        for body in &layer.bodies {
            let _ = writeln!(
                out,
                "          body with {} layers, {} inputs, {} outputs",
                body.net.layers.len(),
                body.inputs.len(),
                body.outputs.len()
            );
        }
    }
    out.push_str("\noperations\n");
    for (kind, count) in histogram(net) {
        let _ = writeln!(out, "  {count:5}  {}", quote(kind));
    }
    out
}

/// `3:0`: output 0 of the layer with id 3.
fn source_name(net: &Net, layer: usize, port: usize) -> String {
    net.layers.get(layer).map_or_else(String::new, |layer| format!("{}:{port}", layer.id))
}

fn object(net: &Net, weights: usize) -> Value {
    let io = |indices: &[usize], names: &dyn Fn(usize) -> Vec<String>, is_result: bool| -> Vec<Value> {
        let layers = indices.iter().filter_map(|i| net.layers.get(*i)).enumerate();
        layers
            .map(|(position, layer)| {
                let shape = if is_result { result_port(net, layer) } else { port(layer, 0) };
                json!({"name": layer.name, "tensor_names": names(position), "type": shape})
            })
            .collect()
    };
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    json!({
        "name": net.name,
        "version": net.version,
        "weights_bytes": weights,
        "inputs": io(&net.parameters, &|i| owned(net.input_names(i)), false),
        "outputs": io(&net.results, &|i| owned(net.output_names(i)), true),
        "nodes": net.layers.iter().map(node).collect::<Vec<_>>(),
        "edges": edges(net),
        "operations": histogram(net),
    })
}

fn node(layer: &Layer) -> Value {
    let attributes: Vec<Value> = layer.attributes.iter().map(|a| json!({"name": a.name, "value": a.value})).collect();
    let constant = layer.constant.as_ref().map(|constant| format!("{:?}", constant.location));
    json!({
        "id": layer.id, "name": layer.name, "kind": layer.kind, "opset": layer.opset,
        "attributes": attributes,
        "outputs": (0..layer.output_ports.len()).map(|i| port(layer, i)).collect::<Vec<_>>(),
        "constant": constant,
        "bodies": layer.bodies.iter().map(|body| object(&body.net, 0)).collect::<Vec<_>>(),
        "byte_start": layer.span.start, "byte_end": layer.span.end,
    })
}

fn edges(net: &Net) -> Vec<Value> {
    let mut edges = Vec::new();
    for layer in &net.layers {
        for (port, input) in layer.inputs.iter().enumerate() {
            let from = net.layers.get(input.layer).map(|layer| layer.id);
            edges.push(json!({"from": from, "from_port": input.port, "to": layer.id, "to_port": port}));
        }
    }
    edges
}
