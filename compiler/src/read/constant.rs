//! Constants: type, shape and where their bytes lie. Nothing is copied out of the weights file.

use super::net::Context;
use super::number::{self, NumberError};
use super::shape::RANK_LIMIT;
use super::{Attribute, Layer};
use crate::diag::{Diagnostic, Diagnostics, codes, quote};
use crate::element::ElementType;
use crate::source::{Source, Weights};
use std::sync::Arc;

/// Where the bytes of a constant lie.
#[derive(Clone, Debug)]
pub enum Location {
    /// A range of the weights file, checked, of any alignment; ranges may overlap.
    Weights {
        /// First byte.
        offset: usize,
        /// Number of bytes.
        len: usize,
    },
    /// In the XML itself.
    Inline(Arc<[u8]>),
}

/// The value of a `Constant` layer.
#[derive(Clone, Debug)]
pub struct Constant {
    /// The element type.
    pub element: ElementType,
    /// The shape; its product does not overflow. Dimensions in IR order, the last one is contiguous.
    pub dims: Vec<usize>,
    /// The bytes: little endian and packed as [`ElementType`] says. Exactly [`ElementType::storage_bytes`] of the
    /// element count, except for strings: count, offsets, text.
    pub location: Location,
}

impl Constant {
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// The bytes, not aligned to anything.
    pub fn bytes<'s>(&'s self, source: &'s Source) -> &'s [u8] {
        match &self.location {
            // Reading has checked the range.
            Location::Weights { offset, len } => {
                let end = offset.saturating_add(*len);
                source.weights.bytes().get(*offset..end).unwrap_or(&[])
            }
            Location::Inline(bytes) => bytes,
        }
    }

    /// The values of a string constant, `None` for other types. Reading has checked that the format holds.
    pub fn strings<'s>(&'s self, source: &'s Source) -> Option<Vec<&'s str>> {
        if self.element != ElementType::String {
            return None;
        }
        unpack_strings(self.bytes(source), self.count()).ok()
    }
}

/// Reads the value of a constant; `None` after an error.
pub(super) fn read(layer: &Layer, context: &Context<'_>, diagnostics: &mut Diagnostics) -> Option<Constant> {
    if !layer.has_data {
        let message = format!("{} has no `<data>`", layer.describe());
        diagnostics.push(Diagnostic::error(&codes::MISSING_ATTRIBUTE, message).at(layer.span));
        return None;
    }
    let element = diagnostics.ok(required(layer, "element_type").and_then(element_type));
    let dims = diagnostics.ok(required(layer, "shape").and_then(shape));
    let location = match layer.attribute("value") {
        Some(value) => Some(Location::Inline(value.value.as_bytes().into())),
        None => file_range(layer, diagnostics),
    };
    let constant = Constant { element: element?, dims: dims?, location: location? };
    match check(constant, layer, context) {
        Ok(constant) => Some(constant),
        Err(diagnostic) => {
            let repeated = diagnostic.code == &codes::WEIGHTS_MISSING && context.weights_reported.replace(true);
            if !repeated {
                diagnostics.push(diagnostic);
            }
            None
        }
    }
}

fn required<'a>(layer: &'a Layer, name: &str) -> Result<&'a Attribute, Diagnostic> {
    layer.attribute(name).ok_or_else(|| {
        let message = format!("{} has no attribute `{name}`", layer.describe());
        Diagnostic::error(&codes::MISSING_ATTRIBUTE, message).at(layer.span)
    })
}

fn element_type(attribute: &Attribute) -> Result<ElementType, Diagnostic> {
    ElementType::from_data(&attribute.value).ok_or_else(|| {
        let message = format!("{} is not an element type", quote(&attribute.value));
        let diagnostic = Diagnostic::error(&codes::BAD_ATTRIBUTE, message).at(attribute.value_span);
        match ElementType::from_port_precision(&attribute.value) {
            Some(element) => diagnostic.help(format!("write `{element}` here; the other name is for ports")),
            None => diagnostic,
        }
    })
}

/// A list of sizes; the real format has no unknown dimensions here.
fn shape(attribute: &Attribute) -> Result<Vec<usize>, Diagnostic> {
    let text = attribute.value.trim();
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text).trim();
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let inner = inner.strip_suffix(',').unwrap_or(inner);
    let bad = |code, reason: &str| {
        let message = format!("the shape {} of a constant {reason}", quote(text));
        Diagnostic::error(code, message).at(attribute.value_span)
    };
    if inner.split(',').nth(RANK_LIMIT).is_some() {
        return Err(bad(&codes::LIMIT, "has too many dimensions"));
    }
    let dims: Vec<usize> = inner
        .split(',')
        .map(|part| match number::unsigned(part.trim()) {
            Ok(size) => usize::try_from(size).map_err(|_| bad(&codes::LIMIT, "is too large")),
            Err(NumberError::Range) if !part.trim_start().starts_with('-') => Err(bad(&codes::LIMIT, "is too large")),
            Err(_) => Err(bad(&codes::BAD_ATTRIBUTE, "is not a list of sizes")),
        })
        .collect::<Result<_, _>>()?;
    // Strides of empty shapes must not overflow either.
    let volume = dims.iter().filter(|&&dim| dim > 0).try_fold(1usize, |volume, &dim| volume.checked_mul(dim));
    match volume {
        Some(volume) if isize::try_from(volume).is_ok() => Ok(dims),
        _ => Err(bad(&codes::LIMIT, "has too many elements")),
    }
}

fn file_range(layer: &Layer, diagnostics: &mut Diagnostics) -> Option<Location> {
    let mut field = |name: &str| {
        let attribute = diagnostics.ok(required(layer, name))?;
        let parsed = number::unsigned(&attribute.value).map_err(|_| {
            let message = format!("`{name}` is {}, not a number of bytes", quote(&attribute.value));
            Diagnostic::error(&codes::BAD_ATTRIBUTE, message).at(attribute.value_span)
        });
        // Clamping keeps the number out of range of any file.
        diagnostics.ok(parsed).map(|value| usize::try_from(value).unwrap_or(usize::MAX))
    };
    let (offset, len) = (field("offset"), field("size"));
    Some(Location::Weights { offset: offset?, len: len? })
}

/// Checks the bytes against file and shape, and cuts them to what the shape needs.
fn check(mut constant: Constant, layer: &Layer, context: &Context<'_>) -> Result<Constant, Diagnostic> {
    let place = |name: &str| layer.attribute(name).map_or(layer.span, |a| a.value_span);
    let count = constant.count();
    let Some(need) = constant.element.storage_bytes(count) else {
        let message = format!("{} has a size that overflows", layer.describe());
        return Err(Diagnostic::error(&codes::LIMIT, message).at(place("shape")));
    };
    let file = context.source.weights.bytes();
    let given = match constant.location {
        Location::Inline(ref bytes) => bytes.len(),
        Location::Weights { len, .. } => len,
    };
    let packed = matches!(constant.element, ElementType::U3 | ElementType::U6);
    // Writers count bits for these, but the last group of three bytes is always whole.
    let demanded = match constant.element {
        ElementType::U3 | ElementType::U6 => {
            let bits = count.saturating_mul(constant.element.bits() as usize);
            bits.div_ceil(8)
        }
        _ => need,
    };
    if given < demanded {
        let message = format!("{} has {given} bytes, but its shape needs {demanded}", layer.describe());
        return Err(Diagnostic::error(&codes::CONSTANT_SIZE, message).at(place("size")));
    }
    match &mut constant.location {
        // The format of text says itself how long it is.
        Location::Inline(_) if constant.element == ElementType::String => {}
        Location::Inline(bytes) => inline(bytes, need, layer)?,
        Location::Weights { offset, len } => {
            if packed {
                *len = need.max(*len);
            }
            in_file(*offset, *len, context, layer)?;
            if constant.element != ElementType::String {
                *len = need;
            }
            if *len == 0 {
                *offset = 0;
            }
            debug_assert!(offset.checked_add(*len).is_some_and(|end| end <= file.len()));
        }
    }
    if constant.element == ElementType::String {
        unpack_strings(constant.bytes(context.source), count).map_err(|reason| {
            let message = format!("{} is damaged: {reason}", layer.describe());
            Diagnostic::error(&codes::STRING_FORMAT, message).at(layer.span)
        })?;
    }
    Ok(constant)
}

fn inline(bytes: &mut Arc<[u8]>, need: usize, layer: &Layer) -> Result<(), Diagnostic> {
    match bytes.get(..need) {
        Some(exact) => {
            *bytes = exact.into();
            Ok(())
        }
        None => {
            let message = format!("{} has {} bytes, but its shape needs {need}", layer.describe(), bytes.len());
            Err(Diagnostic::error(&codes::CONSTANT_SIZE, message).at(layer.span))
        }
    }
}

fn in_file(offset: usize, len: usize, context: &Context<'_>, layer: &Layer) -> Result<(), Diagnostic> {
    let file = context.source.weights.bytes().len();
    if len == 0 || offset.checked_add(len).is_some_and(|end| end <= file) {
        return Ok(());
    }
    let place = layer.attribute("offset").map_or(layer.span, |a| a.value_span);
    if file == 0 {
        let help = match &context.source.weights {
            Weights::Missing(Some(path)) => format!(
                "put the weights file at {}, or name it with the option `weights`",
                quote(&path.display().to_string())
            ),
            _ => "name the weights file with the option `weights`".to_string(),
        };
        let message = format!("{} needs the weights file, which is missing or empty", layer.describe());
        return Err(Diagnostic::error(&codes::WEIGHTS_MISSING, message).at(place).help(help));
    }
    let message =
        format!("{} has {len} bytes at offset {offset}, but the weights file ends at {file}", layer.describe());
    Err(Diagnostic::error(&codes::CONSTANT_RANGE, message)
        .at(place)
        .help("check that the `.bin` belongs to this `.xml` and is complete"))
}

/// Splits packed strings: `i32 n, i32 offsets[n + 1]`, text.
fn unpack_strings(bytes: &[u8], count: usize) -> Result<Vec<&str>, &'static str> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let (words, _) = bytes.as_chunks::<4>();
    let mut words = words.iter().map(|&word| usize::try_from(i32::from_le_bytes(word)).ok());
    if words.next().flatten() != Some(count) {
        return Err("the number of strings is not that of the shape");
    }
    let header =
        count.checked_add(2).and_then(|words| words.checked_mul(4)).and_then(|end| bytes.split_at_checked(end));
    let Some((_, text)) = header else {
        return Err("the header exceeds the data");
    };
    let mut start = match words.next().flatten() {
        Some(0) => 0,
        _ => return Err("the first offset is not 0"),
    };
    let mut strings = Vec::new();
    for end in words.take(count) {
        let end = end.ok_or("an offset is negative")?;
        let bytes = text.get(start..end).ok_or("an offset is out of order or exceeds the data")?;
        strings.push(std::str::from_utf8(bytes).map_err(|_| "a string is not UTF-8")?);
        start = end;
    }
    Ok(strings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(numbers: &[i32], text: &str) -> Vec<u8> {
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        bytes.extend(text.as_bytes());
        bytes
    }

    #[test]
    fn strings() {
        let bytes = packed(&[2, 0, 1, 3], "aü");
        assert_eq!(unpack_strings(&bytes, 2), Ok(vec!["a", "ü"]));
        assert_eq!(unpack_strings(&[], 0), Ok(vec![]));
        for (numbers, text, count) in [
            (&[2, 0, 1, 3][..], "aü", 3),
            (&[2, 0, 1], "", 2),
            (&[2, 1, 1, 3], "aü", 2),
            (&[2, 0, 2, 3], "aü", 2),
            (&[2, 0, 3, 1], "aü", 2),
            (&[2, 0, -1, 1], "aü", 2),
            (&[2, 0, 1, 9], "aü", 2),
            (&[i32::MAX, 0], "", i32::MAX as usize),
        ] {
            assert!(unpack_strings(&packed(numbers, text), count).is_err(), "{numbers:?}");
        }
    }
}
