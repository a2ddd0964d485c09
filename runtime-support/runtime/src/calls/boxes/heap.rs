//! Heaps over entries in numbered places: queues, and sorting in place without other memory.

/// Entries that can be compared and swapped. Keys are all different, so that every order is the only one.
pub trait Entries {
    /// What entries are compared by.
    type Key: PartialOrd;
    /// The key of the entry at a place.
    fn key(&self, at: usize) -> Self::Key;
    /// Exchanges two entries.
    fn swap(&mut self, a: usize, b: usize);

    /// Whether the entry at `a` comes before the one at `b`: the smaller key, or with `last` the larger one.
    #[inline]
    fn before(&self, a: usize, b: usize, last: bool) -> bool {
        if last { self.key(a) > self.key(b) } else { self.key(a) < self.key(b) }
    }
}

/// Exchanges two elements of a slice that has them.
pub fn swap<T: Copy>(list: &mut [T], a: usize, b: usize) {
    if let Ok([a, b]) = list.get_disjoint_mut([a, b]) {
        core::mem::swap(a, b);
    }
}

/// Makes the first `count` entries a heap: the one with the smallest key, or with `last` the largest, stands at place 0.
pub fn build<E: Entries>(entries: &mut E, count: usize, last: bool) {
    for at in (0..count / 2).rev() {
        sink(entries, at, count, last);
    }
}

/// Moves the entry at `at` down until the first `count` entries are a heap again.
pub fn sink<E: Entries>(entries: &mut E, mut at: usize, count: usize, last: bool) {
    loop {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        if left >= count {
            return;
        }
        let child = if right < count && entries.before(right, left, last) { right } else { left };
        if !entries.before(child, at, last) {
            return;
        }
        entries.swap(child, at);
        at = child;
    }
}

/// Moves the entry at `at` up until the entries before it are a heap with it.
pub fn rise<E: Entries>(entries: &mut E, mut at: usize, last: bool) {
    while at > 0 {
        let parent = (at - 1) / 2;
        if !entries.before(at, parent, last) {
            return;
        }
        entries.swap(at, parent);
        at = parent;
    }
}

/// Sorts the first `count` entries by their keys.
pub fn sort<E: Entries>(entries: &mut E, count: usize) {
    build(entries, count, true);
    for end in (1..count).rev() {
        entries.swap(0, end);
        sink(entries, 0, end, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers([i32; 23]);

    impl Entries for Numbers {
        type Key = i32;
        fn key(&self, at: usize) -> i32 {
            self.0[at]
        }
        fn swap(&mut self, a: usize, b: usize) {
            swap(&mut self.0, a, b);
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
            rise(&mut numbers, at, false);
        }
        for (end, smallest) in (0..23).rev().zip(0..) {
            assert_eq!(numbers.0[0], smallest);
            numbers.swap(0, end);
            sink(&mut numbers, 0, end, false);
        }
    }
}
