//! Infers facts of all values, and the elements of small ones: what shape operands need.

use crate::diag::{Diagnostic, Diagnostics, codes, quote};
use crate::dim::product;
use crate::fact::{Fact, MAX_SYMBOLIC, Value};
use crate::graph::{Graph, Node, ROOT};
use crate::lower::lower_node;
use crate::op::InferContext;
use crate::options::Options;
use crate::program::{BufferId, Program, symbolic};

/// Results up to this many elements are folded while inferring.
const SMALL: i64 = 4096;
/// Largest size of one value in bytes: what a signed 40-bit offset reaches.
const LIMIT: i64 = 1 << 40;

/// Infers until nothing new is found of the sizes of state variables: where there are none, once.
pub fn infer(graph: &mut Graph, options: &Options, diagnostics: &mut Diagnostics) {
    for parameter in graph.region(ROOT).parameters.clone() {
        if let Err(diagnostic) = graph.fact(parameter).map_or(Ok(()), check_size) {
            diagnostics.push(diagnostic.note(format!("in input {}", quote(&graph.value(parameter).name))));
            return;
        }
    }
    let (variables, checks) = (graph.variables.len(), graph.checks.len());
    loop {
        let problems = infer_nodes(graph);
        match crate::state::settle(graph, variables, problems.is_empty(), options) {
            Ok(true) => graph.checks.truncate(checks),
            Err(diagnostic) if problems.is_empty() => return diagnostics.push(diagnostic),
            Ok(false) | Err(_) => return diagnostics.extend(problems),
        }
    }
}

/// Infers in execution order; nodes behind a failed one are skipped, so every message is about a cause.
fn infer_nodes(graph: &mut Graph) -> Vec<Diagnostic> {
    graph.states.iter_mut().for_each(|state| state.next = None);
    for output in graph.nodes.iter().flat_map(|node| &node.outputs) {
        graph.values[output.0 as usize].fact = None;
    }
    let mut problems = Vec::new();
    for id in graph.region(ROOT).nodes.clone() {
        let node = graph.node(id).clone();
        let facts: Option<Vec<Fact>> = node.inputs.iter().map(|input| graph.fact(*input).cloned()).collect();
        let Some(facts) = facts else { continue };
        match infer_node(graph, &node, &facts) {
            Ok(outputs) => {
                for (output, fact) in node.outputs.iter().zip(outputs) {
                    graph.values[output.0 as usize].fact = Some(fact);
                }
            }
            Err(diagnostic) => problems.push(located(diagnostic, &node)),
        }
    }
    problems
}

fn infer_node(graph: &mut Graph, node: &Node, facts: &[Fact]) -> Result<Vec<Fact>, Diagnostic> {
    let mut context = InferContext {
        variables: std::mem::take(&mut graph.variables),
        states: std::mem::take(&mut graph.states),
        ..InferContext::default()
    };
    let before = context.variables.len();
    let inferred = node.op.infer(facts, &mut context);
    graph.variables = std::mem::take(&mut context.variables);
    graph.states = std::mem::take(&mut context.states);
    graph.states.iter_mut().filter(|s| s.origin.span.is_none()).for_each(|s| s.origin = node.origin.clone());
    graph.checks.append(&mut context.checks);
    let mut outputs = inferred?;
    if outputs.len() < node.outputs.len() {
        return Err(Diagnostic::error(&codes::INTERNAL, "an operation infers fewer results than it has"));
    }
    outputs.truncate(node.outputs.len());
    outputs.iter().try_for_each(check_size)?;
    for fact in &mut outputs {
        if let Value::Sizes(sizes) = &fact.value {
            fact.value = constant_or_sizes(fact, sizes.clone());
        }
    }
    let known = facts.iter().all(|fact| fact.value != Value::Unknown);
    if known && !node.op.props().effect && node.regions.is_empty() {
        match graph.variables.len() > before {
            true => find_sizes(graph, node, facts, &mut outputs, before),
            false => find_values(graph, node, facts, &mut outputs),
        }
    }
    Ok(outputs)
}

/// Elements of small results whose operands are known, by interpreting the operation's own nests.
fn find_values(graph: &Graph, node: &Node, facts: &[Fact], outputs: &mut [Fact]) {
    let small = outputs.iter().all(|fact| product(&fact.dims).as_const().is_some_and(|n| n <= SMALL));
    if !small || outputs.iter().any(|fact| fact.value != Value::Unknown) {
        return;
    }
    let Ok(program) = lower_node(graph, node, facts, outputs) else { return };
    if facts.iter().all(|fact| fact.as_constant().is_some()) {
        if let Ok(tensors) = crate::program::interpret::interpret(&program, &[]) {
            for (fact, tensor) in outputs.iter_mut().zip(tensors) {
                fact.value = Value::Constant(tensor);
            }
        }
        return;
    }
    let known: Vec<(BufferId, Vec<crate::dim::Dim>)> = operands(&program, facts);
    for (fact, (buffer, _)) in outputs.iter_mut().zip(&program.outputs) {
        let integers =
            fact.element.is_integer() && product(&fact.dims).as_const().is_some_and(|n| n <= MAX_SYMBOLIC as i64);
        if let (true, Some(sizes)) = (integers, symbolic::evaluate(&program, &known, *buffer)) {
            fact.value = constant_or_sizes(fact, sizes);
        }
    }
}

/// Results whose sizes depend on operands that are all constant, by running the operation.
fn find_sizes(graph: &mut Graph, node: &Node, facts: &[Fact], outputs: &mut Vec<Fact>, known: usize) {
    let small = outputs.iter().all(|fact| product(&fact.dims).upper_bound() <= SMALL);
    if !small || facts.iter().any(|fact| fact.as_constant().is_none()) {
        return;
    }
    let Ok(program) = lower_node(graph, node, facts, outputs) else { return };
    if let Ok(tensors) = crate::program::interpret::interpret(&program, &[]) {
        *outputs = tensors.into_iter().map(Fact::constant).collect();
        graph.variables.truncate(known);
    }
}

fn operands(program: &Program, facts: &[Fact]) -> Vec<(BufferId, Vec<crate::dim::Dim>)> {
    // `lower_node` adds one buffer per operand, in order, before anything else.
    let buffers = (0..program.buffers.len() as u32).map(BufferId);
    buffers.zip(facts).filter_map(|(buffer, fact)| Some((buffer, fact.as_sizes()?))).collect()
}

/// Sizes that turned out constant are a constant.
fn constant_or_sizes(fact: &Fact, sizes: Vec<crate::dim::Dim>) -> Value {
    let values: Option<Vec<i64>> = sizes.iter().map(crate::dim::Dim::as_const).collect();
    let tensor = values
        .zip(fact.static_dims())
        .and_then(|(values, dims)| crate::tensor::Tensor::from_integers(fact.element, dims, &values));
    tensor.map_or(Value::Sizes(sizes), Value::Constant)
}

fn check_size(fact: &Fact) -> Result<(), Diagnostic> {
    if let Some(dim) = fact.dims.iter().find(|dim| dim.range().max < 0) {
        return Err(Diagnostic::error(&codes::SHAPE, format!("a dimension of {fact} is negative: {dim}")));
    }
    let bytes = product(&fact.dims).upper_bound().saturating_mul((fact.element.bits() as i64).max(8) / 8);
    match bytes > LIMIT {
        true => Err(Diagnostic::error(&codes::LIMIT, format!("a value of shape {fact} needs more than {LIMIT} bytes"))),
        false => Ok(()),
    }
}

fn located(diagnostic: Diagnostic, node: &Node) -> Diagnostic {
    let note = format!("in the {} layer {}", node.origin.kind, quote(&node.origin.name));
    match (diagnostic.span, node.origin.span) {
        (None, Some(span)) => diagnostic.at(span).note(note),
        _ => diagnostic.note(note),
    }
}
