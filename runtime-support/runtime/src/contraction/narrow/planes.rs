//! Lines by kernels of planes, which hold the lines of pixels that they have in common.
use super::super::held::{Held, pitch, places};
use super::super::job::Job;
use super::super::kernel::LINE;
use super::super::planar_kernel::PlanarKernel;
use super::{Contraction, Narrow, TABLED, Table, Then, Weights, show};
use crate::math::{ceil_div_usize, floor_div_usize};
use core::ops::Range;

impl Narrow {
    /// Lines that are held for so many outputs: those that an output reads, of all channels, or none if they are too many.
    fn places(&self, c: &Contraction, outputs: usize) -> usize {
        let (stride, window) = (self.lines.stride, c.taps[3].extent);
        let all = floor_div_usize(c.k(), window.saturating_mul(c.depth)).saturating_mul(ceil_div_usize(c.depth, LINE));
        if all > places(pitch(outputs, window, stride), stride, c.depth) { 0 } else { all }
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
        let (length, outputs, mut left) = (self.line(job.c), weights.kernel.outputs, lines);
        let last = part.end.saturating_sub(outputs).max(part.start);
        let mut held = Held::new(self.places(job.c, outputs));
        while !left.is_empty() {
            // Lines with one table.
            let some = match is_back {
                true => floor_div_usize(left.end - 1, TABLED) * TABLED..left.end,
                false => left.start..(floor_div_usize(left.start, TABLED) + 1) * TABLED,
            };
            let some = some.start.max(left.start)..some.end.min(left.end);
            left = if is_back { left.start..some.start } else { some.end..left.end };
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
