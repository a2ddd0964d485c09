//! Which convolutions are computed by minimal filtering, with which tiles: the least time that the memory for transformed
//! weights allows.

use super::{Form, LEAST_SLICES, whole};
use crate::program::Program;

/// Nanoseconds of a core with AVX-512, fitted to shapes as in the runtime's benchmark `choices` and rounded in favour of the
/// plain sum.
/// One product inside a register tile.
const PRODUCT: f64 = 1.0 / 77.0;
/// One float of transformed data or sums: computed, written and read. Zen 4 takes two thirds of it;
/// with this, thin layers that a Cascade Lake Xeon computes sooner as plain sums become these.
const TRANSFORMED: f64 = 0.27;
/// The same at four points along an axis, which takes half of the sums that six points do.
const TRANSFORMED_OF_4: f64 = 0.21;
/// A tile of six by six pixels, four by four, or of a line, whatever its channels: addresses and padding.
const TILE: f64 = 180.0;
const TILE_OF_4: f64 = 100.0;
const LINE: f64 = 110.0;
/// All phases, whatever their size.
const PHASES: f64 = 500.0;
/// One float of weights, by the bytes of all weights of the model: up to so many they come from the second-level cache, or
/// the third, or else from memory.
const WEIGHT: [(i64, f64); 3] = [(512 << 10, 0.06), (16 << 20, 0.12), (i64::MAX, 0.22)];
/// Columns of the narrowest register tile that runs at the full rate: of long vectors, and of those that are half as long.
const TILE_COLUMNS: [i64; 2] = [16, 8];
/// The same over packed rows.
const PACKED_COLUMNS: i64 = 8;
/// Columns of plain sums whose vectors hold pixels of a line, and their part of the full rate.
const PLANAR_COLUMNS: i64 = 8;
const PLANAR_PIXELS: i64 = 16;
const PLANAR_RATE: f64 = 0.8;
/// Tiles that take as long as fewer: the pipelines of a register tile are idle.
const LEAST_TILES: i64 = 8;

/// What transformed weights may take beyond the model's: as much as six tenths of these, and this many bytes in any case.
const TENTHS: i64 = 6;
const ALLOWANCE: i64 = 4 << 20;

/// Pixels of the tiles along each axis for every convolution, or none where it is computed as the plain sum.
pub fn choose(program: &Program, forms: &[Option<&Form>]) -> Vec<Option<i64>> {
    let constants = program.buffers.iter().filter_map(|buffer| buffer.constant());
    let bytes = constants.fold(0i64, |sum, tensor| sum.saturating_add(tensor.bytes.as_slice().len() as i64));
    let weight = WEIGHT.into_iter().find(|(most, _)| bytes <= *most).map_or(0.0, |(_, weight)| weight);
    within(bytes / 10 * TENTHS + ALLOWANCE, weight, forms)
}

/// The choice for an amount of memory. All bytes have the same price, the lowest one at which they suffice; what is left goes to those
/// that save most time with a byte of it.
fn within(room: i64, weight: f64, forms: &[Option<&Form>]) -> Vec<Option<i64>> {
    let at = |price: f64| -> Vec<Option<i64>> {
        forms.iter().map(|form| form.and_then(|f| f.cheapest(weight, price))).collect()
    };
    let fits = |tiles: &[Option<i64>]| growth(forms, tiles) <= room;
    let (mut low, mut high) = (0.0, 0.0);
    let mut best = at(high);
    while !fits(&best) && high < f64::MAX {
        (low, high) = (high, if high > 0.0 { high * 2.0 } else { 1e-6 });
        best = at(high);
    }
    for _ in 0..20 {
        let middle = (low + high) / 2.0;
        let tiles = at(middle);
        if fits(&tiles) {
            (high, best) = (middle, tiles);
        } else {
            low = middle;
        }
    }
    fill(room, weight, forms, &mut best);
    best
}

/// Bytes that transformed weights take beyond the plain ones.
fn growth(forms: &[Option<&Form>], tiles: &[Option<i64>]) -> i64 {
    let all = forms.iter().zip(tiles).filter_map(|(form, tile)| Some(form.as_ref()?.growth((*tile)?)));
    all.fold(0, i64::saturating_add)
}

/// Gives what memory is left to larger tiles, or to convolutions that have none: once each, the most time for a byte first.
fn fill(room: i64, weight: f64, forms: &[Option<&Form>], best: &mut [Option<i64>]) {
    let mut left = room.saturating_sub(growth(forms, best));
    let mut changes = Vec::new();
    for (i, (form, old)) in forms.iter().zip(best.iter()).enumerate() {
        let Some(form) = form else { continue };
        let bytes = |tile: &Option<i64>| tile.map_or(0, |tile| form.growth(tile));
        for tile in form.tile_sizes().iter().map(|tile| Some(*tile)) {
            let (gain, more) =
                (form.time(*old, weight) - form.time(tile, weight), bytes(&tile).saturating_sub(bytes(old)));
            if gain > 0.0 {
                changes.push((gain / more.max(1) as f64, i, tile, more));
            }
        }
    }
    changes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut changed = vec![false; forms.len()];
    for (_, i, tile, more) in changes {
        if more <= left && !std::mem::replace(&mut changed[i], true) {
            (left, best[i]) = (left.saturating_sub(more), tile);
        }
    }
}

impl Form {
    /// The tiles that cost least where reading a float of weights takes `weight` nanoseconds, and a byte more of them costs
    /// `price`.
    fn cheapest(&self, weight: f64, price: f64) -> Option<i64> {
        let filtered = |tile: &i64| (self.time(Some(*tile), weight) + price * self.growth(*tile) as f64, Some(*tile));
        let all = [(self.time(None, weight), None)].into_iter().chain(self.tile_sizes().iter().map(filtered));
        all.min_by(|a, b| a.0.total_cmp(&b.0)).and_then(|(_, tile)| tile)
    }

    /// Tiles that there are for the window.
    fn tile_sizes(&self) -> &'static [i64] {
        match (self.stride, self.longer()) {
            (1, 3) | (2, 5 | 6) if self.is_line() => &[4],
            (1, 3) | (2, 5 | 6) => &[2, 4],
            (1, 5) => &[2],
            (1, 2) | (2, 4) if self.is_line() => &[5],
            (1, 6..) if self.is_line() => &[3, 4],
            (1, 6) => &[4],
            _ => &[3],
        }
    }

    /// Nanoseconds with such tiles, or of the plain sum.
    fn time(&self, tile: Option<i64>, weight: f64) -> f64 {
        self.groups as f64 * tile.map_or_else(|| self.direct(weight), |tile| self.filtered(tile, weight))
    }

    /// Bytes that transformed weights take beyond the plain ones.
    fn growth(&self, tile: i64) -> i64 {
        let transformed = self.positions(tile).saturating_mul(self.data_depth(tile));
        let plain = (self.window[0] * self.window[1]).saturating_mul(self.depth);
        let columns = self.own.saturating_mul(self.taps()).saturating_mul(self.columns);
        transformed.saturating_sub(plain).saturating_mul(columns).saturating_mul(4)
    }

    /// Nanoseconds of the plain sum of a group.
    fn direct(&self, weight: f64) -> f64 {
        let lines = self.images.saturating_mul(self.count()).saturating_mul(self.height);
        let (columns, products) = if self.columns <= PLANAR_COLUMNS {
            // Two columns more or less at a time.
            let width = whole(self.width, PLANAR_PIXELS);
            (whole(self.columns, 2) as f64, lines.saturating_mul(width) as f64 / PLANAR_RATE)
        } else {
            // One choice is made for all instruction sets.
            let columns = TILE_COLUMNS.map(|tile| whole(self.columns, tile) as f64);
            (columns.iter().sum::<f64>() / columns.len() as f64, lines.saturating_mul(self.width) as f64)
        };
        let taps = (self.window[0] * self.window[1]) as f64;
        self.inside * taps * self.product(self.depth, products, columns, weight)
    }

    /// Nanoseconds of the product of so many rows of `depth` channels with the weights of a tap or position, as if there were so
    /// many columns.
    fn product(&self, depth: i64, rows: f64, columns: f64, weight: f64) -> f64 {
        depth.saturating_mul(self.taps()) as f64 * (columns * rows * PRODUCT + self.columns as f64 * weight)
    }

    /// Nanoseconds of a group with tiles of this size.
    fn filtered(&self, tile: i64, weight: f64) -> f64 {
        let positions = self.positions(tile) as f64;
        let tiles = self.tiles(tile).saturating_mul(self.count());
        // Slices that two blocks read are transformed twice.
        let read = 1.0 + (self.taps() - 1) as f64 / self.count().clamp(1, LEAST_SLICES) as f64;
        let transformed = (self.data_depth(tile) as f64 * read + self.columns as f64) * tiles as f64;
        let columns = whole(self.columns, PACKED_COLUMNS) as f64;
        let product = self.product(self.data_depth(tile), tiles.max(LEAST_TILES) as f64, columns, weight);
        let (float, tile) = match positions as i64 {
            16 => (TRANSFORMED_OF_4, TILE_OF_4),
            36 => (TRANSFORMED, TILE),
            _ => (TRANSFORMED, LINE),
        };
        positions * (product + transformed * float) + tiles as f64 * tile + PHASES
    }
}

#[cfg(test)]
mod tests {
    use super::super::NO_AXIS;
    use super::*;

    fn square(size: i64, depth: i64, columns: i64) -> Form {
        Form {
            axes: [0, 1],
            slices: None,
            window: [3, 3],
            stride: 1,
            gaps: [1, 1],
            inside: 1.0,
            groups: 1,
            own: 1,
            images: 1,
            height: size,
            width: size,
            depth,
            columns,
        }
    }

    #[test]
    fn small_convolutions_stay_plain_sums() {
        let tiny = square(4, 8, 8);
        assert_eq!(within(i64::MAX, 0.12, &[Some(&tiny), None]), [None, None]);
    }

    #[test]
    fn groups_cost_what_as_many_convolutions_do() {
        let (one, few) = (square(28, 64, 64), Form { groups: 8, own: 8, ..square(28, 64, 64) });
        assert_eq!(few.growth(4), 8 * one.growth(4));
        let narrow = Form { groups: 8, own: 8, ..square(28, 16, 16) };
        assert_eq!(within(i64::MAX, 0.12, &[Some(&few), Some(&narrow)]), [Some(4), None]);
        assert_eq!(within(one.growth(4), 0.12, &[Some(&few)]), [None]);
    }

    #[test]
    fn large_windows_gain_with_fewer_channels_and_small_tiles() {
        let [three, five, seven] = [3, 5, 7].map(|window| Form { window: [window; 2], ..square(28, 32, 32) });
        let forms = [Some(&three), Some(&five), Some(&seven)];
        assert_eq!(within(i64::MAX, 0.06, &forms), [Some(4), Some(2), Some(3)]);
        assert_eq!(five.growth(2), (36 - 25) * 4 * 32 * 32);
        assert_eq!(seven.growth(3), (36 * 4 - 49) * 4 * 32 * 32);
    }

    /// Of 20 columns a plain sum computes 24, not 32; of ten channels pieces transform sixteen.
    #[test]
    fn large_windows_of_few_channels_stay_plain_sums() {
        let seven = Form { window: [7, 7], ..square(64, 10, 20) };
        assert_eq!(within(i64::MAX, 0.06, &[Some(&seven)]), [None]);
        assert_eq!(seven.growth(3), (36 * 4 * 16 - 49 * 10) * 4 * 20);
    }

    #[test]
    fn windows_that_move_two_pixels_gain_with_more_taps() {
        let strided = |taps: i64| Form { window: [taps; 2], stride: 2, ..square(32, 64, 64) };
        let (four, five, seven) = (strided(4), strided(5), strided(7));
        assert_eq!(within(i64::MAX, 0.06, &[Some(&four), Some(&five), Some(&seven)]), [Some(3), Some(4), Some(3)]);
        assert_eq!(four.growth(3), (4 * 16 - 16) * 4 * 64 * 64);
        let wide = Form { depth: 192, columns: 192, ..five };
        assert_eq!(within(wide.growth(2), 0.06, &[Some(&wide)]), [Some(2)]);
        let thin = Form { depth: 3, ..strided(7) };
        assert_eq!(within(i64::MAX, 0.06, &[Some(&thin)]), [None]);
    }

    #[test]
    fn shorter_axes_are_filtered_as_longer_ones() {
        let parts = [[3, 3], [3, 2], [2, 2]].map(|window| Form { window, ..square(32, 128, 64) });
        let forms: Vec<_> = parts.iter().map(Some).collect();
        assert_eq!(within(i64::MAX, 0.06, &forms), [Some(4), Some(4), Some(3)]);
        assert_eq!(parts[1].growth(4), (36 - 6) * 4 * 128 * 64);
    }

    #[test]
    fn lines_need_more_channels() {
        let line =
            |channels: i64| Form { axes: [NO_AXIS, 0], window: [1, 3], height: 1, ..square(400, channels, channels) };
        let (few, many) = (line(32), line(128));
        assert_eq!(within(i64::MAX, 0.06, &[Some(&few), Some(&many)]), [None, Some(4)]);
        assert_eq!(many.growth(4), (6 - 3) * 4 * 128 * 128);
        let seven = Form { window: [1, 7], ..line(120) };
        assert_eq!((seven.positions(3), seven.data_depth(3)), (6, 2 * 128));
    }

    /// A byte of large tiles saves more time than one of small ones, but there are not enough.
    #[test]
    fn memory_that_is_left_goes_to_smaller_tiles() {
        let five = Form { window: [5, 5], stride: 2, ..square(32, 68, 68) };
        let saved = |tile: i64| (five.time(None, 0.06) - five.time(Some(tile), 0.06)) / five.growth(tile) as f64;
        assert!(0.0 < saved(2) && saved(2) < saved(4));
        assert_eq!(within(five.growth(2), 0.06, &[Some(&five)]), [Some(2)]);
        assert_eq!(within(five.growth(4), 0.06, &[Some(&five)]), [Some(4)]);
    }

    #[test]
    fn memory_goes_where_a_byte_saves_most_time() {
        let (wide, deep) = (square(112, 32, 32), square(14, 512, 512));
        let forms = [Some(&wide), Some(&deep), None];
        assert!(within(i64::MAX, 0.12, &forms)[..2].iter().all(Option::is_some));
        assert_eq!(within(wide.growth(4), 0.12, &forms), [Some(4), None, None]);
        assert_eq!(within(0, 0.12, &forms), [None; 3]);
        let room = wide.growth(4) + deep.growth(2);
        assert_eq!(within(room, 0.12, &forms), [Some(4), Some(2), None]);
    }
}
