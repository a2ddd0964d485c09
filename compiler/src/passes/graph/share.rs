//! Common subexpressions: equal operations on equal operands are computed once.

use crate::diag::Diagnostics;
use crate::graph::{Graph, ValueId};
use crate::options::Options;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;

/// Operations are equal if their types, attributes (the debug form, which names all of them) and operands are.
pub fn share(graph: &mut Graph, _: &Options, _: &mut Diagnostics) {
    let mut replacement: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    for region in graph.live_regions() {
        let mut seen: BTreeMap<(TypeId, String, Vec<ValueId>), Vec<ValueId>> = BTreeMap::new();
        let mut kept = Vec::new();
        for id in &graph.region(region).nodes {
            let node = graph.node(*id);
            if node.op.props().effect || !node.regions.is_empty() {
                kept.push(*id);
                continue;
            }
            let inputs: Vec<ValueId> = node.inputs.iter().map(|input| replacement[input.0 as usize]).collect();
            let key = ((&*node.op as &dyn Any).type_id(), format!("{:?}", node.op), inputs);
            match seen.get(&key) {
                Some(first) if first.len() == node.outputs.len() => {
                    for (output, same) in node.outputs.iter().zip(first) {
                        replacement[output.0 as usize] = *same;
                    }
                }
                _ => {
                    seen.insert(key, node.outputs.clone());
                    kept.push(*id);
                }
            }
        }
        graph.region_mut(region).nodes = kept;
    }
    graph.replace_values(&replacement);
}
