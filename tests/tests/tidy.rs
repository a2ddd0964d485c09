//! The invariants of ARCHITECTURE.md that a program can check.

use proc_macro2::Span;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::Visit;

const MAX_FILE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 100;
const VAGUE_NAMES: [&str; 5] = ["utils", "util", "helpers", "manager", "common"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All Rust sources that people write, with their path relative to the workspace.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut pending = vec![root()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder").map(|e| e.expect("an entry").path()) {
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if entry.is_dir()
                && !name.starts_with('.')
                && !["target", "generated", "golden", "ui"].contains(&name.as_str())
            {
                pending.push(entry);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&entry).expect("a UTF-8 source");
                let path = entry.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned();
                if !text.starts_with("// @generated") {
                    files.push((path, text));
                }
            }
        }
    }
    files.sort();
    assert!(files.len() > 50, "the sources were not found");
    files
}

fn report(problems: Vec<String>) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut problems = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().count();
        if lines > MAX_FILE_LINES {
            problems.push(format!("{path}: {lines} lines"));
        }
        let is_test_module = path.ends_with("tests.rs") && path.contains("/src/");
        if !text.starts_with("//!") && !is_test_module {
            problems.push(format!("{path}: does not open with a sentence of `//!`"));
        }
        let stem = Path::new(&path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if VAGUE_NAMES.contains(&stem.as_str()) {
            problems.push(format!("{path}: `{stem}` does not say what is inside"));
        }
    }
    report(problems);
}

struct Functions {
    path: String,
    problems: Vec<String>,
}

impl Functions {
    fn check(&mut self, name: &syn::Ident, whole: Span) {
        let lines = whole.end().line - whole.start().line + 1;
        if lines > MAX_FUNCTION_LINES {
            self.problems.push(format!("{}:{}: `{name}` has {lines} lines", self.path, whole.start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.sig.ident, item.block.span());
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.sig.ident, item.block.span());
        syn::visit::visit_impl_item_fn(self, item);
    }
}

#[test]
fn functions_are_short() {
    let mut problems = Vec::new();
    for (path, text) in sources() {
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut functions = Functions { path, problems: Vec::new() };
        functions.visit_file(&file);
        problems.append(&mut functions.problems);
    }
    report(problems);
}

/// Functions that are neither generic nor `#[inline]`, in code that is not for tests.
#[derive(Default)]
struct Eager(Vec<String>);

impl Eager {
    fn check(&mut self, attributes: &[syn::Attribute], signature: &syn::Signature) {
        let generic = signature.generics.type_params().next().is_some()
            || signature.inputs.iter().any(|input| match input {
                syn::FnArg::Typed(input) => matches!(*input.ty, syn::Type::ImplTrait(_)),
                syn::FnArg::Receiver(_) => false,
            });
        let inlined = |attribute: &syn::Attribute| {
            let always = || attribute.parse_args::<syn::Ident>().is_ok_and(|way| way == "always");
            attribute.path().is_ident("inline") && (attribute.meta.require_path_only().is_ok() || always())
        };
        if !generic && !attributes.iter().any(inlined) {
            self.0.push(signature.ident.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Eager {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.attrs, &item.sig);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.attrs, &item.sig);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            syn::visit::visit_item_mod(self, item);
        }
    }
}

#[test]
fn calls_are_compiled_where_models_call_them() {
    let (mut problems, mut seen) = (Vec::new(), 0);
    for (path, text) in sources().into_iter().filter(|(path, _)| path.contains("runtime/src/calls/")) {
        let mut eager = Eager::default();
        eager.visit_file(&syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}")));
        problems.extend(eager.0.iter().map(|name| format!("{path}: `{name}` is compiled for every model")));
        seen += 1;
    }
    assert!(seen > 10, "the calls were not found");
    report(problems);
}

/// Whether a line of code (not of a comment or a string about it) has the keyword.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '"'));
    words.into_iter().any(|word| word == "unsafe")
}

#[test]
fn unsafe_stands_in_the_runtime_and_is_explained() {
    let mut problems = Vec::new();
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate().filter(|(_, line)| has_unsafe(line)) {
            let allowed = path.starts_with("runtime-support/")
                || path.starts_with("examples/bare-metal")
                || path.starts_with("examples/freestanding")
                || path.starts_with("tests/");
            if !allowed {
                problems.push(format!("{path}:{}: unsafe outside the runtime", i + 1));
            }
            let block = (line.contains("unsafe {") || line.contains("unsafe impl")) && !path.starts_with("tests/");
            let explained =
                lines[i.saturating_sub(5)..=i].iter().any(|l| l.contains("SAFETY") || l.contains("# Safety"));
            if block && !explained {
                problems.push(format!("{path}:{}: unsafe without a SAFETY note", i + 1));
            }
        }
    }
    report(problems);
}

/// Lines of one folder that hold a forbidden text, comments and test modules aside.
fn mentions(folder: &str, forbidden: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| path.starts_with(folder)) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (i, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if let Some(text) = forbidden.iter().find(|text| line.contains(**text)) {
                problems.push(format!("{path}:{}: `{text}` has no place here", i + 1));
            }
        }
    }
    problems
}

#[test]
fn stages_know_only_what_they_may() {
    let mut problems = mentions("compiler/src/read", &["crate::op", "crate::graph", "crate::program"]);
    problems.extend(mentions("compiler/src/ops", &["quick_xml", "crate::passes", "crate::emit", "quote::"]));
    problems.extend(mentions(
        "compiler/src/passes",
        &["crate::ops", "crate::emit", "quote::", "proc_macro2", "origin.kind =="],
    ));
    problems.extend(mentions("compiler/src/emit", &["crate::ops", "crate::passes", ".infer("]));
    problems.extend(mentions("runtime-support", &["include_ir_compiler"]));
    report(problems);
}

#[test]
fn the_library_neither_prints_nor_exits_nor_reads_the_environment() {
    let forbidden = ["println!", "eprintln!", "print!(", "process::exit", "env::var", "std::env::args"];
    let allowed = ["compiler/src/build_script.rs", "compiler/src/cli", "compiler/src/bin"];
    let found = mentions("compiler/src", &forbidden);
    report(found.into_iter().filter(|line| !allowed.iter().any(|path| line.starts_with(path))).collect());
}

#[test]
fn a_family_is_one_file_and_its_registry_lines() {
    let registry = std::fs::read_to_string(root().join("compiler/src/ops.rs")).expect("the registry");
    let mut modules: Vec<&str> =
        registry.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let listed = modules.clone();
    modules.sort();
    assert_eq!(listed, modules, "the families are sorted");
    let mut problems = Vec::new();
    for entry in std::fs::read_dir(root().join("compiler/src/ops")).expect("the families") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_file = path.extension().is_some_and(|e| e == "rs");
        if is_file && (!modules.contains(&name.as_str()) || !registry.contains(&format!("{name}::OPS"))) {
            problems.push(format!("`{name}` is not registered"));
        }
    }
    // No family is named outside its own file and the registry, but for the conversions and the subtraction that the build
    // stage inserts itself.
    let inserted =
        |path: &str, name: &str| path.starts_with("compiler/src/build/") && ["convert", "binary"].contains(&name);
    for (path, text) in sources().into_iter().filter(|(path, _)| path.starts_with("compiler/src/")) {
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut named = Paths::default();
        named.visit_file(&file);
        let own = path.strip_prefix("compiler/src/ops/").and_then(|rest| rest.split(['/', '.']).next());
        for segments in named.0 {
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            let name = match segments.as_slice() {
                ["crate" | "include_ir_compiler", "ops", name, ..] | ["ops", name, ..] => *name,
                ["super", name, ..] if path.matches('/').count() == 3 && own.is_some() => *name,
                _ => continue,
            };
            let foreign = modules.contains(&name) && own != Some(name) && path != "compiler/src/ops.rs";
            if foreign && !inserted(&path, name) {
                problems.push(format!("{path}: names the family `{name}`"));
            }
        }
    }
    report(problems);
}

/// All paths of a file, of expressions and types and of `use`.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl Paths {
    fn imported(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.imported(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) => self.0.push(with(&name.ident)),
            syn::UseTree::Rename(name) => self.0.push(with(&name.ident)),
            syn::UseTree::Glob(_) => self.0.push(before.to_vec()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.imported(tree, before)),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.imported(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }
}

#[test]
fn every_operation_version_has_one_row() {
    let mut rows: Vec<(&str, u8)> = Vec::new();
    for row in include_ir_compiler::ops::FAMILIES.iter().flat_map(|family| family.iter()) {
        for opset in row.opsets.clone() {
            assert!(!rows.contains(&(row.name, opset)), "{} is listed twice for opset{opset}", row.name);
            rows.push((row.name, opset));
        }
    }
}
