//! A softmax over a few classes begins with the greatest of a few contiguous elements: in planes, vectors run along another
//! dimension.
use super::{Choosing, MANY};
use crate::graph::Origin;
use crate::program::nest::{Nest, Node, ReduceFn, Scalar};
use crate::program::recognise::Product;
use crate::program::{BufferId, Program, Role};

/// Rows of at least so many elements fill vectors.
const SHORT: i64 = 32;
/// Elements along the other dimension that fill vectors.
const LONG: i64 = 16;

impl Choosing {
    /// Makes a nest read planes: a maximum of few elements makes them, and what reads the same follows.
    pub(super) fn in_planes(&mut self, program: &mut Program, nest: &mut Nest, origins: &[Origin]) {
        if let Some((load, source, dim)) = self.short(program, nest) {
            self.planes.insert(source, dim);
            self.relayout(program, nest, load, dim, origins);
        }
        for node in &mut nest.nodes {
            if let Scalar::Load { access, .. } = node
                && let Some(dim) = self.planes.get(&access.buffer)
                && let Some(copy) = self.copies.get(&(access.buffer, *dim))
            {
                access.buffer = *copy;
            }
        }
    }

    /// Remembers the result of a product with constant weights.
    pub(super) fn note_product(&mut self, program: &Program, nest: &Nest, product: &Product) {
        if let Some(Scalar::Load { access, .. }) = nest.nodes.get(product.weights as usize)
            && program.buffer(access.buffer).constant().is_some()
        {
            self.products.insert(nest.store.buffer);
        }
    }

    /// The load of such a maximum, what it loads, and the dimension along which vectors can run. Others must read the same: a
    /// copy for the maximum alone takes as long as the maximum.
    fn short(&self, program: &Program, nest: &Nest) -> Option<(Node, BufferId, usize)> {
        nest.reduction.as_ref().filter(|reduction| reduction.function == ReduceFn::Max)?;
        let axis = (nest.axes.len() == nest.maps + 1).then_some(nest.maps)?;
        let extent = nest.axes[axis].extent.as_const()?;
        let [Scalar::Load { access, bounds, .. }, Scalar::Reduced] = nest.nodes.as_slice() else { return None };
        let buffer = program.buffer(access.buffer);
        let elements = buffer.len().as_const()?;
        let readers = self.block.users.readers(buffer.layout.storage).len();
        if !(2..SHORT).contains(&extent) || elements < MANY || !bounds.is_empty() || readers < 2 {
            return None;
        }
        let made = self.products.contains(&access.buffer) && buffer.role == Role::Temporary;
        let contiguous = program.address(access.buffer, &access.index).coefficient(axis) == Some(1);
        if !made || !contiguous || !nest.is_direct() {
            return None;
        }
        let long = |axis: &usize| nest.axes[*axis].extent.as_const().unwrap_or(0);
        // The last such dimension: planes in their logical order may be the result as it is wanted.
        let along = (0..nest.maps).rfind(|axis| long(axis) >= LONG)?;
        let dim = access.index.iter().position(|index| index.counts(along))?;
        Some((0, access.buffer, dim))
    }
}
