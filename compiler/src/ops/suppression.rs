//! Suppression of boxes that overlap better ones: NonMaxSuppression, NMSRotated, MatrixNms, MulticlassNms.
//!
//! A box is a candidate if its score is greater than the threshold, and is suppressed if its overlap is greater than the
//! threshold; of equal scores the first box wins.

mod many_classes;

use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, Variable};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::Builder;
use crate::program::nest::{Binary, Bound, Const, Unary};
use crate::program::{BufferId, Call};
use crate::read::{Attributes, Layer};
use crate::tensor::Tensor;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    many_classes::MATRIX,
    many_classes::MULTICLASS_8,
    many_classes::MULTICLASS_9,
    row("NMSRotated", 13, 13..=17, 5..=5, |_| 3, rotated),
    row("NonMaxSuppression", 1, 1..=2, 2..=5, one_output, |a| suppression(a, Rows::PerBox, false, ElementType::I64)),
    row("NonMaxSuppression", 3, 3..=3, 2..=5, one_output, |a| suppression(a, Rows::PerBox, false, indices(a)?)),
    row("NonMaxSuppression", 4, 4..=4, 2..=5, one_output, |a| suppression(a, Rows::PerClass, false, indices(a)?)),
    row("NonMaxSuppression", 5, 5..=8, 2..=6, |_| 3, |a| suppression(a, Rows::Found, true, indices(a)?)),
    row("NonMaxSuppression", 9, 9..=17, 2..=6, |_| 3, |a| suppression(a, Rows::Found, false, indices(a)?)),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: RangeInclusive<usize>,
    outputs: fn(&Layer) -> usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs, outputs, parse, ignorable: &[], support: Support::Full }
}

/// How a box is given.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    /// Any two opposite corners.
    Corner,
    /// Centre and size.
    Center,
    /// Centre, size and the angle from the x axis to the y axis, which points down.
    Clockwise,
    /// Centre, size and the angle from the x axis away from the y axis.
    CounterClockwise,
}

/// How many rows of indices there are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rows {
    /// `min(boxes, most * classes)`; the first ones, or padded with -1.
    PerBox,
    /// `images * classes * min(boxes, most)`, padded with -1.
    PerClass,
    /// As many as boxes are selected.
    Found,
}

/// NonMaxSuppression-1, -3, -4, -5, -9 and NMSRotated-13: rows of image, class and box of the selected boxes; from
/// version 5 on also rows of image, class and score, and the number of rows.
#[derive(Debug)]
struct NonMaxSuppression {
    encoding: Encoding,
    /// All selected boxes by score, else those of every class.
    sorted: bool,
    output_type: ElementType,
    rows: Rows,
    /// Version 5: too large an overlap suppresses even where scores decay.
    hard: bool,
}

/// The element type of the selected rows; version 1 has no attribute for it.
fn indices(attributes: &Attributes) -> Result<ElementType, Diagnostic> {
    attributes.index_type_or("output_type", ElementType::I64)
}

fn suppression(
    attributes: &Attributes,
    rows: Rows,
    hard: bool,
    output_type: ElementType,
) -> Result<Rc<dyn Op>, Diagnostic> {
    let encodings = [("corner", Encoding::Corner), ("center", Encoding::Center)];
    Ok(Rc::new(NonMaxSuppression {
        encoding: attributes.choice_or("box_encoding", &encodings, Encoding::Corner)?,
        sorted: attributes.bool("sort_result_descending", true)?,
        output_type,
        rows,
        hard,
    }))
}

fn rotated(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let clockwise = attributes.bool("clockwise", true)?;
    Ok(Rc::new(NonMaxSuppression {
        encoding: if clockwise { Encoding::Clockwise } else { Encoding::CounterClockwise },
        sorted: attributes.bool("sort_result_descending", true)?,
        output_type: indices(attributes)?,
        rows: Rows::Found,
        hard: false,
    }))
}

/// Sizes that decide how many boxes are selected.
struct Sizes {
    images: Dim,
    classes: Dim,
    boxes: Dim,
    /// Most boxes of a class, where this is known when the model is compiled.
    most: Option<Dim>,
}

impl Sizes {
    fn of(inputs: &[Fact]) -> Result<Self, Diagnostic> {
        let (boxes, scores) = (operand(inputs, 0)?, operand(inputs, 1)?);
        let ([images, count, _], [_, classes, _]) = (boxes.dims.as_slice(), scores.dims.as_slice()) else {
            return Err(shape_error("boxes and scores must have three dimensions"));
        };
        let most = match inputs.get(2) {
            None => Some(Dim::constant(0)),
            Some(most) => most.as_sizes().and_then(|sizes| sizes.into_iter().next()),
        };
        if most.as_ref().is_some_and(|most| most.range().max < 0) {
            let message = "the largest number of boxes per class is negative";
            return Err(Diagnostic::error(&codes::VALUE, message).help("a large number, not -1, keeps all boxes"));
        }
        let most = most.map(|most| most.maximum(&Dim::constant(0)));
        Ok(Sizes { images: images.clone(), classes: classes.clone(), boxes: count.clone(), most })
    }

    /// Most boxes that can be selected of one class.
    fn per_class(&self) -> Dim {
        self.most.as_ref().map_or(self.boxes.clone(), |most| self.boxes.minimum(most))
    }

    /// Most boxes that can be selected.
    fn selected(&self) -> Dim {
        self.images.clone() * &self.classes * &self.per_class()
    }
}

impl NonMaxSuppression {
    /// Numbers of a box.
    fn box_size(&self) -> i64 {
        if matches!(self.encoding, Encoding::Clockwise | Encoding::CounterClockwise) { 5 } else { 4 }
    }

    fn check(&self, inputs: &[Fact], context: &mut InferContext) -> Result<(), Diagnostic> {
        let (boxes, scores) = (operand(inputs, 0)?, operand(inputs, 1)?);
        typing::float(boxes.element, "the tensor of boxes")?;
        typing::float(scores.element, "the tensor of scores")?;
        let ([images, count, size], [scored_images, _, scored]) = (boxes.dims.as_slice(), scores.dims.as_slice())
        else {
            return Err(shape_error("boxes and scores must have three dimensions"));
        };
        require_equal(context, size, &Dim::constant(self.box_size()), "the last dimension of boxes and a box's size")?;
        require_equal(context, images, scored_images, "images of boxes and scores")?;
        require_equal(context, count, scored, "numbers of boxes and scores")?;
        if let Some(most) = inputs.get(2) {
            typing::integer(most.element, "the largest number of boxes per class")?;
        }
        let what = ["largest number of boxes per class", "overlap threshold", "score threshold", "sigma"];
        for (i, (fact, what)) in inputs.iter().skip(2).zip(what).enumerate() {
            if i > 0 {
                typing::float(fact.element, &format!("the {what}"))?;
            }
            if !fact.dims.iter().all(|dim| dim.is(1)) {
                return Err(shape_error(format!("the {what} must be a single number")));
            }
        }
        Ok(())
    }

    /// The boxes as the runtime takes them: two corners, or centre, size and clockwise angle.
    fn boxes(&self, builder: &mut Builder) -> Result<BufferId, Diagnostic> {
        let x = builder.input(0)?;
        if self.encoding == Encoding::Clockwise {
            return builder.converted(x, ElementType::F32);
        }
        let out = builder.temporary(ElementType::F32, builder.dims(x));
        builder.map(out, |n, i| {
            let Some((last, outer)) = i.split_last() else { return Err(Diagnostic::internal("boxes are scalars")) };
            let element = |at: Dim| outer.iter().cloned().chain([at]).collect::<Vec<Dim>>();
            let at = n.index(last);
            if self.encoding == Encoding::CounterClockwise {
                let (value, angle) = (n.load(x, i)?, n.constant(Const::I64(4)));
                let (is_angle, turned) = (n.binary(Binary::Eq, at, angle), n.unary(Unary::Neg, value));
                return Ok(n.select(is_angle, turned, value));
            }
            let axis = last.modulo(&Dim::constant(2));
            let (first, second) = (n.load(x, &element(axis.clone()))?, n.load(x, &element(axis + 2))?);
            let (low, high) = match self.encoding {
                Encoding::Center => {
                    let half = n.constant_like(second, 0.5);
                    let half = n.binary(Binary::Mul, second, half);
                    (n.binary(Binary::Sub, first, half), n.binary(Binary::Add, first, half))
                }
                _ => (n.binary(Binary::Min, first, second), n.binary(Binary::Max, first, second)),
            };
            let two = n.constant(Const::I64(2));
            let is_low = n.binary(Binary::Lt, at, two);
            Ok(n.select(is_low, low, high))
        })?;
        Ok(out)
    }

    /// Operand `i` in the type that the runtime takes; 0 where it is absent.
    fn number(builder: &mut Builder, i: usize, element: ElementType) -> Result<BufferId, Diagnostic> {
        if i < builder.input_count() {
            let x = builder.input(i)?;
            return builder.converted(x, element);
        }
        Ok(builder.constant(match element {
            ElementType::F32 => Tensor::from_f32s(vec![1], &[0.0]),
            _ => Tensor::from_i64s(&[0]),
        }))
    }

    /// Selects boxes: rows of image, class and box in `indices`, of image, class and score in `scores`. Without `found`,
    /// the rows behind the selected ones are -1.
    fn select(
        &self,
        builder: &mut Builder,
        indices: BufferId,
        scores: BufferId,
        found: Option<Variable>,
    ) -> Result<(), Diagnostic> {
        let x = builder.input(1)?;
        let mut inputs = vec![self.boxes(builder)?, builder.converted(x, ElementType::F32)?];
        inputs.push(Self::number(builder, 2, ElementType::I64)?);
        for i in 3..6 {
            inputs.push(Self::number(builder, i, ElementType::F32)?);
        }
        let count = Sizes::of(builder.facts())?.boxes;
        let places = builder.temporary(ElementType::I32, vec![count.clone() * 2]);
        let working = builder.temporary(ElementType::F32, vec![count]);
        builder.call(Call {
            function: function!(non_max_suppression),
            inputs,
            outputs: vec![indices, scores, places, working],
            integers: vec![Dim::from(usize::from(self.sorted)), Dim::from(usize::from(self.hard))],
            floats: Vec::new(),
            sizes: found.into_iter().collect(),
        });
        Ok(())
    }

    /// Finds the number of rows, which depends on the number of boxes per class, and sets `out`'s first dimension.
    fn find_rows(&self, builder: &mut Builder, out: BufferId) -> Result<(), Diagnostic> {
        let (most, sizes) = (builder.input(2)?, Sizes::of(builder.facts())?);
        let rows = builder.temporary(ElementType::I64, vec![Dim::constant(1)]);
        builder.map(rows, |n, _| {
            let origin = vec![Dim::constant(0); n.dims(most).len()];
            let most = n.load(most, &origin)?;
            let (most, zero) = (n.cast(ElementType::I64, most), n.constant(Const::I64(0)));
            let most = n.binary(Binary::Max, most, zero);
            let boxes = n.index(&sizes.boxes);
            let per_class = n.binary(Binary::Min, most, boxes);
            let (images, classes) = (n.index(&sizes.images), n.index(&sizes.classes));
            let per_image = n.binary(Binary::Mul, per_class, classes);
            Ok(match self.rows {
                Rows::PerBox => n.binary(Binary::Min, per_image, boxes),
                _ => n.binary(Binary::Mul, per_image, images),
            })
        })?;
        let found = builder.found(out, 0)?;
        builder.read_sizes(rows, vec![found])
    }

    /// Versions 1 to 4: a number of rows that does not depend on the boxes.
    fn lower_padded(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (out, sizes) = (builder.output(0)?, Sizes::of(builder.facts())?);
        if sizes.most.is_none() {
            self.find_rows(builder, out)?;
        }
        let dims = vec![sizes.selected(), Dim::constant(3)];
        let scores = builder.temporary(ElementType::F32, dims.clone());
        let all = builder.temporary(ElementType::I64, dims);
        self.select(builder, all, scores, None)?;
        builder.map(out, |n, i| {
            let bounds = i.iter().take(1).map(|row| Bound { value: row.clone(), limit: sizes.selected() }).collect();
            let none = n.constant(Const::I64(-1));
            n.load_within(all, i, bounds, none)
        })
    }
}

impl Op for NonMaxSuppression {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        self.check(inputs, context)?;
        let sizes = Sizes::of(inputs)?;
        let bound = sizes.selected().upper_bound();
        let rows = match (self.rows, &sizes.most) {
            (Rows::Found, _) | (_, None) => context.fresh("selected", 0, bound),
            (Rows::PerBox, Some(_)) => sizes.boxes.minimum(&(sizes.per_class() * &sizes.classes)),
            (Rows::PerClass, Some(_)) => sizes.selected(),
        };
        let table = vec![rows, Dim::constant(3)];
        let indices = Fact::new(self.output_type, table.clone());
        if self.rows != Rows::Found {
            return Ok(vec![indices]);
        }
        let count = Fact::new(self.output_type, vec![Dim::constant(1)]);
        Ok(vec![indices, Fact::new(ElementType::F32, table), count])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if self.rows != Rows::Found {
            return self.lower_padded(builder);
        }
        let (out, scores, count) = (builder.output(0)?, builder.output(1)?, builder.output(2)?);
        let (indices, found) = (builder.staged(out, ElementType::I64), builder.found(out, 0)?);
        self.select(builder, indices, scores, Some(found))?;
        builder.convert(indices, out)?;
        builder.map(count, |n, _| Ok(n.index(&Dim::variable(found))))
    }
}
