//! Surgery on nests: copying nodes of one nest into another under a change of axes.

use super::nest::{Access, Axis, Bound, Nest, Node, Reduction, Scalar};
use crate::dim::{Atom, Dim};

/// Nodes being collected, each at most once.
#[derive(Debug, Default)]
pub struct Nodes {
    /// The nodes, operands first.
    pub list: Vec<Scalar>,
}

impl Nodes {
    /// Adds a node, or finds the equal one that is there.
    pub fn add(&mut self, node: Scalar) -> Node {
        let found = self.list.iter().position(|other| *other == node);
        let at = found.unwrap_or_else(|| {
            self.list.push(node);
            self.list.len() - 1
        });
        at as Node
    }

    /// Copies the nodes of `nest` in order. `axis` says what its axes become; `replace` gives the new number of a node
    /// that is not copied but stands for something else (`None`: copy it). Returns the new number of every node.
    pub fn copy(
        &mut self,
        nest: &Nest,
        axis: &dyn Fn(usize) -> Dim,
        replace: &mut dyn FnMut(&mut Nodes, usize, &Scalar) -> Option<Node>,
    ) -> Vec<Node> {
        let mut new: Vec<Node> = Vec::with_capacity(nest.nodes.len());
        for (i, node) in nest.nodes.iter().enumerate() {
            let moved = renumber(node, &new, axis);
            let number = match replace(self, i, &moved) {
                Some(number) => number,
                None => self.add(moved),
            };
            new.push(number);
        }
        new
    }
}

/// An index expression under new axes and node numbers.
pub fn renumber_dim(dim: &Dim, new: &[Node], axis: &dyn Fn(usize) -> Dim) -> Dim {
    if !dim.is_index() {
        return dim.clone();
    }
    dim.substitute(&|atom| match atom {
        Atom::Axis(a) => Some(axis(*a as usize)),
        Atom::Scalar(node) => new.get(*node as usize).map(|n| Dim::scalar(*n)),
        _ => None,
    })
}

fn renumber(node: &Scalar, new: &[Node], axis: &dyn Fn(usize) -> Dim) -> Scalar {
    let of = |node: &Node| new.get(*node as usize).copied().unwrap_or(0);
    let dim = |dim: &Dim| renumber_dim(dim, new, axis);
    match node {
        Scalar::Const(value) => Scalar::Const(*value),
        Scalar::Index(index) => Scalar::Index(dim(index)),
        Scalar::Load { access, bounds, otherwise } => Scalar::Load {
            access: Access { buffer: access.buffer, index: access.index.iter().map(dim).collect() },
            bounds: bounds.iter().map(|b| Bound { value: dim(&b.value), limit: dim(&b.limit) }).collect(),
            otherwise: otherwise.as_ref().map(of),
        },
        Scalar::Unary(function, a) => Scalar::Unary(*function, of(a)),
        Scalar::Binary(function, a, b) => Scalar::Binary(*function, of(a), of(b)),
        Scalar::Select(c, a, b) => Scalar::Select(of(c), of(a), of(b)),
        Scalar::Cast(element, a) => Scalar::Cast(*element, of(a)),
        Scalar::Reduced => Scalar::Reduced,
    }
}

/// Gives a nest new nodes; `new` holds the new number of every old one.
pub fn replace_nodes(nest: &mut Nest, nodes: Nodes, new: &[Node]) {
    nest.nodes = nodes.list;
    nest.result = new[nest.result as usize];
    if let Some(reduction) = &mut nest.reduction {
        reduction.value = new[reduction.value as usize];
    }
    nest.store.index = nest.store.index.iter().map(|dim| renumber_dim(dim, new, &Dim::axis)).collect();
    nest.axes.iter_mut().for_each(|axis| axis.extent = renumber_dim(&axis.extent, new, &Dim::axis));
}

/// Gives a nest its axes in another order, which lists map axes before reduction axes.
pub fn reorder_axes(nest: &mut Nest, order: &[usize]) {
    let axis = |old: usize| Dim::axis(order.iter().position(|one| *one == old).unwrap_or(old));
    let mut nodes = Nodes::default();
    let new = nodes.copy(nest, &axis, &mut |_, _, _| None);
    let store = nest.store.index.iter().map(|dim| renumber_dim(dim, &new, &axis)).collect();
    replace_nodes(nest, nodes, &new);
    nest.store.index = store;
    nest.axes = order.iter().filter_map(|old| nest.axes.get(*old).cloned()).collect();
}

/// Counts along other axes: `axis` says what each becomes. Nodes keep their numbers.
pub fn move_axes(nest: &mut Nest, axis: &dyn Fn(usize) -> Dim) {
    let same: Vec<Node> = (0..nest.nodes.len() as Node).collect();
    nest.nodes.iter_mut().for_each(|node| *node = renumber(node, &same, axis));
    nest.store.index.iter_mut().for_each(|dim| *dim = renumber_dim(dim, &same, axis));
}

/// A reduction of results that parts of the nest's own reduction have: `parts` of them, which `load` reads with one more axis behind
/// the map axes. What is made of the result stays.
pub fn reduce_parts(nest: &Nest, reduction: Reduction, load: Access, parts: i64) -> Nest {
    let mut nodes = Nodes::default();
    let value = nodes.add(Scalar::Load { access: load, bounds: Vec::new(), otherwise: None });
    // What uses another reduction axis is reduced already, and dropped.
    let axis = |old: usize| Dim::axis(old.min(nest.maps));
    let new = nodes.copy(nest, &axis, &mut |_, _, _| None);
    let mut axes: Vec<Axis> = nest.axes.iter().take(nest.maps).cloned().collect();
    axes.push(Axis { extent: Dim::constant(parts) });
    let index = nest.store.index.iter().map(|dim| renumber_dim(dim, &new, &axis)).collect();
    let mut whole = Nest {
        axes,
        maps: nest.maps,
        result: new.get(nest.result as usize).copied().unwrap_or(value),
        nodes: nodes.list,
        reduction: Some(Reduction { value, ..reduction }),
        store: Access { buffer: nest.store.buffer, index },
    };
    prune(&mut whole);
    whole
}

/// Drops nodes on which neither result nor reduction depends.
pub fn prune(nest: &mut Nest) {
    let mut needed = vec![false; nest.nodes.len()];
    let reduced = nest.reduction.map(|r| r.value).into_iter().chain(nest.counts());
    nest.stored().into_iter().chain(reduced).for_each(|root| needed[root as usize] = true);
    for i in (0..nest.nodes.len()).rev() {
        if needed[i] {
            nest.nodes[i].for_each_operand(&mut |operand| needed[operand as usize] = true);
        }
    }
    if needed.iter().all(|n| *n) {
        return;
    }
    let mut nodes = Nodes::default();
    let mut new = Vec::with_capacity(nest.nodes.len());
    for (node, needed) in nest.nodes.iter().zip(&needed) {
        new.push(if *needed { nodes.add(renumber(node, &new, &Dim::axis)) } else { 0 });
    }
    replace_nodes(nest, nodes, &new);
}
