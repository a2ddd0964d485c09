//! Chains: descriptors as constants, a proof that every part of them fits, and a loop over bands of lines, all of them or, on
//! several threads, some each.

use super::kernel::{Call, Written, extent};
use super::views::{Param, Views};
use crate::diag::Diagnostic;
use crate::program::bands::Stage;
use crate::program::{Chain, Program};
use include_ir_runtime::bands::Lines;
use include_ir_runtime::shares::Share;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// Kernel calls up to which all of them are proved to fit: the compiler refuses constants that take long.
const MOST_PROOFS: usize = 512;

/// A chain that is being written.
#[derive(Default)]
struct Parts {
    constants: TokenStream,
    /// What holds for one band of the whole, and for one of a share.
    proofs: TokenStream,
    proofs_of_share: TokenStream,
    calls: TokenStream,
    /// Parameters that hold some lines, and how many elements they have.
    buffers: Vec<(Ident, usize)>,
}

/// The body of a function that runs a chain.
///
/// # Errors
/// A kernel whose description does not fit the runtime's.
pub fn body(program: &Program, views: &Views, chain: &Chain) -> Result<TokenStream, Diagnostic> {
    let mut parts = Parts::default();
    let mut provable = true;
    let mut result = None;
    for (i, stage) in chain.stages.iter().enumerate() {
        let call = Call::new(program, views, &stage.kernel, Some(i))?;
        provable &= call.is_static() && !call.data().is_ok_and(Param::is_slice);
        parts.add(&call, stage, i)?;
        result = line_of(&call).zip(call.out().ok().cloned());
    }
    let Parts { constants, proofs, proofs_of_share, calls, buffers } = parts;
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
    let head = quote! {
        #constants
        const BANDS: rt::Bands = rt::Bands::new(&[#(#lines),*], #height);
        #proof
    };
    let looping = quote!(while let Some(band) = bands.advance() { #calls });
    let Some((line, out)) = result.filter(|_| !chain.shares.is_empty()) else {
        return Ok(quote!(#head let mut bands = BANDS; #looping));
    };
    let shares = shares(chain, provable, &proofs_of_share);
    let (line, out) = (Literal::usize_unsuffixed(line), &out.name);
    let names = buffers.iter().map(|(name, _)| name);
    let lent = buffers.iter().map(|(name, _)| quote!(&mut #name[..]));
    Ok(quote! {
        #head
        #shares
        rt::split_lines(
            cx, &BANDS, &SHARES, [#(#lent),*], #out.dst(), #line,
            |cx, mut bands, [#(#names),*], mut #out| { #looping },
        );
    })
}

/// The divisions, and a proof that all bands of their parts fit.
fn shares(chain: &Chain, provable: bool, proofs: &TokenStream) -> TokenStream {
    let bands = |share: &Share| {
        let count = chain.stages.last().map_or(0, |stage| stage.lines.count);
        count.div_ceil(share.height.max(1)).saturating_add(share.parts)
    };
    let all = chain.shares.iter().fold(0usize, |sum, share| sum.saturating_add(bands(share)));
    let provable = provable && all.saturating_mul(chain.stages.len()) <= MOST_PROOFS;
    let count = Literal::usize_unsuffixed(chain.shares.len());
    let values = chain.shares.iter().map(|share| {
        let [parts, height] = [share.parts, share.height].map(Literal::usize_unsuffixed);
        quote!(rt::Share { parts: #parts, height: #height })
    });
    let proof = provable.then(|| {
        quote!(const {
            let (mut i, mut part) = (0, 0);
            while i < SHARES.len() {
                let share = SHARES[i];
                let mut bands = share.bands(&BANDS, part);
                let whole = bands;
                while let Some(band) = bands.advance() {
                    #proofs
                }
                part += 1;
                if part == share.parts {
                    (i, part) = (i + 1, 0);
                }
            }
        };)
    });
    quote!(const SHARES: [rt::Share; #count] = [#(#values),*]; #proof)
}

impl Parts {
    /// Adds stage number `i`.
    fn add(&mut self, call: &Call, stage: &Stage, i: usize) -> Result<(), Diagnostic> {
        let Written { ty, value, proof, body } = call.written()?;
        let at = Literal::usize_unsuffixed(i);
        let name = if call.is_static() { format_ident!("SHAPE_{i}") } else { format_ident!("shape_{i}") };
        let line = Literal::usize_unsuffixed(stage.operand_line);
        let part = quote!(let shape = #name.band(&band[#at], #line););
        let slide = slide(call, stage, &at)?;
        let proof_of_share = self.proof_of_share(call, stage)?;
        // One whose data begins at a place that is known at run time checks itself.
        self.constants.extend(if call.is_static() {
            quote!(const #name: #ty = #value;)
        } else {
            quote!(let #name = #value;)
        });
        self.proofs.extend(quote!({ #part assert!(#proof); }));
        self.proofs_of_share.extend(quote!({ #part assert!(#proof_of_share); }));
        self.calls.extend(quote!({ #slide #part #body }));
        if stage.line.is_some() {
            let out = call.out()?;
            self.buffers.push((out.name.clone(), out.run()));
        }
        Ok(())
    }

    /// The condition of a stage when its data and its result are those of a share.
    fn proof_of_share(&self, call: &Call, stage: &Stage) -> Result<TokenStream, Diagnostic> {
        let portion = |len: usize| {
            let len = Literal::usize_unsuffixed(len);
            quote!(share.buffer(#len))
        };
        let data = match self.buffers.last() {
            Some((_, len)) => portion(*len),
            None => extent(call.data()?),
        };
        let out = call.out()?;
        let result = match stage.line {
            Some(_) => portion(out.run()),
            None => {
                let (whole, line) = (extent(out), Literal::usize_unsuffixed(line_of(call).unwrap_or(0)));
                quote!(whole.result(#whole, #line))
            }
        };
        Ok(call.written_for(&data, &result)?.proof)
    }
}

/// Elements from one line of a kernel's result to the next.
fn line_of(call: &Call) -> Option<usize> {
    call.description.rows.first()?.strides.out.as_usize()
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
