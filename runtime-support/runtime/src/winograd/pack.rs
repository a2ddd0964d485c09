//! Transformed weights, in the order in which the products read them.
use super::Winograd;
use crate::contraction::packed::padded;
use crate::contraction::packed_len;
use crate::math::{floor_div_usize, floor_mod_usize};

/// Transforms and packs the weights `w(tap, channel, column)`, taps in the order of slices, lines and pixels, into `out`, which takes
/// [`Winograd::weights_len`] zeros: chunks of columns, in them positions, in them panels as of [`crate::contraction::pack`],
/// in them slices. Writes nothing if they are fewer.
///
/// Plain loops that call nothing: the compiler calls this from build scripts, which Cargo does not optimise.
pub fn pack_winograd(shape: &Winograd, out: &mut [f32], mut w: impl FnMut(usize, usize, usize) -> f32) {
    let (c, [lines_of, size], length, sum) = (&shape.product, shape.size(), out.len(), shape.sum());
    let ([height, across], piece, pieces) = ([c.taps[2].extent, c.taps[3].extent], shape.piece(), shape.pieces());
    let (stride, apart) = (shape.stride(), shape.apart());
    // Channels of a slice, or of a piece.
    let channels = if shape.has_pieces() { padded(c.depth) } else { c.depth };
    if shape.chunk == 0 || c.panel == 0 || size > 6 || !matches!(piece, 1..=5) || shape.weights_len() > length {
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
            let (part, depth) = (floor_div_usize(k, channels), floor_mod_usize(k, channels));
            if depth >= c.depth {
                continue;
            }
            let (slice, [top, left]) = match shape.has_pieces() {
                false => (part * height * across, [0, 0]),
                true => (0, [floor_div_usize(part, pieces[1]), floor_mod_usize(part, pieces[1])].map(|i| i * apart)),
            };
            // Lines of the window, each with the taps of one column of it or at one point.
            let (mut lines, mut x) = ([[0.0f64; 5]; 6], 0);
            while x < piece && left + x * stride < across {
                let (mut taps, mut y) = ([0.0f64; 5], 0);
                while y < piece && top + y * stride < height {
                    taps[y] = w(slice + across * (top + y * stride) + left + x * stride, depth, column) as f64;
                    y += 1;
                }
                let values =
                    if height == 1 { [taps[0], 0.0, 0.0, 0.0, 0.0, 0.0] } else { transformed((size, piece), taps) };
                y = 0;
                while y < lines_of {
                    lines[y][x] = values[y];
                    y += 1;
                }
                x += 1;
            }
            let (mut y, mut line) = (0, at);
            while y < lines_of {
                let values = transformed((size, piece), lines[y]);
                let mut place = line;
                x = 0;
                while x < size && place < length {
                    out[place] = values[x] as f32;
                    (place, x) = (place + plane, x + 1);
                }
                (line, y) = (line + size * plane, y + 1);
            }
        }
    }
}

/// Two to five weights at the points 0, 1, -1 (and 2, -2) and infinity, scaled as the inverse transform needs it.
fn transformed((size, window): (usize, usize), w: [f64; 5]) -> [f64; 6] {
    let (even, odd, last) = (w[0] + w[2] + w[4], w[1] + w[3], w[window - 1]);
    if size == 4 {
        return [w[0], (even + odd) * 0.5, (even - odd) * 0.5, last, 0.0, 0.0];
    }
    let (even_2, odd_2) = (w[0] + 4.0 * w[2] + 16.0 * w[4], 2.0 * w[1] + 8.0 * w[3]);
    let two = [(even_2 + odd_2) / 24.0, (even_2 - odd_2) / 24.0];
    [w[0] / 4.0, (even + odd) / -6.0, (even - odd) / -6.0, two[0], two[1], last]
}
