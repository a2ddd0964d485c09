//! State of compiled models: named access, reset, restoring, sizes that grow; and models whose state does not fit together.

use include_ir::{RunError, TensorView};
use include_ir_compiler::options::Bound;
use include_ir_compiler::source::Source;
use include_ir_compiler::{Options, compile};

include_ir::include_ir!(mod accumulate = "cases/state/accumulate_v6/model.xml");
include_ir::include_ir!(mod cache = "cases/state/cache/model.xml", bound: "cache.key_2=5");
include_ir::include_ir!(mod names = "cases/state/names/model.xml");

#[test]
fn state_lasts_until_it_is_reset() {
    let mut model = accumulate::Model::boxed();
    assert_eq!(model.state().a, &[0.0; 6]);
    assert_eq!(model.run(&[1.0; 6]).out0, &[2.5; 6]);
    assert_eq!(model.run(&[1.0; 6]).out0, &[3.5; 6]);
    assert_eq!(model.state().a, &[3.5; 6]);
    model.reset();
    assert_eq!(model.run(&[1.0; 6]).out0, &[2.5; 6]);
}

#[test]
fn state_can_be_set_before_the_first_run() {
    let mut model = accumulate::Model::boxed();
    model.set_state(accumulate::State { a: &[10.0; 6] });
    assert_eq!(model.run(&[1.0; 6]).out0, &[11.0; 6]);
}

#[test]
fn a_model_without_heap_has_state_too() {
    static MODEL: std::sync::Mutex<accumulate::Model> = std::sync::Mutex::new(accumulate::Model::new());
    let mut model = MODEL.lock().unwrap();
    assert_eq!(model.run(&[0.0; 6]).out0, &[1.5; 6]);
}

#[test]
fn caches_grow_up_to_their_bound() {
    let mut model = cache::Model::boxed();
    let x: Vec<f32> = (0..18).map(|i| i as f32 * 0.1).collect();
    model.run(TensorView::new(&x, [1, 3, 6])).unwrap();
    assert_eq!(model.state().cache_key.dims(), [1, 2, 3, 4]);
    let (key, value) = (model.state().cache_key.data().to_vec(), model.state().cache_value.data().to_vec());
    let second = model.run(TensorView::new(&x[..6], [1, 1, 6])).unwrap().out0.data().to_vec();
    let error = model.run(TensorView::new(&x[..12], [1, 2, 6])).unwrap_err();
    assert_eq!(error, RunError::Bound { name: "cache.key_2", bound: 5, found: 6 });
    assert_eq!(model.state().cache_key.dims(), [1, 2, 4, 4], "a run that fails changes nothing");

    let mut other = cache::Model::boxed();
    let saved = cache::State {
        cache_key: TensorView::new(&key, [1, 2, 3, 4]),
        cache_value: TensorView::new(&value, [1, 2, 3, 4]),
    };
    other.set_state(saved).unwrap();
    assert_eq!(other.run(TensorView::new(&x[..6], [1, 1, 6])).unwrap().out0.data(), second);
    let wrong = cache::State { cache_value: TensorView::new(&value, [1, 2, 2, 6]), ..saved };
    assert!(matches!(other.set_state(wrong), Err(RunError::Mismatch { .. })));
    let wrong = cache::State { cache_value: TensorView::new(&value[1..], [1, 2, 3, 4]), ..saved };
    assert!(matches!(other.set_state(wrong), Err(RunError::Length { .. })));
}

#[test]
fn variables_have_distinct_names() {
    let mut model = names::Model::boxed();
    model.run(&[1.0, 2.0]);
    let names::State { a_b, a_b_2, type_, variable, evil, a_b_2_2, memory, kept, d0 } = model.state();
    let all = [a_b, a_b_2, type_, variable, evil, a_b_2_2, memory, kept, d0];
    assert_eq!(all.map(|v| v[0]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let ids = ["a b", "a_b", "type", "", "\"); evil(", "a b 2", "memory", "kept", "d0"];
    assert_eq!(names::STATE.map(|info| info.name), ids);
}

/// `y = x + v; v = ...`, with the attributes of the ReadValue and what is assigned.
fn model(read: &str, init: bool, assigned: &str) -> String {
    let edge = if init { r#"<edge from-layer="1" from-port="0" to-layer="2" to-port="0"/>"# } else { "" };
    format!(
        r#"<net name="m" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1..4,2" element_type="f32"/>
<output><port id="0" precision="FP32"/></output></layer>
<layer id="1" name="init" type="Const" version="opset1"><data element_type="f32" shape="1,2" offset="0" size="8"/>
<output><port id="0" precision="FP32"/></output></layer>
<layer id="2" name="read" type="ReadValue" version="opset6"><data variable_id="v" {read}/>
<input><port id="0"/></input><output><port id="1" precision="FP32"/></output></layer>
<layer id="3" name="whole" type="Concat" version="opset1"><data axis="0"/>
<input><port id="0"/><port id="1"/></input><output><port id="2" precision="FP32"/></output></layer>
<layer id="4" name="ints" type="Convert" version="opset1"><data destination_type="i32"/>
<input><port id="0"/></input><output><port id="1" precision="I32"/></output></layer>
<layer id="5" name="assign" type="Assign" version="opset6"><data variable_id="v"/><input><port id="0"/></input></layer>
<layer id="6" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>{edge}
<edge from-layer="2" from-port="1" to-layer="3" to-port="0"/><edge from-layer="0" from-port="0" to-layer="3" to-port="1"/>
<edge from-layer="2" from-port="1" to-layer="4" to-port="0"/>
<edge {assigned} to-layer="5" to-port="0"/><edge from-layer="3" from-port="2" to-layer="6" to-port="0"/>
</edges></net>"#
    )
}

const WHOLE: &str = r#"from-layer="3" from-port="2""#;

fn errors(xml: &str, bound: i64) -> String {
    let source = Source::from_memory("model.xml", xml, vec![0; 8]).unwrap();
    let mut options = Options::default();
    if bound > 0 {
        options = options.bound(Bound { name: "v_0".to_owned(), max: bound });
    }
    match compile(&source, &options) {
        Ok(_) => String::new(),
        Err(diagnostics) => diagnostics.errors().map(|d| d.message.clone()).collect::<Vec<_>>().join("; "),
    }
}

#[test]
fn state_that_does_not_fit_together_is_refused() {
    let open = r#"variable_type="f32" variable_shape="?,2""#;
    let two = r#"variable_type="f32" variable_shape="1,2""#;
    assert_eq!(errors(&model(open, true, WHOLE), 8), "");
    assert_eq!(errors(&model(open, false, WHOLE), 8), "");
    assert_eq!(errors(&model("", true, r#"from-layer="2" from-port="1""#), 0), "");
    for (xml, bound, expected) in [
        (model(open, true, WHOLE), 0, "dimension 0 of variable `v` has no upper bound"),
        (model(two, true, WHOLE), 0, "variable `v` of shape [1, 2] cannot hold f32[d0 + 1, 2]"),
        (model(open, true, r#"from-layer="4" from-port="1""#), 0, "variable `v` is f32, the value is i32"),
        (model("", false, WHOLE), 0, "variable `v` has neither a shape nor an initial value"),
        (model(r#"variable_shape="1,2""#, false, WHOLE), 0, "variable `v` has neither a type nor an initial value"),
        (
            model(r#"variable_shape="2..3,2""#, true, WHOLE),
            8,
            "the initial value of variable `v` does not fit its type and shape",
        ),
        (
            model(r#"variable_type="i32""#, true, WHOLE),
            8,
            "the initial value of variable `v` does not fit its type and shape",
        ),
        (
            model(r#"variable_shape="2""#, true, WHOLE),
            8,
            "the initial value of variable `v` does not fit its type and shape",
        ),
    ] {
        assert_eq!(errors(&xml, bound), expected);
    }
}
