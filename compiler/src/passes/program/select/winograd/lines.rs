//! Windows of one line along other rows than the last, or with gaps: as lines of their own, one after the other.

use super::dilated::{gap, of_images, split};
use super::{Description, Kernel, LINES};
use crate::dim::Dim;
use crate::program::edit::move_axes;
use crate::program::kernel::Part;
use crate::program::nest::Nest;

/// The same kernel with the axis along which the window slides behind all other rows; of a dilated window, pixels that are as far
/// apart as its taps are a line. `None` where it is one already, or lines would end earlier than others.
pub fn by_lines(kernel: &Kernel, d: &Description) -> Option<Kernel> {
    let [tap] = d.taps.as_slice() else { return None };
    tap.extent.as_const().filter(|window| LINES.contains(window))?;
    let last = d.rows.iter().rposition(|axis| !axis.extent.is(1))?;
    let along = |row: usize| Some((row, gap(kernel, d.rows.get(row)?.axis, tap.axis)?));
    let (row, gap) = (0..=last).find_map(along)?;
    if gap == 1 && row == last {
        return None;
    }
    let (mut nest, mut parts, mut at) = (kernel.nest.clone(), kernel.parts.clone(), d.rows.get(row)?.axis);
    if gap > 1 {
        split(&mut nest, at, &[(at, gap)])?;
        parts.splice(at..at, of_images(d, 1));
        at += 1;
    }
    let end = parts.iter().rposition(|part| *part == Part::Row)?;
    move_behind(&mut nest, at, end);
    parts.get_mut(at..=end)?.rotate_left(1);
    Some(Kernel { nest, parts, ..kernel.clone() })
}

/// Moves an axis behind those up to `end`.
fn move_behind(nest: &mut Nest, at: usize, end: usize) {
    let moved = |old: usize| if old == at { end } else { old - usize::from((at..=end).contains(&old)) };
    move_axes(nest, &|old| Dim::axis(moved(old)));
    if let Some(axes) = nest.axes.get_mut(at..=end) {
        axes.rotate_left(1);
    }
}
