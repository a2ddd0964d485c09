//! Calls of runtime functions: operands with their dimensions, attributes, and the sizes that a function finds.

use super::dims::Scope;
use super::names;
use super::nodes::unparen;
use super::types;
use super::views::Views;
use crate::diag::{Diagnostic, codes, quote as quoted};
use crate::dim::{Dim, product};
use crate::plan::capacity;
use crate::program::nest::Const;
use crate::program::{BufferId, Call, Program};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

/// The body of a function that calls a runtime function. Where the call finds sizes, `dims` is mutable.
///
/// # Errors
/// Tensors without bound.
pub fn body(program: &Program, views: &Views, call: &Call) -> Result<TokenStream, Diagnostic> {
    let operand = |buffer: &BufferId| tensor(program, views, *buffer, false);
    let target = |buffer: &BufferId| tensor(program, views, *buffer, true);
    let inputs: Vec<TokenStream> = call.inputs.iter().map(operand).collect::<Result<_, _>>()?;
    let outputs: Vec<TokenStream> = call.outputs.iter().map(target).collect::<Result<_, _>>()?;
    let scope = Scope::default();
    let integers = call.integers.iter().map(|dim| match dim.as_const() {
        Some(value) => {
            let value = Literal::i64_unsuffixed(value);
            quote!(#value)
        }
        None => unparen(scope.signed(dim)),
    });
    let floats = call.floats.iter().map(|value| types::constant(Const::F32(*value)));
    let function = function(call.function.name)?;
    let count = Literal::usize_unsuffixed(call.sizes.len());
    let (before, sizes, after) = match call.sizes.is_empty() {
        true => (TokenStream::new(), quote!(&mut []), TokenStream::new()),
        false => (capacities(call), quote!(&mut sizes), found(call)),
    };
    let declare = (!call.sizes.is_empty()).then(|| quote!(let mut sizes = [0usize; #count];));
    Ok(quote! {
        #before
        #declare
        #function(rt::Arguments {
            cx,
            inputs: &[#(#inputs),*],
            outputs: &mut [#(#outputs),*],
            integers: &[#(#integers),*],
            floats: &[#(#floats),*],
            sizes: #sizes,
        });
        #after
    })
}

/// A function of the runtime, or a path of the user's.
fn function(name: &str) -> Result<TokenStream, Diagnostic> {
    if !name.contains("::") {
        let name = format_ident!("{name}");
        return Ok(quote!(rt::calls::#name));
    }
    names::path(name)
        .ok_or_else(|| Diagnostic::error(&codes::OPTION, format!("{} is not the path of a function", quoted(name))))
}

/// While the function runs, the sizes that it finds are their bounds: the capacity of its results.
fn capacities(call: &Call) -> TokenStream {
    let bind = call.sizes.iter().map(|size| {
        let (name, max) = (super::dims::variable(size.id), Literal::i64_unsuffixed(size.max));
        quote!(let #name: usize = #max;)
    });
    quote!(#(#bind)*)
}

/// Keeps what the function found.
fn found(call: &Call) -> TokenStream {
    let set = call.sizes.iter().enumerate().map(|(i, size)| {
        let (i, at) = (Literal::usize_unsuffixed(i), Literal::u32_unsuffixed(size.id));
        let (min, max) = (Literal::i64_unsuffixed(size.min.max(0)), Literal::i64_unsuffixed(size.max));
        match size.shared.filter(|shared| shared.first != size.id) {
            Some(shared) => {
                let (first, capacity) = (Literal::u32_unsuffixed(shared.first), Literal::i64_unsuffixed(shared.max));
                quote!(rt::calls::set_shared_size(dims, #first..#at, sizes[#i], #max, #capacity);)
            }
            None => quote!(rt::calls::set_size(dims, #at, sizes[#i], #min, #max);),
        }
    });
    quote!(#(#set)*)
}

fn tensor(program: &Program, views: &Views, id: BufferId, written: bool) -> Result<TokenStream, Diagnostic> {
    let scope = Scope::default();
    let (buffer, name) = (program.buffer(id), views.name(id));
    let dims: Vec<TokenStream> = buffer.dims.iter().map(|dim| scope.index(dim)).collect();
    let zeros = vec![Dim::constant(0); buffer.dims.len()];
    let start = views.address(program, id, &zeros);
    let whole = start.is(0) && views.param(id).is_some_and(|param| param.fixed && !param.is_slice());
    let length = match written {
        true => {
            let capacity = Literal::usize_unsuffixed(capacity(program, id)?);
            quote!(#capacity)
        }
        false => scope.index(&product(&buffer.dims)),
    };
    let start = scope.index(&start);
    Ok(match (written, whole) {
        (true, true) => quote!(rt::Target::new(#name, &[#(#dims),*])),
        (true, false) => quote!(rt::Target::new(rt::ViewMut::span_mut(#name, #start, #length), &[#(#dims),*])),
        (false, true) => quote!(rt::Operand::new(#name, &[#(#dims),*])),
        (false, false) => quote!(rt::Operand::new(rt::View::span(#name, #start, #length), &[#(#dims),*])),
    })
}
