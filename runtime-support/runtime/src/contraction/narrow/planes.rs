//! Lines by kernels of planes, which hold the lines of pixels that they have in common.
use super::super::held::{self, Held, pitch};
use super::super::job::Job;
use super::super::kernel::LINE;
use super::super::planar_kernel::PlanarKernel;
use super::{Contraction, Narrow, TABLED, Table, Then, Weights, blocks, show};
use crate::math::ceil_div_usize;
use core::ops::Range;

impl Narrow {
    /// Lines that are held for so many outputs: those that an output reads, of all channels, or none if they are too many.
    fn places(&self, c: &Contraction, outputs: usize) -> usize {
        let (stride, chunks) = (self.lines.stride, ceil_div_usize(c.depth, LINE));
        let least = c.window_rows().saturating_mul(chunks);
        let size = held::planes(pitch(outputs, self.lines.span(c), stride), stride, c.depth);
        let places = held::places(size);
        if least > places { 0 } else { self.lines.rows(c).saturating_mul(chunks).min(places) }
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
        let mut held = Held::new(self.places(job.c, outputs));
        for some in blocks(lines, is_back, TABLED) {
            let mut done = part.start;
            while done < part.end {
                // The last outputs overlap those before them, which must still be residuals.
                let start = if job.in_place { done } else { done.min(last) };
                if part.len() > outputs {
                    held.forget();
                }
                for i in 0..some.len() {
                    let number = if is_back { some.end - 1 - i } else { some.start + i };
                    let mut args = self.args(job, weights, table.line(job.c, &self.lines, number));
                    (args.start, args.outputs) = (start, part.end - start);
                    // SAFETY: promised by the caller; lines have the same data.
                    unsafe { kernel(&args, &mut held) };
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
