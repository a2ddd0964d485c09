//! `irc ops`, `irc passes`, `irc explain`, `irc completions`: what the compiler knows, as text.

use super::{Cli, Failure, print};
use crate::diag::{Diagnostic, codes};
use crate::op::{OpDef, Support};
use crate::ops::FAMILIES;
use crate::passes;
use clap::{Args, CommandFactory, ValueEnum};
use serde_json::json;
use std::fmt::Write;

/// Arguments of `irc ops`.
#[derive(Args, Debug)]
pub struct OpsArguments {
    /// Form of the list.
    #[arg(long, value_enum, default_value = "md")]
    format: ListFormat,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum ListFormat {
    Md,
    Json,
}

/// Prints every supported version of every operation.
pub fn ops(arguments: &OpsArguments) -> Result<(), Failure> {
    let mut rows: Vec<&OpDef> = FAMILIES.iter().flat_map(|family| family.iter()).collect();
    rows.sort_by_key(|row| (row.name, row.version));
    print(&match arguments.format {
        ListFormat::Md => markdown(&rows),
        ListFormat::Json => {
            let rows: Vec<_> = rows
                .iter()
                .map(|row| {
                    json!({
                        "name": row.name, "version": row.version,
                        "opsets": [row.opsets.start(), row.opsets.end()], "limits": limits(row),
                    })
                })
                .collect();
            format!("{:#}\n", json!(rows))
        }
    })
}

fn markdown(rows: &[&OpDef]) -> String {
    let mut out = String::from("| operation | version | opsets | limits |\n|---|---|---|---|\n");
    for row in rows {
        let (first, last) = (row.opsets.start(), row.opsets.end());
        let _ = writeln!(out, "| {} | {} | {first} to {last} | {} |", row.name, row.version, limits(row).unwrap_or(""));
    }
    out
}

fn limits(row: &OpDef) -> Option<&'static str> {
    match row.support {
        Support::Full => None,
        Support::Partial(limits) => Some(limits),
    }
}

/// Prints the two lists of passes.
pub fn passes() -> Result<(), Failure> {
    let graph = passes::graph::PASSES.iter().map(|pass| ("graph", pass.name, pass.reason));
    let program = passes::program::PASSES.iter().map(|pass| ("program", pass.name, pass.reason));
    let mut out = String::new();
    for (stage, name, reason) in graph.chain(program) {
        let _ = writeln!(out, "{stage:8} {name:24} {reason}");
    }
    print(&out)
}

/// Arguments of `irc explain`.
#[derive(Args, Debug)]
pub struct ExplainArguments {
    /// A code such as IR0105, or its name; without one, all codes are listed.
    code: Option<String>,
}

/// Prints the explanation of a code.
pub fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let Some(text) = &arguments.code else {
        let lines: Vec<String> =
            codes::ALL.iter().map(|code| format!("{} {:20} {}\n", code.id, code.name, code.title)).collect();
        return print(&lines.concat());
    };
    let Some(code) = codes::find(text) else {
        let problem = Diagnostic::error(&codes::OPTION, format!("there is no code {}", crate::diag::quote(text)));
        return Err(problem.help("`irc explain` without a code lists all of them").into());
    };
    let explanation = code.explanation.split_whitespace().collect::<Vec<_>>().join(" ");
    print(&format!("{} ({}): {}\n\n{explanation}\n", code.id, code.name, code.title))
}

/// Arguments of `irc completions`.
#[derive(Args, Debug)]
pub struct CompletionsArguments {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Prints a completion script.
pub fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "irc", &mut script);
    print(&String::from_utf8_lossy(&script))
}
