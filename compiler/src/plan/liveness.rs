//! When storages are live: from the first access to the last, with loops and outputs taken into account.

use crate::program::{Block, BufferId, Program, Step, StepKind};
use std::collections::BTreeMap;

/// The life of one storage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// Time of the first access.
    pub first: usize,
    /// Time of the last access.
    pub last: usize,
    /// Whether a step writes it.
    pub written: bool,
}

/// The lives of all storages.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// By storage.
    pub storages: BTreeMap<BufferId, Life>,
    /// Time after the last step.
    pub end: usize,
}

/// A loop body in time.
struct Span {
    first: usize,
    last: usize,
    carried: Vec<BufferId>,
}

struct Walk<'a> {
    program: &'a Program,
    time: usize,
    /// Accesses in time order: storage, time, write.
    accesses: Vec<(BufferId, usize, bool)>,
    loops: Vec<Span>,
}

/// What is left to visit.
enum Task<'a> {
    Block(&'a Block),
    Step(&'a Step),
    Touch(Vec<BufferId>, Vec<BufferId>),
    /// The end of a loop that began at this time: buffers that live through it, and those of them that it writes.
    EndLoop(usize, Vec<BufferId>, Vec<BufferId>),
}

/// Computes the life of every storage that a step, an input or an output names.
pub(super) fn analyse(program: &Program) -> Liveness {
    let mut walk = Walk { program, time: 0, accesses: Vec::new(), loops: Vec::new() };
    for (buffer, _) in &program.inputs {
        walk.touch(&[*buffer], &[]);
    }
    walk.block(&program.root);
    // The caller reads the outputs: that is an access behind all loops, in which they may be written piece by piece.
    walk.touch(&program.outputs.iter().map(|(buffer, _)| *buffer).collect::<Vec<_>>(), &[]);
    let end = walk.time;
    let mut storages: BTreeMap<BufferId, Life> = BTreeMap::new();
    let mut inner: BTreeMap<BufferId, Vec<(usize, bool)>> = BTreeMap::new();
    for (storage, time, write) in &walk.accesses {
        let life = storages.entry(*storage).or_insert(Life { first: *time, last: *time, written: false });
        life.last = *time;
        life.written |= write;
        inner.entry(*storage).or_default().push((*time, *write));
    }
    for span in walk.loops.iter().rev() {
        extend_over(span, &inner, &mut storages);
    }
    // State lasts, whether a step of this run touches it or not.
    for buffer in program.state.buffers() {
        let life = Life { first: 0, last: end, written: false };
        storages.entry(program.buffer(buffer).layout.storage).or_insert(life);
    }
    Liveness { storages, end }
}

/// A storage that an iteration reads before it writes it, or that is used outside, is live through the whole loop.
fn extend_over(span: &Span, accesses: &BTreeMap<BufferId, Vec<(usize, bool)>>, lives: &mut BTreeMap<BufferId, Life>) {
    for (storage, list) in accesses {
        let inside = |time: usize| time >= span.first && time <= span.last;
        let Some((_, write)) = list.iter().find(|(time, _)| inside(*time)) else { continue };
        let outside = list.iter().any(|(time, _)| !inside(*time));
        if (outside || !write || span.carried.contains(storage))
            && let Some(life) = lives.get_mut(storage)
        {
            life.first = life.first.min(span.first);
            life.last = life.last.max(span.last);
        }
    }
}

impl<'a> Walk<'a> {
    fn block(&mut self, root: &'a Block) {
        let mut pending = vec![Task::Block(root)];
        while let Some(task) = pending.pop() {
            match task {
                Task::Block(block) => pending.extend(block.steps.iter().rev().map(Task::Step)),
                Task::Touch(reads, writes) => self.touch(&reads, &writes),
                Task::EndLoop(first, carried, written) => {
                    self.touch(&carried, &written);
                    self.loops.push(Span { first, last: self.time, carried });
                }
                Task::Step(step) => self.step(step, &mut pending),
            }
        }
        self.time += 1;
    }

    fn step(&mut self, step: &'a Step, pending: &mut Vec<Task<'a>>) {
        match &step.kind {
            StepKind::If { condition, then, otherwise } => {
                self.touch(&[*condition], &[]);
                pending.extend([Task::Block(otherwise), Task::Block(then)]);
            }
            StepKind::Loop(step) => {
                let condition: Vec<BufferId> = step.condition.into_iter().collect();
                let starts: Vec<BufferId> = step.carried.iter().map(|pair| pair.1).collect();
                self.touch(&condition, &[]);
                let first = self.time + 1;
                let mut carried: Vec<BufferId> = step.carried.iter().flat_map(|pair| [pair.0, pair.1]).collect();
                carried.extend(condition);
                let carried = carried.into_iter().map(|b| self.program.buffer(b).layout.storage).collect();
                pending.push(Task::EndLoop(first, carried, starts.clone()));
                pending.push(Task::Block(&step.body));
                pending.push(Task::Touch(starts, Vec::new()));
            }
            StepKind::Kernel(kernel) => {
                let (reads, scratch) = super::constants::kernel_reads(self.program, kernel);
                let mut writes = vec![kernel.nest.store.buffer];
                writes.extend(scratch);
                self.touch(&reads, &writes);
            }
            StepKind::Chain(chain) => {
                let (mut reads, mut writes) = (Vec::new(), Vec::new());
                for stage in &chain.stages {
                    let (more, scratch) = super::constants::kernel_reads(self.program, &stage.kernel);
                    reads.extend(more);
                    writes.push(stage.kernel.nest.store.buffer);
                    writes.extend(scratch);
                }
                self.touch(&reads, &writes);
            }
            StepKind::Attention(attention) => {
                let needed = |node| super::constants::needed(self.program, node);
                let reads: Vec<BufferId> = attention.nodes().filter_map(needed).collect();
                self.touch(&reads, &attention.writes());
            }
            StepKind::Rows(rows) => {
                let reads: Vec<BufferId> =
                    rows.nodes().filter_map(|n| super::constants::needed(self.program, n)).collect();
                self.touch(&reads, &rows.target().into_iter().collect::<Vec<_>>());
            }
            StepKind::Nest(nest) => {
                let reads: Vec<BufferId> =
                    nest.nodes.iter().filter_map(|n| super::constants::needed(self.program, n)).collect();
                self.touch(&reads, &[nest.store.buffer]);
            }
            _ => {
                let (reads, writes) = step.accesses();
                self.touch(&reads, &writes);
            }
        }
    }

    /// One moment: all reads and writes of a step.
    fn touch(&mut self, reads: &[BufferId], writes: &[BufferId]) {
        self.time += 1;
        let storage = |buffer: &BufferId| self.program.buffer(*buffer).layout.storage;
        let time = self.time;
        let reads = reads.iter().map(|b| (storage(b), time, false));
        let all: Vec<_> = reads.chain(writes.iter().map(|b| (storage(b), time, true))).collect();
        self.accesses.extend(all);
    }
}
