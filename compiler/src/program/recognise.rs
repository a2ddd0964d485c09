//! Which nests are sums of products or window reductions, whatever operation they came from.

use super::kernel::{Part, WindowOp};
use super::nest::{Binary, Bound, Const, Nest, Node, ReduceFn, Scalar};
use super::{Access, BufferId, Program};
use crate::dim::Dim;
use crate::element::ElementType;

/// A sum of products of two loads, with the part of every axis; reduction axes are all [`Part::Tap`] until layouts are
/// known.
#[derive(Clone, Debug)]
pub struct Product {
    /// The operand whose rows are visited.
    pub data: Node,
    /// The operand that is packed.
    pub weights: Node,
    /// The part of every axis.
    pub parts: Vec<Part>,
}

impl Product {
    /// Whether an index of an operand counts with `axis`, from wherever a batch begins.
    pub fn counts(&self, index: &Dim, axis: usize) -> bool {
        let mut others = self.parts.iter().enumerate().filter(|(other, _)| *other != axis);
        index.coefficient(axis) == Some(1)
            && others.all(|(other, part)| *part == Part::Batch || !index.uses_axis(other))
    }
}

/// A window reduction over one load, possibly times weights; map axes are all [`Part::Row`] until the contiguous one
/// is known, which becomes [`Part::Column`].
#[derive(Clone, Debug)]
pub struct Window {
    /// What is computed.
    pub op: WindowOp,
    /// The operand that windows slide over.
    pub data: Node,
    /// The weights of a depthwise convolution.
    pub weights: Option<Node>,
    /// Map axes that may be the channels: they index one dimension of data, output (and weights) on their own.
    pub channels: Vec<usize>,
}

/// An f32 load with its bounds.
fn load<'n>(program: &Program, nest: &'n Nest, node: Node) -> Option<(&'n Access, &'n [Bound], Option<Node>)> {
    match nest.nodes.get(node as usize)? {
        Scalar::Load { access, bounds, otherwise } if program.buffer(access.buffer).element == ElementType::F32 => {
            access.is_direct().then_some((access, bounds.as_slice(), *otherwise))
        }
        _ => None,
    }
}

fn uses(access: &Access, axis: usize) -> bool {
    access.index.iter().any(|dim| dim.uses_axis(axis))
}

fn is_constant(program: &Program, buffer: BufferId) -> bool {
    program.buffer(buffer).constant().is_some()
}

fn pads_with(nest: &Nest, otherwise: Option<Node>, value: f32) -> bool {
    match otherwise.map(|node| nest.nodes.get(node as usize)) {
        None => true,
        Some(Some(Scalar::Const(Const::F32(v)))) => *v == value,
        _ => false,
    }
}

/// The node that alone uses another one.
pub fn only_use(nest: &Nest, of: Node) -> Option<(Node, &Scalar)> {
    let mut found = None;
    for (i, node) in nest.nodes.iter().enumerate() {
        let mut uses = false;
        node.for_each_operand(&mut |operand| uses |= operand == of);
        if uses && found.replace((i as Node, node)).is_some() {
            return None;
        }
    }
    found
}

/// Recognises `sum(data * weights)`.
pub fn product(program: &Program, nest: &Nest) -> Option<Product> {
    let reduction = nest.reduction.filter(|r| r.function == ReduceFn::Sum && nest.is_direct())?;
    let Scalar::Binary(Binary::Mul, a, b) = nest.nodes.get(reduction.value as usize)? else { return None };
    let (first, second) = (load(program, nest, *a)?, load(program, nest, *b)?);
    let swap = match (first.1.is_empty(), second.1.is_empty()) {
        (false, false) => return None,
        (true, false) => true,
        (false, true) => false,
        (true, true) => is_constant(program, first.0.buffer) && !is_constant(program, second.0.buffer),
    };
    let pair = if swap { (*b, *a) } else { (*a, *b) };
    let found = parts(program, nest, pair.0, pair.1)?;
    let columns = found.contains(&Part::Column);
    let plain = first.1.is_empty() && second.1.is_empty();
    let windows = found.contains(&Part::Batch) && slides(program, nest, pair.0, &found);
    match columns || !plain || windows {
        true => Some(Product { data: pair.0, weights: pair.1, parts: found }),
        // A matrix times a vector: the matrix is packed, its rows are the columns of the product.
        false => Some(Product { data: pair.1, weights: pair.0, parts: parts(program, nest, pair.1, pair.0)? }),
    }
}

/// Whether the weights are as many tensors as results, as in sums of squares: no window slides, and no axis is the channels.
fn is_elementwise(program: &Program, nest: &Nest, product: &Product) -> bool {
    let several = |axis: &usize| product.parts[*axis] == Part::Batch && !nest.axes[*axis].extent.is(1);
    (0..nest.maps).filter(several).count() > 1 && !slides(program, nest, product.data, &product.parts)
}

/// Whether a row and a tap move along the same dimension of the data.
fn slides(program: &Program, nest: &Nest, data: Node, parts: &[Part]) -> bool {
    let uses_part = |dim: &Dim, part: Part| (0..parts.len()).any(|axis| parts[axis] == part && dim.uses_axis(axis));
    load(program, nest, data).is_some_and(|(access, ..)| {
        access.index.iter().any(|dim| uses_part(dim, Part::Row) && uses_part(dim, Part::Tap))
    })
}

/// Columns that are worth a kernel where they follow each other: an AVX2 vector.
pub const FEWEST_COLUMNS: i64 = 8;

/// How many columns follow each other in the output, and the column axes along which others lie elsewhere.
pub fn run_of_columns(program: &Program, nest: &Nest, parts: &[Part]) -> (Dim, Vec<usize>) {
    let out = program.address(nest.store.buffer, &nest.store.index);
    let (mut run, mut elsewhere) = (Dim::constant(1), Vec::new());
    let columns = |axis: &usize| parts.get(*axis) == Some(&Part::Column) && !nest.axes[*axis].extent.is(1);
    for axis in (0..nest.maps).filter(columns).rev() {
        match out.stride(axis) {
            Some(stride) if stride == run => run = run * &nest.axes[axis].extent,
            _ => elsewhere.push(axis),
        }
    }
    (run, elsewhere)
}

fn parts(program: &Program, nest: &Nest, data: Node, weights: Node) -> Option<Vec<Part>> {
    let (data, _, otherwise) = load(program, nest, data)?;
    let (weights, ..) = load(program, nest, weights)?;
    if !pads_with(nest, otherwise, 0.0) {
        return None;
    }
    let part = |axis: usize| {
        let one = nest.axes.get(axis).is_some_and(|a| a.extent.is(1));
        match (axis < nest.maps, uses(data, axis), uses(weights, axis)) {
            (true, true, true) => Some(Part::Batch),
            (true, true, false) => Some(Part::Row),
            (true, false, true) => Some(Part::Column),
            (true, false, false) if one => Some(Part::Row),
            (false, true, true) => Some(Part::Tap),
            (false, _, _) if one => Some(Part::Tap),
            _ => None,
        }
    };
    (0..nest.axes.len()).map(part).collect()
}

/// Recognises a maximum or sum of one load over windows, and depthwise convolution, of channels that kernels may run along.
pub fn window(program: &Program, nest: &Nest) -> Option<Window> {
    any_window(program, nest).filter(|window| !window.channels.is_empty())
}

/// The same of one channel, too.
pub fn any_window(program: &Program, nest: &Nest) -> Option<Window> {
    let reduction = nest.reduction.filter(|_| nest.is_direct())?;
    let value = nest.nodes.get(reduction.value as usize)?;
    let (op, data, weights) = match (reduction.function, value) {
        (ReduceFn::Max, Scalar::Load { .. }) => (WindowOp::Max, reduction.value, None),
        (ReduceFn::Sum, Scalar::Load { .. }) => (WindowOp::Sum, reduction.value, None),
        (ReduceFn::Sum, Scalar::Binary(Binary::Mul, ..)) => {
            let product = product(program, nest)?;
            let depthwise = !product.parts.contains(&Part::Column) && !is_elementwise(program, nest, &product);
            depthwise.then_some((WindowOp::Depthwise, product.data, Some(product.weights)))?
        }
        _ => return None,
    };
    let (access, _, otherwise) = load(program, nest, data)?;
    let padding = if op == WindowOp::Max { f32::NEG_INFINITY } else { 0.0 };
    if !pads_with(nest, otherwise, padding) {
        return None;
    }
    let alone = |access: &Access, axis: usize| {
        let mut users = access.index.iter().filter(|dim| dim.uses_axis(axis));
        users.next().is_some_and(|dim| (dim.clone() - &Dim::axis(axis)).as_const().is_some()) && users.next().is_none()
    };
    let weights_access = weights.and_then(|w| load(program, nest, w)).map(|w| w.0);
    let channels: Vec<usize> = (0..nest.maps)
        .filter(|axis| {
            alone(access, *axis) && alone(&nest.store, *axis) && weights_access.is_none_or(|w| uses(w, *axis))
        })
        .collect();
    let rows_in_weights =
        weights_access.is_some_and(|w| (0..nest.maps).any(|axis| !channels.contains(&axis) && uses(w, axis)));
    (!rows_in_weights).then_some(Window { op, data, weights, channels })
}
