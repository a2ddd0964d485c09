//! If: one of two bodies runs.

use super::condition;
use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, Variable};
use crate::fact::{Fact, Value};
use crate::graph::Inline;
use crate::op::operands::operand;
use crate::op::{InferContext, Op};
use crate::program::builder::Builder;
use crate::program::{Block, BufferId, Step, StepKind};
use crate::read::{Attributes, Body};
use std::rc::Rc;

/// If (8): the then branch runs where operand 0 is true, else the else branch. Results whose dimensions differ between
/// the branches get run-time sizes.
#[derive(Debug)]
struct Branch {
    name: String,
    branches: [Wiring; 2],
}

/// How one branch is connected.
#[derive(Debug)]
struct Wiring {
    /// The operand that each parameter of the body gets.
    operands: Vec<usize>,
    /// The result of the body that each result of the operation is.
    results: Vec<usize>,
}

pub(super) fn parse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let layer = attributes.layer();
    let [then, otherwise] = layer.bodies.as_slice() else {
        return Err(Diagnostic::error(&codes::BODY, "an If needs two branches"));
    };
    Ok(Rc::new(Branch { name: layer.name.clone(), branches: [wiring(then)?, wiring(otherwise)?] }))
}

fn wiring(body: &Body) -> Result<Wiring, Diagnostic> {
    let operand = |parameter: usize| {
        let mut inputs = body.inputs.iter().filter(|input| input.parameter == parameter);
        inputs.find_map(|input| input.external).ok_or_else(|| Diagnostic::internal("a parameter is not connected"))
    };
    let operands = (0..body.net.parameters.len()).map(operand).collect::<Result<_, _>>()?;
    // The reader sorts them by the output they are.
    let results = body.outputs.iter().filter(|output| output.external.is_some()).map(|output| output.result).collect();
    Ok(Wiring { operands, results })
}

impl Wiring {
    fn infer(&self, body: usize, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let parameters = self.operands.iter().map(|i| operand(inputs, *i).cloned()).collect::<Result<_, _>>()?;
        let results = context.body(body, parameters)?;
        self.results.iter().map(|i| operand(&results, *i).cloned()).collect()
    }

    /// The branch with copies of its results into those of the operation.
    fn lower(&self, body: usize, builder: &mut Builder) -> Result<Block, Diagnostic> {
        let parameters: Vec<BufferId> = self.operands.iter().map(|i| builder.input(*i)).collect::<Result<_, _>>()?;
        let (body, results) = builder.body(body, &parameters)?;
        let found: Vec<Variable> = body.iter().flat_map(Step::sets).collect();
        let mut copies = Vec::with_capacity(self.results.len());
        for (i, result) in self.results.iter().enumerate() {
            let from = *results.get(*result).ok_or_else(|| Diagnostic::internal("a branch lacks a result"))?;
            copies.push((from, builder.output(i)?));
        }
        // Sizes of results that the branch need not find are known before it writes them.
        let mut sizes = |early: bool| {
            builder.inner(|builder| {
                for (from, to) in &copies {
                    for (open, size) in builder.dims(*to).iter().zip(builder.dims(*from)) {
                        if size.uses_any(&found) != early {
                            builder.set_size(open, size);
                        }
                    }
                }
                Ok(())
            })
        };
        let (mut steps, late) = (sizes(true)?, sizes(false)?);
        steps.extend(body);
        steps.extend(late);
        steps.extend(builder.inner(|builder| copies.iter().try_for_each(|(from, to)| builder.copy(*from, *to)))?);
        Ok(Block { steps })
    }
}

impl Op for Branch {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let [then, otherwise] = &self.branches;
        if let Some(taken) = condition(operand(inputs, 0)?, "the condition of an If")? {
            let (body, wiring) = if taken { (0, then) } else { (1, otherwise) };
            context.inline = Some(Inline { body, operands: wiring.operands.clone(), results: wiring.results.clone() });
            return wiring.infer(body, inputs, context);
        }
        let a = then.infer(0, inputs, context)?;
        let b = otherwise.infer(1, inputs, context)?;
        let pairs = a.into_iter().zip(b).enumerate();
        pairs.map(|(i, (a, b))| self.merged(i, &a, &b, context)).collect()
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let condition = builder.input(0)?;
        let [then, otherwise] = &self.branches;
        let (then, otherwise) = (then.lower(0, builder)?, otherwise.lower(1, builder)?);
        builder.push(StepKind::If { condition, then, otherwise });
        Ok(())
    }
}

impl Branch {
    /// What is known of result `i`, whichever branch runs.
    fn merged(&self, i: usize, a: &Fact, b: &Fact, context: &mut InferContext) -> Result<Fact, Diagnostic> {
        if a.element != b.element || a.rank() != b.rank() {
            let message = format!("result {i} is {a} in one branch and {b} in the other");
            return Err(Diagnostic::error(&codes::SHAPE, message)
                .note("both branches must give the same element type and number of dimensions"));
        }
        let mut dim = |(axis, (a, b)): (usize, (&Dim, &Dim))| {
            let (low, high) = (a.range(), b.range());
            let name = format!("{}_{i}_{axis}", self.name);
            if a == b { a.clone() } else { context.fresh(&name, low.min.min(high.min).max(0), low.max.max(high.max)) }
        };
        let dims = a.dims.iter().zip(&b.dims).enumerate().map(&mut dim).collect();
        let value = if a.value == b.value { a.value.clone() } else { Value::Unknown };
        Ok(Fact { element: a.element, dims, value })
    }
}
