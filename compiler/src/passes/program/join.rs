//! Steps of a block that become one step.

use super::blocks::{Outside, Users};
use crate::program::{BufferId, Nest, Program, Role, Step, StepKind};

/// By storage: how many buffers lie in it, and whether one of them must stay where it is.
pub(super) struct Names(Vec<(u32, bool)>);

impl Names {
    /// Of all buffers, some of which are `fixed`.
    pub(super) fn of(program: &Program, fixed: &[bool]) -> Self {
        let mut names = vec![(0, false); program.buffers.len()];
        for (i, buffer) in program.buffers.iter().enumerate() {
            if let Some((count, stays)) = names.get_mut(buffer.layout.storage.0 as usize) {
                *count += 1;
                *stays |= fixed.get(i).copied().unwrap_or(true);
            }
        }
        Names(names)
    }

    fn get(&self, storage: BufferId) -> (u32, bool) {
        self.0.get(storage.0 as usize).copied().unwrap_or((0, true))
    }
}

/// The block in which steps are looked for; those that were joined are gone.
pub(super) struct Block<'a> {
    pub program: &'a Program,
    pub steps: &'a [Option<Step>],
    pub users: &'a Users,
    pub names: &'a Names,
    pub outside: &'a Outside,
}

impl<'a> Block<'a> {
    /// The users of memory among the steps.
    pub(super) fn users(program: &Program, steps: &[Option<Step>]) -> Users {
        Users::of(program, steps.iter().enumerate().filter_map(|(i, step)| Some((i, step.as_ref()?))))
    }

    pub(super) fn storage(&self, buffer: BufferId) -> BufferId {
        self.program.buffer(buffer).layout.storage
    }

    pub(super) fn step(&self, step: usize) -> Option<&'a Step> {
        self.steps.get(step)?.as_ref()
    }

    pub(super) fn nest(&self, step: usize) -> Option<&'a Nest> {
        match &self.step(step)?.kind {
            StepKind::Nest(nest) => Some(nest),
            _ => None,
        }
    }

    /// The step that alone writes memory which only steps of this block read, and which may lie elsewhere.
    pub(super) fn writer(&self, buffer: BufferId) -> Option<usize> {
        let storage = self.storage(buffer);
        let (_, stays) = self.names.get(storage);
        let free = self.program.buffer(storage).role == Role::Temporary && !self.outside.sees(self.program, buffer);
        match self.users.writers(storage) {
            [step] if free && !stays => Some(*step),
            _ => None,
        }
    }

    /// Whether a buffer is the only name of its memory.
    pub(super) fn is_only_name(&self, buffer: BufferId) -> bool {
        self.storage(buffer) == buffer && self.names.get(buffer).0 == 1
    }

    /// The steps that read the memory of a buffer.
    pub(super) fn readers(&self, buffer: BufferId) -> &'a [usize] {
        self.users.readers(self.storage(buffer))
    }

    /// Whether all of these steps, in order, find their operands in place of the last one: nothing between a step and the last
    /// one writes what that step reads, nor does the last one. Operands of later steps may be made meanwhile.
    pub(super) fn may_run_last(&self, steps: &[usize]) -> bool {
        let Some(last) = steps.last() else { return false };
        let accesses: Vec<_> = steps.iter().filter_map(|at| Some((*at, self.step(*at)?.accesses()))).collect();
        let stored = accesses.last().map(|(_, (_, writes))| writes.clone()).unwrap_or_default();
        let result: Vec<BufferId> = stored.into_iter().map(|buffer| self.storage(buffer)).collect();
        let mut reads =
            accesses.iter().flat_map(|(at, (reads, _))| reads.iter().map(|buffer| (*at, self.storage(*buffer))));
        reads.all(|(at, storage)| {
            let writers = self.users.writers(storage);
            let between = writers.iter().any(|step| *step > at && step < last && !steps.contains(step));
            !between && !result.contains(&storage)
        })
    }
}

/// Puts one step in place of the last of these, and takes the others away.
pub(super) fn join(steps: &mut [Option<Step>], joined: &[usize], kind: StepKind) {
    let taken: Vec<Step> = joined.iter().filter_map(|step| steps.get_mut(*step)?.take()).collect();
    let mut origins: Vec<_> = taken.into_iter().flat_map(|step| step.origins).collect();
    origins.dedup_by(|a, b| a.name == b.name && a.kind == b.kind);
    if let Some(slot) = joined.last().and_then(|last| steps.get_mut(*last)) {
        *slot = Some(Step { kind, origins });
    }
}
