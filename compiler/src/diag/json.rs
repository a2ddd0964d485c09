//! Machine-readable diagnostics: one JSON object per line, shaped like those of rustc. New fields may be added.

use super::{Diagnostic, Diagnostics, SourceText, Span, render};
use serde_json::{Value, json};

/// All diagnostics, one line each.
///
/// Fields: `$message_type` (always `diagnostic`), `level`, `code` (`code`, `name`, `title`), `message`, `spans` (none or
/// one: `file_name`, `byte_start`, `byte_end`, and line and column of both ends, counted from 1, columns in
/// characters), `children` (`level` `note` or `help`, and `message`), `rendered` (the plain text).
pub fn render(diagnostics: &Diagnostics) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&object(diagnostic, diagnostics.source()).to_string());
        out.push('\n');
    }
    out
}

fn object(diagnostic: &Diagnostic, source: Option<&SourceText>) -> Value {
    let child = |level: &str, message: &String| json!({ "level": level, "message": message });
    let notes = diagnostic.notes.iter().map(|note| child("note", note));
    let help = diagnostic.help.iter().map(|help| child("help", help));
    let code = diagnostic.code;
    json!({
        "$message_type": "diagnostic",
        "level": diagnostic.level.name(),
        "code": { "code": code.id, "name": code.name, "title": code.title },
        "message": diagnostic.message,
        "spans": diagnostic.span.iter().map(|&span| place(span, source)).collect::<Vec<_>>(),
        "children": notes.chain(help).collect::<Vec<_>>(),
        "rendered": render::text(diagnostic, source),
    })
}

fn place(span: Span, source: Option<&SourceText>) -> Value {
    let Some(source) = source else {
        return json!({ "byte_start": span.start, "byte_end": span.end });
    };
    let span = source.clamp(span);
    let (start, end) = (render::position(source, span.start), render::position(source, span.end));
    json!({
        "file_name": source.name(),
        "byte_start": span.start,
        "byte_end": span.end,
        "line_start": start.line,
        "line_end": end.line,
        "column_start": start.column,
        "column_end": end.column,
        "is_primary": true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::codes;
    use super::*;

    #[test]
    fn one_object_per_line() {
        let mut all = Diagnostics::new();
        all.push(Diagnostic::error(&codes::EDGE, "a `\"b\"`").at(Span::new(6, 9)).note("n").help("h"));
        all.push(Diagnostic::warning(&codes::IO, "w"));
        all.set_source(SourceText::new("m.xml", "<net>\n<layer/>"));
        let text = render(&all);
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["spans"][0]["line_start"], 2);
        assert_eq!(lines[0]["spans"][0]["column_end"], 4);
        assert_eq!(lines[0]["code"]["code"], codes::EDGE.id);
        assert_eq!(lines[0]["children"][1]["level"], "help");
        assert!(lines[0]["rendered"].as_str().unwrap().contains("m.xml:2:1"));
        assert_eq!(lines[1]["spans"], json!([]));
        assert_eq!(lines[1]["level"], "warning");
    }
}
