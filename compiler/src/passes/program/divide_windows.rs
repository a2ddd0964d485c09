//! Maxima over large windows become maxima along their lines, and maxima of those, which neighbouring windows share.

use super::{blocks::split_nests, pool_lines};
use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::options::Options;
use crate::program::edit::{Nodes, prune, renumber_dim, replace_nodes};
use crate::program::kernel::WindowOp;
use crate::program::nest::{Access, Axis, Bound, Nest, Node, Reduction, Scalar};
use crate::program::{BufferId, Program, Role, recognise};

/// How many times fewer elements the divided windows must read: what lies between is written and read once more.
const GAIN: i64 = 2;

/// Taps of a line, and steps between windows, for which there are kernels that take windows line by line.
const ALONG: i64 = 16;
const STEP: i64 = 2;
/// Channels for which there are such kernels, and from which pixels of several lines share few sets of the first-level cache.
const CHANNELS: std::ops::RangeInclusive<i64> = 8..=128;

/// Divides windows.
pub fn divide_windows(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, memory counts more.
    if !options.has_vector_kernels() {
        return;
    }
    split_nests(program, |program, nest| {
        let (mut before, mut last) = (Vec::new(), nest.clone());
        while let Some(lines) = Lines::of(program, &last) {
            let (along, across) = lines.apart(program, &last)?;
            before.push(along);
            last = across;
        }
        (!before.is_empty()).then_some((before, last))
    });
}

/// The lines of a window. Maxima in the order of the window, lines one after the other, keep every bit.
struct Lines {
    reduction: Reduction,
    data: Access,
    bounds: Vec<Bound>,
    padding: Option<Scalar>,
    /// The dimension of the data along which they lie.
    dim: usize,
    /// The reduction axis of their taps, the fastest one, and the axis of the windows along that dimension.
    taps: usize,
    windows: usize,
}

impl Lines {
    /// The lines of a window that is worth to be divided.
    fn of(program: &Program, nest: &Nest) -> Option<Self> {
        let reduction = nest.reduction?;
        let window = recognise::any_window(program, nest).filter(|window| window.op == WindowOp::Max)?;
        let Scalar::Load { access, bounds, otherwise } = nest.nodes.get(reduction.value as usize)? else { return None };
        // Kernels along lines share what lies across them.
        if pool_lines::takes(program, nest, &window) {
            return None;
        }
        let taps = (nest.maps..nest.axes.len()).rfind(|axis| !nest.axes[*axis].extent.is(1))?;
        let dim = only(access.index.len(), |dim| access.index[dim].uses_axis(taps))?;
        let windows = only(nest.maps, |axis| access.index[dim].uses_axis(axis))?;
        let alone =
            |index: &Dim| (0..nest.axes.len()).all(|axis| axis == taps || axis == windows || !index.uses_axis(axis));
        let other = |index: &Dim| !index.uses_axis(taps) && !index.uses_axis(windows);
        let others =
            access.index.iter().enumerate().all(|(at, index)| if at == dim { alone(index) } else { other(index) });
        let bounded = bounds.iter().all(|bound| alone(&bound.value) || other(&bound.value));
        let padding = otherwise.and_then(|node| nest.nodes.get(node as usize)).cloned();
        let lines = Lines { reduction, data: access.clone(), bounds: bounds.clone(), padding, dim, taps, windows };
        (others && bounded && lines.gain(program, nest)?).then_some(lines)
    }

    /// Whether the two steps read so few elements.
    fn gain(&self, program: &Program, nest: &Nest) -> Option<bool> {
        let count =
            |axes: &[Axis]| product(&axes.iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>()).as_const();
        let (windows, window) = (count(nest.axes.get(..nest.maps)?)?, count(nest.axes.get(nest.maps..)?)?);
        let (along, lines) =
            (nest.axes.get(self.taps)?.extent.as_const()?, product(&self.dims(program, nest)).as_const()?);
        let divided = lines.saturating_mul(along).saturating_add(windows.saturating_mul(window / along.max(1)));
        // Kernels of lines share maxima across them among neighbours; of many channels these do not stay in the cache.
        let step = self.data.index.get(self.dim)?.coefficient(self.windows)?;
        let channels = program.buffer(self.data.buffer).dims.get(1)?.as_const()?;
        let shares = step <= STEP && along <= ALONG && CHANNELS.contains(&channels);
        let each = if shares { (window / along.max(1)).saturating_mul(step).saturating_add(along) } else { window };
        Some(windows.saturating_mul(each) > divided.saturating_mul(GAIN))
    }

    /// The maxima along lines: as the data, with windows along that dimension.
    fn dims(&self, program: &Program, nest: &Nest) -> Vec<Dim> {
        let mut dims = program.buffer(self.data.buffer).dims.clone();
        dims[self.dim] = nest.axes[self.windows].extent.clone();
        dims
    }

    /// The maxima along lines, and those of them.
    fn apart(&self, program: &mut Program, nest: &Nest) -> Option<(Nest, Nest)> {
        let dims = self.dims(program, nest);
        let name = program.buffer(nest.store.buffer).name.clone();
        let buffer = program.add_buffer(&name, ElementType::F32, dims.clone(), Role::Temporary);
        Some((self.along(nest, buffer_access(buffer, dims.len()), &dims), self.across(nest, buffer)))
    }

    /// Maxima along lines.
    fn along(&self, nest: &Nest, store: Access, dims: &[Dim]) -> Nest {
        let rank = dims.len();
        let axis = |old: usize| Dim::axis(if old == self.taps { rank } else { self.dim });
        let index = self.data.index.iter().enumerate();
        let index = index.map(|(at, dim)| if at == self.dim { renumber_dim(dim, &[], &axis) } else { Dim::axis(at) });
        let bounds: Vec<Bound> = self.bounds.iter().filter(|bound| self.is_along(bound)).cloned().collect();
        let mut nodes = Nodes::default();
        let padding = self.padding.clone().filter(|_| !bounds.is_empty()).map(|padding| nodes.add(padding));
        let bounds = bounds.into_iter().map(|bound| Bound { value: renumber_dim(&bound.value, &[], &axis), ..bound });
        let access = Access { buffer: self.data.buffer, index: index.collect() };
        let value = nodes.add(Scalar::Load { access, bounds: bounds.collect(), otherwise: padding });
        let result = nodes.add(Scalar::Reduced);
        let mut axes: Vec<Axis> = dims.iter().map(|extent| Axis { extent: extent.clone() }).collect();
        axes.push(nest.axes[self.taps].clone());
        let reduction = Some(Reduction { value, ..self.reduction });
        Nest { axes, maps: rank, nodes: nodes.list, reduction, result, store }
    }

    /// Maxima of those, and what is made of them.
    fn across(&self, nest: &Nest, lines: BufferId) -> Nest {
        let axis = |old: usize| if old > self.taps { Dim::axis(old - 1) } else { Dim::axis(old) };
        let mut nodes = Nodes::default();
        let new = nodes.copy(nest, &axis, &mut |nodes: &mut Nodes, at, moved| {
            let Scalar::Load { access, bounds, otherwise } = moved else { return None };
            if at as Node != self.reduction.value {
                return None;
            }
            let mut index = access.index.clone();
            index[self.dim] = Dim::axis(self.windows);
            let kept = bounds.iter().zip(&self.bounds).filter(|(_, old)| !self.is_along(old));
            let bounds: Vec<Bound> = kept.map(|(bound, _)| bound.clone()).collect();
            let otherwise = otherwise.filter(|_| !bounds.is_empty());
            Some(nodes.add(Scalar::Load { access: Access { buffer: lines, index }, bounds, otherwise }))
        });
        let mut whole = nest.clone();
        replace_nodes(&mut whole, nodes, &new);
        whole.axes.remove(self.taps);
        prune(&mut whole);
        whole
    }

    fn is_along(&self, bound: &Bound) -> bool {
        bound.value.uses_axis(self.taps) || bound.value.uses_axis(self.windows)
    }
}

/// All of a buffer, by the first axes.
fn buffer_access(buffer: BufferId, rank: usize) -> Access {
    Access { buffer, index: (0..rank).map(Dim::axis).collect() }
}

/// The only number below `n` of which something is true.
fn only(n: usize, mut is: impl FnMut(usize) -> bool) -> Option<usize> {
    let mut found = (0..n).filter(|i| is(*i));
    found.next().filter(|_| found.next().is_none())
}
