//! Structural attributes of XML elements: ids, offsets and names, with errors that show the place.

use super::number;
use super::xml::{Element, XmlAttribute};
use crate::diag::{Diagnostic, Diagnostics, codes, quote};

/// A required text; `None` after an error.
pub(super) fn text(element: Element<'_>, name: &str, diagnostics: &mut Diagnostics) -> Option<String> {
    required(element, name, diagnostics).map(|attribute| attribute.value().into_owned())
}

/// An optional text.
pub(super) fn text_or_empty(element: Element<'_>, name: &str) -> String {
    element.attribute(name).map_or_else(String::new, |a| a.value().into_owned())
}

/// A required whole number >= 0; `None` after an error.
pub(super) fn unsigned(element: Element<'_>, name: &str, diagnostics: &mut Diagnostics) -> Option<u64> {
    let attribute = required(element, name, diagnostics)?;
    diagnostics.ok(parse_unsigned(attribute))
}

/// A required whole number; `None` after an error.
pub(super) fn signed(element: Element<'_>, name: &str, diagnostics: &mut Diagnostics) -> Option<i64> {
    let attribute = required(element, name, diagnostics)?;
    diagnostics.ok(parse_signed(attribute))
}

/// A whole number with a default; the default also after an error.
pub(super) fn signed_or(element: Element<'_>, name: &str, default: i64, diagnostics: &mut Diagnostics) -> i64 {
    let parsed = element.attribute(name).map(parse_signed);
    parsed.and_then(|result| diagnostics.ok(result)).unwrap_or(default)
}

fn required<'a>(element: Element<'a>, name: &str, diagnostics: &mut Diagnostics) -> Option<XmlAttribute<'a>> {
    let attribute = element.attribute(name);
    if attribute.is_none() {
        let message = format!("{} has no attribute `{name}`", tag(element));
        diagnostics.push(Diagnostic::error(&codes::MISSING_ATTRIBUTE, message).at(element.span()));
    }
    attribute
}

/// The element for messages.
pub(super) fn tag(element: Element<'_>) -> String {
    quote(&format!("<{}>", element.name()))
}

fn parse_unsigned(attribute: XmlAttribute<'_>) -> Result<u64, Diagnostic> {
    let value = attribute.value();
    number::unsigned(&value).map_err(|_| bad(attribute, &value, "a whole number from 0 to 9223372036854775807"))
}

fn parse_signed(attribute: XmlAttribute<'_>) -> Result<i64, Diagnostic> {
    let value = attribute.value();
    number::signed(&value).map_err(|_| bad(attribute, &value, "a whole number of 64 bits"))
}

fn bad(attribute: XmlAttribute<'_>, value: &str, expected: &str) -> Diagnostic {
    let message = format!("{} is {}, not {expected}", quote(attribute.name()), quote(value));
    Diagnostic::error(&codes::BAD_ATTRIBUTE, message).at(attribute.value_span())
}
