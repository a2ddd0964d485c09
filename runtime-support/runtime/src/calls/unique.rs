//! The different rows of a matrix.
use super::rank::{Key, sort_by_upper_half};
use super::sort::sort_ordered;
use super::{Arguments, Elements};
use crate::isa::VECTORS;
use core::cmp::Ordering;

/// The different rows of input 0, `[rows, columns]`: outputs 0 (i64) the first row of each kind, 1 (i64) the kind of every row,
/// 2 (i64) how many rows there are of each kind. Size 0 is the number of kinds. Output 3 (i32) is working memory: three times
/// the number of rows.
///
/// Integers: 1 to number kinds in ascending order, 0 in the order of their first rows. A row with NaN is a kind of its own; NaN
/// is greater than any number.
#[inline]
pub fn unique(mut arguments: Arguments<'_>) {
    match arguments.input(0).elements {
        Elements::F32(x) => unique_of(x, &mut arguments),
        Elements::F64(x) => unique_of(x, &mut arguments),
        Elements::I32(x) => unique_of(x, &mut arguments),
        Elements::I64(x) => unique_of(x, &mut arguments),
        Elements::U8(x) => unique_of(x, &mut arguments),
    }
}

/// Elements that are compared.
trait Value: Key {
    /// A number that is the same for equal elements.
    fn bits(self) -> u64;
}

macro_rules! value {
    ($($ty:ty: $x:ident => $bits:expr),*) => {$(
        impl Value for $ty {
            #[inline]
            fn bits(self) -> u64 {
                let $x = self;
                $bits
            }
        }
    )*};
}
// Adding zero makes both zeros the same one.
value! {
    f32: x => u64::from((x + 0.0).to_bits()),
    f64: x => (x + 0.0).to_bits(),
    i32: x => x as u64,
    i64: x => x as u64,
    u8: x => x.into()
}

struct Rows<'a, K> {
    x: &'a [K],
    columns: usize,
}

impl<K: Value> Rows<'_, K> {
    #[inline]
    fn get(&self, i: usize) -> &[K] {
        let start = i.saturating_mul(self.columns);
        self.x.get(start..start.saturating_add(self.columns)).unwrap_or(&[])
    }

    /// A place among `count` for row `i`, the same for equal rows.
    #[inline]
    fn place(&self, i: usize, count: usize) -> usize {
        let mixed = self.get(i).iter().fold(0u64, |mixed, x| {
            let bits = if x.is_number() { x.bits() } else { i as u64 };
            (mixed.rotate_left(32) ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        // The upper half is the one that all bits have a part in.
        ((mixed >> 32).wrapping_mul(count as u64) >> 32) as usize
    }

    #[inline]
    fn are_equal(&self, a: usize, b: usize) -> bool {
        self.get(a).iter().zip(self.get(b)).all(|(a, b)| a == b)
    }

    #[inline]
    fn before(&self, a: usize, b: usize) -> bool {
        if self.columns == 1 {
            return self.x.get(a).zip(self.x.get(b)).is_some_and(|(a, b)| (a < b) | (a.is_number() & !b.is_number()));
        }
        let pairs = self.get(a).iter().zip(self.get(b));
        pairs.map(|(a, b)| order(*a, *b)).find(|order| *order != Ordering::Equal) == Some(Ordering::Less)
    }

    /// Puts rows in order. `spare` is working memory, as long as there are rows.
    #[inline]
    fn sort(&self, rows: &mut [i32], spare: &mut [i32], [numbers, more]: [&mut [i64]; 2]) {
        if !VECTORS || !K::NARROW || self.columns != 1 {
            return sort_ordered(rows, spare, |a, b| self.before(a as usize, b as usize));
        }
        let (Some(numbers), Some(more)) = (numbers.get_mut(..rows.len()), more.get_mut(..rows.len())) else { return };
        for (number, row) in numbers.iter_mut().zip(&*rows) {
            let key = self.x.get(*row as usize).filter(|x| x.is_number()).map_or(i32::MAX, |x| x.ordered());
            *number = i64::from(key) << 32 | i64::from(*row);
        }
        sort_by_upper_half(numbers, more);
        rows.iter_mut().zip(numbers).for_each(|(row, number)| *row = *number as i32);
    }
}

/// NaN is greater than any number.
#[inline]
fn order<K: Value>(a: K, b: K) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_number().cmp(&a.is_number()))
}

fn unique_of<K: Value>(x: &[K], arguments: &mut Arguments<'_>) {
    let sorted = arguments.integer(0) != 0;
    let (rows, columns) = (arguments.input(0).dim(0), arguments.input(0).dim(1));
    let [first, kind, counts, working, ..] = &mut *arguments.outputs else { return };
    let (first, Some(kind), counts) = (first.get::<i64>(), kind.get::<i64>().get_mut(..rows), counts.get::<i64>())
    else {
        return;
    };
    let Some((table, firsts)) = working.get::<i32>().split_at_mut_checked(rows.saturating_mul(2)) else { return };
    let x = Rows { x, columns };
    let kinds = number(&x, table, kind, firsts);
    let (Some(firsts), Some((numbers, spare))) = (firsts.get_mut(..kinds), table.split_at_mut_checked(rows)) else {
        return;
    };
    if sorted {
        x.sort(firsts, spare, [&mut *first, &mut *counts]);
    }
    // The number of each kind: its place among the kinds in their final order.
    for (new, (slot, row)) in first.iter_mut().zip(&*firsts).enumerate() {
        *slot = i64::from(*row);
        let old = kind.get(*row as usize).copied().unwrap_or(0);
        if let Some(number) = numbers.get_mut(old as usize) {
            *number = new as i32;
        }
    }
    counts.fill(0);
    for slot in kind.iter_mut() {
        let name = numbers.get(*slot as usize).copied().unwrap_or(0);
        *slot = i64::from(name);
        if let Some(count) = counts.get_mut(name as usize) {
            *count += 1;
        }
    }
    if let Some(size) = arguments.sizes.first_mut() {
        *size = kinds;
    }
}

/// Numbers kinds in the order of their first rows; how many there are. `table` is longer than there are rows.
#[inline]
fn number<K: Value>(x: &Rows<'_, K>, table: &mut [i32], kind: &mut [i64], firsts: &mut [i32]) -> usize {
    // The first row of a kind, counted from 1, stands at its place or, where others came earlier, behind them.
    table.fill(0);
    let mut kinds = 0;
    for i in 0..kind.len() {
        let mut at = x.place(i, table.len());
        let own = loop {
            let Some(slot) = table.get_mut(at) else { break kinds };
            let Some(row) = slot.checked_sub(1).filter(|row| *row >= 0) else {
                *slot = i as i32 + 1;
                break kinds;
            };
            if x.are_equal(row as usize, i) {
                break kind.get(row as usize).map_or(0, |kind| *kind as usize);
            }
            at = if at + 1 < table.len() { at + 1 } else { 0 };
        };
        if let (true, Some(slot)) = (own == kinds, firsts.get_mut(own)) {
            *slot = i as i32;
            kinds += 1;
        }
        if let Some(slot) = kind.get_mut(i) {
            *slot = own as i64;
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::super::{Element, Operand, Target};
    use super::*;

    extern crate std;
    use std::vec::Vec;

    /// The first row and the number of rows of every kind, and the kind of every row.
    fn groups<K: Element>(x: &[K], columns: usize, sorted: i64) -> (Vec<(i64, i64)>, Vec<i64>) {
        let rows = x.len() / columns;
        let [mut first, mut kind, mut counts] = [0; 3].map(|_| std::vec![9i64; rows]);
        let (mut working, mut sizes) = (std::vec![0i32; 3 * rows], [0]);
        unique(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &[Operand::new(x, &[rows, columns])],
            outputs: &mut [
                Target::new(&mut first, &[rows]),
                Target::new(&mut kind, &[rows]),
                Target::new(&mut counts, &[rows]),
                Target::new(&mut working, &[3 * rows]),
            ],
            integers: &[sorted],
            floats: &[],
            sizes: &mut sizes,
        });
        (first.into_iter().zip(counts).take(sizes[0]).collect(), kind)
    }

    #[test]
    fn many_rows_are_grouped() {
        let x: Vec<i64> = (0..2000).map(|i| (i * i * 7919 % 1009 - 500) << (i % 3 * 20)).collect();
        let narrow: Vec<f32> = x.iter().map(|x| *x as f32).collect();
        for columns in [1usize, 2] {
            for sorted in [0, 1] {
                let mut kinds: Vec<&[i64]> = Vec::new();
                x.chunks(columns).for_each(|row| {
                    if !kinds.contains(&row) {
                        kinds.push(row)
                    }
                });
                if sorted == 1 {
                    kinds.sort();
                }
                let of = |row: &[i64]| kinds.iter().position(|kind| *kind == row).unwrap() as i64;
                let kind: Vec<i64> = x.chunks(columns).map(of).collect();
                let first = |i: i64| kind.iter().position(|kind| *kind == i).unwrap() as i64;
                let count = |i: i64| kind.iter().filter(|kind| **kind == i).count() as i64;
                let want: Vec<(i64, i64)> = (0..kinds.len() as i64).map(|i| (first(i), count(i))).collect();
                assert_eq!(groups(&x, columns, sorted), (want.clone(), kind.clone()), "{columns} {sorted}");
                assert_eq!(groups(&narrow, columns, sorted), (want, kind), "{columns} {sorted}");
            }
        }
    }

    #[test]
    fn every_nan_is_a_kind_of_its_own_and_the_last() {
        let x = [f32::NAN, 2.0, f32::INFINITY, -0.0, f32::NAN, 0.0, -1.0];
        let sorted = std::vec![(6, 1), (3, 2), (1, 1), (2, 1), (0, 1), (4, 1)];
        assert_eq!(groups(&x, 1, 1), (sorted.clone(), std::vec![4, 2, 3, 1, 5, 1, 0]));
        assert_eq!(groups(&x.map(f64::from), 1, 1).0, sorted);
        let pairs = [0.0, f32::NAN, 0.0, 1.0, -0.0, 1.0, 0.0, f32::NAN];
        assert_eq!(groups(&pairs, 2, 1), (std::vec![(1, 2), (0, 1), (3, 1)], std::vec![1, 0, 0, 2]));
    }

    #[test]
    fn kinds_are_numbered_in_either_order() {
        let x = [3i32, 1, 3, 2, 1];
        assert_eq!(groups(&x, 1, 1), (std::vec![(1, 2), (3, 1), (0, 2)], std::vec![2, 0, 2, 1, 0]));
        assert_eq!(groups(&x, 1, 0), (std::vec![(0, 2), (1, 2), (3, 1)], std::vec![0, 1, 0, 2, 1]));
    }
}
