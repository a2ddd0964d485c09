//! A running median: what compiled code calls, and what the build script calls on constants.

use include_ir::calls::Arguments;

/// Output 0 is the median of the `integers[0]` elements around every element of input 0 along its last dimension; at the
/// ends, of those that exist. Output 1 is working memory for one window. Allocates nothing, and cannot panic.
pub fn median(arguments: Arguments<'_>) {
    let (x, window) = (arguments.input(0), arguments.size(0));
    let length = x.dims.last().copied().unwrap_or(1).max(1);
    let [out, sorted, ..] = arguments.outputs else { return };
    let rows = x.get::<f32>().chunks_exact(length).zip(out.get::<f32>().chunks_exact_mut(length));
    for (row, out) in rows {
        for (i, median) in out.iter_mut().enumerate() {
            let around = row.iter().skip(i.saturating_sub(window / 2)).take((i + 1).min(window / 2 + 1) + window / 2);
            let mut count = 0;
            for (slot, x) in sorted.get::<f32>().iter_mut().zip(around) {
                *slot = *x;
                count += 1;
            }
            let window = sorted.get::<f32>().get_mut(..count).unwrap_or_default();
            window.sort_unstable_by(f32::total_cmp);
            *median = window.get(count / 2).copied().unwrap_or(0.0);
        }
    }
}
