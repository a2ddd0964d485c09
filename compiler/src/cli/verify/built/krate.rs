//! The generated crate: one module per case, some dozen cases per binary, built with cargo.

use super::BuildArguments;
use crate::cli::verify::Status;
use crate::element::ElementType;
use crate::output::{Output, Port};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Cases per binary: enough to share what they have in common, few enough that rustc's memory stays small.
const PER_BINARY: usize = 64;

/// A crate in a folder of its own, removed at the end.
pub struct Crate {
    folder: PathBuf,
    keep: bool,
    target: PathBuf,
    name: String,
    dependency: String,
    threads: usize,
    lock: Option<PathBuf>,
}

/// What [`Crate::build`] made.
pub struct Built {
    /// The binaries with the cases in them.
    pub programs: Vec<Program>,
    /// Cases whose code rustc rejects.
    pub broken: BTreeMap<usize, (Status, String)>,
}

/// A binary.
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its cases.
    pub cases: Vec<usize>,
}

impl Crate {
    /// Makes the folder.
    pub fn new(arguments: &BuildArguments) -> Result<Self, String> {
        let temporary = std::env::temp_dir();
        let name = format!("irc-verify-{}-{:x}", std::process::id(), nanoseconds());
        let folder = arguments.keep.clone().unwrap_or_else(|| temporary.join(&name));
        let folder = std::path::absolute(&folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
        let target = arguments.target_dir.clone().unwrap_or_else(|| temporary.join("irc-verify-target"));
        let target = std::path::absolute(&target).map_err(|error| format!("`{}`: {error}", target.display()))?;
        let (dependency, lock) = dependency(arguments.runtime.as_deref())?;
        fs::create_dir_all(folder.join("src/bin"))
            .map_err(|error| format!("cannot create `{}`: {error}", folder.display()))?;
        let keep = arguments.keep.is_some();
        Ok(Crate { folder, keep, target, name, dependency, threads: arguments.threads(), lock })
    }

    /// Threads of every model.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file below the folder.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
    }

    /// Builds the cases (number, number of runs and source). Where rustc rejects some, builds the others.
    pub fn build(&self, sources: &BTreeMap<usize, (usize, &str)>) -> Result<Built, String> {
        self.package()?;
        for (number, (_, source)) in sources {
            self.write(&format!("src/case_{number}.rs"), source.as_bytes())?;
        }
        let mut broken = BTreeMap::new();
        loop {
            let good: Vec<(usize, usize)> =
                sources.iter().filter(|(n, _)| !broken.contains_key(*n)).map(|(n, (runs, _))| (*n, *runs)).collect();
            let programs = self.binaries(&good)?;
            if programs.is_empty() {
                return Ok(Built { programs, broken });
            }
            let Err(errors) = self.cargo()? else { return Ok(Built { programs, broken }) };
            let found = blame(&errors);
            if found.is_empty() {
                return Err(format!("the generated crate does not build:\n{errors}"));
            }
            broken.extend(found);
        }
    }

    /// Builds one binary whose `main.rs` has access to the module `harness` beside it, and installs it in the folder.
    pub fn program(&self, main: &str) -> Result<PathBuf, String> {
        self.package()?;
        self.write(&format!("src/bin/{}.rs", self.name), main.as_bytes())?;
        match self.cargo()? {
            Ok(()) => self.install(&self.binary(&self.name)),
            Err(errors) => Err(format!("the generated crate does not build:\n{errors}")),
        }
    }

    /// Copies a program, as installing it would. Linkers write through mapped memory: the pages of what they have written lie
    /// scattered, which costs a virtual machine up to a third of the time of a model whose weights exceed its caches.
    fn install(&self, built: &Path) -> Result<PathBuf, String> {
        let path = self.folder.join(format!("{}{}", self.name, std::env::consts::EXE_SUFFIX));
        fs::copy(built, &path).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        Ok(path)
    }

    /// Writes what all binaries share.
    fn package(&self) -> Result<(), String> {
        self.write("Cargo.toml", self.manifest().as_bytes())?;
        self.write("src/harness.rs", include_bytes!("harness.rs"))?;
        if let Some(lock) = &self.lock {
            let _ = fs::copy(lock, self.folder.join("Cargo.lock"));
        }
        Ok(())
    }

    fn binary(&self, name: &str) -> PathBuf {
        self.target.join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }

    fn manifest(&self) -> String {
        let Crate { name, dependency, threads, .. } = self;
        let features: &[&str] = if *threads > 1 { &["std", "threads"] } else { &["std"] };
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n[workspace]\n\n\
             [dependencies]\ninclude-ir = {{ {dependency}, default-features = false, features = {features:?} }}\n"
        )
    }

    fn binaries(&self, cases: &[(usize, usize)]) -> Result<Vec<Program>, String> {
        let _ = fs::remove_dir_all(self.folder.join("src/bin"));
        fs::create_dir_all(self.folder.join("src/bin")).map_err(|error| error.to_string())?;
        let mut programs = Vec::new();
        for (index, chunk) in cases.chunks(PER_BINARY).enumerate() {
            let mut main = String::from("//! Cases of one batch.\n#[path = \"../harness.rs\"]\nmod harness;\n");
            for (number, _) in chunk {
                let _ = writeln!(main, "#[path = \"../case_{number}.rs\"]\nmod case_{number};");
            }
            main.push_str("fn main() {\n    harness::main(&[\n");
            for (number, runs) in chunk {
                let _ = writeln!(main, "        ({number}, {runs}, case_{number}::run),");
            }
            main.push_str("    ]);\n}\n");
            let name = format!("{}-{index}", self.name);
            self.write(&format!("src/bin/{name}.rs"), main.as_bytes())?;
            programs
                .push(Program { path: self.binary(&name), cases: chunk.iter().map(|(number, _)| *number).collect() });
        }
        Ok(programs)
    }

    /// Runs cargo; the inner error is what rustc says.
    fn cargo(&self) -> Result<Result<(), String>, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(&cargo);
        command.current_dir(&self.folder).args([
            "build",
            "--release",
            "--quiet",
            "--message-format",
            "short",
            "--keep-going",
        ]);
        command.arg("--target-dir").arg(&self.target);
        // Flags of an outer build, such as -D warnings or a coverage run, are not for this one.
        for variable in ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET"] {
            command.env_remove(variable);
        }
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("cannot start `{}`: {error}", Path::new(&cargo).display()))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(if output.status.success() { Ok(()) } else { Err(text) })
    }
}

impl Drop for Crate {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.folder);
        }
        // The binaries carry the name of this run; the dependencies stay for the next one.
        for folder in ["release", "release/deps", "release/.fingerprint"] {
            let Ok(entries) = fs::read_dir(self.target.join(folder)) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().replace('_', "-");
                if name.starts_with(&self.name) {
                    let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                }
            }
        }
    }
}

fn nanoseconds() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.subsec_nanos())
}

/// The dependency on `include-ir` and a lock file that knows its dependencies.
fn dependency(runtime: Option<&Path>) -> Result<(String, Option<PathBuf>), String> {
    let beside = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime-support"));
    let folder = match runtime {
        Some(folder) => folder,
        None if beside.join("Cargo.toml").exists() => beside,
        None => return Ok((format!("version = \"={}\"", env!("CARGO_PKG_VERSION")), None)),
    };
    let folder = fs::canonicalize(folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    let lock = folder.parent().map(|parent| parent.join("Cargo.lock")).filter(|lock| lock.exists());
    let path = folder.to_str().ok_or_else(|| format!("`{}` is not UTF-8", folder.display()))?;
    Ok((format!("path = {path:?}"), lock))
}

/// Cases that rustc's short messages name, with the first error of each.
fn blame(errors: &str) -> BTreeMap<usize, (Status, String)> {
    let mut broken = BTreeMap::new();
    for line in errors.lines().filter(|line| line.contains("error")) {
        let number = line.split("case_").nth(1).and_then(|rest| rest.split(".rs").next()?.parse().ok());
        if let Some(number) = number {
            let problem = line.split_once("error").map_or(line, |(_, problem)| problem);
            let problem = (Status::Crash, format!("generated code does not compile: error{problem}"));
            broken.entry(number).or_insert(problem);
        }
    }
    broken
}

/// Statements that read the inputs of one run from `io`, and the expression that passes them to the model.
///
/// # Errors
/// The interface has a type that arrays cannot hold.
pub fn inputs(output: &Output) -> Result<(String, String), String> {
    let mut body = String::new();
    let mut fields = Vec::new();
    for (i, port) in output.inputs.iter().enumerate() {
        let (ty, rank) = (rust_type(port.element)?, port.dims.len());
        match sizes(port) {
            Some(dims) => {
                let len: usize = dims.iter().product();
                let _ = writeln!(body, "        let i{i} = io.array::<{ty}, {len}, {rank}>({dims:?})?;");
                fields.push(format!("{}: &i{i}", port.field));
            }
            None => {
                let _ = writeln!(body, "        let i{i} = io.tensor::<{ty}, {rank}>()?;");
                fields.push(format!("{}: include_ir::__private::v1::TensorView::new(&i{i}.0, i{i}.1)", port.field));
            }
        }
    }
    let inputs = if fields.is_empty() {
        String::new()
    } else {
        format!("{}::Inputs {{ {} }}", output.module, fields.join(", "))
    };
    Ok((body, inputs))
}

/// The module of a model, and a function `run` that feeds it.
///
/// # Errors
/// The interface has a type that arrays cannot hold.
pub fn case_source(output: &Output, threads: usize) -> Result<String, String> {
    let team = if threads > 1 { format!("    model.set_threads({threads});\n") } else { String::new() };
    let (mut body, inputs) = inputs(output)?;
    let unwrap = if output.fallible { ".map_err(|error| error.to_string())?" } else { "" };
    let _ = writeln!(body, "        let outputs = model.run({inputs}){unwrap};");
    for port in &output.outputs {
        let field = &port.field;
        match sizes(port) {
            Some(dims) => _ = writeln!(body, "        io.put(&outputs.{field}[..], &{dims:?});"),
            None => _ = writeln!(body, "        io.put(outputs.{field}.data(), &outputs.{field}.dims());"),
        }
    }
    let (module, text) = (&output.module, &output.text);
    let head = "use super::harness::Io;\n\n/// Runs the model on the inputs of the case.\npub fn run(io: &mut Io) -> Result<(), String> {\n";
    Ok(format!(
        "{text}\n{head}    let mut model = {module}::Model::boxed();\n{team}    for _ in 0..io.runs {{\n{body}    }}\n    Ok(())\n}}\n"
    ))
}

fn sizes(port: &Port) -> Option<Vec<usize>> {
    port.dims.iter().map(|dim| dim.as_usize()).collect()
}

/// The type of an element in generated code.
fn rust_type(element: ElementType) -> Result<&'static str, String> {
    use ElementType::*;
    Ok(match element {
        F32 => "f32",
        F64 => "f64",
        F16 => "include_ir::F16",
        Bf16 => "include_ir::Bf16",
        F8e4m3 => "include_ir::F8e4m3",
        F8e5m2 => "include_ir::F8e5m2",
        F8e8m0 => "include_ir::F8e8m0",
        Boolean | U1 | U2 | U3 | U4 | U6 | U8 | Nf4 | F4e2m1 => "u8",
        I4 | I8 => "i8",
        I16 => "i16",
        I32 => "i32",
        I64 => "i64",
        U16 => "u16",
        U32 => "u32",
        U64 => "u64",
        String => return Err("string tensors are not supported".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rustc_errors_are_traced_to_cases() {
        let errors = "src/bin/../case_12.rs:3:4: error[E0308]: mismatched types\nerror: could not compile\nsrc/bin/../case_12.rs:9:4: error: x\n";
        let broken = blame(errors);
        assert_eq!(broken.keys().copied().collect::<Vec<_>>(), [12]);
        assert!(broken[&12].1.contains("E0308"));
    }
}
