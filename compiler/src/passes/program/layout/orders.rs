//! Orders of dimensions that nests prefer.

use crate::dim::Dim;
use crate::passes::program::pool_lines;
use crate::program::edit::reorder_axes;
use crate::program::kernel::Part;
use crate::program::nest::{Access, Nest, Node, STRIDE, Scalar, place_depends};
use crate::program::recognise::{self, Product, Window};
use crate::program::{BufferId, Program, Role, Step, StepKind};
use std::collections::{BTreeMap, BTreeSet};

/// Shorter rows fill no vector.
pub(super) const VECTOR: i64 = 16;
/// Fewer channels fill no vector: a maximum or sum of them is not worth a copy, and products are where lines are short.
const FEW_CHANNELS: i64 = 8;
/// Outputs of a line that fill vectors.
const LONG_LINE: i64 = 32;

/// Columns, at most, and products of a sum, at least, for which AVX-512 has kernels for planes that pay.
const PLANE_COLUMNS: i64 = 10;
const PLANE_PRODUCTS: i64 = 25;

/// What convolutions (products with padded or strided windows) and pooling would like of the buffers they read: channels last.
/// Where there are kernels for planes, those of few results want images as they are. Functions want what they read row-major.
pub(super) fn wanted_orders(program: &Program, has_planes: bool) -> BTreeMap<BufferId, Vec<usize>> {
    let (mut wanted, mut images) = (BTreeMap::new(), BTreeSet::new());
    let mut pending: Vec<&Step> = program.root.steps.iter().rev().collect();
    while let Some(step) = pending.pop() {
        pending.extend(step.blocks().into_iter().flat_map(|block| &block.steps).rev());
        if let StepKind::Call(call) = &step.kind {
            for buffer in &call.inputs {
                wanted.entry(*buffer).or_insert_with(|| (0..program.buffer(*buffer).dims.len()).collect());
            }
        }
        let StepKind::Nest(nest) = &step.kind else { continue };
        if has_planes && copies_input(program, nest) {
            images.insert(nest.store.buffer);
        }
        let plane = plane_order(program, nest).filter(|(buffer, _)| images.contains(buffer));
        let line = along_lines(program, nest).map(|line| line.from);
        let order =
            plane.or(line).or_else(|| convolution_order(program, nest)).or_else(|| pooling_order(program, nest));
        if let Some((buffer, order)) = order {
            wanted.entry(buffer).or_insert(order);
        }
    }
    wanted
}

/// Whether a nest copies an input as it is, perhaps between padding.
fn copies_input(program: &Program, nest: &Nest) -> bool {
    let Some(Scalar::Load { access, .. }) = nest.nodes.get(nest.result as usize) else { return false };
    let same = access.index.iter().zip(&nest.store.index).all(|(from, to)| (to.clone() - from).as_const().is_some());
    matches!(program.buffer(access.buffer).role, Role::Input(_)) && access.index.len() == nest.store.index.len() && same
}

/// The order of an image, plane by plane, for a convolution of few results: vectors hold neighbours along its lines.
fn plane_order(program: &Program, nest: &Nest) -> Option<(BufferId, Vec<usize>)> {
    let product = product_of_columns(program, nest)?;
    let Scalar::Load { access, .. } = nest.nodes.get(product.data as usize)? else { return None };
    let of = |part: Part| {
        let axes = nest.axes.iter().zip(&product.parts).filter(move |(_, own)| **own == part);
        axes.map(|(axis, _)| axis.extent.as_const()).try_fold(1, |n: i64, m| n.checked_mul(m?))
    };
    let near = |dim: &Dim, axis: usize| dim.coefficient(axis).is_some_and(|step| (1..=2).contains(&step));
    let line = access.index.last().and_then(|dim| (0..nest.maps).find(|axis| near(dim, *axis)))?;
    let few = of(Part::Column)? <= PLANE_COLUMNS && of(Part::Tap)? >= PLANE_PRODUCTS;
    let is_line = product.parts[line] == Part::Row && nest.axes[line].extent.range().min >= LONG_LINE;
    (few && is_line).then(|| (access.buffer, (0..access.index.len()).collect()))
}

fn convolution_order(program: &Program, nest: &Nest) -> Option<(BufferId, Vec<usize>)> {
    let product = recognise::product(program, nest)?;
    let channel = channel_dimension(nest, &product)?;
    let Scalar::Load { access, .. } = nest.nodes.get(product.data as usize)? else { return None };
    let composite = |dim: &Dim| (0..nest.axes.len()).filter(|axis| dim.uses_axis(*axis)).count() > 1;
    let mut others = access.index.iter().enumerate().skip(1).filter(|(at, _)| *at != channel);
    let slides = access.index.len() > 2 && others.any(|(_, dim)| composite(dim));
    slides.then(|| (access.buffer, rotated(access.index.len(), channel)))
}

fn pooling_order(program: &Program, nest: &Nest) -> Option<(BufferId, Vec<usize>)> {
    let window = recognise::window(program, nest).filter(|window| window.weights.is_none())?;
    let Scalar::Load { access, .. } = nest.nodes.get(window.data as usize)? else { return None };
    let channel = sliding_channel(program, nest, &window)?;
    Some((access.buffer, rotated(access.index.len(), channel)))
}

/// The dimension of the data that channels index: no window slides along it. Dimension 1, unless a transposition was fused.
pub(super) fn channel_dimension(nest: &Nest, product: &Product) -> Option<usize> {
    let Scalar::Load { access, .. } = nest.nodes.get(product.data as usize)? else { return None };
    let depthwise = !product.parts.contains(&Part::Column);
    let uses =
        |dim: &Dim, part: Part| (0..nest.axes.len()).any(|axis| product.parts[axis] == part && dim.uses_axis(axis));
    let channels = |dim: &Dim| uses(dim, Part::Tap) || depthwise && uses(dim, Part::Batch);
    let mut dims = access.index.iter().enumerate().skip(1);
    dims.find(|(_, dim)| channels(dim) && !uses(dim, Part::Row)).map(|(at, _)| at)
}

/// The order with one dimension last.
pub(super) fn rotated(rank: usize, last: usize) -> Vec<usize> {
    (0..rank).filter(|dim| *dim != last).chain([last]).collect()
}

/// A product with columns that kernels take.
pub(in crate::passes::program) fn product_of_columns(program: &Program, nest: &Nest) -> Option<Product> {
    let product = recognise::product(program, nest).filter(|product| product.parts.contains(&Part::Column))?;
    (!runs_along_batches(program, nest, &product)).then_some(product)
}

/// Whether a product is of one row and a computed matrix that is contiguous along an axis of both, as a sum of weighted branches
/// of channels is: no kernel takes it, and loops along that axis need nothing else.
fn runs_along_batches(program: &Program, nest: &Nest, product: &Product) -> bool {
    let Some(Scalar::Load { access, .. }) = nest.nodes.get(product.weights as usize) else { return false };
    let address = program.address(access.buffer, &access.index);
    let long = |part: Part| {
        let axes = product.parts.iter().zip(&nest.axes).enumerate();
        axes.filter(move |(_, (of, axis))| **of == part && !axis.extent.is(1)).map(|(axis, _)| axis)
    };
    program.buffer(access.buffer).constant().is_none()
        && long(Part::Row).next().is_none()
        && long(Part::Batch).any(|axis| address.coefficient(axis) == Some(1))
}

/// The output order of a window reduction whose data is contiguous along one of the possible channel axes.
pub(super) fn channels_last(program: &Program, nest: &Nest, window: &Window) -> Option<Vec<usize>> {
    let Scalar::Load { access, .. } = nest.nodes.get(window.data as usize)? else { return None };
    let address = program.address(access.buffer, &access.index);
    let mut contiguous = window.channels.iter().filter(|axis| address.coefficient(**axis) == Some(1));
    let channel = *contiguous.find(|axis| !nest.axes[**axis].extent.is(1))?;
    let dim = nest.store.index.iter().position(|dim| dim.uses_axis(channel))?;
    Some(rotated(nest.store.index.len(), dim))
}

/// The dimension of a window's data along which its channels run, if windows slide along others, and there are channels enough
/// to be worth a copy in which they follow each other. A sum over a whole image, or over all of some channels of it, is no such
/// window.
pub(super) fn sliding_channel(program: &Program, nest: &Nest, window: &Window) -> Option<usize> {
    let Scalar::Load { access, .. } = nest.nodes.get(window.data as usize)? else { return None };
    let uses = |dim: &Dim, mut axes: std::ops::Range<usize>| axes.any(|axis| dim.uses_axis(axis));
    let slides = |dim: &Dim| uses(dim, 0..nest.maps) && uses(dim, nest.maps..nest.axes.len());
    let extent = |axis: &&usize| nest.axes[**axis].extent.range().min;
    let channel = window.channels.iter().max_by_key(extent)?;
    let enough = extent(&channel) >= FEW_CHANNELS || window.weights.is_some() && extent(&channel) > 1;
    if !enough || takes_whole_lines(program, nest, access) {
        return None;
    }
    let dim = access.index.iter().position(|dim| dim.uses_axis(*channel))?;
    access.index.iter().any(slides).then_some(dim)
}

/// Whether a sum takes a dimension as a whole, and parts of others that do not overlap: each element once.
fn takes_whole_lines(program: &Program, nest: &Nest, access: &Access) -> bool {
    let reduced = || nest.maps..nest.axes.len();
    let dims = &program.buffer(access.buffer).dims;
    let whole = |(index, dim): (&Dim, &Dim)| {
        let counted = |axis: usize| index.counts(axis) && nest.axes[axis].extent == *dim;
        !dim.is(1) && reduced().any(counted)
    };
    let apart = |index: &Dim| {
        let Some(tap) = reduced().find(|axis| index.uses_axis(*axis)) else { return true };
        let step = |axis: usize| index.coefficient(axis).unwrap_or(0);
        let mut steps = (0..nest.maps).map(step).filter(|step| *step != 0);
        step(tap) == 1 && steps.all(|step| nest.axes[tap].extent.upper_bound() <= step)
    };
    access.index.iter().zip(dims).any(whole) && access.index.iter().all(apart)
}

/// Whether a depthwise convolution or a pooling window has so few channels, and lines so long, that loops along these take less
/// time than kernels along channels, once no padding is left: of `index`, by which its data is read, the last dimension is a
/// long line. Pooling windows that share nothing along it are as fast in any order.
pub(in crate::passes::program) fn runs_along_lines(nest: &Nest, window: &Window, index: &[Dim]) -> bool {
    let extent = |axis: usize| nest.axes[axis].extent.range();
    let is_long = |line: usize| !window.channels.contains(&line) && extent(line).min >= LONG_LINE;
    line_axis(nest, index).is_some_and(|line| is_long(line) && (window.weights.is_some() || overlap(nest, index, line)))
        && window.channels.iter().all(|axis| extent(*axis).max < FEW_CHANNELS)
}

/// Whether neighbours along a line share elements.
fn overlap(nest: &Nest, index: &[Dim], line: usize) -> bool {
    let Some(dim) = index.last() else { return false };
    let step = dim.coefficient(line).unwrap_or(0);
    let mut taps = (nest.maps..nest.axes.len()).filter(|axis| dim.uses_axis(*axis));
    taps.any(|tap| nest.axes[tap].extent.range().min > step)
}

/// The axis of the line along which data is read: neighbours read neighbours, or elements at a small distance.
fn line_axis(nest: &Nest, index: &[Dim]) -> Option<usize> {
    let near = |dim: &Dim, axis: usize| dim.coefficient(axis).is_some_and(|step| (1..=STRIDE).contains(&step));
    index.last().and_then(|dim| (0..nest.maps).find(|axis| near(dim, *axis)))
}

/// A depthwise convolution or a pooling window that runs along lines.
pub(super) struct Line {
    /// The load of its data, and the dimension of that along which lines run.
    pub data: Node,
    pub dim: usize,
    /// What it loads, in its logical order.
    pub from: (BufferId, Vec<usize>),
    /// The order of its result.
    pub order: Vec<usize>,
}

/// How a nest runs along lines, if it does: nothing of its data is padding along them, but for pooling, of which kernels leave it out.
pub(super) fn along_lines(program: &Program, nest: &Nest) -> Option<Line> {
    let window = recognise::any_window(program, nest)?;
    let Scalar::Load { access, bounds, .. } = nest.nodes.get(window.data as usize)? else { return None };
    let runs = runs_along_lines(nest, &window, &access.index) || pool_lines::takes(program, nest, &window);
    let axis = line_axis(nest, &access.index).filter(|_| runs)?;
    let padded = bounds.iter().any(|bound| bound.value.uses_axis(axis)) && !pool_lines::pads(program, nest, &window);
    let to = nest.store.index.iter().position(|dim| dim.counts(axis)).filter(|_| !padded)?;
    let (dims, order) = (access.index.len(), rotated(nest.store.index.len(), to));
    Some(Line { data: window.data, dim: dims - 1, from: (access.buffer, (0..dims).collect()), order })
}

/// What a nest reads most of, constants aside.
fn largest_operand<'n>(program: &Program, nest: &'n Nest) -> Option<&'n Access> {
    let variable = nest.loads().filter(|access| program.buffer(access.buffer).constant().is_none());
    variable.max_by_key(|access| program.buffer(access.buffer).len().upper_bound())
}

/// The output order of a nest that follows its largest operand: each output dimension takes the place that the axis it
/// runs along has in the operand's memory, also where the operand's index is computed from the axis.
pub(super) fn follow(program: &Program, nest: &Nest) -> Option<Vec<usize>> {
    let operand = largest_operand(program, nest)?;
    let address = program.address(operand.buffer, &operand.index);
    let stride = |dim: usize| {
        let index = nest.store.index.get(dim)?;
        let axis = (0..nest.maps).find(|axis| index.uses_axis(*axis))?;
        let linear = address.stride(axis).map(|stride| stride.upper_bound()).filter(|stride| *stride > 0);
        linear.or_else(|| looked_up_stride(program, nest, operand, axis))
    };
    let mut strides: Vec<Option<i64>> = (0..nest.store.index.len()).map(stride).collect();
    // A dimension that the operand does not have stays beside its logical neighbour.
    let mut last = i64::MAX;
    for slot in &mut strides {
        last = slot.unwrap_or(last);
        *slot = Some(last);
    }
    let mut order: Vec<usize> = (0..strides.len()).collect();
    order.sort_by_key(|dim| std::cmp::Reverse(strides[*dim]));
    Some(order)
}

/// A reduction over several axes that is no window adds up its largest operand as it lies in memory.
pub(super) fn walk_in_order(program: &Program, nest: &mut Nest) {
    let several = nest.axes.len() > nest.maps + 1 && nest.reduction.is_some() && nest.is_direct();
    let channels = |window: Window| window.channels.iter().any(|axis| !nest.axes[*axis].extent.is(1));
    if !several || recognise::window(program, nest).is_some_and(channels) {
        return;
    }
    let Some(operand) = largest_operand(program, nest) else { return };
    let address = program.address(operand.buffer, &operand.index);
    let mut order: Vec<usize> = (0..nest.axes.len()).collect();
    let Some(reduced) = order.get_mut(nest.maps..) else { return };
    let stride = |axis: usize| address.coefficient(axis).filter(|stride| *stride > 0);
    if reduced.iter().any(|axis| stride(*axis).is_none()) {
        return;
    }
    reduced.sort_by_key(|axis| std::cmp::Reverse(stride(*axis)));
    // The last axes count as one where what they run over follows each other.
    let mut run = 1i64;
    for axis in reduced.iter().rev() {
        let follows = stride(*axis) == Some(run);
        run = if follows { run.saturating_mul(nest.axes[*axis].extent.range().min) } else { break };
    }
    if run >= VECTOR {
        reorder_axes(nest, &order);
    }
}

/// Stride of the operand's dimension in which an axis is looked up: through a division or another tensor.
fn looked_up_stride(program: &Program, nest: &Nest, operand: &Access, axis: usize) -> Option<i64> {
    let depends = nest.depends_on(axis);
    let at = operand.index.iter().position(|dim| place_depends(&depends, dim, axis))?;
    program.buffer(operand.buffer).layout.strides.get(at)?.as_const().filter(|stride| *stride > 0)
}
