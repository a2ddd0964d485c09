//! A pointwise nest between two reshapes, of which the second undoes the first, works on the dimensions from before, where these
//! differ in dimensions of one element only: what comes before and behind can then be fused with it.

use super::blocks::{Outside, for_each_block};
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
        let users = Users::of(program, &steps);
        for at in 0..steps.len() {
            let Some((first, last, nest)) = between(program, &steps, &users, outside, at) else { continue };
            let removed = [first, last].map(|step| steps.get_mut(step).and_then(Option::take));
            if let Some(Some(step)) = steps.get_mut(at) {
                step.kind = StepKind::Nest(nest);
                step.origins.extend(removed.into_iter().flatten().flat_map(|step| step.origins));
            }
        }
        steps.into_iter().flatten().collect()
    });
}

/// By buffer: steps of the block that read it, steps that write it.
struct Users(Vec<(Vec<usize>, Vec<usize>)>);

impl Users {
    fn of(program: &Program, steps: &[Option<Step>]) -> Self {
        let mut users = vec![(Vec::new(), Vec::new()); program.buffers.len()];
        for (i, step) in steps.iter().enumerate() {
            let Some((reads, writes)) = step.as_ref().map(Step::accesses) else { continue };
            reads.into_iter().for_each(|buffer| users[buffer.0 as usize].0.push(i));
            writes.into_iter().for_each(|buffer| users[buffer.0 as usize].1.push(i));
        }
        Users(users)
    }

    /// The only writer of a temporary that other blocks do not see.
    fn writer(&self, program: &Program, outside: &Outside, buffer: BufferId) -> Option<usize> {
        let own = program.buffer(buffer);
        let free = own.role == Role::Temporary && own.layout.storage == buffer && !outside.sees(program, buffer);
        match self.0.get(buffer.0 as usize) {
            Some((_, writers)) if free && writers.len() == 1 => writers.first().copied(),
            _ => None,
        }
    }

    /// The only reader.
    fn reader(&self, buffer: BufferId) -> Option<usize> {
        match self.0.get(buffer.0 as usize)?.0.as_slice() {
            [reader] => Some(*reader),
            _ => None,
        }
    }
}

/// The reshapes around the nest at this place, and what it becomes without them.
fn between(
    program: &Program,
    steps: &[Option<Step>],
    users: &Users,
    outside: &Outside,
    at: usize,
) -> Option<(usize, usize, Nest)> {
    let reshape = |step: usize| match steps.get(step)?.as_ref()?.kind {
        StepKind::Reshape { from, to } => Some((from, to)),
        _ => None,
    };
    let StepKind::Nest(nest) = &steps.get(at)?.as_ref()?.kind else { return None };
    if nest.reduction.is_some() || !nest.is_direct() || users.writer(program, outside, nest.store.buffer)? != at {
        return None;
    }
    let last = users.reader(nest.store.buffer)?;
    let (_, result) = reshape(last)?;
    let mut loads = nest.loads().filter_map(|access| {
        let first = users.writer(program, outside, access.buffer)?;
        let (operand, _) = reshape(first)?;
        let same = program.buffer(operand).dims == program.buffer(result).dims;
        (same && users.reader(access.buffer)? == at).then_some((access.buffer, first, operand))
    });
    let (reshaped, first, operand) = loads.next()?;
    users.writer(program, outside, operand)?;
    users.writer(program, outside, result)?;
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
