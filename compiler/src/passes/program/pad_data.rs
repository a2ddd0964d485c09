//! Convolutions of few channels read a copy of their data with its padding: where a sum has few elements along a line of its
//! window, finding out which of them lie in the padding takes longer than to multiply them. So do depthwise convolutions with
//! long lines that no kernel for lines takes, of which neighbours would have no taps in common at the border, and those, and
//! pooling windows, that loops along lines compute.

use super::blocks::split_nests;
use super::{layout::runs_along_lines, pool_lines};
use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim, Interval, product};
use crate::element::ElementType;
use crate::options::Options;
use crate::program::kernel::Part;
use crate::program::nest::{Access, Axis, Bound, Nest, Scalar};
use crate::program::recognise::{self, Window};
use crate::program::{BufferId, Program, Role};

/// Dimensions of a volume.
const VOLUME: usize = 3;
/// Channels, at most.
const CHANNELS: i64 = 8;
/// Taps of a long line.
const LONG: i64 = 11;
/// The least part of a line's outputs that reach into the padding, for which depthwise convolutions are worth a copy: a quarter.
const PART: i64 = 4;
/// The least part of a volume's products that lie in the padding of a dimension, for which that is left as it is: kernels leave
/// out what whole tiles have there.
const LEFT_OUT: i64 = 16;
/// Products of a line's outputs and taps that are counted, at most.
const MOST_COUNTED: i64 = 64 * 1024;
/// Elements of the copy, at most: where lines are long, few sums are at their ends.
const ELEMENTS: i64 = 256 * 1024;

/// Makes such copies.
pub fn pad_data(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, memory counts more.
    if !options.has_vector_kernels() {
        return;
    }
    split_nests(program, |program, nest| {
        let padding = Padding::of(program, nest)?;
        let (data, kept) = (padding.data, padding.kept.clone());
        let (copy, access) = padding.copy(program)?;
        let mut after = nest.clone();
        if let Scalar::Load { access: own, bounds, otherwise } = after.nodes.get_mut(data)? {
            *own = access;
            *otherwise = otherwise.filter(|_| !kept.is_empty());
            *bounds = kept;
        }
        Some((copy, after))
    });
}

/// What a sum of products, or a pooling window, reads beyond its data.
struct Padding {
    /// The load of the data.
    data: usize,
    access: Access,
    /// What lies beyond it: a constant.
    padding: Scalar,
    /// Of every dimension of the data: elements before it, and behind it, that are copied.
    sides: Vec<(i64, i64)>,
    /// Bounds of the others.
    kept: Vec<Bound>,
}

impl Padding {
    fn of(program: &Program, nest: &Nest) -> Option<Self> {
        let sum = recognise::product(program, nest);
        let window = recognise::any_window(program, nest);
        let data = sum.as_ref().map(|sum| sum.data).or(window.as_ref().map(|window| window.data))?;
        let Scalar::Load { access, bounds, otherwise } = nest.nodes.get(data as usize)? else { return None };
        let padding = otherwise.and_then(|node| nest.nodes.get(node as usize)).cloned()?;
        let dims = &program.buffer(access.buffer).dims;
        let columns = sum.is_some_and(|sum| sum.parts.contains(&Part::Column));
        let padded = |dim: &usize| bounds.iter().any(|bound| access.index.get(*dim) == Some(&bound.value));
        // Products of a window that lie side by side: those of the channels.
        let in_window = |axis: usize| (0..dims.len()).any(|dim| padded(&dim) && access.index[dim].uses_axis(axis));
        let depth = (nest.maps..nest.axes.len()).filter(|axis| !in_window(*axis));
        let depth = depth.map(|axis| nest.axes[axis].extent.as_const()).try_fold(1, |n: i64, m| n.checked_mul(m?))?;
        let sides = access.index.iter().zip(dims).map(|(index, dim)| sides(nest, index, dim, bounds));
        let mut sides: Vec<_> = sides.collect::<Option<_>>()?;
        let all = (0..dims.len()).filter(padded).count() == bounds.len();
        let reaches = sides.iter().any(|sides| *sides != (0, 0));
        let index = access.index.as_slice();
        let extent = |axis: &usize| nest.axes[*axis].extent.clone();
        // What a kernel makes has its channels together: copies in which they are apart take a tap's time for each of them.
        let apart = |window: &Window| {
            let channels = product(&window.channels.iter().map(extent).collect::<Vec<_>>());
            let taps = product(&(nest.maps..nest.axes.len()).map(|axis| extent(&axis)).collect::<Vec<_>>());
            matches!(program.buffer(access.buffer).role, Role::Input(_)) || taps.range().min > channels.upper_bound()
        };
        let few_channels = |window: &Window| apart(window) && runs_along_lines(nest, window, index);
        let along_lines = || window.as_ref().is_some_and(few_channels);
        // Kernels for pooling along lines leave out what is padding.
        if window.as_ref().is_some_and(|window| pool_lines::pads(program, nest, window)) {
            return None;
        }
        let depthwise = window.as_ref().is_some_and(|window| window.weights.is_some());
        let few =
            if columns { depth <= CHANNELS } else { depthwise && long_lines(nest, index, &sides) || along_lines() };
        let mut kept = bounds.clone();
        // Taps of the last dimension are together with their channels.
        let last = (0..dims.len()).rfind(padded).map(|dim| &index[dim]);
        let stays = |bound: &Bound| Some(&bound.value) != last && leaves_out(nest, bound).unwrap_or(false);
        kept.retain(|bound| columns && bounds.len() == VOLUME && stays(bound));
        for (side, index) in sides.iter_mut().zip(index) {
            if kept.iter().any(|bound| bound.value == *index) {
                *side = (0, 0);
            }
        }
        let reaches = reaches && kept.len() < bounds.len();
        (all && reaches && few).then(|| Padding { data: data as usize, padding, access: access.clone(), sides, kept })
    }

    /// The nests that make the copy, and how it is read.
    fn copy(self, program: &mut Program) -> Option<(Vec<Nest>, Access)> {
        let source = program.buffer(self.access.buffer).clone();
        let padded = |(dim, (before, behind)): (&Dim, &(i64, i64))| {
            let dim = dim.as_const()?;
            Some((*before, dim, dim.checked_add(before.checked_add(*behind)?)?))
        };
        let dims: Vec<(i64, i64, i64)> = source.dims.iter().zip(&self.sides).map(padded).collect::<Option<_>>()?;
        dims.iter().try_fold(1, |n: i64, (.., padded)| n.checked_mul(*padded)).filter(|n| *n <= ELEMENTS)?;
        let sizes = dims.iter().map(|(.., padded)| Dim::constant(*padded)).collect();
        let to = program.add_buffer(&source.name, ElementType::F32, sizes, Role::Temporary);
        let mut nests = borders(self.padding, &dims, to);
        let index = (0..dims.len()).map(Dim::axis).collect();
        let data =
            Scalar::Load { access: Access { buffer: self.access.buffer, index }, bounds: Vec::new(), otherwise: None };
        nests.push(store(data, to, dims.iter().map(|(before, dim, _)| (*before, *dim))));
        let moved = self.access.index.into_iter().zip(&self.sides).map(|(dim, (before, _))| dim + *before);
        Some((nests, Access { buffer: to, index: moved.collect() }))
    }
}

/// Whether windows have long lines, many of which reach into the padding, and are apart or dilated: else a kernel for lines takes
/// them, and leaves out what lies in the padding. Neighbours along another dimension than the last one have their taps in common
/// as it is.
fn long_lines(nest: &Nest, index: &[Dim], sides: &[(i64, i64)]) -> bool {
    let extent = |dim: &Dim, mut axes: std::ops::Range<usize>| {
        axes.find(|axis| dim.uses_axis(*axis)).and_then(|axis| nest.axes[axis].extent.as_const())
    };
    let outputs = |dim: &Dim| extent(dim, 0..nest.maps).unwrap_or(1);
    let last = index.iter().zip(sides).rfind(|(dim, _)| outputs(dim) > 1);
    last.is_some_and(|(dim, (before, behind))| {
        let taps = extent(dim, nest.maps..nest.axes.len()).unwrap_or(1);
        let in_line =
            (0..nest.axes.len()).filter(|axis| dim.uses_axis(*axis)).all(|axis| dim.coefficient(axis) == Some(1));
        taps >= LONG && !in_line && before.saturating_add(*behind).saturating_mul(PART) >= outputs(dim)
    })
}

/// Whether a bound leaves out many of the products of outputs and taps.
fn leaves_out(nest: &Nest, bound: &Bound) -> Option<bool> {
    let axes: Vec<usize> = (0..nest.axes.len()).filter(|axis| bound.value.uses_axis(*axis)).collect();
    let extents = axes.iter().map(|axis| nest.axes[*axis].extent.as_const()).collect::<Option<Vec<_>>>()?;
    let (&[output, _], &[outputs, taps], limit) = (axes.as_slice(), extents.as_slice(), bound.limit.as_const()?) else {
        return None;
    };
    let all = outputs.checked_mul(taps).filter(|all| *all <= MOST_COUNTED)?;
    let place =
        |i: i64| bound.value.evaluate(&|atom| if *atom == Atom::Axis(output as u32) { i / taps } else { i % taps });
    let outside = (0..all).filter(|i| !(0..limit).contains(&place(*i))).count() as i64;
    Some(outside.saturating_mul(LEFT_OUT) >= all)
}

/// The nests that write a constant around data: of every dimension the elements before it, the data's, and all.
pub(super) fn borders(padding: Scalar, dims: &[(i64, i64, i64)], to: BufferId) -> Vec<Nest> {
    let sides = dims.iter().enumerate().flat_map(|(at, (before, dim, all))| {
        [(at, 0, *before), (at, before + dim, all - before - dim)].into_iter().filter(|(.., extent)| *extent > 0)
    });
    let nest = |(at, first, extent)| {
        let ranges = dims.iter().enumerate().map(|(i, (.., all))| if i == at { (first, extent) } else { (0, *all) });
        store(padding.clone(), to, ranges)
    };
    sides.map(nest).collect()
}

/// Stores a value in a part of a buffer: for every dimension where the part begins, and its extent.
fn store(value: Scalar, to: BufferId, ranges: impl Iterator<Item = (i64, i64)>) -> Nest {
    let (firsts, extents): (Vec<_>, Vec<_>) = ranges.unzip();
    Nest {
        maps: extents.len(),
        axes: extents.into_iter().map(|extent| Axis { extent: Dim::constant(extent) }).collect(),
        nodes: vec![value],
        reduction: None,
        result: 0,
        store: Access {
            buffer: to,
            index: firsts.into_iter().enumerate().map(|(axis, first)| Dim::axis(axis) + first).collect(),
        },
    }
}

/// How far an index goes beyond a dimension of the data, where a bound says that it may. None where a part of the data would
/// be copied in vain.
pub(super) fn sides(nest: &Nest, index: &Dim, dim: &Dim, bounds: &[Bound]) -> Option<(i64, i64)> {
    let last = dim.as_const()?.checked_sub(1)?;
    let extent = |atom: &Atom| match atom {
        Atom::Axis(axis) => nest.axes.get(*axis as usize).and_then(|axis| axis.extent.as_const()),
        _ => None,
    };
    let mut known = true;
    index.for_each_atom(&mut |atom| known &= extent(atom).is_some());
    let range = index.range_with(&|atom| Interval { min: 0, max: extent(atom).unwrap_or(1) - 1 });
    if !known {
        return None;
    }
    match bounds.iter().find(|bound| bound.value == *index) {
        Some(bound) => {
            bound.limit.is(last + 1).then(|| (range.min.saturating_neg().max(0), range.max.saturating_sub(last).max(0)))
        }
        None => (range.min == 0 && range.max == last).then_some((0, 0)),
    }
}
