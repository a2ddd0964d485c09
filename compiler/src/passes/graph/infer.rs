//! Infers facts of all values, and the elements of small ones: what shape operands need.

use crate::diag::{Diagnostic, Diagnostics, codes, quote};
use crate::dim::product;
use crate::element::ElementType;
use crate::fact::{Fact, MAX_SYMBOLIC, Value};
use crate::graph::{Graph, Node, NodeId, ROOT, RegionId, ValueId, VariableInfo};
use crate::lower::lower_node;
use crate::op::{Bodies, InferContext};
use crate::options::{Bound, Options};
use crate::program::symbolic::{self, Symbol};
use crate::program::{BufferId, Program};

/// Results up to this many elements are folded while inferring.
const SMALL: i64 = 4096;
/// Largest size of one value in bytes: what a signed 40-bit offset reaches.
const LIMIT: i64 = 1 << 40;

/// Bodies are inferred again while facts widen, and bodies in bodies again for each time: inference ends with an error
/// after this many operations in bodies.
const BODY_NODES: usize = 1 << 20;

/// Infers until nothing new is found of the sizes of state variables: where there are none, once.
pub fn infer(graph: &mut Graph, options: &Options, diagnostics: &mut Diagnostics) {
    for (parameter, interface) in graph.region(ROOT).parameters.iter().zip(&graph.inputs) {
        if let Err(mut diagnostic) = graph.fact(*parameter).map_or(Ok(()), check_size) {
            diagnostic.span = interface.span;
            diagnostics.push(diagnostic.note(format!("in input {}", quote(&interface.name))));
            return;
        }
    }
    let known = graph.variables.len();
    loop {
        graph.states.iter_mut().for_each(|state| state.next = None);
        let mut problems = Vec::new();
        let mut inference = Inference { graph, bounds: &options.bound, left: BODY_NODES };
        inference.region(ROOT, &mut |diagnostic| problems.push(diagnostic));
        match crate::state::settle(graph, known, problems.is_empty(), options) {
            Ok(true) => {}
            Err(diagnostic) if problems.is_empty() => return diagnostics.push(diagnostic),
            Ok(false) | Err(_) => return diagnostics.extend(problems),
        }
    }
}

struct Inference<'g> {
    graph: &'g mut Graph,
    bounds: &'g [Bound],
    /// Operations in bodies that may still be inferred.
    left: usize,
}

impl Inference<'_> {
    /// Infers in execution order; nodes behind a failed one are skipped, so every message is about a cause.
    fn region(&mut self, region: RegionId, report: &mut dyn FnMut(Diagnostic)) {
        self.graph.region_mut(region).checks.clear();
        for id in self.graph.region(region).nodes.clone() {
            let node = self.graph.node(id).clone();
            // What an earlier attempt found must not look like a result.
            node.outputs.iter().for_each(|output| self.set(*output, None));
            let facts: Option<Vec<Fact>> = node.inputs.iter().map(|input| self.graph.fact(*input).cloned()).collect();
            let inferred = facts.map(|facts| self.node(region, id, &node, &facts));
            if let Some(Err(diagnostic)) = inferred {
                report(located(diagnostic, &node));
            }
        }
    }

    fn node(&mut self, region: RegionId, id: NodeId, node: &Node, facts: &[Fact]) -> Result<(), Diagnostic> {
        let bounds = self.bounds;
        let (variables, states) = (std::mem::take(&mut self.graph.variables), std::mem::take(&mut self.graph.states));
        let mut infer_body = |body: usize, parameters: Vec<Fact>, variables: &mut Vec<VariableInfo>| {
            std::mem::swap(&mut self.graph.variables, variables);
            let results = self.body(node, body, parameters);
            std::mem::swap(&mut self.graph.variables, variables);
            results
        };
        let bodies = Bodies::new(&mut infer_body);
        let layer = node.origin.name.as_str();
        let mut context = InferContext { variables, states, bounds, layer, bodies, ..InferContext::default() };
        let before = context.variables.len();
        let inferred = node.op.infer(facts, &mut context);
        let InferContext { variables, states, mut checks, locals, reads, inline, .. } = context;
        (self.graph.variables, self.graph.states) = (variables, states);
        let unplaced = self.graph.states.iter_mut().filter(|state| state.origin.span.is_none());
        unplaced.for_each(|state| state.origin = node.origin.clone());
        self.graph.region_mut(region).checks.append(&mut checks);
        let slot = self.graph.node_mut(id);
        (slot.locals, slot.reads, slot.inline) = (locals, reads, inline);
        let mut outputs = inferred?;
        if outputs.len() < node.outputs.len() {
            return Err(Diagnostic::internal("an operation infers fewer results than it has"));
        }
        outputs.truncate(node.outputs.len());
        outputs.iter().try_for_each(check_size)?;
        outputs.iter_mut().for_each(settle_value);
        let known = facts.iter().all(|fact| fact.value != Value::Unknown);
        if known && !node.op.props().effect && node.regions.is_empty() {
            match self.graph.variables.len() > before {
                true => find_sizes(self.graph, node, facts, &mut outputs, before),
                false => find_values(self.graph, node, facts, &mut outputs),
            }
        }
        node.outputs.iter().zip(outputs).for_each(|(output, fact)| self.set(*output, Some(fact)));
        Ok(())
    }

    fn body(&mut self, node: &Node, body: usize, parameters: Vec<Fact>) -> Result<Vec<Fact>, Diagnostic> {
        let region = *node.regions.get(body).ok_or_else(|| Diagnostic::internal("an operation lacks a body"))?;
        self.left = self.left.saturating_sub(self.graph.region(region).nodes.len().max(1));
        if self.left == 0 {
            return Err(Diagnostic::error(&codes::LIMIT, "loops are nested too deeply to find the shapes in them"));
        }
        let values = self.graph.region(region).parameters.clone();
        for (value, mut fact) in values.into_iter().zip(parameters) {
            check_size(&fact)?;
            settle_value(&mut fact);
            self.set(value, Some(fact));
        }
        let mut problem = None;
        self.region(region, &mut |diagnostic| {
            problem.get_or_insert(diagnostic);
        });
        // While a node is inferred, the graph has no state but what its bodies read.
        if let (Some(state), None) = (self.graph.states.first(), &problem) {
            let message = format!("variable {} is read in a body of an operation", quote(&state.id));
            return Err(Diagnostic::error(&codes::UNSUPPORTED, message)
                .note("the first run could not tell whether it was initialised")
                .help("read and assign it outside, and pass its value in and out"));
        }
        self.graph.states.clear();
        if let Some(problem) = problem {
            return Err(problem);
        }
        let results = self.graph.region(region).results.iter().map(|result| self.graph.fact(*result).cloned());
        results.collect::<Option<_>>().ok_or_else(|| Diagnostic::internal("a body has a result that was not inferred"))
    }

    fn set(&mut self, value: ValueId, fact: Option<Fact>) {
        if let Some(info) = self.graph.values.get_mut(value.0 as usize) {
            info.fact = fact;
        }
    }
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
    let known = operands(&program, facts);
    for (fact, (buffer, _)) in outputs.iter_mut().zip(&program.outputs) {
        if product(&fact.dims).as_const().is_none_or(|n| n > MAX_SYMBOLIC as i64) {
            continue;
        }
        let integers = fact.element.is_integer() || fact.element == ElementType::Boolean;
        let floats = matches!(fact.element, ElementType::F32 | ElementType::F64);
        let elements = if integers || floats { symbolic::evaluate(&program, &known, *buffer) } else { None };
        fact.value = match elements {
            Some(elements) if floats => symbolic::fractions(elements).map_or(Value::Unknown, Value::Fractions),
            Some(elements) => symbolic::sizes(elements).map_or(Value::Unknown, |sizes| constant_or_sizes(fact, sizes)),
            None => continue,
        };
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

fn operands(program: &Program, facts: &[Fact]) -> Vec<(BufferId, Vec<Symbol>)> {
    // `lower_node` adds one buffer per operand, in order, before anything else.
    let buffers = (0..program.buffers.len() as u32).map(BufferId);
    buffers.zip(facts).filter_map(|(buffer, fact)| Some((buffer, Symbol::all(fact)?))).collect()
}

/// Elements that are known as sizes and turn out constant are a constant.
fn settle_value(fact: &mut Fact) {
    if let Value::Sizes(sizes) = &fact.value {
        fact.value = constant_or_sizes(fact, sizes.clone());
    }
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
