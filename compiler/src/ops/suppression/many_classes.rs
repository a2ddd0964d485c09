//! Suppression within many classes, with limits per class and per image: MatrixNms, MulticlassNms.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::{operand, require_equal, same_element, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, typing};
use crate::program::builder::Builder;
use crate::program::{Call, Function};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// MatrixNonMaxSuppression-8.
pub const MATRIX: OpDef = row("MatrixNms", 8, 8..=17, 2..=2, matrix);
/// MulticlassNonMaxSuppression-8.
pub const MULTICLASS_8: OpDef = row("MulticlassNms", 8, 8..=8, 2..=2, multiclass);
/// MulticlassNonMaxSuppression-9: classes may have boxes of their own.
pub const MULTICLASS_9: OpDef = row("MulticlassNms", 9, 9..=17, 2..=3, multiclass);

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: RangeInclusive<usize>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs, outputs: |_| 3, parse, ignorable: &[], support: Support::Full }
}

/// How rows are ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// Not at all: like `Score`, but never across images.
    Unspecified,
    Score,
    Class,
}

/// MatrixNms-8, MulticlassNms-8 and -9: rows of class, score and corners of the selected boxes, their indices in the
/// flattened boxes, and the number of rows of every image.
///
/// Boxes are `[images, boxes, 4]` with scores `[images, classes, boxes]`, or, with a third operand that counts the boxes
/// of every image, `[classes, boxes, 4]` with scores `[classes, boxes]`.
#[derive(Debug)]
struct ManyClasses {
    function: Function,
    output_type: ElementType,
    /// Most boxes that are looked at in a class.
    per_class: i64,
    /// Most rows of an image.
    per_image: i64,
    background: i64,
    order: Order,
    across: bool,
    /// Whether scores decay, and if so as a Gaussian function.
    gaussian: Option<bool>,
    floats: Vec<f32>,
}

impl ManyClasses {
    fn parse(
        a: &Attributes,
        function: Function,
        gaussian: Option<bool>,
        floats: &[f64],
    ) -> Result<Rc<dyn Op>, Diagnostic> {
        let limit = |name: &str| match a.int_or(name, -1)? {
            -1 => Ok(i64::MAX),
            limit if limit >= 0 => Ok(limit),
            _ => Err(a.invalid(name, "-1 or a number that is not negative")),
        };
        // The specification's text calls the attribute and one of its values otherwise than files do.
        let orders =
            [("none", Order::Unspecified), ("score", Order::Score), ("classid", Order::Class), ("class", Order::Class)];
        let order = if a.has("sort_result_type") { "sort_result_type" } else { "sort_result" };
        let pixels = if a.bool("normalized", true)? { 0.0 } else { 1.0 };
        Ok(Rc::new(ManyClasses {
            function,
            output_type: a.index_type_or("output_type", ElementType::I64)?,
            per_class: limit("nms_top_k")?,
            per_image: limit("keep_top_k")?,
            background: a.int_or("background_class", -1)?,
            order: a.choice_or(order, &orders, Order::Unspecified)?,
            across: a.bool("sort_result_across_batch", false)?,
            gaussian,
            floats: [&[pixels], floats].concat().iter().map(|value| *value as f32).collect(),
        }))
    }

    /// Most rows of all images.
    fn capacity(&self, inputs: &[Fact]) -> Result<i64, Diagnostic> {
        let bound = |i: usize, axis: usize| {
            let fact = operand(inputs, i)?;
            Ok(fact.dims.get(axis).map_or(1, Dim::upper_bound))
        };
        let boxes = bound(0, 1)?;
        if inputs.len() == 2 {
            let of_image = bound(1, 1)?.saturating_mul(boxes.min(self.per_class));
            return Ok(bound(0, 0)?.saturating_mul(of_image.min(self.per_image)));
        }
        // The boxes of all images together are all boxes.
        let of_images = bound(2, 0)?.saturating_mul(self.per_image);
        Ok(bound(0, 0)?.saturating_mul(boxes).min(of_images))
    }
}

fn matrix(a: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let gaussian = a.choice_or("decay_function", &[("gaussian", true), ("linear", false)], false)?;
    let (before, after) = (a.float_or("score_threshold", 0.0)?, a.float_or("post_threshold", 0.0)?);
    let sigma = a.float_or("gaussian_sigma", 2.0)?;
    ManyClasses::parse(a, function!(matrix_nms), Some(gaussian), &[before, after, sigma])
}

fn multiclass(a: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let eta = a.float_or("nms_eta", 1.0)?;
    if !(0.0..=1.0).contains(&eta) {
        return Err(a.invalid("nms_eta", "a number from 0 to 1"));
    }
    let (score, overlap) = (a.float_or("score_threshold", 0.0)?, a.float_or("iou_threshold", 0.0)?);
    ManyClasses::parse(a, function!(multiclass_nms), None, &[score, overlap, eta])
}

impl Op for ManyClasses {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (boxes, scores) = (operand(inputs, 0)?, operand(inputs, 1)?);
        let element = same_element(inputs, 0, 1)?;
        typing::float(element, "the tensor of boxes")?;
        let [outer, count, corners] = boxes.dims.as_slice() else {
            return Err(shape_error("boxes must have three dimensions"));
        };
        require_equal(context, corners, &Dim::constant(4), "the last dimension of boxes and a box's size")?;
        let images = match (inputs.get(2), scores.dims.as_slice()) {
            (None, [images, _, scored]) => {
                require_equal(context, outer, images, "images of boxes and scores")?;
                require_equal(context, count, scored, "numbers of boxes and scores")?;
                images
            }
            (Some(counts), [classes, scored]) => {
                require_equal(context, outer, classes, "classes of boxes and scores")?;
                require_equal(context, count, scored, "numbers of boxes and scores")?;
                typing::integer(counts.element, "the number of boxes of every image")?;
                match counts.dims.as_slice() {
                    [images] => images,
                    _ => return Err(shape_error("the numbers of boxes of every image must be a vector")),
                }
            }
            (None, _) => return Err(shape_error("scores must have three dimensions: images, classes, boxes")),
            (Some(_), _) => return Err(shape_error("scores must have two dimensions: classes, boxes")),
        };
        let rows = context.fresh("selected", 0, self.capacity(inputs)?);
        Ok(vec![
            Fact::new(element, vec![rows.clone(), Dim::constant(6)]),
            Fact::new(self.output_type, vec![rows, Dim::constant(1)]),
            Fact::new(self.output_type, vec![images.clone()]),
        ])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let mut inputs = Vec::new();
        for i in 0..builder.input_count() {
            let (x, element) = (builder.input(i)?, if i < 2 { ElementType::F32 } else { ElementType::I64 });
            inputs.push(builder.converted(x, element)?);
        }
        let boxes = builder.dims(builder.input(0)?).get(1).cloned().unwrap_or_default();
        let results = [builder.output(0)?, builder.output(1)?, builder.output(2)?];
        let types = [ElementType::F32, ElementType::I64, ElementType::I64];
        let mut outputs: Vec<_> = results.iter().zip(types).map(|(to, ty)| builder.staged(*to, ty)).collect();
        let found = builder.found(builder.output(0)?, 0)?;
        outputs.push(builder.temporary(ElementType::I32, vec![Dim::variable(found)]));
        outputs.push(builder.temporary(ElementType::I32, vec![boxes.clone() * 2]));
        outputs.push(builder.temporary(ElementType::F32, vec![boxes.clone()]));
        if self.gaussian.is_some() {
            outputs.push(builder.temporary(ElementType::F32, vec![boxes]));
        }
        let flags = [self.order == Order::Class, self.across && self.order != Order::Unspecified];
        let limits = [self.per_class, self.per_image, self.background].into_iter().chain(flags.map(i64::from));
        let integers = limits.chain(self.gaussian.map(i64::from)).map(Dim::constant).collect();
        let staged = outputs.clone();
        builder.call(Call {
            function: self.function,
            inputs,
            outputs,
            integers,
            floats: self.floats.clone(),
            sizes: vec![found],
        });
        for (to, from) in results.into_iter().zip(staged) {
            builder.convert(from, to)?;
        }
        Ok(())
    }
}
