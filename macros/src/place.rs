//! Where a macro may put a file: it owns no output folder, so it takes Cargo's or rustc's.

use include_ir_compiler::diag::{Diagnostic, Diagnostics, codes};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The weights file for this use of a model: in `OUT_DIR` where the package has a build script, else beside the output of
/// rustc. The name tells different models and options of one crate apart and stays the same from build to build.
pub fn for_weights(model: &Path, module: &str, options: &str) -> Option<PathBuf> {
    let mut hash = DefaultHasher::new();
    let krate = std::env::var("CARGO_CRATE_NAME").unwrap_or_default();
    (model, options, krate, env!("CARGO_PKG_VERSION")).hash(&mut hash);
    let module: String = module.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let name = format!("include-ir-{module}-{:016x}.weights.bin", hash.finish());
    let out_dir = std::env::var_os("OUT_DIR").map(PathBuf::from);
    let folder = out_dir.or_else(|| output_folder(std::env::args_os().map(PathBuf::from)))?;
    Some(std::path::absolute(folder).ok()?.join(name))
}

/// The folder that rustc (`--out-dir`) or rustdoc (`-o`, `--output`) writes to.
fn output_folder(arguments: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or("");
        match text {
            "--out-dir" => return arguments.next(),
            // Documentation is published: its data belongs beside it, not inside.
            "-o" | "--output" => return arguments.next()?.parent().map(Path::to_path_buf),
            _ => {}
        }
        if let Some(folder) = text.strip_prefix("--out-dir=") {
            return Some(folder.into());
        }
    }
    None
}

/// Whether an editor expands the macro: it needs names and types, not weights.
pub fn is_analysis() -> bool {
    std::env::var_os("RUST_ANALYZER_INTERNALS_DO_NOT_USE").is_some()
}

/// There is no place.
pub fn none() -> Diagnostics {
    let problem = "there is no folder for the weights: rustc was started without `--out-dir`, as doctests are";
    Diagnostic::error(&codes::IO, problem)
        .help("give the package a `build.rs` (an empty `fn main() {}` will do) or compile the model there")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(arguments: &[&str]) -> Option<PathBuf> {
        output_folder(arguments.iter().map(PathBuf::from))
    }

    #[test]
    fn folder_of_each_tool() {
        assert_eq!(folder(&["rustc", "x.rs", "--out-dir", "/t/deps"]), Some("/t/deps".into()));
        assert_eq!(folder(&["rustc", "--out-dir=/t"]), Some("/t".into()));
        assert_eq!(folder(&["rustdoc", "x.rs", "-o", "/t/doc"]), Some("/t".into()));
        assert_eq!(folder(&["rustdoc", "--test", "x.rs"]), None);
    }
}
