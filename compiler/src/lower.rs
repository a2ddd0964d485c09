//! Graph -> Program: every operation writes its defining nests.

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::fact::{Fact, Value};
use crate::graph::{Graph, Node, NodeId, ROOT, RegionId, ValueId};
use crate::program::builder::Builder;
use crate::program::{BufferId, Program, Role, Step, StepKind};
use crate::tensor::Tensor;

/// The program of an inferred graph. All operations that cannot be lowered are reported at once.
pub fn lower(graph: &Graph, diagnostics: &mut Diagnostics) -> Option<Program> {
    let before = diagnostics.errors().count();
    let program = Program {
        variables: graph.variables.clone(),
        checks: graph.checks.clone(),
        name: graph.name.clone(),
        ..Program::default()
    };
    let mut lowering = Lowering { graph, program, buffers: vec![None; graph.values.len()] };
    lowering.program.add_states(graph);
    lowering.interface();
    let mut steps = Vec::new();
    for node in &graph.region(ROOT).nodes {
        match lowering.node(*node) {
            Ok(more) => steps.extend(more),
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    lowering.outputs(&mut steps);
    lowering.program.root.steps = steps;
    lowering.program.keep_state();
    (diagnostics.errors().count() == before).then_some(lowering.program)
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
    program: Program,
    buffers: Vec<Option<BufferId>>,
}

impl Lowering<'_> {
    fn interface(&mut self) {
        for (i, (value, interface)) in self.graph.region(ROOT).parameters.iter().zip(&self.graph.inputs).enumerate() {
            let buffer = self.buffer_for(*value, Role::Input(i));
            self.program.inputs.push((buffer, interface.clone()));
        }
    }

    fn buffer_for(&mut self, value: ValueId, role: Role) -> BufferId {
        let info = self.graph.value(value);
        let (element, dims) = match &info.fact {
            Some(fact) => (fact.element, fact.dims.clone()),
            None => (crate::element::ElementType::F32, Vec::new()), // verified before: every value is inferred
        };
        let buffer = self.program.add_buffer(&info.name, element, dims, role);
        if let Some(slot) = self.buffers.get_mut(value.0 as usize) {
            *slot = Some(buffer);
        }
        buffer
    }

    /// The buffer that holds a value: written before, or a constant.
    fn operand(&mut self, value: ValueId) -> BufferId {
        if let Some(Some(buffer)) = self.buffers.get(value.0 as usize) {
            return *buffer;
        }
        let tensor = self.graph.fact(value).and_then(Fact::as_constant).cloned();
        self.buffer_for(value, tensor.map_or(Role::Temporary, Role::Constant))
    }

    fn node(&mut self, id: NodeId) -> Result<Vec<Step>, Diagnostic> {
        let node = self.graph.node(id);
        if !node.regions.is_empty() {
            let message = format!("control flow ({}) cannot be compiled yet", node.origin.kind);
            return Err(located(Diagnostic::error(&codes::UNSUPPORTED, message), node));
        }
        let facts: Vec<Fact> = node.inputs.iter().filter_map(|input| self.graph.fact(*input).cloned()).collect();
        let inputs: Vec<BufferId> = node.inputs.iter().map(|input| self.operand(*input)).collect();
        let outputs: Vec<BufferId> =
            node.outputs.iter().map(|output| self.buffer_for(*output, Role::Temporary)).collect();
        let mut builder = Builder::new(&mut self.program, &inputs, &outputs, &facts, &node.origin);
        node.op.lower(&mut builder).map_err(|diagnostic| located(diagnostic, node))?;
        Ok(builder.into_steps())
    }

    /// Outputs get a buffer of their own: a copy of the value, which later passes alias away where they can.
    fn outputs(&mut self, steps: &mut Vec<Step>) {
        let region: RegionId = ROOT;
        for (i, (value, interface)) in self.graph.region(region).results.iter().zip(&self.graph.outputs).enumerate() {
            let from = self.operand(*value);
            let buffer = self.program.buffer(from);
            let (element, dims, name) = (buffer.element, buffer.dims.clone(), buffer.name.clone());
            let to = self.program.add_buffer(&name, element, dims, Role::Output(i));
            let origin =
                crate::graph::Origin { name: interface.name.clone(), kind: "Result".to_owned(), span: interface.span };
            steps.push(Step { kind: StepKind::Reshape { from, to }, origins: vec![origin] });
            self.program.outputs.push((to, interface.clone()));
        }
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
