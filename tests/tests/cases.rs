//! Every case directory through the interpreter, and a selection of them through compiled Rust, with kernels and without.
//!
//! `cargo test -p include-ir-tests --test cases FAMILY` runs one family; with `INCLUDE_IR_ALL_CASES=1` all cases are built.

use include_ir_compiler::Options;
use include_ir_compiler::cli::verify::{self, Outcome, Status, built::BuildArguments};
use include_ir_compiler::options::Kernels;
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How many cases of every family are built, spread evenly: as users get them, and as nothing but loops.
const BUILT: &[(&str, usize, Kernels)] =
    &[("built", 4, Kernels::Auto), ("built_without_kernels", 1, Kernels::Reference)];

/// Cases that are built in any case: LLVM compiled the first one wrongly for AVX-512 (`runtime/src/order.rs`).
const ALWAYS: &[&str] = &["softmax/large_values"];

/// Cases (prefixes of `family/case`) that need what the compiler does not have yet. Each must be refused with a clear
/// message: a case that passes, crashes or gives wrong numbers fails the test.
const REFUSED: &[&str] = &[];

fn main() {
    let mut arguments = Arguments::from_args();
    // Interpretation is parallel inside.
    arguments.test_threads = Some(1);
    let families = families();
    let mut trials = Vec::new();
    for (family, cases) in &families {
        let cases = cases.clone();
        trials.push(Trial::test(format!("interpreted::{family}"), move || {
            judge(&verify::interpret(&cases, &Options::default()))
        }));
    }
    let all = std::env::var_os("INCLUDE_IR_ALL_CASES").is_some();
    for (name, per_family, kernels) in BUILT {
        let per_family = if all { usize::MAX } else { *per_family };
        let mut selected: Vec<PathBuf> = families.values().flat_map(|cases| select(cases, per_family)).collect();
        let always = families.values().flatten().filter(|case| ALWAYS.iter().any(|name| case.ends_with(name)));
        selected.extend(always.filter(|case| !selected.contains(case)).cloned().collect::<Vec<_>>());
        let options = Options::default().kernels(*kernels);
        trials.push(Trial::test(*name, move || built(&selected, &options)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// The cases of every family.
fn families() -> BTreeMap<String, Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut families: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for family in folders(&root) {
        let name = family.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let cases: Vec<PathBuf> =
            folders(&family).into_iter().filter(|case| case.join("expected.npz").exists()).collect();
        families.insert(name, cases);
    }
    assert!(families.len() > 20, "{} holds the cases", root.display());
    families
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn select(cases: &[PathBuf], count: usize) -> Vec<PathBuf> {
    let step = cases.len().div_ceil(count).max(1);
    cases.iter().step_by(step).cloned().collect()
}

fn built(cases: &[PathBuf], options: &Options) -> Result<(), Failed> {
    // Below the target folder, so that the runtime is built once for all runs of the tests.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cases");
    let arguments = BuildArguments { target_dir: Some(target), ..BuildArguments::default() };
    judge(&verify::build(cases, options, &arguments)?)
}

fn judge(outcomes: &[Outcome]) -> Result<(), Failed> {
    let wrong: Vec<String> = outcomes.iter().filter_map(problem).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{} of {} cases fail:\n{}", wrong.len(), outcomes.len(), wrong.join("\n")).into())
}

fn problem(outcome: &Outcome) -> Option<String> {
    let path = Path::new(&outcome.case);
    let part = |path: Option<&Path>| path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let name = format!("{}/{}", part(path.parent()), part(Some(path)));
    let refused = REFUSED.iter().any(|prefix| name.starts_with(prefix));
    match (refused, outcome.status) {
        (false, Status::Pass) | (true, Status::Unsupported | Status::Rejected) => None,
        (true, Status::Pass) => Some(format!("  {name} passes: take it off the list of refused cases")),
        (_, status) => Some(format!("  {name}: {}: {}", status.word(), outcome.message)),
    }
}
