//! Copies in another order, for one nest after the other: in a loop, of what one iteration reads.
use super::Choosing;
use crate::dim::{Atom, Dim};
use crate::graph::Origin;
use crate::program::nest::{Access, Axis, Nest, Node, Scalar};
use crate::program::{BufferId, Layout, Program, Role, Step, StepKind};

/// A copy of a part of a buffer, in which a dimension is contiguous.
#[derive(Clone, PartialEq)]
pub(super) struct Slice {
    pub source: BufferId,
    dim: usize,
    part: Extract,
    copy: BufferId,
}

/// From where on a buffer is copied, and how far.
#[derive(Clone, PartialEq)]
struct Extract {
    first: Vec<Dim>,
    dims: Vec<Dim>,
}

impl Extract {
    /// What a load reads of dimensions in which a run-time size says where it begins, as the number of an iteration does; all of
    /// the others. None if it reads all, or cannot be said to read part of what is there.
    fn of(program: &Program, nest: &Nest, load: Node) -> Option<Extract> {
        let Some(Scalar::Load { access, bounds, .. }) = nest.nodes.get(load as usize) else { return None };
        // What such a size puts in the padding may not be there to be copied.
        if bounds.iter().any(|bound| uses_size(&bound.value) || uses_size(&bound.limit)) {
            return None;
        }
        let mut part = Extract { first: Vec::new(), dims: Vec::new() };
        for (index, whole) in access.index.iter().zip(&program.buffer(access.buffer).dims) {
            let axis = (0..nest.axes.len()).find(|axis| index.uses_axis(*axis));
            let first = axis.map_or(index.clone(), |axis| index.without(axis));
            if !uses_size(&first) {
                part.first.push(Dim::constant(0));
                part.dims.push(whole.clone());
                continue;
            }
            let bounded = |axis| bounds.iter().any(|bound| bound.value.uses_axis(axis) || bound.limit.uses_axis(axis));
            let fits = |axis: usize| index.coefficient(axis) == Some(1) && !bounded(axis);
            let extent = axis.map_or(Dim::constant(1), |axis| nest.axes[axis].extent.clone());
            if first.is_index() || extent.is_index() || !axis.is_none_or(fits) {
                return None;
            }
            part.dims.push(extent);
            part.first.push(first);
        }
        part.first.iter().any(|first| !first.is(0)).then_some(part)
    }
}

/// Whether a run-time size occurs.
fn uses_size(dim: &Dim) -> bool {
    let mut found = false;
    dim.for_each_atom(&mut |atom| found |= matches!(atom, Atom::Variable(_)));
    found
}

impl Choosing {
    /// Makes the load read a copy of its buffer in which dimension `dim` is contiguous.
    pub(super) fn relayout(
        &mut self,
        program: &mut Program,
        nest: &mut Nest,
        load: Node,
        dim: usize,
        origins: &[Origin],
    ) {
        let part = if self.depth > 1 { Extract::of(program, nest, load) } else { None };
        let Some(Scalar::Load { access, .. }) = nest.nodes.get_mut(load as usize) else { return };
        let source = access.buffer;
        let Some(part) = part else {
            access.buffer = self.copies.get(&(source, dim)).copied().unwrap_or_else(|| {
                let dims = program.buffer(source).dims.clone();
                let copy = self.ordered_copy(program, source, dims.clone(), dim);
                self.out.push(Step { kind: StepKind::Nest(copy_nest(&dims, source, copy)), origins: origins.to_vec() });
                self.copies.insert((source, dim), copy);
                copy
            });
            return;
        };
        for (index, first) in access.index.iter_mut().zip(&part.first) {
            *index = index.clone() - first;
        }
        let known = self.slices.iter().find(|slice| slice.source == source && slice.dim == dim && slice.part == part);
        access.buffer = known.map(|slice| slice.copy).unwrap_or_else(|| {
            let copy = self.ordered_copy(program, source, part.dims.clone(), dim);
            let mut nest = copy_nest(&part.dims, source, copy);
            if let Some(Scalar::Load { access, .. }) = nest.nodes.first_mut() {
                let index = access.index.iter_mut().zip(&part.first);
                index.for_each(|(index, first)| *index = index.clone() + first);
            }
            self.out.push(Step { kind: StepKind::Nest(nest), origins: origins.to_vec() });
            self.slices.push(Slice { source, dim, part, copy });
            copy
        });
    }

    /// A temporary of these dimensions, of which one is contiguous.
    fn ordered_copy(&mut self, program: &mut Program, source: BufferId, dims: Vec<Dim>, dim: usize) -> BufferId {
        let original = program.buffer(source);
        let (name, element) = (original.name.clone(), original.element);
        let order: Vec<usize> = (0..dims.len()).filter(|d| *d != dim).chain([dim]).collect();
        let copy = program.add_buffer(&name, element, dims.clone(), Role::Temporary);
        program.buffer_mut(copy).layout = Layout::ordered(copy, &dims, &order);
        self.decide(copy);
        copy
    }
}

/// A nest that copies all elements between two buffers of the same dimensions and element type.
pub(in crate::passes::program) fn copy_nest(dims: &[Dim], from: BufferId, to: BufferId) -> Nest {
    let index: Vec<Dim> = (0..dims.len()).map(Dim::axis).collect();
    let axes = dims.iter().map(|extent| Axis { extent: extent.clone() }).collect();
    Nest::moving(axes, Access { buffer: from, index: index.clone() }, Access { buffer: to, index })
}
