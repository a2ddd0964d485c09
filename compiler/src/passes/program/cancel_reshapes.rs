//! A pointwise nest between two reshapes, of which the second undoes the first, works on the dimensions from before, where these
//! differ in dimensions of one element only: what comes before and behind can then be fused with it.

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::edit::{Nodes, replace_nodes};
use crate::program::nest::{Access, Nest, Scalar};
use crate::program::{BufferId, Program, Role, Step, StepKind};

/// Drops pairs of reshapes.
pub fn cancel_reshapes(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    for_each_block(program, &mut |program, steps, outside| {
        let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
        let users = Users::of(program, steps.iter().enumerate().filter_map(|(i, step)| Some((i, step.as_ref()?))));
        for at in 0..steps.len() {
            let block = Block { program, steps: &steps, users: &users, outside };
            let Some((first, last, nest)) = between(&block, at) else { continue };
            let removed = [first, last].map(|step| steps.get_mut(step).and_then(Option::take));
            if let Some(Some(step)) = steps.get_mut(at) {
                step.kind = StepKind::Nest(nest);
                step.origins.extend(removed.into_iter().flatten().flat_map(|step| step.origins));
            }
        }
        steps.into_iter().flatten().collect()
    });
}

/// The block in which pairs of reshapes are looked for.
struct Block<'a> {
    program: &'a Program,
    steps: &'a [Option<Step>],
    users: &'a Users,
    outside: &'a Outside,
}

impl Block<'_> {
    /// The only writer of a temporary that other blocks do not see.
    fn writer(&self, buffer: BufferId) -> Option<usize> {
        let own = self.program.buffer(buffer);
        let free = own.role == Role::Temporary && own.layout.storage == buffer;
        match self.users.writers(buffer) {
            [writer] if free && !self.outside.sees(self.program, buffer) => Some(*writer),
            _ => None,
        }
    }

    /// The only reader.
    fn reader(&self, buffer: BufferId) -> Option<usize> {
        match self.users.readers(buffer) {
            [reader] => Some(*reader),
            _ => None,
        }
    }

    /// The operand and the result of a reshape.
    fn reshape(&self, step: usize) -> Option<(BufferId, BufferId)> {
        match self.steps.get(step)?.as_ref()?.kind {
            StepKind::Reshape { from, to } => Some((from, to)),
            _ => None,
        }
    }
}

/// The reshapes around the nest at this place, and what it becomes without them.
fn between(block: &Block, at: usize) -> Option<(usize, usize, Nest)> {
    let program = block.program;
    let StepKind::Nest(nest) = &block.steps.get(at)?.as_ref()?.kind else { return None };
    if nest.reduction.is_some() || !nest.is_direct() || block.writer(nest.store.buffer)? != at {
        return None;
    }
    let last = block.reader(nest.store.buffer)?;
    let (_, result) = block.reshape(last)?;
    let mut loads = nest.loads().filter_map(|access| {
        let first = block.writer(access.buffer)?;
        let (operand, _) = block.reshape(first)?;
        let same = program.buffer(operand).dims == program.buffer(result).dims;
        (same && block.reader(access.buffer)? == at).then_some((access.buffer, first, operand))
    });
    let (reshaped, first, operand) = loads.next()?;
    block.writer(operand)?;
    block.writer(result)?;
    let (before, after) = (&program.buffer(operand).dims, &program.buffer(reshaped).dims);
    let stored = &program.buffer(nest.store.buffer).dims;
    let moved = |index: &[Dim], dims: &[Dim]| moved(index, dims, before);
    let mut nodes = Nodes::default();
    let mut missing = false;
    let new = nodes.copy(nest, &Dim::axis, &mut |nodes, _, node| match node {
        Scalar::Load { access, bounds, otherwise } if access.buffer == reshaped => {
            let index = moved(&access.index, after);
            missing |= index.is_none();
            let access = Access { buffer: operand, index: index? };
            Some(nodes.add(Scalar::Load { access, bounds: bounds.clone(), otherwise: *otherwise }))
        }
        _ => None,
    });
    let mut inner = nest.clone();
    inner.store = Access { buffer: result, index: moved(&nest.store.index, stored)? };
    replace_nodes(&mut inner, nodes, &new);
    (!missing && first < at && at < last).then_some((first, last, inner))
}

/// An index into dimensions as one into others that differ in dimensions of one element only.
fn moved(index: &[Dim], dims: &[Dim], to: &[Dim]) -> Option<Vec<Dim>> {
    let mut rest = index.iter().zip(dims).filter(|(_, dim)| !dim.is(1));
    let mut out = Vec::with_capacity(to.len());
    for wanted in to {
        if wanted.is(1) {
            out.push(Dim::constant(0));
            continue;
        }
        let (index, dim) = rest.next()?;
        if dim != wanted {
            return None;
        }
        out.push(index.clone());
    }
    rest.next().is_none().then_some(out)
}
