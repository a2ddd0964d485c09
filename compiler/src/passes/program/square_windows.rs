//! Sums of squares in windows that overlap, as those of local response normalisation: every element is squared once, and sums are
//! windows of what is there, for which there are kernels.

use super::blocks::split_nests;
use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
use crate::options::Options;
use crate::program::edit::prune;
use crate::program::nest::{Access, Axis, Binary, Nest, Scalar};
use crate::program::{Program, Role, recognise};

/// Windows in which an element lies, at least.
const WINDOWS: i64 = 4;

/// Squares elements before such sums.
pub fn square_windows(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, memory is scarce.
    if options.has_vector_kernels() {
        split_nests(program, squares);
    }
}

/// The nest that squares, and the one that sums squares up.
fn squares(program: &mut Program, nest: &Nest) -> Option<(Vec<Nest>, Nest)> {
    let mut sum = nest.clone();
    let reduction = sum.reduction.as_mut()?;
    let Scalar::Binary(Binary::Mul, data, again) = *nest.nodes.get(reduction.value as usize)? else { return None };
    let Scalar::Load { access, .. } = nest.nodes.get(data as usize).filter(|_| data == again)? else { return None };
    reduction.value = data;
    // Padding is zero, whose square it is.
    recognise::any_window(program, &sum)?;
    let source = program.buffer(access.buffer).clone();
    let points: Vec<Dim> = nest.axes.iter().map(|axis| axis.extent.clone()).collect();
    let (points, elements) = (product(&points).as_const()?, source.len().as_const()?);
    if source.constant().is_some() || points < elements.checked_mul(WINDOWS)? {
        return None;
    }
    let squared = program.add_buffer(&source.name, source.element, source.dims.clone(), Role::Temporary);
    let index: Vec<Dim> = (0..source.dims.len()).map(Dim::axis).collect();
    let axes = source.dims.into_iter().map(|extent| Axis { extent }).collect();
    let (from, to) = (Access { buffer: access.buffer, index: index.clone() }, Access { buffer: squared, index });
    let mut square = Nest::moving(axes, from, to);
    square.nodes.push(Scalar::Binary(Binary::Mul, 0, 0));
    square.result = 1;
    if let Some(Scalar::Load { access, .. }) = sum.nodes.get_mut(data as usize) {
        access.buffer = squared;
    }
    prune(&mut sum);
    Some((vec![square], sum))
}
