//! Kernels that run in turn, a few lines at a time, so that what they hand on stays in the cache.

use super::{BufferId, Kernel};
use include_ir_runtime::bands::Lines;
use include_ir_runtime::shares::Share;

/// A chain of kernels: each one reads, as its data, lines of the result of the one before, which nothing else reads.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The stages, first to last.
    pub stages: Vec<Stage>,
    /// Lines of the last result that are computed at a time.
    pub height: usize,
    /// How threads may divide it.
    pub shares: Vec<Share>,
}

/// One kernel of a chain. Its first row axis counts lines.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The kernel.
    pub kernel: Kernel,
    /// Its lines.
    pub lines: Lines,
    /// Elements of one line of its data; 0 for the first stage, whose data is whole.
    pub operand_line: usize,
    /// Elements of one line of its result, where only some lines are kept.
    pub line: Option<usize>,
}

impl Chain {
    /// Appends the buffers that the kernels read and write.
    pub fn accesses(&self, reads: &mut Vec<BufferId>, writes: &mut Vec<BufferId>) {
        self.stages.iter().for_each(|stage| stage.kernel.accesses(reads, writes));
    }
}
