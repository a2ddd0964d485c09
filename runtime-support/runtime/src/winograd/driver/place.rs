//! Where tiles lie in data and result.
use super::super::transform::{PADDING, Pixels};
use super::Run;
use crate::blocks::blocks_mut;
use crate::contraction::table::step;
use crate::math::{floor_div_usize, floor_mod_usize};

/// Where a tile lies.
pub(super) struct Place {
    /// Its first output pixel along both axes.
    pub first: [usize; 2],
    /// Offsets of the image in data, result and residual.
    pub a: isize,
    pub out: usize,
    pub residual: usize,
    /// Flattened row of the image's first pixel.
    pub row: usize,
}

impl Run<'_> {
    /// Tile number `index` of a slice of all images.
    pub(super) fn place(&self, index: usize, slice: usize) -> Place {
        let (c, [y, x]) = (&self.shape.product, self.shape.axes.map(usize::from));
        let (rest, tx) = (floor_div_usize(index, self.tiles[1]), floor_mod_usize(index, self.tiles[1]));
        let (mut image, ty) = (floor_div_usize(rest, self.tiles[0]), floor_mod_usize(rest, self.tiles[0]));
        let first = [self.first(0, ty), self.first(1, tx)];
        let slices = self.shape.slices.map(|slices| usize::from(slices.axis));
        let mut place = Place { first, a: 0, out: 0, residual: 0, row: 0 };
        let mut below = c.rows[x & 3].extent;
        for axis in (0..x).rev() {
            let row = c.rows[axis & 3];
            if axis != y {
                let i = if slices == Some(axis) { slice } else { floor_mod_usize(image, row.extent) };
                image = if slices == Some(axis) { image } else { floor_div_usize(image, row.extent) };
                place.a = place.a.wrapping_add(step(i, row.a));
                place.out = place.out.wrapping_add(i.wrapping_mul(row.out));
                place.residual = place.residual.wrapping_add(i.wrapping_mul(row.residual));
                place.row = place.row.wrapping_add(i.wrapping_mul(below));
            }
            below = below.wrapping_mul(row.extent);
        }
        place
    }

    /// The input pixels under a tile, from its first one, or this one of them, on, as far apart as the window moves.
    pub(super) fn pixels(&self, place: &Place, size: [usize; 2], start: [usize; 2]) -> Pixels {
        let [y, x] = [0, 1].map(|axis| self.along(axis, place.first[axis], start[axis]));
        let mut pixels = PADDING;
        for (line, y) in blocks_mut(&mut pixels, size[1]).zip(&y).take(size[0]) {
            let Some(y) = y else { continue };
            let start = self.a.wrapping_offset(place.a.wrapping_add(*y));
            for (pixel, x) in line.iter_mut().zip(&x) {
                if let Some(x) = x {
                    *pixel = (start.wrapping_offset(*x), usize::MAX);
                }
            }
        }
        pixels
    }
    /// The first output pixel along an axis of a tile of it.
    fn first(&self, axis: usize, tile: usize) -> usize {
        let (gap, own, size) = (self.gaps[axis], self.own_tiles[axis], self.shape.tile()[axis]);
        if gap == 1 { tile * size } else { floor_div_usize(tile, own) + floor_mod_usize(tile, own) * size * gap }
    }

    /// Offsets of a tile's lines, or of its pixels in one, but those in the padding.
    fn along(&self, axis: usize, first: usize, start: usize) -> [Option<isize>; 6] {
        let (stride, gap, (begin, end), pixel) = (self.stride, self.gaps[axis], self.valid[axis], self.pixel[axis]);
        let (first, apart) = (first * stride, stride.saturating_mul(gap));
        let mut at = first.saturating_add(start.saturating_mul(gap));
        let mut offsets = [None; 6];
        for offset in &mut offsets {
            *offset = (begin..end).contains(&at).then(|| step(at, pixel));
            at = at.saturating_add(apart);
        }
        offsets
    }
}
