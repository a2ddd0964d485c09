//! Elements whose place depends on data, as samples of an image, are looked up for all channels at once where these follow
//! each other.

use super::orders::{VECTOR, depends_on, places_depend};
use super::{Choosing, MANY};
use crate::graph::Origin;
use crate::program::Program;
use crate::program::nest::{Access, Nest, Node, Scalar};

impl Choosing {
    /// Makes such lookups read a copy in which channels are last, where the result may have them last as well.
    pub(super) fn gather_channels(&mut self, program: &mut Program, nest: &mut Nest, origins: &[Origin]) {
        if nest.reduction.is_some() || !self.is_free(program, nest.store.buffer) {
            return;
        }
        for load in 0..nest.nodes.len() {
            if let Some(dim) = channels_apart(program, nest, load) {
                self.relayout(program, nest, load as Node, dim, origins);
            }
        }
    }
}

/// The dimension along which channels lie apart in what a node looks up: one axis runs along it alone, places elsewhere
/// depend on data, but not on the channel, and more is looked up than there is.
fn channels_apart(program: &Program, nest: &Nest, load: usize) -> Option<usize> {
    let Scalar::Load { access, .. } = nest.nodes.get(load)? else { return None };
    let source = program.buffer(access.buffer);
    if access.is_direct() || source.constant().is_some() {
        return None;
    }
    let few = source.len().as_const().is_none_or(|n| n < MANY);
    let seldom = program.buffer(nest.store.buffer).len().range().min <= source.len().upper_bound();
    let (axis, dim) = (0..nest.maps).find_map(|axis| Some((axis, counted_alone(nest, access, axis)?)))?;
    let together = program.address(access.buffer, &access.index).coefficient(axis).is_none_or(|stride| stride == 1);
    let short = nest.axes[axis].extent.range().min < VECTOR;
    (!few && !seldom && !together && !short).then_some(dim)
}

/// The dimension that an axis counts, if no place along another dimension depends on the axis.
fn counted_alone(nest: &Nest, access: &Access, axis: usize) -> Option<usize> {
    let depends = depends_on(nest, axis);
    let mut using = access.index.iter().enumerate().filter(|(_, dim)| places_depend(&depends, dim, axis));
    let (Some((at, dim)), None) = (using.next(), using.next()) else { return None };
    dim.counts(axis).then_some(at)
}
