//! Reductions over a few neighbours and many places, as over the channels of a group and all pixels, run along the neighbours of all
//! groups together: one result for every neighbour first, then those of a group.

use super::blocks::split_nests;
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::edit::{Nodes, prune, reduce_parts, renumber_dim};
use crate::program::nest::{Access, Axis, Nest, ReduceFn, Reduction, Scalar};
use crate::program::{BufferId, Program, Role, scalar_types};

/// Neighbours, at most: more fill vectors themselves.
const NEIGHBOURS: i64 = 64;
/// Places, at least: what is done once for each neighbour costs nothing beside them.
const PLACES: i64 = 32;
/// Neighbours of all groups, at least.
const ROW: i64 = 16;

/// Divides such reductions.
pub fn divide_groups(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, nothing runs along neighbours.
    if !options.has_vector_kernels() {
        return;
    }
    split_nests(program, |program, nest| Groups::of(program, nest)?.apart(program, nest));
}

/// Neighbours that are reduced in groups.
struct Groups {
    reduction: Reduction,
    /// The map axis over groups, and the reduction axis over the neighbours of a group.
    group: usize,
    neighbour: usize,
    /// How many neighbours a group has.
    neighbours: i64,
}

impl Groups {
    fn of(program: &Program, nest: &Nest) -> Option<Self> {
        let reduction = nest.reduction.filter(|_| nest.is_direct())?;
        let associative = matches!(reduction.function, ReduceFn::Sum | ReduceFn::Max | ReduceFn::Min);
        let extents = nest.axes.iter().map(|axis| axis.extent.as_const()).collect::<Option<Vec<i64>>>()?;
        let needed = nest.needed(&[reduction.value]);
        let loads = needed.iter().filter_map(|node| match &nest.nodes[*node] {
            Scalar::Load { access, bounds, .. } => Some((access, bounds.is_empty())),
            _ => None,
        });
        let reduced = |access: &Access| {
            (nest.maps..nest.axes.len()).any(|axis| access.index.iter().any(|dim| dim.uses_axis(axis)))
        };
        let mut moving = loads.clone().filter(|(access, _)| reduced(access));
        let (access, true) = moving.next()? else { return None };
        let plain = moving.next().is_none() && loads.clone().all(|(_, plain)| plain);
        let closed = !needed.iter().any(|node| matches!(nest.nodes[*node], Scalar::Index(_)));
        let address = program.address(access.buffer, &access.index);
        let step = |axis: usize| address.coefficient(axis);
        let neighbour = (nest.maps..nest.axes.len()).find(|axis| step(*axis) == Some(1) && extents[*axis] > 1)?;
        let neighbours = extents[neighbour];
        let group = (0..nest.maps).find(|axis| step(*axis) == Some(neighbours) && extents[*axis] > 1)?;
        let places = (nest.maps..nest.axes.len()).filter(|axis| *axis != neighbour);
        let places = places.fold(1i64, |n, axis| n.saturating_mul(extents[axis]));
        let row = neighbours.saturating_mul(extents[group]);
        let far = (nest.maps..nest.axes.len())
            .all(|axis| axis == neighbour || extents[axis] == 1 || step(axis).is_some_and(|step| step.abs() >= row));
        let joined = access.index.iter().all(|dim| {
            let steps = (dim.coefficient(group), dim.coefficient(neighbour));
            matches!(steps, (Some(group), Some(neighbour)) if group == neighbour.saturating_mul(neighbours))
        });
        let worth = neighbours <= NEIGHBOURS && places >= PLACES && row >= ROW;
        (associative && plain && closed && far && joined && worth).then_some(Groups {
            reduction,
            group,
            neighbour,
            neighbours,
        })
    }

    /// The reductions of every neighbour, and that of groups.
    fn apart(&self, program: &mut Program, nest: &Nest) -> Option<(Vec<Nest>, Nest)> {
        let types = scalar_types(program, nest).ok()?;
        let mut axes: Vec<Axis> = nest.axes.iter().take(nest.maps).cloned().collect();
        let group = axes.get_mut(self.group)?;
        group.extent = group.extent.clone() * self.neighbours;
        let dims: Vec<Dim> = axes.iter().map(|axis| axis.extent.clone()).collect();
        let name = program.buffer(nest.store.buffer).name.clone();
        let row = |buffer: BufferId| Access { buffer, index: (0..nest.maps).map(Dim::axis).collect() };
        let mut before = Vec::new();
        // What is one for a group becomes one for every neighbour.
        let mut part = nest.clone();
        let needed = nest.needed(&[self.reduction.value]);
        for at in needed {
            let Scalar::Load { access, .. } = &nest.nodes[at] else { continue };
            if access.index.iter().any(|dim| dim.uses_axis(self.neighbour)) {
                continue;
            }
            let spread = program.add_buffer(&name, types.get(at)?.element(), dims.clone(), Role::Temporary);
            let index = access.index.iter().map(|dim| self.of_group(dim)).collect();
            let load =
                Scalar::Load { access: Access { buffer: access.buffer, index }, bounds: Vec::new(), otherwise: None };
            let maps = nest.maps;
            before.push(Nest {
                axes: axes.clone(),
                maps,
                nodes: vec![load],
                reduction: None,
                result: 0,
                store: row(spread),
            });
            part.nodes[at] = Scalar::Load { access: row(spread), bounds: Vec::new(), otherwise: None };
        }
        let buffer =
            program.add_buffer(&name, types.get(self.reduction.value as usize)?.element(), dims, Role::Temporary);
        before.push(self.part(&part, axes, row(buffer)));
        let index = (0..nest.maps).map(|axis| match axis {
            _ if axis == self.group => Dim::axis(axis) * self.neighbours + Dim::axis(nest.maps),
            _ => Dim::axis(axis),
        });
        let load = Access { buffer, index: index.collect() };
        Some((before, reduce_parts(nest, self.reduction, load, self.neighbours)))
    }

    /// An index of a group, by neighbours.
    fn of_group(&self, dim: &Dim) -> Dim {
        let axis = |old: usize| match old {
            _ if old == self.group => Dim::axis(old).floor_div(&Dim::constant(self.neighbours)),
            _ => Dim::axis(old),
        };
        renumber_dim(dim, &[], &axis)
    }

    /// The reductions of every neighbour.
    fn part(&self, nest: &Nest, mut axes: Vec<Axis>, store: Access) -> Nest {
        // Neighbours and groups are counted together.
        let joined = |dim: &Dim| match dim.coefficient(self.neighbour) {
            Some(step) if step != 0 => {
                dim.without(self.neighbour).without(self.group) + &(Dim::axis(self.group) * step)
            }
            _ => dim.clone(),
        };
        let mut data = nest.clone();
        for node in &mut data.nodes {
            if let Scalar::Load { access, .. } = node {
                access.index.iter_mut().for_each(|dim| *dim = joined(dim));
            }
        }
        let axis = |old: usize| Dim::axis(if old > self.neighbour { old - 1 } else { old });
        let mut nodes = Nodes::default();
        let new = nodes.copy(&data, &axis, &mut |_, _, _| None);
        let value = new.get(self.reduction.value as usize).copied().unwrap_or(0);
        let result = nodes.add(Scalar::Reduced);
        let rest = (nest.maps..nest.axes.len()).filter(|axis| *axis != self.neighbour);
        axes.extend(rest.filter_map(|axis| nest.axes.get(axis).cloned()));
        let reduction = Some(Reduction { value, ..self.reduction });
        let mut part = Nest { axes, maps: nest.maps, nodes: nodes.list, reduction, result, store };
        prune(&mut part);
        part
    }
}
