//! Products, a softmax of their rows and the sums that it weighs become one step, which computes a few rows at a time: scores
//! never leave the near caches, and need no more memory than those rows.

mod causal;
mod equal;
mod form;
mod scores;

use super::blocks::for_each_block;
use super::join::{Block, Names, join};
use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::options::Options;
use crate::program::kernel::{KernelKind, Method};
use crate::program::{Attention, BufferId, Kernel, Program, Role, Step, StepKind};
use include_ir_runtime::__private::v1 as runtime;

/// Rows that are computed at once, about: enough that packed operands are read seldom, few enough that the scores stay in the
/// second-level cache.
const HEIGHT: usize = 64;
/// The same where memory counts more than speed.
const LOW: usize = 16;
/// Most parts that are computed at the same time.
const SLOTS: usize = 8;

/// Joins the kernels and nests of attentions.
pub fn fuse_attention(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    let fixed = program.fixed_layouts();
    let vectors = options.isa.has_vectors();
    let mut masks = causal::Masks::new();
    let equal = equal::Equal::of(program);
    for_each_block(program, &mut |program, steps, outside| {
        let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
        let (users, names) = (Block::users(program, &steps), Names::of(program, &fixed));
        for last in 0..steps.len() {
            let block = Block { program, steps: &steps, users: &users, names: &names, outside };
            let Some(mut found) = form::find(&block, &equal, last) else { continue };
            found.steps.sort_unstable();
            if block.may_run_last(&found.steps) {
                let attention = written(program, &found, vectors, &mut masks);
                join(&mut steps, &found.steps, StepKind::Attention(Box::new(attention)));
            }
        }
        steps.into_iter().flatten().collect()
    });
}

/// What a size is at most.
fn most(size: &Dim) -> usize {
    usize::try_from(size.upper_bound()).unwrap_or(0)
}

/// The step that alone writes f32 memory which only steps of this block read.
fn writer(block: &Block, buffer: BufferId) -> Option<usize> {
    let owner = block.program.buffer(block.storage(buffer));
    block.writer(buffer).filter(|_| owner.element == ElementType::F32)
}

/// A product with weights that are computed.
fn kernel<'a>(block: &Block<'a>, step: usize) -> Option<&'a Kernel> {
    match &block.step(step)?.kind {
        StepKind::Kernel(kernel) => match kernel.kind {
            KernelKind::Contraction { at_run_time: true, method: Method::Direct, .. } => Some(kernel),
            _ => None,
        },
        _ => None,
    }
}

/// Writes down what was found; quotients that the definition does not have become part of it.
fn written(program: &mut Program, found: &form::Found, vectors: bool, masks: &mut causal::Masks) -> Attention {
    let (mut sums, softmax) = found.quotients(program);
    if let Some(description) = sums.describe(program) {
        sums.epilogue = super::select::epilogue::find(program, &sums, &description, vectors);
    }
    let mut scores = found.scores.clone();
    let seen = causal::find(program, &mut scores, masks);
    let scale = scores::simplify(program, &mut scores, seen.as_ref());
    let sizes = &found.sizes;
    let [batches, rows, keys] = [&sizes.batches, &sizes.rows, &sizes.keys].map(most);
    let blocks = |height: usize| ((rows + height / 2) / height).max(1);
    let height = rows.div_ceil(blocks(if vectors { HEIGHT } else { LOW })).max(1);
    let slot = runtime::Attention::slot_len(keys, sizes.depth, sizes.cols, sizes.panel, height);
    // No more memory than the scores took.
    let scored = product(&[sizes.batches.clone(), sizes.rows.clone(), sizes.keys.clone()]);
    let all = most(&scored).saturating_mul(2);
    let units = batches.saturating_mul(rows.div_ceil(height));
    let slots = if vectors { SLOTS.min(units).min(all / slot.max(1)).max(1) } else { 1 };
    let length = vec![Dim::from(slot.saturating_mul(slots))];
    let scratch = program.add_buffer("attention", ElementType::F32, length, Role::Scratch);
    Attention { scores, softmax, sums, scale, seen, height, slots, scratch }
}
