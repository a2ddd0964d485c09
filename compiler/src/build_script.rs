//! The build-script front: compiles models from `build.rs`. The only file of the library that reads the environment and prints.

use crate::artifact;
use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::extension::Extension;
use crate::options::{Options, WeightsFile};
use crate::source::{Source, Weights};
use std::fmt;
use std::path::{Path, PathBuf};

/// Compiles a model in a build script; [`Build`] does the same with options.
///
/// The path is relative to the folder of `Cargo.toml`. Writes `<module>.rs` and `<module>.weights.bin` into `OUT_DIR`,
/// where `<module>` is the name of the `.xml` file; `include_ir::include_model!("<module>")` includes them. Tells Cargo to
/// run the build script again when the model changes.
///
/// ```no_run
/// fn main() -> Result<(), include_ir_compiler::BuildError> {
///     include_ir_compiler::build("models/mnist.xml")
/// }
/// ```
///
/// # Errors
/// All problems of the model. A `main` that returns them fails the build and shows them.
pub fn build(model: impl AsRef<Path>) -> Result<(), BuildError> {
    Build::new(model).run()
}

/// A compilation in a build script.
///
/// ```no_run
/// # fn main() -> Result<(), include_ir_compiler::BuildError> {
/// use include_ir_compiler::{Build, Options, options::Kernels};
/// Build::new("models/mnist.xml").options(Options::default().kernels(Kernels::Reference)).run()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Build {
    model: PathBuf,
    options: Options,
    out_dir: Option<PathBuf>,
}

impl Build {
    /// A compilation of this `.xml` file with default options.
    pub fn new(model: impl AsRef<Path>) -> Self {
        Build { model: model.as_ref().to_path_buf(), options: Options::default(), out_dir: None }
    }

    /// Sets all options, added operations included.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Adds an operation to the compiler's own.
    #[must_use]
    pub fn operation(mut self, extension: Extension) -> Self {
        self.options.extensions.push(extension);
        self
    }

    /// Writes into this folder instead of `OUT_DIR`.
    #[must_use]
    pub fn out_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(folder.into());
        self
    }

    /// Compiles, writes what changed and prints Cargo's instructions to standard output.
    ///
    /// # Errors
    /// All problems of the model, of the options and of the files.
    pub fn run(self) -> Result<(), BuildError> {
        let root = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
        let Some(folder) = self.out_dir.or_else(|| std::env::var_os("OUT_DIR").map(PathBuf::from)) else {
            let problem =
                Diagnostic::error(&codes::OPTION, "`OUT_DIR` is not set and no folder to write into is given");
            let help = "call this from a build script, or give a folder with `Build::out_dir`";
            return Err(BuildError(problem.help(help).into()));
        };
        let mut options = self.options;
        options.bin = options.bin.map(|bin| root.join(bin));
        let model = root.join(&self.model);
        println!("cargo:rerun-if-changed={}", model.display());
        let artifacts = generate(&model, options, &folder)?;
        for file in artifacts.files.iter().filter(|file| **file != model) {
            println!("cargo:rerun-if-changed={}", file.display());
        }
        for warning in &artifacts.warnings {
            let text = crate::diag::render::text(warning, artifacts.warnings.source());
            // One instruction is one line; Cargo shows it below the package's name.
            println!("cargo:warning={}", text.trim_end().replace('\n', " "));
        }
        Ok(())
    }
}

/// What [`generate`] has written and read.
#[derive(Clone, Debug)]
pub struct Artifacts {
    /// The Rust source.
    pub source: PathBuf,
    /// The files that the model consists of.
    pub files: Vec<PathBuf>,
    /// Problems that did not stop the compilation.
    pub warnings: Diagnostics,
}

/// Compiles a model into `<module>.rs` and `<module>.weights.bin` in a folder: [`Build`] without Cargo. Prints nothing.
///
/// # Errors
/// All problems of the model, of the options and of the files.
pub fn generate(model: &Path, mut options: Options, folder: &Path) -> Result<Artifacts, Diagnostics> {
    let source = Source::from_path(model, options.bin.as_deref())?;
    if let Weights::Missing(Some(expected)) = &source.weights
        && options.bin.is_some()
    {
        let problem = format!("cannot read the weights file `{}`", expected.display());
        return Err(Diagnostic::error(&codes::IO, problem).into());
    }
    let stem = model.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy());
    let module = options.module.get_or_insert_with(|| stem.into_owned()).clone();
    // Absolute, so that large weights can go through the assembler; the folder is private to this build anyway.
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    options.weights_file = WeightsFile::At(folder.join(format!("{}.weights.bin", file_name(&module))));
    let output = crate::compile(&source, &options)?;
    if let WeightsFile::At(path) = &options.weights_file
        && !output.weights.is_empty()
    {
        artifact::replace(path, &output.weights, None)?;
    }
    let path = folder.join(format!("{}.rs", output.module));
    artifact::replace(&path, output.text.as_bytes(), None)?;
    let files = source.files().into_iter().map(Path::to_path_buf).collect();
    Ok(Artifacts { source: path, files, warnings: output.warnings })
}

/// A module name as part of a file name.
fn file_name(module: &str) -> String {
    module.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect()
}

/// The problems that failed a build script. `Debug` shows them readably, because that is what Rust prints for a `main` that
/// returns an error.
pub struct BuildError(Diagnostics);

impl BuildError {
    /// The problems.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.0
    }
}

impl From<Diagnostics> for BuildError {
    fn from(diagnostics: Diagnostics) -> Self {
        BuildError(diagnostics)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model does not compile\n{}", self.0)
    }
}

impl std::error::Error for BuildError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_model_is_named_with_its_absolute_path() {
        let error = Build::new("no/such.xml").out_dir(std::env::temp_dir()).run().unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("no/such.xml") && text.contains(env!("CARGO_MANIFEST_DIR")), "{text}");
    }
}
