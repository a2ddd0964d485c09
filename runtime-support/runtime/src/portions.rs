//! Working memory in portions, one for every thread that computes alone.
use crate::math::floor_div_usize;
use core::sync::atomic::{AtomicU64, Ordering};

/// Floats of a cache line.
const LINE: usize = 16;

/// Portions of working memory, and which of them are lent: bit i stands for portion i.
pub(crate) struct Portions {
    start: *mut f32,
    count: usize,
    lent: AtomicU64,
    /// Floats of a portion.
    pub len: usize,
}

// SAFETY: a portion is lent to one thread at a time.
unsafe impl Sync for Portions {}

impl Portions {
    /// A portion of the memory (start and floats) for each of so many threads, if there are several.
    pub fn new(threads: usize, memory: (*mut f32, usize)) -> Option<Portions> {
        if threads < 2 || threads > u64::BITS as usize {
            return None;
        }
        let len = floor_div_usize(memory.1, threads * LINE) * LINE;
        Some(Portions { start: memory.0, count: threads, lent: AtomicU64::new(0), len })
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
