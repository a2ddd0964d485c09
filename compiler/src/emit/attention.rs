//! Attention: one descriptor of both products and the operands that are packed, proved to fit, or checked by the runtime where
//! sizes are known only when the model runs.

use super::kernel::{Call, extent, extents, flat_stride, misfit, operands};
use super::views::{Param, Views};
use super::{epilogue, types};
use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::program::kernel::{KernelAxis, KernelKind};
use crate::program::nest::Const;
use crate::program::{Attention, Program};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// The body of a function that runs an attention.
///
/// # Errors
/// A kernel whose description does not fit the runtime's.
pub fn body(program: &Program, views: &Views, attention: &Attention) -> Result<TokenStream, Diagnostic> {
    let mut scores = Call::new(program, views, &attention.scores, None)?;
    let mut sums = Call::new(program, views, &attention.sums, None)?;
    let (keys, values) = (matrix(&scores)?, matrix(&sums)?);
    // What lies in working memory has no strides of its own.
    let nothing = Dim::constant(0);
    let d = &mut scores.description;
    d.out_offset = nothing.clone();
    for axis in d.batches.iter_mut().chain(&mut d.rows) {
        (axis.strides.out, axis.strides.weights) = (nothing.clone(), nothing.clone());
    }
    let d = &mut sums.description;
    d.data_offset = nothing.clone();
    for axis in d.batches.iter_mut().chain(&mut d.rows) {
        (axis.strides.data, axis.strides.weights) = (nothing.clone(), nothing.clone());
    }
    d.depth = d.depth.take().or_else(|| d.taps.iter().find(|axis| !axis.extent.is(1)).cloned());
    (d.taps, d.bounds) = (Vec::new(), Vec::new());
    let (products, weighed) = (descriptor(&scores)?, descriptor(&sums)?);
    let scale = types::constant(Const::F32(attention.scale));
    let [height, slots] = [attention.height, attention.slots].map(Literal::usize_unsuffixed);
    let seen = attention.seen.as_ref().map_or(quote!(rt::Attention::ALL), |keys| scores.size(keys));
    let (q, k, v) = (scores.data()?, weights(&scores)?, weights(&sums)?);
    let (scratch, y) = (sums.param(Some(attention.scratch))?, sums.out()?);
    let (q_extent, k_extent, v_extent, y_extent) = (extent(q), extent(k), extent(v), extent(y));
    let len = Literal::usize_unsuffixed(scratch.run());
    let fixed =
        is_static(&scores) && is_static(&sums) && attention.seen.as_ref().is_none_or(|keys| keys.as_const().is_some());
    let proof = (fixed && ![q, k, v].into_iter().any(Param::is_slice)).then(
        || quote!(const { assert!(rt::Attention::fits(&SHAPE, #q_extent, #k_extent, #v_extent, #len, #y_extent)) };),
    );
    let (before, scored) = scored(&scores)?;
    let (setup, finished) = epilogue::tokens(&sums)?;
    let [q, k, v, y, scratch] = [q, k, v, y, scratch].map(|param| &param.name);
    let value = quote!(rt::Attention {
        scores: #products, keys: #keys, scale: #scale, sums: #weighed, values: #values,
        seen: #seen, height: #height, slots: #slots
    });
    let (bind, shape) = match fixed {
        true => (quote!(const SHAPE: rt::Attention = #value; #proof), quote!(SHAPE)),
        false => (quote!(let shape = #value;), quote!(shape)),
    };
    Ok(quote! {
        #bind
        #before
        #setup
        #shape.run(cx, #q.src(), #k.src(), #v.src(), &mut *#scratch, #y.dst(), #scored, #finished);
    })
}

/// Whether the descriptor of a product, and where its packed operand lies, is known now.
fn is_static(call: &Call) -> bool {
    let d = &call.description;
    let axes = d.batches.iter().chain(&d.columns).chain(&d.taps).chain(&d.depth);
    let strides = axes.map(|axis| &axis.strides.weights);
    call.is_static() && strides.chain([&d.weights_offset]).all(|size| size.as_const().is_some())
}

/// The epilogue of the scores; a closure gets a name of its own.
fn scored(call: &Call) -> Result<(TokenStream, TokenStream), Diagnostic> {
    let (setup, epilogue) = epilogue::tokens(call)?;
    match setup.is_empty() {
        true => Ok((setup, epilogue)),
        false => Ok((quote!(#setup let scored = #epilogue;), quote!(scored))),
    }
}

fn descriptor(call: &Call) -> Result<TokenStream, Diagnostic> {
    let KernelKind::Contraction { panel, .. } = &call.kernel.kind else { return Err(misfit("it is no contraction")) };
    let d = &call.description;
    let depth = d.depth.as_ref().map_or(Dim::constant(1), |axis| axis.extent.clone());
    call.product(&Dim::constant(0), &depth, &product(&extents(&d.columns)), *panel)
}

fn weights<'a>(call: &Call<'a>) -> Result<&'a Param, Diagnostic> {
    let buffer = operands(call.kernel).0.and_then(|node| call.kernel.buffer_of(node));
    buffer.and_then(|buffer| call.views.param(buffer)).ok_or_else(|| misfit("an operand is missing"))
}

/// Where the operand that is packed lies.
fn matrix(call: &Call) -> Result<TokenStream, Diagnostic> {
    let d = &call.description;
    let known = |dim: &Dim| match dim.range().min {
        0.. => Ok(call.size(dim)),
        _ => Err(misfit("an operand lies before its memory")),
    };
    let flat = |axes: Vec<&KernelAxis>| {
        let stride = flat_stride(&axes).ok_or_else(|| misfit("an operand is no matrix"))?;
        known(&stride)
    };
    let mut batches = [quote!(0), quote!(0)];
    for (slot, axis) in batches.iter_mut().rev().zip(d.batches.iter().rev()) {
        *slot = known(&axis.strides.weights)?;
    }
    let (offset, k) = (known(&d.weights_offset)?, flat(d.taps.iter().chain(&d.depth).collect())?);
    let n = flat(d.columns.iter().collect())?;
    Ok(quote!(rt::Matrix { offset: #offset, batches: [#(#batches),*], k: #k, n: #n }))
}
