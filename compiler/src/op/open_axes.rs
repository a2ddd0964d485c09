//! Axes that are known only when the model runs.

use crate::diag::Diagnostic;
use crate::dim::{Dim, Variable, product};
use crate::element::ElementType;
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn};

/// Whether the element `axis` of a list of axes means dimension `d` of a tensor of this rank.
pub fn names(n: &mut NestBuilder, axis: Node, d: &Dim, rank: usize) -> Node {
    let axis = n.cast(ElementType::I64, axis);
    let (from_start, from_end) = (n.index(d), n.index(&(d.clone() - rank as i64)));
    let (a, b) = (n.binary(Binary::Eq, axis, from_start), n.binary(Binary::Eq, axis, from_end));
    n.binary(Binary::Or, a, b)
}

/// A list of axes of a tensor, as flags: whether one of its elements names the dimension.
#[derive(Clone, Debug)]
pub struct OpenAxes {
    flags: BufferId,
    rank: usize,
    /// Length of the list.
    count: Dim,
}

impl OpenAxes {
    /// Reads the elements of `axes`, for a tensor of this rank.
    ///
    /// # Errors
    /// Strings.
    pub fn read(builder: &mut Builder, axes: BufferId, rank: usize) -> Result<Self, Diagnostic> {
        let flags = builder.temporary(ElementType::Boolean, vec![Dim::from(rank)]);
        let listed = builder.dims(axes);
        let mut nest = builder.nest(&[Dim::from(rank)]);
        let map = nest.map_axes();
        let at: Vec<Dim> = listed.iter().map(|dim| nest.reduction_axis(dim)).collect();
        let axis = nest.load(axes, &at)?;
        let named = names(&mut nest, axis, &Dim::axis(0), rank);
        let named = if listed.is_empty() { named } else { nest.reduce(ReduceFn::Any, named) };
        nest.store(flags, &map, named);
        Ok(OpenAxes { flags, rank, count: product(&listed) })
    }

    /// Whether the list names dimension `d`.
    ///
    /// # Errors
    /// None: flags are no strings.
    pub fn names(&self, n: &mut NestBuilder, d: usize) -> Result<Node, Diagnostic> {
        n.load(self.flags, &[Dim::from(d)])
    }

    /// How many of the dimensions before `d` the list names (`named`), or does not name.
    ///
    /// # Errors
    /// None: flags are no strings.
    pub fn before(&self, n: &mut NestBuilder, d: usize, named: bool) -> Result<Node, Diagnostic> {
        let (zero, one) = (n.constant(Const::I64(0)), n.constant(Const::I64(1)));
        let (yes, no) = if named { (one, zero) } else { (zero, one) };
        let mut place = zero;
        for before in 0..d {
            let is_named = self.names(n, before)?;
            let step = n.select(is_named, yes, no);
            place = n.binary(Binary::Add, place, step);
        }
        Ok(place)
    }

    /// Finds sizes that depend on the axes: `size` gives the one with this number. Axes that are out of range or named twice
    /// make them -1, which a run refuses.
    ///
    /// # Errors
    /// What `size` returns.
    pub fn find_sizes(
        &self,
        builder: &mut Builder,
        sizes: Vec<Variable>,
        mut size: impl FnMut(&mut NestBuilder, usize) -> Result<Node, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        builder.find_sizes(sizes, |n, k| {
            let (named, listed) = (self.before(n, self.rank, true)?, n.index(&self.count));
            let each_once = n.binary(Binary::Eq, named, listed);
            let (size, none) = (size(n, k)?, n.constant(Const::I64(-1)));
            Ok(n.select(each_once, size, none))
        })
    }

    /// Finds the dimensions of `out`: those of `dims` that the list does not name, in their order.
    ///
    /// # Errors
    /// An internal error where they are no sizes that the operation finds.
    pub fn find_left(&self, builder: &mut Builder, dims: &[Dim], out: BufferId) -> Result<(), Diagnostic> {
        let rank = builder.dims(out).len();
        let sizes = (0..rank).map(|k| builder.found(out, k)).collect::<Result<_, _>>()?;
        self.find_sizes(builder, sizes, |n, k| {
            let (mut size, wanted) = (n.constant(Const::I64(0)), n.constant(Const::I64(k as i64)));
            for (d, dim) in dims.iter().enumerate() {
                let (gone, place) = (self.names(n, d)?, self.before(n, d, false)?);
                let (here, extent) = (n.binary(Binary::Eq, place, wanted), n.index(dim));
                let found = n.select(here, extent, size);
                size = n.select(gone, size, found);
            }
            Ok(size)
        })
    }
}
