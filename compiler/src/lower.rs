//! Graph -> Program: every operation writes its defining nests.

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::element::ElementType;
use crate::fact::{Fact, Value};
use crate::graph::{Graph, Node, Origin, ROOT, RegionId, ValueId};
use crate::program::builder::{Bodies, Builder};
use crate::program::{BufferId, Program, Role, Step, StepKind};
use crate::tensor::Tensor;

/// The program of an inferred graph. All operations that cannot be lowered are reported at once.
pub fn lower(graph: &Graph, diagnostics: &mut Diagnostics) -> Option<Program> {
    let before = diagnostics.errors().count();
    refuse_strings(graph, diagnostics);
    let mut program = Program {
        variables: graph.variables.clone(),
        checks: graph.region(ROOT).checks.clone(),
        name: graph.name.clone(),
        ..Program::default()
    };
    program.add_states(graph);
    let mut lowering = Lowering { graph, buffers: vec![None; graph.values.len()], problems: Vec::new() };
    lowering.interface(&mut program);
    let mut steps = lowering.nodes(&mut program, ROOT);
    lowering.outputs(&mut program, &mut steps);
    diagnostics.extend(lowering.problems);
    program.root.steps = steps;
    program.keep_state();
    (diagnostics.errors().count() == before).then_some(program)
}

/// Inputs and outputs are numbers and booleans; strings inside the graph are reported by the operations on them.
fn refuse_strings(graph: &Graph, diagnostics: &mut Diagnostics) {
    let root = graph.region(ROOT);
    let lists = [("input", &root.parameters, &graph.inputs), ("output", &root.results, &graph.outputs)];
    for (kind, values, interfaces) in lists {
        for (value, interface) in values.iter().zip(interfaces) {
            if graph.fact(*value).is_none_or(|fact| fact.element != ElementType::String) {
                continue;
            }
            let message = format!("{kind} {} is a tensor of strings", crate::diag::quote(&interface.name));
            let diagnostic = Diagnostic::error(&codes::UNSUPPORTED, message)
                .help("compiled models take and give numbers and booleans");
            diagnostics.push(interface.span.map_or(diagnostic.clone(), |span| diagnostic.at(span)));
        }
    }
}

/// The program of one operation on its own, with its operands and results as inputs and outputs: what folding interprets.
///
/// # Errors
/// Where the operation cannot be lowered.
pub fn lower_node(graph: &Graph, node: &Node, facts: &[Fact], outputs: &[Fact]) -> Result<Program, Diagnostic> {
    let mut program = Program { variables: graph.variables.clone(), ..Program::default() };
    let mut inputs = Vec::new();
    for fact in facts {
        let buffer = match &fact.value {
            Value::Constant(tensor) => program.add_constant("", tensor.clone()),
            _ => program.add_buffer("", fact.element, fact.dims.clone(), Role::Temporary),
        };
        inputs.push(buffer);
    }
    let mut results = Vec::new();
    for (i, fact) in outputs.iter().enumerate() {
        let buffer = program.add_buffer("", fact.element, fact.dims.clone(), Role::Output(i));
        program.outputs.push((buffer, Default::default()));
        results.push(buffer);
    }
    let mut builder = Builder::new(&mut program, &inputs, &results, facts, &node.origin);
    node.op.lower(&mut builder)?;
    program.root.steps = builder.into_steps();
    Ok(program)
}

struct Lowering<'g> {
    graph: &'g Graph,
    buffers: Vec<Option<BufferId>>,
    problems: Vec<Diagnostic>,
}

impl Lowering<'_> {
    fn interface(&mut self, program: &mut Program) {
        for (i, (value, interface)) in self.graph.region(ROOT).parameters.iter().zip(&self.graph.inputs).enumerate() {
            let buffer = self.buffer_for(program, *value, Role::Input(i));
            program.inputs.push((buffer, interface.clone()));
        }
    }

    fn buffer_for(&mut self, program: &mut Program, value: ValueId, role: Role) -> BufferId {
        let info = self.graph.value(value);
        let (element, dims) = match &info.fact {
            Some(fact) => (fact.element, fact.dims.clone()),
            None => (ElementType::F32, Vec::new()), // verified before: every value is inferred
        };
        let buffer = program.add_buffer(&info.name, element, dims, role);
        self.bind(value, buffer);
        buffer
    }

    fn bind(&mut self, value: ValueId, buffer: BufferId) {
        if let Some(slot) = self.buffers.get_mut(value.0 as usize) {
            *slot = Some(buffer);
        }
    }

    /// The buffer that holds a value: written before, or a constant.
    fn operand(&mut self, program: &mut Program, value: ValueId) -> BufferId {
        if let Some(Some(buffer)) = self.buffers.get(value.0 as usize) {
            return *buffer;
        }
        let tensor = self.graph.fact(value).and_then(Fact::as_constant).cloned();
        self.buffer_for(program, value, tensor.map_or(Role::Temporary, Role::Constant))
    }

    /// The steps of all nodes of a region.
    fn nodes(&mut self, program: &mut Program, region: RegionId) -> Vec<Step> {
        let mut steps = Vec::new();
        for id in &self.graph.region(region).nodes {
            let node = self.graph.node(*id);
            match self.node(program, node) {
                Ok(more) => steps.extend(more),
                Err(diagnostic) => self.problems.push(located(diagnostic, node)),
            }
        }
        steps
    }

    fn node(&mut self, program: &mut Program, node: &Node) -> Result<Vec<Step>, Diagnostic> {
        let mut facts: Vec<Fact> = node.inputs.iter().filter_map(|input| self.graph.fact(*input).cloned()).collect();
        for read in &node.reads {
            if let Some(fact) = facts.get_mut(read.operand) {
                fact.value = Value::Sizes(read.sizes.clone());
            }
        }
        let inputs: Vec<BufferId> = node.inputs.iter().map(|input| self.operand(program, *input)).collect();
        let outputs: Vec<BufferId> =
            node.outputs.iter().map(|output| self.buffer_for(program, *output, Role::Temporary)).collect();
        let mut bodies = NodeBodies { lowering: self, node };
        let mut builder =
            Builder::new(program, &inputs, &outputs, &facts, &node.origin).with_bodies(&node.locals, &mut bodies);
        for read in &node.reads {
            builder.read_operand(read)?;
        }
        node.op.lower(&mut builder)?;
        Ok(builder.into_steps())
    }

    /// Outputs get a buffer of their own: a copy of the value, which later passes alias away where they can.
    fn outputs(&mut self, program: &mut Program, steps: &mut Vec<Step>) {
        for (i, (value, interface)) in self.graph.region(ROOT).results.iter().zip(&self.graph.outputs).enumerate() {
            let from = self.operand(program, *value);
            let buffer = program.buffer(from);
            let (element, dims, name) = (buffer.element, buffer.dims.clone(), buffer.name.clone());
            let to = program.add_buffer(&name, element, dims, Role::Output(i));
            let origin = Origin { name: interface.name.clone(), kind: "Result".to_owned(), span: interface.span };
            steps.push(Step { kind: StepKind::Reshape { from, to }, origins: vec![origin] });
            program.outputs.push((to, interface.clone()));
        }
    }
}

/// The bodies of one node.
struct NodeBodies<'l, 'g> {
    lowering: &'l mut Lowering<'g>,
    node: &'l Node,
}

impl Bodies for NodeBodies<'_, '_> {
    fn facts(&self, body: usize) -> Option<(Vec<Fact>, Vec<Fact>)> {
        let graph = self.lowering.graph;
        let region = graph.region(*self.node.regions.get(body)?);
        let facts = |values: &[ValueId]| -> Option<Vec<Fact>> {
            values.iter().map(|value| graph.fact(*value).cloned()).collect()
        };
        Some((facts(&region.parameters)?, facts(&region.results)?))
    }

    fn lower(&mut self, program: &mut Program, body: usize, parameters: &[BufferId]) -> (Vec<Step>, Vec<BufferId>) {
        let graph = self.lowering.graph;
        let Some(id) = self.node.regions.get(body).copied() else { return Default::default() };
        let region = graph.region(id);
        for (value, buffer) in region.parameters.iter().zip(parameters) {
            self.lowering.bind(*value, *buffer);
        }
        let mut steps = self.lowering.nodes(program, id);
        let mut checks = Builder::new(program, &[], &[], &[], &self.node.origin);
        region.checks.iter().for_each(|(left, right)| checks.check_equal(left, right));
        steps.extend(checks.into_steps());
        let results = region.results.iter().map(|result| self.lowering.operand(program, *result)).collect();
        (steps, results)
    }
}

fn located(diagnostic: Diagnostic, node: &Node) -> Diagnostic {
    let note = format!("in the {} layer {}", node.origin.kind, crate::diag::quote(&node.origin.name));
    match (diagnostic.span, node.origin.span) {
        (None, Some(span)) => diagnostic.at(span).note(note),
        _ => diagnostic,
    }
}

/// Checks that a constant program's result is what its fact promises.
///
/// # Errors
/// A message for an internal error.
pub fn check_result(tensor: &Tensor, fact: &Fact) -> Result<(), String> {
    let dims = fact.static_dims().ok_or("a constant of unknown shape")?;
    match tensor.element == fact.element && tensor.dims == dims {
        true => Ok(()),
        false => Err(format!("folding gave {}{:?} instead of {fact}", tensor.element, tensor.dims)),
    }
}
