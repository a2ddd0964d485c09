//! Walks batches, blocks of rows, tiles, lists of taps and channels, and calls the micro-kernels.
use super::kernel::{KernelSet, LIST, MOST_COLS, ROWS, TapAt, WindowArgs, of};
use super::{Divisor, Operation};
use crate::contraction::job::{Job, Place, offset};
use crate::contraction::kernel::Args;
use crate::contraction::table::{BLOCK, EMPTY, Row, fill, step, valid_rows};
use crate::contraction::{Contraction, Epilogue, Tile};
use crate::cx::Cx;
use crate::raw::{Dst, Src};

/// Rows of a tile, and the channels done at a time.
struct Strip<'a> {
    /// The rows; not all of them may be in use.
    tabled: &'a [Row; ROWS],
    /// First row in the batch.
    first_row: usize,
    rows: usize,
    divisors: [f32; ROWS],
}

/// # Safety
/// The geometry fits all operands.
// A frame of its own: the block of one kernel is off the stack when the next one runs.
#[inline(never)]
pub(super) unsafe fn run(
    c: &Contraction,
    cx: Cx<'_>,
    operation: Operation,
    a: Src<'_, f32>,
    w: &[f32],
    mut out: Dst<'_, f32>,
    mut epilogue: Epilogue<'_>,
) {
    let (kernels, m) = (of(cx.isa()), c.m());
    let mut block = EMPTY;
    for i0 in 0..c.batches[0].extent {
        for i1 in 0..c.batches[1].extent {
            let job = Job::new(c, [i0, i1], a, w, &mut out, &epilogue);
            let mut first = 0;
            while first < m {
                let n = BLOCK.min(m - first);
                fill(c, &mut block, first, n);
                let mut row = 0;
                for tabled in block.as_chunks::<ROWS>().0.iter().take(n.div_ceil(ROWS)) {
                    let rows = ROWS.min(n - row);
                    let mut strip = Strip { tabled, first_row: first + row, rows, divisors: [1.0; ROWS] };
                    strip.divide(c, operation);
                    // SAFETY: promised by the caller.
                    unsafe { strip.run(&job, kernels, operation, &mut epilogue.then) };
                    row += rows;
                }
                first += n;
            }
        }
    }
}

impl Strip<'_> {
    /// Which rows are not in the padding at tap `index`.
    #[inline(always)]
    fn valid(&self, c: &Contraction, axis: u8, index: usize) -> u32 {
        valid_rows::<ROWS>(self.tabled, &c.bounds, axis, index)
    }

    /// Sets the divisors.
    fn divide(&mut self, c: &Contraction, operation: Operation) {
        match operation {
            Operation::Average(Divisor::Fixed(divisor)) => self.divisors = [divisor; ROWS],
            Operation::Average(Divisor::InBounds) => {
                let mut count = [0.0f32; ROWS];
                self.taps(c, |tap| {
                    for (i, count) in count.iter_mut().enumerate() {
                        *count += if tap.rows >> i & 1 == 1 { 1.0 } else { 0.0 };
                    }
                });
                self.divisors = count.map(|count| count.max(1.0));
            }
            _ => {}
        }
    }

    /// Calls `f` for every tap that some row needs.
    fn taps(&self, c: &Contraction, mut f: impl FnMut(TapAt)) {
        let inside = self.tabled.iter().take(self.rows).all(|row| row.inside);
        let all = (1 << ROWS) - 1;
        let valid = |axis, index| if inside { all } else { self.valid(c, axis, index) };
        let [t0, t1, t2, t3] = c.taps;
        let mut index = 0;
        for i0 in 0..t0.extent {
            let mask0 = valid(0, i0);
            for i1 in 0..t1.extent {
                let mask1 = mask0 & valid(1, i1);
                for i2 in 0..t2.extent {
                    let mask2 = mask1 & valid(2, i2);
                    let at = step(i0, t0.a).wrapping_add(step(i1, t1.a)).wrapping_add(step(i2, t2.a));
                    for i3 in 0..t3.extent {
                        let rows = mask2 & valid(3, i3);
                        if rows != 0 {
                            f(TapAt { at: at.wrapping_add(step(i3, t3.a)), index, rows });
                        }
                        index += 1;
                    }
                }
            }
        }
    }

    /// All channels of the strip.
    ///
    /// # Safety
    /// The geometry fits all operands.
    unsafe fn run(
        &self,
        job: &Job<'_>,
        kernels: &[&KernelSet],
        operation: Operation,
        then: &mut Option<&mut dyn FnMut(Tile<'_>)>,
    ) {
        let mut list = [TapAt { at: 0, index: 0, rows: 0 }; LIST];
        let mut taps = 0;
        self.taps(job.c, |tap| {
            if let Some(slot) = list.get_mut(taps) {
                *slot = tap;
            }
            taps += 1;
        });
        let mut column = 0;
        while column < job.c.cols {
            let Some(set) = kernels.iter().find(|set| set.cols <= job.c.cols - column) else { return };
            let kernels = match operation {
                Operation::Depthwise => &set.depthwise,
                Operation::Max => &set.max,
                Operation::Average(_) => &set.average,
            };
            let Some(kernel) = self.rows.checked_sub(1).and_then(|i| kernels.get(i)) else { return };
            let args = Args {
                c: job.c,
                rows: self.tabled,
                a: job.a.wrapping_add(column),
                w: job.w.wrapping_add(column),
                w_stride: job.c.cols,
                out: job.out.wrapping_add(column),
                buffer: 0,
                bias: offset(job.bias, column),
                residual: offset(job.residual, column),
                clamp: job.clamp,
            };
            let place = Place { rows: self.rows, cols: set.cols, first_row: self.first_row, first_col: column };
            let compute = |args: &Args<'_>| {
                let mut partial = [0.0f32; ROWS * MOST_COLS];
                let (first, last, divisors) = (true, true, self.divisors);
                let mut call =
                    WindowArgs { tile: args, taps: &[], partial: partial.as_mut_ptr(), first, last, divisors };
                if taps <= LIST {
                    call.taps = list.get(..taps).unwrap_or_default();
                    // SAFETY: as checked for the geometry; the kernel is of the context's instruction set.
                    return unsafe { kernel(&call) };
                }
                // SAFETY: as above.
                unsafe { self.long(job.c, taps, &mut call, *kernel) }
            };
            // SAFETY: promised by the caller.
            unsafe { job.tile(set.cols, args, &place, then, compute) };
            column += set.cols;
        }
    }

    /// More taps than the list holds: several calls that hand their accumulators on.
    ///
    /// # Safety
    /// As the kernel.
    unsafe fn long(&self, c: &Contraction, taps: usize, call: &mut WindowArgs<'_>, kernel: super::kernel::Kernel) {
        let mut list = [TapAt { at: 0, index: 0, rows: 0 }; LIST];
        let (mut used, mut done) = (0, 0);
        let WindowArgs { tile, partial, divisors, .. } = *call;
        self.taps(c, |tap| {
            if let Some(slot) = list.get_mut(used) {
                *slot = tap;
            }
            used += 1;
            if used == LIST || done + used == taps {
                let (first, last) = (done == 0, done + used == taps);
                let taps = list.get(..used).unwrap_or_default();
                // SAFETY: promised by the caller.
                unsafe { kernel(&WindowArgs { tile, taps, partial, first, last, divisors }) };
                done += used;
                used = 0;
            }
        });
    }
}
