//! Where elements are, and which ones there are.
use super::Arguments;
use crate::blocks::blocks;

/// Positions of the elements of input 0 (u8) that are not zero, in row-major order: output 0 (i64) is `[rank, size 0]`.
#[inline]
pub fn non_zero(arguments: Arguments<'_>) {
    let x = arguments.input(0);
    let flags = x.get::<u8>();
    let count = flags.iter().map(|flag| usize::from(*flag != 0)).sum();
    let (Some(size), Some(out)) = (arguments.sizes.first_mut(), arguments.outputs.first_mut()) else { return };
    *size = count;
    let Some((width, outer)) = x.dims.split_last() else { return };
    let (above, last) = out.get::<i64>().split_at_mut_checked(outer.len().saturating_mul(count)).unwrap_or_default();
    let mut found = 0usize;
    for (line, flags) in blocks(flags, *width).enumerate() {
        let first = found;
        for (at, flag) in (0..).zip(flags) {
            // Written in any case: a position that does not count is overwritten by the next one.
            if let Some(slot) = last.get_mut(found) {
                *slot = at;
            }
            found += usize::from(*flag != 0);
        }
        let mut rest = line;
        for (row, dim) in (0..outer.len()).zip(outer).rev() {
            let at = rest.checked_rem(*dim).unwrap_or(0);
            rest = rest.checked_div(*dim).unwrap_or(0);
            let row = row.saturating_mul(count);
            above.get_mut(row + first..row + found).unwrap_or_default().fill(at as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, Target};
    use super::*;

    #[test]
    fn positions_come_in_row_major_order() {
        let (mut positions, mut sizes) = ([0i64; 12], [0]);
        non_zero(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &[Operand::new(&[0u8, 1, 0, 1, 0, 1], &[2, 3])],
            outputs: &mut [Target::new(&mut positions, &[2, 6])],
            integers: &[],
            floats: &[],
            sizes: &mut sizes,
        });
        assert_eq!((sizes, &positions[..6]), ([3], &[0, 1, 1, 1, 0, 2][..]));
        let (mut positions, flags) = ([-1i64; 36], [0u8, 1, 0, 0, 0, 0, 7, 1, 0, 0, 0, 255]);
        non_zero(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &[Operand::new(&flags, &[3, 2, 2])],
            outputs: &mut [Target::new(&mut positions, &[3, 12])],
            integers: &[],
            floats: &[],
            sizes: &mut sizes,
        });
        assert_eq!((sizes, &positions[..12]), ([4], &[0, 1, 1, 2, 0, 1, 1, 1, 1, 0, 1, 1][..]));
    }
}
