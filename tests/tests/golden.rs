//! Golden files: the text forms of all stages, and generated Rust, for a few small models.
//!
//! `UPDATE_EXPECT=1 cargo test -p include-ir-tests --test golden` writes `tests/golden` anew; look at the difference.

use expect_test::expect_file;
use include_ir_compiler::options::Emit;
use include_ir_compiler::source::Source;
use include_ir_compiler::{Options, compile};
use std::path::Path;

/// The texts that a model compiles to, against `tests/golden/<name>.<form>`.
fn check(name: &str, model: &str, options: &Options, forms: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = Source::from_path(&root.join(model), None).unwrap();
    for form in forms {
        let (emit, file) = match *form {
            "graph" => (Emit::Graph, format!("{name}.graph.txt")),
            "program" => (Emit::Program, format!("{name}.program.txt")),
            "plan" => (Emit::Plan, format!("{name}.plan.txt")),
            _ => (Emit::Rust, format!("{name}.rs")),
        };
        let output = compile(&source, &options.clone().emit(emit).module(name.to_owned())).unwrap();
        expect_file![root.join("golden").join(file)].assert_eq(&output.text);
        let again = compile(&source, &options.clone().emit(emit).module(name.to_owned())).unwrap();
        assert!(output.text == again.text && output.weights == again.weights, "{name}: two runs differ");
    }
}

const STAGES: &[&str] = &["graph", "program", "plan"];
const ALL: &[&str] = &["graph", "program", "plan", "rust"];

/// Convolutions, pooling, a dense layer and Softmax; its Rust is `examples/digits-checked-in/src/generated/digits.rs`.
#[test]
fn digits() {
    check("digits", "../examples/digits/digits.xml", &Options::default(), STAGES);
}

/// A run-time batch that a Reshape computes from ShapeOf.
#[test]
fn run_time_batch() {
    let mut options = Options::default();
    options.set("shape", "x=1..8,3,4,4").unwrap();
    check("run_time_batch", "cases/stress/reshape_by_shape_of_bounded_batch1/model.xml", &options, ALL);
}

/// A residual that is read from the buffer of a concatenation.
#[test]
fn c2f() {
    check("c2f", "cases/stress/c2f/model.xml", &Options::default(), STAGES);
}

/// A matrix product as the loops that define it.
#[test]
fn reference_kernels() {
    let mut options = Options::default();
    options.set("kernels", "reference").unwrap();
    options.set("isa", "scalar").unwrap();
    check("reference_dense", "cases/matmul/dense_bias_relu/model.xml", &options, &["rust"]);
}
