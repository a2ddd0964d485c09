//! Diagnostics for people (with the marked line, in colour), for grep (one line) and for programs (JSON lines).

use crate::diag::render::position;
use crate::diag::{Diagnostic, Diagnostics, SourceText, json, snippets};
use clap::{Args, ValueEnum};
use std::io::Write;

/// Columns that a report fills at most.
const WIDTH: usize = 140;

/// How problems are shown.
#[derive(Args, Debug)]
pub struct ReportArguments {
    /// Form of diagnostics on standard error; json: one object per line, to which fields may be added.
    #[arg(long, global = true, value_enum, default_value = "human")]
    message_format: MessageFormat,
    /// Colour of diagnostics; auto: where standard error is a terminal and NO_COLOR is not set.
    #[arg(long, global = true, value_enum, default_value = "auto")]
    color: Color,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum MessageFormat {
    Human,
    Short,
    Json,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Color {
    Auto,
    Always,
    Never,
}

impl ReportArguments {
    /// Applies the choice of colour to all output streams.
    pub fn reporter(&self) -> Reporter {
        match self.color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        }
        .write_global();
        Reporter { format: self.message_format }
    }
}

/// Writes diagnostics to standard error.
#[derive(Clone, Copy, Debug)]
pub struct Reporter {
    format: MessageFormat,
}

impl Reporter {
    /// Reports all of them and, for people, how many there are.
    pub fn report(&self, diagnostics: &Diagnostics) {
        let mut text = match self.format {
            // The stream strips the colours where they are not wanted.
            MessageFormat::Human => snippets::render(diagnostics, true, WIDTH),
            MessageFormat::Short => diagnostics.iter().map(|d| short(d, diagnostics.source())).collect(),
            MessageFormat::Json => json::render(diagnostics),
        };
        let errors = diagnostics.errors().count();
        if self.format == MessageFormat::Human && errors > 1 {
            text.push_str(&format!("{errors} errors\n"));
        }
        let _ = anstream::stderr().write_all(text.as_bytes());
    }

    /// Why a command failed, where that is no diagnostic: a line, or the object.
    pub fn failure(&self, line: &str, object: &serde_json::Value) {
        anstream::eprintln!("{}", self.form(line, object));
    }

    fn form(&self, line: &str, object: &serde_json::Value) -> String {
        if self.format == MessageFormat::Json { object.to_string() } else { line.to_owned() }
    }

    /// A remark for people.
    pub fn remark(&self, text: &str) {
        if self.format == MessageFormat::Human {
            anstream::eprintln!("{text}");
        }
    }
}

fn short(diagnostic: &Diagnostic, source: Option<&SourceText>) -> String {
    let place = match (diagnostic.span, source) {
        (Some(span), Some(source)) => {
            let place = position(source, span.start);
            format!("{}:{}:{}: ", source.name(), place.line, place.column)
        }
        _ => String::new(),
    };
    format!("{place}{}[{}]: {}\n", diagnostic.level.name(), diagnostic.code.id, diagnostic.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failures_are_shown_in_every_form() {
        let object = json!({"case": "c", "status": "mismatch"});
        let form = |format| Reporter { format }.form("mismatch: c: out0 differs", &object);
        assert_eq!(form(MessageFormat::Human), "mismatch: c: out0 differs");
        assert_eq!(form(MessageFormat::Short), form(MessageFormat::Human));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&form(MessageFormat::Json)).ok(), Some(object));
    }
}
