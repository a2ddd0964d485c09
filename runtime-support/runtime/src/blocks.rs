//! Slices in blocks: `chunks` of the standard library, without panics that the optimiser does not always remove.

/// Consecutive blocks of `n` elements; the last one may be shorter. No blocks if `n` is 0.
#[inline]
pub(crate) fn blocks<T>(mut rest: &[T], n: usize) -> impl Iterator<Item = &[T]> {
    core::iter::from_fn(move || {
        let (block, after) = rest.split_at_checked(n.min(rest.len()))?;
        rest = after;
        (!block.is_empty()).then_some(block)
    })
}

/// The same, mutable.
#[inline]
pub(crate) fn blocks_mut<T>(mut rest: &mut [T], n: usize) -> impl Iterator<Item = &mut [T]> {
    core::iter::from_fn(move || {
        let n = n.min(rest.len());
        let (block, after) = core::mem::take(&mut rest).split_at_mut_checked(n)?;
        rest = after;
        (!block.is_empty()).then_some(block)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn blocks_are_chunks() {
        let mut x: Vec<u8> = (0..10).collect();
        for n in 1..12 {
            let (got, want): (Vec<&[u8]>, Vec<&[u8]>) = (blocks(&x, n).collect(), x.chunks(n).collect());
            assert_eq!(got, want, "{n}");
            let lengths: Vec<usize> = want.iter().map(|block| block.len()).collect();
            assert_eq!(blocks_mut(&mut x, n).map(|block| block.len()).collect::<Vec<_>>(), lengths, "{n}");
        }
        assert_eq!(blocks(&x, 0).count() + blocks_mut(&mut x, 0).count() + blocks(&x[..0], 3).count(), 0);
    }
}
