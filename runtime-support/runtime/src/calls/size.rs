//! Sizes that are known only once the model runs.

use super::Arguments;
use core::ops::Range;

/// Reads sizes from an i64 tensor: size `i` is element `i`, 0 if it is negative.
#[inline]
pub fn read_sizes(arguments: Arguments<'_>) {
    let values = arguments.input(0).get::<i64>();
    for (size, value) in arguments.sizes.iter_mut().zip(values) {
        *size = usize::try_from(*value).unwrap_or(0);
    }
}

/// Sets run-time size `at` to what a function found. A size outside `min..=max` is clamped, so that the rest of the run
/// stays inside its memory, and remembered behind the sizes: `[.., 1 + at, found]`, for the error that the run returns.
#[inline]
pub fn set_size(dims: &mut [usize], at: usize, found: usize, min: usize, max: usize) {
    let size = found.clamp(min, max.max(min));
    if let Some(slot) = dims.get_mut(at) {
        *slot = size;
    }
    if size != found
        && let [.., which, value] = dims
        && *which == 0
    {
        (*which, *value) = (at + 1, found);
    }
}

/// The same for a size that shares a capacity with those `before` it, which are set: it is not larger than what these
/// leave. A size of zero leaves everything.
#[inline]
pub fn set_shared_size(dims: &mut [usize], before: Range<usize>, found: usize, max: usize, capacity: usize) {
    let at = before.end;
    let room = dims.get(before).unwrap_or(&[]).iter().fold(capacity, |room, size| room / (*size).max(1));
    set_size(dims, at, found, 0, max.min(room));
}

#[cfg(test)]
mod tests {
    use super::super::Operand;
    use super::*;

    #[test]
    fn sizes_are_read_and_kept_in_bounds() {
        let mut sizes = [9, 9];
        let inputs = [Operand::new(&[4i64, -1], &[2])];
        read_sizes(Arguments {
            cx: crate::cx::Cx::detect(),
            inputs: &inputs,
            outputs: &mut [],
            integers: &[],
            floats: &[],
            sizes: &mut sizes,
        });
        assert_eq!(sizes, [4, 0]);
        let mut dims = [0, 0, 0, 0];
        set_size(&mut dims, 1, 4, 0, 8);
        assert_eq!(dims, [0, 4, 0, 0]);
        set_shared_size(&mut dims, 0..1, 5, 20, 20);
        assert_eq!(dims, [0, 5, 0, 0]);
        dims[0] = 6;
        set_shared_size(&mut dims, 0..1, 5, 20, 20);
        assert_eq!(dims, [6, 3, 2, 5]);
        dims = [0, 4, 0, 0];
        set_size(&mut dims, 0, 20, 0, 8);
        set_size(&mut dims, 1, 30, 0, 8);
        assert_eq!(dims, [8, 8, 1, 20]);
    }
}
