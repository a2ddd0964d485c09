//! The files of a model: the XML text, decoded, and the bytes of the weights.

use crate::diag::{Diagnostic, Diagnostics, SourceText, Span, codes, quote};
use include_ir_runtime::mapped::MappedFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod encoding;

/// Where the bytes of the constants come from.
#[derive(Clone, Debug)]
pub enum Weights {
    /// There is no weights file; the path is where it was expected, if any.
    Missing(Option<PathBuf>),
    /// A file that is mapped read-only.
    Mapped(PathBuf, Arc<MappedFile>),
    /// Bytes in memory.
    Memory(Arc<[u8]>),
}

impl Weights {
    /// All bytes; empty if there is no file.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Weights::Missing(_) => &[],
            Weights::Mapped(_, file) => file.bytes(),
            Weights::Memory(bytes) => bytes,
        }
    }
}

/// A model as it lies on disk: `model.xml` and `model.bin`.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path or name of the XML, for messages.
    pub xml_name: String,
    /// The XML as UTF-8; all spans count its bytes.
    pub xml: Arc<str>,
    /// The bytes of the constants.
    pub weights: Weights,
    xml_path: Option<PathBuf>,
}

impl Source {
    /// Reads a model from disk. Without `weights`, the file beside the XML with the extension `.bin` is used;
    /// it may be missing as long as no constant needs it.
    ///
    /// # Errors
    /// A file cannot be read, or the XML is damaged text.
    pub fn from_path(xml: &Path, weights: Option<&Path>) -> Result<Source, Diagnostics> {
        let bytes = std::fs::read(xml).map_err(|error| cannot_read("model", xml, &error))?;
        let name = xml.display().to_string();
        let text = decode(&name, bytes)?;
        Ok(Source {
            xml_name: name,
            xml: text,
            weights: open_weights(xml, weights)?,
            xml_path: Some(xml.to_path_buf()),
        })
    }

    /// A model from bytes in memory; `xml_name` is only used in messages.
    ///
    /// # Errors
    /// The XML is damaged text.
    pub fn from_memory(
        xml_name: impl Into<String>,
        xml: impl Into<Vec<u8>>,
        weights: impl Into<Arc<[u8]>>,
    ) -> Result<Source, Diagnostics> {
        let xml_name = xml_name.into();
        let xml = decode(&xml_name, xml.into())?;
        Ok(Source { xml_name, xml, weights: Weights::Memory(weights.into()), xml_path: None })
    }

    /// The file name of the XML without folder and extension: what the generated module is called.
    pub fn stem(&self) -> String {
        Path::new(&self.xml_name).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }

    /// The files on disk that were read, for rebuild tracking: the XML, then the weights.
    pub fn files(&self) -> Vec<&Path> {
        let weights = match &self.weights {
            Weights::Mapped(path, _) => Some(path.as_path()),
            _ => None,
        };
        self.xml_path.as_deref().into_iter().chain(weights).collect()
    }

    /// Name and text of the XML, for [`Diagnostics::set_source`].
    pub fn text(&self) -> SourceText {
        SourceText::new(self.xml_name.clone(), self.xml.clone())
    }
}

fn open_weights(xml: &Path, weights: Option<&Path>) -> Result<Weights, Diagnostics> {
    let path = match weights {
        Some(path) => path.to_path_buf(),
        None => {
            let path = xml.with_extension("bin");
            if !path.exists() {
                return Ok(Weights::Missing(Some(path)));
            }
            path
        }
    };
    let file = MappedFile::open(&path).map_err(|error| cannot_read("weights file", &path, &error))?;
    Ok(Weights::Mapped(path, Arc::new(file)))
}

fn cannot_read(what: &str, path: &Path, error: &std::io::Error) -> Diagnostics {
    // The absolute path shows which folder a relative one was resolved against.
    let tried = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let shown = quote_path(&tried);
    Diagnostic::error(&codes::IO, format!("cannot read the {what} {shown}: {error}")).into()
}

/// A path in backticks, escaped but never cut: people copy paths.
fn quote_path(path: &Path) -> String {
    let text = path.display().to_string();
    let mut out = String::from("`");
    text.chars().for_each(|c| crate::diag::push_visible(&mut out, c));
    out.push('`');
    out
}

fn decode(name: &str, bytes: Vec<u8>) -> Result<Arc<str>, Diagnostics> {
    encoding::decode(bytes).map_err(|failure| {
        let encoding = quote(failure.encoding);
        let offset = failure.offset;
        let start = failure.valid.len();
        let mut diagnostics = Diagnostics::from(
            Diagnostic::error(&codes::ENCODING, format!("byte {offset} of the file is not valid {encoding}"))
                .at(Span::new(start, start))
                .help("save the file as UTF-8, or fetch it again if it was damaged on the way"),
        );
        diagnostics.set_source(SourceText::new(name, failure.valid));
        diagnostics
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_text_is_located() {
        let error = Source::from_memory("m.xml", b"<net>\n <a\xff".to_vec(), Vec::new()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(codes::ENCODING.id) && text.contains("m.xml:2:4"), "{text}");
    }

    #[test]
    fn missing_files() {
        let error = Source::from_path(Path::new("no/such.xml"), None).unwrap_err();
        assert!(error.to_string().contains("no/such.xml"), "{error}");
        let folder = std::env::temp_dir().join(format!("include-ir-source-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let xml = folder.join("a.b.xml");
        std::fs::write(&xml, "<net/>").unwrap();
        let source = Source::from_path(&xml, None).unwrap();
        assert!(matches!(&source.weights, Weights::Missing(Some(path)) if path.ends_with("a.b.bin")));
        assert_eq!(source.files().len(), 1);
        assert!(Source::from_path(&xml, Some(&folder.join("none.bin"))).is_err());
        std::fs::write(folder.join("a.b.bin"), [1, 2, 3]).unwrap();
        let source = Source::from_path(&xml, None).unwrap();
        assert_eq!((source.weights.bytes(), source.files().len()), (&[1, 2, 3][..], 2));
        std::fs::write(folder.join("empty.bin"), []).unwrap();
        let source = Source::from_path(&xml, Some(&folder.join("empty.bin"))).unwrap();
        assert!(source.weights.bytes().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
