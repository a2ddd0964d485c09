//! Arena offsets: greedy by decreasing size.

use super::{ALIGN, Placement};
use crate::program::BufferId;

fn size(placement: &Placement) -> usize {
    placement.bytes.next_multiple_of(ALIGN)
}

fn meets(a: &Placement, b: &Placement) -> bool {
    a.first <= b.last && b.first <= a.last
}

/// Comparisons of two storages that better orders may cost.
const EFFORT: usize = 1 << 22;
/// Orders that are tried at most.
const ORDERS: usize = 64;

/// Gives every storage an offset: greedy by decreasing size; where that needs more than lives at one time, other orders are
/// tried in which the storage that reached highest comes first.
pub(super) fn place(storages: &mut [(BufferId, Placement)]) {
    let mut order: Vec<usize> = (0..storages.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(storages[*i].1.bytes), storages[*i].1.first, storages[*i].0));
    let least = peak(storages);
    let rounds = (EFFORT / storages.len().saturating_mul(storages.len()).max(1)).clamp(1, ORDERS);
    let mut best: Option<(usize, Vec<usize>)> = None;
    for _ in 0..rounds {
        let offsets = lowest(storages, &order);
        let end = |i: &usize| offsets[*i] + size(&storages[*i].1);
        let Some(highest) = (0..storages.len()).max_by_key(end) else { return };
        let reach = end(&highest);
        if best.as_ref().is_none_or(|(other, _)| reach < *other) {
            best = Some((reach, offsets));
        }
        if reach <= least {
            break;
        }
        order.retain(|i| *i != highest);
        order.insert(0, highest);
    }
    for ((_, placement), offset) in storages.iter_mut().zip(best.map_or(Vec::new(), |(_, offsets)| offsets)) {
        placement.offset = offset;
    }
}

/// The lowest offset for every storage that no storage before it in the order occupies during its life.
fn lowest(storages: &[(BufferId, Placement)], order: &[usize]) -> Vec<usize> {
    let mut offsets = vec![0; storages.len()];
    let mut placed: Vec<Placement> = Vec::with_capacity(storages.len());
    for i in order {
        let mut placement = storages[*i].1;
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|other| meets(other, &placement))
            .map(|other| (other.offset, other.offset + size(other)))
            .collect();
        taken.sort_unstable();
        placement.offset = 0;
        for (start, end) in taken {
            if start >= placement.offset + size(&placement) {
                break;
            }
            placement.offset = placement.offset.max(end);
        }
        offsets[*i] = placement.offset;
        placed.push(placement);
    }
    offsets
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
