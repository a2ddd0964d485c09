//! Merges narrow groups of convolutions into groups that fill vectors: weights between different groups are zeros.

use super::blocks::for_each_block;
use super::select::pack::Values;
use super::select::{Contraction, contraction};
use crate::diag::Diagnostics;
use crate::dim::{Atom, Dim};
use crate::element::ElementType;
use crate::options::{Accuracy, Options};
use crate::program::kernel::{KernelAxis, KernelKind};
use crate::program::nest::{Access, Nest, Scalar};
use crate::program::{Program, Step, StepKind};
use crate::tensor::Tensor;

/// Columns that fill the narrowest tile of vectors. Twice to eight times the products in whole vectors take 0.3 to 0.75 of the
/// time of fewer in vectors that are mostly empty, on AVX-512 and AVX2: the runtime's benchmark `choices`.
const WIDTH: i64 = 16;
/// Columns of groups that have more channels: half of such a vector has as many products as each of them has apart, in the same
/// time, and longer sums.
const HALF: i64 = 8;
/// Fewer rows do not even fill one register tile.
const ROWS: i64 = 12;

/// Replaces sums over the channels of a group by sums over the channels of several.
pub fn merge_groups(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Zero times infinity would be NaN.
    if options.accuracy == Accuracy::Exact || !options.has_vector_kernels() {
        return;
    }
    for_each_block(program, &mut |program, steps, _| {
        let mut out = Vec::with_capacity(steps.len());
        for step in steps {
            let mut left = Some(step);
            while let Some(step) = left.take() {
                let apart = match &step.kind {
                    StepKind::Nest(nest) => Groups::of(program, nest).and_then(|groups| groups.apart(program, nest)),
                    _ => None,
                };
                let Some((merged, rest)) = apart else {
                    out.push(step);
                    continue;
                };
                out.push(Step { kind: StepKind::Nest(merged), origins: step.origins.clone() });
                left = rest.map(|nest| Step { kind: StepKind::Nest(nest), ..step });
            }
        }
        out
    });
}

/// The axes of a grouped product.
struct Groups {
    group: usize,
    column: usize,
    /// The reduction axis over the channels of a group.
    depth: usize,
    /// The load of the weights.
    weights: usize,
    /// Columns and channels of a group.
    columns: i64,
    channels: i64,
    /// How many groups become one.
    factor: i64,
}

impl Groups {
    /// The groups of a nest that gains by merging them.
    fn of(program: &Program, nest: &Nest) -> Option<Groups> {
        // What no kernel computes would get more products for nothing.
        let Contraction { kernel, description, .. } = contraction(program, nest, true)?;
        let KernelKind::Contraction { weights, .. } = kernel.kind else { return None };
        let only = |axes: &[KernelAxis]| {
            let mut axes = axes.iter().filter(|axis| !axis.extent.is(1));
            axes.next().filter(|_| axes.next().is_none()).map(|axis| axis.axis)
        };
        let (group, column) = (only(&description.batches)?, only(&description.columns)?);
        let depth = description.depth.as_ref()?.axis;
        let extent = |axis: usize| nest.axes.get(axis)?.extent.as_const();
        let (count, columns, channels) = (extent(group)?, extent(column)?, extent(depth)?);
        let rows = description.rows.iter().fold(1i64, |n, axis| n.saturating_mul(axis.extent.upper_bound()));
        let width = if channels <= columns { WIDTH } else { HALF };
        let narrow = (2..width).contains(&columns) && width % columns == 0;
        let factor = [8, 4, 2].into_iter().find(|factor| factor * columns <= width && *factor <= count)?;
        let groups = Groups { group, column, depth, weights: weights as usize, columns, channels, factor };
        (narrow && rows >= ROWS && groups.are_neighbours(nest)).then_some(groups)
    }

    /// Whether a step of the group is as far as all columns or channels of one, wherever an index uses them, but for the weights.
    fn are_neighbours(&self, nest: &Nest) -> bool {
        let axes = [self.group, self.column, self.depth];
        let unused = |dim: &Dim| !axes.iter().any(|axis| dim.uses_axis(*axis));
        let fits = |dim: &Dim| {
            let [group, column, depth] = axes.map(|axis| dim.coefficient(axis));
            let (Some(group), Some(column), Some(depth)) = (group, column, depth) else { return false };
            (column == 0 || depth == 0) && group == column * self.columns + depth * self.channels
        };
        let node_fits = |(at, node): (usize, &Scalar)| match node {
            Scalar::Load { access, bounds, .. } => {
                let outside = bounds.iter().all(|bound| unused(&bound.value) && unused(&bound.limit));
                outside && (at == self.weights || access.index.iter().all(fits))
            }
            Scalar::Index(dim) => unused(dim),
            _ => true,
        };
        nest.axes.iter().all(|axis| unused(&axis.extent))
            && nest.store.index.iter().all(fits)
            && nest.nodes.iter().enumerate().all(node_fits)
    }

    /// The nest over merged groups, and the one over groups that are left.
    fn apart(&self, program: &mut Program, nest: &Nest) -> Option<(Nest, Option<Nest>)> {
        let count = nest.axes.get(self.group)?.extent.as_const()?;
        let whole = count - count % self.factor;
        let merged = self.merged(program, &self.part(nest, 0, whole)?)?;
        let rest = if whole < count { Some(self.part(nest, whole, count - whole)?) } else { None };
        Some((merged, rest))
    }

    /// The nest over some groups.
    fn part(&self, nest: &Nest, first: i64, count: i64) -> Option<Nest> {
        let mut part = nest.clone();
        part.axes.get_mut(self.group)?.extent = Dim::constant(count);
        if first > 0 {
            self.move_groups(&mut part, &(Dim::axis(self.group) + first));
        }
        Some(part)
    }

    /// Replaces the number of the group in all indices.
    fn move_groups(&self, nest: &mut Nest, by: &Dim) {
        let group = Atom::Axis(self.group as u32);
        let moved = |index: &mut Vec<Dim>| {
            index.iter_mut().for_each(|dim| *dim = dim.substitute(&|atom| (*atom == group).then(|| by.clone())));
        };
        moved(&mut nest.store.index);
        for node in &mut nest.nodes {
            if let Scalar::Load { access, .. } = node {
                moved(&mut access.index);
            }
        }
    }

    /// The nest over merged groups.
    fn merged(&self, program: &mut Program, nest: &Nest) -> Option<Nest> {
        let mut merged = nest.clone();
        let wider = [(self.column, self.columns), (self.depth, self.channels)];
        for (axis, extent) in wider.map(|(axis, extent)| (axis, extent * self.factor)) {
            merged.axes.get_mut(axis)?.extent = Dim::constant(extent);
        }
        let group = merged.axes.get_mut(self.group)?;
        group.extent = Dim::constant(group.extent.as_const()? / self.factor);
        self.move_groups(&mut merged, &(Dim::axis(self.group) * self.factor));
        let access = self.weights_of(program, nest, &merged)?;
        *merged.nodes.get_mut(self.weights)? = Scalar::Load { access, bounds: Vec::new(), otherwise: None };
        Some(merged)
    }

    /// The constant with the weights of merged groups, and how the merged nest loads it.
    fn weights_of(&self, program: &mut Program, nest: &Nest, merged: &Nest) -> Option<Access> {
        let Scalar::Load { access, .. } = nest.nodes.get(self.weights)? else { return None };
        let (source, from) = (program.buffer(access.buffer), address(program, nest, self.weights)?);
        let (name, tensor) = (source.name.clone(), source.constant()?.clone());
        let values = Values::new(&tensor)?;
        // The group, taps, channels and columns, slowest first.
        let inner = [self.depth, self.column];
        let mut axes: Vec<usize> = (0..nest.axes.len()).filter(|axis| from.uses_axis(*axis)).collect();
        axes.retain(|axis| !inner.contains(axis));
        axes.extend(inner);
        let mut dims = Vec::new();
        for axis in &axes {
            dims.push(merged.axes.get(*axis)?.extent.as_usize()?);
        }
        let strides = axes.iter().map(|axis| from.coefficient(*axis)).collect::<Option<Vec<i64>>>()?;
        let start = axes.iter().fold(from, |rest, axis| rest.without(*axis)).as_const()?;
        let length = dims.iter().try_fold(1usize, |n, dim| n.checked_mul(*dim))?;
        let (mut elements, mut index) = (vec![[0; 4]; length], vec![0i64; dims.len()]);
        for (at, element) in elements.iter_mut().enumerate() {
            let mut rest = at;
            for (index, dim) in index.iter_mut().zip(&dims).rev() {
                (*index, rest) = ((rest % dim) as i64, rest / dim);
            }
            if let Some(offset) = self.offset(&axes, &index, &strides) {
                *element = values.at(start + offset).to_le_bytes();
            }
        }
        let tensor = Tensor { element: ElementType::F32, dims, bytes: elements.into_flattened().into() };
        let buffer = program.add_constant(&name, tensor);
        Some(Access { buffer, index: axes.into_iter().map(Dim::axis).collect() })
    }

    /// Where the weight at an index of the merged groups lies among the plain ones; none between different groups.
    fn offset(&self, axes: &[usize], index: &[i64], strides: &[i64]) -> Option<i64> {
        let at = |axis: usize| axes.iter().position(|a| *a == axis).and_then(|i| index.get(i)).copied();
        let (column, channel) = (at(self.column)?, at(self.depth)?);
        let group = column / self.columns;
        let plain = |axis: usize, i: i64| match axis {
            _ if axis == self.group => i * self.factor + group,
            _ if axis == self.column => i % self.columns,
            _ if axis == self.depth => i % self.channels,
            _ => i,
        };
        let terms = axes.iter().zip(index).zip(strides).map(|((axis, i), stride)| plain(*axis, *i) * stride);
        (channel / self.channels == group).then(|| terms.sum())
    }
}

/// The address that a node loads from.
fn address(program: &Program, nest: &Nest, node: usize) -> Option<Dim> {
    match nest.nodes.get(node)? {
        Scalar::Load { access, .. } => Some(program.address(access.buffer, &access.index)),
        _ => None,
    }
}
