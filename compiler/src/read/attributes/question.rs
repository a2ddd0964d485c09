//! What operations ask of their attributes: from these questions the modes of an operation are enumerated.

use crate::element::ElementType;

/// One question about an attribute that takes one of a few values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The attribute.
    pub name: String,
    /// What it may say.
    pub accepts: Accepts,
    /// The value in effect, which may be the default; `None` where it cannot be read.
    pub answer: Option<String>,
}

/// Values that an attribute may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// One of these.
    Words(Vec<String>),
    /// A comma-separated list of these.
    Lists(Vec<String>),
}

impl Accepts {
    pub(super) fn words(words: &[&str]) -> Self {
        Accepts::Words(words.iter().map(|word| (*word).to_owned()).collect())
    }

    pub(super) fn lists(words: &[&str]) -> Self {
        Accepts::Lists(words.iter().map(|word| (*word).to_owned()).collect())
    }

    pub(super) fn element_types() -> Self {
        Accepts::Words(ElementType::all().map(|element| element.name().to_owned()).collect())
    }
}
