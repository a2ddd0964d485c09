//! Published numbers: floating-point operations, stack, memory.

use super::scalar;
use crate::dim::product;
use crate::program::{Block, Nest, Program, StepKind};

/// A loop that may run longer has no bound.
const MOST_ITERATIONS: u64 = 1 << 32;

/// Arithmetic operations of one run (a multiply-add counts two), at the upper bounds of run-time sizes. Bodies of loops without
/// a bound count once.
pub fn flops(program: &Program) -> u64 {
    let mut blocks: Vec<(&Block, u64)> = vec![(&program.root, 1)];
    let mut sum = 0u64;
    while let Some((block, times)) = blocks.pop() {
        for step in &block.steps {
            match &step.kind {
                StepKind::If { then, otherwise, .. } => blocks.extend([(then, times), (otherwise, times)]),
                StepKind::Loop(step) => {
                    let bound = u64::try_from(step.count.upper_bound()).ok().filter(|bound| *bound < MOST_ITERATIONS);
                    blocks.push((&step.body, times.saturating_mul(bound.unwrap_or(1))));
                }
                kind => sum = sum.saturating_add(step_flops(kind).saturating_mul(times)),
            }
        }
    }
    sum
}

/// Arithmetic operations of one execution of a step without blocks.
pub(super) fn step_flops(kind: &StepKind) -> u64 {
    nests(kind).into_iter().fold(0, |sum: u64, nest| sum.saturating_add(nest_flops(nest)))
}

/// Whether these are fewer where run-time sizes are less than their bounds.
pub(super) fn at_most(kind: &StepKind) -> bool {
    nests(kind).iter().flat_map(|nest| &nest.axes).any(|axis| axis.extent.as_const().is_none())
}

/// What a step computes.
fn nests(kind: &StepKind) -> Vec<&Nest> {
    match kind {
        StepKind::Nest(nest) => vec![nest],
        StepKind::Kernel(kernel) => vec![&kernel.nest],
        StepKind::Chain(chain) => chain.stages.iter().map(|stage| &stage.kernel.nest).collect(),
        StepKind::Attention(attention) => attention.nests().collect(),
        StepKind::Rows(rows) => rows.nests.iter().collect(),
        _ => Vec::new(),
    }
}

fn nest_flops(nest: &Nest) -> u64 {
    let extents: Vec<_> = nest.axes.iter().map(|axis| axis.extent.clone()).collect();
    let count = |axes: &[crate::dim::Dim]| u64::try_from(product(axes).upper_bound().max(0)).unwrap_or(u64::MAX);
    let (all, maps) = (count(&extents), count(&extents[..nest.maps.min(extents.len())]));
    let after = nest.after_reduction();
    let (mut inner, mut outer) = (u64::from(nest.reduction.is_some()), 0);
    for (node, after) in nest.nodes.iter().zip(after) {
        if nest.reduction.is_some() && !after { inner += scalar::cost(node) } else { outer += scalar::cost(node) }
    }
    all.saturating_mul(inner).saturating_add(maps.saturating_mul(outer))
}

/// Upper estimate of the stack that generated code needs: calls (run, group, step, vectorised closure) at 1 KiB each and
/// the widest row of accumulators; and whether kernels or functions come on top, whose need the runtime knows for each target.
pub fn stack_bytes(program: &Program) -> (usize, bool) {
    const FRAMES: usize = 4 * 1024;
    const ACCUMULATORS: usize = 2 * 1024;
    let mut blocks: Vec<&Block> = vec![&program.root];
    let mut kernels = false;
    while let Some(block) = blocks.pop() {
        for step in &block.steps {
            match &step.kind {
                StepKind::Kernel(_) | StepKind::Chain(_) | StepKind::Attention(_) | StepKind::Call(_) => kernels = true,
                StepKind::If { then, otherwise, .. } => blocks.extend([then, otherwise]),
                StepKind::Loop(step) => blocks.push(&step.body),
                _ => {}
            }
        }
    }
    (FRAMES + ACCUMULATORS, kernels)
}
