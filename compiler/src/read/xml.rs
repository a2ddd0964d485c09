//! The XML document as a flat tree: elements with attributes, all as byte ranges of the text.

use crate::diag::{Diagnostic, Span, codes, quote};
use quick_xml::events::attributes::{AttrError, Attribute as RawAttribute};
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::QName;
use quick_xml::{Reader, XmlVersion};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A range of the text; offsets fit in 32 bits because the file size is checked first.
#[derive(Clone, Copy)]
struct Range {
    start: u32,
    end: u32,
}

impl Range {
    fn span(self) -> Span {
        Span::new(self.start as usize, self.end as usize)
    }
}

const NONE: u32 = u32::MAX;

struct ElementRecord {
    name: Range,
    /// The start tag without the angle brackets' surroundings: from `<` to `>`.
    tag: Range,
    /// First character data inside the element.
    text: Range,
    attributes: Range,
    first_child: u32,
    next_sibling: u32,
}

struct AttributeRecord {
    name: Range,
    value: Range,
}

/// A parsed document. Memory is proportional to the text; nothing is copied out of it.
pub(super) struct Document<'a> {
    text: &'a str,
    elements: Vec<ElementRecord>,
    attributes: Vec<AttributeRecord>,
}

/// One element of a document.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    document: &'a Document<'a>,
    index: u32,
}

/// One attribute of an element.
#[derive(Clone, Copy)]
pub(super) struct XmlAttribute<'a> {
    document: &'a Document<'a>,
    index: u32,
}

impl<'a> Document<'a> {
    /// Parses a text; everything behind the root element is checked but dropped.
    ///
    /// # Errors
    /// The text is not well-formed or larger than 4 GiB.
    pub fn parse(text: &'a str) -> Result<Document<'a>, Diagnostic> {
        if u32::try_from(text.len()).is_err() {
            return Err(Diagnostic::error(&codes::LIMIT, "the XML is larger than 4 GiB"));
        }
        if let Some(at) = text.find('\0') {
            return Err(Diagnostic::error(&codes::XML, "the XML contains a NUL character").at(Span::new(at, at + 1)));
        }
        Parser::new(text).run()
    }

    /// The outermost element, if there is any.
    pub fn root(&'a self) -> Option<Element<'a>> {
        (!self.elements.is_empty()).then_some(Element { document: self, index: 0 })
    }

    fn slice(&self, range: Range) -> &'a str {
        self.text.get(range.start as usize..range.end as usize).unwrap_or("")
    }
}

struct Parser<'a> {
    document: Document<'a>,
    /// Open elements and the last child of each.
    open: Vec<(u32, u32)>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Parser { document: Document { text, elements: Vec::new(), attributes: Vec::new() }, open: Vec::new() }
    }

    fn run(mut self) -> Result<Document<'a>, Diagnostic> {
        let text = self.document.text;
        let mut reader = Reader::from_str(text);
        loop {
            let start = reader.buffer_position() as usize;
            let event = match reader.read_event() {
                Ok(event) => event,
                Err(error) => {
                    let at = (reader.error_position() as usize).min(text.len());
                    return Err(syntax(describe(&error), at, at + 1));
                }
            };
            let end = reader.buffer_position() as usize;
            match event {
                Event::Start(tag) => self.start(&tag, start, end, true)?,
                Event::Empty(tag) => self.start(&tag, start, end, false)?,
                Event::End(_) => {
                    self.open.pop();
                }
                Event::Text(_) => self.text(start, end),
                Event::Eof => break,
                _ => {}
            }
        }
        if let Some(&(index, _)) = self.open.last()
            && let Some(record) = self.document.elements.get(index as usize)
        {
            let name = quote(self.document.slice(record.name));
            let span = record.tag.span();
            return Err(syntax(format!("element {name} is never closed"), span.start, span.end)
                .help("the file seems to be cut off: fetch it again"));
        }
        Ok(self.document)
    }

    fn offset_of(&self, part: &str) -> u32 {
        // Events borrow from the text, so the address difference is the offset.
        let offset = (part.as_ptr() as usize).wrapping_sub(self.document.text.as_ptr() as usize);
        offset.min(self.document.text.len()) as u32
    }

    fn range_of(&self, part: &str) -> Range {
        let start = self.offset_of(part);
        Range { start, end: start + part.len() as u32 }
    }

    fn start(&mut self, tag: &BytesStart<'_>, start: usize, end: usize, opens: bool) -> Result<(), Diagnostic> {
        let name = tag.name();
        if name.as_ref().is_empty() {
            return Err(syntax("a tag has no name".into(), start, end));
        }
        let first_attribute = self.document.attributes.len() as u32;
        self.attributes(tag)?;
        let index = self.document.elements.len() as u32;
        self.document.elements.push(ElementRecord {
            name: self.range_of(name.as_ref()),
            tag: Range { start: start as u32, end: end as u32 },
            text: Range { start: 0, end: 0 },
            attributes: Range { start: first_attribute, end: self.document.attributes.len() as u32 },
            first_child: NONE,
            next_sibling: NONE,
        });
        // A second root stays without a parent, out of reach.
        self.link(index);
        if opens {
            self.open.push((index, NONE));
        }
        Ok(())
    }

    fn link(&mut self, index: u32) {
        let Some((parent, last)) = self.open.last_mut() else {
            return;
        };
        let elements = &mut self.document.elements;
        let previous = std::mem::replace(last, index);
        if let Some(sibling) = elements.get_mut(previous as usize) {
            sibling.next_sibling = index;
        } else if let Some(parent) = elements.get_mut(*parent as usize) {
            parent.first_child = index;
        }
    }

    fn text(&mut self, start: usize, end: usize) {
        if let Some(&(index, _)) = self.open.last()
            && let Some(record) = self.document.elements.get_mut(index as usize)
            && record.text.end == 0
        {
            record.text = Range { start: start as u32, end: end as u32 };
        }
    }

    fn attributes(&mut self, tag: &BytesStart<'_>) -> Result<(), Diagnostic> {
        let tag_start = self.offset_of(tag) as usize;
        let first = self.document.attributes.len();
        let mut attributes = tag.attributes();
        // The built-in check for repeated names compares all pairs, which hostile files exploit.
        for attribute in attributes.with_checks(false) {
            let attribute = attribute.map_err(|error| attribute_error(&error, tag_start))?;
            let record =
                AttributeRecord { name: self.range_of(attribute.key.as_ref()), value: self.range_of(&attribute.value) };
            let normalized = attribute.normalized_value(XmlVersion::Implicit1_0);
            if let Err(error) = normalized {
                let span = record.value.span();
                let message = format!("the attribute has a bad character reference: {}", describe(&error));
                return Err(syntax(message, span.start, span.end)
                    .help("write `&amp;` for `&`; only the five predefined entities are supported"));
            }
            self.document.attributes.push(record);
        }
        let mut names = BTreeSet::new();
        for record in self.document.attributes.get(first..).unwrap_or(&[]) {
            let name = self.document.slice(record.name);
            let span = record.name.span();
            if name.contains(['<', '>', '&', '"', '\'']) {
                return Err(syntax(format!("{} is no attribute name", quote(name)), span.start, span.end));
            }
            if !names.insert(name) {
                let message = format!("attribute {} is given twice", quote(name));
                return Err(syntax(message, span.start, span.end));
            }
        }
        Ok(())
    }
}

fn syntax(message: String, start: usize, end: usize) -> Diagnostic {
    Diagnostic::error(&codes::XML, message).at(Span::new(start, end))
}

fn describe(error: &impl std::fmt::Display) -> String {
    // Messages of the parser quote names from the file: escape them.
    let text = error.to_string();
    let mut out = String::new();
    for c in text.chars().take(300) {
        if c == '`' {
            out.push('`');
        } else {
            crate::diag::push_visible(&mut out, c);
        }
    }
    out.trim_end_matches('.').to_string()
}

fn attribute_error(error: &AttrError, tag_start: usize) -> Diagnostic {
    let (position, what) = match *error {
        AttrError::ExpectedEq(at) => (at, "an attribute name must be followed by `=`"),
        AttrError::ExpectedValue(at) => (at, "`=` must be followed by a value in quotes"),
        AttrError::UnquotedValue(at) => (at, "the value of an attribute must be in quotes"),
        AttrError::ExpectedQuote(at, _) => (at, "the value of an attribute has no closing quote"),
        AttrError::Duplicated(at, _) => (at, "an attribute is given twice"),
    };
    let at = tag_start + position;
    syntax(what.into(), at, at + 1)
}

impl<'a> Element<'a> {
    fn record(&self) -> Option<&'a ElementRecord> {
        self.document.elements.get(self.index as usize)
    }

    /// The tag name.
    pub fn name(&self) -> &'a str {
        self.record().map_or("", |r| self.document.slice(r.name))
    }

    /// The start tag, cut to its first line by the renderer.
    pub fn span(&self) -> Span {
        self.record().map_or(Span::default(), |r| r.tag.span())
    }

    /// First character data inside, not trimmed and with entities as they stand.
    pub fn text(&self) -> &'a str {
        self.record().map_or("", |r| self.document.slice(r.text))
    }

    /// Child elements in document order.
    pub fn children(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let document = self.document;
        let mut next = self.record().map_or(NONE, |r| r.first_child);
        std::iter::from_fn(move || {
            let index = next;
            next = document.elements.get(index as usize)?.next_sibling;
            Some(Element { document, index })
        })
    }

    /// The first child element of this name.
    pub fn child(&self, name: &str) -> Option<Element<'a>> {
        self.children().find(|child| child.name() == name)
    }

    /// All child elements of this name.
    pub fn children_named(&self, name: &'static str) -> impl Iterator<Item = Element<'a>> + use<'a> {
        self.children().filter(move |child| child.name() == name)
    }

    /// Attributes in document order.
    pub fn attributes(&self) -> impl Iterator<Item = XmlAttribute<'a>> + use<'a> {
        let document = self.document;
        let range = self.record().map_or(0..0, |r| r.attributes.start..r.attributes.end);
        range.map(move |index| XmlAttribute { document, index })
    }

    /// The attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<XmlAttribute<'a>> {
        self.attributes().find(|attribute| attribute.name() == name)
    }
}

impl<'a> XmlAttribute<'a> {
    fn range(&self, pick: impl Fn(&AttributeRecord) -> Range) -> Range {
        let record = self.document.attributes.get(self.index as usize);
        record.map_or(Range { start: 0, end: 0 }, pick)
    }

    /// The name.
    pub fn name(&self) -> &'a str {
        self.document.slice(self.range(|r| r.name))
    }

    /// The value with entities decoded and line breaks and tabs turned into spaces.
    pub fn value(&self) -> Cow<'a, str> {
        let raw = self.document.slice(self.range(|r| r.value));
        let attribute = RawAttribute { key: QName(""), value: Cow::Borrowed(raw) };
        // Parsing has checked that this succeeds.
        attribute.normalized_value(XmlVersion::Implicit1_0).unwrap_or(Cow::Borrowed(raw))
    }

    /// Where the name stands.
    pub fn name_span(&self) -> Span {
        self.range(|r| r.name).span()
    }

    /// Where the value stands, without quotes.
    pub fn value_span(&self) -> Span {
        self.range(|r| r.value).span()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (usize, String) {
        let error = Document::parse(text).err().unwrap();
        assert_eq!(error.code.id, codes::XML.id);
        (error.span.unwrap().start, error.message)
    }

    #[test]
    fn tree_attributes_and_positions() {
        let text = "<?xml version=\"1.0\"?>\n<!DOCTYPE net [<!ENTITY a \"b\">]>\n\
            <net a='1 > 0' b=\"&lt;&#65;\n&amp;\"><x/>\n<!-- c --><y> 5 </y><x z='2'/></net><other/>text";
        let document = Document::parse(text).unwrap();
        let root = document.root().unwrap();
        assert_eq!(root.name(), "net");
        let b = root.attribute("b").unwrap();
        assert_eq!(b.value(), "<A &");
        assert_eq!(&text[b.value_span().start..b.value_span().end], "&lt;&#65;\n&amp;");
        assert_eq!(root.attribute("a").unwrap().value(), "1 > 0");
        let names: Vec<_> = root.children().map(|c| c.name()).collect();
        assert_eq!(names, ["x", "y", "x"]);
        assert_eq!(root.child("y").unwrap().text().trim(), "5");
        let second = root.children_named("x").nth(1).unwrap();
        assert_eq!(&text[second.span().start..second.span().end], "<x z='2'/>");
    }

    #[test]
    fn errors_are_located() {
        assert_eq!(error("<a><b></a>").0, 6);
        assert_eq!(error("<a>\n<b>").0, 4);
        assert_eq!(error("<a b='1' b='2'/>").0, 9);
        assert_eq!(error("<a b=1/>").0, 5);
        assert_eq!(error("<a b<c='1'/>").0, 3);
        assert_eq!(error("<a b/>").0, 4);
        assert_eq!(error("<a b='&foo;'/>").0, 6);
        assert_eq!(error("<a b='&#0;'/>").0, 6);
        assert_eq!(error("<a b='x\0'/>").0, 7);
        assert_eq!(error("<a b='x").0, 0);
        assert_eq!(error("<a").0, 0);
        error("<a><!-- x");
        error("</a>");
        error("<>");
    }

    #[test]
    fn entity_bombs_do_not_expand() {
        let bomb = "<!DOCTYPE a [<!ENTITY x \"y\"><!ENTITY z \"&x;&x;&x;\">]><a b='&z;'/>";
        assert!(error(bomb).1.contains("character reference"));
    }

    #[test]
    fn deep_and_wide_documents_are_linear() {
        let depth = 100_000;
        let deep = format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert_eq!(Document::parse(&deep).unwrap().elements.len(), depth);
        let attributes: String = (0..depth).map(|i| format!(" a{i}='{i}'")).collect();
        let wide = format!("<a{attributes}/>");
        assert_eq!(Document::parse(&wide).unwrap().attributes.len(), depth);
    }
}
