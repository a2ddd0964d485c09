//! Files mapped read-only into memory.

use memmap2::Mmap;
use std::path::Path;

/// A file whose bytes are paged in on demand.
#[derive(Debug)]
pub struct MappedFile {
    // Mapping nothing is an error on some systems.
    map: Option<Mmap>,
}

impl MappedFile {
    /// Maps the whole file.
    ///
    /// # Errors
    /// The file cannot be opened or mapped; a folder cannot.
    pub fn open(path: &Path) -> std::io::Result<MappedFile> {
        let file = std::fs::File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        if metadata.is_file() && metadata.len() == 0 {
            return Ok(MappedFile { map: None });
        }
        // SAFETY: the map is read-only and private to this value, and callers only get `&[u8]`. What remains is that
        // another process truncates or rewrites the file meanwhile; as in every reader of mapped weights, that is
        // excluded by documentation: the weights file must not change while it is in use.
        let map = unsafe { Mmap::map(&file)? };
        Ok(MappedFile { map: Some(map) })
    }

    /// All bytes of the file. The file must not be changed while the value lives.
    pub fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }
}
