//! Chains on several threads: each takes some lines through all stages, in buffers of its own, so that what it hands on stays in
//! its cache. Lines that two threads need are computed by both.
use crate::bands::Bands;
use crate::cx::Cx;
use crate::math::{ceil_div_usize, floor_div_usize, floor_mod_usize};
use crate::raw::{Dst, Extent};

/// Elements of a cache line.
const LINE: usize = 16;

/// A division of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Parts, each with as many lines of the result.
    pub parts: usize,
    /// Lines of the result that a part computes at a time.
    pub height: usize,
}

impl Share {
    /// Elements of a part of a buffer that has `len`: whole cache lines.
    #[must_use]
    pub const fn portion(&self, len: usize) -> usize {
        if self.parts <= 1 { len } else { floor_div_usize(len, self.parts.saturating_mul(LINE)).saturating_mul(LINE) }
    }

    /// The portion as an operand.
    #[must_use]
    pub const fn buffer(&self, len: usize) -> Extent {
        Extent::contiguous(self.portion(len))
    }

    /// What a part does.
    #[must_use]
    pub const fn bands(&self, bands: &Bands, part: usize) -> Bands {
        let count = bands.range().end;
        let size = ceil_div_usize(count, self.parts);
        let first = part.saturating_mul(size);
        let first = if first < count { first } else { count };
        bands.of_lines(first..first.saturating_add(size), self.height)
    }
}

impl Bands {
    /// Where the result's lines lie in the whole, which has `line` elements per line; `None` if lines begin inside of rows.
    const fn region(&self, whole: Extent, line: usize) -> Option<(usize, Extent)> {
        let lines = self.range();
        let (Some(start), Some(end)) = (lines.start.checked_mul(line), lines.end.checked_mul(line)) else {
            return None;
        };
        if whole.rows == 1 {
            let end = if end < whole.row { end } else { whole.row };
            return Some((start, Extent::contiguous(end.saturating_sub(start))));
        }
        if whole.stride == 0 || floor_mod_usize(line, whole.stride) != 0 || whole.row > whole.stride {
            return None;
        }
        let (first, behind) = (floor_div_usize(start, whole.stride), floor_div_usize(end, whole.stride));
        let behind = if behind < whole.rows { behind } else { whole.rows };
        Some((start, Extent { rows: behind.saturating_sub(first), ..whole }))
    }

    /// The result's lines as an operand, which has none if lines begin inside of rows.
    #[must_use]
    pub const fn result(&self, whole: Extent, line: usize) -> Extent {
        match self.region(whole, line) {
            Some((_, extent)) => extent,
            None => Extent::contiguous(0),
        }
    }
}

/// The memory of all parts.
struct Memory<const N: usize> {
    buffers: [(*mut f32, usize); N],
    out: *mut f32,
    extent: Extent,
}

// SAFETY: every part uses its own portions of the buffers and its own lines of the result.
unsafe impl<const N: usize> Sync for Memory<N> {}

/// Computes the lines of a chain: all at once, or in the division that fits the threads. `work` gets the bands of its part,
/// the part's buffers, and the lines of the result that it writes, `line` elements each.
#[inline(always)]
pub fn split_lines<const N: usize>(
    cx: Cx<'_>,
    bands: &Bands,
    shares: &[Share],
    buffers: [&mut [f32]; N],
    mut out: Dst<'_, f32>,
    line: usize,
    work: impl Fn(Cx<'_>, Bands, [&mut [f32]; N], Dst<'_, f32>) + Sync,
) {
    let divides = |share: &&Share| {
        share.parts > 1
            && (share.parts..share.parts.saturating_mul(2)).contains(&cx.threads())
            && bands.region(out.extent(), line).is_some()
    };
    // The height of the whole is that of its bands.
    let share = shares.iter().rfind(divides).copied().unwrap_or(Share { parts: 1, height: 1 });
    let divided = share.parts > 1;
    let alone = if divided { cx.alone() } else { cx };
    let memory = Memory {
        buffers: buffers.map(|buffer| (buffer.as_mut_ptr(), share.portion(buffer.len()))),
        extent: out.extent(),
        out: out.as_mut_ptr(),
    };
    cx.split(share.parts, |range| {
        let memory = &memory;
        for part in range {
            let bands = if divided { share.bands(bands, part) } else { *bands };
            let region = if divided { bands.region(memory.extent, line) } else { Some((0, memory.extent)) };
            let (start, extent) = region.unwrap_or((0, Extent::contiguous(0)));
            // SAFETY: portions of different parts do not overlap, and each is inside its buffer, which is borrowed.
            let buffers = memory.buffers.map(|(buffer, len)| unsafe {
                core::slice::from_raw_parts_mut(buffer.wrapping_add(part.wrapping_mul(len)), len)
            });
            // SAFETY: the lines of a part are inside the result, which is borrowed, and no other part has them.
            work(alone, bands, buffers, unsafe { Dst::new(memory.out.wrapping_add(start), extent) });
        }
    });
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::bands::Lines;
    use std::vec;
    use std::vec::Vec;

    const WIDTH: usize = 16;

    /// Lines of the first stage hold their number, lines of the second the sum of those that they need. Between lines of the
    /// result there is a gap.
    fn chain(cx: Cx<'_>, stages: &[Lines; 2], shares: &[Share], out: &mut [f32]) {
        let bands = Bands::new(stages, 4);
        let mut buffer = vec![f32::NAN; 20 * 4 * WIDTH];
        let rows = Extent { row: WIDTH, stride: 2 * WIDTH, rows: stages[1].count };
        assert!(out.len() >= rows.stride * rows.rows);
        // SAFETY: the result has these rows.
        let dst = unsafe { Dst::new(out.as_mut_ptr(), rows) };
        split_lines(cx, &bands, shares, [&mut buffer[..]], dst, 2 * WIDTH, |_, mut bands, [buffer], mut dst| {
            while let Some(band) = bands.advance() {
                band[0].slide(buffer, WIDTH);
                for line in band[0].first..band[0].end {
                    buffer[(line - band[0].base) * WIDTH..][..WIDTH].fill(line as f32);
                }
                for line in band[1].first..band[1].end {
                    let first = (line * stages[1].stride) as isize + stages[1].first;
                    let needed =
                        (first..first + stages[1].span as isize).filter(|i| (0..stages[0].count as isize).contains(i));
                    let sum: f32 = needed.map(|i| buffer[(i as usize - band[1].operand) * WIDTH + 3]).sum();
                    let at = (line - band[1].base) * 2 * WIDTH;
                    assert!(at + WIDTH <= dst.extent().stride * dst.extent().rows);
                    // SAFETY: the line is one of the part's.
                    unsafe { dst.as_mut_ptr().add(at).write(sum) };
                }
            }
        });
    }

    #[test]
    fn parts_compute_all_lines() {
        #[cfg(feature = "threads")]
        let shares = [2, 4, 8].map(|parts| Share { parts, height: 1 + parts % 3 });
        for (count, stride, first, span) in [(28, 1, -1, 3), (14, 2, -1, 3), (7, 2, 0, 1), (3, 1, -1, 3), (56, 1, 0, 1)]
        {
            let lines =
                [Lines { count: count * stride, stride: 1, first: 0, span: 1 }, Lines { count, stride, first, span }];
            let mut want = vec![-1.0; 2 * WIDTH * count];
            chain(Cx::detect(), &lines, &[], &mut want);
            let computed: Vec<f32> = want.iter().step_by(2 * WIDTH).copied().collect();
            assert!(computed.iter().all(|sum| *sum >= 0.0), "{computed:?}");
            #[cfg(feature = "threads")]
            for threads in [1, 2, 3, 4, 9] {
                let team = crate::team::Team::new(threads);
                let mut got = vec![-1.0; 2 * WIDTH * count];
                chain(Cx::detect().with_team(&team), &lines, &shares, &mut got);
                assert_eq!(got, want, "{lines:?}, {threads} threads");
            }
        }
    }

    #[test]
    fn lines_of_parts_lie_in_the_result() {
        let one = |count| Lines { count, stride: 1, first: 0, span: 1 };
        let bands = Bands::new(&[one(10), one(10)], 4);
        let share = Share { parts: 4, height: 1 };
        let result = |part: usize, whole| share.bands(&bands, part).region(whole, 6);
        assert_eq!(result(1, Extent::contiguous(60)), Some((18, Extent::contiguous(18))));
        assert_eq!(result(3, Extent::contiguous(60)), Some((54, Extent::contiguous(6))));
        let rows = Extent { row: 2, stride: 3, rows: 20 };
        assert_eq!(result(3, rows), Some((54, Extent { rows: 2, ..rows })));
        assert_eq!(result(1, Extent { stride: 4, ..rows }), None, "lines begin inside of rows");
        assert_eq!(share.portion(100), 16);
        assert_eq!(Share { parts: 1, height: 4 }.portion(100), 100);
    }
}
