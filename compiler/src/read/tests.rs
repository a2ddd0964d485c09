use super::*;
use crate::diag::Level;

fn source(xml: &str, weights: &[u8]) -> Source {
    Source::from_memory("model.xml", xml, weights).unwrap()
}

fn good(source: &Source) -> Net {
    let mut diagnostics = Diagnostics::new();
    let net = read(source, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics}");
    net.unwrap()
}

fn layer(id: usize, kind: &str, inputs: usize, data: &str) -> String {
    let ports: String = (0..inputs).map(|i| format!("<port id='{i}'/>")).collect();
    format!(
        "<layer id='{id}' name='n{id}' type='{kind}' version='opset1'><data {data}/><input>{ports}</input>\
         <output><port id='{inputs}' precision='FP32' names='t{id}'/></output></layer>"
    )
}

/// Edges as (from layer, from port, to layer, to port).
fn net(version: u32, layers: &[String], edges: &[(usize, usize, usize, usize)]) -> String {
    let edge = |&(a, b, c, d): &(usize, usize, usize, usize)| {
        format!("<edge from-layer='{a}' from-port='{b}' to-layer='{c}' to-port='{d}'/>")
    };
    let edges: String = edges.iter().map(edge).collect();
    format!("<net name='m' version='{version}'><layers>{}</layers><edges>{edges}</edges></net>", layers.concat())
}

#[test]
fn order_is_parameters_then_depth_first_along_the_edges() {
    let layers = [
        layer(0, "Result", 1, ""),
        layer(1, "Add", 2, ""),
        layer(2, "ReLU", 1, ""),
        layer(3, "Sigmoid", 1, ""),
        layer(4, "Parameter", 0, ""),
        layer(5, "Tanh", 1, ""),
        layer(6, "Parameter", 0, ""),
    ];
    let edges = [(1, 2, 0, 0), (3, 1, 1, 1), (2, 1, 1, 0), (6, 0, 2, 0), (6, 0, 3, 0), (6, 0, 5, 0)];
    let net = good(&source(&net(11, &layers, &edges), &[]));
    assert_eq!(net.order, [4, 6, 3, 2, 1, 0]);
    assert_eq!((net.parameters, net.results), (vec![4, 6], vec![0]));
    let inputs: Vec<_> = net.layers[1].inputs.iter().map(|i| (i.layer, i.port)).collect();
    assert_eq!(inputs, [(2, 0), (3, 0)]);
    assert_eq!(net.layers[2].kind, "Relu");
}

#[test]
fn spans_point_into_the_text() {
    let xml = net(11, &[layer(0, "Parameter", 0, "shape='1,&#51;' element_type='f32'")], &[]);
    let net = good(&source(&xml, &[]));
    let layer = &net.layers[0];
    let at = |span: Span| &xml[span.start..span.end];
    assert_eq!(at(layer.type_span), "Parameter");
    assert_eq!(at(layer.opset_span), "opset1");
    assert!(at(layer.span).starts_with("<layer id='0'"));
    let shape = layer.attribute("shape").unwrap();
    assert_eq!((shape.value.as_str(), at(shape.value_span), at(shape.name_span)), ("1,3", "1,&#51;", "shape"));
    assert_eq!(at(layer.output_ports[0].span), "<port id='0' precision='FP32' names='t0'/>");
}

#[test]
fn names_and_types_at_the_border() {
    let layers = [layer(0, "Parameter", 0, ""), layer(1, "ReLU", 1, ""), layer(2, "Result", 1, "")];
    let edges = [(0, 0, 1, 0), (1, 1, 2, 0)];
    let new = good(&source(&net(11, &layers, &edges), &[]));
    assert_eq!((new.input_names(0), new.output_names(0)), (vec!["t0"], vec!["t1"]));
    assert_eq!(new.legacy_output_type(ElementType::I64), ElementType::I64);
    let old = good(&source(&net(10, &layers, &edges), &[]));
    assert_eq!((old.input_names(0), old.output_names(0)), (vec!["t0", "n0"], vec!["t1", "n1"]));
    assert_eq!(old.legacy_output_type(ElementType::U64), ElementType::I32);
    assert_eq!(old.legacy_output_type(ElementType::Boolean), ElementType::F32);
    assert_eq!(old.legacy_input_type(ElementType::F16), ElementType::F32);
    assert_eq!(old.legacy_input_type(ElementType::U8), ElementType::U8);
    let named = net(11, &layers, &edges).replace("type='Result'", "type='Result' output_names='a,b'");
    assert_eq!(good(&source(&named, &[])).output_names(0), ["a", "b"]);
}

#[test]
fn constants_reference_the_weights() {
    let data = |element: &str, shape: &str, offset: usize, size: usize| {
        layer(0, "Const", 0, &format!("element_type='{element}' shape='{shape}' offset='{offset}' size='{size}'"))
    };
    let weights: Vec<u8> = (0..32).collect();
    for (element, shape, offset, size, expected) in [
        ("f32", "2", 1, 8, 1..9),
        ("f32", "2", 3, 20, 3..11),
        ("i4", "3", 5, 2, 5..7),
        ("u3", "5", 7, 2, 7..10),
        ("f64", "", 0, 8, 0..8),
        ("u8", "0,7", 30, 0, 0..0),
    ] {
        let source = source(
            &net(11, &[data(element, shape, offset, size), layer(1, "Result", 1, "")], &[(0, 0, 1, 0)]),
            &weights,
        );
        let net = good(&source);
        let constant = net.layers[0].constant.as_ref().unwrap();
        assert_eq!(constant.bytes(&source), &weights[expected], "{element} {shape}");
        assert!(constant.strings(&source).is_none());
    }
}

#[test]
fn string_constants() {
    let mut weights = vec![7];
    weights.extend([2i32, 0, 3, 5].iter().flat_map(|n| n.to_le_bytes()));
    weights.extend("abcü".as_bytes());
    let data = "element_type='string' shape='2' offset='1' size='21'";
    let source = source(&net(11, &[layer(0, "Const", 0, data), layer(1, "Result", 1, "")], &[(0, 0, 1, 0)]), &weights);
    let net = good(&source);
    assert_eq!(net.layers[0].constant.as_ref().unwrap().strings(&source), Some(vec!["abc", "ü"]));
}

#[test]
fn mean_values_become_a_constant() {
    let parameter = layer(0, "Parameter", 0, "shape='1,2,1,1' element_type='f32'");
    let section = "<pre-process reference-layer-name=' n0 '><channel><mean value='1.5'/></channel>\
                   <channel><mean value='-2'/></channel></pre-process></net>";
    let xml = net(11, &[parameter], &[]).replace("</net>", section);
    let net = good(&source(&xml, &[]));
    let mean = Mean::Channels { dims: vec![2, 1, 1], values: vec![1.5, -2.0] };
    assert_eq!(net.pre_process, [PreProcess { layer: 0, mean }]);
    let images = xml.replace("value='1.5'", "offset='4' size='4'").replace("value='-2'", "offset='1' size='4'");
    let net = good(&source(&images, &[0; 8]));
    let mean = Mean::Images { dims: vec![2, 1, 1], element: ElementType::F32, offsets: vec![4, 1], len: 4 };
    assert_eq!(net.pre_process[0].mean, mean);
}

#[test]
fn long_chains_do_not_recurse() {
    let count = 50_000;
    let mut layers = vec![layer(0, "Parameter", 0, "")];
    layers.extend((1..count).map(|id| layer(id, "ReLU", 1, "")));
    layers.push(layer(count, "Result", 1, ""));
    let edges: Vec<_> = (0..count).map(|id| (id, usize::from(id > 0), id + 1, 0)).collect();
    let net = good(&source(&net(11, &layers, &edges), &[]));
    assert_eq!(net.order.len(), count + 1);
}

#[test]
fn hostile_sizes_are_fast_and_small() {
    let many = 30_000;
    // One layer with many ports, all fed, and as many edges back to one start.
    let layers = [layer(0, "Parameter", 0, ""), layer(1, "Concat", many, ""), layer(2, "Result", 1, "")];
    let mut edges: Vec<_> = (0..many).map(|port| (0, 0, 1, port)).collect();
    edges.push((1, many, 2, 0));
    assert_eq!(good(&source(&net(11, &layers, &edges), &[])).layers[1].inputs.len(), many);

    let digits = "9".repeat(5_000_000);
    let data = format!("element_type='f32' shape='{digits}' offset='{digits}' size='{digits}'");
    let xml = net(11, &[layer(0, "Const", 0, &data), layer(1, "Result", 1, "")], &[(0, 0, 1, 0)]);
    let mut diagnostics = Diagnostics::new();
    assert!(read(&source(&xml, &[]), &mut diagnostics).is_none());
    assert!(diagnostics.len() == 3 && diagnostics.to_string().len() < 5000);

    let mut diagnostics = Diagnostics::new();
    let broken: Vec<_> = (0..many).map(|id| (id + 7, 0, 2, 0)).collect();
    assert!(read(&source(&net(11, &layers, &broken), &[]), &mut diagnostics).is_none());
    assert_eq!(diagnostics.iter().filter(|d| d.level == Level::Error).count(), Diagnostics::CAPACITY);
}

#[test]
fn hostile_widths_are_linear() {
    let many = 12_500;
    let list = |f: &dyn Fn(usize) -> String| (0..many).map(f).collect::<String>();
    let parameters = list(&|i| format!("<layer id='{i}' name='p' type='Parameter' version='opset1'/>"));
    let inputs = list(&|i| format!("<input external_port_id='{i}' internal_layer_id='{i}'/>"));
    let outputs = list(&|i| format!("<output external_port_id='{i}' internal_layer_id='0'/>"));
    let ports = list(&|i| format!("<port id='{i}' precision='FP32'/>"));
    let edges = list(&|i| format!("<edge from-layer='0' from-port='0' to-layer='1' to-port='{i}'/>"));
    let xml = format!(
        "<net version='11'><layers>{}<layer id='1' name='n' type='TensorIterator' version='opset1'><port_map>{inputs}{outputs}\
         </port_map><input>{ports}</input><output>{ports}</output><body><layers>{parameters}</layers></body></layer>{}\
         </layers><edges>{edges}<edge from-layer='1' from-port='7' to-layer='2' to-port='0'/></edges></net>",
        layer(0, "Parameter", 0, ""),
        layer(2, "Result", 1, ""),
    );
    let mut diagnostics = Diagnostics::new();
    assert!(read(&source(&xml, &[]), &mut diagnostics).is_none());
    assert!(diagnostics.iter().all(|d| d.message == "the body has no Result with id 0"));

    let attributes = list(&|i| format!(" a{i}='{i}'"));
    let net = good(&source(&net(11, &[layer(0, "Parameter", 0, &attributes)], &[]), &[]));
    let attributes = Attributes::new(&net.layers[0]);
    for name in 0..50 {
        assert!(!attributes.has(&format!("b{name}")));
    }
    assert_eq!(attributes.finish(&[]).len(), 20);

    let doctype = format!("<!DOCTYPE net [{}]><net version='11'/>", list(&|i| format!("<!ENTITY e{i} 'x'>")));
    good(&source(&doctype, &[]));
    let cycles: Vec<_> = (0..many).map(|i| (i, 1, (i + 1) % many, 0)).chain([(0, 1, many, 0)]).collect();
    let mut layers: Vec<String> = (0..many).map(|i| layer(i, "ReLU", 1, "")).collect();
    layers.push(layer(many, "Result", 1, ""));
    let mut diagnostics = Diagnostics::new();
    let xml = super::tests::net(11, &layers, &cycles);
    assert!(read(&source(&xml, &[]), &mut diagnostics).is_none());
    assert!(diagnostics.len() == 1 && diagnostics.to_string().len() < 2000);
}
