//! Arena offsets: greedy by decreasing size.

use super::{ALIGN, Placement};
use crate::program::BufferId;

fn size(placement: &Placement) -> usize {
    placement.bytes.next_multiple_of(ALIGN)
}

fn meets(a: &Placement, b: &Placement) -> bool {
    a.first <= b.last && b.first <= a.last
}

/// Gives every storage the lowest offset that no larger storage occupies during its life.
pub(super) fn place(storages: &mut [(BufferId, Placement)]) {
    let mut order: Vec<usize> = (0..storages.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(storages[*i].1.bytes), storages[*i].1.first, storages[*i].0));
    let mut placed: Vec<Placement> = Vec::with_capacity(storages.len());
    for i in order {
        let placement = &mut storages[i].1;
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|other| meets(other, placement))
            .map(|other| (other.offset, other.offset + size(other)))
            .collect();
        taken.sort_unstable();
        let mut offset = 0;
        for (start, end) in taken {
            if start >= offset + size(placement) {
                break;
            }
            offset = offset.max(end);
        }
        placement.offset = offset;
        placed.push(*placement);
    }
}

/// Largest sum of sizes that are live at one time.
pub(super) fn peak(storages: &[(BufferId, Placement)]) -> usize {
    let mut events: Vec<(usize, bool, usize)> = Vec::with_capacity(storages.len() * 2);
    for (_, placement) in storages {
        events.push((placement.first, true, size(placement)));
        events.push((placement.last + 1, false, size(placement)));
    }
    // At one time, ends come before starts: false sorts first.
    events.sort_unstable();
    let (mut live, mut peak) = (0, 0);
    for (_, starts, bytes) in events {
        live = if starts { live + bytes } else { live - bytes };
        peak = peak.max(live);
    }
    peak
}
