//! Which products of packed rows are made of halves, by Strassen's algorithm: those whose halves fill tiles and panels, and whose
//! weights are of about the same size, so that sums of them lose no digits.

use super::{FEW_COLUMNS, LONG, products, shape, size};
use crate::program::Program;
use crate::program::kernel::{Kernel, KernelKind, Method};
use include_ir_runtime::__private::v1 as runtime;

/// Fewer rows fill no tiles of a half.
const ROWS: i64 = 16;
/// Limits of the greatest elements of columns, as halves of exponents.
const GREATEST: u8 = (runtime::Contraction::GREATEST / 2) as u8;
const APART: u8 = (runtime::Contraction::APART / 2) as u8;

/// Floats of working memory, where halves pay.
pub(super) fn working_memory(program: &Program, kernel: &Kernel) -> Option<usize> {
    let KernelKind::Contraction { method: Method::Direct, panel, packed, at_run_time: false, .. } = &kernel.kind else {
        return None;
    };
    let description = kernel.describe(program)?;
    let (m, (k, cols)) = (size(&description.rows).as_const()?, products(&description)?);
    if m < ROWS || k < LONG || cols < FEW_COLUMNS || !description.bounds.is_empty() {
        return None;
    }
    let sizes = (usize::try_from(m).ok()?, usize::try_from(k).ok()?, usize::try_from(cols).ok()?);
    let shape = shape(sizes, *panel);
    let weights = program.buffer(*packed).constant()?.bytes.as_slice().as_chunks::<4>().0;
    let one = runtime::packed_len(shape.cols, shape.depth, shape.panel);
    let even = shape.is_halved() && weights.chunks(one.max(1)).all(|weights| are_even(&shape, weights));
    even.then(|| shape.strassen_len())
}

/// Whether the columns of every two panels that are added are near enough to each other.
fn are_even(shape: &runtime::Contraction, weights: &[[u8; 4]]) -> bool {
    let (width, k, pairs) = (shape.panel, shape.depth, shape.cols / shape.panel / 2);
    let panels: Vec<_> = weights.chunks(width * k).map(|panel| greatest(panel, width)).collect();
    let near = |a: u8, b: u8| a.max(b) <= GREATEST && (a == 0 || b == 0 || a.abs_diff(b) <= APART);
    let pairs = panels.iter().take(pairs).zip(panels.iter().skip(pairs));
    pairs.flat_map(|(left, right)| left.iter().zip(right)).all(|(a, b)| near(*a, *b))
}

/// The greatest element of every column of a panel: half its exponent.
// Weights have a hundred million elements, and build scripts are not optimised: the inner loop calls nothing.
fn greatest(panel: &[[u8; 4]], width: usize) -> Vec<u8> {
    let mut greatest = vec![0u8; width];
    let most = greatest.as_mut_slice();
    let (mut at, len) = (0, panel.len() - panel.len() % width);
    while at < len {
        let mut i = 0;
        while i < width {
            let size = panel[at + i][3] & 0x7f;
            if size > most[i] {
                most[i] = size;
            }
            i += 1;
        }
        at += width;
    }
    greatest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_added_are_near_each_other_and_finite() {
        let shape = runtime::Contraction { depth: 32, cols: 100, panel: 32, ..runtime::Contraction::NEW };
        let weights = |change: &dyn Fn(usize) -> f32| {
            let len = runtime::packed_len(100, 32, 32);
            (0..len).map(|i| change(i).to_le_bytes()).collect::<Vec<_>>()
        };
        let is_even = |change: &dyn Fn(usize) -> f32| are_even(&shape, &weights(change));
        let column = |i: usize| i / (32 * 32) * 32 + i % 32;
        assert!(is_even(&|i| 0.01 * i as f32));
        // Panels 0 and 1 are added; the third has no other.
        assert!(!is_even(&|i| if column(i) == 3 { 1e-5 } else { 1.0 }));
        assert!(!is_even(&|i| if column(i) == 35 { 1e5 } else { -1.0 }));
        assert!(is_even(&|i| if column(i) % 32 == 3 { 1e-5 } else { 1.0 }));
        assert!(is_even(&|i| if column(i) == 67 { 1e-5 } else { 1.0 }));
        assert!(is_even(&|i| if column(i) == 3 { 0.0 } else { 1.0 }));
        assert!(!is_even(&|i| if i == 7 { f32::NAN } else { 1.0 }));
        assert!(!is_even(&|i| if i == 1100 { f32::NEG_INFINITY } else { 1.0 }));
        assert!(!is_even(&|_| 1e36));
    }
}
