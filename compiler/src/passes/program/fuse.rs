//! Fuses nests: a consumer continues where its producer ends, so that no value goes through memory in between.
//!
//! Five rules, tried on every nest of a block in execution order until none applies:
//! a producer that only moves elements is read through; one that pads with zeros becomes the bounds of a sum of products;
//! a pointwise producer with one reader is computed in place; a pointwise consumer of a reduction becomes its epilogue, and of
//! several reductions, that of each ([`parts`]).
mod parts;

use super::blocks::{Outside, for_each_block};
use super::select::MAX_BOUNDS;
use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim, product};
use crate::element::ElementType;
use crate::options::Options;
use crate::plan::inline_constant;
use crate::program::edit::{Nodes, prune, renumber_dim, replace_nodes};
use crate::program::kernel::Part;
use crate::program::nest::{Access, Bound, Const, Nest, Scalar};
use crate::program::{BufferId, Program, Role, Step, StepKind, recognise};

/// A fused nest has at most this many nodes: more would spill registers, and very long chains would never end.
const MAX_NODES: usize = 48;

/// Runs the rules over all steps.
pub fn fuse_nests(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, memory is scarce.
    let keeps_kernels = options.has_vector_kernels();
    for_each_block(program, &mut |program, steps, outside| {
        let mut fusing = Fusing::new(program, outside, steps, keeps_kernels);
        for consumer in 0..fusing.steps.len() {
            while fusing.improve(consumer) {}
        }
        fusing.drop_unread();
        fusing.steps.into_iter().flatten().collect()
    });
}

struct Fusing<'p> {
    program: &'p Program,
    outside: &'p Outside,
    steps: Vec<Option<Step>>,
    /// Steps that write a storage.
    writers: Vec<Vec<usize>>,
    /// Steps that read a storage.
    readers: Vec<Vec<usize>>,
    /// Whether what kernels compute, who store f32, stays apart from what is stored as another type.
    keeps_kernels: bool,
}

impl<'p> Fusing<'p> {
    fn new(program: &'p Program, outside: &'p Outside, steps: Vec<Step>, keeps_kernels: bool) -> Self {
        let none = vec![Vec::new(); program.buffers.len()];
        let mut fusing =
            Fusing { program, outside, steps: Vec::new(), writers: none.clone(), readers: none, keeps_kernels };
        for (i, step) in steps.into_iter().enumerate() {
            fusing.steps.push(Some(step));
            fusing.register(i);
        }
        fusing
    }

    fn storage(&self, buffer: BufferId) -> usize {
        self.program.buffer(buffer).layout.storage.0 as usize
    }

    /// Storages that a step reads and storages that it writes.
    fn accesses(&self, step: usize) -> (Vec<usize>, Vec<usize>) {
        let Some(Some(step)) = self.steps.get(step) else { return Default::default() };
        let (reads, writes) = step.accesses();
        let storages = |buffers: Vec<BufferId>| {
            let mut list: Vec<usize> = buffers.into_iter().map(|buffer| self.storage(buffer)).collect();
            list.sort_unstable();
            list.dedup();
            list
        };
        (storages(reads), storages(writes))
    }

    fn register(&mut self, step: usize) {
        let (reads, writes) = self.accesses(step);
        reads.into_iter().for_each(|storage| self.readers[storage].push(step));
        writes.into_iter().for_each(|storage| self.writers[storage].push(step));
    }

    fn unregister(&mut self, step: usize) {
        let (reads, writes) = self.accesses(step);
        reads.into_iter().for_each(|storage| self.readers[storage].retain(|s| *s != step));
        writes.into_iter().for_each(|storage| self.writers[storage].retain(|s| *s != step));
    }

    fn nest(&self, step: usize) -> Option<&Nest> {
        match &self.steps.get(step)?.as_ref()?.kind {
            StepKind::Nest(nest) => Some(nest),
            _ => None,
        }
    }

    /// Applies one rule to one operand of the step; whether there was one.
    fn improve(&mut self, consumer: usize) -> bool {
        let Some(nest) = self.nest(consumer) else { return false };
        let mut operands: Vec<(usize, BufferId)> =
            nest.loads().filter_map(|a| Some((self.producer(a.buffer)?, a.buffer))).collect();
        // The latest producer first: it may take the place of the consumer, the earlier ones may not have run there.
        operands.sort_by_key(|operand| std::cmp::Reverse(*operand));
        operands.dedup();
        for (producer, buffer) in operands {
            if let Some(fused) = self.fused(producer, consumer, buffer) {
                self.replace(producer, consumer, buffer, fused);
                return true;
            }
        }
        self.join_parts(consumer)
    }

    /// The nest that alone writes a temporary in this block.
    fn producer(&self, buffer: BufferId) -> Option<usize> {
        let whole = self.storage(buffer) == buffer.0 as usize;
        let temporary = self.program.buffer(buffer).role == Role::Temporary;
        match self.writers[self.storage(buffer)].as_slice() {
            [step] if whole && temporary && self.nest(*step)?.store.buffer == buffer => Some(*step),
            _ => None,
        }
    }

    fn fused(&self, producer: usize, consumer: usize, buffer: BufferId) -> Option<Nest> {
        let (before, after) = (self.nest(producer)?, self.nest(consumer)?);
        if before.nodes.len() + after.nodes.len() > MAX_NODES || producer >= consumer || !covers(self.program, before) {
            return None;
        }
        let only_reader = self.readers[self.storage(buffer)] == [consumer] && !self.outside.sees(self.program, buffer);
        let fused = match before.reduction {
            None if is_move(before) => read_through(before, after, buffer),
            None if let Some(fused) = read_padded(self.program, before, after, buffer) => Some(fused),
            None if only_reader => compute_in_place(self.program, before, after, buffer),
            Some(_) if only_reader && !self.leaves_kernels(before, after) => {
                continue_reduction(self.program, before, after, buffer)
            }
            _ => None,
        };
        fused.filter(|fused| self.may_run_later(before, fused, producer, consumer))
    }

    /// Whether kernels compute one nest, and could not store the result of both.
    fn leaves_kernels(&self, before: &Nest, after: &Nest) -> bool {
        let is_f32 = |nest: &Nest| self.program.buffer(nest.store.buffer).element == ElementType::F32;
        let product = || recognise::product(self.program, before).is_some_and(|of| of.parts.contains(&Part::Column));
        let window = || recognise::any_window(self.program, before).is_some();
        self.keeps_kernels && is_f32(before) && !is_f32(after) && (product() || window())
    }

    /// Whether the producer finds its operands in place of the consumer: no step writes them in between, and the fused
    /// nest itself (a state variable that is updated) writes only the very element that it reads.
    fn may_run_later(&self, before: &Nest, fused: &Nest, producer: usize, consumer: usize) -> bool {
        let target = self.storage(fused.store.buffer);
        before.loads().all(|access| {
            let storage = self.storage(access.buffer);
            let between = self.writers[storage].iter().any(|step| *step > producer && *step < consumer);
            !between && (storage != target || updates_in_place(self.program, fused))
        })
    }

    fn replace(&mut self, producer: usize, consumer: usize, buffer: BufferId, mut fused: Nest) {
        prune(&mut fused);
        self.unregister(consumer);
        let origins = self.steps[producer].as_ref().map(|s| s.origins.clone()).unwrap_or_default();
        let alone = self.readers[self.storage(buffer)].is_empty() && !self.outside.sees(self.program, buffer);
        if let Some(step) = &mut self.steps[consumer] {
            step.kind = StepKind::Nest(fused);
            let mut all = origins;
            all.append(&mut step.origins);
            all.dedup_by(|a, b| a.name == b.name && a.kind == b.kind);
            step.origins = all;
        }
        if alone {
            self.unregister(producer);
            self.steps[producer] = None;
        }
        self.register(consumer);
    }

    /// Moves that every reader reads through are dead.
    fn drop_unread(&mut self) {
        for step in (0..self.steps.len()).rev() {
            let Some(nest) = self.nest(step) else { continue };
            let buffer = nest.store.buffer;
            if self.program.buffer(buffer).role == Role::Temporary
                && self.readers[self.storage(buffer)].is_empty()
                && !self.outside.sees(self.program, buffer)
            {
                self.unregister(step);
                self.steps[step] = None;
            }
        }
    }
}

/// Whether every point of the nest reads nothing of the memory that it writes but the element at its own place.
fn updates_in_place(program: &Program, nest: &Nest) -> bool {
    let address = |access: &Access| program.address(access.buffer, &access.index);
    let target = program.buffer(nest.store.buffer).layout.storage;
    nest.reduction.is_none()
        && nest.loads().all(|access| {
            program.buffer(access.buffer).layout.storage != target || address(access) == address(&nest.store)
        })
}

/// Whether the nest writes every element of its buffer.
pub(super) fn covers(program: &Program, nest: &Nest) -> bool {
    points(nest) == Some(product(&program.buffer(nest.store.buffer).dims))
}

/// How many elements the nest writes, where it says at once which.
fn points(nest: &Nest) -> Option<Dim> {
    let linear = nest.store.index.iter().all(|dim| !matches!(dim.parts().0, [(product, _)] if product.len() > 1));
    let points = nest.axes.iter().take(nest.maps).fold(Dim::constant(1), |n, axis| n * &axis.extent);
    (nest.store.is_direct() && linear).then_some(points)
}

/// One unconditional load, stored as it is, at places that are sums of axes and sizes.
fn is_move(nest: &Nest) -> bool {
    let steady = |atom: &Atom| matches!(atom, Atom::Variable(_));
    let affine = |dim: &Dim| {
        let linear = |product: &[Atom]| matches!(product, [Atom::Axis(_)]) || product.iter().all(steady);
        dim.parts().0.iter().all(|(product, _)| linear(product))
    };
    match nest.nodes.as_slice() {
        [Scalar::Load { access, bounds, .. }] => bounds.is_empty() && access.index.iter().all(affine),
        _ => false,
    }
}

/// The producer's axes in terms of an index into its buffer; `None` unless each dimension is one axis (or one element).
fn axes_from_index(nest: &Nest, index: &[Dim]) -> Option<Vec<Dim>> {
    let mut axes: Vec<Option<Dim>> = vec![None; nest.axes.len()];
    for (stored, wanted) in nest.store.index.iter().zip(index) {
        if stored.is(0) {
            continue;
        }
        let axis = (0..nest.maps).find(|axis| *stored == Dim::axis(*axis))?;
        if axes.get_mut(axis)?.replace(wanted.clone()).is_some() {
            return None;
        }
    }
    let single =
        |(axis, found): (usize, Option<Dim>)| found.or_else(|| nest.axes[axis].extent.is(1).then(|| Dim::constant(0)));
    axes.into_iter().enumerate().take(nest.maps).map(single).collect()
}

/// Reads the producer's operand where the consumer read its result.
fn read_through(before: &Nest, after: &Nest, buffer: BufferId) -> Option<Nest> {
    let [Scalar::Load { access: source, .. }] = before.nodes.as_slice() else { return None };
    let mut fused = after.clone();
    let mut nodes = Nodes::default();
    let mut failed = false;
    let new = nodes.copy(after, &Dim::axis, &mut |nodes, _, node| match node {
        Scalar::Load { access, bounds, otherwise } if access.buffer == buffer => {
            let Some(axes) = axes_from_index(before, &access.index) else {
                failed = true;
                return None;
            };
            let index = source.index.iter().map(|dim| renumber_dim(dim, &[], &|axis| axes[axis].clone())).collect();
            let access = Access { buffer: source.buffer, index };
            Some(nodes.add(Scalar::Load { access, bounds: bounds.clone(), otherwise: *otherwise }))
        }
        _ => None,
    });
    replace_nodes(&mut fused, nodes, &new);
    (!failed).then_some(fused)
}

/// Reads the operand of a padding with zeros where a sum of products read the result: kernels pad themselves.
fn read_padded(program: &Program, before: &Nest, after: &Nest, buffer: BufferId) -> Option<Nest> {
    let [value, Scalar::Load { access: source, bounds: inside, otherwise: Some(0) }] = before.nodes.as_slice() else {
        return None;
    };
    let value = match value {
        Scalar::Const(value) => Some(*value),
        load => inline_constant(program, load),
    };
    let product = recognise::product(program, after)?;
    let Scalar::Load { access, bounds, .. } = after.nodes.get(product.data as usize)? else { return None };
    let alone = access.buffer == buffer && after.loads().filter(|access| access.buffer == buffer).count() == 1;
    if value != Some(Const::F32(0.0)) || before.result != 1 || !alone || !bounds.is_empty() {
        return None;
    }
    let axes = axes_from_index(before, &access.index)?;
    let moved = |dim: &Dim| renumber_dim(dim, &[], &|axis| axes[axis].clone());
    let bounds: Vec<Bound> =
        inside.iter().map(|bound| Bound { value: moved(&bound.value), limit: moved(&bound.limit) }).collect();
    // Padded channels would take the depth from the sum.
    let by_row = |dim: &Dim| (0..after.maps).any(|axis| product.parts[axis] == Part::Row && dim.uses_axis(axis));
    if bounds.len() > MAX_BOUNDS || !bounds.iter().all(|bound| by_row(&bound.value)) {
        return None;
    }
    let access = Access { buffer: source.buffer, index: source.index.iter().map(moved).collect() };
    let mut nodes = Nodes::default();
    let zero = nodes.add(Scalar::Const(Const::F32(0.0)));
    let load = nodes.add(Scalar::Load { access, bounds, otherwise: Some(zero) });
    let new = nodes.copy(after, &Dim::axis, &mut |_, at, _| (at == product.data as usize).then_some(load));
    let mut fused = after.clone();
    replace_nodes(&mut fused, nodes, &new);
    Some(fused)
}

/// Whether every load of `buffer` visits each element once, without bounds.
fn visits_once(program: &Program, nest: &Nest, buffer: BufferId) -> bool {
    let dims = &program.buffer(buffer).dims;
    let points = nest.axes.iter().fold(Dim::constant(1), |n, axis| n * &axis.extent);
    points == product(dims)
        && nest.nodes.iter().all(|node| match node {
            Scalar::Load { access, bounds, .. } if access.buffer == buffer => {
                bounds.is_empty() && is_permutation(&access.index, dims)
            }
            _ => true,
        })
}

/// Whether each index is one axis of its own, or zero in a dimension of one element.
pub(super) fn is_permutation(index: &[Dim], dims: &[Dim]) -> bool {
    let mut seen = Vec::new();
    index.iter().zip(dims).all(|(i, dim)| match i.parts() {
        ([(product, 1)], 0) => match product.as_slice() {
            [Atom::Axis(axis)] if !seen.contains(axis) => {
                seen.push(*axis);
                true
            }
            _ => false,
        },
        _ => i.is(0) && dim.is(1),
    })
}

/// Computes the producer's value where the consumer read it.
fn compute_in_place(program: &Program, before: &Nest, after: &Nest, buffer: BufferId) -> Option<Nest> {
    let product_form = recognise::product(program, after).is_some();
    if product_form || !visits_once(program, after, buffer) {
        return None;
    }
    let mut fused = after.clone();
    let mut nodes = Nodes::default();
    let mut failed = false;
    let new = nodes.copy(after, &Dim::axis, &mut |nodes, _, node| match node {
        Scalar::Load { access, .. } if access.buffer == buffer => match axes_from_index(before, &access.index) {
            Some(axes) => {
                let inner = nodes.copy(before, &|axis| axes[axis].clone(), &mut |_, _, _| None);
                Some(inner[before.result as usize])
            }
            None => {
                failed = true;
                None
            }
        },
        _ => None,
    });
    replace_nodes(&mut fused, nodes, &new);
    (!failed).then_some(fused)
}

/// Continues after the producer's reduction with the consumer's nodes.
fn continue_reduction(program: &Program, before: &Nest, after: &Nest, buffer: BufferId) -> Option<Nest> {
    if after.reduction.is_some() || !visits_once(program, after, buffer) {
        return None;
    }
    let mut indices = after.loads().filter(|access| access.buffer == buffer).map(|access| &access.index);
    let index = indices.next()?;
    if indices.any(|other| other != index) {
        return None;
    }
    // What the consumer's axes are in terms of the producer's.
    let mut axes: Vec<Option<Dim>> = vec![None; after.axes.len()];
    for (wanted, stored) in index.iter().zip(&before.store.index) {
        if let Some(axis) = (0..after.axes.len()).find(|axis| *wanted == Dim::axis(*axis)) {
            axes[axis] = Some(stored.clone());
        }
    }
    let single =
        |(axis, found): (usize, Option<Dim>)| found.or_else(|| after.axes[axis].extent.is(1).then(|| Dim::constant(0)));
    let axes: Vec<Dim> = axes.into_iter().enumerate().map(single).collect::<Option<_>>()?;
    let mut fused = before.clone();
    let mut nodes = Nodes::default();
    let first = nodes.copy(before, &Dim::axis, &mut |_, _, _| None);
    let result = first[before.result as usize];
    let new = nodes.copy(after, &|axis| axes[axis].clone(), &mut |_, _, node| match node {
        Scalar::Load { access, .. } if access.buffer == buffer => Some(result),
        _ => None,
    });
    let store = after.store.index.iter().map(|dim| renumber_dim(dim, &new, &|axis| axes[axis].clone())).collect();
    replace_nodes(&mut fused, nodes, &first);
    fused.result = new[after.result as usize];
    fused.store = Access { buffer: after.store.buffer, index: store };
    (!scatters(program, before, &fused)).then_some(fused)
}

/// Whether columns of a product that lie side by side would be written apart between others, where no order of dimensions puts them
/// side by side: kernels write them together, and copy afterwards.
fn scatters(program: &Program, before: &Nest, fused: &Nest) -> bool {
    let Some(product) = recognise::product(program, before) else { return false };
    let run = |nest: &Nest| recognise::run_of_columns(program, nest, &product.parts).0.range().min;
    let column = |dim: &Dim| (0..before.maps).any(|axis| product.parts[axis] == Part::Column && dim.uses_axis(axis));
    let several = |dim: &Dim| (0..before.maps).filter(|axis| dim.uses_axis(*axis)).count() > 1;
    let between = fused.store.index.iter().any(|dim| several(dim) && column(dim));
    between && run(before) >= recognise::FEWEST_COLUMNS && run(fused) < recognise::FEWEST_COLUMNS
}
