//! Rust names for whatever a model calls its parts, and text that is safe in comments.

use crate::diag::push_visible;
use proc_macro2::{Ident, TokenStream};
use quote::format_ident;
use std::collections::BTreeSet;

/// Longest name made from a model's text.
const LENGTH: usize = 48;

/// Longest text of a model in a comment.
const COMMENT: usize = 80;

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// What tensors are called in generated code, before a number.
const TENSORS: &[&str] = &["x", "y", "w", "state"];

/// Names of one namespace; a second use of a name gets a number.
#[derive(Clone, Debug, Default)]
pub struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// A namespace in which these names are taken.
    pub fn reserving(names: &[&str]) -> Self {
        Names { taken: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    /// A new name for a function, which the names of tensors in its callers (`x`, `y2`, ...) do not hide.
    pub fn function(&mut self, text: &str, fallback: &str) -> Ident {
        let stem = snake_case(text, fallback);
        match TENSORS.contains(&stem.trim_end_matches(|c: char| c.is_ascii_digit())) {
            true => self.name(&format!("{fallback}_{stem}"), fallback),
            false => self.name(&stem, fallback),
        }
    }

    /// A new name that resembles `text`; `fallback` begins names that cannot.
    pub fn name(&mut self, text: &str, fallback: &str) -> Ident {
        let stem = snake_case(text, fallback);
        let mut name = stem.clone();
        let mut count = 1;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{stem}_{count}");
        }
        format_ident!("{name}")
    }
}

/// `text` as the path of an item: names between `::`, without generic arguments.
pub fn path(text: &str) -> Option<TokenStream> {
    let is_name = |name: &str| {
        let name = name.trim();
        let mut letters = name.strip_prefix("r#").unwrap_or(name).chars();
        letters.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && letters.all(|c| c.is_alphanumeric() || c == '_')
    };
    let is_path = text.strip_prefix("::").unwrap_or(text).split("::").all(is_name);
    is_path.then(|| text.parse().ok()).flatten()
}

/// `text` as a snake-case name that is no keyword: ASCII letters, digits and single underscores.
pub fn snake_case(text: &str, fallback: &str) -> String {
    let mut name = String::new();
    let mut previous = '_';
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() {
            if previous != '_' {
                name.push('_');
            }
            previous = '_';
            continue;
        }
        if c.is_ascii_uppercase() && (previous.is_ascii_lowercase() || previous.is_ascii_digit()) {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
        previous = c;
        if name.len() >= LENGTH {
            break;
        }
    }
    let name = name.trim_end_matches('_').to_owned();
    if name.is_empty() {
        fallback.to_owned()
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("{fallback}_{name}")
    } else if KEYWORDS.contains(&name.as_str()) {
        format!("{name}_")
    } else {
        name
    }
}

/// `text` for a comment: one line, visible characters, no comment brackets, cut.
pub fn comment(text: &str) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == COMMENT {
            out.push('…');
            break;
        }
        match c {
            // A slash after a star, or a star after a slash, would open or close a block comment.
            '/' if out.ends_with('*') => out.push('|'),
            '*' if out.ends_with('/') => out.push('.'),
            _ => push_visible(&mut out, c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_and_distinct() {
        let mut names = Names::default();
        let mut name = |text: &str| names.name(text, "input").to_string();
        assert_eq!(name("input_ids"), "input_ids");
        assert_eq!(name("StatefulCall/x:0"), "stateful_call_x_0");
        assert_eq!(name("type"), "type_");
        assert_eq!(name("461"), "input_461");
        assert_eq!(name(""), "input");
        assert_eq!(name("日本"), "input_2");
        assert_eq!(name("Input-IDs"), "input_ids_2");
        assert_eq!(name("self"), "self_");
        assert_eq!(name("r#fn"), "r_fn");
    }

    #[test]
    fn paths_are_names_between_colons() {
        for text in ["a", "::a::b_1", "crate :: r#type::F", "_a::\u{e9}"] {
            assert!(path(text).is_some(), "{text}");
        }
        for text in ["", "a::", "a b", "1a", "a::<u8>", "a();", "a::b.c"] {
            assert!(path(text).is_none(), "{text}");
        }
    }

    #[test]
    fn comments_stay_comments() {
        assert_eq!(comment("a\n*/ fn evil() {}/*"), "a\\n*| fn evil() {}/.");
        assert_eq!(comment(&"x".repeat(100)).chars().count(), 81);
    }
}
