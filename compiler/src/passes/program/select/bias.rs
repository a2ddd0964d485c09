//! Constants behind a product of which only parts are added, as of the gates of a GRU, or some more than once, as of the pixels of a
//! transposed convolution: a copy of these parts is a bias.

use super::pack::{Values, f32_tensor};
use crate::dim::Dim;
use crate::program::Program;
use crate::program::kernel::Part;
use crate::program::nest::{Access, Nest, Scalar};
use crate::program::recognise;

/// Most elements of such a copy.
const MOST: i64 = 1 << 16;

/// Makes what follows a product read its constants from copies without gaps.
pub(super) fn close_gaps(program: &mut Program, nest: &mut Nest) {
    let Some(product) = recognise::product(program, nest) else { return };
    for node in nest.needed(&[nest.result]) {
        if let Some(Scalar::Load { access, bounds, .. }) = nest.nodes.get(node)
            && bounds.is_empty()
            && let Some(copy) = copy(program, nest, access, &product.parts)
            && let Some(Scalar::Load { access, .. }) = nest.nodes.get_mut(node)
        {
            *access = copy;
        }
    }
}

/// The access of a copy of what is read along columns and batches, if there are gaps between it, or other columns read the same.
fn copy(program: &mut Program, nest: &Nest, access: &Access, parts: &[Part]) -> Option<Access> {
    let buffer = program.buffer(access.buffer);
    let (tensor, address) = (buffer.constant()?, program.address(access.buffer, &access.index));
    let strides: Option<Vec<i64>> = (0..nest.maps).map(|axis| address.coefficient(axis)).collect();
    let several =
        |axis: usize| parts.get(axis) == Some(&Part::Column) && nest.axes.get(axis).is_some_and(|a| !a.extent.is(1));
    let strides: Vec<(usize, i64)> = strides?.into_iter().enumerate().collect();
    let depends = strides.iter().any(|(axis, stride)| *stride != 0 && several(*axis));
    let read = |(axis, stride): &(usize, i64)| *stride != 0 || depends && several(*axis);
    let axes: Vec<(usize, i64)> = strides.into_iter().filter(read).collect();
    let columns =
        |(axis, stride): &(usize, i64)| *stride >= 0 && matches!(parts.get(*axis), Some(Part::Column | Part::Batch));
    if axes.is_empty() || !axes.iter().all(columns) || !access.is_direct() {
        return None;
    }
    let extents: Option<Vec<i64>> = axes.iter().map(|(axis, _)| nest.axes.get(*axis)?.extent.as_const()).collect();
    let (extents, start) = (extents?, axes.iter().fold(address, |rest, (axis, _)| rest.without(*axis)).as_const()?);
    let (mut run, mut dense) = (1i64, true);
    for ((_, stride), extent) in axes.iter().zip(&extents).rev() {
        dense &= *stride == run || *extent == 1;
        run = run.checked_mul(*extent).filter(|run| *run <= MOST)?;
    }
    if dense {
        return None;
    }
    let values = Values::new(tensor)?;
    let mut offsets = vec![start];
    for ((_, stride), extent) in axes.iter().zip(&extents) {
        offsets = offsets.iter().flat_map(|offset| (0..*extent).map(move |i| offset + i * stride)).collect();
    }
    let name = buffer.name.clone();
    let elements = f32_tensor(offsets.into_iter().map(|at| values.at(at).to_le_bytes()).collect());
    let mut index = Dim::constant(0);
    for ((axis, _), extent) in axes.iter().zip(&extents) {
        index = index * *extent + &Dim::axis(*axis);
    }
    Some(Access { buffer: program.add_constant(&name, elements), index: vec![index] })
}
