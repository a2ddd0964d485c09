//! Sorting: the positions of elements in the order of their values.
use super::{Arguments, Element, Elements};
use crate::blocks::{blocks, blocks_mut};

/// Sorts positions so that none comes behind one that `before` puts behind it; equal ones keep their order. `scratch` has
/// the length of `order`. A merge sort from the bottom up: no recursion, no panic whatever `before` says.
pub fn sort_by(order: &mut [i32], scratch: &mut [i32], before: impl Fn(i32, i32) -> bool) {
    let length = order.len().min(scratch.len());
    let (Some(mut from), Some(mut to)) = (order.get_mut(..length), scratch.get_mut(..length)) else { return };
    let (mut width, mut swapped) = (1usize, false);
    while width < length {
        for (run, out) in blocks(from, width.saturating_mul(2)).zip(blocks_mut(to, width.saturating_mul(2))) {
            let (left, right) = run.split_at_checked(width).unwrap_or((run, &[]));
            merge(left, right, out, &before);
        }
        core::mem::swap(&mut from, &mut to);
        swapped = !swapped;
        width = width.saturating_mul(2);
    }
    if swapped {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
}

/// Which side is next is computed, not branched on: it is as good as random.
#[inline]
fn merge(left: &[i32], right: &[i32], out: &mut [i32], before: impl Fn(i32, i32) -> bool) {
    let (mut l, mut r) = (0usize, 0usize);
    let mut slots = out.iter_mut();
    let mixed = left.last().zip(right.first()).is_some_and(|(last, first)| before(*first, *last));
    while mixed && let (Some(a), Some(b)) = (left.get(l), right.get(r)) {
        let Some(slot) = slots.next() else { return };
        let take_right = before(*b, *a);
        *slot = if take_right { *b } else { *a };
        l += usize::from(!take_right);
        r += usize::from(take_right);
    }
    let rest = left.iter().skip(l).chain(right.iter().skip(r));
    slots.zip(rest).for_each(|(slot, position)| *slot = *position);
}

/// Up to this many results, the best ones are kept sorted while the elements pass by.
const INSERTED: usize = 32;

/// The positions of the largest elements of input 0 along an axis: output 0 (i32), as many as it has along the axis.
///
/// Integers: axis; 1 for the smallest instead of the largest; 1 to order positions ascending instead of by value. Output 1
/// (i32) is working memory: twice the size of the axis. Of equal elements the first ones win.
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

fn top_k_of<K: Element + PartialOrd>(x: &[K], arguments: &mut Arguments<'_>) {
    let (axis, smallest, by_position) = (arguments.size(0), arguments.integer(1) != 0, arguments.integer(2) != 0);
    let dims = arguments.input(0).dims;
    let inner: usize = dims.iter().skip(axis + 1).product();
    let count = arguments.input(0).dim(axis);
    let [out, scratch, ..] = &mut *arguments.outputs else { return };
    let k = out.dim(axis);
    let Some((order, spare)) = scratch.get::<i32>().split_at_mut_checked(count) else { return };
    let results = blocks_mut(out.get::<i32>(), k.saturating_mul(inner));
    for (block, out) in blocks(x, count.saturating_mul(inner)).zip(results) {
        for column in 0..inner {
            let key = |i: i32| block.get(i as usize * inner + column);
            let before = |a: i32, b: i32| match (key(a), key(b)) {
                (Some(a), Some(b)) => {
                    if smallest {
                        a < b
                    } else {
                        a > b
                    }
                }
                _ => false,
            };
            let best = select(order, spare, k, before);
            if by_position {
                ascending(order.get_mut(..best).unwrap_or_default(), spare);
            }
            for (slot, position) in out.iter_mut().skip(column).step_by(inner.max(1)).zip(&*order) {
                *slot = *position;
            }
        }
    }
}

/// Sorts positions themselves.
#[inline]
fn ascending(order: &mut [i32], scratch: &mut [i32]) {
    sort_by(order, scratch, |a, b| a < b);
}

/// Puts the first `k` of all positions of `order` at its start, in order; how many there are.
#[inline]
fn select(order: &mut [i32], spare: &mut [i32], k: usize, before: impl Fn(i32, i32) -> bool) -> usize {
    let count = order.len();
    if k > INSERTED {
        return select_many(order, spare, k, &before);
    }
    let mut kept = 0usize;
    for i in 0..count as i32 {
        let last = kept.checked_sub(1).and_then(|last| order.get(last)).copied();
        if kept == k && last.is_none_or(|last| !before(i, last)) {
            continue;
        }
        // The worst one gives its place; better ones move up.
        let mut at = if kept == k { kept.saturating_sub(1) } else { kept };
        while let Some(previous) = at.checked_sub(1).and_then(|p| order.get(p)).copied()
            && before(i, previous)
        {
            if let Some(slot) = order.get_mut(at) {
                *slot = previous;
            }
            at -= 1;
        }
        if let Some(slot) = order.get_mut(at) {
            *slot = i;
        }
        kept = (kept + 1).min(k);
    }
    kept
}

/// The same for many: twice as many as are wanted are collected, sorted, and cut, and the worst of the others is what the next
/// ones must come before.
#[inline]
fn select_many(order: &mut [i32], spare: &mut [i32], k: usize, before: &impl Fn(i32, i32) -> bool) -> usize {
    let count = order.len();
    let room = k.saturating_mul(2);
    let (mut kept, mut last) = (0usize, None);
    for i in 0..count as i32 {
        if last.is_some_and(|last| !before(i, last)) {
            continue;
        }
        if let Some(slot) = order.get_mut(kept) {
            *slot = i;
            kept += 1;
        }
        if kept == room {
            sort_by(order.get_mut(..kept).unwrap_or_default(), spare, before);
            kept = k;
            last = k.checked_sub(1).and_then(|last| order.get(last)).copied();
        }
    }
    sort_by(order.get_mut(..kept).unwrap_or_default(), spare, before);
    kept.min(k)
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, Target};
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn sorting_is_stable() {
        let keys: Vec<i32> = (0..1000).map(|i| (i * 7919) % 37).collect();
        let mut order: Vec<i32> = (0..1000).collect();
        let mut scratch = std::vec![0; 1000];
        sort_by(&mut order, &mut scratch, |a, b| keys[a as usize] < keys[b as usize]);
        let mut expected: Vec<i32> = (0..1000).collect();
        expected.sort_by_key(|i| keys[*i as usize]);
        assert_eq!(order, expected);
    }

    #[test]
    fn the_largest_come_first_along_any_axis() {
        for (count, k) in [(5usize, 3usize), (5, 5), (90, 40), (1000, 40), (800, 300), (66, 33), (7, 1), (3, 0)] {
            for inner in [1usize, 3] {
                let x: Vec<i32> = (0..2 * count * inner).map(|i| ((i * 31) % 11) as i32).collect();
                let (mut out, mut scratch) = (std::vec![0i32; 2 * k * inner], std::vec![0i32; 2 * count]);
                top_k(Arguments {
                    inputs: &[Operand::new(&x, &[2, count, inner])],
                    outputs: &mut [Target::new(&mut out, &[2, k, inner]), Target::new(&mut scratch, &[2 * count])],
                    integers: &[1, 0, 0],
                    floats: &[],
                    sizes: &mut [],
                });
                for (outer, column) in [(0, 0), (1, inner - 1)] {
                    let mut all: Vec<usize> = (0..count).collect();
                    all.sort_by_key(|i| -x[(outer * count + i) * inner + column]);
                    let got: Vec<usize> = (0..k).map(|i| out[(outer * k + i) * inner + column] as usize).collect();
                    assert_eq!(got, all[..k], "{count} {k} {inner}");
                }
            }
        }
    }
}
