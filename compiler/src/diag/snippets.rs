//! Terminal rendering in the style of rustc, in colour if wanted.

use super::render::{self, visible};
use super::{Diagnostic, Diagnostics, Level, SourceText, Span};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level as Mark, Renderer, Snippet};
use std::fmt::Write;

/// Lines longer than this (in bytes) are shown as an excerpt by the plain renderer.
const LINE_LIMIT: usize = 2000;

/// All diagnostics, each followed by an empty line; `width` is the number of columns of the terminal.
pub fn render(diagnostics: &Diagnostics, colour: bool, width: usize) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() }.term_width(width);
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&one(diagnostic, diagnostics.source(), &renderer));
        out.push_str("\n\n");
    }
    if diagnostics.dropped() > 0 {
        let _ = writeln!(out, "and {} more problems", diagnostics.dropped());
    }
    out
}

fn one(diagnostic: &Diagnostic, source: Option<&SourceText>, renderer: &Renderer) -> String {
    let mark = match diagnostic.level {
        Level::Error => Mark::ERROR,
        Level::Warning => Mark::WARNING,
    };
    let mut group = Group::with_title(mark.primary_title(&diagnostic.message).id(diagnostic.code.id));
    if let Some(span) = diagnostic.span
        && let Some(source) = source
    {
        let Some(snippet) = snippet(span, source) else {
            return render::text(diagnostic, Some(source)).trim_end().to_string();
        };
        group = group.element(snippet);
    }
    for note in &diagnostic.notes {
        group = group.element(Mark::NOTE.message(note));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Mark::HELP.message(help));
    }
    renderer.render(&[group])
}

/// The first line of the span; `None` if it is too long to be shown whole.
fn snippet(span: Span, source: &SourceText) -> Option<Snippet<'_, Annotation<'_>>> {
    let Span { start, end } = source.clamp(span);
    let (line, line_start) = source.line_of(start);
    let rest = source.text().get(line_start..).unwrap_or("");
    let text = rest.split('\n').next().unwrap_or("");
    if text.len() > LINE_LIMIT {
        return None;
    }
    let range = start - line_start..end.min(line_start + text.len()) - line_start;
    Some(
        Snippet::source(text)
            .line_start(line + 1)
            .path(visible(source.name().chars(), usize::MAX))
            .annotation(AnnotationKind::Primary.span(range)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::codes;
    use super::*;

    fn sample(text: &str, span: (usize, usize)) -> Diagnostics {
        let diagnostic = Diagnostic::error(&codes::EDGE, "no layer `7`").at(Span::new(span.0, span.1));
        let mut all = Diagnostics::from(diagnostic.note("a note").help("some help"));
        all.set_source(SourceText::new("m.xml", text));
        all
    }

    #[test]
    fn plain_and_coloured() {
        let all = sample("<net>\n  <edge from='7'/>\n</net>", (8, 13));
        let plain = render(&all, false, 100);
        assert!(plain.starts_with("error[IR0110]: no layer `7`\n"), "{plain}");
        for part in ["--> m.xml:2:3", "2 |   <edge from='7'/>", "^^^^^", "note: a note", "help: some help"] {
            assert!(plain.contains(part), "{part}\n{plain}");
        }
        assert!(!plain.contains('\u{1b}'));
        assert!(render(&all, true, 100).contains("\u{1b}["));
    }

    #[test]
    fn strange_spans() {
        for span in [(0, 0), (5, 1), (30, 99), (usize::MAX, usize::MAX), (1, 3)] {
            for text in ["", "é\u{1b}[31m\n\n", "<net>\r\n  <edge from='7'/>\n</net>", &"é".repeat(5000)] {
                assert!(render(&sample(text, span), false, 80).contains("m.xml:"));
            }
        }
    }
}
