//! A function of single elements of what was reshaped or transposed is computed before: the kernel in front can take it then.

use super::blocks::{Outside, Users, for_each_block};
use super::fuse::is_permutation;
use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
use crate::options::Options;
use crate::program::edit::{Nodes, replace_nodes};
use crate::program::nest::{Access, Axis, Nest, Scalar};
use crate::program::{BufferId, Program, Role, Step, StepKind};
use std::collections::BTreeMap;

/// Moves functions of single elements in front of reshapes.
pub fn hoist_functions(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    for_each_block(program, &mut |program, mut steps, outside| {
        let users = Users::of(program, steps.iter().enumerate());
        let mut early: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
        for at in 0..steps.len() {
            let Some(function) = hoistable(&Block { program, steps: &steps, users: &users, outside }, at) else {
                continue;
            };
            let (place, step) = apply(program, &mut steps, at, &function);
            early.entry(place).or_default().push(step);
        }
        let mut out = Vec::with_capacity(steps.len() + early.len());
        for (at, step) in steps.into_iter().enumerate() {
            out.push(step);
            out.extend(early.remove(&at).unwrap_or_default());
        }
        out
    });
}

/// A function, and where it can be computed.
struct Function {
    /// What it is computed of where it stands, and the result.
    operand: BufferId,
    result: BufferId,
    /// What it can be computed of, the step that writes that, and the step that reads it.
    source: BufferId,
    writer: usize,
    reader: usize,
}

struct Block<'a> {
    program: &'a Program,
    steps: &'a [Step],
    users: &'a Users,
    outside: &'a Outside,
}

impl Block<'_> {
    /// The only writer and the only reader of a temporary that other blocks do not see.
    fn between(&self, buffer: BufferId) -> Option<(usize, usize)> {
        let own = self.program.buffer(buffer);
        let free = own.role == Role::Temporary && own.layout.storage == buffer;
        match (self.users.writers(buffer), self.users.readers(buffer)) {
            ([writer], [reader]) if free && writer < reader && !self.outside.sees(self.program, buffer) => {
                Some((*writer, *reader))
            }
            _ => None,
        }
    }
}

fn hoistable(block: &Block, at: usize) -> Option<Function> {
    let StepKind::Nest(nest) = &block.steps.get(at)?.kind else { return None };
    let operand = operand(block.program, nest)?;
    let result = nest.store.buffer;
    block.between(result).filter(|(writer, _)| *writer == at)?;
    let (mut source, mut reshaped) = (operand, false);
    loop {
        let (writer, reader) = block.between(source)?;
        match &block.steps.get(writer)?.kind {
            StepKind::Reshape { from, .. } => (source, reshaped) = (*from, true),
            StepKind::Nest(nest) if let Some(from) = permuted(block.program, nest) => source = from,
            StepKind::Nest(_) if reshaped => return Some(Function { operand, result, source, writer, reader }),
            _ => return None,
        }
    }
}

/// The only operand of a nest whose results depend on one element of it each, at the same index.
fn operand(program: &Program, nest: &Nest) -> Option<BufferId> {
    let own = |access: &Access| access.index.iter().enumerate().all(|(i, dim)| *dim == Dim::axis(i));
    let mut operand = None;
    for node in &nest.nodes {
        match node {
            Scalar::Load { access, bounds, .. } if program.buffer(access.buffer).constant().is_none() => {
                let other = operand.replace(access.buffer).is_some_and(|other| other != access.buffer);
                if other || !bounds.is_empty() || !own(access) {
                    return None;
                }
            }
            Scalar::Load { access, .. } if access.index.iter().any(Dim::is_index) => return None,
            Scalar::Index(_) | Scalar::Reduced => return None,
            _ => {}
        }
    }
    let (from, to) = (program.buffer(operand?), program.buffer(nest.store.buffer));
    let plain = nest.reduction.is_none() && nest.is_direct() && own(&nest.store) && permuted(program, nest).is_none();
    (plain && from.dims == to.dims && from.element == to.element).then_some(operand?)
}

/// What a nest copies with its dimensions in another order, or in the same.
fn permuted(program: &Program, nest: &Nest) -> Option<BufferId> {
    let [Scalar::Load { access, bounds, .. }] = nest.nodes.as_slice() else { return None };
    let (from, to) = (program.buffer(access.buffer), program.buffer(nest.store.buffer));
    let all = product(&from.dims) == product(&to.dims) && from.element == to.element;
    let each = is_permutation(&access.index, &from.dims) && is_permutation(&nest.store.index, &to.dims);
    (all && each && bounds.is_empty() && nest.reduction.is_none()).then_some(access.buffer)
}

/// Leaves a reshape where the function stood; the new step belongs behind the returned one.
fn apply(program: &mut Program, steps: &mut [Step], at: usize, function: &Function) -> (usize, Step) {
    let Function { operand, result, source, writer, reader } = *function;
    let own = program.buffer(source).clone();
    let early =
        program.add_buffer(&program.buffer(result).name.clone(), own.element, own.dims.clone(), Role::Temporary);
    let index: Vec<Dim> = (0..own.dims.len()).map(Dim::axis).collect();
    let reshape = StepKind::Reshape { from: operand, to: result };
    let step = &mut steps[at];
    let mut moved = Step { kind: std::mem::replace(&mut step.kind, reshape), origins: step.origins.clone() };
    if let StepKind::Nest(nest) = &mut moved.kind {
        let mut nodes = Nodes::default();
        let new = nodes.copy(nest, &Dim::axis, &mut |nodes, _, node| match node {
            Scalar::Load { access, .. } if access.buffer == operand => {
                let access = Access { buffer: source, index: index.clone() };
                Some(nodes.add(Scalar::Load { access, bounds: Vec::new(), otherwise: None }))
            }
            _ => None,
        });
        replace_nodes(nest, nodes, &new);
        nest.axes = own.dims.iter().map(|extent| Axis { extent: extent.clone() }).collect();
        nest.maps = own.dims.len();
        nest.store = Access { buffer: early, index };
    }
    match &mut steps[reader].kind {
        StepKind::Reshape { from, .. } => *from = early,
        StepKind::Nest(nest) => {
            for node in &mut nest.nodes {
                if let Scalar::Load { access, .. } = node
                    && access.buffer == source
                {
                    access.buffer = early;
                }
            }
        }
        _ => {}
    }
    (writer, moved)
}
