//! Nests over the same rows as one step: what a nest hands to a later one stays in registers or in the near cache.

use super::nest::Scalar;
use super::{BufferId, Nest};

/// Nests that run in turn for one row after the other. The result of every nest but the last one is either a number per row,
/// for which there is no memory, or a row that lies where the last one stores its own.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The nests in order. They hand each other elements of the same row only.
    pub nests: Vec<Nest>,
    /// How many of the first axes of every nest count the rows: map axes, with the same extents in all nests.
    pub outer: usize,
}

impl Rows {
    /// The buffer that it writes.
    pub fn target(&self) -> Option<BufferId> {
        self.nests.last().map(|nest| nest.store.buffer)
    }

    /// Buffers of one number per row, which have no memory.
    pub fn numbers(&self) -> Vec<BufferId> {
        let stored = self.nests.iter().map(|nest| nest.store.buffer);
        stored.filter(|buffer| Some(*buffer) != self.target()).collect()
    }

    /// The nodes of all nests but for loads of what the nests hand to each other.
    pub fn nodes(&self) -> impl Iterator<Item = &Scalar> {
        let stored: Vec<BufferId> = self.nests.iter().map(|nest| nest.store.buffer).collect();
        self.nests.iter().flat_map(|nest| &nest.nodes).filter(move |node| match node {
            Scalar::Load { access, .. } => !stored.contains(&access.buffer),
            _ => true,
        })
    }

    /// Appends the buffers that it reads and writes.
    pub fn accesses(&self, reads: &mut Vec<BufferId>, writes: &mut Vec<BufferId>) {
        reads.extend(self.nodes().filter_map(|node| match node {
            Scalar::Load { access, .. } => Some(access.buffer),
            _ => None,
        }));
        writes.extend(self.target());
    }
}
