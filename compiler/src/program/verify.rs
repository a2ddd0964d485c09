//! Invariants of a program: checked after every pass, so that the pass that breaks one is named.

use super::nest::{Access, Scalar, ScalarType, Unary, scalars_of};
use super::{Block, BufferId, Kernel, Loop, Nest, Program, Rows, StepKind};
use crate::dim::{Atom, Dim, Variable};
use crate::graph::SizeSource;

/// Checks nests (types, operand order, ranks, axes) and buffers (layouts refer to storages).
///
/// # Errors
/// The first violated invariant.
pub fn verify(program: &Program) -> Result<(), String> {
    for (i, buffer) in program.buffers.iter().enumerate() {
        if buffer.layout.strides.len() != buffer.dims.len() {
            return Err(format!("layout of b{i} has another rank than the buffer"));
        }
        let storage =
            program.buffers.get(buffer.layout.storage.0 as usize).ok_or(format!("storage of b{i} does not exist"))?;
        if storage.layout.storage != buffer.layout.storage {
            return Err(format!("storage of b{i} is itself a view"));
        }
    }
    let mut blocks: Vec<&Block> = vec![&program.root];
    while let Some(block) = blocks.pop() {
        for step in &block.steps {
            match &step.kind {
                StepKind::Nest(nest) => verify_nest(program, nest)?,
                StepKind::Kernel(kernel) => verify_kernel(program, kernel)?,
                StepKind::Chain(chain) => {
                    chain.stages.iter().try_for_each(|stage| verify_kernel(program, &stage.kernel))?;
                }
                StepKind::Attention(attention) => {
                    verify_kernel(program, &attention.scores)?;
                    attention.softmax.iter().try_for_each(|nest| verify_nest(program, nest))?;
                    verify_kernel(program, &attention.sums)?;
                }
                StepKind::Rows(rows) => verify_rows(program, rows)?,
                StepKind::Reshape { from, to } => verify_reshape(program, *from, *to)?,
                StepKind::Call(_) => {}
                StepKind::Size { variable, .. } => verify_size(program, *variable)?,
                StepKind::If { then, otherwise, .. } => blocks.extend([then, otherwise]),
                StepKind::Loop(step) => {
                    verify_loop(program, step)?;
                    blocks.push(&step.body);
                }
            }
        }
    }
    Ok(())
}

/// A size that a step finds: no dimension of an input.
fn verify_size(program: &Program, variable: Variable) -> Result<(), String> {
    match program.variables.get(variable.id as usize) {
        Some(info) if info.source == SizeSource::Step => Ok(()),
        Some(_) => Err(format!("d{} is set by a step, but known before", variable.id)),
        None => Err(format!("d{} does not exist", variable.id)),
    }
}

/// Carried values keep their form, and nothing in the body writes them.
fn verify_loop(program: &Program, step: &Loop) -> Result<(), String> {
    let sizes = step.sizes.iter().map(|(size, _)| size).chain(&step.ran).chain([&step.iteration]);
    sizes.into_iter().try_for_each(|size| verify_size(program, *size))?;
    let storage = |id: BufferId| program.buffer(id).layout.storage;
    let written: Vec<BufferId> = step.body.steps.iter().flat_map(|step| step.accesses().1).map(storage).collect();
    for (end, start) in &step.carried {
        let (a, b) = (program.buffer(*end), program.buffer(*start));
        if a.element != b.element || a.dims != b.dims {
            return Err(format!("b{} is carried into b{} of another form", end.0, start.0));
        }
        if written.contains(&storage(*start)) && storage(*start) != storage(*end) {
            return Err(format!("b{} is carried and written by a step", start.0));
        }
    }
    Ok(())
}

fn verify_reshape(program: &Program, from: BufferId, to: BufferId) -> Result<(), String> {
    let (a, b) = (program.buffer(from), program.buffer(to));
    if a.element != b.element {
        return Err(format!("reshape of b{} to b{} changes the element type", from.0, to.0));
    }
    Ok(())
}

fn verify_kernel(program: &Program, kernel: &Kernel) -> Result<(), String> {
    verify_nest(program, &kernel.nest)?;
    if kernel.parts.len() != kernel.nest.axes.len() {
        return Err("a kernel does not assign a part to every axis".to_owned());
    }
    kernel.describe(program).map(|_| ()).ok_or_else(|| format!("a {} kernel has no description", kernel.name()))
}

/// The nests count the same rows.
fn verify_rows(program: &Program, rows: &Rows) -> Result<(), String> {
    rows.nests.iter().try_for_each(|nest| verify_nest(program, nest))?;
    let outer = |nest: &Nest| nest.axes.get(..rows.outer.min(nest.maps)).unwrap_or_default().to_vec();
    let mut counted = rows.nests.iter().map(outer);
    let first = counted.next().unwrap_or_default();
    match first.len() == rows.outer && counted.all(|axes| axes == first) {
        true => Ok(()),
        false => Err("nests of the same rows count them differently".to_owned()),
    }
}

fn verify_nest(program: &Program, nest: &Nest) -> Result<(), String> {
    if nest.reduction.is_some() != (nest.maps < nest.axes.len()) && nest.reduction.is_none() {
        return Err("a nest has reduction axes and no reduction".to_owned());
    }
    let types = scalar_types(program, nest)?;
    check_extents(nest)?;
    for node in &nest.nodes {
        let mut dims: Vec<&Dim> = Vec::new();
        match node {
            Scalar::Index(dim) => dims.push(dim),
            Scalar::Load { access, bounds, otherwise } => {
                check_rank(program, access)?;
                dims.extend(access.index.iter().chain(bounds.iter().flat_map(|b| [&b.value, &b.limit])));
                if otherwise.is_none() && !bounds.is_empty() {
                    return Err("a bounded load has no value outside its bounds".to_owned());
                }
            }
            _ => {}
        }
        check_axes(nest, &dims)?;
    }
    check_rank(program, &nest.store)?;
    check_axes(nest, &nest.store.index.iter().collect::<Vec<_>>())?;
    let mut missing = false;
    nest.store.index.iter().for_each(|dim| scalars_of(dim, &mut |node| missing |= node as usize >= nest.nodes.len()));
    if missing {
        return Err("the index of a store uses a node that does not exist".to_owned());
    }
    let stored = types.get(nest.result as usize).ok_or("the stored node does not exist")?;
    let expected = ScalarType::of(program.buffer(nest.store.buffer).element);
    if Some(*stored) != expected {
        return Err(format!("a nest stores {stored:?} into b{} of {expected:?}", nest.store.buffer.0));
    }
    Ok(())
}

/// Extents are sizes; those of reduction axes may use scalars that are known before the reduction, within bounds.
fn check_extents(nest: &Nest) -> Result<(), String> {
    let mut late = vec![false; nest.nodes.len()];
    for (i, node) in nest.nodes.iter().enumerate() {
        let mut found = matches!(node, Scalar::Reduced);
        node.for_each_operand(&mut |operand| found |= late.get(operand as usize).copied().unwrap_or(true));
        node.for_each_dim(&mut |dim| found |= (nest.maps..nest.axes.len()).any(|axis| dim.uses_axis(axis)));
        late[i] = found;
    }
    for (i, axis) in nest.axes.iter().enumerate().filter(|(_, axis)| axis.extent.is_index()) {
        let range = axis.extent.range();
        let mut known = i >= nest.maps && range.min >= 0 && range.max < i64::MAX;
        axis.extent.for_each_atom(&mut |atom| match atom {
            Atom::Scalar(node) => known &= late.get(*node as usize) == Some(&false),
            Atom::Axis(_) => known = false,
            _ => {}
        });
        if !known {
            return Err(format!("the extent of axis i{i} is not known before its loop, or has no bounds"));
        }
    }
    Ok(())
}

fn check_rank(program: &Program, access: &Access) -> Result<(), String> {
    let buffer = program.buffers.get(access.buffer.0 as usize).ok_or(format!("b{} does not exist", access.buffer.0))?;
    if buffer.dims.len() != access.index.len() {
        return Err(format!(
            "b{} of rank {} is accessed with {} indices",
            access.buffer.0,
            buffer.dims.len(),
            access.index.len()
        ));
    }
    Ok(())
}

fn check_axes(nest: &Nest, dims: &[&Dim]) -> Result<(), String> {
    let mut error = None;
    for dim in dims {
        dim.for_each_atom(&mut |atom| {
            if let Atom::Axis(axis) = atom
                && *axis as usize >= nest.axes.len()
            {
                error = Some(format!("axis i{axis} does not exist"));
            }
        });
    }
    error.map_or(Ok(()), Err)
}

/// The scalar type of every node.
///
/// # Errors
/// Operands that come later than their use or do not fit the function.
pub fn scalar_types(program: &Program, nest: &Nest) -> Result<Vec<ScalarType>, String> {
    let mut types: Vec<ScalarType> = Vec::with_capacity(nest.nodes.len());
    for (i, node) in nest.nodes.iter().enumerate() {
        let mut forward = false;
        node.for_each_operand(&mut |operand| forward |= operand as usize >= i);
        if forward {
            return Err(format!("node %{i} uses a later node"));
        }
        let of = |node: &u32| types[*node as usize];
        let same = |a: &u32, b: &u32| match of(a) == of(b) {
            true => Ok(of(a)),
            false => Err(format!("node %{i} combines {:?} with {:?}", of(a), of(b))),
        };
        let ty = match node {
            Scalar::Const(value) => value.scalar_type(),
            Scalar::Index(_) => ScalarType::I64,
            Scalar::Load { access, otherwise, .. } => {
                let buffer =
                    program.buffers.get(access.buffer.0 as usize).ok_or("a load of a buffer that does not exist")?;
                let ty = ScalarType::of(buffer.element).ok_or("a load of strings")?;
                if otherwise.as_ref().is_some_and(|node| of(node) != ty) {
                    return Err(format!("node %{i}: the value outside the bounds has another type"));
                }
                ty
            }
            Scalar::Unary(Unary::IsNan | Unary::IsFinite | Unary::IsPosInf | Unary::IsNegInf, _) => ScalarType::Bool,
            Scalar::Unary(_, a) => of(a),
            Scalar::Binary(function, a, b) => {
                let ty = same(a, b)?;
                if function.is_comparison() { ScalarType::Bool } else { ty }
            }
            Scalar::Select(c, a, b) => match of(c) {
                ScalarType::Bool => same(a, b)?,
                other => return Err(format!("node %{i} selects by {other:?}")),
            },
            Scalar::Cast(element, _) => ScalarType::of(*element).ok_or("a cast to strings")?,
            Scalar::Reduced => match &nest.reduction {
                Some(reduction) if (reduction.value as usize) < i => of(&reduction.value),
                _ => return Err("a node uses a reduction that does not exist".to_owned()),
            },
        };
        types.push(ty);
    }
    Ok(types)
}
