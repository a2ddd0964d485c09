//! The form of an attention: which steps hand which element to each other.
//!
//! Axes of different nests are the same one where they step over the same elements of what one nest stores and the other loads.

use super::super::join::Block;
use super::equal::Equal;
use super::{kernel, writer};
use crate::dim::{Atom, Dim, product};
use crate::program::edit::{Nodes, prune, renumber_dim, replace_nodes};
use crate::program::kernel::{Kernel, KernelAxis, KernelKind, Part};
use crate::program::nest::{Access, Binary, Nest, Node, ReduceFn, Scalar, Unary};
use crate::program::{BufferId, Program, Role, recognise};

/// An attention.
pub(super) struct Found {
    /// The steps, in no order.
    pub steps: Vec<usize>,
    pub scores: Kernel,
    /// Maximum, exponentials, sum.
    softmax: [Nest; 3],
    /// The quotients, or how the sums of products are divided.
    division: Division,
    sums: Kernel,
    pub sizes: Sizes,
}

enum Division {
    /// A nest stores them.
    Stored(Nest),
    /// This node divides the sums of products; the axes of the nest that sums exponentials, among those of the nest that
    /// stores them.
    Behind(Node, Vec<Option<usize>>),
}

/// Numbers of an attention; some may be known only when the model runs.
pub(super) struct Sizes {
    pub batches: Dim,
    pub rows: Dim,
    pub keys: Dim,
    pub depth: usize,
    pub cols: usize,
    pub panel: usize,
}

/// Where an access lies: the address at index 0 and the step of every axis.
struct Place {
    offset: Dim,
    strides: Vec<Dim>,
}

/// One axis of the scores that has more than one index.
struct ScoreAxis {
    part: Part,
    /// As equal sizes are written.
    extent: Dim,
}

/// What is known of the scores: their axes, and the place of an axis in other buffers.
struct Scores<'a> {
    axes: Vec<ScoreAxis>,
    equal: &'a Equal,
}

/// The attention whose last step this is.
pub(super) fn find(block: &Block, equal: &Equal, last: usize) -> Option<Found> {
    let program = block.program;
    let sums = kernel(block, last)?;
    let weights = load(&sums.nest, sums.data)?;
    let before = writer(block, weights.buffer)?;
    let (divide, exponential) = match quotient(block.nest(before)?) {
        Some((exponential, _)) => (Some(before), writer(block, exponential.buffer)?),
        None => (None, before),
    };
    let powers = block.nest(exponential)?;
    let (score, maximum) = difference(powers)?;
    let (products, largest) = (writer(block, score.buffer)?, writer(block, maximum.buffer)?);
    let (kernel, largest_nest) = (kernel(block, products)?, block.nest(largest)?);
    // The sum of exponentials is what divides.
    let divisor = match divide {
        Some(step) => quotient(block.nest(step)?)?.1,
        None => load(&sums.nest, division(sums)?.1)?,
    };
    let total = writer(block, divisor.buffer)?;
    let total_nest = block.nest(total)?;

    let only = |buffer: BufferId, mut readers: Vec<usize>| {
        readers.sort_unstable();
        block.readers(buffer) == readers
    };
    let dividing = divide.unwrap_or(last);
    // Nothing but the product looks at the quotients, nothing but the division at the sum.
    let single = recognise::only_use(&sums.nest, sums.data).is_some()
        && sums.nest.loads().filter(|access| block.storage(access.buffer) == block.storage(weights.buffer)).count()
            == 1
        && sums.nest.loads().filter(|access| block.storage(access.buffer) == block.storage(divisor.buffer)).count()
            == usize::from(divide.is_none())
        && (divide.is_some() || recognise::only_use(&sums.nest, division(sums)?.1).is_some());
    let alone = single
        && only(score.buffer, vec![largest, exponential])
        && only(maximum.buffer, vec![exponential])
        && only(powers.store.buffer, vec![total, dividing])
        && only(divisor.buffer, vec![dividing])
        && divide.is_none_or(|_| only(weights.buffer, vec![last]));
    if !alone {
        return None;
    }

    let (scores, at) = Scores::of(program, equal, kernel)?;
    let most = scores.reduced(program, largest_nest, ReduceFn::Max, &at)?;
    let powers_axes = scores.axes_of(program, powers, score, &at)?;
    scores.agrees(program, powers, maximum, &powers_axes, &most)?;
    let at = scores.stored(program, powers, &powers_axes)?;
    let sum = scores.reduced(program, total_nest, ReduceFn::Sum, &at)?;
    let (weights_at, division) = match divide {
        Some(step) => {
            let nest = block.nest(step)?;
            let (dividend, divisor) = quotient(nest)?;
            let axes = scores.axes_of(program, nest, dividend, &at)?;
            scores.agrees(program, nest, divisor, &axes, &sum)?;
            (scores.stored(program, nest, &axes)?, Division::Stored(nest.clone()))
        }
        None => {
            let axes = scores.matching(program, &sums.nest, weights, &at)?;
            scores.agrees(program, &sums.nest, divisor, &axes, &sum)?;
            let total_axes =
                scores.axes_of(program, total_nest, load(total_nest, total_nest.reduction?.value)?, &at)?;
            let mut place = vec![None; total_nest.axes.len()];
            total_axes.iter().zip(&powers_axes).for_each(|(total, power)| place[*total] = Some(*power));
            (at, Division::Behind(self::division(sums)?.0, place))
        }
    };
    let axes = scores.matching(program, &sums.nest, weights, &weights_at)?;
    let sizes = scores.sizes(program, kernel, sums, &axes)?;
    Some(Found {
        steps: [products, largest, exponential, total, last].into_iter().chain(divide).collect(),
        scores: kernel.clone(),
        softmax: [largest_nest.clone(), powers.clone(), total_nest.clone()],
        division,
        sums: sums.clone(),
        sizes,
    })
}

/// The factors of the sum of products.
fn factors(nest: &Nest) -> Option<(Node, Node)> {
    match nest.nodes.get(nest.reduction?.value as usize)? {
        Scalar::Binary(Binary::Mul, a, b) => Some((*a, *b)),
        _ => None,
    }
}

/// A load without bounds at a place that does not depend on data.
fn load(nest: &Nest, node: Node) -> Option<&Access> {
    match nest.nodes.get(node as usize)? {
        Scalar::Load { access, bounds, .. } if bounds.is_empty() && access.is_direct() => Some(access),
        _ => None,
    }
}

/// `a / b` of two loads, and nothing else.
fn quotient(nest: &Nest) -> Option<(&Access, &Access)> {
    match nest.nodes.get(nest.result as usize)? {
        Scalar::Binary(Binary::Div, a, b) if nest.reduction.is_none() => Some((load(nest, *a)?, load(nest, *b)?)),
        _ => None,
    }
}

/// `exp(a - b)` of two loads, perhaps 0 where the difference is very small.
fn difference(nest: &Nest) -> Option<(&Access, &Access)> {
    let node = |at: Node| nest.nodes.get(at as usize);
    let Scalar::Unary(Unary::Exp | Unary::ExpOrZero, x) = node(nest.result)? else { return None };
    match node(*x)? {
        Scalar::Binary(Binary::Sub, a, b) if nest.reduction.is_none() => Some((load(nest, *a)?, load(nest, *b)?)),
        _ => None,
    }
}

/// The node that alone uses the sums of products, and divides them by a load, which it returns too.
fn division(sums: &Kernel) -> Option<(Node, Node)> {
    let reduced = sums.nest.nodes.iter().position(|node| *node == Scalar::Reduced)? as Node;
    match recognise::only_use(&sums.nest, reduced)? {
        (at, Scalar::Binary(Binary::Div, a, b)) if *a == reduced && *b != reduced => Some((at, *b)),
        _ => None,
    }
}

fn place(program: &Program, nest: &Nest, access: &Access) -> Option<Place> {
    let address = program.address(access.buffer, &access.index);
    let strides = (0..nest.axes.len()).map(|axis| address.stride(axis)).collect::<Option<_>>()?;
    let offset = address.substitute(&|atom| matches!(atom, Atom::Axis(_)).then_some(Dim::constant(0)));
    (!offset.is_index()).then_some(Place { offset, strides })
}

/// How often an axis runs: a number, or a size that is known before the step runs.
fn extent(nest: &Nest, axis: usize) -> Option<&Dim> {
    nest.axes.get(axis).map(|axis| &axis.extent).filter(|extent| !extent.is_index() && extent.upper_bound() > 0)
}

fn is_one(nest: &Nest, axis: usize) -> bool {
    extent(nest, axis).is_some_and(|extent| extent.is(1))
}

fn are_distinct(strides: &[&Dim]) -> bool {
    let mut distinct = strides.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct.len() == strides.len()
}

impl<'a> Scores<'a> {
    /// The axes of scores and their place in what the kernel stores: batches and rows, and one column axis.
    fn of(program: &Program, equal: &'a Equal, kernel: &Kernel) -> Option<(Self, Place)> {
        let nest = &kernel.nest;
        let stored = place(program, nest, &nest.store)?;
        let (mut axes, mut strides) = (Vec::new(), Vec::new());
        for axis in 0..nest.axes.len() {
            let (extent, part) = (extent(nest, axis)?, *kernel.parts.get(axis)?);
            if axis < nest.maps && !extent.is(1) {
                axes.push(ScoreAxis { part, extent: equal.written(extent) });
                strides.push(stored.strides.get(axis)?.clone());
            }
        }
        let columns = axes.iter().filter(|axis| axis.part == Part::Column).count();
        let ascend = strides.iter().all(|stride| !stride.is(0) && stride.range().min >= 0);
        let fits = columns == 1 && are_distinct(&strides.iter().collect::<Vec<_>>()) && ascend;
        fits.then_some((Scores { axes, equal }, Place { offset: stored.offset, strides }))
    }

    /// For every axis of the scores, the one of a nest that steps over the same elements in this access.
    fn matching(&self, program: &Program, nest: &Nest, access: &Access, at: &Place) -> Option<Vec<usize>> {
        let found = place(program, nest, access)?;
        let same = |axis: &ScoreAxis, stride: &Dim| {
            (0..nest.axes.len()).find(|i| {
                found.strides.get(*i) == Some(stride)
                    && extent(nest, *i).is_some_and(|extent| self.equal.written(extent) == axis.extent)
            })
        };
        let axes: Vec<usize> = self.axes.iter().zip(&at.strides).map(|(a, s)| same(a, s)).collect::<Option<_>>()?;
        (found.offset == at.offset).then_some(axes)
    }

    /// The same of a nest that has no other axes.
    fn axes_of(&self, program: &Program, nest: &Nest, access: &Access, at: &Place) -> Option<Vec<usize>> {
        let axes = self.matching(program, nest, access, at)?;
        let others = (0..nest.axes.len()).filter(|axis| !axes.contains(axis));
        others.into_iter().all(|axis| is_one(nest, axis)).then_some(axes)
    }

    /// Where a nest with these axes stores its result.
    fn stored(&self, program: &Program, nest: &Nest, axes: &[usize]) -> Option<Place> {
        let stored = place(program, nest, &nest.store)?;
        let strides: Vec<Dim> = axes.iter().map(|axis| stored.strides.get(*axis).cloned()).collect::<Option<_>>()?;
        let moving: Vec<&Dim> = strides.iter().filter(|stride| !stride.is(0)).collect();
        are_distinct(&moving).then_some(Place { offset: stored.offset, strides })
    }

    /// Where a nest stores the reduction of the rows of what lies at a place, and nothing but that.
    fn reduced(&self, program: &Program, nest: &Nest, function: ReduceFn, at: &Place) -> Option<Place> {
        let reduction = nest.reduction.filter(|reduction| reduction.function == function && nest.is_direct())?;
        let whole = nest.nodes.get(nest.result as usize) == Some(&Scalar::Reduced);
        let axes = self.axes_of(program, nest, load(nest, reduction.value)?, at)?;
        let rows = self.axes.iter().zip(&axes).all(|(axis, at)| (*at >= nest.maps) == (axis.part == Part::Column));
        if whole && rows { self.stored(program, nest, &axes) } else { None }
    }

    /// Whether a nest with these axes loads, for every row, what was stored for it at a place.
    fn agrees(&self, program: &Program, nest: &Nest, access: &Access, axes: &[usize], at: &Place) -> Option<()> {
        let found = place(program, nest, access)?;
        let still = Dim::constant(0);
        let steps = |axis: usize| axes.iter().position(|a| *a == axis).map_or(Some(&still), |i| at.strides.get(i));
        let same = |axis: usize| is_one(nest, axis) || found.strides.get(axis) == steps(axis);
        (found.offset == at.offset && (0..nest.axes.len()).all(same)).then_some(())
    }

    /// The numbers of the attention, if the axes of both products have the same parts in the same order, all places are known
    /// and packed operands are matrices.
    fn sizes(&self, program: &Program, scores: &Kernel, sums: &Kernel, axes: &[usize]) -> Option<Sizes> {
        let (
            KernelKind::Contraction { panel, weights: keys, .. },
            KernelKind::Contraction { panel: other, weights: values, .. },
        ) = (&scores.kind, &sums.kind)
        else {
            return None;
        };
        let (first, second) = (scores.describe(program)?, sums.describe(program)?);
        let order = |part: Part| -> Vec<usize> {
            self.axes.iter().zip(axes).filter(|(axis, _)| axis.part == part).map(|(_, at)| *at).collect()
        };
        let moving = |list: &[KernelAxis]| -> Vec<usize> {
            list.iter().filter(|axis| !axis.extent.is(1)).map(|axis| axis.axis).collect()
        };
        let along: Vec<KernelAxis> = second.taps.iter().chain(&second.depth).cloned().collect();
        let same = moving(&second.batches) == order(Part::Batch)
            && moving(&second.rows) == order(Part::Row)
            && moving(&along) == order(Part::Column);
        let extents = |list: &[KernelAxis]| product(&list.iter().map(|a| a.extent.clone()).collect::<Vec<_>>());
        let padded = |list: &[KernelAxis]| {
            let sizes: Vec<Dim> = list.iter().map(|axis| self.equal.written(&axis.extent)).collect();
            let mut all = vec![Dim::constant(1); 2usize.saturating_sub(sizes.len())];
            all.extend(sizes);
            all
        };
        let batches = padded(&first.batches) == padded(&second.batches);
        let loads = [(scores, scores.data), (scores, *keys), (sums, *values)];
        let known = loads.iter().all(|(kernel, node)| {
            let access = load(&kernel.nest, *node);
            access.is_some_and(|access| place(program, &kernel.nest, access).is_some())
        });
        let stored = place(program, &sums.nest, &sums.nest.store).is_some();
        let summed: Vec<KernelAxis> = first.taps.iter().chain(&first.depth).cloned().collect();
        let matrices = [&summed, &first.columns, &along, &second.columns].into_iter().all(|axes| is_flat(axes));
        let plain = first.bounds.is_empty() && second.bounds.is_empty() && panel == other;
        let packed = [&first.batches, &summed, &first.columns, &second.batches, &along, &second.columns];
        let forward = packed.into_iter().flatten().all(|axis| axis.strides.weights.range().min >= 0);
        if !(same && batches && known && stored && matrices && plain && forward) {
            return None;
        }
        Some(Sizes {
            batches: extents(&first.batches),
            rows: extents(&first.rows),
            keys: extents(&first.columns),
            depth: extents(&summed).as_usize()?,
            cols: extents(&second.columns).as_usize()?,
            panel: *panel,
        })
    }
}

/// Whether axes are one in the weights.
fn is_flat(axes: &[KernelAxis]) -> bool {
    let moving: Vec<&KernelAxis> = axes.iter().filter(|axis| !axis.extent.is(1)).collect();
    moving.windows(2).all(|pair| pair[0].strides.weights == pair[1].strides.weights.clone() * &pair[1].extent)
}

impl Found {
    /// The sums of products of quotients, and the softmax with the nest that stores these.
    pub fn quotients(&self, program: &mut Program) -> (Kernel, [Nest; 4]) {
        let [largest, powers, total] = self.softmax.clone();
        let (divide, axes) = match &self.division {
            Division::Stored(nest) => return (self.sums.clone(), [largest, powers, total, nest.clone()]),
            Division::Behind(divide, axes) => (*divide, axes),
        };
        let from = program.buffer(powers.store.buffer).clone();
        let weights = program.add_buffer(&from.name, from.element, from.dims, Role::Temporary);
        // exponential / sum, over the axes of the exponentials.
        let axis = |axis: usize| match axes.get(axis) {
            Some(Some(power)) => Dim::axis(*power),
            _ => Dim::constant(0),
        };
        let index = total.store.index.iter().map(|dim| renumber_dim(dim, &[], &axis)).collect();
        let load = |access: Access| Scalar::Load { access, bounds: Vec::new(), otherwise: None };
        let mut nodes = Nodes::default();
        let power = nodes.add(load(powers.store.clone()));
        let sum = nodes.add(load(Access { buffer: total.store.buffer, index }));
        let result = nodes.add(Scalar::Binary(Binary::Div, power, sum));
        let store = Access { buffer: weights, index: powers.store.index.clone() };
        let quotients = Nest { nodes: nodes.list, result, store, ..powers.clone() };
        (weighed(&self.sums, divide, weights), [largest, powers, total, quotients])
    }
}

/// The kernel with quotients as its data, and without the division.
fn weighed(kernel: &Kernel, divide: Node, weights: BufferId) -> Kernel {
    let (mut nodes, mut reduced) = (Nodes::default(), None);
    let new = nodes.copy(&kernel.nest, &Dim::axis, &mut |nodes, i, node| match node {
        Scalar::Load { access, .. } if i == kernel.data as usize => {
            let access = Access { buffer: weights, index: access.index.clone() };
            Some(nodes.add(Scalar::Load { access, bounds: Vec::new(), otherwise: None }))
        }
        Scalar::Reduced => {
            reduced = Some(nodes.add(Scalar::Reduced));
            reduced
        }
        _ if i == divide as usize => reduced,
        _ => None,
    });
    let mut sums = kernel.clone();
    replace_nodes(&mut sums.nest, nodes, &new);
    prune(&mut sums.nest);
    if let (Some(product), KernelKind::Contraction { weights: values, .. }) = (factors(&sums.nest), &mut sums.kind) {
        let own = |node: Node| load(&sums.nest, node).is_some_and(|access| access.buffer == weights);
        (sums.data, *values) = if own(product.0) { product } else { (product.1, product.0) };
    }
    sums
}
