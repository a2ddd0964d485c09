//! Proof that affine addresses, restricted by bounds, stay inside an operand.
use super::Bound;
use crate::raw::Extent;

/// Indices that a bound's axes may have: larger windows are refused, because the kernels keep them in 16 bits.
const MOST_TAPS: usize = 65_535;

/// Least and greatest of a sum.
#[derive(Clone, Copy)]
struct Interval {
    least: i64,
    greatest: i64,
}

/// ceil(a / b) for b > 0.
const fn ceil_div(a: i64, b: i64) -> i64 {
    if b == 1 {
        return a;
    }
    let (quotient, rest) = divide(a, b);
    if rest == 0 { quotient } else { quotient + 1 }
}

/// Floored quotient and remainder for b > 0, of which the optimiser does not know and would keep a panic.
const fn divide(a: i64, b: i64) -> (i64, i64) {
    match (a.checked_div_euclid(b), a.checked_rem_euclid(b)) {
        (Some(quotient), Some(rest)) => (quotient, rest),
        _ => (0, 0),
    }
}

/// Values of `row * row_stride + tap * tap_stride` over index pairs that satisfy `bound`. `Err` if that overflows or the
/// bound is malformed, `Ok(None)` if no pair satisfies it.
const fn within(bound: &Bound, row: (i64, i64), tap: (i64, i64)) -> Result<Option<Interval>, ()> {
    if bound.stride < 0 || bound.limit as u64 > i64::MAX as u64 {
        return Err(());
    }
    let (step, limit) = (bound.stride as i64, bound.limit as i64);
    let mut result: Option<Interval> = None;
    let mut t = 0;
    while t < tap.0 {
        let Some(position) = t.checked_mul(bound.dilation as i64) else {
            return Err(());
        };
        let Some(position) = position.checked_add(bound.offset as i64) else {
            return Err(());
        };
        let (Some(low), Some(high)) = (position.checked_neg(), limit.checked_sub(position)) else {
            return Err(());
        };
        let (mut first, mut end) = if step > 0 {
            (ceil_div(low, step), ceil_div(high, step))
        } else if low <= 0 && high > 0 {
            (0, row.0)
        } else {
            (0, 0)
        };
        first = if first < 0 { 0 } else { first };
        end = if end > row.0 { row.0 } else { end };
        if first < end {
            let (Some(a), Some(b), Some(c)) =
                (first.checked_mul(row.1), (end - 1).checked_mul(row.1), t.checked_mul(tap.1))
            else {
                return Err(());
            };
            let (a, b) = if a < b { (a, b) } else { (b, a) };
            let (Some(mut least), Some(mut greatest)) = (a.checked_add(c), b.checked_add(c)) else {
                return Err(());
            };
            if let Some(old) = result {
                least = if old.least < least { old.least } else { least };
                greatest = if old.greatest > greatest { old.greatest } else { greatest };
            }
            result = Some(Interval { least, greatest });
        }
        t += 1;
    }
    Ok(result)
}

/// Whether `offset + sum of index * stride + 0..run` stays inside `extent` for all indices that satisfy `bounds`.
///
/// `axes` are (extent, stride): four row axes, four tap axes, two batches. Each axis may be restricted by several
/// bounds; only the first is used for the proof, which errs on the safe side.
pub(crate) const fn reach(
    extent: Extent,
    offset: isize,
    run: usize,
    axes: &[(usize, isize); 10],
    bounds: &[Bound; 3],
) -> bool {
    let contiguous = extent.contiguous_len();
    if let (Some(len), Some(end)) = (contiguous, end_of_forward(offset, run, axes, bounds))
        && end <= len
    {
        return true;
    }
    let Some(pitch) = (if contiguous.is_some() { Some(i64::MAX) } else { positive(extent.stride) }) else {
        return false;
    };
    let mut i = 0;
    while i < 10 {
        let count = axes[i].0;
        if positive(count).is_none() || i >= 4 && i < 8 && count > MOST_TAPS {
            return count == 0;
        }
        i += 1;
    }
    let Some(found) = Moves::of(offset as i64, pitch, axes, bounds) else {
        return false;
    };
    let Some(moves) = found else { return true };
    match (contiguous, to_i64(run)) {
        (Some(len), Ok(run)) => moves.end(run) <= len as u64,
        (None, Ok(run)) => moves.stay_in_lines(extent, pitch, run),
        (_, Err(())) => false,
    }
}

/// The end of what is reached where nothing is restricted and no stride is negative, as in most contractions, which this
/// proves in a tenth of the time.
const fn end_of_forward(offset: isize, run: usize, axes: &[(usize, isize); 10], bounds: &[Bound; 3]) -> Option<usize> {
    if offset < 0 || bounds[0].limit | bounds[1].limit | bounds[2].limit != 0 {
        return None;
    }
    let (mut end, mut i) = ((offset as usize).checked_add(run), 0);
    while i < 10 {
        let (count, stride) = axes[i];
        if count != 1 {
            if count == 0 || stride < 0 || i >= 4 && i < 8 && count > MOST_TAPS {
                return None;
            }
            end = match (end, (count - 1).checked_mul(stride as usize)) {
                (Some(end), Some(step)) => end.checked_add(step),
                _ => None,
            };
        }
        i += 1;
    }
    end
}

/// Addresses: the least one, and how often which steps are added to it at most.
struct Moves {
    least: i64,
    steps: [(i64, i64); 10],
}

impl Moves {
    /// Those that satisfy the bounds; `None` if they overflow, `Some(None)` if there are none.
    const fn of(offset: i64, pitch: i64, axes: &[(usize, isize); 10], bounds: &[Bound; 3]) -> Option<Option<Moves>> {
        let mut moves = Moves { least: offset, steps: [(0, 0); 10] };
        let mut used = [false; 10];
        let mut b = 0;
        while b < 3 {
            let bound = &bounds[b];
            b += 1;
            if bound.limit == 0 {
                continue;
            }
            if bound.row != Bound::NO_AXIS && bound.row >= 4 || bound.tap != Bound::NO_AXIS && bound.tap >= 4 {
                return None;
            }
            // Masked, so that the optimiser sees that both are inside.
            let (row, tap) = (bound.row as usize & 3, 4 + (bound.tap as usize & 3));
            let row_used = bound.row != Bound::NO_AXIS && used[row];
            let tap_used = bound.tap != Bound::NO_AXIS && used[tap];
            if row_used || tap_used {
                continue;
            }
            let mut pair = [(1, 0); 2];
            if bound.row != Bound::NO_AXIS {
                (pair[0], used[row]) = ((axes[row].0 as i64, axes[row].1 as i64), true);
            }
            if bound.tap != Bound::NO_AXIS {
                (pair[1], used[tap]) = ((axes[tap].0 as i64, axes[tap].1 as i64), true);
            }
            let unit = if pitch == i64::MAX { 1 } else { unit(bound, pair[0], pair[1], pitch) };
            if unit != 1 {
                (pair[0].1, pair[1].1) = (quotient(pair[0].1, unit), quotient(pair[1].1, unit));
            }
            match within(bound, pair[0], pair[1]) {
                Err(()) => return None,
                Ok(None) => return Some(None),
                Ok(Some(range)) => {
                    let axis = if bound.row != Bound::NO_AXIS { row } else { tap };
                    let moved = bound.row != Bound::NO_AXIS || bound.tap != Bound::NO_AXIS;
                    if moved && !moves.add(axis, range, unit) {
                        return None;
                    }
                }
            }
        }
        let mut i = 0;
        while i < 10 {
            let greatest = axes[i].0 as i64 - 1;
            if greatest > 0 && !used[i] && !moves.add(i, Interval { least: 0, greatest }, axes[i].1 as i64) {
                return None;
            }
            i += 1;
        }
        Some(Some(moves))
    }

    /// Adds a range of multiples of a step; `false` if that overflows.
    const fn add(&mut self, axis: usize, range: Interval, step: i64) -> bool {
        let first = if step < 0 { range.greatest } else { range.least };
        let (Some(most), Some(step_up)) = (range.greatest.checked_sub(range.least), step.checked_abs()) else {
            return false;
        };
        // Known to the optimiser, which would keep a panic.
        if axis >= self.steps.len() {
            return false;
        }
        self.steps[axis] = (most, step_up);
        if first == 0 {
            return true;
        }
        let Some(first) = first.checked_mul(step) else {
            return false;
        };
        let Some(least) = self.least.checked_add(first) else {
            return false;
        };
        self.least = least;
        true
    }

    /// One behind the last address of runs, or what no operand has.
    const fn end(&self, run: i64) -> u64 {
        let Some(mut end) = self.least.checked_add(run) else {
            return u64::MAX;
        };
        let mut i = 0;
        while i < 10 {
            let (most, step) = self.steps[i];
            if most > 0 {
                let Some(more) = most.checked_mul(step) else {
                    return u64::MAX;
                };
                let Some(sum) = end.checked_add(more) else {
                    return u64::MAX;
                };
                end = sum;
            }
            i += 1;
        }
        match run {
            0 => 0,
            _ if self.least < 0 => u64::MAX,
            _ => end as u64,
        }
    }

    /// Whether all runs lie in lines of an operand: split into whole lines and what is left, neither is ever too much.
    const fn stay_in_lines(&self, extent: Extent, pitch: i64, run: i64) -> bool {
        let (mut line, column) = divide(self.least, pitch);
        let (mut end, mut i) = (column.checked_add(run), 0);
        while i < 10 {
            let (most, step) = self.steps[i];
            let (whole, part) = divide(step, pitch);
            let (Some(lines), Some(columns), Some(all)) = (most.checked_mul(whole), most.checked_mul(part), end) else {
                return false;
            };
            let Some(sum) = line.checked_add(lines) else {
                return false;
            };
            (line, end) = (sum, all.checked_add(columns));
            i += 1;
        }
        match end {
            Some(end) => self.least >= 0 && (line as u64) < extent.rows as u64 && end as u64 <= extent.row as u64,
            None => false,
        }
    }
}

/// The step of what the bound limits, where both axes move along it; else whole lines, or elements.
const fn unit(bound: &Bound, row: (i64, i64), tap: (i64, i64), pitch: i64) -> i64 {
    let (stride, dilation) = (bound.stride as i64, bound.dilation as i64);
    let unit = match (row, tap) {
        ((2.., step), _) if stride != 0 => step.checked_div(stride),
        ((..=1, _), (2.., step)) if dilation != 0 => step.checked_div(dilation),
        _ => None,
    };
    if let Some(unit) = unit
        && unit != 0
        && unit != -1
        && (row.0 <= 1 || is_product(row.1, stride, unit))
        && (tap.0 <= 1 || is_product(tap.1, dilation, unit))
    {
        return unit;
    }
    if divide(row.1, pitch).1 == 0 && divide(tap.1, pitch).1 == 0 { pitch } else { 1 }
}

/// a / b; 0 where there is none.
const fn quotient(a: i64, b: i64) -> i64 {
    match a.checked_div(b) {
        Some(quotient) => quotient,
        None => 0,
    }
}

const fn is_product(x: i64, a: i64, b: i64) -> bool {
    matches!(a.checked_mul(b), Some(product) if product == x)
}

const fn to_i64(x: usize) -> Result<i64, ()> {
    if x as u64 > i64::MAX as u64 { Err(()) } else { Ok(x as i64) }
}

const fn positive(x: usize) -> Option<i64> {
    match to_i64(x) {
        Ok(x) if x > 0 => Some(x),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contraction::tests::Random;

    /// Sizes of a window over lines that lie in a larger picture.
    struct Picture {
        channels: usize,
        /// Pixels from line to line, of which the operand has those of `size`.
        pitch: usize,
        size: [usize; 2],
        taps: [usize; 2],
        stride: usize,
        dilation: usize,
        before: [usize; 2],
        outputs: [usize; 2],
    }

    impl Picture {
        fn random(r: &mut Random) -> Self {
            let (size, taps) = ([1 + r.below(5), 1 + r.below(6)], [1 + r.below(4), 1 + r.below(5)]);
            Picture {
                channels: 1 + r.below(3),
                pitch: size[1] + r.below(3),
                size,
                taps,
                stride: 1 + r.below(2),
                dilation: 1 + r.below(2),
                before: [r.below(4), r.below(4)],
                outputs: [1 + r.below(5), 1 + r.below(6)],
            }
        }

        fn steps(&self) -> [usize; 2] {
            [self.pitch * self.channels, self.channels]
        }

        fn extent(&self) -> Extent {
            Extent { row: self.size[1] * self.channels, stride: self.steps()[0], rows: self.size[0] }
        }

        /// Whether the proof succeeds for these numbers of lines and pixels.
        fn reaches(&self, extent: Extent, limits: [usize; 2]) -> bool {
            let (mut axes, mut bounds, mut offset) = ([(1, 0); 10], [Bound::NONE; 3], 0);
            for (i, step) in self.steps().map(|step| step as isize).into_iter().enumerate() {
                axes[2 + i] = (self.outputs[i], self.stride as isize * step);
                axes[6 + i] = (self.taps[i], self.dilation as isize * step);
                let (row, tap) = (2 + i as u8, 2 + i as u8);
                let (stride, dilation) = (self.stride as isize, self.dilation as isize);
                let before = self.before[i] as isize;
                bounds[i] = Bound { row, tap, stride, dilation, offset: -before, limit: limits[i] };
                offset -= before * step;
            }
            reach(extent, offset, self.channels, &axes, &bounds)
        }

        /// The pixels that are read: least and greatest line, and index in a line, below the limits.
        fn read(&self, limits: [usize; 2]) -> Option<[(usize, usize); 2]> {
            let read = |i: usize| {
                let at = |row: usize, tap: usize| (row * self.stride + tap * self.dilation).checked_sub(self.before[i]);
                let all = (0..self.outputs[i]).flat_map(|row| (0..self.taps[i]).filter_map(move |tap| at(row, tap)));
                let inside = || all.clone().filter(|at| *at < limits[i]);
                Some((inside().min()?, inside().max()?))
            };
            Some([read(0)?, read(1)?])
        }
    }

    #[test]
    fn windows_over_lines_with_gaps_are_proved_just_where_they_stay_inside() {
        let mut r = Random(0x0ddb_a115);
        let mut outside = 0;
        for _ in 0..20_000 {
            let picture = Picture::random(&mut r);
            let [lines, pixels] = picture.size;
            assert!(picture.reaches(picture.extent(), [lines, pixels]));
            for limits in [[lines + 1, pixels], [lines, pixels + 1]] {
                let inside = |read: [(usize, usize); 2]| read[0].1 < lines && read[1].1 < pixels;
                let all = picture.read(limits).is_none_or(inside);
                // Without gaps the pixel behind a line is the first of the next one.
                if picture.pitch > pixels {
                    assert_eq!(picture.reaches(picture.extent(), limits), all);
                    outside += usize::from(!all);
                }
            }
        }
        assert!(outside > 1000, "{outside}");
    }
}
