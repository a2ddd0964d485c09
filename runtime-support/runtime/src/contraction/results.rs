//! Rows of the result at equal distances, as strips and lines write them.
// Register tiles are indexed by constants: iterators over several of them at once hide that.
#![allow(clippy::needless_range_loop)]
// Targets without vectors have no such kernels.
#![cfg_attr(
    not(any(
        all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"),
        all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"),
        all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128")
    )),
    allow(dead_code)
)]

use super::bend::Bend;
use super::job::offset;
use crate::simd::{Simd, load_first, store_first};

/// Rows of the result at equal distances, and what is added to them.
#[derive(Clone, Copy)]
pub(crate) struct Results {
    pub out: *mut f32,
    pub out_step: usize,
    /// Bias of the first column, or null.
    pub bias: *const f32,
    /// Residual of the first column, or null.
    pub residual: *const f32,
    pub residual_step: usize,
    pub clamp: Option<(f32, f32)>,
    /// The function of what is stored, from the first column on.
    pub bend: Option<Bend>,
    /// Columns that exist: fewer than the kernel's where it stores vectors in part, or more where it takes them in turns.
    pub cols: usize,
}

impl Results {
    /// The columns from this one on, if there are any.
    #[inline(always)]
    pub fn from(&self, column: usize) -> Option<Results> {
        let cols = self.cols.checked_sub(column).filter(|cols| *cols > 0)?;
        let (bias, residual) = (offset(self.bias, column), offset(self.residual, column));
        let bend = self.bend.map(|bend| bend.from(column));
        Some(Results { out: self.out.wrapping_add(column), bias, residual, bend, cols, ..*self })
    }

    /// Adds to the sums of MR rows from `first` on, limits them, bends them if they are to be `BENT`, and stores them. Kernels that
    /// have no registers left for slopes do not.
    ///
    /// # Safety
    /// Result, residual and bias have the rows and columns, and so have the slopes.
    #[inline(always)]
    pub unsafe fn finish<S: Simd, const MR: usize, const NV: usize, const BENT: bool>(
        &self,
        s: S,
        first: usize,
        acc: &mut [[S::F32; NV]; MR],
    ) {
        let out = self.out.wrapping_add(first * self.out_step);
        // SAFETY: promised by the caller.
        unsafe {
            // The last vector may lack columns, and whole strips have none that do.
            let part = self.cols < NV * S::LANES;
            let left = |v: usize| if part { self.cols.saturating_sub(v * S::LANES) } else { S::LANES };
            if !self.bias.is_null() {
                for v in 0..NV {
                    let bias = load_first(s, self.bias.wrapping_add(v * S::LANES), left(v));
                    for i in 0..MR {
                        acc[i][v] = s.add(acc[i][v], bias);
                    }
                }
            }
            if !self.residual.is_null() {
                for i in 0..MR {
                    let at = self.residual.wrapping_add((first + i) * self.residual_step);
                    for v in 0..NV {
                        acc[i][v] = s.add(acc[i][v], load_first(s, at.wrapping_add(v * S::LANES), left(v)));
                    }
                }
            }
            if let Some((low, high)) = self.clamp {
                let (low, high) = (s.splat(low), s.splat(high));
                for i in 0..MR {
                    for v in 0..NV {
                        // The second operand wins if it is NaN.
                        acc[i][v] = s.min(high, s.max(low, acc[i][v]));
                    }
                }
            }
            if let Some(bend) = self.bend.filter(|_| BENT) {
                bend.rows(s, acc, left);
            }
            for i in 0..MR {
                let at = out.wrapping_add(i * self.out_step);
                for v in 0..NV {
                    if part {
                        store_first(s, at.wrapping_add(v * S::LANES), left(v), acc[i][v]);
                    } else {
                        s.store(at.wrapping_add(v * S::LANES), acc[i][v]);
                    }
                }
            }
        }
    }
}
