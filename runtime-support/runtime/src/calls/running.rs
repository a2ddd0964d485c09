//! Sums of all elements up to each one along an axis.
use super::{Arguments, Element, Elements};
use crate::blocks::{blocks, blocks_mut};

/// Elements that are summed on their own before the total up to them is added: one addition of so many waits for another.
const BLOCK: usize = 8;

/// The sums of input 0 along an axis: output 0, of the same type and dimensions. Integers wrap.
///
/// Integers: axis; 1 to leave out the element itself; 1 to sum from the end. An input 1 (i64) holds the axis instead; below
/// zero it counts from the last one.
#[inline]
pub fn running_sum(mut arguments: Arguments<'_>) {
    match arguments.input(0).elements {
        Elements::F32(x) => sums(x, &mut arguments, 0.0, |a, b| a + b),
        Elements::F64(x) => sums(x, &mut arguments, 0.0, |a, b| a + b),
        Elements::I32(x) => sums(x, &mut arguments, 0, i32::wrapping_add),
        Elements::I64(x) => sums(x, &mut arguments, 0, i64::wrapping_add),
        Elements::U8(_) => {}
    }
}

/// How sums run.
#[derive(Clone, Copy)]
struct Way {
    count: usize,
    exclusive: bool,
    reverse: bool,
}

fn sums<T: Element>(x: &[T], arguments: &mut Arguments<'_>, zero: T, add: impl Fn(T, T) -> T + Copy) {
    let input = arguments.input(0);
    let (rank, named) = (input.dims.len() as i64, arguments.input(1).get::<i64>().first().copied());
    let axis = named.map_or(arguments.integer(0), |axis| axis.checked_rem_euclid(rank).unwrap_or(0));
    let Ok(axis) = usize::try_from(axis) else { return };
    let inner: usize = input.dims.iter().skip(axis.saturating_add(1)).product();
    let way = Way { count: input.dim(axis), exclusive: arguments.integer(1) != 0, reverse: arguments.integer(2) != 0 };
    let Some(out) = arguments.outputs.first_mut().map(|out| out.get::<T>()) else { return };
    if inner > 1 {
        let block = way.count.saturating_mul(inner);
        blocks(x, block).zip(blocks_mut(out, block)).for_each(|(x, out)| way.lines(x, out, inner, zero, add));
        return;
    }
    blocks(x, way.count).zip(blocks_mut(out, way.count)).for_each(|(x, out)| way.row(x, out, zero, add));
}

impl Way {
    /// The sums of a row.
    #[inline(always)]
    fn row<T: Element>(self, x: &[T], out: &mut [T], zero: T, add: impl Fn(T, T) -> T + Copy) {
        if self.reverse {
            let ((x_rest, x), (rest, out)) = (x.as_rchunks(), out.as_rchunks_mut());
            let whole = x.iter().zip(out).rev();
            let total = whole.fold(zero, |total, (x, out)| self.block::<BLOCK, T>(x, out, [total, zero], add));
            let rest = x_rest.as_chunks().0.iter().zip(rest.as_chunks_mut().0).rev();
            rest.fold(total, |total, (x, out)| self.block::<1, T>(x, out, [total, zero], add));
        } else {
            let ((x, x_rest), (out, rest)) = (x.as_chunks(), out.as_chunks_mut());
            let whole = x.iter().zip(out);
            let total = whole.fold(zero, |total, (x, out)| self.block::<BLOCK, T>(x, out, [total, zero], add));
            let rest = x_rest.as_chunks().0.iter().zip(rest.as_chunks_mut().0);
            rest.fold(total, |total, (x, out)| self.block::<1, T>(x, out, [total, zero], add));
        }
    }

    /// The sums of a block, from `total` on; returns the last one.
    #[inline(always)]
    fn block<const N: usize, T: Element>(
        self,
        x: &[T; N],
        out: &mut [T; N],
        [total, zero]: [T; 2],
        add: impl Fn(T, T) -> T,
    ) -> T {
        let mut within = zero;
        for step in 0..N {
            let i = if self.reverse { N - 1 - step } else { step };
            if let (Some(value), Some(slot)) = (x.get(i), out.get_mut(i)) {
                let before = within;
                within = add(before, *value);
                *slot = add(total, if self.exclusive { before } else { within });
            }
        }
        add(total, within)
    }

    /// The sums of lines of `inner` elements, each line added to the sums before it.
    #[inline(always)]
    fn lines<T: Element>(self, x: &[T], out: &mut [T], inner: usize, zero: T, add: impl Fn(T, T) -> T) {
        let line = |step: usize| inner * if self.reverse { self.count - 1 - step } else { step };
        for step in 0..self.count {
            let at = line(step);
            let Some(before) = step.checked_sub(1).map(line) else {
                let own = x.get(at..at + inner).unwrap_or_default();
                let first = out.get_mut(at..at + inner).unwrap_or_default();
                first.iter_mut().zip(own).for_each(|(out, x)| *out = if self.exclusive { zero } else { *x });
                continue;
            };
            let values = if self.exclusive { before } else { at };
            let (low, high) = out.split_at_mut_checked(at.max(before)).unwrap_or_default();
            let (to, sums) = if before < at {
                (high, low.get(before..))
            } else {
                (low.get_mut(at..).unwrap_or_default(), Some(&*high))
            };
            let values = x.get(values..values + inner).unwrap_or_default();
            let sums = sums.unwrap_or_default();
            to.iter_mut().zip(sums).zip(values).for_each(|((out, sum), value)| *out = add(*sum, *value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, Target};
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn run(x: &[i32], dims: &[usize], axis: &[i64], integers: &[i64]) -> Vec<i32> {
        let mut out = std::vec![-1; x.len()];
        let inputs = [Operand::new(x, dims), Operand::new(axis, &[1])];
        running_sum(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: inputs.get(..1 + axis.len()).unwrap(),
            outputs: &mut [Target::new(&mut out, dims)],
            integers,
            floats: &[],
            sizes: &mut [],
        });
        out
    }

    #[test]
    fn sums_run_along_any_axis_both_ways() {
        for dims in [[3usize, 5, 1], [1, 70, 1], [19, 7, 1], [2, 9, 11], [2, 1, 3], [4, 0, 2], [8, 3, 1], [1, 1, 1]] {
            let [outer, count, inner] = dims;
            let x: Vec<i32> = (0..outer * count * inner).map(|i| (i as i32).wrapping_mul(1_234_567_891)).collect();
            for (exclusive, reverse) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let mut expected = std::vec![0i32; x.len()];
                for (place, value) in x.iter().enumerate() {
                    let (lane, at) = (place / (count * inner) * count * inner + place % inner, place / inner % count);
                    let before = (0..count).filter(|i| if reverse == 1 { *i >= at } else { *i <= at });
                    let sum = before.fold(0i32, |sum, i| sum.wrapping_add(x[lane + i * inner]));
                    expected[place] = if exclusive == 1 { sum.wrapping_sub(*value) } else { sum };
                }
                assert_eq!(run(&x, &dims, &[], &[1, exclusive, reverse]), expected, "{dims:?} {exclusive} {reverse}");
                assert_eq!(run(&x, &dims, &[-2], &[0, exclusive, reverse]), expected, "{dims:?} {exclusive} {reverse}");
            }
        }
    }
}
