//! Removes operations that return their operand unchanged.

use crate::diag::Diagnostics;
use crate::graph::{Graph, ValueId};
use crate::options::Options;

/// An operation that is the identity for equal facts is replaced by its operand where the facts are equal.
pub fn simplify(graph: &mut Graph, _: &Options, _: &mut Diagnostics) {
    let mut replacement: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    for region in graph.live_regions() {
        for id in &graph.region(region).nodes {
            let node = graph.node(*id);
            let (Some(input), [output]) = (node.inputs.first(), node.outputs.as_slice()) else { continue };
            let input = replacement[input.0 as usize];
            let (before, after) = (graph.fact(input), graph.fact(*output));
            let same = before.zip(after).is_some_and(|(a, b)| a.element == b.element && a.dims == b.dims);
            if same && node.op.props().identity_if_same {
                replacement[output.0 as usize] = input;
            }
        }
    }
    graph.replace_values(&replacement);
}
