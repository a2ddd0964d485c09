//! Operations that users add: registered, folded, told apart, and refused where they do not fit.

use include_ir::calls::Arguments;
use include_ir_compiler::dim::Dim;
use include_ir_compiler::extension::{
    Attributes, Binary, Builder, Call, Diagnostic, ElementType, Extension, Fact, Function, InferContext, Op, codes,
};
use include_ir_compiler::program::interpret::interpret;
use include_ir_compiler::source::Source;
use include_ir_compiler::tensor::Tensor;
use include_ir_compiler::{Options, compile, stages};

/// `factor * x`.
#[derive(Debug)]
struct Scale {
    factor: f64,
}

/// `factor + x`, with the debug form of [`Scale`].
mod other {
    #[derive(Debug)]
    pub struct Scale {
        pub factor: f64,
    }
}

fn pointwise(builder: &mut Builder, function: Binary, factor: f64) -> Result<(), Diagnostic> {
    let (x, y) = (builder.input(0)?, builder.output(0)?);
    builder.map(y, |nest, index| {
        let x = nest.load(x, index)?;
        let factor = nest.constant_like(x, factor);
        Ok(nest.binary(function, x, factor))
    })
}

fn same(inputs: &[Fact]) -> Result<Vec<Fact>, Diagnostic> {
    match inputs {
        [x, ..] if x.element == ElementType::F32 => Ok(vec![Fact::new(x.element, x.dims.clone())]),
        _ => Err(Diagnostic::error(&codes::TYPE, "only f32 can be scaled")),
    }
}

impl Op for Scale {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        same(inputs)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        pointwise(builder, Binary::Mul, self.factor)
    }
}

impl Op for other::Scale {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        same(inputs)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        pointwise(builder, Binary::Add, self.factor)
    }
}

/// The elements in reverse order, by a function.
#[derive(Debug)]
struct Reverse {
    path: &'static str,
}

fn reverse(arguments: Arguments<'_>) {
    let x = arguments.input(0);
    let Some(out) = arguments.outputs.first_mut() else { return };
    for (to, from) in out.get::<f32>().iter_mut().zip(x.get::<f32>().iter().rev()) {
        *to = *from;
    }
}

impl Op for Reverse {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        same(inputs)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        builder.call(Call {
            function: Function { name: self.path, run: reverse },
            inputs: vec![builder.input(0)?],
            outputs: vec![builder.output(0)?],
            integers: Vec::<Dim>::new(),
            floats: Vec::new(),
            sizes: Vec::new(),
        });
        Ok(())
    }
}

fn scale() -> Extension {
    Extension::new("Scale", |a: &Attributes| Ok(Scale { factor: a.float("factor")? }))
}

fn shift() -> Extension {
    Extension::new("Shift", |a: &Attributes| Ok(other::Scale { factor: a.float("factor")? })).opset("mine")
}

/// x, then layers that are given as `(type, opset, attributes)` and all read x; their sum is the output. x is constant
/// where `constant` says so.
fn model(element: &str, constant: bool, layers: &[(&str, &str, &str)]) -> String {
    let (kind, data) = match constant {
        true => ("Const", format!(r#"element_type="{element}" shape="3" offset="0" size="12""#)),
        false => ("Parameter", format!(r#"shape="3" element_type="{element}""#)),
    };
    let mut text = format!(
        r#"<net name="m" version="11"><layers>
<layer id="0" name="x" type="{kind}" version="opset1"><data {data}/><output><port id="0" precision="FP32"/></output></layer>"#
    );
    let mut edges = String::new();
    for (i, (kind, opset, data)) in layers.iter().enumerate() {
        let id = i + 1;
        text += &format!(
            r#"
<layer id="{id}" name="layer{id}" type="{kind}" version="{opset}"><data {data}/>
<input><port id="0"/></input><output><port id="1" precision="FP32"/></output></layer>
<layer id="{}" name="r{id}" type="Result" version="opset1"><input><port id="0"/></input></layer>"#,
            100 + id
        );
        edges += &format!(
            r#"<edge from-layer="0" from-port="0" to-layer="{id}" to-port="0"/>
<edge from-layer="{id}" from-port="1" to-layer="{}" to-port="0"/>"#,
            100 + id
        );
    }
    format!("{text}</layers><edges>{edges}</edges></net>")
}

fn source(xml: &str) -> Source {
    let weights: Vec<u8> = [1.0f32, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    Source::from_memory("model.xml", xml, weights).unwrap()
}

fn outputs(xml: &str, options: &Options) -> Vec<Vec<f64>> {
    let program = stages::program(&source(xml), options).unwrap_or_else(|problems| panic!("{problems}"));
    let x = Tensor::from_f32s(vec![3], &[1.0, 2.0, 3.0]);
    let inputs = if program.inputs.is_empty() { Vec::new() } else { vec![x] };
    interpret(&program, &inputs).unwrap().iter().map(|tensor| tensor.to_f64s().unwrap()).collect()
}

fn problems(xml: &str, options: &Options) -> String {
    match compile(&source(xml), options) {
        Ok(_) => String::new(),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn layers_become_the_operations_that_were_added() {
    let options = Options::default().operation(scale()).operation(shift());
    let xml = model("f32", false, &[("Scale", "extension", r#"factor="2""#), ("Shift", "mine", r#"factor="2""#)]);
    assert_eq!(
        outputs(&xml, &options),
        [[2.0, 4.0, 6.0], [3.0, 4.0, 5.0]],
        "equal debug forms are not equal operations"
    );
    let text = compile(&source(&xml), &options).unwrap().text;
    assert!(text.contains("fn layer1"), "{text}");
}

#[test]
fn operations_on_constants_are_folded() {
    let reverse = |_: &Attributes| Ok(Reverse { path: "crate::reverse" });
    let options = Options::default().operation(scale()).operation(Extension::new("Reverse", reverse));
    let xml = model("f32", true, &[("Scale", "extension", r#"factor="2""#), ("Reverse", "extension", "")]);
    assert_eq!(outputs(&xml, &options), [[2.0, 4.0, 6.0], [3.0, 2.0, 1.0]]);
    let text = compile(&source(&xml), &options).unwrap().text;
    assert!(!text.contains("crate::reverse"), "{text}");
}

#[test]
fn functions_are_called_by_their_path() {
    let add =
        |path| Options::default().operation(Extension::new("Reverse", move |_: &Attributes| Ok(Reverse { path })));
    let xml = model("f32", false, &[("Reverse", "extension", "")]);
    assert_eq!(outputs(&xml, &add("crate::reverse")), [[3.0, 2.0, 1.0]]);
    let text = compile(&source(&xml), &add("crate::filters::reverse")).unwrap().text;
    assert!(text.contains("crate::filters::reverse(rt::Arguments"), "{text}");
    assert!(problems(&xml, &add("a::b(); c::d")).contains("`a::b(); c::d` is not the path of a function"));
}

#[test]
fn an_extension_takes_the_place_of_a_standard_operation() {
    let negative = |_: &Attributes| Ok(Scale { factor: -1.0 });
    let options = Options::default().operation(Extension::new("Relu", negative).opset("opset1"));
    let xml = model("f32", false, &[("Relu", "opset1", ""), ("Abs", "opset1", "")]);
    assert_eq!(outputs(&xml, &options), [[-1.0, -2.0, -3.0], [1.0, 2.0, 3.0]]);
}

#[test]
fn what_does_not_fit_is_refused_in_its_place() {
    let options = Options::default().operation(scale());
    let layer = |kind, opset, data| model("f32", false, &[(kind, opset, data)]);
    let hint = "operations of other opsets are added in a build script, with `Build::operation`";
    for xml in [layer("Scale", "mine", ""), layer("scale", "extension", ""), layer("Relu", "mine", "")] {
        let text = problems(&xml, &options);
        assert!(text.contains(hint) && text.contains("unknown"), "{text}");
    }
    assert!(!problems(&layer("Scale", "opset1", ""), &options).contains(hint));
    let text = problems(&layer("Scale", "extension", ""), &options);
    assert!(text.contains("`layer1` has no attribute `factor`"), "{text}");
    let text = problems(&model("f16", false, &[("Scale", "extension", r#"factor="2""#)]), &options);
    assert!(text.contains("only f32 can be scaled") && text.contains("in the Scale layer `layer1`"), "{text}");
    let two = Options::default().operation(scale().inputs(2..=3));
    assert!(problems(&layer("Scale", "extension", ""), &two).contains("has 1 inputs, not 2 to 3"));
    let warned = compile(&source(&layer("Scale", "extension", r#"factor="2" extra="1""#)), &options).unwrap();
    assert!(warned.warnings.to_string().contains("attribute `extra` has no effect"));
}
