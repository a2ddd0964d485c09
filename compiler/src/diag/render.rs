//! Plain text rendering: message, file, line and column, the line itself and a caret below it.

use super::{Diagnostic, SourceText, Span, push_visible};
use std::fmt::Write;

/// Columns of source that are shown at most.
const WIDTH: usize = 100;

/// A place as people count: both from 1, the column in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Line number, from 1.
    pub line: usize,
    /// Column number in characters, from 1.
    pub column: usize,
}

/// The position of a byte offset; offsets behind the end give the end.
pub fn position(source: &SourceText, offset: usize) -> Position {
    let offset = source.clamp(Span::new(offset, offset)).start;
    let (line, start) = source.line_of(offset);
    let before = source.text().get(start..offset).unwrap_or("");
    Position { line: line + 1, column: 1 + before.chars().count() }
}

/// Renders one diagnostic; ends with a newline. Without a source only the byte offset can be shown.
pub fn text(diagnostic: &Diagnostic, source: Option<&SourceText>) -> String {
    let mut out = format!("{}[{}]: {}\n", diagnostic.level.name(), diagnostic.code.id, diagnostic.message);
    match (diagnostic.span, source) {
        (Some(span), Some(source)) => snippet(&mut out, span, source),
        (Some(span), None) => {
            let _ = writeln!(out, "  --> byte {}", span.start);
        }
        (None, _) => {}
    }
    for note in &diagnostic.notes {
        let _ = writeln!(out, "  = note: {note}");
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "  = help: {help}");
    }
    out
}

fn snippet(out: &mut String, span: Span, source: &SourceText) {
    let place = position(source, span.start);
    let name = visible(source.name().chars(), usize::MAX);
    let _ = writeln!(out, "  --> {name}:{}:{}", place.line, place.column);
    let (before, marked, after) = excerpt(source, span);
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let _ = writeln!(out, "{margin} |");
    let _ = writeln!(out, "{number} | {before}{marked}{after}");
    let indent = " ".repeat(before.chars().count());
    let carets = "^".repeat(marked.chars().count().max(1));
    let _ = writeln!(out, "{margin} | {indent}{carets}");
}

/// The marked part of the line and what stands around it, made printable and cut to [`WIDTH`].
fn excerpt(source: &SourceText, span: Span) -> (String, String, String) {
    let text = source.text();
    let Span { start, end } = source.clamp(span);
    let (_, start_of_line) = source.line_of(start);
    let rest = text.get(start..).unwrap_or("");
    let end_of_line = start + rest.find('\n').unwrap_or(rest.len());
    let end = end.min(end_of_line);

    let marked = visible(text.get(start..end).unwrap_or("").chars(), WIDTH);
    let room = WIDTH.saturating_sub(marked.chars().count());
    let head = text.get(start_of_line..start).unwrap_or("").trim_start();
    let mut before: Vec<char> = head.chars().rev().take(room.min(40) + 1).collect();
    let cut = before.len() > room.min(40);
    before.truncate(room.min(40));
    before.reverse();
    let mut before = visible(before.into_iter(), usize::MAX);
    if cut {
        before.insert(0, '…');
    }
    let tail = text.get(end..end_of_line).unwrap_or("").trim_end();
    let after = visible(tail.chars(), room.saturating_sub(before.chars().count()));
    (before, marked, after)
}

/// Printable form of at most `limit` characters; tabs become one space so that the caret stays in place.
pub(super) fn visible(chars: impl Iterator<Item = char>, limit: usize) -> String {
    let mut out = String::new();
    for (count, c) in chars.enumerate() {
        if count >= limit {
            out.push('…');
            break;
        }
        match c {
            '\t' => out.push(' '),
            '`' => out.push('`'),
            '\r' => {}
            c => push_visible(&mut out, c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Diagnostic, Diagnostics, codes};
    use super::*;

    fn source(text: &str) -> SourceText {
        SourceText::new("model.xml", text)
    }

    #[test]
    fn shows_line_and_caret() {
        let xml = "<net>\n\t<layer id=\"0\"/>\n</net>";
        let start = xml.find("id=").unwrap();
        let diagnostic = Diagnostic::error(&codes::MISSING_ATTRIBUTE, "layer has no `name`")
            .at(Span::new(start, start + 6))
            .note("a note")
            .help("add it");
        let mut all = Diagnostics::from(diagnostic);
        all.set_source(source(xml));
        let expected = format!(
            "error[{}]: layer has no `name`\n  --> model.xml:2:9\n  |\n2 | <layer id=\"0\"/>\n  |        ^^^^^^\n  = note: a note\n  = help: add it\n",
            codes::MISSING_ATTRIBUTE.id
        );
        assert_eq!(all.to_string(), expected);
    }

    #[test]
    fn long_lines_and_strange_spans_stay_short() {
        let xml = "é".repeat(100_000);
        for span in [(0, 200_000), (1, 2), (199_999, 500_000), (7, 3), (usize::MAX, 0)] {
            let diagnostic = Diagnostic::error(&codes::XML, "m").at(Span::new(span.0, span.1));
            let shown = text(&diagnostic, Some(&source(&xml)));
            assert!(shown.lines().all(|l| l.chars().count() < 120), "{shown}");
        }
        let empty = text(&Diagnostic::error(&codes::XML, "m").at(Span::new(5, 9)), Some(&source("")));
        assert!(empty.contains("model.xml:1:1"));
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(position(&source("aé\nüx"), 6), Position { line: 2, column: 2 });
        assert_eq!(position(&source("a"), 99), Position { line: 1, column: 2 });
    }
}
