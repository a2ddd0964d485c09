//! Compiles the digit model for a processor without vector instructions and places the linker script.
use include_ir_compiler::options::{Isa, Options};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::default().isa([Isa::Scalar]);
    include_ir_compiler::Build::new("../digits/digits.xml").options(options).run()?;

    let out = std::env::var("OUT_DIR")?;
    std::fs::copy("memory.x", Path::new(&out).join("memory.x"))?;
    println!("cargo:rustc-link-search={out}");
    println!("cargo:rerun-if-changed=memory.x");
    Ok(())
}
