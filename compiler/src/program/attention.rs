//! Attention as one step: the softmax of products weighs the rows of another operand.

use super::nest::{Node, Scalar};
use super::{BufferId, Kernel, Nest};
use crate::dim::Dim;

/// An attention. Its nests hand their results to each other alone, so that only a few rows of them exist at a time, in the
/// working memory.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Products of queries and keys, with what happens to them.
    pub scores: Kernel,
    /// Maximum of a row, exponentials of the differences from it, their sum, and quotients.
    pub softmax: [Nest; 4],
    /// Sums of the values that the quotients weigh. Its batch and row axes are those of the scores, in the same order.
    pub sums: Kernel,
    /// A factor of every product, before the epilogue of the scores.
    pub scale: f32,
    /// How many keys the first row sees, where every next row sees one more; all where there is no such mask.
    pub seen: Option<Dim>,
    /// Rows that are computed at once.
    pub height: usize,
    /// Parts that can be computed at the same time.
    pub slots: usize,
    /// Working memory.
    pub scratch: BufferId,
}

impl Attention {
    /// The nests that define it, in order.
    pub fn nests(&self) -> impl Iterator<Item = &Nest> {
        [&self.scores.nest].into_iter().chain(&self.softmax).chain([&self.sums.nest])
    }

    /// The nodes of what it reads: those of scores and sums, but for the load of the quotients.
    pub fn nodes(&self) -> impl Iterator<Item = &Scalar> {
        let sums = self.sums.nest.nodes.iter().enumerate();
        let sums = sums.filter(|(i, _)| *i as Node != self.sums.data).map(|(_, node)| node);
        self.scores.nest.nodes.iter().chain(sums)
    }

    /// Buffers that it writes: the result and the working memory.
    pub fn writes(&self) -> [BufferId; 2] {
        [self.sums.nest.store.buffer, self.scratch]
    }

    /// Appends the buffers that it reads and writes.
    pub fn accesses(&self, reads: &mut Vec<BufferId>, writes: &mut Vec<BufferId>) {
        reads.extend(self.nodes().filter_map(|node| match node {
            Scalar::Load { access, .. } => Some(access.buffer),
            _ => None,
        }));
        writes.extend(self.writes());
    }

    /// Replaces every buffer that it names.
    pub fn rename_buffers(&mut self, new: &dyn Fn(BufferId) -> BufferId) {
        self.scores.rename_buffers(new);
        self.softmax.iter_mut().for_each(|nest| nest.rename_buffers(new));
        self.sums.rename_buffers(new);
        self.scratch = new(self.scratch);
    }
}
