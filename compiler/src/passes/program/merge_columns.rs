//! Products of the same rows with weights of their own become one product with the columns of all: queries, keys and values of an
//! attention read their rows once, and threads share one step instead of three.

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::kernel::Part;
use crate::program::nest::{Access, Binary, Nest, Node, Scalar};
use crate::program::{BufferId, Layout, Program, Role, Step, StepKind, recognise};
use crate::tensor::Tensor;
use std::collections::BTreeMap;

/// Merges products whose results are operands of products with each other, through reshapes at most: there, views of one
/// result are as good as results of their own. (Elsewhere a result may better be computed where it is concatenated.)
pub fn merge_columns(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, memory counts more: all results live until the last one is read.
    if !options.has_vector_kernels() {
        return;
    }
    let fixed = program.fixed_layouts();
    for_each_block(program, &mut |program, steps, outside| {
        let groups = groups(program, &steps, outside, &fixed);
        let mut steps: Vec<Vec<Step>> = steps.into_iter().map(|step| vec![step]).collect();
        for group in groups {
            merge(program, &mut steps, &group);
        }
        steps.into_iter().flatten().collect()
    });
}

/// One of several products.
struct Member {
    step: usize,
    nest: Nest,
    /// The load of the rows.
    data: Node,
    column: usize,
    /// How many columns.
    columns: i64,
    /// The dimension of the result that columns index.
    dim: usize,
}

/// Products that become one, in order of their steps.
fn groups(program: &Program, steps: &[Step], outside: &Outside, fixed: &[bool]) -> Vec<Vec<Member>> {
    let users = Users::of(program, steps.iter().enumerate());
    let mut found: BTreeMap<BufferId, Vec<Vec<Member>>> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        let StepKind::Nest(nest) = &step.kind else { continue };
        let Some((data, member)) = Member::of(program, nest, at) else { continue };
        let result = nest.store.buffer;
        let is_free = fixed.get(result.0 as usize) == Some(&false);
        let free = is_free && !outside.sees(program, result) && users.writers(result) == [at];
        if free && is_operand(program, steps, &users, result) {
            let groups = found.entry(data).or_default();
            match groups.iter_mut().find(|group| group.first().is_some_and(|first| first.is_like(program, &member))) {
                Some(group) => group.push(member),
                None => groups.push(vec![member]),
            }
        }
    }
    // All read the same rows.
    let same = |data: BufferId, group: &[Member]| match group {
        [first, .., last] => !users.writers(data).iter().any(|step| (first.step..last.step).contains(step)),
        _ => false,
    };
    found
        .into_iter()
        .flat_map(|(data, groups)| groups.into_iter().map(move |group| (data, group)))
        .filter_map(|(data, group)| same(data, &group).then_some(group))
        .collect()
}

/// Whether all that read a buffer multiply it by something else that is computed.
fn is_operand(program: &Program, steps: &[Step], users: &Users, buffer: BufferId) -> bool {
    let (mut pending, mut seen) = (vec![buffer], 0);
    while let Some(buffer) = pending.pop() {
        for step in users.readers(program.buffer(buffer).layout.storage) {
            match steps.get(*step).map(|step| &step.kind) {
                Some(StepKind::Reshape { from, to }) if *from == buffer => pending.push(*to),
                Some(StepKind::Nest(nest)) if is_factor(program, nest, buffer) => seen += 1,
                _ => return false,
            }
        }
    }
    seen > 0
}

/// Whether a nest sums products of two computed operands, one of which is this buffer, which it reads nowhere else.
fn is_factor(program: &Program, nest: &Nest, buffer: BufferId) -> bool {
    let factor = |node: Node| match nest.nodes.get(node as usize) {
        Some(Scalar::Load { access, .. }) => Some(access.buffer),
        _ => None,
    };
    let Some(Scalar::Binary(Binary::Mul, a, b)) = nest.reduction.and_then(|r| nest.nodes.get(r.value as usize)) else {
        return false;
    };
    let (Some(a), Some(b)) = (factor(*a), factor(*b)) else { return false };
    let computed = [a, b].iter().all(|id| program.buffer(*id).constant().is_none());
    computed && (a == buffer) != (b == buffer) && nest.loads().filter(|access| access.buffer == buffer).count() == 1
}

impl Member {
    /// A product of rows, in this buffer, with constants, whose columns are a dimension of the result.
    fn of(program: &Program, nest: &Nest, step: usize) -> Option<(BufferId, Member)> {
        let product = recognise::product(program, nest)?;
        let mut columns = (0..nest.maps).filter(|axis| product.parts.get(*axis) == Some(&Part::Column));
        let column = columns.next().filter(|_| columns.next().is_none())?;
        let extent = nest.axes.get(column)?.extent.as_const()?;
        let load = |node: Node| match nest.nodes.get(node as usize) {
            Some(Scalar::Load { access, .. }) => Some(access),
            _ => None,
        };
        let rows = load(product.data)?;
        let computed =
            program.buffer(rows.buffer).constant().is_none() && !rows.index.iter().any(|dim| dim.uses_axis(column));
        let result = program.buffer(nest.store.buffer);
        let dim = column_of(&nest.store, column)?;
        let (data, buffer) = (product.data, rows.buffer);
        let member = Member { step, nest: nest.clone(), data, column, columns: extent, dim: dim? };
        let others =
            nest.nodes.iter().enumerate().all(|(at, node)| at == data as usize || member.is_plain(program, node));
        let fits = computed
            && others
            && nest.axes.iter().all(|axis| !axis.extent.uses_axis(column))
            && result.role == Role::Temporary
            && result.layout == Layout::row_major(nest.store.buffer, &result.dims)
            && result.dims.get(member.dim).is_some_and(|size| size.is(extent));
        fits.then_some((program.buffer(buffer).layout.storage, member))
    }

    /// Whether a node reads constants, all columns of which are a dimension, or nothing.
    fn is_plain(&self, program: &Program, node: &Scalar) -> bool {
        match node {
            Scalar::Load { access, bounds, .. } => {
                let buffer = program.buffer(access.buffer);
                let Some(tensor) = buffer.constant() else { return false };
                let row_major = buffer.layout == Layout::row_major(access.buffer, &buffer.dims);
                let whole = match column_of(access, self.column) {
                    Some(Some(dim)) => buffer.dims.get(dim).is_some_and(|size| size.is(self.columns)),
                    Some(None) => true,
                    None => false,
                };
                bounds.is_empty() && row_major && whole && tensor.element.bits() % 8 == 0
            }
            Scalar::Index(dim) => !dim.uses_axis(self.column),
            _ => true,
        }
    }

    /// Whether another one differs only in its columns and their constants.
    fn is_like(&self, program: &Program, other: &Member) -> bool {
        let (a, b) = (&self.nest, &other.nest);
        let form = |member: &Member| (member.data, member.column, member.dim, member.nest.maps, member.nest.result);
        let axes = a.axes.iter().zip(&b.axes).enumerate().all(|(i, (a, b))| i == self.column || a.extent == b.extent);
        let nodes = a.nodes.iter().zip(&b.nodes).all(|pair| match pair {
            (Scalar::Load { access: a, bounds, .. }, Scalar::Load { access: b, bounds: others, .. }) => {
                let apart = if a.buffer == b.buffer { Some(None) } else { column_of(a, self.column) };
                let same = apart.is_some_and(|dim| alike(program, a.buffer, b.buffer, dim));
                a.index == b.index && bounds == others && same
            }
            (a, b) => a == b,
        });
        form(self) == form(other)
            && (a.axes.len(), a.nodes.len(), a.reduction) == (b.axes.len(), b.nodes.len(), b.reduction)
            && axes
            && nodes
            && a.store.index == b.store.index
            && alike(program, a.store.buffer, b.store.buffer, Some(self.dim))
    }
}

/// The dimension that the column axis alone indexes, if any uses it; `None` if it is used in another way.
fn column_of(access: &Access, column: usize) -> Option<Option<usize>> {
    let mut using = access.index.iter().enumerate().filter(|(_, dim)| dim.uses_axis(column));
    match (using.next(), using.next()) {
        (None, _) => Some(None),
        (Some((at, dim)), None) if *dim == Dim::axis(column) => Some(Some(at)),
        _ => None,
    }
}

/// Whether two buffers are one, or differ only in the size of a dimension.
fn alike(program: &Program, a: BufferId, b: BufferId, apart: Option<usize>) -> bool {
    let (x, y) = (program.buffer(a), program.buffer(b));
    let dims = x.dims.iter().zip(&y.dims).enumerate().all(|(i, (a, b))| Some(i) == apart || a == b);
    a == b || apart.is_some() && x.element == y.element && x.dims.len() == y.dims.len() && dims
}

/// Puts the product of all in place of the first, and views of its result in place of the others.
fn merge(program: &mut Program, steps: &mut [Vec<Step>], group: &[Member]) {
    let Some((mut nest, dims, constants)) = merged(program, group) else { return };
    for (node, name, tensor) in constants {
        let buffer = program.add_constant(&name, tensor);
        if let Some(Scalar::Load { access, .. }) = nest.nodes.get_mut(node) {
            access.buffer = buffer;
        }
    }
    let result = program.buffer(nest.store.buffer).clone();
    nest.store.buffer = program.add_buffer(&result.name, result.element, dims, Role::Temporary);
    let (whole, mut before, mut origins) = (nest.store.buffer, 0, Vec::new());
    for member in group {
        for step in steps.get_mut(member.step).into_iter().flatten() {
            origins.extend(step.origins.iter().cloned());
            step.kind = StepKind::Nest(member.part(whole, before));
        }
        before += member.columns;
    }
    if let Some(place) = group.first().and_then(|first| steps.get_mut(first.step)) {
        place.insert(0, Step { kind: StepKind::Nest(nest), origins });
    }
}

/// Constants that become one: the node that loads them, and a name.
type Constants = Vec<(usize, String, Tensor)>;

/// The product of all but for buffers, the dimensions of its result, and its constants.
fn merged(program: &Program, group: &[Member]) -> Option<(Nest, Vec<Dim>, Constants)> {
    let first = group.first()?;
    let columns = Dim::constant(group.iter().try_fold(0i64, |sum, member| sum.checked_add(member.columns))?);
    let (mut nest, mut constants) = (first.nest.clone(), Vec::new());
    for (at, node) in nest.nodes.iter().enumerate() {
        let Scalar::Load { access, .. } = node else { continue };
        if let (true, Some(Some(dim))) = (at != first.data as usize, column_of(access, first.column)) {
            constants.push((at, program.buffer(access.buffer).name.clone(), concatenated(program, group, at, dim)?));
        }
    }
    let mut dims = program.buffer(nest.store.buffer).dims.clone();
    *dims.get_mut(first.dim)? = columns.clone();
    nest.axes.get_mut(first.column)?.extent = columns;
    Some((nest, dims, constants))
}

/// The constants that this node loads in all products, one behind the other in a dimension.
fn concatenated(program: &Program, group: &[Member], node: usize, dim: usize) -> Option<Tensor> {
    let constant = |member: &Member| match member.nest.nodes.get(node)? {
        Scalar::Load { access, .. } => program.buffer(access.buffer).constant().cloned(),
        _ => None,
    };
    let tensors: Vec<Tensor> = group.iter().map(constant).collect::<Option<_>>()?;
    let first = tensors.first()?;
    let size = first.element.storage_bytes(1)?;
    let outer: usize = first.dims.get(..dim)?.iter().product();
    let inner = first.dims.get(dim + 1..)?.iter().product::<usize>().checked_mul(size)?;
    let mut bytes = Vec::with_capacity(tensors.iter().map(|tensor| tensor.bytes.as_slice().len()).sum());
    for row in 0..outer {
        for tensor in &tensors {
            let length = tensor.dims.get(dim)?.checked_mul(inner)?;
            bytes.extend_from_slice(tensor.bytes.as_slice().get(row * length..(row + 1) * length)?);
        }
    }
    let mut dims = first.dims.clone();
    *dims.get_mut(dim)? = tensors.iter().filter_map(|tensor| tensor.dims.get(dim)).sum();
    Tensor::new(first.element, dims, bytes.into())
}

impl Member {
    /// The move of these columns, from `before` on, to the result of this product.
    fn part(&self, whole: BufferId, before: i64) -> Nest {
        let nest = &self.nest;
        let mut index = nest.store.index.clone();
        if let Some(dim) = index.get_mut(self.dim) {
            *dim = dim.clone() + &Dim::constant(before);
        }
        let axes = nest.axes.iter().take(nest.maps).cloned().collect();
        Nest::moving(axes, Access { buffer: whole, index }, nest.store.clone())
    }
}
