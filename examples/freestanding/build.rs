//! Compiles the digit model for every instruction set of x86-64 and links without start-up files and libc.

fn main() -> Result<(), include_ir_compiler::BuildError> {
    for argument in ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    include_ir_compiler::build("../digits/digits.xml")
}
