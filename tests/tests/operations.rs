//! `docs/ops.md`: every operation of opset1 to opset16, what of it works, and how the committed cases compute it;
//! `docs/modes.md`: every mode of them, and the cases that show it.
//!
//! `INCLUDE_IR_UPDATE=1 cargo test -p include-ir-tests --test operations` writes the documents.

use cases::Use;
use include_ir_compiler::diag::Diagnostics;
use include_ir_compiler::op::{OpDef, Support, row};
use include_ir_compiler::ops::FAMILIES;
use include_ir_compiler::program::kernel::{KernelKind, WindowOp};
use include_ir_compiler::program::{Program, Step, StepKind};
use include_ir_compiler::read::{self, Layer, Net};
use include_ir_compiler::source::Source;
use include_ir_compiler::{Options, stages};
use modes::Modes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[path = "operations/cases.rs"]
mod cases;
#[path = "operations/modes.rs"]
mod modes;
#[path = "operations/modes_document.rs"]
mod modes_document;
#[path = "operations/questions.rs"]
mod questions;
#[path = "operations/types.rs"]
mod types;

/// The last opset of the list.
const LAST_OPSET: u8 = 16;

/// Models that are compiled to see how an operation is computed, per row and element type.
const MODELS_PER_TYPE: usize = 3;

/// An operation version of `tests/conformance/opsets.tsv`.
struct Listed {
    name: String,
    version: String,
    opsets: String,
    numbers: Vec<u8>,
}

/// What the cases show of one row.
#[derive(Default)]
struct Seen {
    /// Element types of the first operand, or of the result where there is none, with models.
    types: BTreeMap<String, Vec<PathBuf>>,
    computed: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn listed() -> Vec<Listed> {
    let text = std::fs::read_to_string(root().join("tests/conformance/opsets.tsv")).expect("the list of operations");
    let row = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next().expect("three columns");
        let (name, version, opsets) = (next(), next(), next());
        let number = |text: &str| text.parse::<u8>().expect("an opset");
        let range = |part: &str| match part.split_once('-') {
            Some((first, last)) => number(first)..=number(last),
            None => number(part)..=number(part),
        };
        let numbers = opsets.split(',').flat_map(range).collect();
        Listed { name, version, opsets, numbers }
    };
    text.lines().skip(1).map(row).collect()
}

fn rows() -> impl Iterator<Item = &'static OpDef> {
    FAMILIES.iter().flat_map(|family| family.iter()).filter(|row| *row.opsets.start() <= LAST_OPSET)
}

/// The row of the tables for a listed version.
fn implemented(listed: &Listed) -> Option<&'static OpDef> {
    rows().find(|row| row.name == listed.name && Some(row.opsets.start()) == listed.numbers.first())
}

#[test]
fn the_tables_agree_with_the_opsets() {
    let listed = listed();
    assert_eq!(listed.len(), 241);
    let mut problems = Vec::new();
    let mut taken: BTreeSet<(&str, u8)> = BTreeSet::new();
    for row in rows() {
        let entry = listed.iter().find(|l| l.name == row.name && l.numbers.contains(row.opsets.start()));
        for opset in row.opsets.clone().filter(|opset| *opset <= LAST_OPSET) {
            taken.insert((row.name, opset));
            if !entry.is_some_and(|entry| entry.numbers.contains(&opset)) {
                problems.push(format!("{}-{} is not in opset{opset}", row.name, row.version));
            }
        }
    }
    for entry in listed.iter().filter(|entry| implemented(entry).is_some()) {
        for opset in entry.numbers.iter().filter(|opset| !taken.contains(&(entry.name.as_str(), **opset))) {
            problems.push(format!("{}-{} is missing in opset{opset}", entry.name, entry.version));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_document_is_fresh() {
    fresh("docs/ops.md", &document(&seen()));
}

#[test]
fn every_mode_has_a_case_or_a_reason() {
    let modes = modes();
    fresh("docs/modes.md", &modes_document::document(&modes));
    let problems: Vec<String> = modes.iter().flat_map(open).collect();
    assert!(problems.is_empty(), "{} modes need a case:\n{}", problems.len(), problems.join("\n"));
}

/// The modes of all operation versions, by name.
fn modes() -> Vec<Modes> {
    let folders: Vec<PathBuf> = models().iter().filter_map(|model| Some(model.parent()?.to_owned())).collect();
    let uses: Vec<Use> = folders.iter().enumerate().flat_map(|(i, folder)| cases::uses(folder, i)).collect();
    let mut by_row: BTreeMap<(&str, u8), (&'static OpDef, Vec<&Use>)> =
        rows().map(|row| ((row.name, row.version), (row, Vec::new()))).collect();
    for used in &uses {
        if let Some((_, list)) = by_row.get_mut(&(used.row.name, used.row.version)) {
            list.push(used);
        }
    }
    by_row.values().map(|(row, uses)| Modes::of(row, uses)).collect()
}

/// What no case shows and no rule explains.
fn open(modes: &Modes) -> Vec<String> {
    let row = format!("{}-{}", modes.row.name, modes.row.version);
    let gaps = modes.gaps().into_iter().filter(|(_, value)| value.reason.is_none());
    let gaps = gaps.map(|(what, value)| format!("{row}: no case for {what} {}", value.name));
    let none = (modes.cases == 0).then(|| format!("{row}: no case"));
    none.into_iter().chain(gaps).collect()
}

/// Compares a document with its file, or writes it.
fn fresh(name: &str, text: &str) {
    let path = root().join(name);
    if std::env::var_os("INCLUDE_IR_UPDATE").is_some() {
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let stale = text.lines().zip(found.lines()).find(|(new, old)| new != old);
    assert!(
        text == found,
        "{name} is out of date: run `INCLUDE_IR_UPDATE=1 cargo test -p include-ir-tests --test operations`; \
         first difference: {stale:?}"
    );
}

fn document(seen: &BTreeMap<(&'static str, u8), Seen>) -> String {
    let listed = listed();
    let found: Vec<Option<&OpDef>> = listed.iter().map(implemented).collect();
    let count = found.iter().flatten().count();
    let partial = found.iter().flatten().filter(|row| matches!(row.support, Support::Partial(_))).count();
    let mut text = format!(
        "# Operations\n\n\
         {count} of the {} operation versions of opset1 to opset16 are implemented, {partial} of them with limits.\n\
         Made from the tables in `compiler/src/ops` and the cases in `tests/cases` by\n\
         `INCLUDE_IR_UPDATE=1 cargo test -p include-ir-tests --test operations`. `irc ops` prints the tables of the\n\
         installed compiler. How well operations do on models that nobody made for them: [conformance.md](conformance.md).\n\n\
         - **Element types** are those of the first operand (of the result, where there is none) in committed cases, \
         whose expected\n  values come from other implementations. The others that the specification allows take \
         the same path.\n\
         - **Computed by**: *loops* are nests that the compiler writes for the model; *contraction*, *window* and other\n  \
         kernels come from the runtime; *call* is a function of the runtime that is no loop nest; *view* moves no element;\n  \
         *fused* is part of the loops or the kernel of a neighbour; *folded* occurs in no compiled step, because all of\n  \
         it is known when the model is compiled.\n\n\
         | operation | version | opsets | status | element types | computed by | limits |\n\
         |---|---|---|---|---|---|---|\n",
        listed.len()
    );
    for (entry, row) in listed.iter().zip(found) {
        let (status, limits) = match row.map(|row| row.support) {
            None => ("**missing**", ""),
            Some(Support::Full) => ("full", ""),
            Some(Support::Partial(limits)) => ("partial", limits),
        };
        let seen = row.and_then(|row| seen.get(&(row.name, *row.opsets.start())));
        let types: Vec<&str> = seen.iter().flat_map(|seen| seen.types.keys()).map(String::as_str).collect();
        let computed: Vec<&str> = seen.iter().flat_map(|seen| &seen.computed).map(String::as_str).collect();
        text.push_str(&format!(
            "| {} | {} | {} | {status} | {} | {} | {limits} |\n",
            entry.name,
            entry.version,
            entry.opsets,
            types.join(" "),
            computed.join(", ")
        ));
    }
    text
}

/// What the committed cases show of every row, by name and first opset.
fn seen() -> BTreeMap<(&'static str, u8), Seen> {
    let mut all: BTreeMap<(&'static str, u8), Seen> = BTreeMap::new();
    for model in models() {
        let Some(net) = Source::from_path(&model, None).ok().and_then(|s| read::read(&s, &mut Diagnostics::new()))
        else {
            continue;
        };
        for (row, element) in uses(&net) {
            let seen = all.entry((row.name, *row.opsets.start())).or_default();
            let models = seen.types.entry(element).or_default();
            if models.len() < MODELS_PER_TYPE && models.last() != Some(&model) {
                models.push(model.clone());
            }
        }
    }
    for ((name, _), seen) in &mut all {
        let models: BTreeSet<PathBuf> = seen.types.values().flatten().cloned().collect();
        let programs = models.iter().filter_map(|model| program(model));
        seen.computed = programs.flat_map(|program| computed(&program, name)).collect();
        if seen.computed.is_empty() && !["Parameter", "Result"].contains(name) {
            seen.computed.insert("folded".to_owned());
        }
    }
    all
}

fn models() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![root().join("tests/cases")];
    while let Some(folder) = pending.pop() {
        let model = folder.join("model.xml");
        if model.exists() {
            found.push(model);
            continue;
        }
        let entries = std::fs::read_dir(&folder).expect("a readable folder");
        pending.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

/// Rows and element types of the layers of a model, but for rows of operations of which it has several versions.
fn uses(net: &Net) -> Vec<(&'static OpDef, String)> {
    let needed: Vec<&Layer> = net.order.iter().filter_map(|index| net.layers.get(*index)).collect();
    let rows: Vec<(&OpDef, &Layer)> = needed.iter().filter_map(|layer| Some((row(layer).ok()?, *layer))).collect();
    let single = |row: &OpDef| rows.iter().all(|(other, _)| other.name != row.name || other.version == row.version);
    let element = |layer: &Layer| {
        let source = match layer.inputs.first() {
            Some(input) => net.layers.get(input.layer).and_then(|source| source.output_ports.get(input.port)),
            None => layer.output_ports.first(),
        };
        source.and_then(|port| port.precision).map(|element| element.to_string())
    };
    rows.iter().filter(|(row, _)| single(row)).filter_map(|(row, layer)| Some((*row, element(layer)?))).collect()
}

fn program(model: &Path) -> Option<Program> {
    stages::program(&Source::from_path(model, None).ok()?, &Options::default()).ok()
}

/// The kinds of steps that layers of a type become.
fn computed(program: &Program, name: &str) -> Vec<String> {
    let mut kinds = Vec::new();
    let mut blocks = vec![&program.root];
    while let Some(block) = blocks.pop() {
        for step in &block.steps {
            match &step.kind {
                StepKind::If { then, otherwise, .. } => blocks.extend([then, otherwise]),
                StepKind::Loop(step) => blocks.push(&step.body),
                _ => {}
            }
            match step.origins.iter().position(|origin| origin.kind.eq_ignore_ascii_case(name)) {
                Some(0) => kinds.push(kind(step)),
                Some(_) => kinds.push("fused".to_owned()),
                None => {}
            }
        }
    }
    kinds
}

fn kind(step: &Step) -> String {
    match &step.kind {
        StepKind::Nest(_) | StepKind::Rows(_) => "loops".to_owned(),
        StepKind::Kernel(kernel) => match kernel.kind {
            KernelKind::Contraction { .. } => "contraction".to_owned(),
            KernelKind::Window { op: WindowOp::Depthwise, .. } => "depthwise window".to_owned(),
            KernelKind::Window { .. } => "window".to_owned(),
        },
        StepKind::Chain(_) => "chain".to_owned(),
        StepKind::Attention(_) => "attention".to_owned(),
        StepKind::Reshape { .. } => "view".to_owned(),
        StepKind::Call(call) => format!("call `{}`", call.function.name),
        StepKind::If { .. } => "branch".to_owned(),
        StepKind::Loop(_) => "loop with body".to_owned(),
        StepKind::Size { .. } => "size".to_owned(),
    }
}
