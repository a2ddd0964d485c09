//! Walks batches and blocks of rows.
use super::pack::Source;
use super::softmax::Softmax;
use super::{Attention, Matrix, pitch};
use crate::contraction::job::Job;
use crate::contraction::kernel::Kernels;
use crate::contraction::table::{BLOCK, Block, EMPTY, fill};
use crate::contraction::{Contraction, Epilogue, kernels, packed_len, parts};
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use crate::raw::{Dst, Src};

/// Multiply-adds that take a microsecond.
const WORK: usize = 64 * 1024;

/// One run: the operands of all parts.
struct Run<'a> {
    shape: &'a Attention,
    scored: Contraction,
    summed: Contraction,
    cx: Cx<'a>,
    kernels: Kernels,
    q: Src<'a, f32>,
    k: *const f32,
    v: *const f32,
    out: *mut f32,
    scratch: *mut f32,
    epilogues: (Epilogue<'a>, Epilogue<'a>),
    /// Whether the values of a batch already are a panel.
    in_place: bool,
    /// Rows that are computed at once, and how often that is done for a batch.
    height: usize,
    blocks: usize,
}

// SAFETY: all pointers are shared to be read, but for the working memory, of which every part has its own, and the result, of
// which every part writes its own rows.
unsafe impl Sync for Run<'_> {}

/// # Safety
/// The descriptor fits all operands.
// A frame of its own: the block of one kernel is off the stack when the next one runs.
#[inline(never)]
pub(super) unsafe fn run(
    shape: &Attention,
    cx: Cx<'_>,
    (q, k, v): (Src<'_, f32>, Src<'_, f32>, Src<'_, f32>),
    scratch: &mut [f32],
    mut out: Dst<'_, f32>,
    epilogues: (Epilogue<'_>, Epilogue<'_>),
) {
    let (scored, summed) = (shape.scored(), shape.summed());
    let cx = parts::context(&summed, cx);
    // As few blocks as there may be, of nearly equal heights: the rows may be fewer than the height was chosen for.
    let blocks = ceil_div_usize(scored.m(), shape.height.min(BLOCK));
    let height = ceil_div_usize(scored.m(), blocks);
    let units = scored.batches[0].extent.saturating_mul(scored.batches[1].extent).saturating_mul(blocks);
    let products = scored.k().saturating_add(summed.cols).saturating_mul(scored.cols).saturating_mul(height);
    let count = cx.parts(units.saturating_mul(products), WORK).min(shape.slots).min(units);
    let run = Run {
        shape,
        scored,
        summed,
        cx,
        kernels: kernels::of(cx.isa()),
        q,
        k: k.as_ptr(),
        v: v.as_ptr(),
        out: out.as_mut_ptr(),
        scratch: scratch.as_mut_ptr(),
        epilogues,
        in_place: shape.values_are_panels(),
        height,
        blocks,
    };
    cx.split(count, |range| {
        let run = &run;
        let mut block = EMPTY;
        for part in range {
            let at = |part: usize| floor_div_usize(units.saturating_mul(part), count);
            // SAFETY: promised by the caller; every part is computed once.
            unsafe { run.part(part, (at(part), at(part + 1)), &mut block) };
        }
    });
}

impl Run<'_> {
    /// Blocks of rows `units.0..units.1`, counted through all batches.
    ///
    /// # Safety
    /// The descriptor fits all operands; nobody else uses the part's working memory and the rows of the result.
    unsafe fn part(&self, part: usize, units: (usize, usize), block: &mut Block) {
        let (c, keys) = (&self.scored, self.scored.cols);
        let slot = Attention::slot_len(keys, c.k(), self.summed.cols, c.panel, self.shape.height);
        // SAFETY: as many slots as there may be parts fit the working memory, and this one is the part's own.
        let scratch = unsafe { core::slice::from_raw_parts_mut(self.scratch.add(part * slot), slot) };
        let lengths = (packed_len(keys, c.k(), c.panel), packed_len(self.summed.cols, keys, c.panel));
        let Some((packed_keys, rest)) = scratch.split_at_mut_checked(lengths.0) else { return };
        let Some((packed_values, scores)) = rest.split_at_mut_checked(lengths.1) else { return };
        let mut packed = None;
        for unit in units.0..units.1 {
            let (outer, at) = (floor_div_usize(unit, self.blocks), floor_mod_usize(unit, self.blocks));
            let inner = c.batches[1].extent;
            let batch = [floor_div_usize(outer, inner), floor_mod_usize(outer, inner)];
            let matrices = (self.shape.keys.at(batch), self.shape.values.at(batch));
            // SAFETY: promised by the caller.
            unsafe {
                // Batches may share keys and values.
                if packed != Some(matrices) {
                    self.pack(matrices, packed_keys, packed_values);
                    packed = Some(matrices);
                }
                let values = if self.in_place { self.v.wrapping_add(matrices.1) } else { packed_values.as_ptr() };
                self.rows(batch, at * self.height, (&*packed_keys, values), scores, block);
            }
        }
    }

    /// # Safety
    /// As `part`; the matrices begin at these elements.
    // Compiled once, here.
    #[inline(never)]
    unsafe fn pack(&self, (keys, values): (usize, usize), to_keys: &mut [f32], to_values: &mut [f32]) {
        let (c, panel) = (&self.scored, self.scored.panel);
        let source = |start: *const f32, matrix, k, cols, scale| Source { start, matrix, k, cols, panel, scale };
        let keys = source(self.k.wrapping_add(keys), &self.shape.keys, c.k(), c.cols, self.shape.scale);
        let values = source(self.v.wrapping_add(values), &self.shape.values, c.cols, self.summed.cols, 1.0);
        self.cx.vectorize(
            #[inline(always)]
            || {
                // SAFETY: promised by the caller.
                unsafe {
                    keys.pack(to_keys);
                    if !self.in_place {
                        values.pack(to_values);
                    }
                }
            },
        );
    }

    /// A block of rows.
    ///
    /// # Safety
    /// As `part`.
    unsafe fn rows(
        &self,
        batch: [usize; 2],
        first: usize,
        (keys, values): (&[f32], *const f32),
        scores: &mut [f32],
        block: &mut Block,
    ) {
        let (c, pitch) = (&self.scored, pitch(self.scored.cols));
        let n = self.height.min(c.m().saturating_sub(first));
        let (scored, finished) = (&self.epilogues.0, &self.epilogues.1);
        let Some(scores) = scores.get_mut(..n.saturating_mul(pitch)) else { return };
        fill(c, block, first, n);
        for (i, row) in block.iter_mut().enumerate().take(n) {
            row.out = i * pitch;
        }
        let job = Job::new(c, batch, self.q, keys, scores.as_mut_ptr(), scored);
        // Nobody looks at keys that no row of the block sees.
        let most = self.shape.seen(first.saturating_add(n.saturating_sub(1)));
        // SAFETY: promised by the caller; the rows of the table lie in the working memory.
        unsafe { job.panels(self.kernels, (first, block.get(..n).unwrap_or_default()), 0..most, scored.then) };
        softmax(self.cx, Softmax { rows: scores, pitch, keys: most, seen: self.shape.seen(first) });
        let c = &Contraction { depth: most, ..self.summed };
        fill(c, block, first, n);
        for (i, row) in block.iter_mut().enumerate().take(n) {
            row.a = (i * pitch) as isize;
        }
        let mut job = Job::new(c, batch, Src::from_slice(scores), &[], self.out, finished);
        let rows = (first, block.get(..n).unwrap_or_default());
        let mut col = 0;
        while col < c.cols {
            // Panels lie as far apart as their keys need, seen or not.
            job.w = values.wrapping_add(col.wrapping_mul(self.summed.depth.wrapping_sub(most)));
            let cols = if most < self.summed.depth { col..c.cols.min(col + c.panel) } else { col..c.cols };
            col = cols.end;
            // SAFETY: as above.
            unsafe { job.panels(self.kernels, rows, cols, finished.then) };
        }
    }
}

impl Matrix {
    /// Element (0, 0) of a batch.
    fn at(&self, [i0, i1]: [usize; 2]) -> usize {
        let [b0, b1] = self.batches;
        self.offset.wrapping_add(i0.wrapping_mul(b0)).wrapping_add(i1.wrapping_mul(b1))
    }
}

// Compiled once, here.
#[inline(never)]
fn softmax(cx: Cx<'_>, work: Softmax<'_>) {
    cx.dispatch(work);
}
