//! The division of tiles among threads that compute blocks alone.
use super::{GAP, Winograd};
use crate::math::{ceil_div_usize, floor_div_usize};
use crate::portions::Portions;

/// Fewest tiles of a block: fewer leave the pipelines of a register tile idle.
const LEAST: usize = 8;
/// Batches of each thread from which on one more does not count.
const MANY: usize = 4;

/// A portion of the memory (start and floats) for each of so many threads, if there are several, and batches enough that they
/// finish at about the same time.
pub(super) fn portions_of_batches(
    shape: &Winograd,
    threads: usize,
    memory: (*mut f32, usize),
    batches: usize,
) -> Option<Portions> {
    let even = batches.is_multiple_of(threads) || batches >= MANY.saturating_mul(threads);
    Portions::new(threads, memory).filter(|portions| even && shape.scratch_len() <= portions.len)
}

/// A portion of the memory (start and floats) for each of so many threads, if there are several, and the tiles of the blocks
/// that they hold: not too few, or else all, of which threads then take columns.
pub(super) fn portions(
    shape: &Winograd,
    threads: usize,
    memory: (*mut f32, usize),
    count: usize,
) -> Option<(Portions, usize)> {
    let portions = Portions::new(threads, memory)?;
    if count <= shape.block {
        return (shape.chunks() >= threads && shape.scratch_len() <= portions.len).then_some((portions, count));
    }
    let tile = shape.data_len().checked_add(shape.sums_len())?;
    let most =
        floor_div_usize(floor_div_usize(portions.len, shape.positions()).checked_sub(2 * GAP)?, tile).min(shape.block);
    // As many blocks as all threads finish at the same time.
    let rounds = ceil_div_usize(count, most.saturating_mul(threads));
    let block = ceil_div_usize(count, rounds.saturating_mul(threads));
    let fits = Winograd { block, ..*shape }.scratch_len() <= portions.len;
    (block.saturating_mul(shape.slices()) >= LEAST && fits).then_some((portions, block))
}
