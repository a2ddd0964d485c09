//! The different rows of a matrix.
use super::sort::sort_by;
use super::{Arguments, Element, Elements};
use core::cmp::Ordering;

/// The different rows of input 0, `[rows, columns]`: outputs 0 (i64) the first row of each kind, 1 (i64) the kind of every row,
/// 2 (i64) how many rows there are of each kind. Size 0 is the number of kinds. Output 3 (i32) is working memory: three times
/// the number of rows.
///
/// Integers: 1 to number kinds in ascending order, 0 in the order of their first rows.
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

fn unique_of<K: Element + PartialOrd>(x: &[K], arguments: &mut Arguments<'_>) {
    let sorted = arguments.integer(0) != 0;
    let (rows, columns) = (arguments.input(0).dim(0), arguments.input(0).dim(1));
    let [first, kind, counts, order, ..] = &mut *arguments.outputs else { return };
    let (first, kind, counts) = (first.get::<i64>(), kind.get::<i64>(), counts.get::<i64>());
    let Some((order, rest)) = order.get::<i32>().split_at_mut_checked(rows) else { return };
    let Some((scratch, firsts)) = rest.split_at_mut_checked(rows) else { return };
    let row = |i: i32| {
        let start = (i as usize).saturating_mul(columns);
        x.get(start..start.saturating_add(columns)).unwrap_or(&[])
    };
    let compare = |a: i32, b: i32| row(a).partial_cmp(row(b)).unwrap_or(Ordering::Less);
    order.iter_mut().zip(0..).for_each(|(slot, i)| *slot = i);
    sort_by(order, scratch, |a, b| compare(a, b) == Ordering::Less);
    // Runs of equal rows: the sort was stable, so the first one of a run comes first.
    let (mut kinds, mut previous) = (0usize, None);
    for i in order.iter().copied() {
        if previous.is_none_or(|p| compare(p, i) != Ordering::Equal) {
            if let Some(slot) = firsts.get_mut(kinds) {
                *slot = i;
            }
            kinds += 1;
        }
        previous = Some(i);
        if let Some(slot) = kind.get_mut(i as usize) {
            *slot = kinds as i64 - 1;
        }
    }
    // The number of each kind: its place among the kinds in their final order.
    let (names, spare) = (order, scratch);
    names.iter_mut().zip(0..).for_each(|(slot, i)| *slot = i);
    if let (false, Some(names)) = (sorted, names.get_mut(..kinds)) {
        sort_by(names, spare, |a, b| firsts.get(a as usize) < firsts.get(b as usize));
    }
    for (new, old) in names.iter().take(kinds).enumerate() {
        if let Some(slot) = spare.get_mut(*old as usize) {
            *slot = new as i32;
        }
        if let (Some(slot), Some(at)) = (first.get_mut(new), firsts.get(*old as usize)) {
            *slot = i64::from(*at);
        }
    }
    counts.fill(0);
    for slot in kind.iter_mut() {
        let name = spare.get(*slot as usize).copied().unwrap_or(0);
        *slot = i64::from(name);
        if let Some(count) = counts.get_mut(name as usize) {
            *count += 1;
        }
    }
    if let Some(size) = arguments.sizes.first_mut() {
        *size = kinds;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, Target};
    use super::*;

    #[test]
    fn rows_are_grouped() {
        let run = |sorted: i64| {
            let (mut first, mut kind, mut counts, mut order, mut sizes) =
                ([9i64; 5], [9i64; 5], [9i64; 5], [0i32; 15], [0]);
            unique(Arguments {
                inputs: &[Operand::new(&[3i32, 1, 3, 2, 1], &[5, 1])],
                outputs: &mut [
                    Target::new(&mut first, &[5]),
                    Target::new(&mut kind, &[5]),
                    Target::new(&mut counts, &[5]),
                    Target::new(&mut order, &[15]),
                ],
                integers: &[sorted],
                floats: &[],
                sizes: &mut sizes,
            });
            (sizes[0], [first[0], first[1], first[2]], kind, [counts[0], counts[1], counts[2]])
        };
        assert_eq!(run(1), (3, [1, 3, 0], [2, 0, 2, 1, 0], [2, 1, 2]));
        assert_eq!(run(0), (3, [0, 1, 3], [0, 1, 0, 2, 1], [2, 2, 1]));
    }
}
