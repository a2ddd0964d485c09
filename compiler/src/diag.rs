//! Diagnostics: what is wrong with a model, where, and what to do about it.

pub mod codes;
#[cfg(feature = "cli")]
pub mod json;
pub mod render;
#[cfg(feature = "cli")]
pub mod snippets;

use std::fmt;
use std::sync::Arc;

/// A range of bytes in the text of `model.xml`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset behind the last byte.
    pub end: usize,
}

impl Span {
    /// The span from `start` up to, not including, `end`.
    pub fn new(start: usize, end: usize) -> Self {
        Span { start, end }
    }
}

/// How bad a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// The model cannot be compiled.
    Error,
    /// The model compiles, but probably not to what its author meant.
    Warning,
}

impl Level {
    /// `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
        }
    }
}

/// A stable kind of problem; `irc explain ID` prints the explanation.
#[derive(PartialEq, Eq, Debug)]
pub struct Code {
    /// `IR` and four digits; never reused.
    pub id: &'static str,
    /// The same as words with hyphens.
    pub name: &'static str,
    /// One line, lower-case.
    pub title: &'static str,
    /// A short paragraph: what it means and what to do.
    pub explanation: &'static str,
}

/// One problem: code, level, message, place, notes and advice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The kind of problem.
    pub code: &'static Code,
    /// Error or warning.
    pub level: Level,
    /// One line, lower-case start, no final period, names in backticks (see [`quote()`]).
    pub message: String,
    /// Where in `model.xml`; `None` for problems with files and options.
    pub span: Option<Span>,
    /// Facts that help to understand the problem.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place yet.
    pub fn error(code: &'static Code, message: impl Into<String>) -> Self {
        Self::new(code, Level::Error, message.into())
    }

    /// A warning without a place yet.
    pub fn warning(code: &'static Code, message: impl Into<String>) -> Self {
        Self::new(code, Level::Warning, message.into())
    }

    /// A bug of ours, not of the model.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::error(&codes::INTERNAL, format!("internal error: {message}"))
            .help("this is a bug of the compiler, please report it with the model's `.xml`")
    }

    fn new(code: &'static Code, level: Level, message: String) -> Self {
        Diagnostic { code, level, message, span: None, notes: Vec::new(), help: None }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Sets the place if there is none yet: for callers that know the layer but not the attribute.
    #[must_use]
    pub fn or_at(mut self, span: Span) -> Self {
        self.span.get_or_insert(span);
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Sets the advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Whether this stops the compilation.
    pub fn is_error(&self) -> bool {
        self.level == Level::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render::text(self, None))
    }
}

/// The name and text of the file that spans point into.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceText {
    name: String,
    text: Arc<str>,
    /// Offsets of the first byte of every line but the first.
    breaks: Arc<[usize]>,
}

impl SourceText {
    /// `name` is the path or name as the user gave it, `text` the whole file decoded to UTF-8.
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        SourceText { name: name.into(), text, breaks }
    }

    /// The path or name as the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A byte range moved inside the text and to character boundaries.
    fn clamp(&self, span: Span) -> Span {
        let floor = |offset: usize| {
            let mut offset = offset.min(self.text.len());
            while !self.text.is_char_boundary(offset) {
                offset -= 1;
            }
            offset
        };
        let start = floor(span.start);
        Span { start, end: floor(span.end).max(start) }
    }

    /// Line (from 0) and offset of its first byte for a byte offset.
    fn line_of(&self, offset: usize) -> (usize, usize) {
        let line = self.breaks.partition_point(|&start| start <= offset);
        let start = line.checked_sub(1).and_then(|index| self.breaks.get(index).copied());
        (line, start.unwrap_or(0))
    }
}

impl fmt::Debug for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceText({:?}, {} bytes)", self.name, self.text.len())
    }
}

/// A collector of diagnostics, and the error type of the compiler.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    errors: usize,
    dropped: usize,
    source: Option<SourceText>,
}

impl Diagnostics {
    /// An empty collector.
    pub fn new() -> Self {
        Self::default()
    }

    /// Diagnostics kept at most; nobody reads more, and hostile files can cause millions.
    pub const CAPACITY: usize = 1000;

    /// Adds one diagnostic, unless it repeats the previous one or the collector is full.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.list.last() == Some(&diagnostic) {
            return;
        }
        // A flood of warnings must not hide that there is an error.
        let first_error = diagnostic.is_error() && self.errors == 0;
        if self.list.len() >= Self::CAPACITY && !first_error {
            self.dropped += 1;
            return;
        }
        self.errors += usize::from(diagnostic.is_error());
        self.list.push(diagnostic);
    }

    /// Adds all diagnostics of an iterator.
    pub fn extend(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        diagnostics.into_iter().for_each(|d| self.push(d));
    }

    /// Unwraps a result, keeping its error.
    pub fn ok<T>(&mut self, result: Result<T, Diagnostic>) -> Option<T> {
        result.map_err(|diagnostic| self.push(diagnostic)).ok()
    }

    /// All diagnostics in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// The errors.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|d| d.is_error())
    }

    /// The warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|d| !d.is_error())
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many were found.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the compilation has to stop.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// `Err(self)` if there are errors; otherwise the value and the warnings.
    pub fn into_result<T>(self, value: T) -> Result<(T, Diagnostics), Diagnostics> {
        if self.has_errors() { Err(self) } else { Ok((value, self)) }
    }

    /// Attaches the text that the spans point into, so that [`fmt::Display`] can show lines.
    pub fn set_source(&mut self, source: SourceText) {
        self.source = Some(source);
    }

    /// Problems that were not kept because of [`Diagnostics::CAPACITY`].
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// The attached text.
    pub fn source(&self) -> Option<&SourceText> {
        self.source.as_ref()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        let mut diagnostics = Diagnostics::new();
        diagnostics.push(diagnostic);
        diagnostics
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&render::text(diagnostic, self.source.as_ref()))?;
        }
        if self.dropped > 0 {
            write!(f, "\nand {} more problems\n", self.dropped)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Characters of a hostile name or value that a message shows at most.
const QUOTE_LIMIT: usize = 80;

/// Puts a name or value from a file into backticks: control characters and backticks escaped, cut at 80 characters.
pub fn quote(text: &str) -> String {
    let mut out = String::from("`");
    for (count, c) in text.chars().enumerate() {
        if count == QUOTE_LIMIT {
            out.push('…');
            break;
        }
        push_visible(&mut out, c);
    }
    out.push('`');
    out
}

/// Appends a character, escaped if it could disturb a terminal or the reading order of a line.
pub(crate) fn push_visible(out: &mut String, c: char) {
    let invisible = c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    if invisible {
        out.extend(c.escape_default());
    } else if c == '`' {
        out.push('\'');
    } else {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_escaped_and_cut() {
        assert_eq!(quote("conv1"), "`conv1`");
        assert_eq!(quote("a\n\u{1b}[31mb`"), "`a\\n\\u{1b}[31mb'`");
        assert_eq!(quote("\u{202e}x"), "`\\u{202e}x`");
        assert_eq!(quote(&"é".repeat(81)).chars().count(), 83);
    }

    #[test]
    fn result_keeps_warnings_and_stops_on_errors() {
        let mut diagnostics = Diagnostics::new();
        diagnostics.push(Diagnostic::warning(&codes::UNKNOWN_ATTRIBUTE, "w"));
        let (value, kept) = diagnostics.clone().into_result(7).unwrap();
        assert_eq!((value, kept.len()), (7, 1));
        diagnostics.push(Diagnostic::error(&codes::XML, "e"));
        assert_eq!(diagnostics.into_result(7).unwrap_err().errors().count(), 1);
    }

    #[test]
    fn a_flood_of_warnings_does_not_hide_an_error() {
        let mut diagnostics = Diagnostics::new();
        for index in 0..5000 {
            diagnostics.push(Diagnostic::warning(&codes::UNKNOWN_ATTRIBUTE, format!("{index}")));
        }
        assert_eq!(diagnostics.len(), Diagnostics::CAPACITY);
        diagnostics.push(Diagnostic::error(&codes::XML, "e"));
        assert!(diagnostics.has_errors());
    }
}
