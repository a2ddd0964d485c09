//! `include_ir!`: compiles an OpenVINO IR model while your crate compiles.
//!
//! Arguments in, compiler called, problems to spans: everything else is in `include-ir-compiler`.

mod place;

use include_ir_compiler::diag::{Diagnostic, Diagnostics, codes};
use include_ir_compiler::options::{Options, WeightsFile};
use include_ir_compiler::source::Source;
use include_ir_compiler::{Output, artifact, compile};
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use std::path::{Path, PathBuf};
use syn::parse::{Parse, ParseStream};
use syn::{Lit, LitStr, Token, bracketed, token};

/// Compiles a model and puts a module with its name here.
///
/// ```ignore
/// include_ir::include_ir!("models/mnist.xml"); // gives `pub mod mnist`
/// include_ir::include_ir!(pub(crate) mod net = "models/mnist.xml", shape: "x=1..8,1,28,28", weights: external);
/// ```
/// Paths are relative to the folder of `Cargo.toml`. The keys are the options of `include_ir_compiler::Options`; a list in
/// brackets sets an option several times. The crate is rebuilt when the model or its weights change.
#[proc_macro]
pub fn include_ir(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let arguments = syn::parse_macro_input!(input as Arguments);
    expand(&arguments).unwrap_or_else(|problems| errors(&problems, arguments.path.span())).into()
}

struct Arguments {
    /// In front of `mod`, if there is one.
    visibility: Option<TokenStream>,
    path: LitStr,
    options: Options,
}

impl Parse for Arguments {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let mut options = Options::default();
        let mut visibility = None;
        if !input.peek(LitStr) {
            if !input.peek(Token![pub]) && !input.peek(Token![mod]) {
                return Err(input.error("expected the path of a model in quotes, or `mod name = \"model.xml\"`"));
            }
            visibility = Some(scope(input)?);
            input.parse::<Token![mod]>()?;
            options.module = Some(input.parse::<Ident>()?.to_string());
            input.parse::<Token![=]>()?;
        }
        let path = input.parse()?;
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let key: Ident = input.parse()?;
            input.parse::<Token![:]>()?;
            for (value, span) in values(input)? {
                let set = options.set(&key.to_string(), &value);
                set.map_err(|problem| syn::Error::new(span, problem.to_string().trim_end()))?;
            }
        }
        Ok(Arguments { visibility, path, options })
    }
}

/// Nothing, `pub`, or `pub(crate)` and the like.
fn scope(input: ParseStream) -> syn::Result<TokenStream> {
    let word: Option<Token![pub]> = input.parse()?;
    let limit: Option<Group> = if input.peek(token::Paren) { Some(input.parse()?) } else { None };
    Ok(quote!(#word #limit))
}

/// One value or a list in brackets, as text: `"x=1"`, `8`, `true`, `external`.
fn values(input: ParseStream) -> syn::Result<Vec<(String, Span)>> {
    if !input.peek(token::Bracket) {
        return Ok(vec![value(input)?]);
    }
    let list;
    bracketed!(list in input);
    Ok(list.parse_terminated(value, Token![,])?.into_iter().collect())
}

fn value(input: ParseStream) -> syn::Result<(String, Span)> {
    if input.peek(Lit) {
        let literal: Lit = input.parse()?;
        let text = match &literal {
            Lit::Str(text) => text.value(),
            Lit::Int(number) => number.base10_digits().to_owned(),
            Lit::Bool(switch) => switch.value.to_string(),
            _ => return Err(syn::Error::new(literal.span(), "expected a string, a number or a word")),
        };
        return Ok((text, literal.span()));
    }
    let word: Ident = input.parse()?;
    Ok((word.to_string(), word.span()))
}

fn expand(arguments: &Arguments) -> Result<TokenStream, Diagnostics> {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let model = root.join(arguments.path.value());
    let mut options = arguments.options.clone();
    options.bin = options.bin.map(|bin| root.join(bin));
    let mut source = Source::from_path(&model, options.bin.as_deref())?;
    source.xml_name = arguments.path.value();
    let stem = model.file_stem().unwrap_or_default().to_string_lossy();
    let module = options.module.get_or_insert_with(|| stem.into_owned()).clone();
    let place = place::for_weights(&model, &module, &format!("{options:?}"));
    options.weights_file = WeightsFile::At(place.clone().unwrap_or_default());
    let output = compile(&source, &options)?;
    if !output.weights.is_empty() && !place::is_analysis() {
        let path = place.ok_or_else(place::none)?;
        // As old as the model: Cargo would else see a file that is newer than the build it belongs to.
        artifact::replace(&path, &output.weights, artifact::latest_change(source.files()))?;
    }
    tokens(arguments, &output, &source.files())
}

/// The module, with the user's visibility; the files it depends on; the warnings.
fn tokens(arguments: &Arguments, output: &Output, files: &[&Path]) -> Result<TokenStream, Diagnostics> {
    let text: TokenStream = output.text.parse().map_err(Diagnostic::internal)?;
    // The module's own `pub` is the only one outside of its braces.
    let module = text.into_iter().map(|token| match (&token, &arguments.visibility) {
        (TokenTree::Ident(word), Some(visibility)) if word == "pub" => visibility.clone(),
        _ => token.into(),
    });
    let mut paths = Vec::new();
    for file in files {
        let path = file.to_str().ok_or_else(|| {
            Diagnostic::error(&codes::IO, format!("the path `{}` is not valid UTF-8", file.display()))
        })?;
        paths.push(path.to_owned());
    }
    let warnings = output.warnings.to_string();
    let warning = (!output.warnings.is_empty()).then(|| {
        // Stable Rust lets a macro warn only through the use of something deprecated.
        let span = arguments.path.span();
        quote_spanned!(span=> const _: () = { #[deprecated(note = #warnings)] const fn model_warning() {} model_warning() };)
    });
    Ok(quote! {
        #(#module)*
        #( const _: &[u8] = ::core::include_bytes!(#paths); )*
        #warning
    })
}

fn errors(problems: &Diagnostics, span: Span) -> TokenStream {
    let source = problems.source();
    let text = |problem| include_ir_compiler::diag::render::text(problem, source);
    problems.errors().map(|problem| syn::Error::new(span, text(problem).trim_end()).into_compile_error()).collect()
}
