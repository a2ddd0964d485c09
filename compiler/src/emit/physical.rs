//! A nest with physical addresses: trivial axes dropped, adjacent axes fused, map axes ordered for the store.

use super::views::Views;
use crate::diag::Diagnostic;
use crate::dim::{Atom, Dim, Interval};
use crate::plan::inline_constant;
use crate::program::nest::{Bound, Const, Nest, Node, Reduction, Scalar, ScalarType, scalars_of};
use crate::program::{Access, BufferId, Layout, Program};

/// A nest ready to be written as loops.
#[derive(Clone, Debug)]
pub struct Physical {
    /// Number of iterations of every axis, by its number.
    pub extents: Vec<Dim>,
    /// Map axes, slowest first.
    pub maps: Vec<usize>,
    /// Reduction axes, slowest first.
    pub reduces: Vec<usize>,
    /// Scalar nodes; a load has one index, the address in the view of its buffer.
    pub nodes: Vec<Scalar>,
    /// Nodes that are literals.
    pub literals: Vec<Option<Const>>,
    /// Type of every node.
    pub types: Vec<ScalarType>,
    /// The reduction.
    pub reduction: Option<Reduction>,
    /// The node that is stored.
    pub result: Node,
    /// Where.
    pub target: BufferId,
    /// At which address of the view.
    pub store: Dim,
}

/// The node whose value is stored: what is stored as a narrow float is rounded once.
fn stored(program: &Program, nest: &Nest, types: &[ScalarType]) -> Node {
    match nest.nodes.get(nest.result as usize) {
        Some(Scalar::Cast(element, value))
            if *element == program.buffer(nest.store.buffer).element
                && ScalarType::of(*element) == Some(ScalarType::F32)
                && types.get(*value as usize) == Some(&ScalarType::F32) =>
        {
            *value
        }
        _ => nest.result,
    }
}

impl Physical {
    /// The physical form of a nest.
    ///
    /// # Errors
    /// A nest that the verifier would refuse.
    pub fn new(program: &Program, views: &Views, nest: &Nest) -> Result<Self, Diagnostic> {
        Physical::lowered(program, views, nest, true)
    }

    /// The same with the axes of the nest as they are, except for those of one iteration.
    ///
    /// # Errors
    /// A nest that the verifier would refuse.
    pub fn unfused(program: &Program, views: &Views, nest: &Nest) -> Result<Self, Diagnostic> {
        Physical::lowered(program, views, nest, false)
    }

    fn lowered(program: &Program, views: &Views, nest: &Nest, fuse: bool) -> Result<Self, Diagnostic> {
        let types = crate::program::scalar_types(program, nest).map_err(Diagnostic::internal)?;
        let literals = nest.nodes.iter().map(|node| match node {
            Scalar::Const(value) => Some(*value),
            node => inline_constant(program, node),
        });
        let literals = literals.collect();
        let mut nodes = nest.nodes.clone();
        for node in &mut nodes {
            if let Scalar::Load { access, .. } = node {
                access.index = vec![views.address(program, access.buffer, &access.index)];
            }
        }
        let result = stored(program, nest, &types);
        let mut physical = Physical {
            extents: nest.axes.iter().map(|axis| axis.extent.clone()).collect(),
            maps: (0..nest.maps.min(nest.axes.len())).collect(),
            reduces: (nest.maps.min(nest.axes.len())..nest.axes.len()).collect(),
            nodes,
            literals,
            types,
            reduction: nest.reduction,
            result,
            target: nest.store.buffer,
            store: views.address(program, nest.store.buffer, &nest.store.index),
        };
        physical.drop_trivial_axes();
        physical.drop_proved_bounds();
        if fuse {
            physical.fuse_axes();
        }
        Ok(physical)
    }

    /// The copy of one buffer to another, element by element in row-major order of both.
    pub fn copy(program: &Program, views: &Views, from: BufferId, to: BufferId) -> Self {
        let dims = program.buffer(to).dims.clone();
        let index: Vec<Dim> = (0..dims.len()).map(Dim::axis).collect();
        let flat = dims.iter().zip(&index).fold(Dim::constant(0), |flat, (dim, i)| flat * dim + i);
        let source = &program.buffer(from).dims;
        let row_major =
            |id: BufferId| program.buffer(id).layout.strides == Layout::row_major(id, &program.buffer(id).dims).strides;
        let address = match row_major(from) {
            true => views.address(program, from, &vec![Dim::constant(0); source.len()]) + &flat,
            false => views.address(program, from, &unflatten(&flat, source)),
        };
        let store = views.address(program, to, &index);
        let element = program.buffer(from).element;
        let load =
            Scalar::Load { access: Access { buffer: from, index: vec![address] }, bounds: Vec::new(), otherwise: None };
        let mut physical = Physical {
            maps: (0..dims.len()).collect(),
            reduces: Vec::new(),
            extents: dims,
            nodes: vec![load],
            literals: vec![None],
            types: vec![ScalarType::of(element).unwrap_or(ScalarType::F32)],
            reduction: None,
            result: 0,
            target: to,
            store,
        };
        physical.drop_trivial_axes();
        while physical.fuse_once(true) {}
        physical.order_maps();
        physical
    }

    /// Largest value of every axis.
    pub fn limits(&self) -> Vec<i64> {
        self.extents.iter().map(|extent| extent.upper_bound().saturating_sub(1).max(0)).collect()
    }

    /// The interval of an expression over the axes.
    pub fn range(&self, dim: &Dim) -> Interval {
        dim.range_with(&|atom| match atom {
            Atom::Axis(axis) => {
                let extent = self.extents.get(*axis as usize).map_or(i64::MAX, Dim::upper_bound);
                Interval { min: 0, max: extent.saturating_sub(1).max(0) }
            }
            _ => Interval::ALL,
        })
    }

    fn for_each_dim(&self, visit: &mut dyn FnMut(&Dim)) {
        self.nodes.iter().for_each(|node| node.for_each_dim(visit));
        visit(&self.store);
    }

    /// Replaces every address, index and bound.
    pub fn map_dims(&mut self, change: &dyn Fn(&Dim) -> Dim) {
        for node in &mut self.nodes {
            match node {
                Scalar::Index(dim) => *dim = change(dim),
                Scalar::Load { access, bounds, .. } => {
                    access.index.iter_mut().for_each(|dim| *dim = change(dim));
                    for Bound { value, limit } in bounds {
                        (*value, *limit) = (change(value), change(limit));
                    }
                }
                _ => {}
            }
        }
        self.store = change(&self.store);
    }

    /// Replaces an axis everywhere.
    pub fn substitute(&mut self, axis: usize, by: &Dim) {
        self.map_dims(&|dim| if dim.uses_axis(axis) { with_axis(dim, axis, by) } else { dim.clone() });
    }

    fn drop_trivial_axes(&mut self) {
        for axis in 0..self.extents.len() {
            if self.extents[axis].is(1) {
                self.substitute(axis, &Dim::constant(0));
                self.maps.retain(|a| *a != axis);
                self.reduces.retain(|a| *a != axis);
            }
        }
    }

    fn drop_proved_bounds(&mut self) {
        let mut nodes = std::mem::take(&mut self.nodes);
        for node in &mut nodes {
            if let Scalar::Load { bounds, otherwise, .. } = node {
                bounds.retain(|bound| {
                    let inside = self.range(&(bound.limit.clone() - &bound.value)).min > 0;
                    !(inside && self.range(&bound.value).min >= 0)
                });
                if bounds.is_empty() {
                    *otherwise = None;
                }
            }
        }
        self.nodes = nodes;
    }

    /// Fuses axes where that is possible, and orders map axes.
    pub fn fuse_axes(&mut self) {
        while self.fuse_once(true) || self.fuse_once(false) {}
        self.order_maps();
    }

    /// Fuses one pair of axes that every expression walks through as if it were one.
    fn fuse_once(&mut self, maps: bool) -> bool {
        let list = if maps { self.maps.clone() } else { self.reduces.clone() };
        for (i, outer) in list.iter().enumerate() {
            for (j, inner) in list.iter().enumerate() {
                // The order of map axes is free, that of reduction axes decides how sums associate.
                if i != j && (maps || j == i + 1) && self.fusable(*outer, *inner) {
                    self.fuse_pair(*outer, *inner);
                    return true;
                }
            }
        }
        false
    }

    /// Makes two axes the one with the second number.
    pub fn fuse_pair(&mut self, outer: usize, inner: usize) {
        self.extents[inner] = self.extents[outer].clone() * &self.extents[inner];
        self.substitute(outer, &Dim::constant(0));
        self.maps.retain(|axis| *axis != outer);
        self.reduces.retain(|axis| *axis != outer);
    }

    /// Whether every expression walks through both axes as if they were one.
    pub fn fusable(&self, outer: usize, inner: usize) -> bool {
        let extent = &self.extents[inner];
        let mut fits = true;
        self.for_each_dim(&mut |dim| {
            if fits && (dim.uses_axis(outer) || dim.uses_axis(inner)) {
                fits = match (stride(dim, outer), stride(dim, inner)) {
                    (Some(a), Some(b)) => a == b * extent,
                    _ => false,
                };
            }
        });
        fits
    }

    /// The store walks through memory in order.
    fn order_maps(&mut self) {
        let key = |axis: usize| stride(&self.store, axis).map_or(i64::MAX, |s| s.range().max);
        let mut keyed: Vec<(i64, usize)> = self.maps.iter().map(|axis| (key(*axis), *axis)).collect();
        keyed.sort_by_key(|(stride, _)| std::cmp::Reverse(*stride));
        self.maps = keyed.into_iter().map(|(_, axis)| axis).collect();
    }

    /// Splits an axis into blocks of `width`: the new axis counts the blocks, the old one runs inside a block.
    pub fn split(&mut self, axis: usize, width: i64) {
        let blocks = self.extents.len();
        let by = Dim::axis(blocks) * width + &Dim::axis(axis);
        self.substitute(axis, &by);
        self.extents.push(self.extents[axis].floor_div(&Dim::constant(width)));
        self.extents[axis] = Dim::constant(width);
        if let Some(at) = self.maps.iter().position(|a| *a == axis) {
            self.maps.insert(at, blocks);
        }
    }

    /// Makes an axis count from a new one, which is returned: the columns of a tile count from its first column.
    pub fn offset_axis(&mut self, axis: usize) -> usize {
        let first = self.extents.len();
        self.extents.push(self.extents[axis].clone());
        self.substitute(axis, &(Dim::axis(first) + &Dim::axis(axis)));
        first
    }

    /// Nodes that the reduction needs: for its value and for the extents of its axes.
    pub fn reduced(&self) -> Vec<bool> {
        let mut roots: Vec<Node> = self.reduction.map(|r| r.value).into_iter().collect();
        roots.extend(self.counts());
        self.needed(roots)
    }

    /// Nodes that the stored value and its address need, not looking behind the reduction.
    pub fn stored(&self) -> Vec<bool> {
        let mut roots = vec![self.result];
        scalars_of(&self.store, &mut |node| roots.push(node));
        self.needed(roots)
    }

    /// Nodes that say how often reduction axes run.
    pub fn counts(&self) -> Vec<Node> {
        let mut counts = Vec::new();
        self.reduces.iter().for_each(|axis| scalars_of(&self.extents[*axis], &mut |node| counts.push(node)));
        counts
    }

    /// Nodes that `roots` need, not looking behind the reduction.
    pub fn needed(&self, roots: impl IntoIterator<Item = Node>) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        for root in roots {
            if let Some(slot) = needed.get_mut(root as usize) {
                *slot = true;
            }
        }
        for i in (0..self.nodes.len()).rev() {
            if needed[i] {
                self.nodes[i].for_each_operand(&mut |operand| needed[operand as usize] = true);
            }
        }
        needed
    }

    /// For every node, whether it depends on one of the axes.
    pub fn depends_on(&self, axes: &[usize]) -> Vec<bool> {
        let mut depends = vec![false; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            let mut found = false;
            let mut look = |dim: &Dim| found |= axes.iter().any(|axis| dim.uses_axis(*axis));
            match node {
                Scalar::Index(dim) => look(dim),
                Scalar::Load { access, bounds, .. } => {
                    access.index.iter().for_each(&mut look);
                    bounds.iter().for_each(|bound| look(&bound.value));
                }
                _ => {}
            }
            node.for_each_operand(&mut |operand| found |= depends.get(operand as usize).copied().unwrap_or(false));
            depends[i] = found;
        }
        depends
    }
}

/// The expression with an axis replaced.
pub fn with_axis(dim: &Dim, axis: usize, by: &Dim) -> Dim {
    dim.substitute(&|atom| match atom {
        Atom::Axis(a) if *a as usize == axis => Some(by.clone()),
        _ => None,
    })
}

/// Stride along an axis, where the expression is linear in it.
pub fn stride(dim: &Dim, axis: usize) -> Option<Dim> {
    dim.stride(axis)
}

/// The logical index of a row-major element number.
fn unflatten(flat: &Dim, dims: &[Dim]) -> Vec<Dim> {
    let mut below = Dim::constant(1);
    let mut index = vec![Dim::constant(0); dims.len()];
    for (slot, dim) in index.iter_mut().zip(dims).rev() {
        *slot = flat.floor_div(&below).modulo(dim);
        below = below * dim;
    }
    index
}
