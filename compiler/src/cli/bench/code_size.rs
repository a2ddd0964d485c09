//! Bytes of machine code of a model in an executable: its own functions and those of the runtime.

use object::{Object, ObjectSymbol, SymbolKind};
use std::path::Path;

/// Parts of the names of such functions, in both ways in which rustc writes names; `5timed` is the model's module.
const OURS: [&str; 3] = ["5timed", "18include_ir_runtime", "4libm"];

/// The sum of the sizes; `None` where the executable has no symbols with sizes.
pub fn code_bytes(executable: &Path) -> Option<u64> {
    let bytes = std::fs::read(executable).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
    let ours = functions.filter(|symbol| symbol.name().is_ok_and(|name| OURS.iter().any(|part| name.contains(part))));
    // Functions that are the same are one, under several names.
    let mut places: Vec<(u64, u64)> = ours.map(|symbol| (symbol.address(), symbol.size())).collect();
    places.sort_unstable();
    places.dedup_by_key(|place| place.0);
    Some(places.iter().map(|place| place.1).sum()).filter(|sum| *sum > 0)
}
