//! Evaluates operations on constants by interpreting their nests.

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::dim::product;
use crate::fact::{Fact, Value};
use crate::graph::{Graph, Node};
use crate::lower::{check_result, lower_node};
use crate::options::Options;
use crate::program::interpret::interpret;

/// A fold may make weights this many times larger than its operands and than all the file's, or up to [`FREE`] bytes of
/// them.
const GROWTH: i64 = 4;
const FREE: i64 = 1 << 20;

/// Folds in execution order, so that chains fold in one run.
pub fn fold(graph: &mut Graph, _: &Options, diagnostics: &mut Diagnostics) {
    let stored =
        bytes(graph.values.iter().filter_map(|value| value.fact.as_ref()).filter(|fact| fact.as_constant().is_some()));
    for region in graph.live_regions() {
        let mut kept = Vec::new();
        for id in graph.region(region).nodes.clone() {
            let node = graph.node(id).clone();
            match fold_node(graph, &node, stored) {
                Ok(Some(constants)) => {
                    for (output, constant) in node.outputs.iter().zip(constants) {
                        graph.values[output.0 as usize].fact = Some(constant);
                    }
                }
                Ok(None) => kept.push(id),
                Err(message) => {
                    let message = format!("folding {}: {message}", crate::diag::quote(&node.origin.name));
                    diagnostics.push(Diagnostic::error(&codes::INTERNAL, message));
                    kept.push(id);
                }
            }
        }
        graph.region_mut(region).nodes = kept;
    }
}

fn fold_node(graph: &Graph, node: &Node, stored: i64) -> Result<Option<Vec<Fact>>, String> {
    let facts: Option<Vec<Fact>> = node.inputs.iter().map(|input| graph.fact(*input).cloned()).collect();
    let outputs: Option<Vec<Fact>> = node.outputs.iter().map(|output| graph.fact(*output).cloned()).collect();
    let (Some(facts), Some(outputs)) = (facts, outputs) else { return Ok(None) };
    if graph.has_effect(node) {
        return Ok(None);
    }
    if outputs.iter().all(|fact| fact.as_constant().is_some()) {
        return Ok(Some(outputs));
    }
    if outputs.iter().any(|fact| fact.static_dims().is_none()) {
        return Ok(None);
    }
    let constant = facts.iter().all(|fact| fact.as_constant().is_some());
    if !constant || facts.is_empty() || !node.regions.is_empty() || !worthwhile(&facts, &outputs, stored) {
        return Ok(None);
    }
    // What cannot be lowered is reported by the stage that lowers everything.
    let Ok(program) = lower_node(graph, node, &facts, &outputs) else { return Ok(None) };
    let tensors = interpret(&program, &[])?;
    for (tensor, fact) in tensors.iter().zip(&outputs) {
        check_result(tensor, fact)?;
    }
    let constants =
        outputs.into_iter().zip(tensors).map(|(fact, tensor)| Fact { value: Value::Constant(tensor), ..fact });
    Ok(Some(constants.collect()))
}

fn worthwhile(facts: &[Fact], outputs: &[Fact], stored: i64) -> bool {
    let after = bytes(outputs.iter());
    after <= FREE || after <= bytes(facts.iter()).min(stored).saturating_mul(GROWTH)
}

fn bytes<'a>(facts: impl Iterator<Item = &'a Fact>) -> i64 {
    let size = |fact: &Fact| product(&fact.dims).upper_bound().saturating_mul((fact.element.bits() as i64).max(8) / 8);
    facts.map(size).fold(0, i64::saturating_add)
}
