//! Packs right operands that are computed at run time.
use super::pack::{pack, pack_lines, panel_width};
use crate::blocks::blocks_mut;
use crate::cx::Cx;
use crate::isa::VECTORS;
use crate::raw::{Dst, Src};
use crate::transpose::{CopyAxis, Transpose};

/// Packs a matrix in memory: element (k, n) at `offset + k * k_stride + n * n_stride`, where strides wrap around: those of
/// reversed data are negative. Elements outside count as zero. Stops where `out` ends.
#[allow(clippy::too_many_arguments)]
pub fn pack_strided(
    cx: Cx<'_>,
    cols: usize,
    k: usize,
    panel: usize,
    w: Src<'_, f32>,
    offset: usize,
    (k_stride, n_stride): (usize, usize),
    out: &mut [f32],
) {
    if !w.extent().holds(offset, [(k, k_stride), (cols, n_stride)]) {
        return pack(cols, k, panel, out, |k, n| {
            w.at(offset.wrapping_add(k.wrapping_mul(k_stride)).wrapping_add(n.wrapping_mul(n_stride)))
        });
    }
    let start = w.as_ptr();
    if n_stride == 1 {
        return pack_lines(cols, k, panel, out, |row, column, line| {
            // SAFETY: all offsets were just checked, rows and columns stay below k and cols, and the columns are contiguous.
            let from = unsafe { core::slice::from_raw_parts(start.add(offset + row * k_stride + column), line.len()) };
            for (to, from) in line.iter_mut().zip(from) {
                *to = *from;
            }
        });
    }
    if k_stride == 1 && VECTORS {
        return transpose(cx, (cols, k, panel), w, (offset, n_stride), out);
    }
    // SAFETY: all offsets were just checked, and rows and columns stay below k and cols.
    pack(cols, k, panel, out, |k, n| unsafe { *start.add(offset + k * k_stride + n * n_stride) });
}

/// Packs a matrix whose columns are contiguous, panel by panel, in squares.
fn transpose(
    cx: Cx<'_>,
    (cols, k, panel): (usize, usize, usize),
    w: Src<'_, f32>,
    (offset, n_stride): (usize, usize),
    out: &mut [f32],
) {
    let (mut rest, mut first) = (out, 0);
    while first < cols && panel > 0 {
        let width = panel_width(cols, first, panel);
        let used = width.min(cols - first);
        let Some((part, after)) = core::mem::take(&mut rest).split_at_mut_checked(k.saturating_mul(width)) else {
            return;
        };
        let copy = Transpose {
            outer: [CopyAxis::ONE; 3],
            along_a: CopyAxis { extent: k, a: 1, out: width },
            along_out: CopyAxis { extent: used, a: n_stride, out: 1 },
            a_offset: offset + first * n_stride,
            out_offset: 0,
        };
        copy.run(cx, w, Dst::from_slice(part));
        for row in blocks_mut(part, width).filter(|_| used < width) {
            row.iter_mut().skip(used).for_each(|padding| *padding = 0.0);
        }
        (rest, first) = (after, first + panel);
    }
}
