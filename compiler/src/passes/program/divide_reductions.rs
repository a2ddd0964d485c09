//! Reductions of very many elements to few are divided into reductions of equal parts, which threads can share, and one of those.

use super::blocks::split_nests;
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::edit::{Nodes, prune, reduce_parts};
use crate::program::nest::{Access, Axis, Nest, Reduction, Scalar};
use crate::program::{Program, Role, scalar_types};

/// Most results: more give threads enough to share.
const RESULTS: i64 = 4;
/// Least elements of a part: the sum of the parts costs nothing beside that.
const PART: i64 = 8192;
/// Fewer parts are no use.
const FEWEST: i64 = 3;

/// Divides reductions.
pub fn divide_reductions(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, there are hardly threads, and memory counts more.
    if !options.has_vector_kernels() {
        return;
    }
    split_nests(program, |program, nest| Division::of(program, nest)?.apart(program, nest));
}

/// How a reduction is divided.
struct Division {
    reduction: Reduction,
    /// The reduction axis that walks through memory in the largest steps.
    axis: usize,
    /// Parts of that axis, and indices of each.
    parts: i64,
    length: i64,
}

impl Division {
    /// The division of a nest that gains by it.
    fn of(program: &Program, nest: &Nest) -> Option<Division> {
        let reduction = nest.reduction.filter(|_| nest.is_direct())?;
        let extents = nest.axes.iter().map(|axis| axis.extent.as_const()).collect::<Option<Vec<i64>>>()?;
        let (maps, reduces) = extents.split_at_checked(nest.maps)?;
        let product = |extents: &[i64]| extents.iter().fold(1i64, |n, extent| n.saturating_mul(*extent));
        let (results, elements) = (product(maps), product(reduces));
        let most = (elements / PART).min(64);
        if results == 0 || results > RESULTS || most < FEWEST {
            return None;
        }
        let axis = slowest(program, nest)?;
        let extent = *extents.get(axis)?;
        let parts = (FEWEST..=most).rev().find(|parts| extent % parts == 0)?;
        Some(Division { reduction, axis, parts, length: extent / parts })
    }

    /// The reductions of the parts, and that of their results.
    fn apart(&self, program: &mut Program, nest: &Nest) -> Option<(Vec<Nest>, Nest)> {
        let element = scalar_types(program, nest).ok()?.get(self.reduction.value as usize)?.element();
        let mut dims: Vec<Dim> = nest.axes.get(..nest.maps)?.iter().map(|axis| axis.extent.clone()).collect();
        dims.push(Dim::constant(self.parts));
        let name = program.buffer(nest.store.buffer).name.clone();
        let buffer = program.add_buffer(&name, element, dims, Role::Temporary);
        let index = (0..=nest.maps).map(Dim::axis).collect();
        let access = Access { buffer, index };
        let whole = reduce_parts(nest, self.reduction, access.clone(), self.parts);
        Some((vec![self.part(nest, access)], whole))
    }

    /// The reductions of the parts: one more map axis, and the rest of the divided axis.
    fn part(&self, nest: &Nest, store: Access) -> Nest {
        let axis = |old: usize| match old {
            _ if old < nest.maps => Dim::axis(old),
            _ if old == self.axis => Dim::axis(nest.maps) * self.length + Dim::axis(old + 1),
            _ => Dim::axis(old + 1),
        };
        let mut nodes = Nodes::default();
        let new = nodes.copy(nest, &axis, &mut |_, _, _| None);
        let value = new.get(self.reduction.value as usize).copied().unwrap_or(0);
        let result = nodes.add(Scalar::Reduced);
        let mut axes = nest.axes.clone();
        if let Some(divided) = axes.get_mut(self.axis) {
            divided.extent = Dim::constant(self.length);
        }
        axes.insert(nest.maps, Axis { extent: Dim::constant(self.parts) });
        let reduction = Some(Reduction { value, ..self.reduction });
        let mut part = Nest { axes, maps: nest.maps + 1, nodes: nodes.list, reduction, result, store };
        prune(&mut part);
        part
    }
}

/// The reduction axis along which loads walk in the largest steps, if they are the same everywhere. What is computed after the
/// reduction uses none of them.
fn slowest(program: &Program, nest: &Nest) -> Option<usize> {
    let reduces =
        (nest.maps..nest.axes.len()).filter(|axis| nest.axes.get(*axis).is_some_and(|axis| !axis.extent.is(1)));
    let mut slowest = None;
    for axis in reduces {
        for access in nest.loads() {
            let step = program.address(access.buffer, &access.index).coefficient(axis)?.abs();
            slowest = slowest.max((step > 0).then_some((step, axis)));
        }
    }
    slowest.map(|(_, axis)| axis)
}
