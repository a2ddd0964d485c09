//! Multiplies constant factors behind a sum of products into its constant weights: BatchNorm costs nothing.

use super::blocks::for_each_step;
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::edit::{Nodes, prune, renumber_dim};
use crate::program::interpret::interpret;
use crate::program::kernel::Part;
use crate::program::nest::{Access, Axis, Binary, Nest, Node, Scalar};
use crate::program::{Program, Role, Step, StepKind, recognise};
use crate::tensor::Tensor;

/// Folds every factor that does not change along the rows of a product.
pub fn fold_scale(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    for_each_step(program, &mut |program, step| {
        if let StepKind::Nest(nest) = &mut step.kind {
            while let Some(scaled) = scaled(program, nest) {
                *nest = scaled;
            }
        }
    });
}

/// The nest with one factor in its weights instead of behind its sum.
fn scaled(program: &mut Program, nest: &Nest) -> Option<Nest> {
    let product = recognise::product(program, nest)?;
    let Scalar::Load { access: weights, .. } = nest.nodes.get(product.weights as usize)? else { return None };
    let reduced = nest.nodes.iter().position(|node| *node == Scalar::Reduced)? as Node;
    let (multiply, factor) = only_factor(nest, reduced)?;
    let rows_free =
        |dim: &Dim| (0..nest.axes.len()).all(|axis| product.parts[axis] != Part::Row || !dim.uses_axis(axis));
    match nest.nodes.get(factor as usize)? {
        Scalar::Const(_) => {}
        Scalar::Load { access, bounds, .. } => {
            let constant = program.buffer(access.buffer).constant().is_some();
            if !constant || !bounds.is_empty() || !access.index.iter().all(rows_free) {
                return None;
            }
        }
        _ => return None,
    }
    let tensor = multiplied(program, nest, weights, factor)?;
    let name = program.buffer(weights.buffer).name.clone();
    let buffer = program.add_constant(&name, tensor);
    let mut fused = nest.clone();
    let mut nodes = Nodes::default();
    let mut renamed = Vec::new();
    let new = nodes.copy(nest, &Dim::axis, &mut |nodes, i, node| {
        let number = match node {
            Scalar::Load { access, .. } if i == product.weights as usize => {
                let access = Access { buffer, index: access.index.clone() };
                Some(nodes.add(Scalar::Load { access, bounds: Vec::new(), otherwise: None }))
            }
            _ if i == multiply as usize => renamed.get(reduced as usize).copied(),
            _ => None,
        };
        renamed.push(number.unwrap_or(nodes.list.len() as Node));
        number
    });
    fused.nodes = nodes.list;
    fused.result = new[nest.result as usize];
    fused.reduction = nest.reduction.map(|mut reduction| {
        reduction.value = new[reduction.value as usize];
        reduction
    });
    prune(&mut fused);
    Some(fused)
}

/// The multiplication that is the only use of the sum, and its other operand.
fn only_factor(nest: &Nest, reduced: Node) -> Option<(Node, Node)> {
    let mut uses = nest.nodes.iter().enumerate().filter(|(_, node)| {
        let mut used = false;
        node.for_each_operand(&mut |operand| used |= operand == reduced);
        used
    });
    let (multiply, node) = uses.next()?;
    match (node, uses.next()) {
        (Scalar::Binary(Binary::Mul, a, b), None) if a != b && nest.result != reduced => {
            Some((multiply as Node, if *a == reduced { *b } else { *a }))
        }
        _ => None,
    }
}

/// The weights times the factor, by interpreting a nest over the axes of the weights.
fn multiplied(program: &Program, nest: &Nest, weights: &Access, factor: Node) -> Option<Tensor> {
    let source = program.buffer(weights.buffer).constant()?.clone();
    let dims = program.buffer(weights.buffer).dims.clone();
    let mut axes: Vec<Option<Dim>> = vec![None; nest.axes.len()];
    for (position, (index, dim)) in weights.index.iter().zip(&dims).enumerate() {
        match (0..nest.axes.len()).find(|axis| *index == Dim::axis(*axis)) {
            Some(axis) if nest.axes[axis].extent == *dim => axes[axis] = Some(Dim::axis(position)),
            _ if index.is(0) && dim.is(1) => {}
            _ => return None,
        }
    }
    let mut scratch = Program::default();
    let from = scratch.add_constant("", source.clone());
    let to = scratch.add_buffer("", source.element, dims.clone(), Role::Output(0));
    let mut nodes = Nodes::default();
    let index: Vec<Dim> = (0..dims.len()).map(Dim::axis).collect();
    let load = |buffer, index| Scalar::Load { access: Access { buffer, index }, bounds: Vec::new(), otherwise: None };
    let value = nodes.add(load(from, index.clone()));
    let factor = match nest.nodes.get(factor as usize)? {
        Scalar::Load { access, .. } => {
            // Axes that the weights do not have cannot be folded into them.
            let known = |dim: &Dim| (0..nest.axes.len()).all(|axis| !dim.uses_axis(axis) || axes[axis].is_some());
            if !access.index.iter().all(known) {
                return None;
            }
            let buffer = scratch.add_constant("", program.buffer(access.buffer).constant()?.clone());
            let axis = |axis: usize| axes[axis].clone().unwrap_or_default();
            load(buffer, access.index.iter().map(|dim| renumber_dim(dim, &[], &axis)).collect())
        }
        other => other.clone(),
    };
    let factor = nodes.add(factor);
    let result = nodes.add(Scalar::Binary(Binary::Mul, value, factor));
    let axes = dims.iter().map(|extent| Axis { extent: extent.clone() }).collect();
    let store = Access { buffer: to, index };
    let nest = Nest { axes, maps: dims.len(), nodes: nodes.list, reduction: None, result, store };
    scratch.root.steps.push(Step { kind: StepKind::Nest(nest), origins: Vec::new() });
    scratch.outputs.push((to, Default::default()));
    interpret(&scratch, &[]).ok()?.into_iter().next()
}
