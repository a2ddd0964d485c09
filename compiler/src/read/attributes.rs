//! Typed reading of `<data>` attributes for operations; what is not read is reported.

mod question;

pub use question::{Accepts, Question};

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
    /// What was asked, where that is recorded.
    questions: Option<RefCell<Vec<Question>>>,
}

/// Attributes that a message lists at most.
const LISTED: usize = 20;

impl<'a> Attributes<'a> {
    /// Nothing is read yet.
    pub fn new(layer: &'a Layer) -> Self {
        Attributes { layer, asked: RefCell::default(), warnings: RefCell::default(), questions: None }
    }

    /// The same, and keeps what is asked and answered: see [`Attributes::questions`].
    pub fn recording(layer: &'a Layer) -> Self {
        Attributes { questions: Some(RefCell::default()), ..Attributes::new(layer) }
    }

    /// The questions about attributes that take one of a few values, in their order; empty unless they were recorded.
    pub fn questions(self) -> Vec<Question> {
        self.questions.map(RefCell::into_inner).unwrap_or_default()
    }

    fn record(&self, name: &str, accepts: impl FnOnce() -> Accepts, answer: Option<&str>) {
        if let Some(questions) = &self.questions {
            let answer = answer.map(str::to_owned);
            questions.borrow_mut().push(Question { name: name.to_owned(), accepts: accepts(), answer });
        }
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
        let given = self.find(name).map(|attribute| match attribute.value.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(self.bad(attribute, "`true` or `false`")),
        });
        let value = given.unwrap_or(Ok(default));
        let answer = value.as_ref().ok().map(|value| if *value { "true" } else { "false" });
        self.record(name, || Accepts::words(&["false", "true"]), answer);
        value
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

    /// A comma-separated list of some words, trimmed, compared without case; without words, the default.
    pub fn words_or<'w>(
        &self,
        name: &str,
        choices: &[&'w str],
        default: &[&'w str],
    ) -> Result<Vec<&'w str>, Diagnostic> {
        let listed = |attribute: &Attribute| {
            let words = attribute.value.split(',').map(str::trim).filter(|word| !word.is_empty());
            let known = |word: &str| choices.iter().find(|choice| choice.eq_ignore_ascii_case(word)).copied();
            words
                .map(|word| known(word).ok_or_else(|| self.bad(attribute, &format!("a list of {}", list(choices)))))
                .collect()
        };
        let given: Result<Vec<&str>, Diagnostic> = self.find(name).map_or(Ok(Vec::new()), listed);
        let words = given.map(|words| if words.is_empty() { default.to_vec() } else { words });
        let answer = words.as_ref().ok().map(|words| words.join(","));
        self.record(name, || Accepts::lists(choices), answer.as_deref());
        words
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
        let attribute = self.required(name);
        self.recorded(name, attribute.and_then(|attribute| self.parse_element_type(attribute)))
    }

    /// An element type with a default.
    pub fn element_type_or(&self, name: &str, default: ElementType) -> Result<ElementType, Diagnostic> {
        self.recorded(name, self.find(name).map_or(Ok(default), |attribute| self.parse_element_type(attribute)))
    }

    fn recorded(&self, name: &str, value: Result<ElementType, Diagnostic>) -> Result<ElementType, Diagnostic> {
        self.record(name, Accepts::element_types, value.as_ref().ok().map(|element| element.name()));
        value
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
            Some(attribute) => self.recorded(name, self.parse_element_type(attribute)).map(Some),
        }
    }

    /// One of some words, compared without case.
    pub fn choice<T: Clone>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, Diagnostic> {
        let chosen = self.required(name).and_then(|attribute| self.parse_choice(attribute, choices));
        self.chosen(name, choices, chosen.as_ref().ok().map(|(word, _)| *word));
        chosen.map(|(_, value)| value)
    }

    /// One of some words, with a default.
    pub fn choice_or<T: Clone + PartialEq>(
        &self,
        name: &str,
        choices: &[(&str, T)],
        default: T,
    ) -> Result<T, Diagnostic> {
        let chosen = match self.find(name) {
            Some(attribute) => self.parse_choice(attribute, choices),
            None => Ok((choices.iter().find(|(_, value)| *value == default).map_or("", |(word, _)| word), default)),
        };
        self.chosen(name, choices, chosen.as_ref().ok().map(|(word, _)| *word));
        chosen.map(|(_, value)| value)
    }

    fn chosen<T>(&self, name: &str, choices: &[(&str, T)], answer: Option<&str>) {
        let words = || Accepts::Words(choices.iter().map(|(word, _)| (*word).to_owned()).collect());
        self.record(name, words, answer);
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

    fn parse_choice<'w, T: Clone>(
        &self,
        attribute: &Attribute,
        choices: &[(&'w str, T)],
    ) -> Result<(&'w str, T), Diagnostic> {
        let found = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(&attribute.value));
        found.cloned().ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.bad(attribute, &format!("one of {}", list(&words)))
        })
    }

    fn parse_dims(&self, attribute: &Attribute) -> Result<Dims, Diagnostic> {
        shape::parse(&attribute.value).map_err(|reason| self.bad(attribute, "a shape").note(reason))
    }
}

/// Words for a message.
fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
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
