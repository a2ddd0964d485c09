//! Text for rustc alone: neither lines nor comments.

use crate::diag::Diagnostic;
use proc_macro2::TokenStream;

/// Nothing.
pub fn comment(_number: usize) -> TokenStream {
    TokenStream::new()
}

/// The file as text.
///
/// # Errors
/// None.
pub fn text(file: TokenStream, _comments: &[String]) -> Result<String, Diagnostic> {
    Ok(file.to_string())
}
