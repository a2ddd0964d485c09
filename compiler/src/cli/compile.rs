//! `irc compile`: a model to a Rust module and a weights file.

use super::arguments::OptionArguments;
use super::{Failure, Reporter, open, print};
use crate::artifact;
use crate::diag::{Diagnostic, codes};
use crate::options::{Emit, Options, WeightsFile};
use crate::output::Output;
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Arguments of `irc compile`.
#[derive(Args, Debug)]
pub struct CompileArguments {
    /// The model: an .xml file, or - for standard input.
    model: PathBuf,
    /// The file to write, or - for standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// The weights file to write. Default: beside the output, named after the module.
    #[arg(long, value_name = "FILE")]
    weights_out: Option<PathBuf>,
    /// Write nothing; exit with 1 if a file that would be written is missing or differs.
    #[arg(long, requires = "out")]
    check: bool,
    /// Write a Makefile rule that says what the output depends on.
    #[arg(long, value_name = "FILE")]
    depfile: Option<PathBuf>,
    /// Print the sizes of the compiled model to standard error.
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    options: OptionArguments,
}

/// Compiles and writes what differs.
pub fn compile(arguments: CompileArguments, reporter: &Reporter) -> Result<(), Failure> {
    let mut options = arguments.options.options.clone();
    let to_stdout = arguments.out == Path::new("-");
    if arguments.check && to_stdout {
        return Err(usage("`--check` needs `--out FILE` to compare with").into());
    }
    if options.module.is_none() {
        options.module = Some(module_name(&arguments));
    }
    options.weights_file = weights_file(&arguments, to_stdout);
    let source = open(&arguments.model, &options)?;
    let output = crate::compile(&source, &options)?;
    reporter.report(&output.warnings);

    let mut files: Vec<(PathBuf, &[u8])> = Vec::new();
    if !output.weights.is_empty() && is_rust(&options) {
        files.push((weights_path(&arguments, &output, to_stdout)?, &output.weights));
    }
    if !to_stdout {
        files.push((arguments.out.clone(), output.text.as_bytes()));
    }
    if arguments.check {
        return check(&files, reporter);
    }
    for (path, bytes) in &files {
        artifact::replace(path, bytes, None)?;
    }
    if let Some(depfile) = &arguments.depfile {
        artifact::replace(depfile, rule(&files, &source.files()).as_bytes(), None)?;
    }
    if arguments.report {
        reporter.remark(&report(&output));
    }
    for row in &output.times {
        anstream::eprintln!("{:>10.3} ms  {}", row.time.as_secs_f64() * 1e3, row.pass);
    }
    if to_stdout { print(&output.text) } else { Ok(()) }
}

fn usage(message: &str) -> Diagnostic {
    Diagnostic::error(&codes::OPTION, message)
}

fn is_rust(options: &Options) -> bool {
    options.emit == Emit::Rust && options.stop_after.is_none()
}

/// The stem of the model's file; of the output's where the model comes from standard input.
fn module_name(arguments: &CompileArguments) -> String {
    let paths = [&arguments.model, &arguments.out];
    let stem = paths.iter().find(|path| path.as_path() != Path::new("-")).and_then(|path| path.file_stem());
    stem.map_or_else(|| "model".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// How the generated source refers to its weights: by name if they lie in the same folder, else by absolute path.
fn weights_file(arguments: &CompileArguments, to_stdout: bool) -> WeightsFile {
    let name = match &arguments.weights_out {
        None => None,
        Some(path) if !to_stdout && path.parent() == arguments.out.parent() && path.file_name().is_some() => {
            path.file_name().map(|name| name.to_string_lossy().into_owned())
        }
        Some(path) => return WeightsFile::At(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
    };
    match package_folder(&arguments.out) {
        Some(folder) if !to_stdout => WeightsFile::InPackage { folder, name },
        _ => WeightsFile::Beside(name),
    }
}

/// Folder of the output relative to the Cargo package in which it lies.
fn package_folder(out: &Path) -> Option<String> {
    let folder = std::path::absolute(out).ok()?.parent()?.to_path_buf();
    let package = folder.ancestors().find(|folder| folder.join("Cargo.toml").is_file())?;
    let parts: Vec<&str> =
        folder.strip_prefix(package).ok()?.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
    Some(parts.join("/"))
}

fn weights_path(arguments: &CompileArguments, output: &Output, to_stdout: bool) -> Result<PathBuf, Diagnostic> {
    if let Some(path) = &arguments.weights_out {
        return Ok(path.clone());
    }
    if to_stdout {
        let problem = "the model has weights, and standard output leaves no place for them";
        return Err(usage(problem).help("give `--out FILE` or `--weights-out FILE`"));
    }
    Ok(arguments.out.with_file_name(&output.weights_name))
}

fn check(files: &[(PathBuf, &[u8])], reporter: &Reporter) -> Result<(), Failure> {
    let mut stale = false;
    for (path, bytes) in files {
        if !artifact::holds(path, bytes) {
            stale = true;
            let state = if path.exists() { "is out of date" } else { "is missing" };
            reporter.remark(&format!("`{}` {state}", path.display()));
        }
    }
    if stale { Err(Failure::Negative) } else { Ok(()) }
}

/// A rule in the syntax of make: outputs, a colon, inputs; spaces, `#` and `$` escaped.
fn rule(files: &[(PathBuf, &[u8])], sources: &[&Path]) -> String {
    let escape = |path: &Path| {
        let text = path.display().to_string();
        text.replace('\\', "/").replace('$', "$$").replace(' ', "\\ ").replace('#', "\\#")
    };
    let targets: Vec<String> = files.iter().map(|(path, _)| escape(path)).collect();
    let sources: Vec<String> = sources.iter().map(|path| escape(path)).collect();
    format!("{}: {}\n", targets.join(" "), sources.join(" "))
}

fn report(output: &Output) -> String {
    let sizes = &output.sizes;
    let mut text = format!("module `{}`\n", output.module);
    for (name, value, unit) in [
        ("arena", sizes.arena as u64, "bytes"),
        ("live at most", sizes.peak_live as u64, "bytes"),
        ("state", sizes.state as u64, "bytes"),
        ("weights", sizes.weights as u64, "bytes"),
        ("steps", sizes.steps as u64, ""),
        ("work", sizes.flops, "floating-point operations"),
    ] {
        let _ = writeln!(text, "{name:>14} {value:>14} {unit}");
    }
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_escape_what_make_reads_specially() {
        let files = [(PathBuf::from("a b.rs"), &b""[..])];
        assert_eq!(rule(&files, &[Path::new("m$.xml"), Path::new("m#.bin")]), "a\\ b.rs: m$$.xml m\\#.bin\n");
    }
}
