//! Epilogues of kernels: bias, residual and clamp as data, everything else as a closure over finished tiles.

use super::kernel::Call;
use super::nodes::{Inner, Nodes};
use super::physical::Physical;
use super::types;
use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::program::Shape;
use crate::program::kernel::KernelAxis;
use crate::program::nest::{Const, Node, Scalar};
use include_ir_runtime::__private::v1::Activation;
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};

fn misfit(why: &str) -> Diagnostic {
    Diagnostic::internal(format!("an epilogue cannot be written: {why}"))
}

/// Statements before the call, and the epilogue.
pub(super) fn tokens(call: &Call) -> Result<(TokenStream, TokenStream), Diagnostic> {
    let epilogue = &call.kernel.epilogue;
    if epilogue.general {
        let closure = closure(call)?;
        return Ok((closure, quote!(rt::Epilogue { then: Some(&then), ..rt::Epilogue::NONE })));
    }
    let mut fields = TokenStream::new();
    if let Some(node) = epilogue.bias {
        let bias = bias(call, node)?;
        fields.extend(quote!(bias: Some(#bias),));
    }
    if let Some(node) = epilogue.residual {
        let buffer = call.kernel.buffer_of(node).ok_or_else(|| misfit("the residual is no load"))?;
        let param = call.views.param(buffer).ok_or_else(|| misfit("the residual is missing"))?;
        let (name, d) = (&param.name, &call.description);
        let in_place = param.written && d.residual_offset == d.out_offset;
        if param.written && !in_place {
            return Err(misfit("the residual is overwritten"));
        }
        fields.extend(if in_place { quote!(accumulate: true,) } else { quote!(residual: Some(#name.src()),) });
    }
    if let Some((low, high)) = epilogue.clamp {
        let (low, high) = (types::constant(Const::F32(low)), types::constant(Const::F32(high)));
        fields.extend(quote!(clamp: Some((#low, #high)),));
    }
    if let Some(node) = epilogue.slope {
        let slopes = call.kernel.buffer_of(node).and_then(|buffer| call.views.param(buffer));
        let name = &slopes.ok_or_else(|| misfit("the slopes are missing"))?.name;
        fields.extend(quote!(then: Some(&rt::Slopes(&*#name).on_tiles(cx)),));
    }
    if let Some(activation) = epilogue.activation {
        let function = function_name(activation);
        fields.extend(quote!(then: Some(&rt::Activation::#function.on_tiles(cx)),));
    }
    let mut before = TokenStream::new();
    if let Some(node) = epilogue.function_of {
        before = function(call, node)?;
        fields.extend(quote!(then: Some(&then),));
    }
    if fields.is_empty() {
        return Ok((before, quote!(rt::Epilogue::NONE)));
    }
    Ok((before, quote!(rt::Epilogue { #fields ..rt::Epilogue::NONE })))
}

fn function_name(activation: Activation) -> TokenStream {
    let parameter = match activation {
        Activation::ScaledSwish(beta) => Some(("ScaledSwish", beta)),
        Activation::Elu(alpha) => Some(("Elu", alpha)),
        Activation::LeakyRelu(slope) => Some(("LeakyRelu", slope)),
        _ => None,
    };
    let Some((name, value)) = parameter else { return format_ident!("{activation:?}").into_token_stream() };
    let (name, value) = (format_ident!("{name}"), types::constant(Const::F32(value)));
    quote!(#name(#value))
}

fn bias(call: &Call, node: u32) -> Result<TokenStream, Diagnostic> {
    let scalar = call.kernel.nest.nodes.get(node as usize).ok_or_else(|| misfit("the bias is missing"))?;
    if let Some(value) = crate::plan::inline_constant(call.program, scalar) {
        let value = types::constant(value);
        return Ok(quote!(&[#value]));
    }
    let buffer = call.kernel.buffer_of(node).ok_or_else(|| misfit("the bias is no load"))?;
    let param = call.views.param(buffer).ok_or_else(|| misfit("the bias is missing"))?;
    let Shape::Run(len) = param.shape else { return Err(misfit("the bias has gaps")) };
    let name = &param.name;
    match call.description.bias_offset.as_usize() {
        Some(0) => Ok(quote!(&*#name)),
        Some(offset) => {
            let (offset, len) = (Literal::usize_unsuffixed(offset), Literal::usize_unsuffixed(len - offset.min(len)));
            Ok(quote!(#name.span(#offset, #len)))
        }
        None => Err(misfit("the bias lies at a place that is known at run time only")),
    }
}

/// `let then = |tile| ..`: a function of the elements that a tile has when bias, residual and limits are applied.
fn function(call: &Call, of: Node) -> Result<TokenStream, Diagnostic> {
    let mut physical = Physical::unfused(call.program, call.views, &call.kernel.nest)?;
    let applied = physical.nodes.get_mut(of as usize).ok_or_else(|| misfit("there is nothing to apply it to"))?;
    *applied = Scalar::Reduced;
    let needed = physical.needed(Some(physical.result));
    let mut nodes = Nodes::new(call.program, call.views, &physical);
    nodes.reduced = Some(quote!(row.at(j)));
    let inside = nodes.block(&|i| needed[i], None)?.before;
    let value = nodes.stored(physical.result, crate::element::ElementType::F32);
    Ok(quote! {
        let then = |mut tile: rt::Tile<'_>| cx.vectorize(#[inline(always)] || {
            for row in tile.runs() {
                for j in 0..row.len() { #inside row.put(j, #value); }
            }
        });
    })
}

/// `let then = |tile| ..`: the nest's nodes behind the reduction, for every element of the tile.
fn closure(call: &Call) -> Result<TokenStream, Diagnostic> {
    let d = &call.description;
    let mut physical = Physical::unfused(call.program, call.views, &call.kernel.nest)?;
    let written = |node: &Scalar| matches!(node, Scalar::Load { access, .. } if call.views.param(access.buffer).is_some_and(|p| p.written));
    let after = physical.needed(Some(physical.result));
    if physical.nodes.iter().zip(&after).any(|(node, needed)| *needed && written(node)) {
        return Err(misfit("an operand is overwritten"));
    }
    let (columns, batches) = (&d.columns, &d.batches);
    let mut setup = TokenStream::new();
    let inner = match columns.as_slice() {
        [column] if !column.extent.is(1) => {
            let first = physical.offset_axis(column.axis);
            Some((column.axis, first))
        }
        _ => None,
    };
    let mut nodes = Nodes::new(call.program, call.views, &physical);
    for (i, axis) in batches.iter().enumerate() {
        let (name, slot) = (format_ident!("i{}", axis.axis), Literal::usize_unsuffixed(i + 2 - batches.len().min(2)));
        setup.extend(quote!(let #name = tile.batch[#slot];));
        nodes.name_axis(axis.axis, name);
    }
    let unflatten = |nodes: &mut Nodes, axes: &[KernelAxis], flat: &str, skipped: Option<&Literal>| -> TokenStream {
        let flat = format_ident!("{flat}");
        let mut statements = TokenStream::new();
        for (i, axis) in axes.iter().enumerate() {
            let below = product(&axes[i + 1..].iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>());
            let name = format_ident!("i{}", axis.axis);
            let last = i + 1 == axes.len();
            let quotient = if last { quote!(#flat) } else { nodes.scope.quotient(quote!(#flat), &below) };
            let value = if i == 0 { quotient } else { nodes.scope.remainder(quotient, &axis.extent) };
            // The rows of a stage start at the band's first line.
            let value = match skipped.filter(|_| i == 0) {
                Some(stage) => quote!(#value + band[#stage].first),
                None => value,
            };
            statements.extend(quote!(let #name = #value;));
            nodes.name_axis(axis.axis, name);
        }
        statements
    };
    let stage = call.stage.map(Literal::usize_unsuffixed);
    let rows = unflatten(&mut nodes, &d.rows, "m", stage.as_ref());
    nodes.reduced = Some(quote!(row.at(j)));
    let name = format_ident!("j");
    let body = match inner {
        Some((axis, first)) => {
            setup.extend(quote!(let first = tile.first_col;));
            nodes.name_axis(first, format_ident!("first"));
            nodes.name_axis(axis, name.clone());
            let inner = Inner { axis, name, width: None, count: Some(quote!(row.len())) };
            let block = nodes.block(&|i| after[i], Some(&inner))?;
            let value = nodes.stored(physical.result, crate::element::ElementType::F32);
            let (before, inside) = (&block.before, &block.inside);
            nodes.target = Some((Dim::constant(-1), format_ident!("row")));
            let spans = if block.spans.is_empty() {
                Vec::new()
            } else {
                [block.spans.clone(), vec![format_ident!("row")]].concat()
            };
            let looping = nodes.inner_loop(&inner, &spans, &quote!(#inside row.put(j, #value);));
            quote!(#before #looping)
        }
        None => {
            setup.extend(quote!(let first = tile.first_col;));
            let columns = unflatten(&mut nodes, columns, "column", None);
            let block = nodes.block(&|i| after[i], None)?;
            let value = nodes.stored(physical.result, crate::element::ElementType::F32);
            let before = &block.before;
            quote!(for j in 0..row.len() { let column = first + j; #columns #before row.put(j, #value); })
        }
    };
    Ok(quote! {
        let then = |mut tile: rt::Tile<'_>| cx.vectorize(#[inline(always)] || {
            #setup
            for (m, row) in tile.rows() { #rows #body }
        });
    })
}
