//! Copies from one order of the dimensions to another, which a kernel makes square by square.

use super::dims::Scope;
use super::kernel::extent;
use super::physical::{Physical, stride, with_axis};
use super::views::{Param, Views};
use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::program::nest::{Nest, Scalar};
use crate::program::{BufferId, Program};
use proc_macro2::TokenStream;
use quote::quote;

/// Elements from which a kernel is worth its call.
const LEAST: i64 = 256;
/// Least extent of both sides of a square.
const SIDE: i64 = 2;
/// Fewest elements of a square: finding the next one takes as long as some elements.
const SQUARE: i64 = 64;
/// Axes beside the two of a square.
const OUTER: usize = 3;

/// An axis of the copy: extent and the steps of operand and result.
struct Axis {
    extent: Dim,
    from: Dim,
    to: Dim,
}

/// A copy that a kernel can make.
struct Copy {
    source: BufferId,
    offsets: [Dim; 2],
    /// All axes but the two of a square.
    outer: Vec<Axis>,
    along_source: Axis,
    along_result: Axis,
}

/// The body of a function for a nest that copies all elements as they are, contiguous along one axis where it reads and along
/// another where it writes; `None` for others.
///
/// # Errors
/// A nest that the verifier would refuse.
pub fn body(program: &Program, views: &Views, nest: &Nest) -> Result<Option<TokenStream>, Diagnostic> {
    if !matches!(nest.nodes[..], [Scalar::Load { .. }]) || nest.reduction.is_some() || !nest.is_direct() {
        return Ok(None);
    }
    let physical = Physical::new(program, views, nest)?;
    let operands = |copy: Copy| {
        let (from, to) = (views.param(copy.source)?, views.param(physical.target)?);
        (from.name != to.name).then(|| written(&copy, from, to))
    };
    Ok(copy_of(program, &physical).and_then(operands))
}

fn copy_of(program: &Program, physical: &Physical) -> Option<Copy> {
    let Some(Scalar::Load { access, bounds, .. }) = physical.nodes.first() else { return None };
    let same = program.buffer(access.buffer).element == program.buffer(physical.target).element;
    let [address] = &access.index[..] else { return None };
    if !same || !bounds.is_empty() || physical.literals.first()?.is_some() {
        return None;
    }
    let start = |address: &Dim| {
        physical.maps.iter().fold(address.clone(), |sum, axis| with_axis(&sum, *axis, &Dim::constant(0)))
    };
    let mut outer = Vec::with_capacity(physical.maps.len());
    for axis in &physical.maps {
        let extent = physical.extents.get(*axis)?.clone();
        let (from, to) = (stride(address, *axis)?, stride(&physical.store, *axis)?);
        if from.range().min < 0 || to.range().min < 0 {
            return None;
        }
        outer.push(Axis { extent, from, to });
    }
    let elements = product(&outer.iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>());
    let side = |axis: &Axis| axis.extent.upper_bound() >= SIDE;
    let source = outer.iter().position(|axis| axis.from.is(1) && !axis.to.is(1) && side(axis))?;
    let along_source = outer.remove(source);
    let result = outer.iter().position(|axis| axis.to.is(1) && side(axis))?;
    let along_result = outer.remove(result);
    let square = along_source.extent.upper_bound().saturating_mul(along_result.extent.upper_bound());
    let fits = outer.len() <= OUTER && elements.upper_bound() >= LEAST && square >= SQUARE;
    let offsets = [start(address), start(&physical.store)];
    fits.then_some(Copy { source: access.buffer, offsets, outer, along_source, along_result })
}

fn written(copy: &Copy, from: &Param, to: &Param) -> TokenStream {
    let scope = Scope::default();
    let axis = |axis: &Axis| {
        let [extent, a, out] = [&axis.extent, &axis.from, &axis.to].map(|dim| scope.index(dim));
        quote!(rt::CopyAxis { extent: #extent, a: #a, out: #out })
    };
    let mut outer: Vec<TokenStream> = copy.outer.iter().map(axis).collect();
    outer.splice(0..0, vec![quote!(rt::CopyAxis::ONE); OUTER.saturating_sub(outer.len())]);
    let (along_a, along_out) = (axis(&copy.along_source), axis(&copy.along_result));
    let [a, out] = [&copy.offsets[0], &copy.offsets[1]].map(|offset| scope.index(offset));
    let value = quote!(rt::Transpose {
        outer: [#(#outer),*], along_a: #along_a, along_out: #along_out, a_offset: #a, out_offset: #out
    });
    let axes = copy.outer.iter().chain([&copy.along_source, &copy.along_result]);
    let mut dims = axes.flat_map(|axis| [&axis.extent, &axis.from, &axis.to]).chain(&copy.offsets);
    let (x, y) = (&from.name, &to.name);
    if dims.any(|dim| dim.as_const().is_none()) || from.is_slice() || to.is_slice() {
        return quote!(#value.run(cx, #x.src(), #y.dst()););
    }
    let (from, to) = (extent(from), extent(to));
    quote! {
        const SHAPE: rt::Transpose = #value;
        const { assert!(rt::Transpose::fits(&SHAPE, #from, #to)) };
        SHAPE.run(cx, #x.src(), #y.dst());
    }
}
