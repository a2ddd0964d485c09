//! Heaps over entries in numbered places: queues, and sorting in place without other memory.

/// Entries that can be compared and moved. No two are equal, so that every order is the only one.
pub trait Entries {
    /// An entry apart from its place.
    type Entry: Copy;
    /// The entry at a place.
    fn get(&self, at: usize) -> Option<Self::Entry>;
    /// Puts an entry into a place, if there is such a place.
    fn set(&mut self, at: usize, entry: Self::Entry);
    /// Whether an entry comes before another one.
    fn before(&self, a: Self::Entry, b: Self::Entry) -> bool;
}

/// Makes the first `count` entries a heap: the first of them, or with `last` the last one, stands at place 0.
pub fn build<E: Entries>(entries: &mut E, count: usize, last: bool) {
    for at in (0..count / 2).rev() {
        if let Some(entry) = entries.get(at) {
            sink(entries, (at, entry), count, last);
        }
    }
}

/// Moves an entry from `at` down, as far as it belongs, where the first `count` entries are a heap but for that place.
#[inline]
pub fn sink<E: Entries>(entries: &mut E, (mut at, entry): (usize, E::Entry), count: usize, last: bool) {
    let before = |entries: &E, a, b| if last { entries.before(b, a) } else { entries.before(a, b) };
    while let Some(left) = entries.get(2 * at + 1).filter(|_| 2 * at + 1 < count) {
        let (mut child, mut next) = (2 * at + 1, left);
        if let Some(right) = entries.get(child + 1).filter(|_| child + 1 < count) {
            // Computed, not branched on: it is as good as random.
            let is_right = before(entries, right, left);
            child += usize::from(is_right);
            next = if is_right { right } else { left };
        }
        if !before(entries, next, entry) {
            break;
        }
        entries.set(at, next);
        at = child;
    }
    entries.set(at, entry);
}

/// Moves an entry from `at` up, as far as it belongs, where the entries before it are a heap.
pub fn rise<E: Entries>(entries: &mut E, mut at: usize, entry: E::Entry) {
    while let Some(parent) = at.checked_sub(1).map(|at| at / 2)
        && let Some(above) = entries.get(parent)
        && entries.before(entry, above)
    {
        entries.set(at, above);
        at = parent;
    }
    entries.set(at, entry);
}

/// Takes the entry at place 0 out of a heap of so many; there is one less then.
pub fn pop<E: Entries>(entries: &mut E, count: usize, last: bool) -> Option<E::Entry> {
    let end = count.checked_sub(1)?;
    let (first, moved) = (entries.get(0)?, entries.get(end)?);
    sink(entries, (0, moved), end, last);
    Some(first)
}

/// Sorts the first `count` entries.
pub fn sort<E: Entries>(entries: &mut E, count: usize) {
    build(entries, count, true);
    for end in (1..count).rev() {
        if let Some(entry) = pop(entries, end + 1, true) {
            entries.set(end, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers([i32; 23]);

    impl Entries for Numbers {
        type Entry = i32;
        fn get(&self, at: usize) -> Option<i32> {
            self.0.get(at).copied()
        }
        fn set(&mut self, at: usize, entry: i32) {
            self.0[at] = entry;
        }
        fn before(&self, a: i32, b: i32) -> bool {
            a < b
        }
    }

    #[test]
    fn sorts_any_number_of_entries() {
        for count in 0..=23 {
            let mut numbers = Numbers(core::array::from_fn(|i| (i as i32 * 7919) % 101));
            let mut expected = numbers.0;
            expected[..count].sort_unstable();
            sort(&mut numbers, count);
            assert_eq!(numbers.0, expected);
        }
    }

    #[test]
    fn the_first_entry_leaves_a_queue_first() {
        let mut numbers = Numbers(core::array::from_fn(|i| (i as i32 * 31) % 23));
        build(&mut numbers, 10, false);
        for at in 10..23 {
            let entry = numbers.0[at];
            rise(&mut numbers, at, entry);
        }
        for (count, smallest) in (1..=23).rev().zip(0..) {
            assert_eq!(pop(&mut numbers, count, false), Some(smallest));
        }
        assert_eq!(pop(&mut numbers, 0, false), None);
    }
}
