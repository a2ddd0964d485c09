//! Puts bodies that are known to run, once, in place of their operation.

use crate::diag::Diagnostics;
use crate::graph::{Graph, NodeId, ValueId};
use crate::options::Options;

/// The nodes of the body move to the region of the operation; its parameters become the operands, the operation's results
/// become the body's.
pub fn inline(graph: &mut Graph, _: &Options, _: &mut Diagnostics) {
    let mut replacement: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    for region in graph.live_regions() {
        let mut kept = Vec::new();
        let mut pending: Vec<NodeId> = graph.region(region).nodes.iter().rev().copied().collect();
        while let Some(id) = pending.pop() {
            let node = graph.node(id);
            let body = node.inline.as_ref().and_then(|inline| Some((inline, *node.regions.get(inline.body)?)));
            let Some((inline, body)) = body else {
                kept.push(id);
                continue;
            };
            let body = graph.region(body);
            for (parameter, operand) in body.parameters.iter().zip(&inline.operands) {
                if let (Some(value), Some(slot)) = (node.inputs.get(*operand), slot(&mut replacement, *parameter)) {
                    *slot = *value;
                }
            }
            for (output, result) in node.outputs.iter().zip(&inline.results) {
                if let (Some(value), Some(slot)) = (body.results.get(*result), slot(&mut replacement, *output)) {
                    *slot = *value;
                }
            }
            pending.extend(body.nodes.iter().rev());
            let mut checks = body.checks.clone();
            graph.region_mut(region).checks.append(&mut checks);
        }
        graph.region_mut(region).nodes = kept;
    }
    resolve(&mut replacement);
    graph.replace_values(&replacement);
}

fn slot(replacement: &mut [ValueId], value: ValueId) -> Option<&mut ValueId> {
    replacement.get_mut(value.0 as usize)
}

/// Bodies in bodies make chains of replacements.
fn resolve(replacement: &mut [ValueId]) {
    for i in 0..replacement.len() {
        let mut last = ValueId(i as u32);
        while let Some(next) = replacement.get(last.0 as usize).filter(|next| **next != last) {
            last = *next;
        }
        let mut at = ValueId(i as u32);
        while let Some(slot) = replacement.get_mut(at.0 as usize).filter(|slot| **slot != last && at != last) {
            at = std::mem::replace(slot, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_replacements_end() {
        let mut replacement = [1, 2, 2, 0, 4].map(ValueId);
        resolve(&mut replacement);
        assert_eq!(replacement, [2, 2, 2, 2, 4].map(ValueId));
    }
}
