//! Runs a change on every block of a program, with what it must know of the others, and of the steps of a block.

use crate::program::{BufferId, Nest, Program, Step, StepKind};
use std::collections::BTreeMap;

/// Which memory other blocks look at while one block is changed: values there must stay what and where they are.
#[derive(Debug, Default)]
pub(super) struct Outside {
    seen: Vec<bool>,
}

impl Outside {
    /// Whether another block, the border of a loop, or the caller reads or writes the memory of a buffer.
    pub(super) fn sees(&self, program: &Program, buffer: BufferId) -> bool {
        let storage = program.buffer(buffer).layout.storage;
        self.seen.get(storage.0 as usize).copied().unwrap_or(false)
    }
}

/// How often each buffer is accessed: once by every step that is not inner to another, and by every border of a block.
#[derive(Clone, Debug)]
pub(super) struct Uses(Vec<u32>);

impl Uses {
    /// The accesses of a whole program.
    pub(super) fn of(program: &Program) -> Self {
        let mut uses = Uses(vec![0; program.buffers.len()]);
        uses.add(&program.root.steps, true);
        program.outputs.iter().for_each(|(buffer, _)| uses.touch(*buffer, true));
        uses
    }

    fn touch(&mut self, buffer: BufferId, more: bool) {
        let index = buffer.0 as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = if more { self.0[index] + 1 } else { self.0[index].saturating_sub(1) };
    }

    /// Adds the accesses of steps and of all blocks in them, or takes them away.
    fn add(&mut self, steps: &[Step], more: bool) {
        let mut pending: Vec<&Step> = steps.iter().collect();
        while let Some(step) = pending.pop() {
            let (reads, writes) = step.own_accesses();
            reads.into_iter().chain(writes).for_each(|buffer| self.touch(buffer, more));
            pending.extend(step.blocks().into_iter().flat_map(|block| &block.steps));
        }
    }

    /// What is seen of memory by everything but these steps.
    pub(super) fn outside(&self, program: &Program, steps: &[Step]) -> Outside {
        let mut rest = self.clone();
        rest.add(steps, false);
        let mut seen = vec![false; program.buffers.len()];
        for (buffer, count) in program.buffers.iter().zip(&rest.0) {
            if *count > 0
                && let Some(slot) = seen.get_mut(buffer.layout.storage.0 as usize)
            {
                *slot = true;
            }
        }
        Outside { seen }
    }
}

/// Which steps of a block read and write memory, in order of the steps.
#[derive(Default)]
pub(super) struct Users {
    readers: BTreeMap<BufferId, Vec<usize>>,
    writers: BTreeMap<BufferId, Vec<usize>>,
}

impl Users {
    /// The users among steps, each with its place in the block.
    pub(super) fn of<'a>(program: &Program, steps: impl IntoIterator<Item = (usize, &'a Step)>) -> Self {
        let mut users = Users { readers: BTreeMap::new(), writers: BTreeMap::new() };
        for (i, step) in steps {
            let (reads, writes) = step.accesses();
            for (buffers, users) in [(reads, &mut users.readers), (writes, &mut users.writers)] {
                for buffer in buffers {
                    let steps = users.entry(program.buffer(buffer).layout.storage).or_default();
                    if steps.last() != Some(&i) {
                        steps.push(i);
                    }
                }
            }
        }
        users
    }

    /// The steps that read the memory that a storage owns, each once.
    pub(super) fn readers(&self, storage: BufferId) -> &[usize] {
        self.readers.get(&storage).map_or(&[], Vec::as_slice)
    }

    /// Counts what uses one storage, whose buffers moved there, among what uses the other: no step of the one may stand before
    /// a step of the other.
    pub(super) fn append(&mut self, from: BufferId, to: BufferId) {
        for users in [&mut self.readers, &mut self.writers] {
            let moved = users.remove(&from).unwrap_or_default();
            users.entry(to).or_default().extend(moved);
        }
    }

    /// The steps that write it.
    pub(super) fn writers(&self, storage: BufferId) -> &[usize] {
        self.writers.get(&storage).map_or(&[], Vec::as_slice)
    }
}

/// What a pass makes of the steps of one block.
type Change<'a> = dyn FnMut(&mut Program, Vec<Step>, &Outside) -> Vec<Step> + 'a;

/// Gives the steps of every block to `change`, those of inner blocks first.
pub(super) fn for_each_block(program: &mut Program, change: &mut Change) {
    let mut uses = Uses::of(program);
    let steps = std::mem::take(&mut program.root.steps);
    program.root.steps = change_block(program, steps, &mut uses, change);
}

/// Blocks are nested as deep as the reader allows.
fn change_block(program: &mut Program, mut steps: Vec<Step>, uses: &mut Uses, change: &mut Change) -> Vec<Step> {
    for step in &mut steps {
        for block in step.blocks_mut() {
            block.steps = change_block(program, std::mem::take(&mut block.steps), uses, change);
        }
    }
    let outside = uses.outside(program, &steps);
    uses.add(&steps, false);
    let changed = change(program, steps, &outside);
    uses.add(&changed, true);
    changed
}

/// Replaces nests by others that come before them and one in their place, where `split` gives them.
pub(super) fn split_nests(program: &mut Program, split: impl Fn(&mut Program, &Nest) -> Option<(Vec<Nest>, Nest)>) {
    for_each_block(program, &mut |program, steps, _| {
        let mut out = Vec::with_capacity(steps.len());
        for mut step in steps {
            if let StepKind::Nest(nest) = &mut step.kind
                && let Some((before, last)) = split(program, nest)
            {
                let origins = &step.origins;
                out.extend(
                    before.into_iter().map(|nest| Step { kind: StepKind::Nest(nest), origins: origins.clone() }),
                );
                *nest = last;
            }
            out.push(step);
        }
        out
    });
}

/// Gives every step that is not inner to another to `change`.
pub(super) fn for_each_step(program: &mut Program, change: &mut dyn FnMut(&mut Program, &mut Step)) {
    for_each_block(program, &mut |program, mut steps, _| {
        steps.iter_mut().for_each(|step| change(program, step));
        steps
    });
}

/// Whether a step is a loop or a branch.
pub(super) fn has_blocks(step: &Step) -> bool {
    matches!(step.kind, StepKind::If { .. } | StepKind::Loop(_))
}
