//! Detections of single-shot detectors: DetectionOutput.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::Call;
use crate::program::builder::Builder;
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row(1, 1..=7, |a| match a.int("num_classes")? {
        classes if classes > 0 => DetectionOutput::parse(a, Some(classes)),
        _ => Err(a.invalid("num_classes", "a positive number")),
    }),
    row(8, 8..=17, |a| DetectionOutput::parse(a, None)),
];

const fn row(
    version: u8,
    opsets: RangeInclusive<u8>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name: "DetectionOutput",
        version,
        opsets,
        inputs: 3..=5,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// DetectionOutput-1 and -8: `[1, 1, rows, 7]`, rows of image, class, score and corners; the first one behind the last
/// detection starts with -1, the others are 0.
///
/// Operands: deltas `[images, priors * locations * 4]`, scores `[images, priors * classes]`, priors `[images or 1, 1 or 2,
/// priors * 4 or 5]`, and for cascades the scores `[images, priors * 2]` and deltas of a first stage. Rows are those of
/// `keep_top_k` per image, else of `top_k` or all priors per image and class.
#[derive(Debug)]
struct DetectionOutput {
    /// Number of classes where an attribute gives it.
    classes: Option<i64>,
    background: i64,
    /// Most boxes that are looked at in a class; -1 for all.
    top_k: i64,
    /// Most detections of an image; -1 for all.
    keep: i64,
    /// 0 corners, 1 centre and size, 2 corners in units of the prior's size.
    code: i64,
    variances: bool,
    shared: bool,
    clip_before: bool,
    clip_after: bool,
    /// Every prior has one class, and classes are numbered without the first one.
    best_class: bool,
    normalized: bool,
    /// Overlap threshold, score threshold, width and height (0 if priors are normalised), objectness threshold.
    floats: Vec<f32>,
}

/// Sizes that the operands' dimensions give.
struct Sizes {
    images: Dim,
    priors: Dim,
    classes: Dim,
    locations: Dim,
    rows: Dim,
}

impl DetectionOutput {
    fn parse(a: &Attributes, classes: Option<i64>) -> Result<Rc<dyn Op>, Diagnostic> {
        let codes = [
            ("caffe.PriorBoxParameter.CORNER", 0),
            ("caffe.PriorBoxParameter.CENTER_SIZE", 1),
            ("caffe.PriorBoxParameter.CORNER_SIZE", 2),
        ];
        let normalized = a.bool("normalized", false)?;
        let size = [a.int_or("input_width", 1)?, a.int_or("input_height", 1)?];
        if size.iter().any(|size| *size < 1) && !normalized {
            let name = if size.first() < Some(&1) { "input_width" } else { "input_height" };
            return Err(a.invalid(name, "a positive number"));
        }
        let [width, height] = size.map(|size| if normalized { 0.0 } else { size as f64 });
        let (overlap, score) = (a.float("nms_threshold")?, a.float_or("confidence_threshold", 0.0)?);
        let floats = [overlap, score, width, height, a.float_or("objectness_score", 0.0)?];
        Ok(Rc::new(DetectionOutput {
            classes,
            background: a.int_or("background_label_id", 0)?,
            top_k: a.int_or("top_k", -1)?,
            keep: match a.ints("keep_top_k")?.first() {
                Some(keep) => *keep,
                None => return Err(a.invalid("keep_top_k", "a list with at least one number")),
            },
            code: a.choice_or("code_type", &codes, 0)?,
            variances: !a.bool("variance_encoded_in_target", false)?,
            shared: a.bool("share_location", true)?,
            clip_before: a.bool("clip_before_nms", false)?,
            clip_after: a.bool("clip_after_nms", false)?,
            best_class: a.bool("decrease_label_id", false)?,
            normalized,
            floats: floats.iter().map(|value| *value as f32).collect(),
        }))
    }

    fn sizes(&self, inputs: &[Fact]) -> Result<Sizes, Diagnostic> {
        let (deltas, scores, priors) = (operand(inputs, 0)?, operand(inputs, 1)?, operand(inputs, 2)?);
        let ([images, _], [_, scored], [_, _, numbers]) =
            (deltas.dims.as_slice(), scores.dims.as_slice(), priors.dims.as_slice())
        else {
            return Err(shape_error("deltas and scores must have two dimensions, priors three"));
        };
        let priors = numbers.floor_div(&Dim::constant(if self.normalized { 4 } else { 5 }));
        if priors.range().min < 1 {
            return Err(shape_error(format!("there must be a prior, not {priors}")));
        }
        let classes = match self.classes {
            Some(classes) => Dim::constant(classes),
            None => scored.floor_div(&priors),
        };
        let locations = if self.shared { Dim::constant(1) } else { classes.clone() };
        let per_image = match (self.keep, self.top_k) {
            (1.., _) => Dim::constant(self.keep),
            (_, 1..) => classes.clone() * self.top_k,
            _ => classes.clone() * &priors,
        };
        Ok(Sizes { images: images.clone(), rows: per_image * images, priors, classes, locations })
    }
}

impl Op for DetectionOutput {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let Sizes { images, priors, classes, locations, rows } = self.sizes(inputs)?;
        typing::equal(inputs)?;
        let boxes = operand(inputs, 2)?;
        typing::float(boxes.element, "the tensor of priors")?;
        let (four, two) = (Dim::constant(4), Dim::constant(2));
        let deltas = [images.clone(), priors.clone() * &locations * &four];
        let expected = [
            ("deltas", deltas.to_vec()),
            ("scores", vec![images.clone(), priors.clone() * &classes]),
            (
                "priors",
                vec![
                    if boxes.dims.first().is_some_and(|batch| batch.is(1)) { Dim::constant(1) } else { images.clone() },
                    if self.variances { two.clone() } else { Dim::constant(1) },
                    priors.clone() * if self.normalized { 4 } else { 5 },
                ],
            ),
            ("scores of the first stage", vec![images, priors * &two]),
            ("deltas of the first stage", deltas.to_vec()),
        ];
        if inputs.len() == 4 {
            let message = "the deltas of the first stage are missing: there are four operands";
            return Err(Diagnostic::error(&codes::SHAPE, message));
        }
        for (fact, (what, dims)) in inputs.iter().zip(expected) {
            if fact.rank() != dims.len() {
                return Err(shape_error(format!("the {what} have {} dimensions, not {}", fact.rank(), dims.len())));
            }
            for (i, (own, dim)) in fact.dims.iter().zip(&dims).enumerate() {
                require_equal(context, own, dim, &format!("dimension {i} of the {what} and what the others ask for"))?;
            }
        }
        let one = Dim::constant(1);
        Ok(vec![Fact::new(boxes.element, vec![one.clone(), one, rows, Dim::constant(7)])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let Sizes { priors, classes, locations, rows, .. } = self.sizes(builder.facts())?;
        let mut inputs = Vec::new();
        for i in 0..builder.input_count() {
            let x = builder.input(i)?;
            inputs.push(builder.converted(x, ElementType::F32)?);
        }
        let out = builder.output(0)?;
        let staged = builder.staged(out, ElementType::F32);
        let outputs = vec![
            staged,
            builder.temporary(ElementType::F32, vec![locations.clone(), priors.clone(), Dim::constant(4)]),
            builder.temporary(ElementType::I32, vec![priors.clone() * 3]),
            builder.temporary(ElementType::F32, vec![priors.clone()]),
            builder.temporary(ElementType::F32, vec![rows.clone(), Dim::constant(6)]),
            builder.temporary(ElementType::I64, vec![rows.clone()]),
            builder.temporary(ElementType::I32, vec![rows]),
        ];
        let unlimited = |limit: i64| Dim::constant(if limit < 0 { i64::MAX } else { limit });
        let flags = [self.variances, self.clip_before, self.clip_after, self.best_class];
        let mut integers = vec![priors, classes, locations, Dim::constant(self.background)];
        integers.extend([unlimited(self.top_k), unlimited(self.keep), Dim::constant(self.code)]);
        integers.extend(flags.map(|flag| Dim::from(usize::from(flag))));
        builder.call(Call {
            function: function!(detection_output),
            inputs,
            outputs,
            integers,
            floats: self.floats.clone(),
            sizes: Vec::new(),
        });
        builder.convert(staged, out)
    }
}
