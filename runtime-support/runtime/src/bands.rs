//! Kernels that run in turn, a few lines of the result at a time: what one hands to the next stays in the cache.
//!
//! Every stage but the last writes into a buffer of a few lines. Before a stage runs, the lines that are still needed move
//! to the buffer's start.
use crate::contraction::{Bound, Contraction};
use crate::window::Window;
use core::ops::Range;

/// Most stages of one chain.
pub const STAGES: usize = 8;

/// The lines of one stage: which it makes, and which lines of the stage before it each of them needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Lines of the result.
    pub count: usize,
    /// Lines of the operand from one line of the result to the next.
    pub stride: usize,
    /// First line of the operand for line 0; negative with padding.
    pub first: isize,
    /// Number of lines of the operand for one line.
    pub span: usize,
}

/// What one stage does in one band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// First line to compute.
    pub first: usize,
    /// Line behind the last one.
    pub end: usize,
    /// Line that lies at the start of the result's buffer.
    pub base: usize,
    /// Line that lies at the start of the operand's buffer.
    pub operand: usize,
    /// Where the lines that stay lie in the result's buffer: this many lines behind its start ...
    pub moved: usize,
    /// ... and how many they are.
    pub kept: usize,
}

impl Band {
    const NONE: Band = Band { first: 0, end: 0, base: 0, operand: 0, moved: 0, kept: 0 };

    /// Moves the lines that stay to the start of the stage's buffer.
    pub fn slide<T: Copy>(&self, buffer: &mut [T], line: usize) {
        let (from, len) = (self.moved.saturating_mul(line), self.kept.saturating_mul(line));
        if from > 0
            && let Some(end) = from.checked_add(len).filter(|end| *end <= buffer.len())
        {
            buffer.copy_within(from..end, 0);
        }
    }
}

/// The bands of a chain of stages, first to last.
#[derive(Clone, Copy, Debug)]
pub struct Bands {
    lines: [Lines; STAGES],
    stages: usize,
    height: usize,
    done: usize,
    /// First line of the last stage that lies in its result, and line behind the last one.
    base: usize,
    end: usize,
    last: [Band; STAGES],
}

/// A stage as index: masked, so that the optimiser sees that it is one.
const fn at(stage: usize) -> usize {
    stage & (STAGES - 1)
}

impl Bands {
    /// Bands of `height` lines of the last stage; none if there are too many stages.
    #[must_use]
    pub const fn new(lines: &[Lines], height: usize) -> Self {
        let mut all = [Lines { count: 0, stride: 1, first: 0, span: 1 }; STAGES];
        let mut stages = 0;
        while stages < lines.len() && stages < STAGES {
            all[stages] = lines[stages];
            stages += 1;
        }
        let height = if lines.len() > STAGES { 0 } else { height };
        let end = if stages == 0 { 0 } else { all[at(stages - 1)].count };
        Bands { lines: all, stages, height, done: 0, base: 0, end, last: [Band::NONE; STAGES] }
    }

    /// Lines of the last stage that are computed.
    pub(crate) const fn range(&self) -> Range<usize> {
        self.base..self.end
    }

    /// The same stages for some lines of the last one, whose result begins with the first of them.
    pub(crate) const fn of_lines(&self, lines: Range<usize>, height: usize) -> Bands {
        let end = if lines.end < self.end { lines.end } else { self.end };
        Bands { height, done: lines.start, base: lines.start, end, last: [Band::NONE; STAGES], ..*self }
    }

    /// The next band: what each stage does in it.
    pub const fn advance(&mut self) -> Option<[Band; STAGES]> {
        if self.stages == 0 || self.height == 0 || self.done >= self.end {
            return None;
        }
        let mut bands = [Band::NONE; STAGES];
        let (mut low, mut high) = (self.done, self.done.saturating_add(self.height));
        high = if high < self.end { high } else { self.end };
        let mut k = self.stages;
        while k > 0 {
            k -= 1;
            let (lines, before) = (self.lines[at(k)], self.last[at(k)]);
            let last = k + 1 == self.stages;
            high = if high < lines.count { high } else { lines.count };
            low = if low < high { low } else { high };
            let first = if before.end > low { before.end } else { low };
            // The last stage keeps all its lines.
            let base = if last { self.base } else { low };
            let kept = if last { 0 } else { first - low };
            let end = if high > first { high } else { first };
            bands[at(k)] = Band { first, end, base, operand: 0, moved: base.saturating_sub(before.base), kept };
            (low, high) = lines.operand(low, high);
        }
        while k + 1 < self.stages {
            bands[at(k + 1)].operand = bands[at(k)].base;
            k += 1;
        }
        self.done = bands[at(self.stages - 1)].end;
        self.last = bands;
        Some(bands)
    }
}

impl Lines {
    /// The lines of the operand that lines `low..high` need.
    const fn operand(&self, low: usize, high: usize) -> (usize, usize) {
        let start = (low.saturating_mul(self.stride) as isize).saturating_add(self.first);
        if high <= low {
            let start = if start > 0 { start as usize } else { 0 };
            return (start, start);
        }
        let end = ((high - 1).saturating_mul(self.stride) as isize)
            .saturating_add(self.first)
            .saturating_add(self.span as isize);
        (if start > 0 { start as usize } else { 0 }, if end > 0 { end as usize } else { 0 })
    }
}

/// Bounds for rows that start at line `first`.
const fn bounds_from(bounds: [Bound; 3], first: usize) -> [Bound; 3] {
    let (mut bounds, mut i) = (bounds, 0);
    while i < bounds.len() {
        if bounds[i].row == 0 {
            bounds[i].offset = bounds[i].offset.wrapping_add((first as isize).wrapping_mul(bounds[i].stride));
        }
        i += 1;
    }
    bounds
}

impl Contraction {
    /// The part that computes one band; the first row axis counts lines, and the operand has `line` elements per line.
    ///
    /// Wrapping: what leaves the operands is refused when it runs.
    #[must_use]
    pub const fn band(&self, band: &Band, line: usize) -> Contraction {
        let mut part = *self;
        let lines = self.rows[0];
        part.rows[0].extent = band.end.saturating_sub(band.first);
        let skipped = (band.operand as isize).wrapping_mul(line as isize);
        part.a_offset = self.a_offset.wrapping_add((band.first as isize).wrapping_mul(lines.a)).wrapping_sub(skipped);
        part.out_offset = self.out_offset.wrapping_add(band.first.wrapping_sub(band.base).wrapping_mul(lines.out));
        part.residual_offset = self.residual_offset.wrapping_add(band.first.wrapping_mul(lines.residual));
        part.bounds = bounds_from(self.bounds, band.first);
        part
    }
}

impl Window {
    /// As [`Contraction::band`].
    #[must_use]
    pub const fn band(&self, band: &Band, line: usize) -> Window {
        let part = self.geometry().band(band, line);
        Window {
            rows: part.rows,
            bounds: part.bounds,
            a_offset: part.a_offset,
            out_offset: part.out_offset,
            residual_offset: part.residual_offset,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Every line is computed once, in order, when all it needs is there.
    fn check(lines: &[Lines], height: usize) {
        let mut bands = Bands::new(lines, height);
        let mut held: Vec<(usize, usize)> = lines.iter().map(|_| (0, 0)).collect();
        while let Some(band) = bands.advance() {
            for (k, stage) in lines.iter().enumerate() {
                let b = band[k];
                assert_eq!(b.base - held[k].0, b.moved, "{lines:?}");
                assert!(b.kept == 0 || b.base + b.kept == held[k].1);
                assert!(k + 1 == lines.len() || b.first == held[k].1.max(b.base), "{lines:?} {band:?}");
                held[k] = (b.base, b.end.max(held[k].1));
                for line in (b.first..b.end).filter(|_| k > 0) {
                    let first = line as isize * stage.stride as isize + stage.first;
                    for needed in first..first + stage.span as isize {
                        if needed >= 0 && (needed as usize) < lines[k - 1].count {
                            let needed = needed as usize;
                            assert!(needed >= held[k - 1].0 && needed < held[k - 1].1, "{lines:?} {band:?} {needed}");
                        }
                    }
                }
            }
        }
        assert_eq!(held.last().unwrap().1, lines.last().unwrap().count);
    }

    #[test]
    fn bands_hold_the_lines_that_are_needed() {
        let one = |count| Lines { count, stride: 1, first: 0, span: 1 };
        for height in 1..9 {
            check(&[one(14), Lines { count: 14, stride: 1, first: -1, span: 3 }, one(14)], height);
            check(&[one(14), Lines { count: 7, stride: 2, first: -1, span: 3 }, one(7)], height);
            check(&[one(15), Lines { count: 7, stride: 2, first: 0, span: 3 }, one(7)], height);
            check(&[one(15), Lines { count: 5, stride: 3, first: 1, span: 1 }], height);
            check(
                &[
                    one(16),
                    Lines { count: 12, stride: 1, first: -2, span: 9 },
                    Lines { count: 6, stride: 2, first: -1, span: 3 },
                ],
                height,
            );
            check(&[one(3), Lines { count: 9, stride: 1, first: -4, span: 3 }], height);
        }
    }

    #[test]
    fn lines_move_to_the_start() {
        let mut buffer = [0, 1, 2, 3, 4, 5, 6, 7];
        Band { moved: 2, kept: 2, ..Band::NONE }.slide(&mut buffer, 2);
        assert_eq!(buffer, [4, 5, 6, 7, 4, 5, 6, 7]);
        Band { moved: 3, kept: 2, ..Band::NONE }.slide(&mut buffer, 2);
        assert_eq!(buffer, [4, 5, 6, 7, 4, 5, 6, 7]);
    }
}
