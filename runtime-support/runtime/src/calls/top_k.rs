//! The positions of the largest elements along an axis.
mod columns;
mod few;
mod many;
mod rows;

use super::rank::{Key, position, rank};
use super::sort::{sort_by, sort_rest};
use super::{Arguments, Elements};
use crate::blocks::{blocks, blocks_mut};
use crate::cx::Cx;
use crate::isa::VECTORS;
use crate::math::floor_div_usize;
use crate::parts::split_rows;

/// Up to this many results, the best ones are kept sorted while the elements pass by.
const INSERTED: usize = 32;

/// The positions of the largest elements of input 0 along an axis: output 0 (i32), as many as it has along the axis.
///
/// Integers: axis; 1 for the smallest instead of the largest; 1 to order positions ascending instead of by value. Output 1
/// (i32) is working memory: twice the size of the axis. Output 2, if there is one, are the elements at the positions. Of
/// equal elements the first ones win.
#[inline]
pub fn top_k(mut arguments: Arguments<'_>) {
    match arguments.input(0).elements {
        Elements::F32(x) => top_k_of(x, &mut arguments),
        Elements::F64(x) => top_k_of(x, &mut arguments),
        Elements::I32(x) => top_k_of(x, &mut arguments),
        Elements::I64(x) => top_k_of(x, &mut arguments),
        Elements::U8(x) => top_k_of(x, &mut arguments),
    }
}

fn top_k_of<K: Key>(x: &[K], arguments: &mut Arguments<'_>) {
    let cx = arguments.cx;
    let (axis, smallest, by_position) = (arguments.size(0), arguments.integer(1) != 0, arguments.integer(2) != 0);
    let dims = arguments.input(0).dims;
    let inner: usize = dims.iter().skip(axis + 1).product();
    let count = arguments.input(0).dim(axis);
    let [out, scratch, values @ ..] = &mut *arguments.outputs else { return };
    let k = out.dim(axis);
    let (out, scratch) = (out.get::<i32>(), scratch.get::<i32>());
    let values = values.first_mut().map(|values| values.get::<K>()).unwrap_or_default();
    let (all, flags) = (floor_div_usize(x.len(), count.saturating_mul(inner)), [smallest, by_position]);
    // The memory of a result whose size is known at run time may be larger.
    let size = all.saturating_mul(k).saturating_mul(inner).min(out.len());
    let out = out.get_mut(..size).unwrap_or_default();
    let values = values.get_mut(..size).unwrap_or_default();
    let done = if !VECTORS || !K::NARROW || k == 0 {
        false
    } else if inner > 1 {
        k <= many::MOST && columns::select(cx, x, (&mut *out, &mut *values), [count, inner, k], flags)
    } else if rows::fit(all, count, k) {
        rows::select(cx, x, out, [count, k], flags)
    } else {
        cx.threads() > 1 && select_apart(cx, x, out, [count, k], flags)
    };
    if done && inner > 1 {
        return;
    }
    if !done {
        let results = blocks_mut(out, k.saturating_mul(inner));
        for (block, out) in blocks(x, count.saturating_mul(inner)).zip(results) {
            for at in 0..inner {
                let column = Column { x: block.get(at..).unwrap_or_default(), inner, count, smallest };
                column.write(out.get_mut(at..).unwrap_or_default(), k, by_position, scratch);
            }
        }
    }
    look_up(x, out, values, [count, inner, k]);
}

/// The elements at positions in columns of blocks, as many of them as there is room for.
fn look_up<K: Key>(x: &[K], positions: &[i32], values: &mut [K], [count, inner, k]: [usize; 3]) {
    let size = k.saturating_mul(inner);
    let results = blocks(positions, size).zip(blocks_mut(values, size));
    for (block, (positions, values)) in blocks(x, count.saturating_mul(inner)).zip(results) {
        for (positions, values) in blocks(positions, inner).zip(blocks_mut(values, inner)) {
            for (at, (position, slot)) in positions.iter().zip(values).enumerate() {
                *slot = block.get(*position as usize * inner + at).copied().unwrap_or(K::ZERO);
            }
        }
    }
}

/// The same of rows, each thread with working memory of its own. False if this does not suffice.
#[inline(never)]
fn select_apart<K: Key>(
    cx: Cx<'_>,
    x: &[K],
    out: &mut [i32],
    [count, k]: [usize; 2],
    [smallest, by_position]: [bool; 2],
) -> bool {
    split_rows(cx, out, k, [1, count], WORK, |rows, out| {
        let mut scratch = [0; APART];
        let x = x.get(rows.start * count..).unwrap_or_default();
        blocks(x, count).zip(blocks_mut(out, k)).all(|(x, out)| {
            let column = Column { x, inner: 1, count, smallest };
            column.write(out, k, by_position, &mut scratch).is_some()
        })
    })
}

/// Working memory of a thread of its own.
const APART: usize = 8192;
/// Elements of rows that take a microsecond.
const WORK: usize = 4096;
/// Elements of a row that are passed over at once.
const PASSED: usize = 32;

/// Elements of which the best ones are selected: of `x`, every one that is `inner` behind another.
struct Column<'a, K> {
    x: &'a [K],
    inner: usize,
    count: usize,
    smallest: bool,
}

impl<K: Key> Column<'_, K> {
    #[inline(always)]
    fn before(&self, a: K, b: K) -> bool {
        if self.smallest { a < b } else { a > b }
    }

    #[inline(always)]
    fn key(&self, i: i32) -> Option<K> {
        self.x.get(i as usize * self.inner).copied()
    }

    #[inline(always)]
    fn comes_before(&self, a: i32, b: i32) -> bool {
        self.key(a).zip(self.key(b)).is_some_and(|(a, b)| self.before(a, b))
    }

    /// The next position from `from` on, of an element that comes before the one at `last`.
    #[inline(always)]
    fn next(&self, from: i32, last: Option<i32>) -> Option<i32> {
        let Some(last) = last.and_then(|last| self.key(last)) else {
            return ((from as usize) < self.count).then_some(from);
        };
        let mut at = from as usize;
        if VECTORS && self.inner == 1 {
            let rest = self.x.get(at..).unwrap_or_default().as_chunks::<PASSED>().0;
            let worse = |x: &[K; PASSED]| !x.iter().fold(false, |any, x| any | self.before(*x, last));
            at += rest.iter().take_while(|x| worse(x)).count() * PASSED;
        }
        while at < self.count {
            if self.x.get(at * self.inner).is_some_and(|x| self.before(*x, last)) {
                return Some(at as i32);
            }
            at += 1;
        }
        None
    }

    /// The first `k` of all positions, one for every column of `out`; `None` if there is too little working memory.
    #[inline]
    fn write(&self, out: &mut [i32], k: usize, by_position: bool, scratch: &mut [i32]) -> Option<()> {
        let best = self.select(scratch, k)?;
        let (order, spare) = scratch.split_at_mut_checked(scratch.len() / 2)?;
        if by_position {
            sort_by(order.get_mut(..best)?, spare, |a, b| a < b);
        }
        for (slot, position) in out.iter_mut().step_by(self.inner.max(1)).zip(order.get(..best)?) {
            *slot = *position;
        }
        Some(())
    }

    /// Puts the first `k` of all positions at the start of `scratch`, in order; how many there are. `None` if they do not fit.
    #[inline]
    fn select(&self, scratch: &mut [i32], k: usize) -> Option<usize> {
        if k > scratch.len() / 2 {
            return None;
        }
        if k > INSERTED {
            return self.select_many(scratch, k);
        }
        let (mut kept, mut from) = (0usize, 0);
        let worst = |kept: usize, order: &[i32]| kept.checked_sub(1).and_then(|last| order.get(last)).copied();
        while let Some(i) = self.next(from, if kept == k { worst(kept, scratch) } else { None })
            && k > 0
        {
            from = i + 1;
            // The worst one gives its place; better ones move up.
            let mut at = if kept == k { kept - 1 } else { kept };
            while let Some(previous) = worst(at, scratch)
                && self.comes_before(i, previous)
            {
                if let Some(slot) = scratch.get_mut(at) {
                    *slot = previous;
                }
                at -= 1;
            }
            if let Some(slot) = scratch.get_mut(at) {
                *slot = i;
            }
            kept = (kept + 1).min(k);
        }
        Some(kept)
    }

    /// The same for many. Where they fit and all elements are numbers, ranks are sorted instead of positions whose elements
    /// must be looked up.
    #[inline]
    fn select_many(&self, scratch: &mut [i32], k: usize) -> Option<usize> {
        let (half, room) = (scratch.len() / 2, scratch.len() / 8);
        let numbers = || !self.x.iter().fold(false, |unordered, x| unordered | !x.is_number());
        if VECTORS && K::NARROW && self.inner == 1 && k <= room && k <= self.count / 4 && numbers() {
            let (entries, spare) = scratch.as_chunks_mut().0.split_at_mut_checked(half / 2)?;
            let read = |entry: [i32; 2]| i64::from(entry[1]) << 32 | i64::from(entry[0].cast_unsigned());
            let write = |rank: i64| [rank as i32, (rank >> 32) as i32];
            let entry = |i: i32| write(self.key(i).map_or(i64::MIN, |x| rank(x, i, self.smallest)));
            let found = self.collect(
                entries,
                spare,
                k,
                entry,
                |entry| position(read(entry)),
                |entries, spare, sorted| sort_rest(entries, spare, sorted, |a, b| read(a) > read(b)),
            );
            // Positions overwrite entries that have been read.
            for i in 0..found {
                let entry = scratch.as_chunks().0.get(i).copied().unwrap_or_default();
                if let Some(slot) = scratch.get_mut(i) {
                    *slot = position(read(entry));
                }
            }
            return Some(found);
        }
        if self.count > half {
            return None;
        }
        let (order, spare) = scratch.split_at_mut_checked(half)?;
        let sort = |order: &mut [i32], spare: &mut [i32], _| sort_by(order, spare, |a, b| self.comes_before(a, b));
        Some(self.collect(order, spare, k, |i| i, |i| i, sort))
    }

    /// Selects many of the entries that stand for positions: twice as many as are wanted are collected, sorted, and cut, and
    /// the worst of the others is what the next ones must come before.
    #[inline(always)]
    fn collect<T: Copy>(
        &self,
        entries: &mut [T],
        spare: &mut [T],
        k: usize,
        entry: impl Fn(i32) -> T,
        position: impl Fn(T) -> i32,
        sort: impl Fn(&mut [T], &mut [T], usize),
    ) -> usize {
        let (mut kept, mut from, mut sorted, mut last) = (0usize, 0, 0, None);
        while let Some(i) = self.next(from, last) {
            from = i + 1;
            if let Some(slot) = entries.get_mut(kept) {
                *slot = entry(i);
                kept += 1;
            }
            if kept == k.saturating_mul(2) {
                sort(entries.get_mut(..kept).unwrap_or_default(), spare, sorted);
                (kept, sorted) = (k, k);
                last = k.checked_sub(1).and_then(|last| entries.get(last)).map(|last| position(*last));
            }
        }
        sort(entries.get_mut(..kept).unwrap_or_default(), spare, sorted);
        kept.min(k)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, Target};
    use super::*;
    extern crate std;
    use std::vec::Vec;

    /// Alone, and the same on several threads.
    fn run<K: Key>(x: &[K], sizes: [usize; 2], k: usize, flags: [bool; 2]) -> Vec<usize> {
        let alone = run_in(Cx::detect(), x, sizes, k, flags);
        #[cfg(feature = "threads")]
        {
            let team = crate::team::Team::new(3);
            assert_eq!(run_in(Cx::detect().with_team(&team), x, sizes, k, flags), alone, "{sizes:?} {k}");
        }
        alone
    }

    fn run_in<K: Key>(cx: Cx<'_>, x: &[K], [count, inner]: [usize; 2], k: usize, flags: [bool; 2]) -> Vec<usize> {
        let outer = x.len() / (count * inner).max(1);
        let (mut out, mut scratch) = (std::vec![-1i32; outer * k * inner], std::vec![0i32; 2 * count]);
        let mut values = std::vec![K::ZERO; out.len()];
        top_k(Arguments {
            cx,
            inputs: &[Operand::new(x, &[outer, count, inner])],
            outputs: &mut [
                Target::new(&mut out, &[outer, k, inner]),
                Target::new(&mut scratch, &[2 * count]),
                Target::new(&mut values, &[outer, k, inner]),
            ],
            integers: &[1, i64::from(flags[0]), i64::from(flags[1])],
            floats: &[],
            sizes: &mut [],
        });
        for (i, (position, value)) in out.iter().zip(&values).enumerate() {
            let block = i / (k * inner) * count * inner;
            let want = x[block + *position as usize * inner + i % inner];
            assert!(*value == want || !want.is_number() && !value.is_number(), "{count} {inner} {k}");
        }
        out.into_iter().map(|position| position as usize).collect()
    }

    #[test]
    fn the_best_come_first_along_any_axis() {
        for (count, k) in [
            (5usize, 3usize),
            (5, 5),
            (90, 40),
            (1000, 40),
            (800, 300),
            (66, 33),
            (7, 1),
            (300, 65),
            (3, 0),
            (90, 5),
            (300, 8),
            (9, 2),
        ] {
            for inner in [1usize, 3, 64, 150] {
                let x: Vec<i64> = (0..2 * count * inner).map(|i| ((i * i + 31 * i) % 1009 % 97) as i64 - 40).collect();
                for flags in [[false, false], [true, false], [false, true]] {
                    let got = run(&x, [count, inner], k, flags);
                    for (outer, column) in [(0, 0), (1, inner - 1), (1, inner / 2)] {
                        let mut all: Vec<usize> = (0..count).collect();
                        let at = |i: usize| x[(outer * count + i) * inner + column];
                        all.sort_by_key(|i| if flags[0] { at(*i) } else { -at(*i) });
                        all.truncate(k);
                        if flags[1] {
                            all.sort();
                        }
                        let got: Vec<usize> = (0..k).map(|i| got[(outer * k + i) * inner + column]).collect();
                        assert_eq!(got, all, "{count} {k} {inner} {flags:?}");
                    }
                    // Every other type has the order of i64.
                    let of = |got: Vec<usize>, ty: &str| {
                        assert_eq!(got, run(&x, [count, inner], k, flags), "{ty} {count} {k} {inner}")
                    };
                    of(run(&x.iter().map(|x| *x as f32 / 8.0).collect::<Vec<_>>(), [count, inner], k, flags), "f32");
                    of(run(&x.iter().map(|x| *x as i32).collect::<Vec<_>>(), [count, inner], k, flags), "i32");
                    of(run(&x.iter().map(|x| (x + 40) as u8).collect::<Vec<_>>(), [count, inner], k, flags), "u8");
                    of(run(&x.iter().map(|x| *x as f64).collect::<Vec<_>>(), [count, inner], k, flags), "f64");
                }
            }
        }
    }

    #[test]
    fn rows_are_selected_together() {
        for (count, k) in [(1usize, 1usize), (7, 2), (16, 5), (33, 3), (90, 10), (300, 8), (500, 5)] {
            for rows in [16usize, 21, 40] {
                let mut x: Vec<f32> = (0..rows * count).map(|i| ((i * i + 31 * i) % 1009 % 97) as f32 - 40.0).collect();
                for flags in [[false, false], [true, false], [false, true]] {
                    let got = run(&x, [count, 1], k, flags);
                    for (row, got) in x.chunks(count).zip(got.chunks(k)) {
                        let mut all: Vec<usize> = (0..count).collect();
                        all.sort_by(
                            |i, j| if flags[0] { row[*i].total_cmp(&row[*j]) } else { row[*j].total_cmp(&row[*i]) },
                        );
                        all.truncate(k);
                        if flags[1] {
                            all.sort();
                        }
                        assert_eq!(got, all, "{count} {k} {rows} {flags:?}");
                    }
                }
                // One of the rows has NaN: all are selected one by one.
                x[(rows - 1) * count] = f32::NAN;
                let own = |row: &[f32]| run(row, [count, 1], k, [false, false]);
                let want: Vec<usize> = x.chunks(count).flat_map(own).collect();
                assert_eq!(run(&x, [count, 1], k, [false, false]), want);
            }
        }
    }

    #[test]
    fn a_result_that_is_too_small_gets_what_fits() {
        let x: Vec<f32> = (0..40 * 20).map(|i| (i * 37 % 501) as f32).collect();
        for (inner, room) in [(1, 10), (1, 47), (20, 30), (20, 90)] {
            let (mut out, mut scratch, count) = (std::vec![-1i32; room], std::vec![0i32; 40], 20);
            let dims = [40 / inner, count, inner];
            top_k(Arguments {
                cx: Cx::detect(),
                inputs: &[Operand::new(&x, &dims)],
                outputs: &mut [Target::new(&mut out, &[dims[0], 3, inner]), Target::new(&mut scratch, &[40])],
                integers: &[1, 0, 0],
                floats: &[],
                sizes: &mut [],
            });
            let blocks = room / (3 * inner);
            assert!(out.iter().take(blocks * 3 * inner).all(|at| (0..20).contains(at)), "{inner} {room}");
        }
    }

    #[test]
    fn the_least_integers_count_too() {
        let (count, inner) = (6, 20);
        let x: Vec<i32> = (0..count * inner).map(|i| [i32::MIN, i32::MAX, 3][i * 5 % 7 % 3]).collect();
        for smallest in [false, true] {
            let together = run(&x, [count, inner], 4, [smallest, false]);
            for column in 0..inner {
                let own: Vec<i32> = x.iter().copied().skip(column).step_by(inner).collect();
                let got: Vec<usize> = together.iter().copied().skip(column).step_by(inner).collect();
                assert_eq!(got, run(&own, [count, 1], 4, [smallest, false]), "{column}");
            }
        }
    }

    #[test]
    fn columns_with_special_numbers_are_those_of_one() {
        let (count, inner) = (40, 70);
        let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];
        for (special, k) in special.into_iter().zip([6, 6, 20, 20, 6]).flat_map(|(x, k)| [(x, k), (x, 26 - k)]) {
            let number = |i: usize| if i % 111 == 5 { special } else { (i * 37 % 501) as f32 - 250.0 };
            let x: Vec<f32> = (0..count * inner).map(number).collect();
            for flags in [[false, false], [true, false]] {
                let together = run(&x, [count, inner], k, flags);
                for column in 0..inner {
                    let own: Vec<f32> = x.iter().copied().skip(column).step_by(inner).collect();
                    let got: Vec<usize> = together.iter().copied().skip(column).step_by(inner).collect();
                    assert_eq!(got, run(&own, [count, 1], k, flags), "{special} {k} {column}");
                }
            }
        }
    }
}
