//! Windows of one line along other rows than the last: as lines of their own, one after the other.

use super::{Description, Kernel, LINES};
use crate::dim::Dim;
use crate::program::edit::move_axes;
use crate::program::kernel::Part;
use crate::program::nest::{Nest, Scalar};

/// The same kernel with the axis along which the window slides behind all other rows. `None` where it is there already.
pub fn by_lines(kernel: &Kernel, d: &Description) -> Option<Kernel> {
    let [tap] = d.taps.as_slice() else { return None };
    tap.extent.as_const().filter(|window| LINES.contains(window))?;
    let last = d.rows.iter().rposition(|axis| !axis.extent.is(1))?;
    let at = d.rows.get(..last)?.iter().map(|row| row.axis).find(|row| slides(kernel, *row, tap.axis))?;
    let (mut nest, mut parts) = (kernel.nest.clone(), kernel.parts.clone());
    let end = parts.iter().rposition(|part| *part == Part::Row)?;
    move_behind(&mut nest, at, end);
    parts.get_mut(at..=end)?.rotate_left(1);
    Some(Kernel { nest, parts, ..kernel.clone() })
}

/// Whether a window slides along a row axis, one element at a time.
fn slides(kernel: &Kernel, row: usize, tap: usize) -> bool {
    let Some(Scalar::Load { access, .. }) = kernel.nest.nodes.get(kernel.data as usize) else { return false };
    let mut slid = access.index.iter().filter(|dim| dim.uses_axis(row) || dim.uses_axis(tap));
    let (Some(dim), None) = (slid.next(), slid.next()) else { return false };
    dim.coefficient(row) == Some(1) && dim.coefficient(tap).is_some_and(|gap| gap > 0)
}

/// Moves an axis behind those up to `end`.
fn move_behind(nest: &mut Nest, at: usize, end: usize) {
    let moved = |old: usize| if old == at { end } else { old - usize::from((at..=end).contains(&old)) };
    move_axes(nest, &|old| Dim::axis(moved(old)));
    if let Some(axes) = nest.axes.get_mut(at..=end) {
        axes.rotate_left(1);
    }
}
