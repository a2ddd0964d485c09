//! Convolutions with no more columns than a wide vector holds, as of narrow groups: line by line, because tiles of so few
//! products wait for the addresses of their rows, and most of these have taps in the padding.
mod planes;

use super::fold::{FoldKernel, Folded};
use super::job::{Job, MOST_ROWS, offset};
use super::kernel::LINE;
use super::line::{self, Lines};
use super::narrow_kernel::{self, COPY, Kernel, NarrowArgs, NarrowCopy, NarrowKernel, Tiling, row};
use super::parts::{Parts, Shared};
use super::planar_kernel::{self, Shape};
use super::results::Results;
use super::{Contraction, Then};
use crate::cx::Cx;
use crate::isa::Isa;
use crate::math::{ceil_div_usize, floor_div_usize};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::{null, null_mut};

/// Fewest channels: a copy of fewer would be gaps.
const LEAST_DEPTH: usize = 8;
/// Most rows of a window: those of volumes are many.
pub(super) const MOST_TAPS: usize = 25;
/// Outputs of a kernel, at most.
const MOST_OUTPUTS: usize = 64;
/// Outputs of a kernel for which the window is copied, at most.
const MOST_COPIED: usize = 16;
/// Lines whose addresses are tabled, for all batches.
const TABLED: usize = 16;

type Line = line::Line<MOST_TAPS>;

/// Such a convolution.
pub(super) struct Narrow {
    lines: Lines,
    whole: Tiling,
    /// For convolutions whose weights can be folded.
    groups: Option<(FoldKernel, Tiling)>,
}

/// What the columns of a batch are computed with.
struct Weights {
    kernel: Tiling,
    w: *const f32,
    width: usize,
}

/// The addresses of lines, which all batches have in common.
struct Table {
    lines: [Line; TABLED],
    tabled: Range<usize>,
}

impl Table {
    /// Line number `line`.
    fn line(&mut self, c: &Contraction, lines: &Lines, line: usize) -> &Line {
        if !self.tabled.contains(&line) {
            let first = floor_div_usize(line, TABLED) * TABLED;
            for (i, slot) in self.lines.iter_mut().enumerate() {
                *slot = lines.line(c, first + i);
            }
            self.tabled = first..first + TABLED;
        }
        &self.lines[line % TABLED]
    }
}

impl Narrow {
    /// The convolution in lines, if it has the form and there is a kernel.
    pub fn of(c: &Contraction, isa: Isa) -> Option<Self> {
        let set = narrow_kernel::of(isa, c.cols)?;
        let window = c.taps[3].extent;
        // Tiles of several vectors need not wait for their sums; what is gained there is zeros left out.
        let gains = set.beats_tiles || Folded::takes(c);
        if c.cols > LINE || c.panel < LINE || window < 2 || !gains {
            return None;
        }
        let lines = Lines::of(c, MOST_TAPS)?;
        let outputs = lines.outputs(c);
        let taps = floor_div_usize(c.k(), window.saturating_mul(c.depth));
        let fits = |taps: usize| {
            move |rows: usize| {
                let (_, row) = row(rows, lines.stride, (window, c.depth));
                rows <= MOST_COPIED && c.depth >= LEAST_DEPTH && row.saturating_mul(taps) <= COPY
            }
        };
        let of = |kernels, taps| set.choose(kernels, lines.stride, outputs, fits(taps));
        let groups = if Folded::takes(c) { of(&set.groups, taps).map(|(_, kernel)| (set.fold, kernel)) } else { None };
        let (by_parts, at_once) = (of(&set.whole, 1), of(&set.whole, taps));
        // Of every second pixel, twice as many are copied.
        let copy = |kernel: &Tiling| copies((outputs, kernel.outputs), lines.stride, window);
        let tiles = tiles(outputs, c.depth, set.quarters);
        let least = at_once.map_or(tiles, |(time, _)| time);
        let columns = by_parts.filter(|(time, kernel)| lines.stride == 1 || time + copy(kernel) < least).or(at_once);
        let columns = columns.filter(|(time, kernel)| set.quarters == 4 || time + copy(kernel) < tiles);
        // Tiles of rows take a vector for every output, and a quarter of it for their addresses.
        let (time, columns) =
            columns.map_or((outputs.saturating_mul(set.quarters + 1) / 4, None), |(time, kernel)| (time, Some(kernel)));
        let shape = Shape { cols: c.cols, outputs, stride: lines.stride, taps, window, depth: c.depth };
        let planar = planar_kernel::choose(isa, shape);
        let planar = planar.filter(|(planar, _)| *planar < time).map(|(_, kernel)| kernel);
        Some(Narrow { whole: planar.or(columns)?, groups, lines })
    }

    /// Outputs of a line.
    pub fn line(&self, c: &Contraction) -> usize {
        self.lines.outputs(c)
    }

    /// A range of parts, whose rows are whole lines.
    ///
    /// # Safety
    /// The descriptor fits all operands; where it accumulates, [`Job::updating`] can; the machine has the instruction set.
    // A frame of its own: others table rows instead.
    #[inline(never)]
    pub unsafe fn parts(
        &self,
        (c, shared): (&Contraction, &Shared<'_>),
        cx: Cx<'_>,
        parts: &Parts,
        range: Range<usize>,
    ) {
        let (mut table, mut folded) = (Table { lines: [Line::NOWHERE; TABLED], tabled: 0..0 }, Folded::NONE);
        let (length, then) = (self.line(c), shared.epilogue.then);
        let at = |range: &Range<usize>, i: usize| if cx.is_back() { range.end - 1 - i } else { range.start + i };
        for i in 0..range.len() {
            let (batch, rows, _) = parts.part(at(&range, i));
            let job = Job::new(c, batch, shared.a, shared.w, shared.out, &shared.epilogue).updating();
            // SAFETY: promised by the caller.
            let weights = unsafe { self.weights(c, job.w, &mut folded) };
            let lines = floor_div_usize(rows.start, length)..floor_div_usize(rows.end, length);
            let (kernel, copy) = match weights.kernel.kernel {
                Kernel::Columns(kernel, copy) => (kernel, copy),
                Kernel::Planes(kernel) => {
                    // SAFETY: promised by the caller.
                    unsafe { self.planes(&job, (kernel, &weights), &mut table, (lines, cx.is_back()), then) };
                    continue;
                }
            };
            for i in 0..lines.len() {
                let number = at(&lines, i);
                let line = table.line(c, &self.lines, number);
                // SAFETY: promised by the caller.
                unsafe { self.compute(&job, (kernel, copy, &weights), (line, number * length), then) };
            }
        }
    }

    /// The weights of a batch, folded where they are those of merged groups.
    ///
    /// # Safety
    /// As `parts`.
    unsafe fn weights(&self, c: &Contraction, w: *const f32, folded: &mut Folded) -> Weights {
        // SAFETY: promised by the caller.
        let groups = self.groups.and_then(|(fold, kernel)| Some((unsafe { folded.fold(fold, c, w) }?, kernel)));
        match groups {
            Some(((w, width), kernel)) => Weights { kernel, w, width },
            None => Weights { kernel: self.whole, w, width: 0 },
        }
    }

    /// The arguments of kernels for a line, from the first output on.
    fn args<'l>(&self, job: &Job<'_>, weights: &Weights, line: &'l Line) -> NarrowArgs<'l> {
        let (c, axis) = (job.c, self.lines.axis(job.c));
        let to = Results {
            out: job.out.wrapping_add(line.out),
            out_step: axis.out,
            bias: job.bias,
            residual: offset(job.residual, line.residual),
            residual_step: axis.residual,
            clamp: job.clamp,
            cols: c.cols,
        };
        NarrowArgs {
            taps: line.taps(),
            a: job.a.wrapping_offset(line.a),
            pixel: c.taps[3].a,
            stride: self.lines.stride,
            first: self.lines.first,
            limit: self.lines.limit,
            depth: c.depth,
            window: c.taps[3].extent,
            w: weights.w,
            width: weights.width,
            copy: null(),
            sums: (null(), null_mut()),
            to,
            start: 0,
            outputs: axis.extent,
        }
    }

    /// One line, then the closure on it where it lies.
    ///
    /// # Safety
    /// As `parts`.
    unsafe fn compute(
        &self,
        job: &Job<'_>,
        (kernel, copy, weights): (NarrowKernel, NarrowCopy, &Weights),
        (line, first_row): (&Line, usize),
        then: Option<Then<'_>>,
    ) {
        let (mut args, rows) = (self.args(job, weights, line), weights.kernel.outputs);
        let (mut done, mut old, extent) = (0, [MaybeUninit::uninit(); MOST_OUTPUTS * LINE], args.outputs);
        let last = extent.saturating_sub(rows);
        if job.in_place {
            // SAFETY: these are the rows of the last outputs.
            unsafe { save(&args.to, last..extent, &mut old) };
        }
        while done < extent {
            // The last outputs overlap those before them, which are not residuals any more.
            let start = done.min(last);
            if job.in_place && start < done {
                args.to.residual = old.as_ptr().cast::<f32>().wrapping_sub(start * args.to.cols);
                args.to.residual_step = args.to.cols;
            }
            (args.start, args.outputs) = (start, extent - start);
            // SAFETY: promised by the caller; there are as many outputs.
            unsafe { by_parts((kernel, copy), rows, &args) };
            done += rows;
        }
        if let Some(then) = then {
            // SAFETY: inside the result, which is borrowed.
            unsafe { job.show(then, (first_row, 0), &args.to, extent) };
        }
    }
}

/// What the copy of a line for kernels of `rows` outputs takes, as their products are counted.
fn copies((outputs, rows): (usize, usize), stride: usize, window: usize) -> usize {
    let (pixels, _) = row(rows, stride, (window, 1));
    ceil_div_usize(outputs, rows).saturating_mul(ceil_div_usize(pixels.saturating_mul(3), window.saturating_mul(LINE)))
}

/// What tiles of the rows of a line take, with the addresses of rows; a product takes so many quarters of a vector's.
fn tiles(outputs: usize, depth: usize, quarters: usize) -> usize {
    let tiles = ceil_div_usize(outputs, MOST_ROWS);
    // Tiles of whole vectors end with the line, and sums of fewer rows wait for each other.
    let (rows, address) = match quarters {
        4 => (ceil_div_usize(outputs, tiles.max(1)).max(8).saturating_mul(tiles), 48),
        _ => (outputs, 16),
    };
    (rows.saturating_mul(quarters) / 4).saturating_add(ceil_div_usize(rows.saturating_mul(address), depth))
}

/// The outputs of a kernel, for which as many rows of the window are copied at once as there is room for.
///
/// # Safety
/// As [`NarrowKernel`](narrow_kernel::NarrowKernel) and [`NarrowCopy`].
// A frame of its own: kernels of planes have their own room.
#[inline(never)]
unsafe fn by_parts((kernel, copy): (NarrowKernel, NarrowCopy), outputs: usize, args: &NarrowArgs<'_>) {
    let (mut room, mut sums) =
        ([MaybeUninit::<f32>::uninit(); COPY], [MaybeUninit::<f32>::uninit(); MOST_COPIED * LINE]);
    let (room, sums) = (room.as_mut_ptr().cast::<f32>(), sums.as_mut_ptr().cast::<f32>());
    let (pixels, row) = row(outputs, args.stride, (args.window, args.depth));
    let together = together(args.taps.len(), row);
    let (mut rest, mut from) = (args.taps, null());
    loop {
        let (taps, others) = rest.split_at_checked(together).unwrap_or((rest, &[]));
        let sums = (from, if others.is_empty() { null_mut() } else { sums });
        let part = NarrowArgs { taps, copy: room, sums, ..*args };
        // SAFETY: promised by the caller; there is room for these rows, and for the sums of all outputs.
        unsafe {
            copy(&part, pixels, room);
            kernel(&part);
        }
        if others.is_empty() {
            return;
        }
        (rest, from) = (others, sums.1);
    }
}

/// Rows of the window that are copied at once, in parts of equal size if there is no room for all.
fn together(taps: usize, row: usize) -> usize {
    let parts = ceil_div_usize(taps.saturating_mul(row), COPY).max(1);
    ceil_div_usize(taps, parts).min(floor_div_usize(COPY, row.max(1)))
}

/// Saves rows of the result without gaps.
///
/// # Safety
/// They are valid, and no more than fit.
unsafe fn save(to: &Results, rows: Range<usize>, old: &mut [MaybeUninit<f32>; MOST_OUTPUTS * LINE]) {
    for (i, row) in rows.enumerate() {
        let (from, at) = (to.out.wrapping_add(row * to.out_step), old.as_mut_ptr().wrapping_add(i * to.cols));
        // SAFETY: promised by the caller.
        unsafe { core::ptr::copy_nonoverlapping(from.cast_const().cast(), at, to.cols) };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::tests::{Random, one_row};
    use super::super::{Batch, Bound, Epilogue, RowAxis, Tap, Tile, packed_len};
    use super::*;
    use crate::view::{View, ViewMut};
    use std::vec;

    /// Groups of a convolution over an image of h x w pixels.
    fn convolution(r: &mut Random, image: (usize, usize, usize)) -> Contraction {
        let (channels, size) =
            (([1, 3, 4, 8, 11, 16, 24, 40][r.below(8)], 1 + r.below(16)), [1 + r.below(4), 2 + r.below(7)]);
        of_size(r, image, channels, size)
    }

    /// The same of these channels and columns, and a window of this size.
    fn of_size(
        r: &mut Random,
        (groups, h, w): (usize, usize, usize),
        (depth, cols): (usize, usize),
        size: [usize; 2],
    ) -> Contraction {
        let (stride, pad) = (1 + r.below(2), [r.below(3), r.below(4)]);
        let out = |i: usize, n: usize| (n + 2 * pad[i]).saturating_sub(size[i]) / stride + 1;
        let (pixel, width) = (groups * depth, groups * cols);
        let (line, columns) = (w * pixel, out(1, w));
        let bound = |i: usize, limit: usize| {
            let (row, tap) = (i as u8, i as u8 + 2);
            Bound { row, tap, stride: stride as isize, dilation: 1, offset: -(pad[i] as isize), limit }
        };
        let row = |extent, a: usize, out| RowAxis { extent, a: (a * stride) as isize, out, residual: out };
        let group = Batch { w: packed_len(cols, size[0] * size[1] * depth, 32), extent: groups, ..Batch::ONE };
        Contraction {
            batches: [Batch::ONE, Batch { a: depth as isize, out: cols, residual: cols, bias: cols, ..group }],
            rows: [row(out(0, h), line, columns * width), row(columns, pixel, width), RowAxis::ONE, RowAxis::ONE],
            taps: [
                Tap::ONE,
                Tap::ONE,
                Tap { extent: size[0], a: line as isize },
                Tap { extent: size[1], a: pixel as isize },
            ],
            bounds: [bound(0, h), bound(1, w), Bound::NONE],
            a_offset: -((pad[0] * line + pad[1] * pixel) as isize),
            depth,
            cols,
            ..Contraction::NEW
        }
    }

    /// The convolution in groups of `width`, merged to groups of sixteen, is that in single rows, whose sums have another order.
    #[test]
    fn groups_have_the_numbers_of_single_rows() {
        let (mut r, mut folded) = (Random(0x6e0b_0075), 0);
        for case in 0..40 {
            let (groups, h, w, width) = (1 + r.below(3), 1 + r.below(7), 3 + r.below(40), [2, 4, 8][case % 3]);
            let rows = 1 + r.below(3);
            let c = of_size(&mut r, (groups, h, w), (LINE, LINE), [rows, 3]);
            let (m, n) = (c.m(), groups * LINE);
            let (a, mut weights) = (r.floats(h * w * n), r.floats(groups * c.batches[1].w));
            for (i, weight) in weights.iter_mut().enumerate() {
                *weight *= f32::from(u8::from(i / LINE % LINE / width == i % LINE / width));
            }
            let bias = r.floats(n);
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                folded += usize::from(Narrow::of(&c, cx.isa()).is_some_and(|narrow| narrow.groups.is_some()));
                let (mut got, mut want) = (vec![0.0; m * n], vec![0.0; m * n]);
                let epilogue = Epilogue { bias: (case % 2 == 0).then_some(&bias[..]), ..Epilogue::NONE };
                c.run(cx, a[..].src(), &weights, got[..].dst(), epilogue);
                for (i, row) in want.chunks_exact_mut(n).enumerate() {
                    let (y, x) = (i / c.rows[1].extent, i % c.rows[1].extent);
                    one_row(&c, y, x).run(cx, a[..].src(), &weights, row.dst(), epilogue);
                }
                for (got, want) in got.iter().zip(&want) {
                    assert!((got - want).abs() < 1e-5, "{got} {want} {c:?} {:?}", cx.isa());
                }
                #[cfg(feature = "threads")]
                {
                    let (team, mut again) = (crate::team::Team::new(2), vec![0.0; m * n]);
                    c.run(cx.with_team(&team), a[..].src(), &weights, again[..].dst(), epilogue);
                    assert_eq!(again, got);
                }
            }
        }
        assert!(folded > 20 || Cx::with_isa(Isa::Avx2).is_none(), "{folded}");
    }

    #[test]
    fn lines_have_the_bits_of_single_rows_on_every_isa_and_team() {
        let (mut r, mut narrow, mut planar) = (Random(0x0a44_0775), 0, [0; 2]);
        for case in 0..140 {
            let (groups, h, w) = (1 + r.below(3), 1 + r.below(7), 3 + r.below(if case < 60 { 40 } else { 140 }));
            let c = match case {
                // Long lines of few columns are for kernels of planes.
                60.. => {
                    let size = [1 + r.below(4), 2 + r.below(7)];
                    let cols = 1 + r.below(5);
                    of_size(&mut r, (groups, h, w), (16, cols), size)
                }
                _ => convolution(&mut r, (groups, h, w)),
            };
            let (m, n) = (c.m(), groups * c.cols);
            let (mut a, mut weights) = (r.floats(h * w * groups * c.depth), r.floats(groups * c.batches[1].w));
            if Narrow::of(&c, Isa::Avx512).is_some_and(|narrow| matches!(narrow.whole.kernel, Kernel::Planes(_))) {
                // Kernels of planes sum in another order: these sums are exact.
                a.iter_mut().chain(&mut weights).for_each(|x| *x = (*x * 8.0).round() / 8.0);
                planar[c.rows[1].a as usize / c.taps[3].a as usize - 1] += 1;
            }
            let (bias, residual) = (r.floats(n), r.floats(m * n));
            let closure = |mut tile: Tile<'_>| {
                let first = tile.first_col;
                for (i, row) in tile.rows() {
                    row.iter_mut().enumerate().for_each(|(j, x)| *x = *x * 2.0 + (i + first + j) as f32);
                }
            };
            let shown = case % 5 < 2;
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                narrow += usize::from(Narrow::of(&c, cx.isa()).is_some());
                let epilogue = |at: usize| Epilogue {
                    bias: (case % 3 != 0).then_some(&bias[..]),
                    residual: (case % 4 == 0).then(|| residual[at * n..].src()),
                    clamp: (case % 2 == 0).then_some((-0.5, 0.5)),
                    ..Epilogue::NONE
                };
                let (mut got, mut want) = (vec![0.0; m * n], vec![0.0; m * n]);
                let whole = Epilogue { then: if shown { Some(&closure) } else { None }, ..epilogue(0) };
                c.run(cx, a[..].src(), &weights, got[..].dst(), whole);
                for (i, row) in want.chunks_exact_mut(n).enumerate() {
                    let (y, x) = (i / c.rows[1].extent, i % c.rows[1].extent);
                    one_row(&c, y, x).run(cx, a[..].src(), &weights, row.dst(), epilogue(i));
                    if shown {
                        row.iter_mut().enumerate().for_each(|(j, x)| *x = *x * 2.0 + (i + j % c.cols) as f32);
                    }
                }
                assert_eq!(got, want, "{c:?} {:?}", cx.isa());
                if whole.residual.is_some() {
                    // The same residual, which the result replaces.
                    got.copy_from_slice(&residual);
                    let update = Epilogue { residual: None, accumulate: true, ..whole };
                    c.run(cx, a[..].src(), &weights, got[..].dst(), update);
                    assert_eq!(got, want, "{c:?} {:?} in place", cx.isa());
                }
                for iteration in [0, 1] {
                    let mut again = vec![0.0; m * n];
                    c.run(cx.in_iteration(iteration), a[..].src(), &weights, again[..].dst(), whole);
                    assert_eq!(again, want, "{:?}", cx.isa());
                    #[cfg(feature = "threads")]
                    {
                        let team = crate::team::Team::new(2 + case % 3);
                        let cx = cx.in_iteration(iteration).with_team(&team);
                        c.run(cx, a[..].src(), &weights, again[..].dst(), whole);
                        assert_eq!(again, want, "{:?}", cx.isa());
                    }
                }
            }
        }
        assert!(
            narrow > 20 && planar.iter().all(|cases| *cases > 10) || Isa::detect() != Isa::Avx512,
            "{narrow} {planar:?}"
        );
    }
}
