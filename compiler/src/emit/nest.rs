//! Nests as loops: rows over contiguous elements where the addresses allow it, indexed elements elsewhere.

use super::nodes::{Inner, Nodes, is_hoisted, unparen};
use super::physical::{Physical, stride};
use super::split::{self, Parts};
use super::types;
use super::views::Views;
use super::{pieces, short_rows};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::program::nest::{Const, Nest, ReduceFn, STRIDE, Scalar, ScalarType};
use crate::program::{BufferId, Program};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeMap;

/// Widest row of accumulators: 1 KiB of f32, which stays in the first-level cache.
const ACCUMULATORS: usize = 256;

/// The body of a function that computes a nest.
///
/// # Errors
/// A nest that the verifier would refuse.
pub fn body(program: &Program, views: &Views, nest: &Nest) -> Result<TokenStream, Diagnostic> {
    whole(program, views, &mut Physical::new(program, views, nest)?)
}

fn whole(program: &Program, views: &Views, physical: &mut Physical) -> Result<TokenStream, Diagnostic> {
    short_rows::join(program, views, physical);
    short_rows::shorten(physical);
    // One long row has no iterations to divide.
    if let ([axis], None) = (&physical.maps[..], physical.reduction)
        && split::worthwhile(split::cost_of(physical))
        && pieces::of(physical, *axis).is_empty()
        && let Some(row) = physical.extents.get(*axis).and_then(Dim::as_usize).and_then(split::row)
    {
        physical.split(*axis, row as i64);
    }
    let cost = split::cost_of(physical);
    let Written { nodes, axes, rows, body } = written(program, views, physical, &[])?;
    Ok(loops(&nodes, &axes, rows, cost, &body))
}

/// A nest but for the loops over some of its map axes.
pub(super) struct Written<'a> {
    /// Its nodes, with names for the axes.
    pub nodes: Nodes<'a>,
    /// Map axes over which loops are missing, slowest first.
    pub axes: Vec<usize>,
    /// Whether the body has loops.
    pub rows: bool,
    /// What such a loop repeats.
    pub body: TokenStream,
}

/// Writes a nest inside loops over the axes `outer`, which are none of its map axes any more. The body is the value for the row
/// where `views` have a variable for it.
///
/// # Errors
/// A nest that the verifier would refuse.
pub(super) fn written<'a>(
    program: &'a Program,
    views: &'a Views,
    physical: &'a mut Physical,
    outer: &[usize],
) -> Result<Written<'a>, Diagnostic> {
    let form = physical.reduction.map(|_| reduction_form(views, physical));
    let mut nodes = Nodes::new(program, views, physical);
    name_axes(&mut nodes, outer, "i");
    match form {
        None => map(nodes),
        Some(Form::Accumulators) => accumulate(nodes),
        Some(Form::Rows) => reduce(nodes, true),
        Some(Form::Elements) => reduce(nodes, false),
    }
}

/// All loops of a nest, those over `axes` around a body, in parts for threads where that is worth while. `rows` says that
/// the body has loops, `cost` what all of them cost.
pub(super) fn loops(nodes: &Nodes, axes: &[usize], rows: bool, cost: i64, body: &TokenStream) -> TokenStream {
    match Parts::of(nodes, axes, rows, cost) {
        Some(parts) => {
            let inner = around(nodes, axes.get(parts.axes..).unwrap_or_default(), "i", body);
            parts.around(nodes, axes, "i", &inner)
        }
        None => {
            let (before, loops) = (nodes.before_loops(), around(nodes, axes, "i", body));
            quote!(cx.vectorize(#[inline(always)] || { #before #loops });)
        }
    }
}

/// How a reduction is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// One accumulator per element of a row of the result.
    Accumulators,
    /// Lanes along contiguous operands.
    Rows,
    /// Lanes along anything.
    Elements,
}

/// Loads of the reduced value walk with stride 0 or up to `most` along `axis`, one of them not with 0, and no bound depends on it.
fn contiguous(views: &Views, physical: &Physical, axis: usize, most: i64) -> bool {
    let needed = physical.needed(physical.reduction.map(|r| r.value));
    let mut walks = false;
    for (node, _) in physical.nodes.iter().zip(needed).filter(|(_, needed)| *needed) {
        let Scalar::Load { access, bounds, .. } = node else { continue };
        let Some(address) = access.index.first() else { return false };
        if views.param(access.buffer).is_none() {
            continue;
        }
        let step = stride(address, axis).and_then(|s| s.as_const());
        let uniform = bounds.iter().all(|bound| !bound.value.uses_axis(axis) && !bound.limit.uses_axis(axis));
        match step {
            Some(0) if uniform => {}
            Some(step) if uniform && (1..=most).contains(&step) => walks = true,
            _ => return false,
        }
    }
    walks
}

fn reduction_form(views: &Views, physical: &mut Physical) -> Form {
    let size = |physical: &Physical, axis: usize| physical.extents.get(axis).and_then(|e| e.as_usize());
    let lanes = physical.reduces.last().copied().filter(|axis| contiguous(views, physical, *axis, 1));
    // Elements at a distance take the place of neighbours where these are too few for vectors.
    let few = |axis| size(physical, axis).is_some_and(|n| n < short_rows::VECTOR as usize);
    let most = if lanes.is_none_or(few) { STRIDE } else { 1 };
    let row = physical.maps.last().copied().filter(|axis| {
        let in_row = physical.depends_on(&[*axis]);
        if physical.counts().iter().any(|count| in_row[*count as usize]) || !is_hoisted(&physical.store, &in_row) {
            return false;
        }
        let run = views.param(physical.target).map_or(0, |param| param.run());
        let wide = size(physical, *axis).is_some_and(|n| n >= 4 && n <= run);
        wide && stride(&physical.store, *axis).is_some_and(|s| s.is(1)) && contiguous(views, physical, *axis, most)
    });
    match (row, lanes) {
        (Some(row), lanes) if lanes.is_none_or(|lanes| size(physical, lanes) < size(physical, row)) => {
            let width = size(physical, row).unwrap_or(1);
            let block = (1..=ACCUMULATORS.min(width)).rev().find(|block| width % block == 0).unwrap_or(1);
            if block < 4 {
                return if lanes.is_some() { Form::Rows } else { Form::Elements };
            }
            if block < width {
                physical.split(row, block as i64);
            }
            Form::Accumulators
        }
        (_, Some(_)) => Form::Rows,
        _ => Form::Elements,
    }
}

/// Loops over `axes` around a body; the loop variables are named in `nodes` before the body is made.
pub(super) fn around(nodes: &Nodes, axes: &[usize], prefix: &str, body: &TokenStream) -> TokenStream {
    let extent = |axis: &usize| nodes.physical.extents.get(*axis).map_or_else(|| quote!(0), |e| nodes.scope.index(e));
    let name = |axis: &usize| format_ident!("{prefix}{axis}");
    match axes {
        [] => body.clone(),
        [axis] => {
            let (extent, name) = (extent(axis), name(axis));
            quote!(rt::nest::map(#extent, #[inline(always)] |#name| { #body });)
        }
        _ => {
            let (extents, names) = (axes.iter().map(extent), axes.iter().map(name));
            quote!(rt::nest::for_each([#(#extents),*], #[inline(always)] |[#(#names),*]| { #body });)
        }
    }
}

pub(super) fn name_axes(nodes: &mut Nodes, axes: &[usize], prefix: &str) {
    axes.iter().for_each(|axis| nodes.name_axis(*axis, format_ident!("{prefix}{axis}")));
}

fn inner_of(physical: &Physical, axis: usize, name: &str) -> Inner {
    Inner {
        axis,
        name: format_ident!("{name}"),
        width: physical.extents.get(axis).and_then(|e| e.as_usize()),
        count: None,
    }
}

/// A nest without reduction.
fn map(mut nodes: Nodes) -> Result<Written, Diagnostic> {
    let physical = nodes.physical;
    let needed = physical.stored();
    let element = nodes.program.buffer(physical.target).element;
    name_axes(&mut nodes, &physical.maps, "i");
    if let Some((last, outer)) = physical.maps.split_last() {
        let axes = outer.to_vec();
        let pieces = pieces::of(physical, *last);
        if !pieces.is_empty() {
            let rows: Result<Option<Vec<_>>, _> =
                pieces.iter().map(|piece| row(&mut of_piece(&nodes, piece), *last)).collect();
            if let Some(rows) = rows? {
                return Ok(Written { nodes, axes, rows: true, body: quote!(#({ #rows })*) });
            }
        }
        nodes.kept = (!axes.is_empty()).then(BTreeMap::new);
        if let Some(body) = row(&mut nodes, *last)? {
            return Ok(Written { nodes, axes, rows: true, body });
        }
        name_axes(&mut nodes, &physical.maps, "i");
    }
    let block = nodes.block(&|i| needed[i], None)?;
    let store = put(&nodes, element);
    let before = block.before;
    Ok(Written { nodes, axes: physical.maps.clone(), rows: false, body: quote!(#before #store) })
}

/// A writer of a part of what `nodes` write.
fn of_piece<'a>(nodes: &Nodes<'a>, piece: &'a Physical) -> Nodes<'a> {
    let mut part = Nodes::new(nodes.program, nodes.views, piece);
    part.scope.axes.clone_from(&nodes.scope.axes);
    part
}

/// The innermost loop of a nest without reduction, where the result is contiguous along `axis`.
fn row(nodes: &mut Nodes, axis: usize) -> Result<Option<TokenStream>, Diagnostic> {
    if let Some(overlay) = pieces::overlay(nodes.physical, axis)
        && let Some(others) = overlaid(nodes, axis, &overlay)?
        && let Some(all) = plain_row(&mut of_piece(nodes, &overlay.all), axis)?
    {
        return Ok(Some(quote!({ #all } #others)));
    }
    plain_row(nodes, axis)
}

/// The loops over what overlays a row, unless it needs what the row has overwritten.
fn overlaid(nodes: &Nodes, axis: usize, overlay: &pieces::Overlay) -> Result<Option<TokenStream>, Diagnostic> {
    let mut loops = TokenStream::new();
    for other in &overlay.others {
        let mut nodes = of_piece(nodes, other);
        let inner = inner_of(other, axis, "j");
        nodes.name_axis(axis, inner.name.clone());
        let Some((bind, row)) = nodes.bind_spread(&inner, overlay.step) else { return Ok(None) };
        let needed = other.stored();
        let block = nodes.block(&|i| needed[i], Some(&inner))?;
        let (before, inside, at, step) = (block.before, block.inside, &inner.name, overlay.step);
        let value = nodes.stored(other.result, nodes.program.buffer(other.target).element);
        let body = nodes.inner_loop(&inner, &block.spans, &quote!(#inside #row.put(#at * #step, #value);));
        let body = quote!(#before #bind #body);
        loops.extend(match nodes.condition(&overlay.rows) {
            Some(condition) => {
                let condition = unparen(condition);
                quote!(if #condition { #body })
            }
            None => quote!({ #body }),
        });
    }
    Ok(Some(loops))
}

/// The innermost loop as it is.
fn plain_row(nodes: &mut Nodes, axis: usize) -> Result<Option<TokenStream>, Diagnostic> {
    let (physical, inner) = (nodes.physical, inner_of(nodes.physical, axis, "j"));
    let needed = physical.stored();
    nodes.name_axis(axis, inner.name.clone());
    let Some(target) = nodes.bind_target(&inner) else { return Ok(None) };
    let block = nodes.block(&|i| needed[i], Some(&inner))?;
    let element = nodes.program.buffer(physical.target).element;
    let (row, at, value) = (target_row(nodes), &inner.name, nodes.stored(physical.result, element));
    let inside = &block.inside;
    let spans = [block.spans, target.spans].concat();
    let put = quote!(#row.put(#at, #value););
    let mut inner_loop = nodes.inner_loop(&inner, &spans, &quote!(#inside #put));
    let mut operands = Vec::new();
    for i in (0..needed.len()).filter(|i| needed[*i] && nodes.near(*i).is_some()) {
        physical.nodes[i].for_each_operand(&mut |operand| operands.push(operand));
    }
    nodes.near = !operands.is_empty();
    let near = nodes.near.then(|| nodes.block(&|i| needed[i], Some(&inner))).transpose()?;
    if let Some(near) = near.filter(|block| !block.near.is_empty()) {
        // What has vectors for nearly all operands has them where a look at the row finds no others.
        let asked = physical.needed(operands);
        let (asked, conditions) = (nodes.block(&|i| asked[i], Some(&inner))?.inside, &near.near);
        let look = nodes.inner_loop(&inner, &spans, &quote!(#asked near &= #(#conditions)&*;));
        let inside = &near.inside;
        let by_vectors = nodes.inner_loop(&inner, &spans, &quote!(#inside #put));
        inner_loop = quote! {
            let mut near = true;
            { #look }
            if near { #by_vectors } else { #inner_loop }
        };
    }
    let (rows, bind) = (block.before, target.before);
    Ok(Some(quote!(#rows #bind #inner_loop)))
}

fn target_row(nodes: &Nodes) -> Ident {
    nodes.target.as_ref().map_or_else(|| format_ident!("missing"), |(_, row)| row.clone())
}

/// Stores the result at its address; the value that would be read from there, if it has none.
fn put(nodes: &Nodes, element: crate::element::ElementType) -> TokenStream {
    if nodes.views.number(nodes.physical.target).is_some() {
        return unparen(types::widen(element, nodes.stored(nodes.physical.result, element)));
    }
    let name = nodes.views.name(nodes.physical.target);
    let (address, value) = (nodes.scope.index(&nodes.physical.store), nodes.stored(nodes.physical.result, element));
    quote!(#name.put(#address, #value);)
}

/// A reduction by the lanes of the runtime.
fn reduce(mut nodes: Nodes, rows: bool) -> Result<Written, Diagnostic> {
    let physical = nodes.physical;
    let Some(reduction) = physical.reduction else { return Err(Diagnostic::internal("a reduction is missing")) };
    name_axes(&mut nodes, &physical.maps, "i");
    let (before, varying) = (physical.reduced(), physical.depends_on(&physical.reduces));
    let hoisted = nodes.block(&|i| before[i] && !varying[i], None)?.before;
    name_axes(&mut nodes, &physical.reduces, "k");
    let (last, outer) = physical.reduces.split_last().map_or((None, &[][..]), |(last, outer)| (Some(*last), outer));
    let inner = last.map(|axis| inner_of(physical, axis, &format!("k{axis}")));
    let block = nodes.block(&|i| before[i] && varying[i], inner.as_ref().filter(|_| rows))?;
    let value = unparen(nodes.value(reduction.value));
    // Without an axis there is one element.
    let (width, at) = match &inner {
        Some(inner) => (nodes.width(inner), inner.name.clone()),
        None => (quote!(1), format_ident!("_k")),
    };
    let (inside, before_row) = (block.inside, block.before);
    let (row, count, body) = if rows {
        let (cut, width) = cut_rows(&block.spans, width);
        (quote!(#before_row #cut), width, quote!(#inside #value))
    } else {
        (TokenStream::new(), width, quote!(#before_row #inside #value))
    };
    let total = if outer.is_empty() {
        let function = reduce_name(reduction.function, "");
        quote!(#row let total = rt::nest::#function(#count, #[inline(always)] |#at| { #body });)
    } else {
        let function = reduce_name(reduction.function, "_rows");
        let names = outer.iter().map(|axis| format_ident!("k{axis}"));
        let extents = outer.iter().map(|axis| nodes.scope.index(&physical.extents[*axis]));
        quote! {
            let total = rt::nest::#function([#(#extents),*], #[inline(always)] |lanes, [#(#names),*]| {
                #row
                lanes.row(#count, #[inline(always)] |#at| { #body });
            });
        }
    };
    let after = physical.stored();
    let post = nodes.block(&|i| after[i] && (!before[i] || varying[i]), None)?.before;
    let element = nodes.program.buffer(physical.target).element;
    let store = put(&nodes, element);
    let body = quote!(#hoisted #total #post #store);
    Ok(Written { nodes, axes: physical.maps.clone(), rows: true, body })
}

/// Rows of run-time length cut to one length.
fn cut_rows(spans: &[Ident], width: TokenStream) -> (TokenStream, TokenStream) {
    let Some(first) = spans.first() else { return (TokenStream::new(), width) };
    let mut lengths = quote!(#first.len());
    for span in spans.iter().skip(1) {
        lengths = quote!(#lengths.min(#span.len()));
    }
    (quote!(let n = #lengths; #(let #spans = #spans.span(0, n);)*), quote!(n))
}

fn reduce_name(function: ReduceFn, suffix: &str) -> Ident {
    let name = match function {
        ReduceFn::Sum => "sum",
        ReduceFn::Prod => "prod",
        ReduceFn::Max => "max",
        ReduceFn::Min => "min",
        ReduceFn::All => "all",
        ReduceFn::Any => "any",
    };
    format_ident!("{name}{suffix}")
}

/// A reduction into a row of accumulators, one per contiguous element of the result.
fn accumulate(mut nodes: Nodes) -> Result<Written, Diagnostic> {
    let physical = nodes.physical;
    let (Some(reduction), Some((last, outer))) = (physical.reduction, physical.maps.split_last()) else {
        return Err(Diagnostic::internal("a row reduction without rows"));
    };
    let inner = inner_of(physical, *last, "j");
    let at = inner.name.clone();
    let width = nodes.width(&inner);
    name_axes(&mut nodes, outer, "i");
    nodes.name_axis(*last, at.clone());
    let before = physical.reduced();
    let (in_row, in_sum) = (physical.depends_on(&[*last]), physical.depends_on(&physical.reduces));
    let hoisted = nodes.block(&|i| before[i] && !in_row[i] && !in_sum[i], None)?.before;
    name_axes(&mut nodes, &physical.reduces, "k");
    let block = nodes.block(&|i| before[i] && (in_row[i] || in_sum[i]), Some(&inner))?;
    let ty = physical.types[reduction.value as usize];
    let value = nodes.value(reduction.value);
    let combined = combine(reduction.function, ty, &quote!(total), &value);
    let (inside, slots) = (&block.inside, (quote!(slot), quote!(&mut acc)));
    let body = quote!(let total = *slot; #inside *slot = #combined;);
    let adding = nodes.inner_loop_beside(&inner, &block.spans, Some(slots), &body);
    let rows = &block.before;
    let sums = around(&nodes, &physical.reduces, "k", &quote!(#rows #adding));
    let Some(target) = nodes.bind_target(&inner) else { return Err(Diagnostic::internal("a row that is no row")) };
    let after = physical.stored();
    let post = nodes.block(&|i| after[i], Some(&inner))?;
    let element = nodes.program.buffer(physical.target).element;
    let (row, stored, inside) = (target_row(&nodes), nodes.stored(physical.result, element), &post.inside);
    let totals = (quote!(&total), quote!(&acc));
    let storing = nodes.inner_loop_beside(&inner, &post.spans, Some(totals), &quote!(#inside #row.put(#at, #stored);));
    let identity = types::constant(identity(reduction.function, ty));
    let (rows, bind) = (post.before, target.before);
    let body = quote!(let mut acc = [#identity; #width]; #hoisted #sums #rows #bind #storing);
    Ok(Written { nodes, axes: outer.to_vec(), rows: true, body })
}

/// One step of a reduction.
fn combine(function: ReduceFn, ty: ScalarType, a: &TokenStream, b: &TokenStream) -> TokenStream {
    use crate::program::nest::Binary;
    let function = match function {
        ReduceFn::Sum => Binary::Add,
        ReduceFn::Prod => Binary::Mul,
        ReduceFn::Max => Binary::Max,
        ReduceFn::Min => Binary::Min,
        ReduceFn::All => Binary::And,
        ReduceFn::Any => Binary::Or,
    };
    unparen(super::scalar::binary(function, ty, a, b).unwrap_or_else(|| b.clone()))
}

/// The result of a reduction over nothing.
fn identity(function: ReduceFn, ty: ScalarType) -> Const {
    match (function, ty) {
        (ReduceFn::Sum, _) => Const::of(ty, 0.0),
        (ReduceFn::Prod, _) => Const::of(ty, 1.0),
        (ReduceFn::All, _) => Const::Bool(true),
        (ReduceFn::Any, _) => Const::Bool(false),
        (ReduceFn::Max, ScalarType::I32) => Const::I32(i32::MIN),
        (ReduceFn::Max, ScalarType::I64) => Const::I64(i64::MIN),
        (ReduceFn::Max, ScalarType::U64) => Const::U64(0),
        (ReduceFn::Max, _) => Const::of(ty, f64::NEG_INFINITY),
        (ReduceFn::Min, ScalarType::I32) => Const::I32(i32::MAX),
        (ReduceFn::Min, ScalarType::I64) => Const::I64(i64::MAX),
        (ReduceFn::Min, ScalarType::U64) => Const::U64(u64::MAX),
        (ReduceFn::Min, _) => Const::of(ty, f64::INFINITY),
    }
}

/// The body of a function that copies the elements of one buffer to another in row-major order of both.
///
/// # Errors
/// Buffers whose dimensions are unknown.
pub fn reshape(program: &Program, views: &Views, from: BufferId, to: BufferId) -> Result<TokenStream, Diagnostic> {
    whole(program, views, &mut Physical::copy(program, views, from, to))
}
