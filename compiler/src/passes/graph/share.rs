//! Common subexpressions: equal operations on equal operands are computed once.

use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim};
use crate::fact::Value;
use crate::graph::{Graph, Node, SizeSource, ValueId};
use crate::options::Options;
use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};

/// Operations are equal if their types, attributes (the debug form, which names all of them) and operands are.
pub fn share(graph: &mut Graph, _: &Options, _: &mut Diagnostics) {
    let mut replacement: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    for region in graph.live_regions() {
        let mut seen: BTreeMap<(TypeId, String, Vec<ValueId>), Vec<ValueId>> = BTreeMap::new();
        let mut kept = Vec::new();
        for id in &graph.region(region).nodes {
            let node = graph.node(*id);
            if node.op.props().effect || !node.regions.is_empty() || finds_sizes(graph, node) {
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

/// Whether run-time sizes get their values from this operation: those of an equal one are others, with other names.
fn finds_sizes(graph: &Graph, node: &Node) -> bool {
    let sizes = |values: &[ValueId], with_elements: bool| {
        let mut found: BTreeSet<u32> = BTreeSet::new();
        let mut collect = |dim: &Dim| {
            dim.for_each_atom(&mut |atom| {
                if let Atom::Variable(size) = atom {
                    found.insert(size.id);
                }
            });
        };
        for fact in values.iter().filter_map(|value| graph.fact(*value)) {
            fact.dims.iter().for_each(&mut collect);
            if let (true, Value::Sizes(elements)) = (with_elements, &fact.value) {
                elements.iter().for_each(&mut collect);
            }
        }
        found
    };
    let known = sizes(&node.inputs, true);
    let by_step = |id: &u32| graph.variables.get(*id as usize).is_some_and(|info| info.source == SizeSource::Step);
    sizes(&node.outputs, false).iter().any(|id| by_step(id) && !known.contains(id))
}
