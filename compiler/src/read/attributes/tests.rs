use super::super::shape::DimRange;
use super::*;
use crate::diag::{Level, Span};

fn layer(attributes: &[(&str, &str)]) -> Layer {
    let attribute = |(index, &(name, value)): (usize, &(&str, &str))| Attribute {
        name: name.into(),
        value: value.into(),
        name_span: Span::new(10 * index, 10 * index + 1),
        value_span: Span::new(10 * index + 2, 10 * index + 3),
    };
    Layer {
        name: "l".into(),
        kind: "Op".into(),
        span: Span::new(900, 999),
        attributes: attributes.iter().enumerate().map(attribute).collect(),
        ..Layer::default()
    }
}

/// Reads one attribute `a` of a value with `read`; returns the number of warnings too.
fn with<T>(value: &str, read: impl Fn(&Attributes<'_>) -> Result<T, Diagnostic>) -> Result<(T, usize), Diagnostic> {
    let layer = layer(&[("a", value)]);
    let attributes = Attributes::new(&layer);
    let value = read(&attributes)?;
    Ok((value, attributes.finish(&[]).len()))
}

#[test]
fn numbers() {
    for (text, value, warnings) in
        [("1", 1, 0), ("-3", -3, 0), (" 1 ", 1, 0), ("+1", 1, 0), ("1.7", 1, 1), ("1,0", 1, 1)]
    {
        assert_eq!(with(text, |a| a.int("a")), Ok((value, warnings)), "{text}");
    }
    for text in ["", "abc", "0x1", "1 2", "99999999999999999999", "--1", "１"] {
        let error = with(text, |a| a.int("a")).unwrap_err();
        assert_eq!((error.code, error.span), (&codes::BAD_ATTRIBUTE, Some(Span::new(2, 3))), "{text}");
    }
    for (text, value, warnings) in [("1e-5", 1e-5, 0), ("inf", f64::INFINITY, 0), ("1.5f", 1.5, 1), ("1,5", 1.0, 1)] {
        assert_eq!(with(text, |a| a.float("a")), Ok((value, warnings)), "{text}");
    }
    for text in ["", "INF", "Infinity", "1e400", "abc", "1x"] {
        assert!(with(text, |a| a.float("a")).is_err(), "{text}");
    }
}

#[test]
fn lists() {
    for (text, value) in [("", vec![]), ("1, 2", vec![1, 2]), (" 1 ,2, ", vec![1, 2]), ("-1", vec![-1])] {
        assert_eq!(with(text, |a| a.ints("a")), Ok((value, 0)), "{text}");
    }
    assert_eq!(with("2.5,3", |a| a.ints("a")), Ok((vec![2, 3], 1)));
    for text in ["2,,2", "[2,2]", "a", ",", ",1", "1;2"] {
        assert!(with(text, |a| a.ints("a")).is_err(), "{text}");
    }
    assert_eq!(with("1, .5", |a| a.floats("a")), Ok((vec![1.0, 0.5], 0)));
    let words = |a: &Attributes<'_>| a.words_or("a", &["sigmoid", "tanh"], &["tanh"]);
    assert_eq!(with(" sigmoid,, TANH ", words), Ok((vec!["sigmoid", "tanh"], 0)));
    assert_eq!(with("", words), Ok((vec!["tanh"], 0)));
    assert_eq!(words(&Attributes::new(&layer(&[]))), Ok(vec!["tanh"]));
    let error = with("relu", words).unwrap_err();
    assert!(error.message.ends_with("is `relu`, not a list of `sigmoid`, `tanh`"), "{}", error.message);
}

#[test]
fn booleans_and_words() {
    for (text, value) in [("true", true), ("TRUE", true), ("1", true), ("False", false), ("0", false)] {
        assert_eq!(with(text, |a| a.bool("a", !value)), Ok((value, 0)), "{text}");
    }
    for text in ["yes", " true", "", "2"] {
        assert!(with(text, |a| a.bool("a", false)).is_err(), "{text}");
    }
    let modes = [("floor", 1), ("ceil", 2)];
    assert_eq!(with("CEIL", |a| a.choice("a", &modes)), Ok((2, 0)));
    let error = with("round", |a| a.choice_or("a", &modes, 1)).unwrap_err();
    assert!(error.message.ends_with("is `round`, not one of `floor`, `ceil`"), "{}", error.message);
}

#[test]
fn types_and_shapes() {
    assert_eq!(with("BF16", |a| a.element_type("a")), Ok((ElementType::Bf16, 0)));
    let error = with("FP32", |a| a.element_type("a")).unwrap_err();
    assert!(error.help.unwrap().contains("`f32`"));
    assert!(with("dynamic", |a| a.element_type("a")).is_err());
    assert_eq!(with("dynamic", |a| a.element_type_if_known("a")), Ok((None, 0)));
    let (dims, _) = with("1..8,?", |a| a.dims("a")).unwrap();
    assert_eq!(dims.dims, [DimRange { min: 1, max: Some(8) }, DimRange::ANY]);
    assert_eq!(dims.fixed(), None);
    assert!(with("1,,3", |a| a.dims("a")).unwrap_err().notes[0].contains("dimension 1"));
}

#[test]
fn missing_attributes_show_what_there_is() {
    let layer = layer(&[("pads", "0"), ("dilation", "1")]);
    let attributes = Attributes::new(&layer);
    let error = attributes.ints("dilations").unwrap_err();
    assert_eq!((error.code, error.span), (&codes::MISSING_ATTRIBUTE, Some(layer.span)));
    assert!(error.notes[0].contains("`pads`, `dilation`"), "{:?}", error.notes);
    assert_eq!(attributes.int_or("axis", 7), Ok(7));
    assert_eq!(attributes.ints_or("axes", &[1, 2]), Ok(vec![1, 2]));
    assert_eq!(attributes.element_type_or("type", ElementType::I64), Ok(ElementType::I64));
    assert!(!attributes.has("x") && attributes.dims_if_present("y") == Ok(None));
}

#[test]
fn unread_attributes_are_reported() {
    let layer = layer(&[("axis", "1"), ("Dilation", "1"), ("zebra", "1"), ("legacy", "1")]);
    let attributes = Attributes::new(&layer);
    attributes.int("axis").unwrap();
    attributes.ints_or("dilations", &[]).unwrap();
    let found = attributes.finish(&["legacy"]);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|d| d.level == Level::Warning && d.code == &codes::UNKNOWN_ATTRIBUTE));
    assert_eq!(found[0].help.as_deref(), Some("did you mean `dilations`?"));
    assert_eq!((found[1].help.as_deref(), found[1].span), (None, Some(Span::new(20, 21))));
}

#[test]
fn questions() {
    let layer = layer(&[("mode", "CEIL"), ("type", "f16"), ("bad", "yes")]);
    let attributes = Attributes::recording(&layer);
    let modes = [("floor", 1), ("ceil", 2)];
    attributes.choice("mode", &modes).unwrap();
    attributes.choice_or("other", &modes, 1).unwrap();
    attributes.element_type("type").unwrap();
    attributes.bool("flag", true).unwrap();
    attributes.bool("bad", true).unwrap_err();
    attributes.words_or("words", &["a", "b"], &["b", "a"]).unwrap();
    let questions = attributes.questions();
    let answers: Vec<Option<&str>> = questions.iter().map(|question| question.answer.as_deref()).collect();
    assert_eq!(answers, [Some("ceil"), Some("floor"), Some("f16"), Some("true"), None, Some("b,a")]);
    assert_eq!(questions[0].accepts, Accepts::words(&["floor", "ceil"]));
    assert_eq!(questions[5].accepts, Accepts::lists(&["a", "b"]));
    let plain = Attributes::new(&layer);
    plain.choice("mode", &modes).unwrap();
    assert!(plain.questions().is_empty());
}
