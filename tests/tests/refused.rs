//! What the compiler refuses, some of it although OpenVINO accepts it, and what it says.

use include_ir_compiler::element::ElementType;
use include_ir_compiler::program::interpret::interpret;
use include_ir_compiler::source::Source;
use include_ir_compiler::tensor::Tensor;
use include_ir_compiler::{Options, compile, stages};
use std::path::Path;

fn errors(xml: &str) -> Vec<String> {
    let source = Source::from_memory("model.xml", xml, vec![0; 64]).unwrap();
    match compile(&source, &Options::default()) {
        Ok(_) => Vec::new(),
        Err(diagnostics) => diagnostics.errors().map(|d| d.message.clone()).collect(),
    }
}

/// A graph from layers and edges, with a Result of id 9.
fn net(layers: &str, edges: &str) -> String {
    format!(
        r#"<net name="m" version="11"><layers>{layers}
<layer id="9" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>{edges}</edges></net>"#
    )
}

const TEXT: &str = r#"<layer id="0" name="text" type="Parameter" version="opset1"><data shape="2" element_type="string"/>
<output><port id="0" precision="STRING"/></output></layer>"#;

#[test]
fn strings_are_no_inputs_or_outputs() {
    let through = net(TEXT, r#"<edge from-layer="0" from-port="0" to-layer="9" to-port="0"/>"#);
    assert_eq!(errors(&through), ["input `text` is a tensor of strings", "output `y` is a tensor of strings"]);
    let shape = r#"<layer id="1" name="s" type="ShapeOf" version="opset3"><data output_type="i64"/>
<input><port id="0"/></input><output><port id="1" precision="I64"/></output></layer>"#;
    let edges = r#"<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="9" to-port="0"/>"#;
    assert_eq!(errors(&net(&format!("{TEXT}{shape}"), edges)), ["input `text` is a tensor of strings"]);
}

#[test]
fn string_constants_may_vanish() {
    // No strings: the number 0, then one offset.
    let text = r#"<layer id="0" name="words" type="Const" version="opset1">
<data element_type="string" shape="0" offset="0" size="8"/><output><port id="0" precision="STRING"/></output></layer>"#;
    let shape = r#"<layer id="1" name="s" type="ShapeOf" version="opset3"><data output_type="i64"/>
<input><port id="0"/></input><output><port id="1" precision="I64"/></output></layer>"#;
    let edges = r#"<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="9" to-port="0"/>"#;
    assert_eq!(errors(&net(&format!("{text}{shape}"), edges)), Vec::<String>::new());
    let itself = net(text, r#"<edge from-layer="0" from-port="0" to-layer="9" to-port="0"/>"#);
    assert_eq!(errors(&itself), ["output `y` is a tensor of strings"]);
}

const NUMBERS: &str = r#"<layer id="0" name="x" type="Parameter" version="opset1"><data shape="4,3" element_type="f32"/>
<output><port id="0" precision="FP32"/></output></layer>"#;

#[test]
fn a_split_has_a_result_for_every_length() {
    let constants = r#"<layer id="1" name="axis" type="Const" version="opset1">
<data element_type="i64" shape="" offset="0" size="8"/><output><port id="0" precision="I64"/></output></layer>
<layer id="2" name="lengths" type="Const" version="opset1">
<data element_type="i64" shape="2" offset="0" size="16"/><output><port id="0" precision="I64"/></output></layer>
<layer id="3" name="split" type="VariadicSplit" version="opset1">
<input><port id="0"/><port id="1"/><port id="2"/></input><output><port id="3" precision="FP32"/></output></layer>"#;
    let edges = r#"<edge from-layer="0" from-port="0" to-layer="3" to-port="0"/>
<edge from-layer="1" from-port="0" to-layer="3" to-port="1"/><edge from-layer="2" from-port="0" to-layer="3" to-port="2"/>
<edge from-layer="3" from-port="3" to-layer="9" to-port="0"/>"#;
    assert_eq!(errors(&net(&format!("{NUMBERS}{constants}"), edges)), ["2 lengths for 1 results of a split"]);
}

/// OpenVINO converts at the border of the body.
#[test]
fn a_body_gets_the_element_types_that_it_says() {
    let iterator = r#"<layer id="1" name="t" type="TensorIterator" version="opset1"><port_map>
<input external_port_id="0" internal_layer_id="0" axis="0" start="0" end="-1" stride="1" part_size="1"/>
<output external_port_id="1" internal_layer_id="1" axis="0" start="0" end="-1" stride="1" part_size="1"/></port_map>
<input><port id="0"/></input><output><port id="1" precision="FP32"/></output><body><layers>
<layer id="0" name="part" type="Parameter" version="opset1"><data shape="1,3" element_type="i32"/>
<output><port id="0" precision="I32"/></output></layer>
<layer id="1" name="r" type="Result" version="opset1"><input><port id="0"/></input></layer></layers>
<edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></body></layer>"#;
    let edges = r#"<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="9" to-port="0"/>"#;
    assert_eq!(
        errors(&net(&format!("{NUMBERS}{iterator}"), edges)),
        ["parameter `part` of the body is i32, but gets f32"]
    );
}

#[test]
fn inputs_and_outputs_have_an_opset_too() {
    let edge = r#"<edge from-layer="0" from-port="0" to-layer="9" to-port="0"/>"#;
    let text = net(&NUMBERS.replace("opset1", "1.5"), edge);
    assert_eq!(errors(&text), ["unknown opset `1.5`"]);
}

/// Axes that are data: a run computes with valid ones, and with no others.
#[test]
fn axes_of_a_run_are_in_range_and_named_once() {
    let run = |case: &str, axes: [i64; 2]| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(case).join("model.xml");
        let program = stages::program(&Source::from_path(&path, None).unwrap(), &Options::default()).unwrap();
        let tensor = |(buffer, _): &(_, _)| {
            let buffer = program.buffer(*buffer);
            let dims: Vec<usize> = buffer.dims.iter().map(|dim| dim.as_usize().unwrap()).collect();
            let bytes = match buffer.element {
                ElementType::I64 => axes.iter().flat_map(|axis| axis.to_le_bytes()).collect(),
                element => vec![0; element.storage_bytes(dims.iter().product()).unwrap()],
            };
            Tensor::new(buffer.element, dims, bytes.into()).unwrap()
        };
        let inputs: Vec<Tensor> = program.inputs.iter().map(tensor).collect();
        interpret(&program, &inputs)
    };
    for (case, valid) in [
        ("reduce/run_time_axes_reducemax_keep_two", [0, -1]),
        ("reduce/run_time_axes_reducesum_two", [0, -1]),
        ("sizes_of_data/squeeze", [0, -2]),
        ("sizes_of_data/unsqueeze", [0, -1]),
    ] {
        run(case, valid).unwrap_or_else(|problem| panic!("{case}: {problem}"));
        for wrong in [[0, 0], [0, 7], [1, -9], [i64::MAX, 0], [1, i64::MIN]] {
            let problem = run(case, wrong).expect_err(case);
            assert!(problem.contains("a size that"), "{case} {wrong:?}: {problem}");
        }
    }
}
