//! Packing of compact weights.
use super::{Compact, Form, STEP, width};
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};

/// Packs compact weights into `to`, which takes [`Compact::weights_len`] bytes; stops where it ends. `grid` gives scale and zero of
/// a group and column, `line(product, column, codes)` writes the codes of a product from a column on.
pub fn pack_compact(
    compact: &Compact,
    to: &mut [u8],
    grid: impl Fn(usize, usize) -> (f32, f32),
    mut line: impl FnMut(usize, usize, &mut [u16]),
) {
    let c = &compact.product;
    let (k, mut rest) = (c.k(), to);
    for panel in 0..if c.panel == 0 { 0 } else { ceil_div_usize(c.cols, c.panel) } {
        let (first, width) = (panel * c.panel, width(c, panel));
        let cols = width.min(c.cols - first);
        for group in 0..compact.groups() {
            let whole = core::mem::take(&mut rest).split_at_mut_checked(compact.group_bytes(width));
            let Some((whole, after)) = whole else { return };
            let Some((floats, codes)) = whole.split_at_mut_checked(compact.grid_bytes(width)) else { return };
            let (scales, zeros) = floats.split_at_mut(floats.len() / 2);
            for (i, (scale, zero)) in scales.chunks_exact_mut(4).zip(zeros.chunks_exact_mut(4)).enumerate() {
                let (s, z) = if i < cols { grid(group, first + i) } else { (0.0, 0.0) };
                scale.copy_from_slice(&s.to_le_bytes());
                zero.copy_from_slice(&z.to_le_bytes());
            }
            let (bytes, end) = (width * STEP * compact.form.bits() / 8, k.min((group + 1) * compact.group));
            for (step, lines) in codes.chunks_exact_mut(bytes.max(1)).enumerate() {
                let product = group * compact.group + step * STEP;
                for i in (0..STEP).filter(|i| product + i < end) {
                    let mut buffer = [0u16; 32];
                    let columns = buffer.get_mut(..cols).unwrap_or_default();
                    line(product + i, first, columns);
                    put(compact.form, lines, width, i, columns);
                }
            }
            rest = after;
        }
    }
}

/// Stores the codes of product `i` of a step.
fn put(form: Form, lines: &mut [u8], width: usize, i: usize, codes: &[u16]) {
    match form {
        Form::Halves => {
            let line = lines.chunks_exact_mut((width * 2).max(1)).nth(i).unwrap_or_default();
            line.chunks_exact_mut(2).zip(codes).for_each(|(to, code)| to.copy_from_slice(&code.to_le_bytes()));
        }
        Form::Bytes => {
            let line = lines.chunks_exact_mut(width.max(1)).nth(i).unwrap_or_default();
            line.iter_mut().zip(codes).for_each(|(to, code)| *to = *code as u8);
        }
        Form::Nibbles => {
            let line = lines.chunks_exact_mut(width.max(1)).nth(floor_div_usize(i, 2)).unwrap_or_default();
            let shift = 4 * floor_mod_usize(i, 2);
            line.iter_mut().zip(codes).for_each(|(to, code)| *to |= (*code as u8 & 15) << shift);
        }
    }
}
