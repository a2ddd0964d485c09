//! Typed reading of `<data>` attributes for operations; what is not read is reported.

use super::number::{self, NumberError};
use super::shape::{self, Dims};
use super::{Attribute, Layer};
use crate::diag::{Diagnostic, codes, quote};
use crate::element::ElementType;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The attributes of one layer. Every method that names an attribute marks it as read; [`Attributes::finish`] reports
/// the others.
///
/// # Errors
/// All methods give an error at the value if it cannot be read, and one at the layer if a required one is missing.
pub struct Attributes<'a> {
    layer: &'a Layer,
    asked: RefCell<BTreeSet<String>>,
    warnings: RefCell<Vec<Diagnostic>>,
}

/// Attributes that a message lists at most.
const LISTED: usize = 20;

impl<'a> Attributes<'a> {
    /// Nothing is read yet.
    pub fn new(layer: &'a Layer) -> Self {
        Attributes { layer, asked: RefCell::default(), warnings: RefCell::default() }
    }

    /// The layer that holds the attributes.
    pub fn layer(&self) -> &'a Layer {
        self.layer
    }

    fn find(&self, name: &str) -> Option<&'a Attribute> {
        self.asked.borrow_mut().insert(name.to_string());
        self.layer.attribute(name)
    }

    fn required(&self, name: &str) -> Result<&'a Attribute, Diagnostic> {
        self.find(name).ok_or_else(|| {
            let layer = self.layer;
            let message = format!("{} has no attribute `{name}`", layer.describe());
            let mut names: Vec<String> = layer.attributes.iter().take(LISTED).map(|a| quote(&a.name)).collect();
            if layer.attributes.len() > LISTED {
                names.push("...".into());
            }
            let note = if names.is_empty() {
                "the layer has no attributes".to_string()
            } else {
                format!("the layer has {}", names.join(", "))
            };
            Diagnostic::error(&codes::MISSING_ATTRIBUTE, message).at(layer.span).note(note)
        })
    }

    fn bad(&self, attribute: &Attribute, expected: &str) -> Diagnostic {
        let message = format!(
            "attribute {} of {} is {}, not {expected}",
            quote(&attribute.name),
            self.layer.describe(),
            quote(&attribute.value)
        );
        Diagnostic::error(&codes::BAD_ATTRIBUTE, message).at(attribute.value_span)
    }

    /// An error about the value of an attribute, for checks that a type cannot express. `expected` completes
    /// "... is `value`, not ...".
    pub fn invalid(&self, name: &str, expected: &str) -> Diagnostic {
        match self.find(name) {
            Some(attribute) => self.bad(attribute, expected),
            None => {
                let message = format!("attribute `{name}` of {} is missing, not {expected}", self.layer.describe());
                Diagnostic::error(&codes::BAD_ATTRIBUTE, message).at(self.layer.span)
            }
        }
    }

    /// Whether the attribute is there.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// `true`, `false`, `1` or `0` in any case.
    pub fn bool(&self, name: &str, default: bool) -> Result<bool, Diagnostic> {
        let Some(attribute) = self.find(name) else {
            return Ok(default);
        };
        match attribute.value.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(self.bad(attribute, "`true` or `false`")),
        }
    }

    /// A whole number.
    pub fn int(&self, name: &str) -> Result<i64, Diagnostic> {
        self.parse_int(self.required(name)?)
    }

    /// A whole number with a default.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64, Diagnostic> {
        self.find(name).map_or(Ok(default), |attribute| self.parse_int(attribute))
    }

    /// A number.
    pub fn float(&self, name: &str) -> Result<f64, Diagnostic> {
        self.parse_float(self.required(name)?)
    }

    /// A number with a default.
    pub fn float_or(&self, name: &str, default: f64) -> Result<f64, Diagnostic> {
        self.find(name).map_or(Ok(default), |attribute| self.parse_float(attribute))
    }

    /// A comma-separated list of whole numbers; empty text is an empty list.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>, Diagnostic> {
        self.parse_list(self.required(name)?, "a list of whole numbers", number::integer_prefix)
    }

    /// A list of whole numbers with a default.
    pub fn ints_or(&self, name: &str, default: &[i64]) -> Result<Vec<i64>, Diagnostic> {
        match self.find(name) {
            Some(attribute) => self.parse_list(attribute, "a list of whole numbers", number::integer_prefix),
            None => Ok(default.to_vec()),
        }
    }

    /// A comma-separated list of numbers.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>, Diagnostic> {
        self.parse_list(self.required(name)?, "a list of numbers", number::float_prefix)
    }

    /// A list of numbers with a default.
    pub fn floats_or(&self, name: &str, default: &[f64]) -> Result<Vec<f64>, Diagnostic> {
        match self.find(name) {
            Some(attribute) => self.parse_list(attribute, "a list of numbers", number::float_prefix),
            None => Ok(default.to_vec()),
        }
    }

    /// A comma-separated list of words, trimmed, without empty ones.
    pub fn strings_or(&self, name: &str, default: &[&str]) -> Result<Vec<String>, Diagnostic> {
        let own = |words: &mut dyn Iterator<Item = &str>| words.map(str::to_string).collect();
        Ok(match self.find(name) {
            Some(attribute) => own(&mut attribute.value.split(',').map(str::trim).filter(|word| !word.is_empty())),
            None => own(&mut default.iter().copied()),
        })
    }

    /// The text as it stands.
    pub fn string(&self, name: &str) -> Result<&'a str, Diagnostic> {
        self.required(name).map(|attribute| attribute.value.as_str())
    }

    /// The text as it stands, with a default.
    pub fn string_or(&self, name: &str, default: &'a str) -> Result<&'a str, Diagnostic> {
        Ok(self.find(name).map_or(default, |attribute| attribute.value.as_str()))
    }

    /// An element type; the names for "not known" are errors.
    pub fn element_type(&self, name: &str) -> Result<ElementType, Diagnostic> {
        self.parse_element_type(self.required(name)?)
    }

    /// An element type with a default.
    pub fn element_type_or(&self, name: &str, default: ElementType) -> Result<ElementType, Diagnostic> {
        self.find(name).map_or(Ok(default), |attribute| self.parse_element_type(attribute))
    }

    /// The element type of indices or counts, i32 or i64, with a default.
    pub fn index_type_or(&self, name: &str, default: ElementType) -> Result<ElementType, Diagnostic> {
        match self.element_type_or(name, default)? {
            element @ (ElementType::I32 | ElementType::I64) => Ok(element),
            _ => Err(self.invalid(name, "`i32` or `i64`")),
        }
    }

    /// An element type that may be left open: missing, `dynamic` or `undefined` give `None`.
    pub fn element_type_if_known(&self, name: &str) -> Result<Option<ElementType>, Diagnostic> {
        match self.find(name) {
            None => Ok(None),
            Some(a) if ["dynamic", "undefined"].iter().any(|w| a.value.eq_ignore_ascii_case(w)) => Ok(None),
            Some(attribute) => self.parse_element_type(attribute).map(Some),
        }
    }

    /// One of some words, compared without case.
    pub fn choice<T: Clone>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, Diagnostic> {
        self.parse_choice(self.required(name)?, choices)
    }

    /// One of some words, with a default.
    pub fn choice_or<T: Clone>(&self, name: &str, choices: &[(&str, T)], default: T) -> Result<T, Diagnostic> {
        match self.find(name) {
            Some(attribute) => self.parse_choice(attribute, choices),
            None => Ok(default),
        }
    }

    /// A shape with ranges, as Parameters have it.
    pub fn dims(&self, name: &str) -> Result<Dims, Diagnostic> {
        self.parse_dims(self.required(name)?)
    }

    /// A shape with ranges, if there is one.
    pub fn dims_if_present(&self, name: &str) -> Result<Option<Dims>, Diagnostic> {
        self.find(name).map(|attribute| self.parse_dims(attribute)).transpose()
    }

    /// Reports attributes that were not read and are not ignorable, and numbers that were read only in part.
    ///
    /// These are warnings: OpenVINO ignores such attributes too.
    pub fn finish(&self, ignorable: &[&str]) -> Vec<Diagnostic> {
        let asked = self.asked.borrow();
        let mut diagnostics = self.warnings.take();
        let present: BTreeSet<&str> = self.layer.attributes.iter().map(|a| a.name.as_str()).collect();
        let missing: Vec<&String> = asked.iter().filter(|name| !present.contains(name.as_str())).collect();
        let unread = |a: &&Attribute| !asked.contains(&a.name) && !ignorable.contains(&a.name.as_str());
        for attribute in self.layer.attributes.iter().filter(unread).take(LISTED) {
            let name = attribute.name.as_str();
            let message = format!("attribute {} has no effect on {}", quote(name), self.layer.describe());
            let mut diagnostic = Diagnostic::warning(&codes::UNKNOWN_ATTRIBUTE, message).at(attribute.name_span);
            if let Some(known) = missing.iter().find(|known| is_similar(known, name)) {
                diagnostic = diagnostic.help(format!("did you mean `{known}`?"));
            }
            diagnostics.push(diagnostic);
        }
        diagnostics
    }

    /// Notes that something follows a number. Where the number itself may be meant otherwise, that is an error.
    fn check_rest(&self, attribute: &Attribute, rest: &str, expected: &str) -> Result<(), Diagnostic> {
        if rest.trim().is_empty() {
            return Ok(());
        }
        if !rest.starts_with(['.', ',', 'f', 'F']) {
            return Err(self.bad(attribute, expected));
        }
        let message =
            format!("the end of {} of attribute {} is ignored", quote(&attribute.value), quote(&attribute.name));
        let diagnostic = Diagnostic::warning(&codes::BAD_ATTRIBUTE, message).at(attribute.value_span);
        self.warnings.borrow_mut().push(diagnostic);
        Ok(())
    }

    fn parse_int(&self, attribute: &Attribute) -> Result<i64, Diagnostic> {
        let (value, rest) = number::integer_prefix(&attribute.value).map_err(|error| match error {
            NumberError::Syntax => self.bad(attribute, "a whole number"),
            NumberError::Range => self.bad(attribute, "a whole number of 64 bits"),
        })?;
        self.check_rest(attribute, rest, "a whole number")?;
        Ok(value)
    }

    fn parse_float(&self, attribute: &Attribute) -> Result<f64, Diagnostic> {
        let (value, rest) = number::float_prefix(&attribute.value).map_err(|error| match error {
            NumberError::Syntax => self.bad(attribute, "a number"),
            NumberError::Range => self.bad(attribute, "a number that fits 64 bits"),
        })?;
        self.check_rest(attribute, rest, "a number")?;
        Ok(value)
    }

    fn parse_list<T>(
        &self,
        attribute: &Attribute,
        expected: &str,
        parse: impl Fn(&str) -> Result<(T, &str), NumberError>,
    ) -> Result<Vec<T>, Diagnostic> {
        let text = attribute.value.trim();
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let text = text.strip_suffix(',').unwrap_or(text);
        text.split(',')
            .map(|part| {
                let (value, rest) = parse(part).map_err(|_| self.bad(attribute, expected))?;
                self.check_rest(attribute, rest, expected)?;
                Ok(value)
            })
            .collect()
    }

    fn parse_element_type(&self, attribute: &Attribute) -> Result<ElementType, Diagnostic> {
        ElementType::from_data(&attribute.value).ok_or_else(|| {
            let diagnostic = self.bad(attribute, "an element type");
            match ElementType::from_port_precision(&attribute.value) {
                Some(element) => diagnostic.help(format!("write `{element}` here; the other name is for ports")),
                None => diagnostic,
            }
        })
    }

    fn parse_choice<T: Clone>(&self, attribute: &Attribute, choices: &[(&str, T)]) -> Result<T, Diagnostic> {
        let found = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(&attribute.value));
        found.map(|(_, value)| value.clone()).ok_or_else(|| {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("`{word}`")).collect();
            self.bad(attribute, &format!("one of {}", words.join(", ")))
        })
    }

    fn parse_dims(&self, attribute: &Attribute) -> Result<Dims, Diagnostic> {
        shape::parse(&attribute.value).map_err(|reason| self.bad(attribute, "a shape").note(reason))
    }
}

/// Whether two names differ only in case, separators or one letter.
fn is_similar(known: &str, name: &str) -> bool {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| c.is_alphanumeric()).take(64).flat_map(char::to_lowercase).collect()
    };
    let (a, b) = (plain(known), plain(name));
    if a == b {
        return true;
    }
    let prefix = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let longer = a.len().max(b.len());
    longer > 3 && a.len().abs_diff(b.len()) <= 1 && prefix + suffix + 1 >= longer
}

#[cfg(test)]
mod tests;
