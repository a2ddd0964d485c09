//! The forms of weights as kernels read them: vectors of columns, steps of four products.
use super::{Compact, STEP, width};
use crate::math::ceil_div_usize;
use crate::simd::Simd;

/// 2^23: its last bit is worth 1.
const WHOLE: f32 = 8_388_608.0;
/// 2^19: its last bit is worth a sixteenth.
const SIXTEENTHS: f32 = 524_288.0;

/// How weights lie in a panel.
pub(super) trait Codes: Copy {
    /// Bytes of a column in a line of codes.
    const COLUMN: usize;
    /// Lines of codes of a step.
    const LINES: usize;
    /// Whether codes are on a grid; else they are the weights.
    const GRID: bool;
    /// What is added to the codes of products with even and with odd numbers: powers of two whose last bit is that of a code.
    /// A code becomes a number by its bits, and a subtraction, which is exact, takes this away together with the zero.
    const BASES: [f32; 2];

    /// The codes of a vector of columns plus their base, for product `i` of a step whose lines are `line` bytes long.
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
    const BASES: [f32; 2] = [0.0; 2];

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
    const BASES: [f32; 2] = [WHOLE; 2];

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, at: *const u8, line: usize, i: usize) -> S::F32 {
        // SAFETY: promised by the caller.
        let code = s.u8_to_i32(unsafe { s.load_u8(at.add(i * line)) });
        s.bits_to_f32(s.or_i32(code, s.splat_i32(WHOLE.to_bits() as i32)))
    }
}

/// A byte for two products of a column, the first one in its low bits.
#[derive(Clone, Copy)]
pub(super) struct Nibbles;

impl Codes for Nibbles {
    const COLUMN: usize = 1;
    const LINES: usize = STEP / 2;
    const GRID: bool = true;
    const BASES: [f32; 2] = [WHOLE, SIXTEENTHS];

    #[inline(always)]
    unsafe fn load<S: Simd>(s: S, at: *const u8, line: usize, i: usize) -> S::F32 {
        // SAFETY: promised by the caller.
        let pair = s.u8_to_i32(unsafe { s.load_u8(at.add(i / 2 * line)) });
        let (bits, base) = if i.is_multiple_of(2) { (0x0F, WHOLE) } else { (0xF0, SIXTEENTHS) };
        s.bits_to_f32(s.or_i32(s.and_i32(pair, s.splat_i32(bits)), s.splat_i32(base.to_bits() as i32)))
    }
}

/// A panel of compact weights.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    at: *const u8,
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
        let at = w.wrapping_add(panel.wrapping_mul(compact.panel_bytes(c.panel)));
        Panel { at, width, groups: compact.groups(), steps: ceil_div_usize(compact.group, STEP) }
    }

    /// A group, from a column on.
    #[inline(always)]
    pub fn group<C: Codes>(&self, group: usize, column: usize) -> Group {
        let (grid, line) = (if C::GRID { self.width * 2 * size_of::<f32>() } else { 0 }, self.width * C::COLUMN);
        let start = self.at.wrapping_add(group * (grid + self.steps * C::LINES * line));
        let scales = start.cast::<f32>().wrapping_add(column);
        Group {
            scales,
            zeros: scales.wrapping_add(self.width),
            codes: start.wrapping_add(grid + column * C::COLUMN),
            line,
        }
    }
}

/// The weights of a group of products, from a column on.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub scales: *const f32,
    pub zeros: *const f32,
    /// The codes of the first product.
    pub codes: *const u8,
    /// Bytes of a line of codes.
    pub line: usize,
}
