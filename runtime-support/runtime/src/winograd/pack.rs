//! Transformed weights, in the order in which the products read them.
use super::Winograd;
use crate::contraction::packed_len;
use crate::math::{floor_div_usize, floor_mod_usize};

/// Transforms and packs the weights `w(tap, channel, column)`, tap = 9 * slice + 3 * y + x, into `out`, which takes
/// [`Winograd::weights_len`] zeros: chunks of columns, in them positions, in them panels as of [`crate::contraction::pack`],
/// in them slices. Writes nothing if they are fewer.
///
/// Plain loops that call nothing: the compiler calls this from build scripts, which Cargo does not optimise.
pub fn pack_winograd(shape: &Winograd, out: &mut [f32], mut w: impl FnMut(usize, usize, usize) -> f32) {
    let (c, size, length, sum) = (&shape.product, shape.tile.min(4) + 2, out.len(), shape.sum());
    if shape.chunk == 0 || c.panel == 0 || shape.weights_len() > length {
        return;
    }
    for column in 0..c.cols {
        let (chunk, at) = (floor_div_usize(column, shape.chunk) * shape.chunk, floor_mod_usize(column, shape.chunk));
        let width = shape.width(chunk);
        let plane = width.saturating_mul(sum);
        let first = floor_div_usize(at, c.panel) * c.panel;
        let panel = c.panel.min(width - first);
        let start = packed_len(chunk, sum, c.panel)
            .saturating_mul(shape.positions())
            .saturating_add(first.saturating_mul(sum))
            .saturating_add(at - first);
        for k in 0..sum {
            let at = start.saturating_add(k * panel);
            let (tap, depth) = (9 * floor_div_usize(k, c.depth), floor_mod_usize(k, c.depth));
            let mut lines = [[0.0f64; 6]; 3];
            let (mut x, mut y) = (0, 0);
            while y < 3 {
                let line = tap + 3 * y;
                let [a, b, c] = [w(line, depth, column), w(line + 1, depth, column), w(line + 2, depth, column)];
                lines[y] = transformed(shape.tile, a as f64, b as f64, c as f64);
                y += 1;
            }
            while x < size {
                let values = transformed(shape.tile, lines[0][x], lines[1][x], lines[2][x]);
                let mut place = at + x * plane;
                y = 0;
                while y < size && place < length {
                    out[place] = values[y] as f32;
                    (place, y) = (place + size * plane, y + 1);
                }
                x += 1;
            }
        }
    }
}

/// Three weights at the points 0, 1, -1 (and 2, -2) and infinity, scaled as the inverse transform needs it.
fn transformed(tile: usize, a: f64, b: f64, c: f64) -> [f64; 6] {
    if tile == 2 {
        return [a, (a + b + c) * 0.5, (a - b + c) * 0.5, c, 0.0, 0.0];
    }
    let (even, odd) = (a + c, (a + 4.0 * c) / 24.0);
    [a / 4.0, (even + b) / -6.0, (even - b) / -6.0, odd + b / 12.0, odd - b / 12.0, c]
}
