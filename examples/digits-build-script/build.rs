//! Compiles the model into `OUT_DIR`.

fn main() -> Result<(), include_ir_compiler::BuildError> {
    include_ir_compiler::build("../digits/digits.xml")
}
