//! Lines by kernels of planes, which hold the lines of pixels that they have in common.
use super::super::held::{self, Held, pitch};
use super::super::job::Job;
use super::super::kernel::LINE;
use super::super::planar_kernel::{PlanarKernel, SUMS};
use super::{Contraction, Narrow, TABLED, Table, Then, Weights, blocks, show};
use crate::math::ceil_div_usize;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::{null, null_mut};

/// Lines of a block where not all channels of their windows are held at once: so many sums are kept.
const SOME: usize = 8;

impl Narrow {
    /// Channels whose lines are held at a time for so many outputs, and how many lines that are.
    pub(super) fn held(&self, c: &Contraction, outputs: usize) -> (usize, usize) {
        let (stride, chunks) = (self.lines.stride, ceil_div_usize(c.depth, LINE));
        let size = held::planes(pitch(outputs, self.lines.span(c), stride), stride, c.depth);
        let (places, rows) = (held::places(size), self.lines.rows(c));
        match c.window_rows().saturating_mul(chunks) <= places {
            true => (c.depth, rows.saturating_mul(chunks).min(places)),
            false => (LINE, rows.min(places)),
        }
    }

    /// Lines, or a part of them, from the last one on if they go back; the closure sees them where they lie.
    ///
    /// # Safety
    /// As `parts`.
    // A frame of its own: other kernels have no lines to hold.
    #[inline(never)]
    pub(super) unsafe fn planes(
        &self,
        job: &Job<'_>,
        (kernel, weights): (PlanarKernel, &Weights),
        table: &mut Table,
        (lines, part, is_back): (Range<usize>, Range<usize>, bool),
        then: Option<Then<'_>>,
    ) {
        let (length, outputs) = (self.line(job.c), weights.kernel.outputs);
        let last = part.end.saturating_sub(outputs).max(part.start);
        let (channels, places) = self.held(job.c, outputs);
        let mut held = Held::new(places);
        let mut sums = [MaybeUninit::<f32>::uninit(); SOME * SUMS];
        for some in blocks(lines, is_back, if channels < job.c.depth { SOME } else { TABLED }) {
            let mut done = part.start;
            while done < part.end {
                // The last outputs overlap those before them, which must still be residuals.
                let start = if job.in_place { done } else { done.min(last) };
                if part.len() > outputs {
                    held.forget();
                }
                for first in (0..job.c.depth).step_by(channels.max(1)) {
                    let end = job.c.depth.min(first.saturating_add(channels));
                    for i in 0..some.len() {
                        let number = if is_back { some.end - 1 - i } else { some.start + i };
                        let mut args = self.args(job, weights, table.line(job.c, &self.lines, number));
                        (args.start, args.outputs, args.channels) = (start, part.end - start, (first, end));
                        let sums = sums.as_mut_ptr().cast::<f32>().wrapping_add(i * SUMS);
                        args.sums.0 = if first == 0 { null() } else { sums.cast_const() };
                        args.sums.1 = if end == job.c.depth { null_mut() } else { sums };
                        // SAFETY: promised by the caller; lines have the same data.
                        unsafe { kernel(&args, &mut held) };
                    }
                }
                done += outputs;
            }
            if let Some(then) = then {
                for number in some {
                    let args = self.args(job, weights, table.line(job.c, &self.lines, number));
                    // SAFETY: inside the result, which is borrowed.
                    unsafe { show(job, &args.to, number * length, part.clone(), then) };
                }
            }
        }
    }
}
