//! One batch of a contraction or window, and how its tiles are finished.
use super::bend::{Bend, Slope};
use super::cuts::Line;
use super::kernel::Args;
use super::parts::apart;
use super::plane_strip;
use super::results::Results;
use super::steps::Steps;
use super::strip::Strip;
use super::table::{Row, step};
use super::{Contraction, Epilogue, Then, Tile};
use crate::blocks::blocks_mut;
use crate::isa::Isa;
use crate::raw::Src;

/// Most rows and columns of a micro-kernel.
pub(crate) const MOST_ROWS: usize = if cfg!(target_pointer_width = "64") { 12 } else { 4 };
const MOST_COLS: usize = if cfg!(target_pointer_width = "64") { 32 } else { 8 };

/// One batch: operands moved to its start.
pub(crate) struct Job<'a> {
    pub c: &'a Contraction,
    pub batch: [usize; 2],
    pub a: *const f32,
    pub w: *const f32,
    pub out: *mut f32,
    pub bias: *const f32,
    pub residual: *const f32,
    pub accumulate: bool,
    /// The residual is what the result holds: nothing may be computed twice.
    pub in_place: bool,
    pub clamp: Option<(f32, f32)>,
    /// What strips and lines do instead of the closure.
    pub bend: Option<Bend>,
    /// No two rows of the result overlap.
    pub rows_are_apart: bool,
    /// Panels are walked from the last to the first.
    pub back: bool,
    /// Where tiles end.
    pub line: Line,
    /// The distances of rows that can be computed in strips.
    pub steps: Option<Steps>,
    /// The kernel that takes strips of rows that follow each other in the left operand, and how many rows at least.
    pub plane: Option<(Strip, usize)>,
}

impl<'a> Job<'a> {
    /// Moves the operands to a batch.
    pub fn new(
        c: &'a Contraction,
        batch: [usize; 2],
        a: Src<'_, f32>,
        w: &[f32],
        out: *mut f32,
        epilogue: &Epilogue<'_>,
    ) -> Self {
        let ([b0, b1], [i0, i1]) = (c.batches, batch);
        let at = |start: usize, s0: usize, s1: usize| {
            start.wrapping_add(i0.wrapping_mul(s0)).wrapping_add(i1.wrapping_mul(s1))
        };
        let a_at = c.a_offset.wrapping_add(step(i0, b0.a)).wrapping_add(step(i1, b1.a));
        let bias = epilogue.bias.map(|bias| bias.as_ptr().wrapping_add(at(0, b0.bias, b1.bias)));
        let residual = epilogue.residual.map(|residual| residual.as_ptr());
        let residual = residual.map(|p| p.wrapping_add(at(c.residual_offset, b0.residual, b1.residual)));
        Job {
            c,
            batch,
            a: a.as_ptr().wrapping_offset(a_at),
            w: w.as_ptr().wrapping_add(at(0, b0.w, b1.w)),
            out: out.wrapping_add(at(c.out_offset, b0.out, b1.out)),
            bias: bias.unwrap_or(core::ptr::null()),
            residual: residual.unwrap_or(core::ptr::null()),
            accumulate: epilogue.accumulate,
            in_place: false,
            clamp: epilogue.clamp,
            bend: None,
            rows_are_apart: epilogue.then.is_some() && apart(c, 0),
            back: false,
            line: Line::NONE,
            steps: Steps::of(c),
            plane: None,
        }
    }

    /// Takes the old result as the residual, where its steps are those of the result: kernels add that themselves.
    pub fn updating(mut self) -> Self {
        if self.accumulate && self.residual.is_null() && updates(self.c) {
            (self.residual, self.accumulate, self.in_place) = (self.out.cast_const(), false, true);
        }
        self
    }

    /// Asks the closure whether strips and lines can do its work in registers.
    pub fn bending(mut self, then: Option<Then<'_>>) -> Self {
        self.bend = then.and_then(|then| Bend::of(then, self.c.cols));
        self
    }

    /// The slopes, if the closure does nothing but that.
    pub fn slope(&self) -> Option<Slope> {
        match self.bend? {
            Bend::Slope(slope) => Some(slope),
            Bend::HardSwish => None,
        }
    }

    /// Takes kernels of planes where rows follow each other and the columns are few.
    pub fn in_planes(mut self, isa: Isa) -> Self {
        let steps = self.steps.filter(|_| !self.in_place && !self.accumulate);
        self.plane = steps.and_then(|steps| plane_strip::of(isa, self.c, &steps));
        self
    }

    /// The arguments of a kernel for these rows and `cols` columns from `first` on, straight to the result; operands as the
    /// caller has them.
    #[inline(always)]
    pub fn args<'r>(&'r self, rows: &'r [Row], first: usize, cols: usize) -> Args<'r> {
        Args {
            c: self.c,
            rows,
            a: self.a,
            w: self.w,
            w_stride: cols,
            next: core::ptr::null(),
            out: self.out.wrapping_add(first),
            buffer: 0,
            bias: offset(self.bias, first),
            residual: offset(self.residual, first),
            clamp: self.clamp,
            cols,
        }
    }

    /// One tile: straight to the result, or through a buffer if columns are missing or the old output is added. A
    /// closure then sees the tile where it lies.
    ///
    /// # Safety
    /// The operands cover the tile; `compute` writes it as its arguments say.
    pub unsafe fn tile(
        &self,
        cols: usize,
        args: Args<'_>,
        place: &Place,
        then: Option<Then<'_>>,
        compute: impl Fn(&Args<'_>),
    ) {
        if place.direct && !self.accumulate {
            compute(&args);
        } else {
            let mut buffer = [0.0f32; MOST_ROWS * MOST_COLS];
            let buffered = Args { out: buffer.as_mut_ptr(), buffer: cols, ..args };
            compute(&buffered);
            let data = buffer.get_mut(..place.rows * cols).unwrap_or_default();
            for (row, values) in args.rows.iter().zip(blocks_mut(data, cols)) {
                let values = values.get_mut(..place.cols).unwrap_or_default();
                // SAFETY: row and columns are inside the operands; the buffer is our own.
                unsafe {
                    self.epilogue(&args, args.out, row, values);
                    core::ptr::copy_nonoverlapping(values.as_ptr(), args.out.add(row.out), place.cols);
                }
            }
        }
        if let Some(then) = then {
            // SAFETY: promised by the caller.
            unsafe { self.finished(&args, place, then) };
        }
    }

    /// Shows the closure a tile that lies in the result.
    ///
    /// # Safety
    /// The operands cover the tile.
    pub unsafe fn finished(&self, args: &Args<'_>, place: &Place, then: Then<'_>) {
        let rows = args.rows.get(..place.rows).unwrap_or_default();
        // Rows that may overlap are shown one by one.
        let together = if self.rows_are_apart { rows.len() } else { 1 };
        for (i, rows) in rows.chunks(together.max(1)).enumerate() {
            let (first_row, first_col) = (place.first_row + i * together, place.first_col);
            // SAFETY: rows and columns are inside the result, which `run` borrows; no two of these rows overlap.
            then(unsafe { Tile::in_place(self.batch, (first_row, first_col), rows, args.out, place.cols) });
        }
    }

    /// Shows the closure so many rows that lie in the result at equal distances.
    ///
    /// # Safety
    /// Rows and columns are inside the result, which the caller borrows.
    pub unsafe fn show(&self, then: Then<'_>, (first_row, first_col): (usize, usize), results: &Results, rows: usize) {
        let (place, step) = ((first_row, first_col), results.out_step);
        // SAFETY: promised by the caller.
        unsafe { Tile::show(then, self.batch, place, results.out, (rows, 1, step), results.cols) };
    }

    /// Bias, residual, old output and clamp on one row of the buffer.
    ///
    /// # Safety
    /// The row and its columns are inside the operands.
    unsafe fn epilogue(&self, args: &Args<'_>, out: *mut f32, row: &Row, values: &mut [f32]) {
        let add = |values: &mut [f32], from: *const f32| {
            for (i, x) in values.iter_mut().enumerate() {
                // SAFETY: as promised for the row.
                *x += unsafe { *from.add(i) };
            }
        };
        if !args.bias.is_null() {
            add(values, args.bias);
        }
        if !args.residual.is_null() {
            add(values, args.residual.wrapping_add(row.residual));
        }
        if self.accumulate {
            add(values, out.wrapping_add(row.out));
        }
        if let Some((low, high)) = self.clamp {
            for x in values {
                *x = crate::math::clamp(*x, low, high);
            }
        }
    }
}

/// Whether the steps of the residual are those of the result.
pub(crate) fn updates(c: &Contraction) -> bool {
    let rows = c.rows.iter().map(|axis| (axis.extent, axis.out, axis.residual));
    let batches = c.batches.iter().map(|axis| (axis.extent, axis.out, axis.residual));
    c.residual_offset == c.out_offset
        && rows.chain(batches).all(|(extent, out, residual)| extent <= 1 || out == residual)
}

/// Where a tile lies in the result.
pub(crate) struct Place {
    /// Whether the kernel can write its columns to the result itself.
    pub direct: bool,
    pub rows: usize,
    pub cols: usize,
    pub first_row: usize,
    pub first_col: usize,
}

/// `p + by`, or null.
#[inline(always)]
pub(crate) fn offset(p: *const f32, by: usize) -> *const f32 {
    if p.is_null() { p } else { p.wrapping_add(by) }
}
