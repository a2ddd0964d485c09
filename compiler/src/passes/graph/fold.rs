//! Evaluates operations on constants by interpreting their nests.
//!
//! 16-bit floats are computed in f32, as the program will be, and keep that precision for what is folded with them: weights that
//! are decompressed in f16 do not lose their last bits there.

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::dim::product;
use crate::element::ElementType;
use crate::fact::{Fact, Value};
use crate::graph::{Graph, Node, ValueId};
use crate::lower::{check_result, lower_node};
use crate::options::Options;
use crate::passes::program::widen_halves::{computes_with_halves, half, is_wanted, widen_all};
use crate::program::interpret::interpret;
use crate::program::{Program, Role};
use crate::tensor::Tensor;
use include_ir_runtime::__private::v1::cast;
use std::collections::BTreeMap;

/// A fold may make weights this many times larger than its operands and than all the file's, or up to [`FREE`] bytes of
/// them.
const GROWTH: i64 = 4;
const FREE: i64 = 1 << 20;

/// What folding knows beside the graph.
struct Folding {
    /// Bytes of the file's constants.
    stored: i64,
    /// Whether 16-bit floats are computed in f32.
    widens: bool,
    /// The values of 16-bit floats before they were rounded, where that changed them.
    wide: BTreeMap<ValueId, Tensor>,
}

/// Folds in execution order, so that chains fold in one run.
pub fn fold(graph: &mut Graph, options: &Options, diagnostics: &mut Diagnostics) {
    let stored =
        bytes(graph.values.iter().filter_map(|value| value.fact.as_ref()).filter(|fact| fact.as_constant().is_some()));
    let mut folding = Folding { stored, widens: is_wanted(options), wide: BTreeMap::new() };
    for region in graph.live_regions() {
        let mut kept = Vec::new();
        for id in graph.region(region).nodes.clone() {
            let node = graph.node(id).clone();
            match folding.fold_node(graph, &node) {
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

impl Folding {
    fn fold_node(&mut self, graph: &Graph, node: &Node) -> Result<Option<Vec<Fact>>, String> {
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
        if !constant || facts.is_empty() || !node.regions.is_empty() || !worthwhile(&facts, &outputs, self.stored) {
            return Ok(None);
        }
        // What cannot be lowered is reported by the stage that lowers everything.
        let Ok(program) = lower_node(graph, node, &facts, &outputs) else { return Ok(None) };
        let tensors = self.evaluate(node, program)?;
        for (tensor, fact) in tensors.iter().zip(&outputs) {
            check_result(tensor, fact)?;
        }
        let constants =
            outputs.into_iter().zip(tensors).map(|(fact, tensor)| Fact { value: Value::Constant(tensor), ..fact });
        Ok(Some(constants.collect()))
    }

    /// The results of a node, whose operands are the first buffers of its program.
    fn evaluate(&mut self, node: &Node, mut program: Program) -> Result<Vec<Tensor>, String> {
        let is_wide = node.inputs.iter().any(|input| self.wide.contains_key(input));
        if !(is_wide || self.widens && computes_with_halves(&mut program)) {
            return interpret(&program, &[]);
        }
        let mut wide = program.clone();
        for (input, buffer) in node.inputs.iter().zip(&mut wide.buffers) {
            if let Some(tensor) = self.wide.get(input) {
                (buffer.element, buffer.role) = (tensor.element, Role::Constant(tensor.clone()));
            }
        }
        if !widen_all(&mut wide) {
            return interpret(&program, &[]);
        }
        let mut results = interpret(&wide, &[])?;
        for ((result, (buffer, _)), value) in results.iter_mut().zip(&program.outputs).zip(&node.outputs) {
            let element = program.buffer(*buffer).element;
            if half(element) {
                let (rounded, exact) = rounded(result, element);
                let wide = std::mem::replace(result, rounded);
                if !exact {
                    self.wide.insert(*value, wide);
                }
            }
        }
        Ok(results)
    }
}

/// A tensor of f32 as 16-bit floats, and whether these are the same numbers.
fn rounded(tensor: &Tensor, element: ElementType) -> (Tensor, bool) {
    let narrow = if element == ElementType::F16 { cast::f32_to_f16_bits } else { cast::f32_to_bf16_bits };
    let widen = if element == ElementType::F16 { cast::f16_bits_to_f32 } else { cast::bf16_bits_to_f32 };
    let numbers = tensor.bytes.as_slice().as_chunks::<4>().0;
    let (mut halves, mut exact, mut i) = (vec![[0; 2]; numbers.len()], true, 0);
    // A plain loop: weights are many, and build scripts are not optimised.
    while i < numbers.len() {
        let bits = narrow(f32::from_le_bytes(numbers[i]));
        exact = exact && widen(bits).to_le_bytes() == numbers[i];
        halves[i] = bits.to_le_bytes();
        i += 1;
    }
    (Tensor { element, dims: tensor.dims.clone(), bytes: halves.into_flattened().into() }, exact)
}

fn worthwhile(facts: &[Fact], outputs: &[Fact], stored: i64) -> bool {
    let after = bytes(outputs.iter());
    after <= FREE || after <= bytes(facts.iter()).min(stored).saturating_mul(GROWTH)
}

fn bytes<'a>(facts: impl Iterator<Item = &'a Fact>) -> i64 {
    let size = |fact: &Fact| product(&fact.dims).upper_bound().saturating_mul((fact.element.bits() as i64).max(8) / 8);
    facts.map(size).fold(0, i64::saturating_add)
}
