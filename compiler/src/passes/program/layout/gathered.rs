//! Elements whose place depends on data, as samples of an image, are looked up for all channels at once where these follow
//! each other.

use super::orders::{VECTOR, rotated};
use super::{Choosing, MANY};
use crate::graph::Origin;
use crate::program::nest::{Access, Nest, Node, Scalar, place_depends};
use crate::program::{BufferId, Program};

/// So many lookups for each element of the result are worth a copy of it.
const SEVERAL: usize = 4;

/// What is looked up by channels.
struct Lookup {
    /// The node that loads it.
    load: usize,
    /// The axis that runs along channels, and the dimension along which they lie.
    axis: usize,
    dim: usize,
    /// Whether they follow each other.
    together: bool,
}

impl Choosing {
    /// Makes lookups read a copy in which channels are last, where the result may have them last as well, or there are
    /// several for each of its elements. Returns the order of the result where there are so many: it is worth a copy.
    pub(super) fn gather_channels(
        &mut self,
        program: &mut Program,
        nest: &mut Nest,
        origins: &[Origin],
    ) -> Option<Vec<usize>> {
        let lookups = lookups(program, nest);
        let several = nest.reduction.is_some() || lookups.len() >= SEVERAL;
        if !several && !self.is_free(program, nest.store.buffer) {
            return None;
        }
        let mut last = None;
        for Lookup { load, axis, dim, together } in &lookups {
            if !together && seldom(program, nest, *load, lookups.len()) {
                continue;
            }
            if !together {
                self.relayout(program, nest, *load as Node, *dim, origins);
            }
            last = Some(*axis);
        }
        let channel = nest.store.index.iter().position(|dim| last.is_some_and(|axis| dim.uses_axis(axis)));
        channel.filter(|_| several).map(|channel| rotated(nest.store.index.len(), channel))
    }
}

/// By buffer, the dimensions along which a nest would like what it looks up to lie together.
pub(in crate::passes::program) fn looked_up(program: &Program, nest: &Nest) -> Vec<(BufferId, usize)> {
    let buffer = |lookup: &Lookup| match nest.nodes.get(lookup.load) {
        Some(Scalar::Load { access, .. }) => Some((access.buffer, lookup.dim)),
        _ => None,
    };
    lookups(program, nest).iter().filter_map(buffer).collect()
}

fn lookups(program: &Program, nest: &Nest) -> Vec<Lookup> {
    (0..nest.nodes.len()).filter_map(|load| lookup(program, nest, load)).collect()
}

/// What a node looks up by channels: one axis runs along them alone, places elsewhere depend on data, but not on the channel.
fn lookup(program: &Program, nest: &Nest, load: usize) -> Option<Lookup> {
    let Scalar::Load { access, .. } = nest.nodes.get(load)? else { return None };
    let source = program.buffer(access.buffer);
    if access.is_direct() || source.constant().is_some() || source.len().upper_bound() < MANY {
        return None;
    }
    let (axis, dim) = (0..nest.maps).find_map(|axis| Some((axis, counted_alone(nest, access, axis)?)))?;
    let extent = &nest.axes[axis].extent;
    // Sums of a number of channels that is not known have no row of accumulators.
    let row = nest.reduction.is_none() || extent.as_const().is_some();
    let together = program.address(access.buffer, &access.index).stride(axis)?.is(1);
    (row && extent.range().min >= VECTOR).then_some(Lookup { load, axis, dim, together })
}

/// Whether so many lookups at each point of a nest are not more than there is to look up.
fn seldom(program: &Program, nest: &Nest, load: usize, lookups: usize) -> bool {
    let Some(Scalar::Load { access, .. }) = nest.nodes.get(load) else { return true };
    let (maps, reduces) = nest.axes.split_at(nest.maps.min(nest.axes.len()));
    let most = maps.iter().map(|axis| axis.extent.upper_bound());
    let points = most.chain(reduces.iter().map(|axis| axis.extent.range().min.max(1)));
    points.fold(lookups as i64, i64::saturating_mul) <= program.buffer(access.buffer).len().upper_bound()
}

/// The dimension that an axis counts, if no place along another dimension depends on the axis.
fn counted_alone(nest: &Nest, access: &Access, axis: usize) -> Option<usize> {
    let depends = nest.depends_on(axis);
    let mut using = access.index.iter().enumerate().filter(|(_, dim)| place_depends(&depends, dim, axis));
    let (Some((at, dim)), None) = (using.next(), using.next()) else { return None };
    dim.counts(axis).then_some(at)
}
