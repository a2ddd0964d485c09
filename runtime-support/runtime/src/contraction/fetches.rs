//! What is fetched while a panel is multiplied: the weights of the next one.
use super::kernel::LINE;
use super::packed_kernel::PackedSet;
use crate::math::{ceil_div_usize, floor_div_usize};

/// What is to be fetched while a panel is multiplied.
pub(super) struct Fetches {
    at: *const f32,
    /// Floats.
    left: usize,
    /// Cache lines per chunk of rows.
    lines: usize,
}

impl Fetches {
    /// So many products of a panel's width, divided among the tiles of all columns.
    pub fn new(at: *const f32, products: usize, width: usize, tiles: usize, set: &PackedSet) -> Self {
        let columns = ceil_div_usize(width, set.cols);
        let lines = ceil_div_usize(width, tiles.saturating_mul(columns)).next_power_of_two();
        Fetches { at, left: products.saturating_mul(width), lines: lines.min(floor_div_usize(LINE, set.least)) }
    }

    /// Whether all is fetched.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// What a tile of so many products fetches, and for how many products a cache line: what nobody has fetched yet, or
    /// else what it needs itself.
    pub fn next(&mut self, w: *const f32, products: usize) -> (*const f32, usize) {
        if self.left == 0 {
            return (w, LINE);
        }
        let at = self.at;
        self.at = at.wrapping_add(self.lines * products);
        self.left = self.left.saturating_sub(self.lines * products);
        (at, floor_div_usize(LINE, self.lines))
    }
}
