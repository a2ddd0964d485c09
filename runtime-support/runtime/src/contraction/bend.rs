//! Leaky ReLU, PReLU and hard swish in registers, where a kernel can.
use super::Then;
use super::activation::{bent, hard_swish};
use super::epilogue::Tile;
use crate::simd::{Simd, load_first};
use core::cell::Cell;

/// A function of few operations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bend {
    /// What is below zero, times a slope.
    Slope(Slope),
    /// `x * (min(max(x + 3, 0), 6) / 6)`
    HardSwish,
}

/// The slopes of some columns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slope {
    /// The same for all.
    Every(f32),
    /// Those of the columns from the first one on.
    Columns(*const f32),
}

impl Slope {
    /// From this column on.
    #[inline(always)]
    pub fn from(self, column: usize) -> Slope {
        match self {
            Slope::Every(slope) => Slope::Every(slope),
            Slope::Columns(slopes) => Slope::Columns(slopes.wrapping_add(column)),
        }
    }

    /// The slopes of a vector of columns, of which so many exist.
    ///
    /// # Safety
    /// As many slopes are valid from this column on.
    #[inline(always)]
    pub unsafe fn vector<S: Simd>(self, s: S, column: usize, left: usize) -> S::F32 {
        match self {
            Slope::Every(slope) => s.splat(slope),
            // SAFETY: promised by the caller.
            Slope::Columns(slopes) => unsafe { load_first(s, slopes.wrapping_add(column), left) },
        }
    }
}

impl Bend {
    /// What a closure does to tiles of so many columns, if it does nothing else: whoever multiplies in registers does not call it.
    /// The slopes are valid as long as the closure is.
    pub fn of(then: Then<'_>, cols: usize) -> Option<Bend> {
        let answer = Cell::new(None);
        then(Tile::question(&answer, cols));
        answer.get()
    }

    /// From this column on.
    #[inline(always)]
    pub fn from(self, column: usize) -> Bend {
        match self {
            Bend::Slope(slope) => Bend::Slope(slope.from(column)),
            Bend::HardSwish => Bend::HardSwish,
        }
    }

    /// Rows of columns from the first one on, the last vector perhaps with `left` elements of it.
    ///
    /// # Safety
    /// All columns that are left have slopes.
    #[inline(always)]
    pub unsafe fn rows<S: Simd, const MR: usize, const NV: usize>(
        self,
        s: S,
        rows: &mut [[S::F32; NV]; MR],
        left: impl Fn(usize) -> usize,
    ) {
        match self {
            Bend::Slope(slope) => {
                for v in 0..NV {
                    // SAFETY: promised by the caller.
                    let slopes = unsafe { slope.vector(s, v * S::LANES, left(v)) };
                    for row in rows.iter_mut() {
                        row[v] = bent(s, row[v], slopes);
                    }
                }
            }
            Bend::HardSwish => {
                for v in 0..NV {
                    for row in rows.iter_mut() {
                        row[v] = hard_swish(s, row[v]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::tests::{Random, pack_all, random_convolution};
    use super::super::{Activation, Contraction, Epilogue, RowAxis, Slopes, Tap};
    use super::*;
    use crate::cx::Cx;
    use crate::isa::{Isa, VECTORS};
    use crate::raw::Dst;
    use crate::view::View;
    use crate::window::Window;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::vec;

    /// Runs with a closure that is asked and with one that is not, and says to how many results each of them was applied.
    fn compare(out_len: usize, closure: Then<'_>, run: impl Fn(Then<'_>, &mut [f32])) -> [usize; 2] {
        let calls = [const { AtomicUsize::new(0) }; 2];
        let size = |tile: &mut Tile<'_>| tile.rows().map(|(_, row)| row.len()).sum();
        let asked = |mut tile: Tile<'_>| {
            calls[0].fetch_add(size(&mut tile), Relaxed);
            closure(tile);
        };
        let unasked = |mut tile: Tile<'_>| {
            if !tile.is_question() {
                calls[1].fetch_add(size(&mut tile), Relaxed);
                closure(tile);
            }
        };
        let (mut got, mut want) = (vec![7.0; out_len], vec![7.0; out_len]);
        run(&asked, &mut got);
        run(&unasked, &mut want);
        assert_eq!(got, want);
        calls.map(AtomicUsize::into_inner)
    }

    fn closures<'a>(cx: Cx<'a>, slopes: &'a [f32]) -> [impl Fn(Tile<'_>) + Sync + 'a; 3] {
        [Some(Activation::LeakyRelu(-0.3)), None, Some(Activation::HardSwish)].map(|every| {
            let (every, columns) = (every.map(|function| function.on_tiles(cx)), Slopes(slopes).on_tiles(cx));
            move |tile: Tile<'_>| match &every {
                Some(every) => every(tile),
                None => columns(tile),
            }
        })
    }

    #[test]
    fn contractions_have_the_bits_of_the_closure_on_every_isa() {
        let (mut r, mut sums) = (Random(0xbe4d_0001), [0; 2]);
        for case in 0..200 {
            let (mut c, a_len, mut out_len) = random_convolution(&mut r);
            let mut a = r.floats(a_len);
            if case % 3 == 0 {
                // Apart, or as planes have them.
                let step = [c.depth, 1, 2][case / 3 % 3];
                let row = RowAxis { extent: 40 + r.below(90), a: step as isize, out: c.cols, residual: c.cols };
                let rows = [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, row];
                c = Contraction { rows, depth: c.depth, cols: c.cols, panel: c.panel, ..Contraction::NEW };
                (a, out_len) = (r.floats(row.extent * step + c.depth), row.extent * c.cols);
            }
            let (w, slopes) = (r.floats(c.batches[1].extent * c.k() * c.cols), r.floats(c.cols));
            let (packed, bias) = (pack_all(&c, &w), r.floats(c.batches[1].extent * c.cols));
            let clamp = (case % 2 == 0).then_some((-0.5, 2.0));
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                for closure in &closures(cx, &slopes) {
                    let calls = compare(out_len, closure, |then, out| {
                        let epilogue = Epilogue { bias: Some(&bias), clamp, then: Some(then), ..Epilogue::NONE };
                        c.run(cx, a[..].src(), &packed, Dst::from_slice(out), epilogue);
                    });
                    sums = [sums[0] + calls[0], sums[1] + calls[1]];
                }
            }
        }
        assert!(!VECTORS || sums[0] < sums[1], "{sums:?}");
    }

    #[test]
    fn depthwise_lines_have_the_bits_of_the_closure_on_every_isa() {
        let mut r = Random(0xbe4d_0002);
        for (channels, height, width) in [(24, 9, 11), (70, 14, 14), (512, 7, 7), (33, 5, 40)] {
            let line = width * channels;
            let mut c = Window { channels, ..Window::NEW };
            for (at, (extent, out)) in [(height - 2, line), (width - 2, channels)].into_iter().enumerate() {
                c.rows[at] = RowAxis { extent, a: out as isize, out, residual: out };
                c.taps[at + 2] = Tap { extent: 3, a: out as isize };
            }
            let (a, w, slopes) = (r.floats(height * line), r.floats(9 * channels), r.floats(channels));
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                for (i, closure) in closures(cx, &slopes).iter().enumerate() {
                    let calls = compare(height * line, closure, |then, out| {
                        let epilogue = Epilogue { then: Some(then), ..Epilogue::NONE };
                        c.depthwise(cx, a[..].src(), &w, Dst::from_slice(out), epilogue);
                    });
                    // Lines leave hard swish to the closure.
                    let left = if i < 2 && cx.isa() != Isa::Scalar { 0 } else { calls[1] };
                    assert!(calls[0] == left && calls[1] > 0, "{:?} {calls:?}", cx.isa());
                }
            }
        }
    }
}
