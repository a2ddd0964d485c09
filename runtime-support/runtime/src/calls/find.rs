//! Where elements are, and which ones there are.
use super::Arguments;
use crate::blocks::blocks_mut;

/// Positions of the elements of input 0 (u8) that are not zero, in row-major order: output 0 (i64) is `[rank, size 0]`.
#[inline]
pub fn non_zero(arguments: Arguments<'_>) {
    let x = arguments.input(0);
    let flags = x.get::<u8>();
    let found = || flags.iter().enumerate().filter(|(_, flag)| **flag != 0).map(|(i, _)| i);
    let count = found().count();
    let (Some(size), Some(out)) = (arguments.sizes.first_mut(), arguments.outputs.first_mut()) else { return };
    *size = count;
    let mut stride = flags.len();
    for (dim, row) in x.dims.iter().zip(blocks_mut(out.get::<i64>(), count)) {
        stride = stride.checked_div(*dim).unwrap_or(0);
        for (slot, at) in row.iter_mut().zip(found()) {
            *slot = at.checked_div(stride).and_then(|i| i.checked_rem(*dim)).unwrap_or(0) as i64;
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
            inputs: &[Operand::new(&[0u8, 1, 0, 1, 0, 1], &[2, 3])],
            outputs: &mut [Target::new(&mut positions, &[2, 6])],
            integers: &[],
            floats: &[],
            sizes: &mut sizes,
        });
        assert_eq!((sizes, &positions[..6]), ([3], &[0, 1, 1, 1, 0, 2][..]));
    }
}
