//! Proposals of regions from anchors and deltas: Proposal, GenerateProposals and its form for a single image.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, typing};
use crate::program::builder::Builder;
use crate::program::{BufferId, Call};
use crate::read::{Attributes, Layer};
use crate::tensor::Tensor;
use include_ir_runtime::math;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row(
        "ExperimentalDetectronGenerateProposalsSingleImage",
        6,
        6..=17,
        4,
        |_| 2,
        |a| Ok(Rc::new(GenerateProposals::parse(a, None)?)),
    ),
    row(
        "GenerateProposals",
        9,
        9..=17,
        4,
        |_| 3,
        |a| {
            let counts = a.index_type_or("roi_num_type", ElementType::I64)?;
            Ok(Rc::new(GenerateProposals::parse(a, Some(counts))?))
        },
    ),
    row("Proposal", 1, 1..=3, 3, |_| 1, |a| Ok(Rc::new(Proposal::parse(a, false)?))),
    row("Proposal", 4, 4..=17, 3, |_| 2, |a| Ok(Rc::new(Proposal::parse(a, true)?))),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: usize,
    outputs: fn(&Layer) -> usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs: inputs..=inputs, outputs, parse, ignorable: &[], support: Support::Full }
}

/// An attribute that counts something.
fn count(a: &Attributes, name: &str, least: i64) -> Result<i64, Diagnostic> {
    match a.int(name)? {
        count if count >= least => Ok(count),
        _ if least == 0 => Err(a.invalid(name, "a number that is not negative")),
        _ => Err(a.invalid(name, "a positive number")),
    }
}

/// Demands operands of one floating-point type with these dimensions.
fn check(inputs: &[Fact], context: &mut InferContext, expected: &[(&str, Vec<Dim>)]) -> Result<(), Diagnostic> {
    typing::equal(inputs)?;
    typing::float(operand(inputs, 0)?.element, "operand 0")?;
    for (fact, (what, dims)) in inputs.iter().zip(expected) {
        if fact.rank() != dims.len() {
            return Err(shape_error(format!("{what} have {} dimensions, not {}", fact.rank(), dims.len())));
        }
        for (i, (own, dim)) in fact.dims.iter().zip(dims).enumerate() {
            require_equal(context, own, dim, &format!("dimension {i} of {what} and what the others ask for"))?;
        }
    }
    Ok(())
}

/// The number of numbers that describe an image: height, width and one or two scales.
fn image_numbers(info: &Fact) -> Result<Dim, Diagnostic> {
    match info.dims.last() {
        Some(numbers) if numbers.is(4) => Ok(numbers.clone()),
        _ => Ok(Dim::constant(3)),
    }
}

/// Working memory for as many boxes.
fn working_memory(builder: &mut Builder, boxes: &Dim) -> [BufferId; 3] {
    [
        builder.temporary(ElementType::F32, vec![boxes.clone(), Dim::constant(4)]),
        builder.temporary(ElementType::I32, vec![boxes.clone() * 2]),
        builder.temporary(ElementType::F32, vec![boxes.clone()]),
    ]
}

/// All operands as f32.
fn operands(builder: &mut Builder) -> Result<Vec<BufferId>, Diagnostic> {
    (0..builder.input_count())
        .map(|i| {
            let x = builder.input(i)?;
            builder.converted(x, ElementType::F32)
        })
        .collect()
}

/// Proposal-1 and -4: the best boxes of every image, `[images * post_nms_topn, 5]` with image and corners, the first row
/// behind the last box of an image starting with -1; version 4 also gives their scores.
///
/// Operands: scores `[images, 2 * anchors, rows, columns]`, deltas `[images, 4 * anchors, rows, columns]`, and height, width
/// and one or two scales of the image. Boxes smaller than `min_size` get score 0.
#[derive(Debug)]
struct Proposal {
    scored: bool,
    /// Corners of the anchors at the first place.
    anchors: Vec<f32>,
    most: i64,
    /// What the function takes.
    integers: Vec<i64>,
    floats: Vec<f32>,
}

impl Proposal {
    fn parse(a: &Attributes, scored: bool) -> Result<Self, Diagnostic> {
        let tensorflow = a.choice_or("framework", &[("", false), ("tensorflow", true)], false)?;
        let most = count(a, "post_nms_topn", 1)?;
        let flags = [
            a.bool("clip_before_nms", true)?,
            a.bool("clip_after_nms", false)?,
            a.bool("normalize", false)?,
            tensorflow,
        ];
        let limits = [count(a, "pre_nms_topn", 1)?, most, count(a, "feat_stride", 1)?];
        let scale = |name: &str| match a.float_or(name, 1.0)? {
            scale if scale > 0.0 => Ok(scale),
            _ => Err(a.invalid(name, "a positive number")),
        };
        let (positions, sizes) = (scale("box_coordinate_scale")?, scale("box_size_scale")?);
        let floats = [a.float("nms_thresh")?, count(a, "min_size", 0)? as f64, positions, sizes];
        Ok(Proposal {
            scored,
            anchors: anchors(a, tensorflow)?,
            most,
            integers: limits.into_iter().chain(flags.map(i64::from)).collect(),
            floats: floats.iter().map(|value| *value as f32).collect(),
        })
    }

    /// Number of anchors at a place.
    fn kinds(&self) -> i64 {
        (self.anchors.len() / 4) as i64
    }
}

/// The corners of the anchors at the first place: every ratio of sides in every scale.
fn anchors(a: &Attributes, tensorflow: bool) -> Result<Vec<f32>, Diagnostic> {
    let list = |name: &str| -> Result<Vec<f32>, Diagnostic> {
        let list: Vec<f32> = a.floats(name)?.iter().map(|value| *value as f32).collect();
        match list.iter().all(|value| *value > 0.0) && !list.is_empty() {
            true => Ok(list),
            false => Err(a.invalid(name, "a list of positive numbers")),
        }
    };
    let base = count(a, "base_size", 1)? as f32;
    let (ratios, scales) = (list("ratio")?, list("scale")?);
    let rounded = |side: f32| if tensorflow { side } else { math::round_half_away(side) };
    // Boxes end at their last pixel, and those of the first framework have their corner, not their centre, at the place.
    let (offset, centre) = if tensorflow { (0.0, 0.0) } else { (1.0, 0.5 * (base - 1.0)) };
    let mut anchors = Vec::new();
    for ratio in &ratios {
        let width = rounded(math::sqrt(base * base / *ratio));
        let height = rounded(width * *ratio);
        for scale in &scales {
            let (x, y) = (0.5 * (width * *scale - offset), 0.5 * (height * *scale - offset));
            anchors.extend([centre - x, centre - y, centre + x, centre + y]);
        }
    }
    Ok(anchors)
}

impl Op for Proposal {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (scores, info) = (operand(inputs, 0)?, operand(inputs, 2)?);
        let [images, _, rows, columns] = scores.dims.as_slice() else {
            return Err(shape_error("scores must have four dimensions"));
        };
        let map = |channels: i64| vec![images.clone(), Dim::constant(channels), rows.clone(), columns.clone()];
        let expected = [
            ("scores", map(2 * self.kinds())),
            ("deltas", map(4 * self.kinds())),
            ("numbers of the image", vec![image_numbers(info)?]),
        ];
        check(inputs, context, &expected)?;
        let found = images.clone() * self.most;
        let boxes = Fact::new(scores.element, vec![found.clone(), Dim::constant(5)]);
        let scored = self.scored.then(|| Fact::new(scores.element, vec![found]));
        Ok([boxes].into_iter().chain(scored).collect())
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let dims = builder.dims(builder.input(0)?);
        let boxes = product(dims.get(2..).unwrap_or(&[])) * self.kinds();
        let mut inputs = operands(builder)?;
        let kinds = self.anchors.len() / 4;
        inputs.push(builder.constant(Tensor::from_f32s(vec![kinds, 4], &self.anchors)));
        let out = builder.output(0)?;
        let (staged, rows) = (builder.staged(out, ElementType::F32), builder.dims(out).into_iter().take(1).collect());
        let scores = match self.scored {
            true => builder.staged(builder.output(1)?, ElementType::F32),
            false => builder.temporary(ElementType::F32, rows),
        };
        let outputs = [staged, scores].into_iter().chain(working_memory(builder, &boxes)).collect();
        builder.call(Call {
            function: function!(proposal),
            inputs,
            outputs,
            integers: self.integers.iter().map(|value| Dim::constant(*value)).collect(),
            floats: self.floats.clone(),
            sizes: Vec::new(),
        });
        builder.convert(staged, out)?;
        if self.scored { builder.convert(scores, builder.output(1)?) } else { Ok(()) }
    }
}

/// GenerateProposals-9 and ExperimentalDetectronGenerateProposalsSingleImage-6: the best boxes of every image, `[found, 4]`,
/// their scores `[found]` and their number per image; or of one image, `[post_nms_count, 4]` and `[post_nms_count]`, the
/// rest 0.
///
/// Operands: height, width and one or two scales of the images `[images, 3 or 4]`, anchors `[rows, columns, anchors, 4]`,
/// deltas `[images, anchors * 4, rows, columns]`, scores `[images, anchors, rows, columns]`; for one image without the first
/// dimension, anchors `[rows * columns * anchors, 4]`.
#[derive(Debug)]
struct GenerateProposals {
    /// Element type of the number of boxes per image; none for the operation on one image.
    counts: Option<ElementType>,
    examine: i64,
    most: i64,
    floats: Vec<f32>,
}

/// Dimensions that the scores give.
struct Sizes {
    images: Option<Dim>,
    kinds: Dim,
    rows: Dim,
    columns: Dim,
}

impl GenerateProposals {
    fn parse(a: &Attributes, counts: Option<ElementType>) -> Result<Self, Diagnostic> {
        let (eta, offset) = match counts {
            Some(_) => (a.float_or("nms_eta", 1.0)?, if a.bool("normalized", true)? { 0.0 } else { 1.0 }),
            None => (1.0, 1.0),
        };
        if !(0.0..=1.0).contains(&eta) {
            return Err(a.invalid("nms_eta", "a number from 0 to 1"));
        }
        // On one image, boxes end at their last pixel but overlap as if they ended there.
        let overlap_offset = if counts.is_some() { offset } else { 0.0 };
        let floats = [a.float("nms_threshold")?, a.float("min_size")?, eta, offset, overlap_offset];
        Ok(GenerateProposals {
            counts,
            examine: count(a, "pre_nms_count", 0)?,
            most: count(a, "post_nms_count", 0)?,
            floats: floats.iter().map(|value| *value as f32).collect(),
        })
    }

    fn sizes(&self, inputs: &[Fact]) -> Result<Sizes, Diagnostic> {
        let (images, map) = match (self.counts, operand(inputs, 3)?.dims.as_slice()) {
            (Some(_), [images, map @ ..]) => (Some(images.clone()), map),
            (_, map) => (None, map),
        };
        let [kinds, rows, columns] = map else {
            let rank = if self.counts.is_some() { "four" } else { "three" };
            return Err(shape_error(format!("scores must have {rank} dimensions")));
        };
        Ok(Sizes { images, kinds: kinds.clone(), rows: rows.clone(), columns: columns.clone() })
    }
}

impl Op for GenerateProposals {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (info, element) = (operand(inputs, 0)?, operand(inputs, 3)?.element);
        let Sizes { images, kinds, rows, columns } = self.sizes(inputs)?;
        let (map, numbers) = (vec![rows, columns], image_numbers(info)?);
        let boxes = product(&map) * &kinds;
        let per_image = |dims: Vec<Dim>| images.iter().cloned().chain(dims).collect::<Vec<Dim>>();
        let anchors = match images {
            Some(_) => [map.clone(), vec![kinds.clone(), Dim::constant(4)]].concat(),
            None => vec![boxes.clone(), Dim::constant(4)],
        };
        let expected = [
            ("numbers of the image", per_image(vec![numbers])),
            ("anchors", anchors),
            ("deltas", per_image([vec![kinds.clone() * 4], map.clone()].concat())),
            ("scores", per_image([vec![kinds], map].concat())),
        ];
        check(inputs, context, &expected)?;
        let found = match &images {
            Some(images) => {
                let most = images.clone() * &boxes.minimum(&Dim::constant(self.most));
                context.fresh("proposals", 0, most.upper_bound())
            }
            None => Dim::constant(self.most),
        };
        let rois = Fact::new(element, vec![found.clone(), Dim::constant(4)]);
        let scores = Fact::new(element, vec![found]);
        let counts = self.counts.zip(images).map(|(element, images)| Fact::new(element, vec![images]));
        Ok([rois, scores].into_iter().chain(counts).collect())
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let Sizes { kinds, rows, columns, .. } = self.sizes(builder.facts())?;
        let boxes = rows * &columns * &kinds;
        let inputs = operands(builder)?;
        let mut results = vec![builder.output(0)?, builder.output(1)?];
        let mut staged: Vec<BufferId> =
            results.iter().map(|result| builder.staged(*result, ElementType::F32)).collect();
        let mut sizes = Vec::new();
        if self.counts.is_some() {
            sizes.push(builder.found(builder.output(0)?, 0)?);
            results.push(builder.output(2)?);
            staged.push(builder.staged(builder.output(2)?, ElementType::I64));
        } else {
            staged.push(builder.temporary(ElementType::I64, vec![Dim::constant(1)]));
        }
        let single = Dim::from(usize::from(self.counts.is_none()));
        let outputs = staged.iter().copied().chain(working_memory(builder, &boxes)).collect();
        builder.call(Call {
            function: function!(generate_proposals),
            inputs,
            outputs,
            integers: vec![Dim::constant(self.examine), Dim::constant(self.most), boxes, kinds, single],
            floats: self.floats.clone(),
            sizes,
        });
        for (to, from) in results.into_iter().zip(staged) {
            builder.convert(from, to)?;
        }
        Ok(())
    }
}
