//! Reads one `<layer>`: identity, data attributes and ports. Edges, constants and bodies are added later.

use super::xml::Element;
use super::{Attribute, Layer, Port, fields, number};
use crate::diag::{Diagnostic, Diagnostics, codes, quote};
use crate::element::ElementType;
use std::collections::BTreeSet;

/// Port precisions that say that the type is not known.
const UNSPECIFIED: &[&str] = &["UNSPECIFIED", "dynamic", "undefined"];

/// Reads what every layer has, reachable or not; `None` if it has no usable id.
pub(super) fn read(element: Element<'_>, version: u32, diagnostics: &mut Diagnostics) -> Option<Layer> {
    let id = fields::unsigned(element, "id", diagnostics);
    let name = fields::text(element, "name", diagnostics).unwrap_or_default();
    let kind = fields::text(element, "type", diagnostics).unwrap_or_default();
    let opset = fields::text(element, "version", diagnostics).unwrap_or_default();
    let place = |name| element.attribute(name).map_or(element.span(), |a| a.value_span());
    let data = element.child("data");
    Some(Layer {
        id: id?,
        name,
        kind: translate(&kind).to_string(),
        opset,
        span: element.span(),
        type_span: place("type"),
        opset_span: place("version"),
        attributes: data.map_or(Vec::new(), attributes),
        has_data: data.is_some(),
        input_ports: ports(element, Direction::Input, version, diagnostics),
        output_ports: ports(element, Direction::Output, version, diagnostics),
        output_names: names(&fields::text_or_empty(element, "output_names")),
        ..Layer::default()
    })
}

/// Names that differ between the file and the opsets. The types that the structure of a graph depends on are
/// recognised in any case: a `result` that is not seen as one would silently vanish.
fn translate(kind: &str) -> &str {
    match kind {
        "Const" => "Constant",
        "PReLU" => "PRelu",
        "ReLU" => "Relu",
        "SoftMax" => "Softmax",
        _ => ["Parameter", "Result", "Assign", "Constant", "If", "Loop", "TensorIterator"]
            .into_iter()
            .find(|name| name.eq_ignore_ascii_case(kind))
            .unwrap_or(kind),
    }
}

fn attributes(data: Element<'_>) -> Vec<Attribute> {
    data.attributes()
        .map(|attribute| Attribute {
            name: attribute.name().to_string(),
            value: attribute.value().into_owned(),
            name_span: attribute.name_span(),
            value_span: attribute.value_span(),
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Input,
    Output,
}

fn ports(layer: Element<'_>, direction: Direction, version: u32, diagnostics: &mut Diagnostics) -> Vec<Port> {
    let list = layer.child(match direction {
        Direction::Input => "input",
        Direction::Output => "output",
    });
    let mut ids = BTreeSet::new();
    let mut ports = Vec::new();
    for element in list.into_iter().flat_map(|list| list.children_named("port")) {
        let port = port(element, direction, version, diagnostics);
        if !ids.insert(port.id) && element.attribute("id").is_some() {
            let message = format!("the layer has two ports with id {}", port.id);
            diagnostics.push(Diagnostic::error(&codes::PORT, message).at(port.span));
        }
        ports.push(port);
    }
    ports
}

fn port(element: Element<'_>, direction: Direction, version: u32, diagnostics: &mut Diagnostics) -> Port {
    let precision = match direction {
        // Inputs have one only for readers' convenience.
        Direction::Input => None,
        Direction::Output => precision(element, diagnostics),
    };
    Port {
        // An error has been reported if there is none.
        id: fields::unsigned(element, "id", diagnostics).unwrap_or(u64::MAX),
        precision,
        dims: dims(element, diagnostics),
        names: names(&fields::text_or_empty(element, "names")),
        layout: if version > 10 { layout(element) } else { None },
        span: element.span(),
    }
}

fn precision(port: Element<'_>, diagnostics: &mut Diagnostics) -> Option<ElementType> {
    let text = fields::text(port, "precision", diagnostics)?;
    if UNSPECIFIED.contains(&text.as_str()) {
        return None;
    }
    let element = ElementType::from_port_precision(&text);
    if element.is_none() {
        let span = port.attribute("precision").map_or(port.span(), |a| a.value_span());
        let message = format!("{} is not the precision of a port", quote(&text));
        diagnostics.push(
            Diagnostic::error(&codes::PORT, message)
                .at(span)
                .help("precisions are written like `FP32`, `I64` or `BOOL`; lower and upper case matter"),
        );
    }
    element
}

fn dims(port: Element<'_>, diagnostics: &mut Diagnostics) -> Vec<i64> {
    let mut dims = Vec::new();
    for element in port.children_named("dim") {
        match number::integer_prefix(element.text()) {
            Ok((dim, _)) if dim >= -1 => dims.push(dim),
            _ => {
                let text = quote(element.text().trim());
                let message = format!("dimension {text} of a port is not a number >= -1");
                diagnostics.push(Diagnostic::error(&codes::PORT, message).at(element.span()));
            }
        }
    }
    dims
}

fn layout(port: Element<'_>) -> Option<String> {
    let info = port.child("rt_info")?;
    let attribute =
        info.children_named("attribute").find(|a| a.attribute("name").is_some_and(|name| name.value() == "layout"))?;
    Some(attribute.attribute("layout")?.value().into_owned())
}

/// Splits a list of tensor names: commas separate, `\,` is a comma, empty pieces are dropped, nothing is trimmed.
fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&',') => {
                chars.next();
                name.push(',');
            }
            ',' => push_name(&mut names, &mut name),
            c => name.push(c),
        }
    }
    push_name(&mut names, &mut name);
    names
}

fn push_name(names: &mut Vec<String>, name: &mut String) {
    let name = std::mem::take(name);
    if !name.is_empty() {
        names.push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_names() {
        assert_eq!(names("a,b"), ["a", "b"]);
        assert_eq!(names(r"a\,b,c"), ["a,b", "c"]);
        assert_eq!(names(r"a\\,b"), [r"a\,b"]);
        assert_eq!(names(" a ,,b,"), [" a ", "b"]);
        assert_eq!(names(r"a\b\"), [r"a\b\"]);
        assert!(names("").is_empty());
    }

    #[test]
    fn translated_types() {
        assert_eq!(translate("Const"), "Constant");
        assert_eq!(translate("constant"), "Constant");
        assert_eq!(translate("const"), "const");
        assert_eq!(translate("RESULT"), "Result");
        assert_eq!(translate("ReLU"), "Relu");
        assert_eq!(translate("relu"), "relu");
    }
}
