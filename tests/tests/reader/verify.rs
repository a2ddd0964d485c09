//! What must hold for every net that the reader accepts.

use include_ir_compiler::element::ElementType;
use include_ir_compiler::read::{Location, Net};
use include_ir_compiler::source::Source;
use std::collections::BTreeSet;

/// Checks a net and all nets in it.
pub fn net(net: &Net, source: &Source) {
    let mut done = BTreeSet::new();
    for (position, &index) in net.order.iter().enumerate() {
        let layer = &net.layers[index];
        for input in &layer.inputs {
            assert!(done.contains(&input.layer), "{} before its input", layer.describe());
            assert!(input.port < net.layers[input.layer].output_ports.len());
        }
        assert!(done.insert(index), "{} twice", layer.describe());
        assert_eq!(position < net.parameters.len(), layer.kind == "Parameter");
        assert!(source.xml[layer.span.start..layer.span.end].starts_with("<layer"));
        assert_eq!(layer.constant.is_some(), layer.kind == "Constant");
        constant(layer.constant.as_ref(), source);
        let bodies = match layer.kind.as_str() {
            "If" => 2,
            "Loop" | "TensorIterator" => 1,
            _ => 0,
        };
        assert_eq!(layer.bodies.len(), bodies);
        for body in &layer.bodies {
            self::body(body, layer.inputs.len(), layer.output_ports.len());
            self::net(&body.net, source);
        }
    }
    assert!(net.parameters.iter().chain(&net.results).chain(&net.sinks).all(|index| done.contains(index)));
    assert!(net.results.iter().all(|&index| net.layers[index].inputs.len() == 1));
    for position in 0..net.results.len() {
        net.output_names(position);
    }
    let ids: BTreeSet<u64> = net.layers.iter().map(|layer| layer.id).collect();
    assert_eq!(ids.len(), net.layers.len());
}

fn constant(constant: Option<&include_ir_compiler::read::Constant>, source: &Source) {
    let Some(constant) = constant else {
        return;
    };
    let bytes = constant.bytes(source);
    if let Location::Weights { len, .. } = constant.location {
        assert_eq!(bytes.len(), len);
    }
    if constant.element == ElementType::String {
        assert_eq!(constant.strings(source).unwrap().len(), constant.count());
    } else {
        assert_eq!(Some(bytes.len()), constant.element.storage_bytes(constant.count()));
    }
}

fn body(body: &include_ir_compiler::read::Body, inputs: usize, outputs: usize) {
    let (parameters, results) = (body.net.parameters.len(), body.net.results.len());
    let set: BTreeSet<usize> = body.inputs.iter().map(|input| input.parameter).collect();
    assert_eq!(set, (0..parameters).collect(), "every Parameter has exactly one source");
    assert_eq!(body.inputs.len(), parameters);
    assert!(body.inputs.iter().all(|input| input.external.map_or(input.current_iteration, |at| at < inputs)));
    assert!(body.outputs.iter().all(|output| output.result < results && output.external.is_none_or(|at| at < outputs)));
    let slices = body.inputs.iter().filter_map(|i| i.slice).chain(body.outputs.iter().filter_map(|o| o.concat));
    assert!(slices.into_iter().all(|slice| slice.stride != 0 && slice.part_size > 0));
    assert!(body.back_edges.iter().all(|edge| edge.parameter < parameters && edge.result < results));
}
