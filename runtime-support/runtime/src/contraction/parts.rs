//! The division of a contraction or window into parts that threads compute.
use super::{Contraction, Epilogue};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use crate::raw::{Dst, Src};
use core::ops::Range;

/// The operands of all parts.
pub(crate) struct Shared<'a> {
    pub a: Src<'a, f32>,
    pub w: &'a [f32],
    pub out: *mut f32,
    pub epilogue: Epilogue<'a>,
}

// SAFETY: a part writes its own rows and columns of the result only, and reads no others of it; the rest is shared
// references. `then` is `Sync`.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    /// Lends the operands to the parts.
    pub fn new(a: Src<'a, f32>, w: &'a [f32], mut out: Dst<'a, f32>, epilogue: Epilogue<'a>) -> Self {
        Shared { a, w, out: out.as_mut_ptr(), epilogue }
    }
}

/// The context in which parts are computed: nobody helps where a descriptor lets elements of the result overlap, for then
/// two threads would write the same one.
pub(crate) fn context<'t>(c: &Contraction, cx: Cx<'t>) -> Cx<'t> {
    if cx.threads() == 1 || apart(c, c.batches.len()) { cx } else { cx.alone() }
}

/// Whether no two rows of the result overlap, in and among so many axes of batches.
pub(crate) fn apart(c: &Contraction, batches: usize) -> bool {
    let batches = c.batches.iter().take(batches).map(|axis| (axis.extent, axis.out));
    are_apart(c.rows.iter().map(|axis| (axis.extent, axis.out)).chain(batches), c.cols)
}

/// Whether no two runs of `len` elements overlap at all indices of axes (extent, step): every axis steps over all that the
/// shorter steps reach.
pub(crate) fn are_apart(axes: impl Iterator<Item = (usize, usize)> + Clone, len: usize) -> bool {
    let axes = axes.enumerate().filter(|(_, (extent, _))| *extent > 1);
    axes.clone().all(|(i, (_, step))| {
        let shorter = axes.clone().filter(|(j, (_, other))| (*other, *j) < (step, i));
        let reach = shorter.map(|(_, (extent, other))| other.saturating_mul(extent - 1));
        reach.fold(len, usize::saturating_add) <= step
    })
}

/// Batches, and in each of them ranges of rows and of columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    extents: [usize; 4],
    rows: Units,
    cols: Units,
}

/// Rows or columns, and how many of them stay together.
#[derive(Clone, Copy, Debug)]
struct Units {
    all: usize,
    unit: usize,
}

impl Units {
    fn count(self) -> usize {
        ceil_div_usize(self.all, self.unit)
    }

    /// A part of so many: whole units, in every part as many but for one.
    fn part(self, part: usize, parts: usize) -> Range<usize> {
        let at = |part: usize| {
            floor_div_usize(self.count().saturating_mul(part), parts).saturating_mul(self.unit).min(self.all)
        };
        at(part)..at(part + 1)
    }
}

impl Parts {
    /// At least `wanted` parts where there are as many. A part has whole groups of `unit.0` rows and `unit.1` columns; of
    /// rows at least `block` go together at no cost, so columns are divided before rows are fewer.
    pub fn new(c: &Contraction, wanted: usize, unit: (usize, usize), block: usize) -> Parts {
        let [b0, b1] = [c.batches[0].extent, c.batches[1].extent];
        let m = c.m();
        let [rows, cols] = [(m, unit.0), (c.cols, unit.1)].map(|(all, unit)| Units { all, unit: unit.max(1) });
        let (mut by_rows, mut by_cols) = (1, 1);
        let each = ceil_div_usize(wanted, b0.saturating_mul(b1));
        if each > 1 {
            by_rows = each.min(ceil_div_usize(m, block)).max(1);
            by_cols = ceil_div_usize(each, by_rows).min(cols.count()).max(1);
            by_rows = ceil_div_usize(each, by_cols).min(rows.count()).max(1);
        }
        Parts { extents: [b0, b1, by_rows, by_cols], rows, cols }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.extents.iter().fold(1, |count, extent| count.saturating_mul(*extent))
    }

    /// Batch, rows and columns of a part. Columns vary fastest, then rows.
    pub fn part(&self, part: usize) -> ([usize; 2], Range<usize>, Range<usize>) {
        let [_, b1, r, c] = self.extents;
        let (rest, column) = (floor_div_usize(part, c), floor_mod_usize(part, c));
        let (rest, row) = (floor_div_usize(rest, r), floor_mod_usize(rest, r));
        ([floor_div_usize(rest, b1), floor_mod_usize(rest, b1)], self.rows.part(row, r), self.cols.part(column, c))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::{Batch, RowAxis};
    use super::*;
    use std::vec;

    #[test]
    fn rows_and_batches_may_interleave_but_not_overlap() {
        let mut c = Contraction { cols: 8, ..Contraction::NEW };
        c.rows[3] = RowAxis { extent: 5, out: 16, ..RowAxis::ONE };
        c.batches[1] = Batch { extent: 2, out: 8, ..Batch::ONE };
        assert!(apart(&c, 2), "two groups of channels");
        c.batches[1].out = 7;
        assert!(apart(&c, 0) && !apart(&c, 2));
        c.rows[2] = RowAxis { extent: 3, out: 0, ..RowAxis::ONE };
        assert!(!apart(&c, 0));
    }

    #[test]
    fn parts_cover_everything_once() {
        for (b, m, n) in [(1, 1, 1), (1, 49, 512), (1, 3136, 64), (2, 7, 33), (12, 64, 64), (3, 240, 1), (1, 1, 4096)] {
            let mut c = Contraction { cols: n, ..Contraction::NEW };
            c.batches[1] = Batch { extent: b, ..Batch::ONE };
            c.rows[3] = RowAxis { extent: m, ..RowAxis::ONE };
            for wanted in [1, 2, 5, 8, 64] {
                let parts = Parts::new(&c, wanted, (12, 32), 240);
                let mut seen = vec![0; b * m * n];
                for part in 0..parts.count() {
                    let ([b0, b1], rows, cols) = parts.part(part);
                    assert!(b0 == 0 && !rows.is_empty() && !cols.is_empty());
                    for row in rows {
                        cols.clone().for_each(|col| seen[(b1 * m + row) * n + col] += 1);
                    }
                }
                assert!(seen.iter().all(|count| *count == 1), "{b} {m} {n} {wanted} {parts:?}");
                assert!(wanted > 1 || parts.count() == b, "one thread has a part per batch");
            }
        }
    }
}
