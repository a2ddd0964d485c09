//! The forms of weights as kernels read them: vectors of columns, steps of four products.
use super::{Compact, Form, STEP, width};
use crate::math::{ceil_div_usize, floor_div_usize};
use crate::simd::Simd;

/// How weights lie in a panel.
pub(super) trait Codes: Copy {
    /// Bytes of a column in a line of codes.
    const COLUMN: usize;
    /// Lines of codes of a step.
    const LINES: usize;
    /// Whether codes are on a grid; else they are the weights.
    const GRID: bool;

    /// The codes of a vector of columns, for product `i` of a step whose lines are `line` bytes long.
    ///
    /// # Safety
    /// So many bytes of every line of the step are valid from `at` on.
    unsafe fn load<S: Simd>(s: S, at: *const u8, line: usize, i: usize) -> S::F32;
}

/// 16-bit floats.
#[derive(Clone, Copy)]
pub(super) struct Halves;

impl Codes for Halves {
    const COLUMN: usize = 2;
    const LINES: usize = STEP;
    const GRID: bool = false;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, at: *const u8, line: usize, i: usize) -> S::F32 {
        // SAFETY: promised by the caller.
        unsafe { s.load_f16(at.add(i * line).cast()) }
    }
}

/// A byte for each weight.
#[derive(Clone, Copy)]
pub(super) struct Bytes;

impl Codes for Bytes {
    const COLUMN: usize = 1;
    const LINES: usize = STEP;
    const GRID: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, at: *const u8, line: usize, i: usize) -> S::F32 {
        // SAFETY: promised by the caller.
        s.i32_to_f32(s.u8_to_i32(unsafe { s.load_u8(at.add(i * line)) }))
    }
}

/// A byte for two products of a column, the first one in its low bits.
#[derive(Clone, Copy)]
pub(super) struct Nibbles;

impl Codes for Nibbles {
    const COLUMN: usize = 1;
    const LINES: usize = STEP / 2;
    const GRID: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, at: *const u8, line: usize, i: usize) -> S::F32 {
        // SAFETY: promised by the caller.
        let pair = s.u8_to_i32(unsafe { s.load_u8(at.add(i / 2 * line)) });
        s.i32_to_f32(if i.is_multiple_of(2) { s.and_i32(pair, s.splat_i32(15)) } else { s.shr_logical_i32(pair, 4) })
    }
}

/// A panel of compact weights.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// Scales and zeros of all groups.
    grid: *const f32,
    /// The codes of the first product.
    codes: *const u8,
    /// Columns with those that fill the last unit.
    pub width: usize,
    /// Groups of products, and steps of each.
    pub groups: usize,
    pub steps: usize,
}

impl Panel {
    /// A panel of weights that begin at `w`.
    #[inline]
    pub fn new(compact: &Compact, w: *const u8, panel: usize) -> Self {
        let (c, width) = (&compact.product, width(&compact.product, panel));
        // All panels before are whole.
        let start = w.wrapping_add(panel.wrapping_mul(compact.panel_bytes(c.panel)));
        let (groups, group) = match compact.form {
            Form::Halves => (1, c.k()),
            Form::Bytes | Form::Nibbles => (floor_div_usize(c.k(), compact.group), compact.group),
        };
        let codes = start.wrapping_add(compact.grid_bytes(width));
        Panel { grid: start.cast(), codes, width, groups, steps: ceil_div_usize(group, STEP) }
    }

    /// Scales and zeros of a group, from a column on.
    #[inline(always)]
    pub fn grid(&self, group: usize, column: usize) -> (*const f32, *const f32) {
        let scales = self.grid.wrapping_add(group * 2 * self.width + column);
        (scales, scales.wrapping_add(self.width))
    }

    /// The codes of the first step from a column on, and the length of a line.
    #[inline(always)]
    pub fn codes<C: Codes>(&self, column: usize) -> (*const u8, usize) {
        (self.codes.wrapping_add(column * C::COLUMN), self.width * C::COLUMN)
    }
}
