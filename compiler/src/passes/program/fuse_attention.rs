//! Products, a softmax of their rows and the sums that it weighs become one step, which computes a few rows at a time: scores
//! never leave the near caches, and need no more memory than those rows.

mod form;
mod scores;

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::options::Options;
use crate::program::kernel::{KernelKind, Method};
use crate::program::{Attention, BufferId, Kernel, Nest, Program, Role, Step, StepKind};
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
    for_each_block(program, &mut |program, steps, outside| {
        let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
        let users = Users::of(program, steps.iter().enumerate().filter_map(|(i, step)| Some((i, step.as_ref()?))));
        for last in 0..steps.len() {
            let block = Block { program, steps: &steps, users: &users, fixed: &fixed, outside };
            let Some(mut found) = form::find(&block, last) else { continue };
            found.steps.sort_unstable();
            if !block.may_run_last(&found.steps) {
                continue;
            }
            let attention = join(program, &found, vectors);
            let joined: Vec<Step> = found.steps.iter().filter_map(|step| steps.get_mut(*step)?.take()).collect();
            let mut origins: Vec<_> = joined.into_iter().flat_map(|step| step.origins).collect();
            origins.dedup_by(|a, b| a.name == b.name && a.kind == b.kind);
            if let Some(slot) = steps.get_mut(last) {
                *slot = Some(Step { kind: StepKind::Attention(Box::new(attention)), origins });
            }
        }
        steps.into_iter().flatten().collect()
    });
}

/// The block in which attentions are looked for.
struct Block<'a> {
    program: &'a Program,
    steps: &'a [Option<Step>],
    users: &'a Users,
    fixed: &'a [bool],
    outside: &'a Outside,
}

impl<'a> Block<'a> {
    fn storage(&self, buffer: BufferId) -> BufferId {
        self.program.buffer(buffer).layout.storage
    }

    /// The step that alone writes memory which only steps of this block read.
    fn writer(&self, buffer: BufferId) -> Option<usize> {
        let storage = self.storage(buffer);
        let own = self.program.buffer(storage);
        let free =
            own.role == Role::Temporary && own.element == ElementType::F32 && !self.outside.sees(self.program, buffer);
        let views = self.program.buffers.iter().zip(self.fixed).filter(|(b, _)| b.layout.storage == storage);
        match self.users.writers(storage) {
            [step] if free && views.into_iter().all(|(_, fixed)| !fixed) => Some(*step),
            _ => None,
        }
    }

    /// The steps that read the memory of a buffer.
    fn readers(&self, buffer: BufferId) -> &'a [usize] {
        self.users.readers(self.storage(buffer))
    }

    fn nest(&self, step: usize) -> Option<&'a Nest> {
        match &self.steps.get(step)?.as_ref()?.kind {
            StepKind::Nest(nest) => Some(nest),
            _ => None,
        }
    }

    /// A product with weights that are computed.
    fn product(&self, step: usize) -> Option<&'a Kernel> {
        match &self.steps.get(step)?.as_ref()?.kind {
            StepKind::Kernel(kernel) => match kernel.kind {
                KernelKind::Contraction { at_run_time: true, method: Method::Direct, .. } => Some(kernel),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether all of these steps find their operands in place of the last one: nothing in between writes them, nor does the
    /// last one.
    fn may_run_last(&self, steps: &[usize]) -> bool {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
        let accesses: Vec<_> = steps.iter().filter_map(|i| Some(self.steps.get(*i)?.as_ref()?.accesses())).collect();
        let stored = accesses.last().map(|(_, writes)| writes.clone()).unwrap_or_default();
        let result: Vec<BufferId> = stored.into_iter().map(|buffer| self.storage(buffer)).collect();
        let reads = accesses.iter().flat_map(|(reads, _)| reads).map(|buffer| self.storage(*buffer));
        reads.into_iter().all(|storage| {
            let between =
                self.users.writers(storage).iter().any(|step| step > first && step < last && !steps.contains(step));
            !between && !result.contains(&storage)
        })
    }
}

/// Writes down what was found; quotients that the definition does not have become part of it.
fn join(program: &mut Program, found: &form::Found, vectors: bool) -> Attention {
    let (mut sums, softmax) = found.quotients(program);
    if let Some(description) = sums.describe(program) {
        sums.epilogue = super::select::epilogue::find(program, &sums, &description, vectors);
    }
    let mut scores = found.scores.clone();
    let scale = scores::simplify(program, &mut scores);
    let sizes = &found.sizes;
    let blocks = |height: usize| ((sizes.rows + height / 2) / height).max(1);
    let height = sizes.rows.div_ceil(blocks(if vectors { HEIGHT } else { LOW })).max(1);
    let slot = runtime::Attention::slot_len(sizes.keys, sizes.depth, sizes.cols, sizes.panel, height);
    // No more memory than the scores took.
    let all = sizes.batches.saturating_mul(sizes.rows).saturating_mul(sizes.keys).saturating_mul(2);
    let units = sizes.batches.saturating_mul(sizes.rows.div_ceil(height));
    let slots = if vectors { SLOTS.min(units).min(all / slot.max(1)).max(1) } else { 1 };
    let length = vec![Dim::from(slot.saturating_mul(slots))];
    let scratch = program.add_buffer("attention", ElementType::F32, length, Role::Scratch);
    Attention { scores, softmax, sums, scale, height, slots, scratch }
}
