//! Addresses and valid taps of a block of output rows.
use super::{Bound, Contraction};

/// Rows of a block whose addresses are tabled; also bounds the stack that a contraction takes.
pub(crate) const BLOCK: usize = if cfg!(target_pointer_width = "64") { 240 } else { 24 };
/// Addresses of the rows of one block.
pub(crate) struct Block {
    /// Element of the left operand at tap 0.
    pub a: [isize; BLOCK],
    /// Element of the result.
    pub out: [usize; BLOCK],
    /// Element of the residual.
    pub residual: [usize; BLOCK],
    /// Per bound: first valid index of its tap axis ...
    pub first: [[u16; BLOCK]; 3],
    /// ... and the number of valid ones.
    pub count: [[u16; BLOCK]; 3],
    /// Whether all taps are valid.
    pub inside: [bool; BLOCK],
}

impl Block {
    /// Nothing tabled yet; all taps valid.
    pub fn new() -> Self {
        Block {
            a: [0; BLOCK],
            out: [0; BLOCK],
            residual: [0; BLOCK],
            first: [[0; BLOCK]; 3],
            count: [[0; BLOCK]; 3],
            inside: [true; BLOCK],
        }
    }

    /// Bit i set: row `row + i` is not in the padding at this index of tap axis `axis`.
    #[inline(always)]
    pub fn valid_rows<const MR: usize>(&self, bounds: &[Bound; 3], row: usize, axis: u8, index: usize) -> u32 {
        let mut mask = (1u32 << MR) - 1;
        for (b, bound) in bounds.iter().enumerate() {
            // Bounds without a tap axis count as bounds of the first.
            if bound.limit != 0 && (bound.tap == axis || axis == 0 && bound.tap == Bound::NO_AXIS) {
                for i in 0..MR {
                    let (first, count) = (self.first[b][row + i], self.count[b][row + i]);
                    mask &= !(u32::from((index as u16).wrapping_sub(first) >= count) << i);
                }
            }
        }
        mask
    }
}

/// index * stride, wrapping.
pub(crate) fn step(index: usize, stride: isize) -> isize {
    (index as isize).wrapping_mul(stride)
}

/// Tables the addresses of rows `first..first + n`.
pub(crate) fn fill(c: &Contraction, block: &mut Block, first: usize, n: usize) {
    let [_, r1, r2, r3] = c.rows;
    let mut index = [
        first / r3.extent / r2.extent / r1.extent,
        first / r3.extent / r2.extent % r1.extent,
        first / r3.extent % r2.extent,
        first % r3.extent,
    ];
    let bounded = c.bounds.iter().any(|bound| bound.limit != 0);
    for i in 0..n {
        let (mut a, mut out, mut residual) = (0isize, 0, 0);
        for (axis, index) in c.rows.iter().zip(index) {
            // Wrapping: intermediate sums may leave the address space of small machines, the final ones do not.
            a = a.wrapping_add(step(index, axis.a));
            out = index.wrapping_mul(axis.out).wrapping_add(out);
            residual = index.wrapping_mul(axis.residual).wrapping_add(residual);
        }
        (block.a[i], block.out[i], block.residual[i]) = (a, out, residual);
        if bounded {
            fill_bounds(c, block, i, &index);
        }
        for axis in [3, 2, 1, 0] {
            index[axis] += 1;
            if index[axis] < c.rows[axis].extent {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// Tables the valid taps of row `i` of the block.
fn fill_bounds(c: &Contraction, block: &mut Block, i: usize, index: &[usize; 4]) {
    let mut inside = true;
    for (b, bound) in c.bounds.iter().enumerate() {
        if bound.limit == 0 {
            continue;
        }
        let taps = if bound.tap == Bound::NO_AXIS { 1 } else { c.taps[usize::from(bound.tap & 3)].extent };
        let row = if bound.row == Bound::NO_AXIS { 0 } else { index[usize::from(bound.row & 3)] };
        let (first, end) = valid(bound, row, taps);
        block.first[b][i] = first as u16;
        block.count[b][i] = (end - first) as u16;
        inside &= first == 0 && end as usize == taps;
    }
    block.inside[i] = inside;
}

/// The tap indices first..end for which `0 <= offset + row * stride + tap * dilation < limit`.
fn valid(bound: &Bound, row: usize, taps: usize) -> (i64, i64) {
    let taps = taps as i64;
    let position = (row as i64).checked_mul(bound.stride as i64).and_then(|x| x.checked_add(bound.offset as i64));
    // An overflow is far outside: nothing is valid.
    let Some((low, high)) = position.and_then(|x| Some((x.checked_neg()?, (bound.limit as i64).checked_sub(x)?)))
    else {
        return (0, 0);
    };
    let (first, end) = match bound.dilation as i64 {
        0 if low <= 0 && high > 0 => (0, taps),
        0 => (0, 0),
        1 => (low, high),
        step if step > 0 => (ceil_div(low, step), ceil_div(high, step)),
        // position + tap * step >= 0 and < limit, with the signs turned.
        step => (
            ceil_div(high.saturating_neg().saturating_add(1), -step),
            ceil_div(low.saturating_neg().saturating_add(1), -step),
        ),
    };
    let first = first.clamp(0, taps);
    (first, end.clamp(first, taps))
}

/// ceil(a / b) for b > 0.
fn ceil_div(a: i64, b: i64) -> i64 {
    a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0)
}
