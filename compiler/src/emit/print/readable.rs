//! Text for people. The pretty-printer drops comments, so they travel as numbered markers.

use crate::diag::Diagnostic;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

const MARKER: &str = "__comment";

/// A statement that becomes a line with the comment of this number.
pub fn comment(number: usize) -> TokenStream {
    let (marker, number) = (format_ident!("{MARKER}"), Literal::usize_unsuffixed(number));
    quote!(#marker!(#number);)
}

/// The file as text.
///
/// # Errors
/// Tokens that are no Rust.
pub fn text(file: TokenStream, comments: &[String]) -> Result<String, Diagnostic> {
    let file: syn::File =
        syn::parse2(file).map_err(|error| Diagnostic::internal(format!("generated code is no Rust: {error}")))?;
    Ok(insert(&prettyplease::unparse(&file), comments))
}

/// Replaces the markers in printed source.
fn insert(source: &str, comments: &[String]) -> String {
    let mut out = String::with_capacity(source.len());
    let prefix = format!("{MARKER}!(");
    for line in source.lines() {
        let code = line.trim_start();
        let number =
            code.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(");")).and_then(|n| n.parse::<usize>().ok());
        match number.and_then(|n| comments.get(n)) {
            Some(text) => {
                out.push_str(&line[..line.len() - code.len()]);
                out.push_str("// ");
                out.push_str(text);
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}
