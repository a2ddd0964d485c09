//! Nests over the same rows become one step that runs them in turn for each row: what they compute once for a row (a mean, a
//! maximum) needs no memory, and the row itself stays in the near cache. This is what becomes of normalisations.

mod form;

use super::blocks::{Outside, Users, for_each_block};
use crate::diag::Diagnostics;
use crate::options::Options;
use crate::program::edit::reorder_axes;
use crate::program::{BufferId, Nest, Program, Role, Rows, Step, StepKind};
use form::Member;

/// Joins nests over the same rows.
pub fn fuse_rows(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    let fixed = program.fixed_layouts();
    for_each_block(program, &mut |program, steps, outside| {
        let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
        let users = Users::of(program, steps.iter().enumerate().filter_map(|(i, step)| Some((i, step.as_ref()?))));
        // Backwards, since what a nest computes for each row belongs to the last one that needs it.
        for last in (0..steps.len()).rev() {
            let block = Block { program, steps: &steps, users: &users, fixed: &fixed, outside };
            let Some(members) = form::find(&block, last) else { continue };
            if !block.may_run_last(&members) {
                continue;
            }
            let rows = join(&block, &members);
            let joined: Vec<Step> = members.iter().filter_map(|member| steps.get_mut(member.step)?.take()).collect();
            let mut origins: Vec<_> = joined.into_iter().flat_map(|step| step.origins).collect();
            origins.dedup_by(|a, b| a.name == b.name && a.kind == b.kind);
            if let Some(slot) = steps.get_mut(last) {
                *slot = Some(Step { kind: StepKind::Rows(rows), origins });
            }
        }
        steps.into_iter().flatten().collect()
    });
}

/// The block in which rows are looked for.
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

    fn nest(&self, step: usize) -> Option<&'a Nest> {
        match &self.steps.get(step)?.as_ref()?.kind {
            StepKind::Nest(nest) => Some(nest),
            _ => None,
        }
    }

    /// The step that alone writes a buffer which only steps of this block read, and only under this name.
    fn writer(&self, buffer: BufferId) -> Option<usize> {
        let own = self.program.buffer(buffer);
        let free = own.role == Role::Temporary && !self.outside.sees(self.program, buffer);
        let fixed = self.fixed.get(buffer.0 as usize).copied().unwrap_or(true);
        let views = self.program.buffers.iter().filter(|other| other.layout.storage == buffer).count();
        match self.users.writers(buffer) {
            [step] if free && !fixed && views == 1 => Some(*step),
            _ => None,
        }
    }

    /// The steps that read the memory of a buffer.
    fn readers(&self, buffer: BufferId) -> &'a [usize] {
        self.users.readers(self.storage(buffer))
    }

    /// Whether all nests find their operands in place of the last one: nothing writes them in between, nor does the last one.
    fn may_run_last(&self, members: &[Member]) -> bool {
        let steps: Vec<usize> = members.iter().map(|member| member.step).collect();
        let nests: Vec<&Nest> = steps.iter().filter_map(|step| self.nest(*step)).collect();
        let (Some(first), Some(last), Some(result)) = (steps.first(), steps.last(), nests.last()) else { return false };
        let target = self.storage(result.store.buffer);
        nests.iter().flat_map(|nest| nest.loads()).map(|access| self.storage(access.buffer)).all(|storage| {
            let between = self.users.writers(storage).iter().any(|s| s > first && s < last && !steps.contains(s));
            !between && storage != target
        })
    }
}

/// The nests with axes that count rows first. Rows that one hands to another lie in the result of the last one.
fn join(block: &Block, members: &[Member]) -> Rows {
    let mut nests = Vec::with_capacity(members.len());
    for (member, nest) in members.iter().filter_map(|member| Some((member, block.nest(member.step)?))) {
        let rest = (0..nest.axes.len()).filter(|axis| !member.rows.contains(axis));
        let order: Vec<usize> = member.rows.iter().copied().chain(rest).collect();
        let mut nest = nest.clone();
        reorder_axes(&mut nest, &order);
        nests.push(nest);
    }
    let target = nests.last().map(|nest| nest.store.buffer);
    let whole = members.iter().filter(|member| member.whole).filter_map(|member| block.nest(member.step));
    let whole: Vec<BufferId> = whole.map(|nest| nest.store.buffer).collect();
    for nest in &mut nests {
        nest.rename_buffers(&|buffer| target.filter(|_| whole.contains(&buffer)).unwrap_or(buffer));
    }
    Rows { nests, outer: members.first().map_or(0, |member| member.rows.len()) }
}

#[cfg(test)]
mod tests;
