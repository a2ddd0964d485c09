//! Products in a loop, of constant weights and data that is there before it: computed before it, for all iterations at once, they
//! read their weights once.

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim};
use crate::options::Options;
use crate::program::kernel::Part;
use crate::program::nest::{Access, Axis, Nest, Scalar};
use crate::program::recognise::{self, Product};
use crate::program::{BufferId, Loop, Program, Role, Step, StepKind};

/// Rows of an iteration, at most: more of them share their weights anyway.
const ROWS: i64 = 32;
/// Elements of all iterations, at most.
const ELEMENTS: i64 = 4 << 20;
/// Copies and reshapes that may lie between a product and what is there before the loop.
const COPIES: usize = 8;

/// Moves products in front of loops.
pub fn hoist_products(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, memory is scarce.
    if !options.has_vector_kernels() {
        return;
    }
    for_each_block(program, &mut |program, steps, outside| {
        let users = Users::of(program, steps.iter().enumerate());
        let mut out = Vec::with_capacity(steps.len());
        for (at, mut step) in steps.into_iter().enumerate() {
            if let StepKind::Loop(inner) = &mut step.kind
                && is_plain(inner)
            {
                let place = Place { outside, users: &users, at };
                while let Some(product) = hoist(program, inner, &place) {
                    out.push(product);
                }
            }
            out.push(step);
        }
        out
    });
}

/// Whether all iterations run, and sizes stay what they are.
fn is_plain(inner: &Loop) -> bool {
    let has_sizes = inner.body.steps.iter().any(|step| matches!(step.kind, StepKind::Size { .. }));
    inner.condition.is_none() && inner.sizes.is_empty() && !has_sizes
}

/// Where a loop stands.
struct Place<'a> {
    outside: &'a Outside,
    users: &'a Users,
    at: usize,
}

impl Place<'_> {
    /// Whether nobody but the steps of the loop's body uses a buffer, under any name.
    fn owns(&self, program: &Program, inner: &Loop, id: BufferId) -> bool {
        let buffer = program.buffer(id);
        let views = program.buffers.iter().filter(|other| other.layout.storage == id).count();
        let others = self.users.readers(id).iter().chain(self.users.writers(id)).any(|at| *at != self.at);
        let carried = inner.carried.iter().any(|(end, start)| *end == id || *start == id);
        buffer.role == Role::Temporary
            && buffer.layout.storage == id
            && views == 1
            && !others
            && !carried
            && !self.outside.sees(program, id)
    }
}

/// Takes the first such product out of a loop, whose readers find the results of all iterations.
fn hoist(program: &mut Program, inner: &mut Loop, place: &Place) -> Option<Step> {
    let count = inner.count.as_const().filter(|count| *count > 1)?;
    let body = Body::of(program, inner);
    let (at, nest, passed) = (0..inner.body.steps.len()).find_map(|at| {
        let (nest, passed) = body.hoisted(at, count)?;
        place.owns(program, inner, nest.store.buffer).then_some((at, nest, passed))
    })?;
    let old = nest.store.buffer;
    let (name, element) = (program.buffer(old).name.clone(), program.buffer(old).element);
    let dims = [Dim::constant(count)].into_iter().chain(program.buffer(old).dims.iter().cloned()).collect();
    let new = program.add_buffer(&name, element, dims, Role::Temporary);
    let nest = over_iterations(nest, inner, count, new);
    let origins = inner.body.steps.remove(at).origins;
    for step in &mut inner.body.steps {
        read_iteration(step, old, new, &Dim::variable(inner.iteration));
    }
    remove_unread(program, inner, place, &passed);
    Some(Step { kind: StepKind::Nest(nest), origins })
}

/// The nest with the iterations as its first axis.
fn over_iterations(mut nest: Nest, inner: &Loop, count: i64, new: BufferId) -> Nest {
    let moved = |dim: &Dim| {
        dim.substitute(&|atom| match atom {
            Atom::Axis(axis) => Some(Dim::axis(*axis as usize + 1)),
            Atom::Variable(variable) if *variable == inner.iteration => Some(Dim::axis(0)),
            _ => None,
        })
    };
    for node in &mut nest.nodes {
        match node {
            Scalar::Index(dim) => *dim = moved(dim),
            Scalar::Load { access, bounds, .. } => {
                access.index.iter_mut().for_each(|dim| *dim = moved(dim));
                for bound in bounds {
                    (bound.value, bound.limit) = (moved(&bound.value), moved(&bound.limit));
                }
            }
            _ => {}
        }
    }
    nest.store =
        Access { buffer: new, index: [Dim::axis(0)].into_iter().chain(nest.store.index.iter().map(moved)).collect() };
    nest.axes.insert(0, Axis { extent: Dim::constant(count) });
    nest.maps += 1;
    nest
}

/// Makes a nest read the result of its iteration.
fn read_iteration(step: &mut Step, old: BufferId, new: BufferId, iteration: &Dim) {
    let StepKind::Nest(nest) = &mut step.kind else { return };
    for node in &mut nest.nodes {
        if let Scalar::Load { access, .. } = node
            && access.buffer == old
        {
            access.buffer = new;
            access.index.insert(0, iteration.clone());
        }
    }
}

/// Removes the steps that wrote these buffers, the last one first, where nobody reads them any more.
fn remove_unread(program: &Program, inner: &mut Loop, place: &Place, passed: &[BufferId]) {
    for id in passed {
        let read = Users::of(program, inner.body.steps.iter().enumerate()).readers(*id).len();
        if read == 0 && place.owns(program, inner, *id) {
            inner.body.steps.retain(|step| step.accesses().1 != [*id]);
        }
    }
}

/// The steps of a loop, and what they and the loop write.
struct Body<'a> {
    program: &'a Program,
    inner: &'a Loop,
    users: Users,
}

impl<'a> Body<'a> {
    fn of(program: &'a Program, inner: &'a Loop) -> Self {
        Body { program, inner, users: Users::of(program, inner.body.steps.iter().enumerate()) }
    }

    /// The nest at a place as a product that reads only what is there before the loop, and the buffers between them.
    fn hoisted(&self, at: usize, count: i64) -> Option<(Nest, Vec<BufferId>)> {
        let StepKind::Nest(nest) = &self.inner.body.steps.get(at)?.kind else { return None };
        let product = recognise::product(self.program, nest)?;
        let result = nest.store.buffer;
        let elements = self.program.buffer(result).len().as_const()?.checked_mul(count)?;
        let sized = |dim: &Dim| !dim.uses_any(&[self.inner.iteration]);
        let readers = self.users.readers(result);
        let fits = elements <= ELEMENTS
            && rows(nest, &product)? <= ROWS
            && self.users.writers(result) == [at]
            && readers.iter().all(|reader| self.reads_directly(*reader, result))
            && nest.axes.iter().all(|axis| sized(&axis.extent))
            && nest.store.index.iter().all(sized);
        let mut nest = fits.then(|| nest.clone())?;
        let mut passed = Vec::new();
        for (i, node) in nest.nodes.iter_mut().enumerate() {
            let Scalar::Load { access, .. } = node else { continue };
            *access = self.before(access.clone(), &mut passed)?;
            let constant = self.program.buffer(access.buffer).constant().is_some();
            let varies = !access.index.iter().all(sized);
            if i == product.weights as usize && !constant || i == product.data as usize && !varies {
                return None;
            }
        }
        Some((nest, passed))
    }

    /// Whether a step is a nest that names a buffer wherever it reads its memory.
    fn reads_directly(&self, at: usize, id: BufferId) -> bool {
        let step = self.inner.body.steps.get(at);
        step.is_some_and(|step| matches!(&step.kind, StepKind::Nest(nest) if nest.loads().any(|a| a.buffer == id)))
    }

    /// What an access reads in a buffer that is there before the loop, through copies and reshapes, which are noted.
    fn before(&self, mut access: Access, passed: &mut Vec<BufferId>) -> Option<Access> {
        for _ in 0..COPIES {
            let storage = self.program.buffer(access.buffer).layout.storage;
            let starts =
                self.inner.carried.iter().any(|(_, start)| self.program.buffer(*start).layout.storage == storage);
            let [writer] = self.users.writers(storage) else {
                return (self.users.writers(storage).is_empty() && !starts).then_some(access);
            };
            if starts || storage != access.buffer {
                return None;
            }
            passed.push(access.buffer);
            let element = self.program.buffer(access.buffer).element;
            access = match &self.inner.body.steps.get(*writer)?.kind {
                StepKind::Reshape { from, to } if *to == access.buffer => {
                    let [from_dims, dims] = [*from, *to].map(|id| &self.program.buffer(id).dims);
                    Access { buffer: *from, index: without_units(from_dims, dims, &access.index)? }
                }
                StepKind::Nest(nest) => copied(nest, &access.index)?,
                _ => return None,
            };
            if self.program.buffer(access.buffer).element != element {
                return None;
            }
        }
        None
    }
}

/// Rows of a product.
fn rows(nest: &Nest, product: &Product) -> Option<i64> {
    let rows = (0..nest.maps).filter(|axis| product.parts[*axis] == Part::Row);
    rows.map(|axis| nest.axes[axis].extent.as_const()).try_fold(1i64, |rows, extent| rows.checked_mul(extent?))
}

/// The index of the same element in a tensor that differs in dimensions of one element only.
fn without_units(from: &[Dim], to: &[Dim], index: &[Dim]) -> Option<Vec<Dim>> {
    let mut others = to.iter().zip(index).filter(|(dim, _)| !dim.is(1));
    let index = from.iter().map(|dim| match dim.is(1) {
        true => Some(Dim::constant(0)),
        false => others.next().filter(|(other, _)| *other == dim).map(|(_, index)| index.clone()),
    });
    let index = index.collect::<Option<Vec<Dim>>>()?;
    others.next().is_none().then_some(index)
}

/// What a nest that only copies reads for an element of its result.
fn copied(nest: &Nest, index: &[Dim]) -> Option<Access> {
    let [Scalar::Load { access, bounds, .. }] = nest.nodes.as_slice() else { return None };
    let whole = nest.store.index.iter().enumerate().all(|(axis, dim)| *dim == Dim::axis(axis));
    if !bounds.is_empty() || nest.reduction.is_some() || !whole || !access.is_direct() {
        return None;
    }
    let place = |atom: &Atom| match atom {
        Atom::Axis(axis) => index.get(*axis as usize).cloned(),
        _ => None,
    };
    Some(Access { buffer: access.buffer, index: access.index.iter().map(|dim| dim.substitute(&place)).collect() })
}
