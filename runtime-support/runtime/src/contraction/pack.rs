//! Packing of weights into panels of columns.
//!
//! Panel `p` holds columns `p * panel ..`: k rows of `panel` floats. The last panel is only as wide as needed, rounded up
//! to a multiple of min(16, panel), and padded with zeros.
use crate::math::ceil_div_usize;

/// Width in floats of the panel that starts at column `first`.
pub(crate) const fn panel_width(cols: usize, first: usize, panel: usize) -> usize {
    let unit = if panel < 16 { panel } else { 16 };
    let left = cols.saturating_sub(first);
    if left >= panel { panel } else { ceil_div_usize(left, unit) * unit }
}

/// Floats that `pack` writes for one batch of `cols` columns and `k` rows. Saturates.
#[must_use]
pub const fn packed_len(cols: usize, k: usize, panel: usize) -> usize {
    let unit = if panel < 16 { panel } else { 16 };
    if unit == 0 {
        return 0;
    }
    ceil_div_usize(cols, unit).saturating_mul(unit).saturating_mul(k)
}

/// Packs a k x cols matrix into `out`, which takes [`packed_len`] elements; stops where `out` ends. `line(k, n, to)` writes
/// the columns from n on of row k.
///
/// Whole lines and plain loops: the compiler calls this from build scripts, which Cargo does not optimise.
pub fn pack_lines<T: Copy + Default>(
    cols: usize,
    k: usize,
    panel: usize,
    out: &mut [T],
    mut line: impl FnMut(usize, usize, &mut [T]),
) {
    let (mut rest, mut first) = (out, 0);
    while first < cols && panel > 0 {
        let width = panel_width(cols, first, panel);
        let used = if width < cols - first { width } else { cols - first };
        for row in 0..k {
            let Some((whole, after)) = core::mem::take(&mut rest).split_at_mut_checked(width) else {
                return;
            };
            let Some((columns, padding)) = whole.split_at_mut_checked(used) else { return };
            line(row, first, columns);
            padding.fill(T::default());
            rest = after;
        }
        first += panel;
    }
}

/// As [`pack_lines`], element by element.
pub fn pack(cols: usize, k: usize, panel: usize, out: &mut [f32], mut w: impl FnMut(usize, usize) -> f32) {
    pack_lines(cols, k, panel, out, |row, first, line| {
        for (i, to) in line.iter_mut().enumerate() {
            *to = w(row, first + i);
        }
    });
}
