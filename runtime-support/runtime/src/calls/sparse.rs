//! Sparse matrices as lists of positions.
use super::Arguments;
use super::sort::sort_by;

/// Gives every empty row of a sparse matrix an element. Input 0 (i64) is the row of every element. Outputs, by the new elements
/// in the order of their rows: 0 (i64) the element that it was, -1 for a new one; 1 (i64) its row; by row: 2 (u8) whether it
/// was empty. Size 0 is the number of elements. Output 3 (i32) is working memory: twice the number of old elements.
#[inline]
pub fn fill_empty_rows(arguments: Arguments<'_>) {
    let rows = arguments.input(0).get::<i64>();
    let [source, row, empty, order, ..] = arguments.outputs else { return };
    let Some((order, scratch)) = order.get::<i32>().split_at_mut_checked(rows.len()) else { return };
    order.iter_mut().zip(0..).for_each(|(slot, i)| *slot = i);
    sort_by(order, scratch, |a, b| rows.get(a as usize) < rows.get(b as usize));
    let row_of = |i: &i32| rows.get(*i as usize).copied().unwrap_or(-1);
    let (mut old, mut count) = (order.iter().copied().skip_while(|i| row_of(i) < 0).peekable(), 0usize);
    let mut slots = source.get::<i64>().iter_mut().zip(row.get::<i64>());
    for (at, empty) in (0i64..).zip(empty.get::<u8>()) {
        *empty = 1;
        while let Some(i) = old.next_if(|i| row_of(i) == at) {
            *empty = 0;
            count += 1;
            if let Some((source, row)) = slots.next() {
                (*source, *row) = (i64::from(i), at);
            }
        }
        if *empty != 0 {
            count += 1;
            if let Some((source, row)) = slots.next() {
                (*source, *row) = (-1, at);
            }
        }
    }
    if let Some(size) = arguments.sizes.first_mut() {
        *size = count;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, Target};
    use super::*;

    #[test]
    fn empty_rows_get_an_element() {
        let (mut source, mut row, mut empty, mut order, mut sizes) = ([9i64; 7], [9i64; 7], [9u8; 4], [0i32; 6], [0]);
        fill_empty_rows(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &[Operand::new(&[2i64, 0, 2], &[3])],
            outputs: &mut [
                Target::new(&mut source, &[7]),
                Target::new(&mut row, &[7]),
                Target::new(&mut empty, &[4]),
                Target::new(&mut order, &[6]),
            ],
            integers: &[],
            floats: &[],
            sizes: &mut sizes,
        });
        assert_eq!((sizes, empty), ([5], [0, 1, 0, 1]));
        assert_eq!((&source[..5], &row[..5]), (&[1, -1, 0, 2, -1][..], &[0, 1, 2, 2, 3][..]));
    }
}
