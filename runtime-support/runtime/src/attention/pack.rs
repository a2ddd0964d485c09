//! Packing of keys and values into panels of columns, one batch at a time.
use super::Matrix;
use crate::contraction::panel_width;
use crate::transpose::{SQUARE, square_of_words};

/// Where a matrix lies, and how large it is.
pub(super) struct Source<'a> {
    /// Element (0, 0).
    pub start: *const f32,
    pub matrix: &'a Matrix,
    pub k: usize,
    pub cols: usize,
    pub panel: usize,
    /// Multiplies all elements.
    pub scale: f32,
}

impl Source<'_> {
    /// Fills `out` with the panels, as [`crate::contraction::pack`] does.
    ///
    /// # Safety
    /// All elements are valid to read.
    #[inline(always)]
    pub unsafe fn pack(&self, mut out: &mut [f32]) {
        let mut first = 0;
        while first < self.cols {
            let width = panel_width(self.cols, first, self.panel);
            let Some((panel, rest)) = core::mem::take(&mut out).split_at_mut_checked(width.saturating_mul(self.k))
            else {
                return;
            };
            let (used, start) = (width.min(self.cols - first), self.start.wrapping_add(first * self.matrix.n));
            // SAFETY: promised by the caller.
            unsafe {
                match (self.matrix.k, self.matrix.n) {
                    (_, 1) => self.rows(start, panel, width, used),
                    (1, _) => self.columns(start, panel, width, used),
                    _ => self.elements(start, panel, width, (0, used), 0),
                }
            }
            zeros(panel, width, used);
            (out, first) = (rest, first + self.panel);
        }
    }

    /// # Safety
    /// As `pack`; `panel` has `k` rows of `width`.
    #[inline(always)]
    unsafe fn rows(&self, start: *const f32, panel: &mut [f32], width: usize, used: usize) {
        for k in 0..self.k {
            let (from, to) = (start.wrapping_add(k * self.matrix.k), panel.as_mut_ptr().wrapping_add(k * width));
            for n in 0..used {
                // SAFETY: promised by the caller; `used` is at most `width`.
                unsafe { *to.add(n) = *from.add(n) * self.scale };
            }
        }
    }

    /// # Safety
    /// As `rows`.
    #[inline(always)]
    unsafe fn columns(&self, start: *const f32, panel: &mut [f32], width: usize, used: usize) {
        let (whole_n, whole_k) = (used - used % SQUARE, self.k - self.k % SQUARE);
        let to = panel.as_mut_ptr();
        let mut n = 0;
        while n < whole_n {
            let mut k = 0;
            while k < whole_k {
                // SAFETY: promised by the caller: the square is inside the matrix and the panel.
                unsafe {
                    let (from, to) = (start.wrapping_add(n * self.matrix.n + k), to.wrapping_add(k * width + n));
                    square_of_words(
                        from.cast(),
                        self.matrix.n,
                        to.cast(),
                        width,
                        #[inline(always)]
                        |x| (f32::from_bits(x) * self.scale).to_bits(),
                    );
                };
                k += SQUARE;
            }
            n += SQUARE;
        }
        // SAFETY: promised by the caller.
        unsafe {
            self.elements(start, panel, width, (0, whole_n), whole_k);
            self.elements(start, panel, width, (whole_n, used), 0);
        }
    }

    /// Columns `n` from row `k` on, one by one.
    ///
    /// # Safety
    /// As `rows`.
    #[inline(always)]
    unsafe fn elements(&self, start: *const f32, panel: &mut [f32], width: usize, n: (usize, usize), k: usize) {
        let to = panel.as_mut_ptr();
        for k in k..self.k {
            for n in n.0..n.1 {
                // SAFETY: promised by the caller; columns are less than `width`.
                unsafe { *to.add(k * width + n) = *start.add(k * self.matrix.k + n * self.matrix.n) * self.scale };
            }
        }
    }
}

/// Columns that do not exist.
#[inline(always)]
fn zeros(panel: &mut [f32], width: usize, used: usize) {
    if used < width {
        for row in crate::blocks::blocks_mut(panel, width) {
            row.get_mut(used..).unwrap_or_default().fill(0.0);
        }
    }
}
