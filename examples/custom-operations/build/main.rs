//! Compiles a model with operations that are not the compiler's own.

#[path = "../src/median.rs"]
mod median;
mod operations;

use include_ir_compiler::{Build, BuildError};

fn main() -> Result<(), BuildError> {
    Build::new("filter.xml").operation(operations::gaussian()).operation(operations::median()).run()
}
