//! Depthwise convolutions with several results per channel read every channel as often: then results are as many vectors as
//! channels, where a few columns for every channel would leave vectors mostly empty.

use super::blocks::split_nests;
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::kernel::Part;
use crate::program::nest::{Access, Axis, Nest, Scalar};
use crate::program::recognise;
use crate::program::{Layout, Program, Role};
use crate::tensor::Tensor;

/// As many results fill a vector.
const VECTOR: i64 = 16;

/// Replaces several columns for every channel by channels.
pub fn repeat_channels(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, memory counts more.
    if !options.has_vector_kernels() {
        return;
    }
    split_nests(program, |program, nest| Multiplier::of(program, nest)?.apart(program, nest));
}

/// A product for every channel with several columns.
struct Multiplier {
    channel: usize,
    column: usize,
    /// The loads of data and weights.
    data: usize,
    weights: usize,
    /// The dimension of the data that channels index.
    dim: usize,
    columns: i64,
}

impl Multiplier {
    fn of(program: &Program, nest: &Nest) -> Option<Self> {
        let product = recognise::product(program, nest)?;
        let only = |part: Part| {
            let mut axes =
                (0..nest.axes.len()).filter(|axis| product.parts[*axis] == part && !nest.axes[*axis].extent.is(1));
            axes.next().filter(|_| axes.next().is_none())
        };
        let (channel, column) = (only(Part::Batch)?, only(Part::Column)?);
        let columns = nest.axes.get(column)?.extent.as_const().filter(|columns| *columns < VECTOR)?;
        let Scalar::Load { access, bounds, .. } = nest.nodes.get(product.data as usize)? else { return None };
        let dim = access.index.iter().position(|dim| *dim == Dim::axis(channel))?;
        let alone = access.index.iter().filter(|dim| dim.uses_axis(channel)).count() == 1;
        let slides = !bounds.is_empty() || access.index.iter().any(|dim| taps(nest, dim) > 0 && rows(nest, dim) > 0);
        let bounded = bounds.iter().any(|bound| bound.value.uses_axis(channel) || bound.limit.uses_axis(channel));
        let (data, weights) = (product.data as usize, product.weights as usize);
        let multiplier = Multiplier { channel, column, data, weights, dim, columns };
        (alone && slides && !bounded && multiplier.fits(nest)).then_some(multiplier)
    }

    /// Whether everything else goes through the columns of one channel after those of another.
    fn fits(&self, nest: &Nest) -> bool {
        let unused = |dim: &Dim| !dim.uses_axis(self.channel) && !dim.uses_axis(self.column);
        let neighbours = |dim: &Dim| match (dim.coefficient(self.channel), dim.coefficient(self.column)) {
            (Some(channel), Some(column)) => channel == column * self.columns,
            _ => false,
        };
        let node_fits = |(at, node): (usize, &Scalar)| match node {
            Scalar::Load { .. } if at == self.data || at == self.weights => true,
            Scalar::Load { access, bounds, .. } => {
                let outside = bounds.iter().all(|bound| unused(&bound.value) && unused(&bound.limit));
                outside && access.index.iter().all(neighbours)
            }
            Scalar::Index(dim) => unused(dim),
            _ => true,
        };
        nest.axes.iter().all(|axis| unused(&axis.extent))
            && nest.store.index.iter().all(neighbours)
            && nest.nodes.iter().enumerate().all(node_fits)
    }

    /// The copy of the data with repeated channels, and the nest that reads it.
    fn apart(&self, program: &mut Program, nest: &Nest) -> Option<(Vec<Nest>, Nest)> {
        let mut depthwise = nest.clone();
        let Some(Scalar::Load { access: data, .. }) = depthwise.nodes.get_mut(self.data) else { return None };
        let source = program.buffer(data.buffer).clone();
        let mut dims = source.dims.clone();
        let channels = dims.get_mut(self.dim)?;
        *channels = channels.clone() * self.columns;
        let weights = self.weights(program, nest)?;
        let repeated = program.add_buffer(&source.name, source.element, dims.clone(), Role::Temporary);
        let copy =
            self.copy(std::mem::replace(data, Access { buffer: repeated, ..data.clone() }), &source.dims, repeated);
        let channel = Dim::axis(self.channel);
        let joined = |dim: &Dim| {
            let step = dim.coefficient(self.column).unwrap_or(0);
            dim.without(self.channel).without(self.column) + &(channel.clone() * step)
        };
        for (at, node) in depthwise.nodes.iter_mut().enumerate() {
            if let Scalar::Load { access, .. } = node
                && at != self.data
            {
                access.index.iter_mut().for_each(|dim| *dim = joined(dim));
            }
        }
        depthwise.store.index.iter_mut().for_each(|dim| *dim = joined(dim));
        *depthwise.nodes.get_mut(self.weights)? = Scalar::Load { access: weights, bounds: Vec::new(), otherwise: None };
        let extent = nest.axes.get(self.channel)?.extent.clone() * self.columns;
        depthwise.axes.get_mut(self.channel)?.extent = extent;
        depthwise.axes.get_mut(self.column)?.extent = Dim::constant(1);
        Some((vec![copy], depthwise))
    }

    /// The nest that repeats channels: the repetitions of one are neighbours.
    fn copy(&self, from: Access, dims: &[Dim], to: crate::program::BufferId) -> Nest {
        let index: Vec<Dim> = (0..dims.len()).map(Dim::axis).collect();
        let repetition = Dim::axis(dims.len());
        let mut store = index.clone();
        if let Some(dim) = store.get_mut(self.dim) {
            *dim = dim.clone() * self.columns + &repetition;
        }
        let mut axes: Vec<Axis> = dims.iter().map(|extent| Axis { extent: extent.clone() }).collect();
        axes.push(Axis { extent: Dim::constant(self.columns) });
        let access = Access { buffer: from.buffer, index };
        Nest {
            maps: axes.len(),
            axes,
            nodes: vec![Scalar::Load { access, bounds: Vec::new(), otherwise: None }],
            reduction: None,
            result: 0,
            store: Access { buffer: to, index: store },
        }
    }

    /// The weights with channels and columns in one dimension.
    fn weights(&self, program: &mut Program, nest: &Nest) -> Option<Access> {
        let Scalar::Load { access, .. } = nest.nodes.get(self.weights)? else { return None };
        let buffer = program.buffer(access.buffer);
        let (tensor, name) = (buffer.constant()?.clone(), buffer.name.clone());
        let plain = buffer.layout == Layout::row_major(access.buffer, &buffer.dims);
        let at = access.index.iter().position(|dim| *dim == Dim::axis(self.channel))?;
        let mut index = access.index.clone();
        let next = index.get(at + 1).is_some_and(|dim| *dim == Dim::axis(self.column));
        let others = index.iter().filter(|dim| dim.uses_axis(self.channel) || dim.uses_axis(self.column)).count();
        if !plain || !next || others != 2 || tensor.dims.get(at + 1)? != &usize::try_from(self.columns).ok()? {
            return None;
        }
        let mut dims = tensor.dims.clone();
        let columns = dims.remove(at + 1);
        let channels = dims.get_mut(at)?;
        *channels = channels.checked_mul(columns)?;
        index.remove(at + 1);
        let buffer = program.add_constant(&name, Tensor { dims, ..tensor });
        Some(Access { buffer, index })
    }
}

/// How many reduction axes an index uses, and how many map axes.
fn taps(nest: &Nest, dim: &Dim) -> usize {
    (nest.maps..nest.axes.len()).filter(|axis| dim.uses_axis(*axis)).count()
}

fn rows(nest: &Nest, dim: &Dim) -> usize {
    (0..nest.maps).filter(|axis| dim.uses_axis(*axis)).count()
}
