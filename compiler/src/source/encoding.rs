//! Text encodings of XML files: a byte order mark or the first characters decide, UTF-8 is the default.

use std::sync::Arc;

/// Text that could not be decoded.
pub(super) struct Failure {
    /// Name of the encoding that was tried.
    pub encoding: &'static str,
    /// Offset of the first bad byte in the file.
    pub offset: usize,
    /// What could be decoded up to there.
    pub valid: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Encoding {
    Utf8,
    Utf16 { big: bool },
    Utf32 { big: bool },
    Latin1,
}

/// Decodes a file to UTF-8 without its byte order mark.
pub(super) fn decode(bytes: Vec<u8>) -> Result<Arc<str>, Failure> {
    let (encoding, mark) = sniff(&bytes);
    match encoding {
        Encoding::Utf8 => utf8(bytes, mark),
        Encoding::Latin1 => Ok(bytes.iter().map(|&b| char::from(b)).collect::<String>().into()),
        Encoding::Utf16 { big } => utf16(&bytes, mark, big),
        Encoding::Utf32 { big } => utf32(&bytes, mark, big),
    }
}

/// The encoding and the length of the byte order mark.
fn sniff(bytes: &[u8]) -> (Encoding, usize) {
    use Encoding::{Latin1, Utf8, Utf16, Utf32};
    match bytes {
        [0, 0, 0xfe, 0xff, ..] => (Utf32 { big: true }, 4),
        [0xff, 0xfe, 0, 0, ..] => (Utf32 { big: false }, 4),
        [0xfe, 0xff, ..] => (Utf16 { big: true }, 2),
        [0xff, 0xfe, ..] => (Utf16 { big: false }, 2),
        [0xef, 0xbb, 0xbf, ..] => (Utf8, 3),
        // No mark: `<` in each width.
        [0, 0, 0, b'<', ..] => (Utf32 { big: true }, 0),
        [b'<', 0, 0, 0, ..] => (Utf32 { big: false }, 0),
        [0, b'<', 0, _, ..] => (Utf16 { big: true }, 0),
        [b'<', 0, _, 0, ..] => (Utf16 { big: false }, 0),
        _ if declares_latin1(bytes) => (Latin1, 0),
        _ => (Utf8, 0),
    }
}

/// Whether the XML declaration names ISO-8859-1.
fn declares_latin1(bytes: &[u8]) -> bool {
    let Some(end) = bytes.starts_with(b"<?xml").then(|| bytes.iter().take(256).position(|&b| b == b'>')).flatten()
    else {
        return false;
    };
    let declaration: Vec<u8> = bytes.iter().take(end).map(u8::to_ascii_lowercase).collect();
    let declaration = String::from_utf8_lossy(&declaration);
    let value = declaration
        .split_once("encoding")
        .map_or("", |(_, rest)| rest)
        .trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '=' || c == '"' || c == '\'');
    value.starts_with("iso-8859-1\"") || value.starts_with("iso-8859-1'") || value.starts_with("latin1")
}

fn utf8(mut bytes: Vec<u8>, mark: usize) -> Result<Arc<str>, Failure> {
    bytes.drain(..mark);
    String::from_utf8(bytes).map(Arc::from).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let mut bytes = error.into_bytes();
        bytes.truncate(offset);
        Failure { encoding: "UTF-8", offset: offset + mark, valid: String::from_utf8_lossy(&bytes).into_owned() }
    })
}

fn utf16(bytes: &[u8], mark: usize, big: bool) -> Result<Arc<str>, Failure> {
    let body = bytes.get(mark..).unwrap_or(&[]);
    let (pairs, rest) = body.as_chunks::<2>();
    let units = pairs.iter().map(|&pair| if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) });
    let mut text = String::with_capacity(body.len() / 2);
    let mut offset = mark;
    for unit in char::decode_utf16(units) {
        let Ok(c) = unit else {
            return Err(Failure { encoding: "UTF-16", offset, valid: text });
        };
        offset += 2 * c.len_utf16();
        text.push(c);
    }
    if rest.is_empty() { Ok(text.into()) } else { Err(Failure { encoding: "UTF-16", offset, valid: text }) }
}

fn utf32(bytes: &[u8], mark: usize, big: bool) -> Result<Arc<str>, Failure> {
    let body = bytes.get(mark..).unwrap_or(&[]);
    let (quads, rest) = body.as_chunks::<4>();
    let mut text = String::with_capacity(body.len() / 4);
    let mut offset = mark;
    for &quad in quads {
        let unit = if big { u32::from_be_bytes(quad) } else { u32::from_le_bytes(quad) };
        let Some(c) = char::from_u32(unit) else {
            return Err(Failure { encoding: "UTF-32", offset, valid: text });
        };
        offset += 4;
        text.push(c);
    }
    if rest.is_empty() { Ok(text.into()) } else { Err(Failure { encoding: "UTF-32", offset, valid: text }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "<net name=\"ü𝄞\"/>";

    fn read(bytes: Vec<u8>) -> String {
        decode(bytes).ok().unwrap().to_string()
    }

    fn words(mark: bool, width: usize, big: bool) -> Vec<u8> {
        let text = format!("{}{TEXT}", if mark { "\u{feff}" } else { "" });
        let order = |mut bytes: Vec<u8>| {
            if big {
                bytes.reverse();
            }
            bytes
        };
        if width == 2 {
            text.encode_utf16().flat_map(|u| order(u.to_le_bytes().to_vec())).collect()
        } else {
            text.chars().flat_map(|c| order(u32::from(c).to_le_bytes().to_vec())).collect()
        }
    }

    #[test]
    fn every_encoding_with_and_without_mark() {
        assert_eq!(read(TEXT.into()), TEXT);
        assert_eq!(read(format!("\u{feff}{TEXT}").into()), TEXT);
        for width in [2, 4] {
            for big in [false, true] {
                for mark in [false, true] {
                    assert_eq!(read(words(mark, width, big)), TEXT, "{width} {big} {mark}");
                }
            }
        }
        let latin: &[u8] = b"<?xml version='1.0' encoding='ISO-8859-1'?><net name='\xfc'/>";
        assert!(read(latin.to_vec()).contains('ü'));
    }

    #[test]
    fn damage_is_located() {
        let failure = decode(b"\xef\xbb\xbf<a\xff".to_vec()).err().unwrap();
        assert_eq!((failure.offset, failure.valid.as_str()), (5, "<a"));
        for width in [2, 4] {
            let mut bytes = words(true, width, false);
            bytes.pop();
            assert!(decode(bytes).is_err());
        }
        let lone = [0xff, 0xfe, 0x3c, 0, 0, 0xd8, 0x41, 0];
        assert_eq!(decode(lone.to_vec()).err().unwrap().offset, 4);
    }
}
