//! Computes in f32 what the model has of 16-bit floats, as OpenVINO does: processors convert such numbers before they compute,
//! and kernels take f32. Only what the caller sees, and what lasts from run to run, is stored as the model says.

use super::blocks::{for_each_block, for_each_step};
use super::layout::copy_nest;
use crate::diag::Diagnostics;
use crate::element::ElementType;
use crate::graph::Origin;
use crate::options::{Accuracy, Options};
use crate::program::edit::prune;
use crate::program::nest::{Scalar, ScalarType};
use crate::program::{Access, BufferId, Program, Role, Step, StepKind, scalar_types};
use crate::tensor::Tensor;
use include_ir_runtime::__private::v1::cast;
use std::collections::BTreeMap;

/// Gives temporaries and constants of 16-bit floats the type f32.
pub fn widen_halves(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if !is_wanted(options) || !computes_with_halves(program) || borders_keep_halves(program) {
        return;
    }
    let inputs = program.inputs.iter().filter(|(buffer, _)| is_half(program, *buffer)).cloned().collect::<Vec<_>>();
    let halves: Vec<bool> = program.buffers.iter().map(|buffer| half(buffer.element)).collect();
    widen_buffers(program, |role| matches!(role, Role::Temporary | Role::Constant(_)));
    let mut wide = BTreeMap::new();
    let mut copies = Vec::new();
    for (input, interface) in inputs {
        let origin = Origin { name: interface.name, kind: "Parameter".to_owned(), span: interface.span };
        let to = like(program, input);
        wide.insert(input, to);
        copies.push(copy(program, input, to, vec![origin]));
    }
    for step in &mut program.root.steps {
        step.rename_buffers(&|buffer| wide.get(&buffer).copied().unwrap_or(buffer));
    }
    drop_roundings(program, &halves);
    convert_reshapes(program);
    program.root.steps.splice(0..0, copies);
}

/// Whether the options leave it to us in which precision 16-bit floats are computed with.
pub(in crate::passes) fn is_wanted(options: &Options) -> bool {
    // Where there are no vectors, memory counts more.
    options.has_vector_kernels() && options.accuracy != Accuracy::Exact
}

/// The same for a program without inputs, whose results become f32 too; `false` where it has more than nests and reshapes.
pub(in crate::passes) fn widen_all(program: &mut Program) -> bool {
    if !program.root.steps.iter().all(|step| matches!(step.kind, StepKind::Nest(_) | StepKind::Reshape { .. })) {
        return false;
    }
    let halves: Vec<bool> = program.buffers.iter().map(|buffer| half(buffer.element)).collect();
    widen_buffers(program, |_| true);
    drop_roundings(program, &halves);
    true
}

/// Gives buffers of some roles the type f32.
fn widen_buffers(program: &mut Program, has: impl Fn(&Role) -> bool) {
    for buffer in &mut program.buffers {
        if half(buffer.element) && has(&buffer.role) {
            buffer.element = ElementType::F32;
            if let Role::Constant(tensor) = &mut buffer.role {
                *tensor = widened(tensor);
            }
        }
    }
}

/// Whether an element type is a 16-bit float.
pub(in crate::passes) fn half(element: ElementType) -> bool {
    matches!(element, ElementType::F16 | ElementType::Bf16)
}

fn is_half(program: &Program, buffer: BufferId) -> bool {
    half(program.buffer(buffer).element)
}

/// Whether any nest does more with 16-bit floats than to move and to convert them.
pub(in crate::passes) fn computes_with_halves(program: &mut Program) -> bool {
    let mut computes = false;
    for_each_step(program, &mut |program, step| {
        let StepKind::Nest(nest) = &step.kind else { return };
        let halves = nest.loads().chain([&nest.store]).any(|access| is_half(program, access.buffer));
        computes |= halves && nest.nodes.iter().any(|node| !matches!(node, Scalar::Load { .. } | Scalar::Cast(..)));
    });
    computes
}

/// Whether a loop hands on what keeps its type: both sides of its border have one.
fn borders_keep_halves(program: &Program) -> bool {
    let fixed = program.fixed_layouts();
    let kept = |role: &Role| matches!(role, Role::Output(_) | Role::State(_));
    program.buffers.iter().zip(fixed).any(|(buffer, fixed)| fixed && half(buffer.element) && kept(&buffer.role))
}

fn widened(tensor: &Tensor) -> Tensor {
    let convert = if tensor.element == ElementType::F16 { cast::f16_bits_to_f32 } else { cast::bf16_bits_to_f32 };
    let (elements, _) = tensor.bytes.as_slice().as_chunks::<2>();
    let count = tensor.dims.iter().product();
    let values: Vec<f32> = elements.iter().take(count).map(|bits| convert(u16::from_le_bytes(*bits))).collect();
    Tensor::from_f32s(tensor.dims.clone(), &values)
}

/// A temporary of f32 with the dimensions of another buffer.
fn like(program: &mut Program, buffer: BufferId) -> BufferId {
    let (name, dims) = (program.buffer(buffer).name.clone(), program.buffer(buffer).dims.clone());
    program.add_buffer(&name, ElementType::F32, dims, Role::Temporary)
}

/// A step that converts the elements of a buffer.
fn copy(program: &Program, from: BufferId, to: BufferId, origins: Vec<Origin>) -> Step {
    let mut nest = copy_nest(&program.buffer(from).dims, from, to);
    nest.nodes.push(Scalar::Cast(program.buffer(to).element, nest.result));
    nest.result = 1;
    Step { kind: StepKind::Nest(nest), origins }
}

/// Nests store what they compute of 16-bit floats as it is. A conversion of what the model has of wider floats rounds:
/// it may stand there for that.
fn drop_roundings(program: &mut Program, halves: &[bool]) {
    for_each_step(program, &mut |program, step| {
        let StepKind::Nest(nest) = &mut step.kind else { return };
        let stored = halves.get(nest.store.buffer.0 as usize) == Some(&true) && !is_half(program, nest.store.buffer);
        let wide = |access: &Access| {
            let is_half = halves.get(access.buffer.0 as usize) == Some(&true);
            program.buffer(access.buffer).element.is_float() && !is_half
        };
        let operand = match nest.nodes.get(nest.result as usize) {
            Some(Scalar::Cast(_, value)) => nest.nodes.get(*value as usize),
            _ => None,
        };
        let converts = matches!(operand, Some(Scalar::Load { access, .. }) if wide(access));
        if !stored || converts {
            return;
        }
        let types = scalar_types(program, nest);
        let Some(Scalar::Cast(element, value)) = nest.nodes.get_mut(nest.result as usize) else { return };
        *element = ElementType::F32;
        if types.is_ok_and(|types| types.get(*value as usize) == Some(&ScalarType::F32)) {
            nest.result = *value;
            prune(nest);
        }
    });
}

/// Reshapes move elements of one type: what is stored as 16-bit floats is converted before or behind them.
fn convert_reshapes(program: &mut Program) {
    for_each_block(program, &mut |program, steps, _| {
        let mut out = Vec::with_capacity(steps.len());
        for mut step in steps {
            let StepKind::Reshape { from, to } = &mut step.kind else {
                out.push(step);
                continue;
            };
            let (source, target) = (*from, *to);
            let origins = step.origins.clone();
            match (is_half(program, source), is_half(program, target)) {
                (true, false) => {
                    *from = like(program, source);
                    out.push(copy(program, source, *from, origins));
                    out.push(step);
                }
                (false, true) => {
                    *to = like(program, target);
                    let converted = copy(program, *to, target, origins);
                    out.extend([step, converted]);
                }
                _ => out.push(step),
            }
        }
        out
    });
}
