//! The text of `docs/modes.md`.

use crate::modes::{Modes, Reason, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What comes before the table.
const PREFACE: &str = "\
# Modes

Every value of every attribute that takes one of a few, every element type and every number of operands of the {rows}
operation versions of opset1 to opset16, each with the number of committed cases (`tests/cases`) that show it: {shown} of
{all} modes have cases of their own. The modes are not listed by hand. The parse functions of the operations are asked, again
and again, which values they accept, and every operation is lowered with every element type; see `tests/tests/operations`.
Written by `INCLUDE_IR_UPDATE=1 cargo test -p include-ir-tests --test operations`, which fails where a mode has neither a
case nor a reason.

What has no case has one of these reasons, found by comparing programs:

- **like** X: the loops, kernels and calls are the same as those of X, which has cases; only how elements are loaded, rounded
  and stored differs, and `tests/cases/types` shows that for every pair of types.
- **moved like** X: the program moves elements and nothing in it depends on their type.
- **same as** X: another spelling of X.
- **refused**: the compiler says that it cannot do this; the messages stand below the table.

Types are those of operand 0, then those of operands that may have others. **Pairs** counts pairs of a value of an attribute
and a type of operand 0: those with cases, and all.

| operation | cases | attributes | element types | operands | pairs |
|---|---|---|---|---|---|
";

/// The document.
pub fn document(all: &[Modes]) -> String {
    let (mut shown, mut count) = (0, 0);
    let mut table = String::new();
    let mut refused = String::new();
    for modes in all {
        let attributes = modes.attributes.iter().map(|(name, values)| format!("`{name}`: {}", list(values)));
        let types = modes.types.iter().map(|(operand, values)| match operand {
            0 => list(values),
            _ => format!("{operand}: {}", list(values)),
        });
        let (attributes, types): (Vec<String>, Vec<String>) = (attributes.collect(), types.collect());
        let (covered, pairs) = modes.pairs;
        let pairs = if modes.attributes.is_empty() { String::new() } else { format!("{covered}/{pairs}") };
        let row = format!("{}-{}", modes.row.name, modes.row.version);
        let cells = [attributes.join("; "), types.join("; "), list(&modes.operands), pairs];
        let _ = writeln!(table, "| {row} | {} | {} |", modes.cases, cells.join(" | "));
        for (what, value) in modes.gaps() {
            if let Some(Reason::Refused(message)) = &value.reason {
                let _ = writeln!(refused, "- {row}, {what} {}: {message}", value.name);
            }
        }
        let values = modes.attributes.iter().chain(&[]).flat_map(|(_, values)| values);
        let values = values.chain(modes.types.iter().flat_map(|(_, values)| values)).chain(&modes.operands);
        for value in values {
            count += 1;
            shown += usize::from(value.cases > 0);
        }
    }
    let numbers = [("{rows}", all.len()), ("{shown}", shown), ("{all}", count)];
    let preface = numbers.iter().fold(PREFACE.to_owned(), |text, (key, n)| text.replace(key, &n.to_string()));
    format!("{preface}{table}\n## Refused\n\n{refused}")
}

/// Values with their numbers of cases, then those without by reason.
fn list(values: &[Value]) -> String {
    let shown = values.iter().filter(|value| value.cases > 0).map(|value| format!("{} {}", named(value), value.cases));
    let mut parts = vec![shown.collect::<Vec<_>>().join(" ")];
    let mut others: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for value in values.iter().filter(|value| value.cases == 0) {
        let reason = match &value.reason {
            Some(Reason::Same(other)) => format!("same as {other}"),
            Some(Reason::Computed(other)) => format!("like {other}"),
            Some(Reason::Moved(other)) => format!("moved like {other}"),
            Some(Reason::Refused(_)) => "refused".to_owned(),
            None => "**open**".to_owned(),
        };
        others.entry(reason).or_default().push(named(value));
    }
    parts.extend(others.iter().map(|(reason, names)| format!("{reason}: {}", names.join(" "))));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// The name of a value; an empty one can be seen.
fn named(value: &Value) -> String {
    if value.name.is_empty() { "\"\"".to_owned() } else { value.name.clone() }
}
