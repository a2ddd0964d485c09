//! What the compiler refuses although OpenVINO accepts it, and what it says.

use include_ir_compiler::source::Source;
use include_ir_compiler::{Options, compile};

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
