//! Matrices.
use super::{Arguments, Element, Elements};
use crate::blocks::{blocks, blocks_mut};

/// The inverses of the square matrices of input 0, `[.., n, n]`: output 0. Output 1 (f64) is working memory of `[n, 2 n]`.
/// A matrix without inverse gives infinities and NaN.
///
/// Integers: 1 to invert the transposed matrices.
#[inline]
pub fn inverse(mut arguments: Arguments<'_>) {
    match arguments.input(0).elements {
        Elements::F32(x) => inverse_of(x, &mut arguments, f64::from, |value| value as f32),
        Elements::F64(x) => inverse_of(x, &mut arguments, |value| value, |value| value),
        _ => {}
    }
}

fn inverse_of<T: Element>(x: &[T], arguments: &mut Arguments<'_>, widen: fn(T) -> f64, narrow: fn(f64) -> T) {
    let transposed = arguments.integer(0) != 0;
    let n = arguments.input(0).dims.last().copied().unwrap_or(0);
    if n == 0 {
        return;
    }
    let [out, rows, ..] = &mut *arguments.outputs else { return };
    let (out, rows): (&mut [T], &mut [f64]) = (out.get(), rows.get());
    for (matrix, out) in blocks(x, n * n).zip(blocks_mut(out, n * n)) {
        // The matrix beside the identity: elimination turns the left half into the identity, the right half into the inverse.
        for (i, row) in blocks_mut(rows, 2 * n).enumerate() {
            let (left, right) = row.split_at_mut_checked(n).unwrap_or((&mut [], &mut []));
            for (j, slot) in left.iter_mut().enumerate() {
                let at = if transposed { j * n + i } else { i * n + j };
                *slot = matrix.get(at).copied().map_or(0.0, widen);
            }
            right.iter_mut().enumerate().for_each(|(j, slot)| *slot = if i == j { 1.0 } else { 0.0 });
        }
        (0..n).for_each(|column| eliminate(rows, n, column));
        for (row, out) in blocks(rows, 2 * n).zip(blocks_mut(out, n)) {
            row.iter().skip(n).zip(out).for_each(|(value, out)| *out = narrow(*value));
        }
    }
}

/// Makes `column` that of the identity: the row with the largest element there becomes the pivot.
#[inline]
fn eliminate(rows: &mut [f64], n: usize, column: usize) {
    let (mut pivot, mut largest) = (column, -1.0);
    for (i, row) in blocks(rows, 2 * n).enumerate().skip(column) {
        let size = row.get(column).map_or(0.0, |value| if *value < 0.0 { -*value } else { *value });
        if size > largest {
            (pivot, largest) = (i, size);
        }
    }
    let Some((above, from_column)) = rows.split_at_mut_checked(column * 2 * n) else { return };
    let Some((row, below)) = from_column.split_at_mut_checked(2 * n) else { return };
    if let Some(other) = pivot.checked_sub(column + 1).and_then(|i| blocks_mut(below, 2 * n).nth(i)) {
        row.iter_mut().zip(other).for_each(|(a, b)| core::mem::swap(a, b));
    }
    let scale = row.get(column).copied().unwrap_or(0.0);
    row.iter_mut().for_each(|value| *value /= scale);
    for other in blocks_mut(above, 2 * n).chain(blocks_mut(below, 2 * n)) {
        let factor = other.get(column).copied().unwrap_or(0.0);
        other.iter_mut().zip(&*row).for_each(|(value, pivot)| *value -= factor * pivot);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, Target};
    use super::*;

    #[test]
    fn rows_are_exchanged_where_the_diagonal_is_zero() {
        let (mut out, mut rows) = ([0f32; 9], [0f64; 18]);
        inverse(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &[Operand::new(&[0f32, 2.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 8.0], &[3, 3])],
            outputs: &mut [Target::new(&mut out, &[3, 3]), Target::new(&mut rows, &[3, 6])],
            integers: &[0],
            floats: &[],
            sizes: &mut [],
        });
        assert_eq!(out, [0.0, 0.25, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.125]);
    }
}
