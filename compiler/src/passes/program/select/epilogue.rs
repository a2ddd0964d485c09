//! What follows a reduction, as data for the kernel: bias, residual, limits, an activation function; anything else runs over
//! the tile.

mod activation;

use crate::dim::Dim;
use crate::plan::inline_constant;
use crate::program::kernel::{Description, Epilogue, Kernel, Part};
use crate::program::nest::{Binary, Const, Nest, Node, Scalar};
use crate::program::{Access, Program, recognise};

/// The epilogue of a kernel's nest. Activation functions are data where there are `vectors`; else loops are smaller.
pub(in crate::passes::program) fn find(
    program: &Program,
    kernel: &Kernel,
    description: &Description,
    vectors: bool,
) -> Epilogue {
    let found = data_epilogue(program, kernel, description, vectors);
    found.unwrap_or(Epilogue { general: true, ..Epilogue::default() })
}

/// Follows the accumulator from use to use; each use must be an addition of a bias or residual, or a limit, in the order
/// in which the kernel applies them. Behind these there may be a function of nothing else, or slopes.
fn data_epilogue(program: &Program, kernel: &Kernel, description: &Description, vectors: bool) -> Option<Epilogue> {
    let nest = &kernel.nest;
    let mut epilogue = Epilogue::default();
    let mut current = nest.nodes.iter().position(|node| *node == Scalar::Reduced)? as Node;
    let after = nest.after_reduction();
    let mut steps = 1;
    while current != nest.result {
        if vectors && let Some((activation, nodes)) = activation::find(program, nest, current) {
            epilogue.activation = Some(activation);
            steps += nodes;
            break;
        }
        if vectors && let Some(slope) = slope(program, (kernel, description), current, &after) {
            epilogue.slope = Some(slope);
            steps += SLOPE_NODES;
            break;
        }
        let Some(next) = applied(program, (kernel, description), &mut epilogue, (current, &after)) else {
            steps += function(program, nest, current, &after).filter(|_| vectors)?;
            epilogue.function_of = Some(current);
            break;
        };
        current = next;
        steps += 1;
    }
    // Every node behind the reduction is one of those that were followed.
    (after.iter().filter(|a| **a).count() == steps).then_some(epilogue)
}

/// The only use of the current node, if the epilogue can have it as data: it has it then.
fn applied(
    program: &Program,
    (kernel, description): (&Kernel, &Description),
    epilogue: &mut Epilogue,
    (current, after): (Node, &[bool]),
) -> Option<Node> {
    let nest = &kernel.nest;
    let (next, node) = recognise::only_use(nest, current)?;
    let Scalar::Binary(function, a, b) = node else { return None };
    let other = if *a == current { *b } else { *a };
    if other == current || after.get(other as usize).copied().unwrap_or(true) {
        return None;
    }
    let node = nest.nodes.get(other as usize)?;
    let limit = literal(program, node).filter(|limit| !limit.is_nan());
    match (function, node) {
        (Binary::Add, Scalar::Load { access, bounds, .. })
            if bounds.is_empty() && access.is_direct() && epilogue.clamp.is_none() =>
        {
            let bias =
                epilogue.bias.is_none() && epilogue.residual.is_none() && is_bias(program, kernel, description, access);
            if bias {
                epilogue.bias = Some(other);
            } else if epilogue.residual.is_none() && is_residual(program, kernel, access) {
                epilogue.residual = Some(other);
            } else {
                return None;
            }
        }
        (Binary::Max, _) if epilogue.clamp.is_none() => epilogue.clamp = Some((limit?, f32::INFINITY)),
        (Binary::Min, _) => {
            let (low, before) = epilogue.clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
            let high = limit.filter(|high| before == f32::INFINITY && *high >= low)?;
            epilogue.clamp = Some((low, high));
        }
        _ => return None,
    }
    Some(next)
}

/// Nodes of `x < 0 ? x * slope : x`.
const SLOPE_NODES: usize = 3;

/// The slope if the nest stores `x < 0 ? x * slope : x` with one for each column.
fn slope(program: &Program, (kernel, description): (&Kernel, &Description), x: Node, after: &[bool]) -> Option<Node> {
    let nodes = &kernel.nest.nodes;
    let node = |node: Node| nodes.get(node as usize);
    let Scalar::Select(negative, scaled, same) = node(kernel.nest.result)? else { return None };
    let (Scalar::Binary(Binary::Lt, compared, zero), Scalar::Binary(Binary::Mul, a, b)) =
        (node(*negative)?, node(*scaled)?)
    else {
        return None;
    };
    let slope = if *a == x { *b } else { *a };
    let factors = (*a == x) != (*b == x);
    let is_function = factors && (*compared, *same) == (x, x) && literal(program, node(*zero)?) == Some(0.0);
    let Scalar::Load { access, bounds, .. } = node(slope)? else { return None };
    let address = program.address(access.buffer, &access.index);
    let mut batches = (0..kernel.nest.axes.len()).filter(|axis| kernel.parts[*axis] == Part::Batch);
    let first = address.evaluate(&|_| 0) == 0 && batches.all(|axis| !address.uses_axis(axis));
    let own = bounds.is_empty()
        && access.is_direct()
        && literal(program, node(slope)?).is_none()
        && !after.get(slope as usize).copied().unwrap_or(true);
    (is_function && own && first && is_bias(program, kernel, description, access)).then_some(slope)
}

/// A number that is known: a limit or a slope.
fn literal(program: &Program, node: &Scalar) -> Option<f32> {
    match node {
        Scalar::Const(Const::F32(value)) => Some(*value),
        load => match inline_constant(program, load)? {
            Const::F32(value) => Some(value),
            _ => None,
        },
    }
}

/// How many nodes behind the reduction make the result of `x`, if it is a function of nothing else.
fn function(program: &Program, nest: &Nest, x: Node, after: &[bool]) -> Option<usize> {
    let mut needed = vec![false; nest.nodes.len()];
    *needed.get_mut(nest.result as usize)? = true;
    let mut nodes = 0;
    for (i, node) in nest.nodes.iter().enumerate().rev().filter(|(i, _)| *i != x as usize) {
        if needed[i] {
            match node {
                // Literals in what is emitted.
                Scalar::Load { .. } if literal(program, node).is_some() => {}
                Scalar::Load { .. } | Scalar::Index(_) | Scalar::Reduced => return None,
                _ => {}
            }
            nodes += usize::from(after[i]);
            node.for_each_operand(&mut |operand| needed[operand as usize] = true);
        }
    }
    needed.get(x as usize).is_some_and(|needed| *needed).then_some(nodes)
}

/// A contiguous vector over the columns, perhaps one per batch.
fn is_bias(program: &Program, kernel: &Kernel, description: &Description, access: &Access) -> bool {
    let address = program.address(access.buffer, &access.index);
    let mut stride = Dim::constant(1);
    let columns = description.columns.iter().rev().filter(|axis| !axis.extent.is(1)).all(|axis| {
        let matches = address.coefficient(axis.axis).map(Dim::constant).as_ref() == Some(&stride);
        stride = stride.clone() * &axis.extent;
        matches
    });
    let others = (0..kernel.nest.axes.len()).filter(|axis| kernel.parts[*axis] == Part::Row);
    let constant = program.buffer(access.buffer).constant().is_some();
    columns && constant && is_f32(program, access) && others.into_iter().all(|axis| !address.uses_axis(axis))
}

/// The element at the output's own index, in memory of the same order along the columns.
fn is_residual(program: &Program, kernel: &Kernel, access: &Access) -> bool {
    let out = program.address(kernel.nest.store.buffer, &kernel.nest.store.index);
    let address = program.address(access.buffer, &access.index);
    let part = |axis: &usize| kernel.parts[*axis] == Part::Column && !kernel.nest.axes[*axis].extent.is(1);
    let columns = (0..kernel.nest.maps).filter(part).all(|axis| {
        let stride = address.coefficient(axis);
        stride.is_some() && stride == out.coefficient(axis)
    });
    let constant = program.buffer(access.buffer).constant().is_some();
    let linear = (0..kernel.nest.maps).all(|axis| address.coefficient(axis).is_some_and(|stride| stride >= 0));
    columns && linear && !constant && is_f32(program, access)
}

fn is_f32(program: &Program, access: &Access) -> bool {
    program.buffer(access.buffer).element == crate::element::ElementType::F32
}
