//! Sorting in the order that a function says.
use crate::blocks::{blocks, blocks_mut};

/// Sorts entries so that none comes behind one that `before` puts behind it; equal ones keep their order. `scratch` has
/// the length of `order`. A merge sort from the bottom up: no recursion, no panic whatever `before` says.
pub fn sort_by<T: Copy>(order: &mut [T], scratch: &mut [T], before: impl Fn(T, T) -> bool) {
    merge_runs(order, scratch, 1, before);
}

/// Entries of a run that is sorted by insertion.
const RUN: usize = 8;

/// The same, faster, if `before` is an order: else its results may differ.
pub fn sort_ordered<T: Copy>(order: &mut [T], scratch: &mut [T], before: impl Fn(T, T) -> bool) {
    for run in blocks_mut(order, RUN) {
        for end in 1..run.len() {
            for at in (0..end).rev() {
                let Ok([low, high]) = run.get_disjoint_mut([at, at + 1]) else { break };
                if !before(*high, *low) {
                    break;
                }
                core::mem::swap(low, high);
            }
        }
    }
    merge_runs(order, scratch, RUN, before);
}

/// The same where the first `sorted` entries are sorted.
pub fn sort_rest<T: Copy>(order: &mut [T], scratch: &mut [T], sorted: usize, before: impl Fn(T, T) -> bool) {
    let Some((left, right)) = order.split_at_mut_checked(sorted) else { return };
    sort_ordered(right, scratch, &before);
    if let (true, Some(out)) = (sorted > 0, scratch.get_mut(..left.len() + right.len())) {
        merge(left, right, out, before);
        order.iter_mut().zip(out).for_each(|(to, from)| *to = *from);
    }
}

/// Merges sorted runs of `width` entries.
#[inline(always)]
fn merge_runs<T: Copy>(order: &mut [T], scratch: &mut [T], mut width: usize, before: impl Fn(T, T) -> bool) {
    let length = order.len().min(scratch.len());
    let (Some(mut from), Some(mut to)) = (order.get_mut(..length), scratch.get_mut(..length)) else { return };
    let mut swapped = false;
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
fn merge<T: Copy>(left: &[T], right: &[T], out: &mut [T], before: impl Fn(T, T) -> bool) {
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
    slots.zip(rest).for_each(|(slot, entry)| *slot = *entry);
}

#[cfg(test)]
mod tests {
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
}
