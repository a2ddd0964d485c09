//! Removes nodes whose results nobody needs.

use crate::diag::Diagnostics;
use crate::graph::Graph;
use crate::options::Options;

/// Keeps effects and what region results depend on; a node whose results are all constants is not needed for them.
pub fn remove(graph: &mut Graph, _: &Options, _: &mut Diagnostics) {
    let mut needed = vec![false; graph.values.len()];
    for region in graph.live_regions().into_iter().rev() {
        let mut kept = Vec::new();
        for result in &graph.region(region).results {
            needed[result.0 as usize] = true;
        }
        for id in graph.region(region).nodes.iter().rev() {
            let node = graph.node(*id);
            let open = |output: &crate::graph::ValueId| {
                needed[output.0 as usize] && graph.fact(*output).is_none_or(|fact| fact.as_constant().is_none())
            };
            if graph.has_effect(node) || node.outputs.iter().any(open) {
                for input in &node.inputs {
                    needed[input.0 as usize] = true;
                }
                kept.push(*id);
            }
        }
        kept.reverse();
        graph.region_mut(region).nodes = kept;
    }
}
