//! Rows along which a few elements are looked up by a division, as the statistics of groups by channels: they read a small table
//! instead, in which those elements lie as the row does, and run by vectors.

use super::blocks::split_nests;
use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
use crate::options::Options;
use crate::program::edit::renumber_dim;
use crate::program::nest::{Access, Axis, Nest, Scalar};
use crate::program::{Program, Role};

/// How often elements of a table are read, at least.
const AGAIN: i64 = 8;

/// Makes tables for what nests look up outside of reductions.
pub fn spread_lookups(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if !options.has_vector_kernels() {
        return;
    }
    split_nests(program, with_tables);
}

/// The nests that fill tables, and the nest that reads them.
fn with_tables(program: &mut Program, nest: &Nest) -> Option<(Vec<Nest>, Nest)> {
    let stored = program.address(nest.store.buffer, &nest.store.index);
    let row = (0..nest.maps).find(|axis| stored.coefficient(*axis) == Some(1) && !nest.axes[*axis].extent.is(1))?;
    if !nest.is_direct() {
        return None;
    }
    let (mut tables, mut reader) = (Vec::new(), nest.clone());
    for node in &mut reader.nodes {
        if let Scalar::Load { access, bounds, .. } = node
            && bounds.is_empty()
            && let Some(table) = table(program, nest, access, row)
        {
            let counted = (0..nest.maps).filter(|axis| uses(access, *axis)).map(Dim::axis).collect();
            *access = Access { buffer: table.store.buffer, index: counted };
            tables.push(table);
        }
    }
    (!tables.is_empty()).then_some((tables, reader))
}

fn uses(access: &Access, axis: usize) -> bool {
    access.index.iter().any(|index| index.uses_axis(axis))
}

/// The axes along which a load reads few elements, each of them often, outside of a reduction: those of a table of them.
pub(super) fn axes_of_few(nest: &Nest, access: &Access) -> Option<Vec<usize>> {
    let axes: Vec<usize> = (0..nest.axes.len()).filter(|axis| uses(access, *axis)).collect();
    let extents = |axes: &[usize]| axes.iter().map(|axis| nest.axes[*axis].extent.clone()).collect::<Vec<_>>();
    let all: Vec<usize> = (0..nest.axes.len()).collect();
    let (elements, points) = (product(&extents(&axes)).as_const()?, product(&extents(&all)).as_const()?);
    let often = elements.checked_mul(AGAIN)? <= points;
    (often && access.is_direct() && axes.iter().all(|axis| *axis < nest.maps)).then_some(axes)
}

/// The nest that fills a table of what a load reads, if that is no straight line along the row, and few elements.
fn table(program: &mut Program, nest: &Nest, access: &Access, row: usize) -> Option<Nest> {
    if program.address(access.buffer, &access.index).coefficient(row).is_some() {
        return None;
    }
    let axes = axes_of_few(nest, access)?;
    let dims: Vec<Dim> = axes.iter().map(|axis| nest.axes[*axis].extent.clone()).collect();
    let source = program.buffer(access.buffer).clone();
    let table = program.add_buffer(&source.name, source.element, dims.clone(), Role::Temporary);
    let place = |axis: usize| Dim::axis(axes.iter().position(|other| *other == axis).unwrap_or(0));
    let from = access.index.iter().map(|index| renumber_dim(index, &[], &place)).collect();
    let to = Access { buffer: table, index: (0..axes.len()).map(Dim::axis).collect() };
    let axes = dims.into_iter().map(|extent| Axis { extent }).collect();
    Some(Nest::moving(axes, Access { buffer: access.buffer, index: from }, to))
}
