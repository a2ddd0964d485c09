//! The second stage of region-based detectors: ExperimentalDetectronDetectionOutput, -TopKROIs and -ROIFeatureExtractor.

mod extractor;

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::Call;
use crate::program::builder::Builder;
use crate::program::nest::{Bound, Const};
use crate::read::{Attributes, Layer};
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("ExperimentalDetectronDetectionOutput", 4..=4, |_| 3, |a| Ok(Rc::new(DetectionOutput::parse(a)?))),
    row("ExperimentalDetectronROIFeatureExtractor", 2..=usize::MAX, |_| 2, extractor::parse),
    row("ExperimentalDetectronTopKROIs", 2..=2, one_output, |a| match a.int_or("max_rois", 0)? {
        most if most >= 0 => Ok(Rc::new(TopRegions { most })),
        _ => Err(a.invalid("max_rois", "a number that is not negative")),
    }),
];

const fn row(
    name: &'static str,
    inputs: RangeInclusive<usize>,
    outputs: fn(&Layer) -> usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version: 6, opsets: 6..=17, inputs, outputs, parse, ignorable: &[], support: Support::Full }
}

/// The number of regions: the first dimension of `[regions, 4]`.
fn regions(fact: &Fact, context: &mut InferContext) -> Result<Dim, Diagnostic> {
    typing::float(fact.element, "the tensor of regions")?;
    let [count, sides] = fact.dims.as_slice() else {
        return Err(shape_error("regions must have two dimensions"));
    };
    require_equal(context, sides, &Dim::constant(4), "the last dimension of regions and a box's size")?;
    Ok(count.clone())
}

/// ExperimentalDetectronDetectionOutput-6: corners `[most, 4]`, classes `[most]` and scores `[most]` of the best detections
/// of one image, the rest 0.
///
/// Operands: regions `[regions, 4]`, deltas `[regions, classes * 4]`, scores `[regions, classes]`, and numbers of the image,
/// which nothing depends on: boxes are cut at 0 only.
#[derive(Debug)]
struct DetectionOutput {
    classes: i64,
    /// Most detections of a class.
    per_class: i64,
    most: i64,
    /// Smallest score, largest overlap, largest logarithm of a growth, divisors of the deltas.
    floats: Vec<f32>,
}

impl DetectionOutput {
    fn parse(a: &Attributes) -> Result<Self, Diagnostic> {
        let count = |name: &str, least: i64| match a.int(name)? {
            count if count >= least => Ok(count),
            _ => Err(a.invalid(name, if least > 0 { "a positive number" } else { "a number that is not negative" })),
        };
        let divisors = a.floats("deltas_weights")?;
        if divisors.len() != 4 {
            return Err(a.invalid("deltas_weights", "a list of four numbers"));
        }
        // Deltas of the background are in the operand either way.
        a.bool("class_agnostic_box_regression", false)?;
        let limits = [a.float("score_threshold")?, a.float("nms_threshold")?, a.float("max_delta_log_wh")?];
        let per_class = match a.int("post_nms_count")? {
            -1 => i64::MAX,
            _ => count("post_nms_count", 0)?,
        };
        Ok(DetectionOutput {
            classes: count("num_classes", 1)?,
            per_class,
            most: count("max_detections_per_image", 0)?,
            floats: limits.iter().chain(&divisors).map(|value| *value as f32).collect(),
        })
    }
}

impl Op for DetectionOutput {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        typing::equal(inputs)?;
        let element = operand(inputs, 0)?.element;
        let count = regions(operand(inputs, 0)?, context)?;
        for (i, what, numbers) in [(1, "deltas", 4 * self.classes), (2, "scores", self.classes)] {
            let [rows, columns] = operand(inputs, i)?.dims.as_slice() else {
                return Err(shape_error(format!("{what} must have two dimensions")));
            };
            require_equal(context, rows, &count, &format!("rows of {what} and the number of regions"))?;
            let own = format!("columns of {what} and those of all classes");
            require_equal(context, columns, &Dim::constant(numbers), &own)?;
        }
        let most = Dim::constant(self.most);
        let scores = Fact::new(element, vec![most.clone()]);
        let corners = Fact::new(element, vec![most.clone(), Dim::constant(4)]);
        Ok(vec![corners, Fact::new(ElementType::I32, vec![most]), scores])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let mut inputs = Vec::new();
        for i in 0..3 {
            let x = builder.input(i)?;
            inputs.push(builder.converted(x, ElementType::F32)?);
        }
        let regions = builder.dims(builder.input(0)?).first().cloned().unwrap_or_default();
        let (corners, scores) = (builder.output(0)?, builder.output(2)?);
        let (four, most) = (Dim::constant(4), Dim::constant(self.most));
        let staged = [builder.staged(corners, ElementType::F32), builder.staged(scores, ElementType::F32)];
        let outputs = vec![
            staged[0],
            builder.output(1)?,
            staged[1],
            builder.temporary(ElementType::F32, vec![regions.clone(), four]),
            builder.temporary(ElementType::I32, vec![regions.clone() * 2]),
            builder.temporary(ElementType::F32, vec![regions]),
            builder.temporary(ElementType::F32, vec![most.clone(), Dim::constant(6)]),
            builder.temporary(ElementType::I64, vec![most.clone()]),
            builder.temporary(ElementType::I32, vec![most]),
        ];
        builder.call(Call {
            function: function!(detectron_detection_output),
            inputs,
            outputs,
            integers: vec![Dim::constant(self.classes), Dim::constant(self.per_class)],
            floats: self.floats.clone(),
            sizes: Vec::new(),
        });
        builder.convert(staged[0], corners)?;
        builder.convert(staged[1], scores)
    }
}

/// ExperimentalDetectronTopKROIs-6: `[most, 4]`, the regions with the largest scores, the rest 0.
#[derive(Debug)]
struct TopRegions {
    most: i64,
}

impl Op for TopRegions {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (boxes, scores) = (operand(inputs, 0)?, operand(inputs, 1)?);
        typing::equal(inputs)?;
        let count = regions(boxes, context)?;
        match scores.dims.as_slice() {
            [scored] => require_equal(context, scored, &count, "numbers of regions and scores")?,
            _ => return Err(shape_error("scores must have one dimension")),
        }
        Ok(vec![Fact::new(boxes.element, vec![Dim::constant(self.most), Dim::constant(4)])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (boxes, scores, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let count = builder.dims(scores).first().cloned().unwrap_or_default();
        let kept = count.minimum(&Dim::constant(self.most));
        let scores = builder.converted(scores, ElementType::F32)?;
        let order = builder.temporary(ElementType::I32, vec![kept.clone()]);
        let working = builder.temporary(ElementType::I32, vec![count.clone() * 2]);
        builder.call(Call {
            function: function!(top_k),
            inputs: vec![scores],
            outputs: vec![order, working],
            integers: vec![Dim::constant(0), Dim::constant(0), Dim::constant(0)],
            floats: Vec::new(),
            sizes: Vec::new(),
        });
        let zero = Const::of(builder.scalar_type(boxes)?, 0.0);
        builder.map(out, |n, i| {
            let [row, side] = i else { return Err(Diagnostic::internal("a region has no dimensions")) };
            let (none, zero) = (n.constant(Const::I32(-1)), n.constant(zero));
            let bound = Bound { value: row.clone(), limit: kept.clone() };
            let at = n.load_within(order, std::slice::from_ref(row), vec![bound], none)?;
            let at = n.cast(ElementType::I64, at);
            let at = n.as_index(at);
            let bound = Bound { value: at.clone(), limit: count.clone() };
            n.load_within(boxes, &[at, side.clone()], vec![bound], zero)
        })
    }
}
