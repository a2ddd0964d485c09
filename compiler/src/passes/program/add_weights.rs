//! A sum of products of the same data with constants becomes one product with the sum of the constants: the branches of
//! networks that are trained with several convolutions, and a scale beside them, where one would do.

mod linear;

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::options::{Accuracy, Options};
use crate::program::nest::{Access, Binary, Nest, Scalar};
use crate::program::{BufferId, Layout, Program, Role, Step, StepKind};
use crate::tensor::Tensor;
use linear::Linear;
use std::collections::BTreeMap;

/// Adds weights of products that are added; constants that are added to them come behind.
pub fn add_weights(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // The sum of two weights may overflow where the sum of their products does not.
    if options.accuracy == Accuracy::Exact {
        return;
    }
    for_each_block(program, &mut |program, steps, outside| {
        let users = Users::of(program, steps.iter().enumerate());
        let steps = steps.into_iter().map(|step| vec![step]).collect();
        let mut block = Block { steps, users, outside, made: BTreeMap::new() };
        for at in 0..block.steps.len() {
            if let Some(change) = block.change(program, at) {
                block.make(program, at, change);
            }
        }
        block.steps.into_iter().flatten().collect()
    });
}

struct Block<'a> {
    /// What every step has become.
    steps: Vec<Vec<Step>>,
    users: Users,
    outside: &'a Outside,
    /// Results of products that were made here, and the steps that one of them belongs to.
    made: BTreeMap<BufferId, usize>,
}

/// An operand of a sum: a product, and a constant that is added to it.
struct Term {
    /// The steps that compute it.
    steps: Vec<usize>,
    product: Nest,
    linear: Linear,
    shift: Option<Access>,
}

/// What becomes of a sum.
struct Change {
    /// The steps that are no longer needed.
    dropped: Vec<usize>,
    product: Nest,
    /// The load of the weights, what they are called, and what they become.
    weights: (usize, String, Tensor),
    /// The constant that is added, if any: where it is read, and another value than what is there.
    shift: Option<(Access, Option<Tensor>)>,
}

impl Block<'_> {
    fn change(&self, program: &Program, at: usize) -> Option<Change> {
        let StepKind::Nest(nest) = &self.steps.get(at)?.last()?.kind else { return None };
        let sum = Sum::of(program, nest)?;
        let (a, b) = (self.term(program, &sum.a, at)?, self.term(program, &sum.b, at)?);
        let steps: Vec<usize> = a.steps.iter().chain(&b.steps).copied().collect();
        let data = program.buffer(a.linear.data.buffer).layout.storage;
        let first = steps.iter().copied().min()?;
        let kept = !self.users.writers(data).iter().any(|step| (first..at).contains(step));
        if a.linear.data.buffer != b.linear.data.buffer || sum.a.buffer == sum.b.buffer || !kept {
            return None;
        }
        let shift = shift(program, a.shift.clone(), b.shift.clone())?;
        let (host, tensor) = match a.linear.with(program, &b.linear) {
            Some(tensor) => (a, tensor),
            None => {
                let tensor = b.linear.with(program, &a.linear)?;
                (b, tensor)
            }
        };
        let name = program.buffer(host.linear.weights.buffer).name.clone();
        let weights = (host.linear.weights_node, name, tensor);
        Some(Change { dropped: steps, product: host.product, weights, shift })
    }

    /// What computes a buffer that only this step reads.
    fn term(&self, program: &Program, access: &Access, reader: usize) -> Option<Term> {
        let (step, nest) = self.writer(program, access.buffer, reader)?;
        if let Some(linear) = Linear::of(program, nest) {
            return Some(Term { steps: vec![step], product: nest.clone(), linear, shift: None });
        }
        let sum = Sum::of(program, nest)?;
        let constant = |access: &Access| program.buffer(access.buffer).constant().is_some();
        let (inner, shift) = match (constant(&sum.a), constant(&sum.b)) {
            (false, true) => (sum.a, sum.b),
            (true, false) => (sum.b, sum.a),
            _ => return None,
        };
        let (before, nest) = self.writer(program, inner.buffer, step)?;
        let linear = Linear::of(program, nest)?;
        Some(Term { steps: vec![before, step], product: nest.clone(), linear, shift: Some(shift) })
    }

    /// The nest that alone writes a buffer which this step alone reads.
    fn writer(&self, program: &Program, id: BufferId, reader: usize) -> Option<(usize, &Nest)> {
        let buffer = program.buffer(id);
        let step = match self.made.get(&id) {
            Some(step) => *step,
            None => {
                let free = buffer.role == Role::Temporary && !self.outside.sees(program, id);
                let (&[writer], &[only]) = (self.users.writers(id), self.users.readers(id)) else { return None };
                (free && only == reader && buffer.layout == Layout::row_major(id, &buffer.dims)).then_some(writer)?
            }
        };
        let nest = self.steps.get(step)?.iter().find_map(|step| match &step.kind {
            StepKind::Nest(nest) if nest.store.buffer == id => Some(nest),
            _ => None,
        });
        Some((step, nest?))
    }

    fn make(&mut self, program: &mut Program, at: usize, change: Change) {
        let (node, name, tensor) = change.weights;
        let (mut product, weights) = (change.product, program.add_constant(&name, tensor));
        if let Some(Scalar::Load { access, .. }) = product.nodes.get_mut(node) {
            access.buffer = weights;
        }
        let dropped = change.dropped.iter().filter(|step| **step != at);
        let mut origins = Vec::new();
        for step in dropped {
            let steps = self.steps.get_mut(*step).map(std::mem::take).unwrap_or_default();
            origins.extend(steps.into_iter().flat_map(|step| step.origins));
        }
        let Some(steps) = self.steps.get_mut(at) else { return };
        let Some(mut sum) = steps.pop() else { return };
        let StepKind::Nest(nest) = &mut sum.kind else { return };
        product.store.buffer = nest.store.buffer;
        let Some((mut shift, tensor)) = change.shift else {
            origins.append(&mut sum.origins);
            *steps = vec![Step { kind: StepKind::Nest(product), origins }];
            return;
        };
        if let Some(tensor) = tensor {
            let name = program.buffer(shift.buffer).name.clone();
            shift.buffer = program.add_constant(&name, tensor);
        }
        let result = program.buffer(nest.store.buffer).clone();
        product.store.buffer = program.add_buffer(&result.name, result.element, result.dims, Role::Temporary);
        let index = nest.store.index.clone();
        self.made.insert(product.store.buffer, at);
        let load = |access: Access| Scalar::Load { access, bounds: Vec::new(), otherwise: None };
        let from = Access { buffer: product.store.buffer, index };
        nest.nodes = vec![load(from), load(shift), Scalar::Binary(Binary::Add, 0, 1)];
        nest.result = 2;
        let first = Step { kind: StepKind::Nest(product), origins };
        *steps = vec![first, sum];
    }
}

/// A nest that adds two buffers, of which at most one is smaller than the result, element by element.
struct Sum {
    a: Access,
    b: Access,
}

impl Sum {
    fn of(program: &Program, nest: &Nest) -> Option<Sum> {
        let Scalar::Binary(Binary::Add, a, b) = nest.nodes.get(nest.result as usize)? else { return None };
        let load = |node: u32| match nest.nodes.get(node as usize) {
            Some(Scalar::Load { access, bounds, .. }) if bounds.is_empty() => Some(access),
            _ => None,
        };
        let (a, b) = (load(*a)?, load(*b)?);
        let result = program.buffer(nest.store.buffer);
        let whole = |access: &Access| {
            let buffer = program.buffer(access.buffer);
            let mut indices = access.index.iter().zip(&result.dims).enumerate();
            let own = indices.all(|(axis, (index, dim))| *index == Dim::axis(axis) || index.is(0) && dim.is(1));
            own && buffer.dims == result.dims
        };
        // A constant has at most one element for every element of the result.
        let part = |access: &Access| {
            let buffer = program.buffer(access.buffer);
            let mut indices = access.index.iter().enumerate();
            buffer.constant().is_some() && indices.all(|(axis, index)| *index == Dim::axis(axis) || index.is(0))
        };
        let floats = [a.buffer, b.buffer, nest.store.buffer].map(|id| program.buffer(id).element == ElementType::F32);
        let fits = nest.reduction.is_none()
            && nest.axes.len() == result.dims.len()
            && nest.axes.iter().zip(&result.dims).all(|(axis, dim)| axis.extent == *dim)
            && whole(&nest.store)
            && (whole(a) && (whole(b) || part(b)) || part(a) && whole(b))
            && floats == [true; 3];
        fits.then(|| Sum { a: a.clone(), b: b.clone() })
    }
}

/// The sum of two constants, if there are any: `None` if they are of different shapes.
fn shift(program: &Program, a: Option<Access>, b: Option<Access>) -> Option<Option<(Access, Option<Tensor>)>> {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (None, None) => return Some(None),
        (one, other) => return Some(one.or(other).map(|access| (access, None))),
    };
    let [first, second] = [&a, &b].map(|access| program.buffer(access.buffer).constant());
    let (first, second) = (first?, second?);
    if a.index != b.index || first.dims != second.dims {
        return None;
    }
    let sums: Vec<f32> = linear::floats(first)?.zip(linear::floats(second)?).map(|(x, y)| x + y).collect();
    Some(Some((a, Some(Tensor::from_f32s(first.dims.clone(), &sums)))))
}
