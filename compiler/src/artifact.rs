//! Files that a front writes: replaced as a whole, only where their bytes differ, never half-written.

use crate::diag::{Diagnostic, codes};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::SystemTime;

/// Makes `path` hold `bytes` and tells whether it had to be written.
///
/// The bytes go to a temporary file in the same folder that then takes the name: a reader sees the old or the new file,
/// and an interrupted write leaves the old one. With `modified`, the file gets this time stamp: build systems that
/// compare times then see an output that is as old as what it was made from. A device or pipe is written into instead:
/// a renamed file would take its place (`-o /dev/null`, run as root, would leave the system without one). A symbolic link
/// stays, and the file that it points to is replaced.
///
/// # Errors
/// The folder or file cannot be written.
pub fn replace(path: &Path, bytes: &[u8], modified: Option<SystemTime>) -> Result<bool, Diagnostic> {
    if holds(path, bytes) {
        return Ok(false);
    }
    let failure =
        |error: std::io::Error| Diagnostic::error(&codes::IO, format!("cannot write `{}`: {error}", path.display()));
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    if fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir()) {
        return fs::write(path, bytes).map(|()| true).map_err(failure);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() {
        return Err(failure(std::io::ErrorKind::IsADirectory.into()));
    }
    fs::create_dir_all(folder).map_err(failure)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}.part", std::process::id()));
    let written = fs::File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        if let Some(modified) = modified {
            file.set_modified(modified)?;
        }
        drop(file);
        fs::rename(&temporary, path)
    });
    written.map(|()| true).map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failure(error)
    })
}

/// Whether the file exists and holds exactly these bytes.
pub fn holds(path: &Path, bytes: &[u8]) -> bool {
    let same_length = fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() == bytes.len() as u64);
    same_length && fs::File::open(path).is_ok_and(|file| reads(file, bytes))
}

/// Whether a file reads as these bytes; a part at a time, because weights may be large.
fn reads(mut file: fs::File, bytes: &[u8]) -> bool {
    const PART: usize = 1 << 20;
    let mut part = vec![0; PART.min(bytes.len())];
    bytes.chunks(PART).all(|expected| {
        let old = part.get_mut(..expected.len()).unwrap_or_default();
        file.read_exact(old).is_ok() && old == expected
    })
}

/// The latest time at which one of the files was changed.
pub fn latest_change<'a>(files: impl IntoIterator<Item = &'a Path>) -> Option<SystemTime> {
    files.into_iter().filter_map(|file| fs::metadata(file).ok()?.modified().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn writes_into_devices_and_through_links() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        assert!(replace(Path::new("/dev/null"), b"x", None).unwrap());
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let folder = std::env::temp_dir().join(format!("include-ir-link-{}", std::process::id()));
        let (file, link) = (folder.join("file"), folder.join("link"));
        replace(&file, b"old", None).unwrap();
        symlink(&file, &link).unwrap();
        assert!(replace(&link, b"new", None).unwrap());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn writes_once_and_keeps_times() {
        let folder = std::env::temp_dir().join(format!("include-ir-artifact-{}", std::process::id()));
        let path = folder.join("a/b.rs");
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        assert!(replace(&path, b"one", Some(time)).unwrap());
        assert!(!replace(&path, b"one", None).unwrap());
        assert_eq!(latest_change([path.as_path()]), Some(time));
        assert!(replace(&path, b"two", None).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert!(replace(&folder, b"x", None).is_err());
        assert_eq!(fs::read_dir(folder.join("a")).unwrap().count(), 1, "no temporary files stay");
        fs::remove_dir_all(&folder).unwrap();
    }
}
