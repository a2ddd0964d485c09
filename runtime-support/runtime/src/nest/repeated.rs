//! Short rows laid out for long ones, once for all rows that look up the same.

use super::repeat;
use crate::pod::Pod;

/// A row of `N` elements again and again, as many as fill `M`: laid out when another row is asked for than before.
///
/// The elements of a row that is laid out cannot change as long as this lives.
pub struct Repeated<'a, T, const N: usize, const M: usize> {
    row: Option<&'a [T; N]>,
    all: [T; M],
}

impl<'a, T: Pod, const N: usize, const M: usize> Repeated<'a, T, N, M> {
    /// Nothing yet.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is no value of it that stands for itself")]
    pub const fn new() -> Self {
        Repeated { row: None, all: [T::ZERO; M] }
    }

    /// All elements for a row.
    #[inline(always)]
    pub fn of(&mut self, row: &'a [T; N]) -> &[T; M] {
        if !self.row.is_some_and(|kept| core::ptr::eq(kept, row)) {
            self.all = repeat(row);
            self.row = Some(row);
        }
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_row_is_laid_out_anew() {
        let rows = [[1u8, 2], [3, 4]];
        let mut repeated = Repeated::<_, 2, 6>::new();
        for i in [0, 0, 1, 1, 0] {
            assert_eq!(*repeated.of(&rows[i]), repeat::<u8, 2, 6>(&rows[i]));
        }
    }
}
