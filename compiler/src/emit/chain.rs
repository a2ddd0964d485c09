//! Chains: descriptors as constants, a proof that every part of them fits, and a loop over bands of lines.

use super::kernel::{Call, Written};
use super::views::{Param, Views};
use crate::diag::Diagnostic;
use crate::program::bands::Stage;
use crate::program::{Chain, Program};
use include_ir_runtime::bands::Lines;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

/// Kernel calls up to which all of them are proved to fit: the compiler refuses constants that take long.
const MOST_PROOFS: usize = 512;

/// The body of a function that runs a chain.
///
/// # Errors
/// A kernel whose description does not fit the runtime's.
pub fn body(program: &Program, views: &Views, chain: &Chain) -> Result<TokenStream, Diagnostic> {
    let (mut constants, mut proofs, mut calls) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
    let mut provable = true;
    for (i, stage) in chain.stages.iter().enumerate() {
        let call = Call::new(program, views, &stage.kernel, Some(i))?;
        let Written { ty, value, proof, body } = call.written()?;
        let (name, at) = (format_ident!("SHAPE_{i}"), Literal::usize_unsuffixed(i));
        let line = Literal::usize_unsuffixed(stage.operand_line);
        let part = quote!(let shape = #name.band(&band[#at], #line););
        let slide = slide(&call, stage, &at)?;
        constants.extend(quote!(const #name: #ty = #value;));
        proofs.extend(quote!({ #part assert!(#proof); }));
        calls.extend(quote!({ #slide #part #body }));
        provable &= !call.data().is_ok_and(Param::is_slice);
    }
    let lines = chain.stages.iter().map(|stage| lines(&stage.lines));
    let height = Literal::usize_unsuffixed(chain.height);
    let bands = chain.stages.last().map_or(0, |stage| stage.lines.count.div_ceil(chain.height.max(1)));
    let provable = provable && bands.saturating_mul(chain.stages.len()) <= MOST_PROOFS;
    let proof = provable.then(|| {
        quote!(const {
            let mut bands = BANDS;
            while let Some(band) = bands.advance() {
                #proofs
            }
        };)
    });
    Ok(quote! {
        #constants
        const BANDS: rt::Bands = rt::Bands::new(&[#(#lines),*], #height);
        #proof
        let mut bands = BANDS;
        while let Some(band) = bands.advance() {
            #calls
        }
    })
}

fn lines(lines: &Lines) -> TokenStream {
    let [count, stride, span] = [lines.count, lines.stride, lines.span].map(Literal::usize_unsuffixed);
    let first = Literal::usize_unsuffixed(lines.first.unsigned_abs());
    let first = if lines.first < 0 { quote!(-#first) } else { quote!(#first) };
    quote!(rt::Lines { count: #count, stride: #stride, first: #first, span: #span })
}

/// Moves the lines that stay to the start of the stage's buffer.
fn slide(call: &Call, stage: &Stage, at: &Literal) -> Result<TokenStream, Diagnostic> {
    let Some(line) = stage.line else { return Ok(TokenStream::new()) };
    let (buffer, line) = (&call.out()?.name, Literal::usize_unsuffixed(line));
    Ok(quote!(band[#at].slide(&mut #buffer[..], #line);))
}
