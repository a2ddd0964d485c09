//! Working memory in portions, one for every thread that computes a block alone.
use super::{GAP, Winograd};
use crate::contraction::packed::padded;
use crate::math::{ceil_div_usize, floor_div_usize};
use core::sync::atomic::{AtomicU64, Ordering};

/// Fewest tiles of a block: fewer leave the pipelines of a register tile idle.
const LEAST: usize = 8;
/// Floats of a cache line.
const LINE: usize = 16;

/// Portions of the working memory, and which of them are lent: bit i stands for portion i.
pub(super) struct Portions {
    start: *mut f32,
    len: usize,
    count: usize,
    lent: AtomicU64,
    /// Tiles of a block that a portion holds.
    pub block: usize,
}

// SAFETY: a portion is lent to one thread at a time.
unsafe impl Sync for Portions {}

impl Portions {
    /// A portion of the memory (start and floats) for each of so many threads, if there are several, and for all of them blocks
    /// that are not too small, or else columns of the only block.
    pub fn new(shape: &Winograd, threads: usize, memory: (*mut f32, usize), count: usize) -> Option<Portions> {
        if threads < 2 || threads > u64::BITS as usize {
            return None;
        }
        let len = floor_div_usize(memory.1, threads * LINE) * LINE;
        let portions = |block| Portions { start: memory.0, len, count: threads, lent: AtomicU64::new(0), block };
        if count <= shape.block {
            return (shape.chunks() >= threads && shape.scratch_len() <= len).then(|| portions(count));
        }
        let tile = padded(shape.product.depth).checked_add(shape.width(0))?;
        let most =
            floor_div_usize(floor_div_usize(len, shape.positions()).checked_sub(2 * GAP)?, tile).min(shape.block);
        // As many blocks as all threads finish at the same time.
        let rounds = ceil_div_usize(count, most.saturating_mul(threads));
        let block = ceil_div_usize(count, rounds.saturating_mul(threads));
        let fits = Winograd { block, ..*shape }.scratch_len() <= len;
        (block >= LEAST && fits).then(|| portions(block))
    }

    /// Runs `work` with the start of a portion that nobody else has meanwhile.
    pub fn lend(&self, work: impl FnOnce(*mut f32)) {
        loop {
            let lent = self.lent.load(Ordering::Relaxed);
            let free = lent.trailing_ones();
            // There are as many portions as threads, so one is free.
            if free as usize >= self.count {
                core::hint::spin_loop();
                continue;
            }
            let own = 1u64 << (free & (u64::BITS - 1));
            if self.lent.compare_exchange_weak(lent, lent | own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                work(self.start.wrapping_add(free as usize * self.len));
                self.lent.fetch_and(!own, Ordering::Release);
                return;
            }
        }
    }
}
