//! The division of a contraction or window into parts that threads compute.
use super::kernel::LINE;
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
    /// Ranges of rows vary slowest, not batches.
    rows_first: bool,
    rows: Units,
    cols: Units,
}

/// Lines, or tiles of rows, that a thread gets at least where groups are divided by rows ...
const LINES: usize = 4;
/// ... and weights of all groups, at most, because each thread reads them all.
const WEIGHTS: usize = 160 * 1024;

/// Rows from which on half a panel takes half its time.
const MANY: usize = 8;

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

/// The greatest divisor of n that is at most `most`.
fn divisor(n: usize, most: usize) -> usize {
    let mut divisor = most.min(n).max(1);
    while floor_mod_usize(n, divisor) != 0 {
        divisor -= 1;
    }
    divisor
}

/// Whether batches are groups of the same pixels, with few weights: they are divided by rows, as layers before and after them
/// are, for what one thread has written takes another one long to read.
fn are_groups(c: &Contraction) -> bool {
    let pixel = c.rows.iter().filter(|axis| axis.extent > 1).map(|axis| axis.out).min().unwrap_or(0);
    let batches = c.batches.iter().filter(|batch| batch.extent > 1);
    let weights = batches.clone().fold(c.k().saturating_mul(c.cols), |n, batch| n.saturating_mul(batch.extent));
    batches.clone().count() > 0 && batches.clone().all(|batch| batch.out < pixel) && weights <= WEIGHTS
}

impl Parts {
    /// About `wanted` parts where there are as many, and as many for every thread. A part has whole groups of `unit.0` rows
    /// and `unit.1` columns; of rows at least `block` go together at no cost, so columns are divided before rows are fewer.
    pub fn new(c: &Contraction, cx: Cx<'_>, wanted: usize, unit: (usize, usize), block: usize) -> Parts {
        let [b0, b1] = [c.batches[0].extent, c.batches[1].extent];
        let (batches, m) = (b0.saturating_mul(b1), c.m());
        let [rows, cols] = [(m, unit.0), (c.cols, unit.1)].map(|(all, unit)| Units { all, unit: unit.max(1) });
        let (mut by_rows, mut by_cols) = (1, 1);
        let rows_first = wanted > 1 && are_groups(c) && rows.count() >= cx.threads().saturating_mul(LINES);
        if rows_first {
            by_rows = wanted.min(cx.threads());
        } else if wanted > batches {
            let each = cx.evenly(batches, ceil_div_usize(wanted, batches));
            by_rows = divisor(each, ceil_div_usize(m, block));
            by_cols = divisor(floor_div_usize(each, by_rows), cols.count());
            by_rows = floor_div_usize(each, by_cols).min(rows.count()).max(1);
        }
        Parts { extents: [b0, b1, by_rows, by_cols], rows_first, rows, cols }
    }

    /// The same of a contraction, with halves of panels of 32 columns where not all parts get as many whole ones.
    pub fn halved(mut self) -> Parts {
        let uneven = floor_mod_usize(self.cols.count(), self.extents[3]) != 0;
        if uneven && self.cols.unit == 2 * LINE && self.rows.all >= MANY {
            self.cols.unit = LINE;
        }
        self
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.extents.iter().fold(1, |count, extent| count.saturating_mul(*extent))
    }

    /// Batch, rows and columns of a part. Columns vary fastest; rows after them, or slowest.
    pub fn part(&self, part: usize) -> ([usize; 2], Range<usize>, Range<usize>) {
        let [b0, b1, r, c] = self.extents;
        if self.count() == 1 {
            return ([0; 2], 0..self.rows.all, 0..self.cols.all);
        }
        let (rest, column) = (floor_div_usize(part, c), floor_mod_usize(part, c));
        let (rest, row) = if self.rows_first {
            let batches = b0.saturating_mul(b1);
            (floor_mod_usize(rest, batches), floor_div_usize(rest, batches))
        } else {
            (floor_div_usize(rest, r), floor_mod_usize(rest, r))
        };
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

    /// Batches of rows of n columns: groups of the same pixels, or one after the other.
    fn batches(groups: bool, b: usize, m: usize, n: usize) -> Contraction {
        let mut c = Contraction { cols: n, ..Contraction::NEW };
        c.batches[1] = Batch { extent: b, out: if groups { n } else { m * n }, ..Batch::ONE };
        c.rows[3] = RowAxis { extent: m, out: if groups { b * n } else { n }, ..RowAxis::ONE };
        c
    }

    fn cover(cx: Cx<'_>) {
        for (b, m, n) in [(1, 1, 1), (1, 49, 512), (1, 3136, 64), (2, 7, 33), (12, 64, 64), (3, 240, 1), (1, 1, 4096)] {
            for (c, wanted) in [false, true]
                .into_iter()
                .flat_map(|groups| [1, 2, 5, 8, 64].map(|wanted| (batches(groups, b, m, n), wanted)))
            {
                let parts = Parts::new(&c, cx, wanted, (12, 32), 240).halved();
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

    #[test]
    fn parts_cover_everything_once() {
        cover(Cx::detect());
        #[cfg(feature = "threads")]
        for threads in [2, 3, 8] {
            cover(Cx::detect().with_team(&crate::team::Team::new(threads)));
        }
    }

    #[cfg(feature = "threads")]
    #[test]
    fn every_thread_gets_as_many_rows_of_all_groups() {
        let team = crate::team::Team::new(2);
        let parts = Parts::new(&batches(true, 9, 196, 16), Cx::detect().with_team(&team), 8, (14, 32), 28);
        assert_eq!(parts.count(), 18);
        assert!((0..18).all(|part| parts.part(part).1 == if part < 9 { 0..98 } else { 98..196 }));
    }

    #[cfg(feature = "threads")]
    #[test]
    fn threads_get_as_many_columns_of_a_few_panels() {
        let team = crate::team::Team::new(2);
        let cx = Cx::detect().with_team(&team);
        for (n, first) in [(96, 48), (160, 80), (128, 64), (112, 64), (64, 32)] {
            let parts = Parts::new(&batches(false, 1, 25, n), cx, 2, (12, 32), 240).halved();
            assert_eq!((0..2).map(|part| parts.part(part).2).collect::<vec::Vec<_>>(), [0..first, first..n], "{n}");
        }
    }

    #[cfg(feature = "threads")]
    #[test]
    fn threads_get_as_many_parts() {
        let team = crate::team::Team::new(2);
        let cx = Cx::detect().with_team(&team);
        for (b, wanted, count) in [(1, 1, 1), (1, 2, 2), (1, 3, 4), (1, 8, 8), (3, 8, 12), (5, 8, 10), (9, 8, 9)] {
            assert_eq!(Parts::new(&batches(false, b, 784, 64), cx, wanted, (6, 32), 12).count(), count, "{b} {wanted}");
        }
        assert_eq!([1, 2, 3, 7, 100].map(|work| cx.parts(work, 1)), [1, 2, 4, 8, 8]);
    }
}
