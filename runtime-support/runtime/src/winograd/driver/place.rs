//! Where tiles lie in data and result.
use super::super::transform::Pixels;
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
        let tile = self.shape.tile();
        let first = [ty * tile[0], tx * tile[1]];
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
    pub(super) fn pixels(&self, place: &Place, start: [usize; 2]) -> Pixels {
        let (size, stride, [y, x]) =
            (self.shape.size(), self.shape.stride(), [2, 3].map(|i| self.shape.product.taps[i].a));
        let inside = |at: usize, (first, end): (usize, usize)| first <= at && at < end;
        let mut pixels = [None; 36];
        for (dy, line) in blocks_mut(&mut pixels, size[1]).enumerate().take(size[0]) {
            let at_y = (place.first[0] + dy) * stride + start[0];
            for (dx, pixel) in line.iter_mut().enumerate() {
                let at_x = (place.first[1] + dx) * stride + start[1];
                if inside(at_y, self.valid[0]) && inside(at_x, self.valid[1]) {
                    let at = place.a.wrapping_add(step(at_y, y)).wrapping_add(step(at_x, x));
                    *pixel = Some(self.a.wrapping_offset(at));
                }
            }
        }
        pixels
    }
}
