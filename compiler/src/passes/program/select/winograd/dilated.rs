//! Dilated windows: pixels that are as far apart as their taps make an image of their own, in which windows have no gaps.

use super::super::MAX_ROWS;
use super::{Description, Kernel};
use crate::dim::Dim;
use crate::program::edit::move_axes;
use crate::program::kernel::Part;
use crate::program::nest::{Axis, Bound, Nest, Scalar};

/// The same kernel with those images one after the other: a row axis over each dilated axis's images, and one over its
/// pixels. `None` where nothing is dilated, or an image would end earlier than another.
pub fn by_images(kernel: &Kernel, d: &Description) -> Option<Kernel> {
    let [.., first, second] = d.taps.as_slice() else { return None };
    let last = d.rows.iter().rposition(|axis| !axis.extent.is(1))?;
    let rows = [d.rows.get(last.checked_sub(1)?)?.axis, d.rows.get(last)?.axis];
    let mut dilated = Vec::new();
    for (row, tap) in rows.into_iter().zip([first.axis, second.axis]) {
        let gap = gap(kernel, row, tap)?;
        if gap > 1 {
            dilated.push((row, gap));
        }
    }
    if dilated.is_empty() {
        return None;
    }
    let at = rows[0].min(rows[1]);
    let mut nest = kernel.nest.clone();
    split(&mut nest, at, &dilated)?;
    let mut parts = kernel.parts.clone();
    parts.splice(at..at, of_images(d, dilated.len()));
    Some(Kernel { nest, parts, ..kernel.clone() })
}

/// The parts of so many axes over images: rows, or where these would be too many batches, which have the same weights.
pub(super) fn of_images(d: &Description, count: usize) -> impl Iterator<Item = Part> {
    let batches = (d.rows.len() + count).saturating_sub(MAX_ROWS);
    (0..count).map(move |i| if i < batches { Part::Batch } else { Part::Row })
}

/// How far apart the taps are along a row axis on which windows move one element at a time.
pub(super) fn gap(kernel: &Kernel, row: usize, tap: usize) -> Option<i64> {
    let Scalar::Load { access, .. } = kernel.nest.nodes.get(kernel.data as usize)? else { return None };
    let mut slid = access.index.iter().filter(|dim| dim.uses_axis(row) || dim.uses_axis(tap));
    let (Some(dim), None) = (slid.next(), slid.next()) else { return None };
    let gap = dim.coefficient(tap).filter(|gap| *gap > 0)?;
    (dim.coefficient(row) == Some(1)).then_some(gap)
}

/// Splits row axes, of which each has so many images; the axes over images come to be at `at`.
pub(super) fn split(nest: &mut Nest, at: usize, dilated: &[(usize, i64)]) -> Option<()> {
    for (row, gap) in dilated {
        let axis = nest.axes.get_mut(*row)?;
        axis.extent = axis.extent.quotient(&Dim::constant(*gap))?;
    }
    let moved = |old: usize| if old < at { old } else { old + dilated.len() };
    move_axes(nest, &|old| {
        let pixel = Dim::axis(moved(old));
        match dilated.iter().position(|(row, _)| *row == old) {
            Some(i) => pixel * dilated[i].1 + Dim::axis(at + i),
            None => pixel,
        }
    });
    nest.axes.splice(at..at, dilated.iter().map(|(_, gap)| Axis { extent: Dim::constant(*gap) }));
    nest.maps += dilated.len();
    for (i, (_, gap)) in dilated.iter().enumerate() {
        nest.nodes.iter_mut().try_for_each(|node| match node {
            Scalar::Load { bounds, .. } => bounds.iter_mut().try_for_each(|bound| of_one_image(bound, at + i, *gap)),
            _ => Some(()),
        })?;
    }
    Some(())
}

/// A bound that holds for one of the images as for all of them.
fn of_one_image(bound: &mut Bound, image: usize, gap: i64) -> Option<()> {
    if bound.value.uses_axis(image) {
        let gap = Dim::constant(gap);
        bound.value = bound.value.without(image).quotient(&gap)?;
        bound.limit = bound.limit.quotient(&gap)?;
    }
    Some(())
}
