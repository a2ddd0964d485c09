//! Rows of few elements, of which there are many: a vector takes elements of several rows at once. So functions of the elements that
//! a reduction takes, and functions of what it gives, are nests of their own, for which rows follow each other.

use super::blocks::split_nests;
use super::fuse_rows::reduces_neighbours;
use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
use crate::options::Options;
use crate::program::edit::{Nodes, prune, reduce_parts, renumber_dim};
use crate::program::nest::{Access, Nest, Node, Reduction, Scalar, Unary};
use crate::program::{Program, Role, scalar_types};

/// Elements of a short row: three vectors.
const SHORT: i64 = 48;
/// Fewer rows are not worth more than one loop.
const ROWS: i64 = 16;

/// Whether rows are short, and so many that several at once are faster than one after the other.
pub(super) fn are_short(row: &Dim, rows: &Dim) -> bool {
    row.as_const().is_some_and(|row| row <= SHORT) && rows.as_const().is_some_and(|rows| rows >= ROWS)
}

/// Takes functions out of reductions of short rows.
pub fn short_rows(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if !options.has_vector_kernels() {
        return;
    }
    split_nests(program, apart);
}

/// What comes before the last part of a reduction with functions, and that part.
fn apart(program: &mut Program, nest: &Nest) -> Option<(Vec<Nest>, Nest)> {
    let reduction = nest.reduction.filter(|_| nest.is_direct())?;
    let (maps, reduces) = nest.axes.split_at_checked(nest.maps)?;
    let [reduced] = reduces else { return None };
    let extents: Vec<Dim> = maps.iter().map(|axis| axis.extent.clone()).collect();
    // Along other dimensions, a vector takes elements of several rows already.
    if !are_short(&reduced.extent, &product(&extents)) || !reduces_neighbours(program, nest) {
        return None;
    }
    let element = scalar_types(program, nest).ok()?.get(reduction.value as usize)?.element();
    let name = program.buffer(nest.store.buffer).name.clone();
    let mut before = Vec::new();
    let mut last = nest.clone();
    if has_function(nest, reduction.value) {
        let all = (0..nest.axes.len()).map(Dim::axis).collect();
        let dims = extents.iter().chain([&reduced.extent]).cloned().collect();
        let store = Access { buffer: program.add_buffer(&name, element, dims, Role::Temporary), index: all };
        before.push(elements(nest, reduction.value, store.clone()));
        last = reduce_parts(nest, reduction, store, reduced.extent.as_const()?);
    }
    if has_function(nest, nest.result) {
        let index = (0..nest.maps).map(Dim::axis).collect();
        let store = Access { buffer: program.add_buffer(&name, element, extents, Role::Temporary), index };
        let results = results(&last, &store);
        before.push(plain(&last, store)?);
        last = results;
    }
    (!before.is_empty()).then_some((before, last))
}

/// Whether a value needs a function of several instructions. What a reduction takes does not count for what it gives.
fn has_function(nest: &Nest, value: Node) -> bool {
    let cheap = [Unary::Neg, Unary::Abs, Unary::Sqrt, Unary::Floor, Unary::Ceil, Unary::Not, Unary::BitNot];
    let mut needed = vec![false; nest.nodes.len()];
    needed.get_mut(value as usize).into_iter().for_each(|needed| *needed = true);
    for (i, node) in nest.nodes.iter().enumerate().rev().filter(|(i, _)| *i <= value as usize) {
        if needed[i] {
            if matches!(node, Scalar::Unary(function, _) if !cheap.contains(function)) {
                return true;
            }
            node.for_each_operand(&mut |operand| needed[operand as usize] = true);
        }
    }
    false
}

/// The elements that a reduction takes.
fn elements(nest: &Nest, value: Node, store: Access) -> Nest {
    let (axes, nodes) = (nest.axes.clone(), nest.nodes.clone());
    let mut elements = Nest { maps: axes.len(), axes, nodes, reduction: None, result: value, store };
    prune(&mut elements);
    elements
}

/// A reduction without functions of its result.
fn plain(nest: &Nest, store: Access) -> Option<Nest> {
    let mut nodes = Nodes::default();
    let new = nodes.copy(nest, &Dim::axis, &mut |_, _, _| None);
    let reduction = nest.reduction?;
    let value = new.get(reduction.value as usize).copied()?;
    let result = nodes.add(Scalar::Reduced);
    let reduction = Some(Reduction { value, ..reduction });
    let mut plain = Nest { axes: nest.axes.clone(), maps: nest.maps, nodes: nodes.list, reduction, result, store };
    prune(&mut plain);
    Some(plain)
}

/// The functions of what a reduction gives, which `load` reads.
fn results(nest: &Nest, load: &Access) -> Nest {
    let mut nodes = Nodes::default();
    let mut reduced = |nodes: &mut Nodes, _: usize, node: &Scalar| {
        let load = Scalar::Load { access: load.clone(), bounds: Vec::new(), otherwise: None };
        matches!(node, Scalar::Reduced).then(|| nodes.add(load))
    };
    // What uses the reduction axis is reduced already, and dropped.
    let new = nodes.copy(nest, &|axis| if axis < nest.maps { Dim::axis(axis) } else { Dim::constant(0) }, &mut reduced);
    let index = nest.store.index.iter().map(|dim| renumber_dim(dim, &new, &Dim::axis)).collect();
    let mut results = Nest {
        axes: nest.axes.iter().take(nest.maps).cloned().collect(),
        maps: nest.maps,
        result: new.get(nest.result as usize).copied().unwrap_or(0),
        nodes: nodes.list,
        reduction: None,
        store: Access { buffer: nest.store.buffer, index },
    };
    prune(&mut results);
    results
}
