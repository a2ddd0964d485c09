//! Reductions over groups of rows: embedding bags and segments.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::{Fact, Value};
use crate::function;
use crate::op::operands::{self, operand, require_equal, same_element, shape_error};
use crate::op::reduction;
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn};
use crate::program::{Bound, BufferId, Call};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("EmbeddingBagOffsets", 15, 3..=5, |a| Ok(Rc::new(OffsetBags { mean: is_mean(a)? }))),
    row("EmbeddingBagOffsetsSum", 3, 3..=5, |_| Ok(Rc::new(OffsetBags { mean: false }))),
    row("EmbeddingBagPacked", 15, 2..=3, |a| Ok(Rc::new(PackedBags { mean: is_mean(a)? }))),
    row("EmbeddingBagPackedSum", 3, 2..=3, |_| Ok(Rc::new(PackedBags { mean: false }))),
    row("EmbeddingSegmentsSum", 3, 4..=6, |_| Ok(Rc::new(SegmentsSum))),
    row("SegmentMax", 16, 2..=3, |a| {
        // The specification and the files spell the attribute differently.
        let name = if a.has("fill_mode") { "fill_mode" } else { "empty_segment_value" };
        Ok(Rc::new(SegmentMax { lowest: a.choice(name, &[("zero", false), ("lowest", true)])? }))
    }),
];

const fn row(
    name: &'static str,
    version: u8,
    inputs: RangeInclusive<usize>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    let opsets = version..=17;
    OpDef { name, version, opsets, inputs, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

fn is_mean(attributes: &Attributes) -> Result<bool, Diagnostic> {
    attributes.choice_or("reduction", &[("sum", false), ("mean", true)], false)
}

/// Demands a vector, whose size it returns.
fn vector<'f>(inputs: &'f [Fact], i: usize, what: &str) -> Result<&'f Dim, Diagnostic> {
    match operand(inputs, i)?.dims.as_slice() {
        [size] => Ok(size),
        dims => Err(shape_error(format!("{what} has {} dimensions, not 1", dims.len()))),
    }
}

/// The fact of rows of the table (operand 0): `[count, ...]`.
fn rows_of_table(inputs: &[Fact], count: Dim) -> Result<Vec<Fact>, Diagnostic> {
    let table = operand(inputs, 0)?;
    typing::number(table.element, "the table")?;
    let [_, rest @ ..] = table.dims.as_slice() else { return Err(shape_error("the table must not be a scalar")) };
    Ok(vec![Fact::new(table.element, [count].into_iter().chain(rest.iter().cloned()).collect())])
}

/// Demands weights (operand `i`, if it is there) like the indices and of the table's type.
fn check_weights(inputs: &[Fact], i: usize, mean: bool, context: &mut InferContext) -> Result<(), Diagnostic> {
    let Some(weights) = inputs.get(i) else { return Ok(()) };
    if mean {
        return Err(shape_error("a mean has no weights").help("weights belong to the reduction `sum`"));
    }
    same_element(inputs, 0, i)?;
    let indices = operand(inputs, 1)?;
    if weights.rank() != indices.rank() {
        return Err(shape_error(format!("weights have {} dimensions, indices {}", weights.rank(), indices.rank())));
    }
    for (weight, index) in weights.dims.iter().zip(&indices.dims) {
        require_equal(context, weight, index, "dimensions of weights and indices")?;
    }
    Ok(())
}

/// Element of a vector as i64; `otherwise` outside.
fn listed(n: &mut NestBuilder, list: BufferId, at: &[Dim], otherwise: i64) -> Result<Node, Diagnostic> {
    let sizes = n.dims(list);
    let bounds = at.iter().zip(sizes).map(|(at, limit)| Bound { value: at.clone(), limit }).collect();
    let zero = n.zero_of(list)?;
    let otherwise = n.constant_like(zero, otherwise as f64);
    let value = n.load_within(list, at, bounds, otherwise)?;
    Ok(n.cast(ElementType::I64, value))
}

/// An element of row `row` of a table; zero where there is no such row.
fn element(n: &mut NestBuilder, table: BufferId, row: Node, rest: &[Dim]) -> Result<Node, Diagnostic> {
    let row = n.as_index(row);
    let limit = n.dims(table).first().cloned().unwrap_or_default();
    let zero = n.zero_of(table)?;
    let at: Vec<Dim> = [row.clone()].into_iter().chain(rest.iter().cloned()).collect();
    n.load_within(table, &at, vec![Bound { value: row, limit }], zero)
}

/// The element of the row that index `at` names, times its weight.
fn weighted(
    n: &mut NestBuilder,
    [table, indices]: [BufferId; 2],
    weights: Option<BufferId>,
    at: &[Dim],
    rest: &[Dim],
) -> Result<Node, Diagnostic> {
    let row = listed(n, indices, at, -1)?;
    let value = element(n, table, row, rest)?;
    let Some(weights) = weights else { return Ok(value) };
    let bounds = at.iter().zip(n.dims(weights)).map(|(at, limit)| Bound { value: at.clone(), limit }).collect();
    let zero = n.zero_of(weights)?;
    let weight = n.load_within(weights, at, bounds, zero)?;
    Ok(n.binary(Binary::Mul, value, weight))
}

/// The element of the default row (operand `i`, if it is there); zero without one, and for an index below zero.
fn default_element(
    n: &mut NestBuilder,
    table: BufferId,
    index: Option<BufferId>,
    rest: &[Dim],
) -> Result<Node, Diagnostic> {
    let Some(index) = index else { return n.zero_of(table) };
    let origin = vec![Dim::constant(0); n.dims(index).len()];
    let row = n.load(index, &origin)?;
    element(n, table, row, rest)
}

/// Operand `i`, if it is there.
fn optional(builder: &Builder, i: usize) -> Result<Option<BufferId>, Diagnostic> {
    (builder.input_count() > i).then(|| builder.input(i)).transpose()
}

/// Demands one integer.
fn check_single(inputs: &[Fact], i: usize, what: &str) -> Result<(), Diagnostic> {
    let Some(fact) = inputs.get(i) else { return Ok(()) };
    typing::integer(fact.element, what)?;
    if fact.dims.iter().all(|dim| dim.is(1)) { Ok(()) } else { Err(shape_error(format!("{what} must be one number"))) }
}

/// EmbeddingBagOffsetsSum-3, EmbeddingBagOffsets-15: bag i is the sum (of weighted rows) or the mean of the rows of the
/// table that indices from its offset to the next one name. Empty bags are the default row, or zero. Operands: table,
/// indices, offsets, default index, weights.
#[derive(Debug)]
struct OffsetBags {
    mean: bool,
}

impl Op for OffsetBags {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        typing::integer(operand(inputs, 1)?.element, "the list of indices")?;
        typing::integer(operand(inputs, 2)?.element, "the list of offsets")?;
        vector(inputs, 1, "the list of indices")?;
        check_single(inputs, 3, "the default index")?;
        check_weights(inputs, 4, self.mean, context)?;
        rows_of_table(inputs, vector(inputs, 2, "the list of offsets")?.clone())
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (table, indices, offsets) = (builder.input(0)?, builder.input(1)?, builder.input(2)?);
        let (default, weights) = (optional(builder, 3)?, optional(builder, 4)?);
        let (out, element) = (builder.output(0)?, builder.element(table));
        let (dims, most) = (builder.dims(out), builder.dims(indices).first().cloned().unwrap_or_default());
        let bags = dims.first().cloned().unwrap_or_default();
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let [bag, rest @ ..] = i.as_slice() else { return Err(Diagnostic::internal("bags lack dimensions")) };
        let first = listed(&mut n, offsets, std::slice::from_ref(bag), 0)?;
        let (next, end) = (bag.clone() + 1, n.index(&most));
        let behind = listed(&mut n, offsets, std::slice::from_ref(&next), 0)?;
        let (next, bags) = (n.index(&next), n.index(&bags));
        let is_last = n.binary(Binary::Le, bags, next);
        let behind = n.select(is_last, end, behind);
        let count = n.binary(Binary::Sub, behind, first);
        let at = n.as_index(first) + n.counted_axis(count, &most);
        let value = weighted(&mut n, [table, indices], weights, &[at], rest)?;
        let mut sum = n.reduce(ReduceFn::Sum, value);
        if self.mean {
            sum = mean(&mut n, sum, count, element);
        }
        let (zero, default) = (n.constant(Const::I64(0)), default_element(&mut n, table, default, rest)?);
        let empty = n.binary(Binary::Le, count, zero);
        let value = n.select(empty, default, sum);
        n.store(out, &i, value);
        Ok(())
    }
}

/// `sum / count`. Sums of integers wrap in their own type first.
fn mean(n: &mut NestBuilder, sum: Node, count: Node, element: ElementType) -> Node {
    let sum = if element.is_integer() { n.cast(element, sum) } else { sum };
    let count = n.cast(n.type_of(sum).element(), count);
    n.binary(Binary::Div, sum, count)
}

/// EmbeddingBagPackedSum-3, EmbeddingBagPacked-15: row i of the result is the sum (of weighted rows) or the mean of the
/// rows of the table that row i of the indices names. Operands: table, indices, weights.
#[derive(Debug)]
struct PackedBags {
    mean: bool,
}

impl Op for PackedBags {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let indices = operand(inputs, 1)?;
        typing::integer(indices.element, "the list of indices")?;
        check_weights(inputs, 2, self.mean, context)?;
        match indices.dims.as_slice() {
            [bags, _] => rows_of_table(inputs, bags.clone()),
            dims => Err(shape_error(format!("indices have {} dimensions, not 2", dims.len()))),
        }
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (table, indices, weights) = (builder.input(0)?, builder.input(1)?, optional(builder, 2)?);
        let (out, element) = (builder.output(0)?, builder.element(table));
        let (dims, size) = (builder.dims(out), builder.dims(indices).get(1).cloned().unwrap_or_default());
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let [bag, rest @ ..] = i.as_slice() else { return Err(Diagnostic::internal("bags lack dimensions")) };
        let at = [bag.clone(), n.reduction_axis(&size)];
        let value = weighted(&mut n, [table, indices], weights, &at, rest)?;
        let mut value = n.reduce(ReduceFn::Sum, value);
        if self.mean {
            let sum = if element.is_integer() { n.cast(element, value) } else { value };
            value = reduction::mean(&mut n, sum, &size);
        }
        n.store(out, &i, value);
        Ok(())
    }
}

/// Number of segments: operand `i` where it is known when the model is compiled, or what the segment indices (operand
/// `ids`) imply, or a run-time size: not more than there are segment indices.
fn segments(inputs: &[Fact], i: usize, ids: usize, context: &mut InferContext) -> Result<Dim, Diagnostic> {
    check_single(inputs, i, "the number of segments")?;
    let most = vector(inputs, ids, "the list of segments")?.upper_bound();
    let count = match inputs.get(i) {
        Some(count) if count.value != Value::Unknown => {
            operands::sizes(inputs, i, "the number of segments")?.first().cloned().unwrap_or_default()
        }
        Some(_) => return Ok(context.fresh("segments", 0, most)),
        None => match operand(inputs, ids)?.as_i64s() {
            Some(ids) => Dim::constant(ids.iter().max().map_or(0, |id| id.saturating_add(1))),
            None => return Ok(context.fresh("segments", 0, most)),
        },
    };
    match count.range().max < 0 {
        true => Err(Diagnostic::error(&codes::VALUE, format!("the number of segments is {count}"))),
        false => Ok(count.maximum(&Dim::constant(0))),
    }
}

/// Reads the number of segments where it is known at run time only; see [`segments`].
fn find_segments(builder: &mut Builder, i: usize, ids: usize) -> Result<(), Diagnostic> {
    let (out, facts) = (builder.output(0)?, builder.facts());
    let count = match (facts.get(i), facts.get(ids)) {
        (Some(count), _) if count.value != Value::Unknown => return Ok(()),
        (None, Some(ids)) if ids.as_i64s().is_some() => return Ok(()),
        (Some(_), _) => builder.converted(builder.input(i)?, ElementType::I64)?,
        (None, _) => {
            let (ids, count) = (builder.input(ids)?, builder.temporary(ElementType::I64, Vec::new()));
            let size = builder.dims(ids).first().cloned().unwrap_or_default();
            let mut n = builder.nest(&[]);
            let at = n.reduction_axis(&size);
            let id = n.load(ids, &[at])?;
            let (id, one) = (n.cast(ElementType::I64, id), n.constant(Const::I64(1)));
            let behind = n.binary(Binary::Add, id, one);
            let most = n.reduce(ReduceFn::Max, behind);
            n.store(count, &[], most);
            count
        }
    };
    let sizes = vec![builder.found(out, 0)?];
    builder.call(Call {
        function: function!(read_sizes),
        inputs: vec![count],
        outputs: Vec::new(),
        integers: Vec::new(),
        floats: Vec::new(),
        sizes,
    });
    Ok(())
}

/// The rows of every segment: from the first one that belongs to it to the last one. Where segments are ordered, as
/// they should be, these are its own rows only.
struct Runs {
    ids: BufferId,
    first: BufferId,
    behind: BufferId,
}

impl Runs {
    fn new(builder: &mut Builder, ids: BufferId, segments: &Dim) -> Result<Self, Diagnostic> {
        let dims = vec![segments.clone()];
        let (first, behind) =
            (builder.temporary(ElementType::I64, dims.clone()), builder.temporary(ElementType::I64, dims.clone()));
        let count = builder.dims(ids).first().cloned().unwrap_or_default();
        for (out, function) in [(first, ReduceFn::Min), (behind, ReduceFn::Max)] {
            let mut n = builder.nest(&dims);
            let i = n.map_axes();
            let at = n.reduction_axis(&count);
            let (member, place) = (Self::is_member(&mut n, ids, &at, &i)?, at + i64::from(out == behind));
            let (place, none) =
                (n.index(&place), n.index(&if out == first { count.clone() } else { Dim::constant(0) }));
            let place = n.select(member, place, none);
            let edge = n.reduce(function, place);
            // No rows at all have no edges either.
            let edge = n.binary(if out == first { Binary::Min } else { Binary::Max }, edge, none);
            n.store(out, &i, edge);
        }
        Ok(Runs { ids, first, behind })
    }

    /// Whether row `at` belongs to a segment.
    fn is_member(n: &mut NestBuilder, ids: BufferId, at: &Dim, segment: &[Dim]) -> Result<Node, Diagnostic> {
        let id = listed(n, ids, std::slice::from_ref(at), -1)?;
        let segment = n.index(segment.first().unwrap_or(&Dim::constant(0)));
        Ok(n.binary(Binary::Eq, id, segment))
    }

    /// A reduction axis over the rows of a segment: the row, whether it belongs to it, and whether none does.
    fn axis(&self, n: &mut NestBuilder, segment: &Dim) -> Result<(Dim, Node, Node), Diagnostic> {
        let segment = std::slice::from_ref(segment);
        let (first, behind) = (n.load(self.first, segment)?, n.load(self.behind, segment)?);
        let (count, zero) = (n.binary(Binary::Sub, behind, first), n.constant(Const::I64(0)));
        let most = n.dims(self.ids).first().cloned().unwrap_or_default();
        let at = n.as_index(first) + n.counted_axis(count, &most);
        let member = Self::is_member(n, self.ids, &at, segment)?;
        Ok((at, member, n.binary(Binary::Le, count, zero)))
    }
}

/// EmbeddingSegmentsSum-3: row i of the result is the sum of the (weighted) rows of the table that those indices name
/// whose segment is i; the default row, or zero, where there are none. Operands: table, indices, segments of the
/// indices, number of segments, default index, weights.
#[derive(Debug)]
struct SegmentsSum;

impl Op for SegmentsSum {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        typing::integer(operand(inputs, 1)?.element, "the list of indices")?;
        typing::integer(operand(inputs, 2)?.element, "the list of segments")?;
        let (indices, ids) = (vector(inputs, 1, "the list of indices")?, vector(inputs, 2, "the list of segments")?);
        require_equal(context, indices, ids, "the number of indices and of their segments")?;
        check_single(inputs, 4, "the default index")?;
        check_weights(inputs, 5, false, context)?;
        let count = segments(inputs, 3, 2, context)?;
        rows_of_table(inputs, count)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        find_segments(builder, 3, 2)?;
        let (table, indices, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let (default, weights) = (optional(builder, 4)?, optional(builder, 5)?);
        let dims = builder.dims(out);
        let runs = Runs::new(builder, builder.input(2)?, &dims.first().cloned().unwrap_or_default())?;
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let [segment, rest @ ..] = i.as_slice() else { return Err(Diagnostic::internal("segments lack dimensions")) };
        let (at, member, empty) = runs.axis(&mut n, segment)?;
        let value = weighted(&mut n, [table, indices], weights, &[at], rest)?;
        let zero = n.zero_of(table)?;
        let value = n.select(member, value, zero);
        let sum = n.reduce(ReduceFn::Sum, value);
        let default = default_element(&mut n, table, default, rest)?;
        let value = n.select(empty, default, sum);
        n.store(out, &i, value);
        Ok(())
    }
}

/// SegmentMax-16: row i of the result is the maximum of the rows of the data whose segment is i, or zero, or the lowest
/// value of the element type, where there are none. Operands: data, segments of its rows, number of segments.
#[derive(Debug)]
struct SegmentMax {
    /// What there is nothing of has the lowest value.
    lowest: bool,
}

/// The lowest finite value of an element type.
fn lowest(n: &mut NestBuilder, like: Node, element: ElementType) -> Node {
    if element.is_float() {
        return n.constant_like(like, -element.largest_float());
    }
    let least = if element.is_signed() { -1i64 << (element.bits().clamp(1, 64) - 1) } else { 0 };
    n.constant_like(like, least as f64)
}

impl Op for SegmentMax {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        typing::integer(operand(inputs, 1)?.element, "the list of segments")?;
        let ids = vector(inputs, 1, "the list of segments")?;
        let count = segments(inputs, 2, 1, context)?;
        let facts = rows_of_table(inputs, count)?;
        let rows = operand(inputs, 0)?.dims.first().cloned().unwrap_or_default();
        require_equal(context, &rows, ids, "the number of rows and of their segments")?;
        Ok(facts)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        find_segments(builder, 2, 1)?;
        let (data, out) = (builder.input(0)?, builder.output(0)?);
        let (dims, of) = (builder.dims(out), builder.element(data));
        let runs = Runs::new(builder, builder.input(1)?, &dims.first().cloned().unwrap_or_default())?;
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let [segment, rest @ ..] = i.as_slice() else { return Err(Diagnostic::internal("segments lack dimensions")) };
        let (at, member, empty) = runs.axis(&mut n, segment)?;
        let row = n.index(&at);
        let value = element(&mut n, data, row, rest)?;
        let infinity = if n.type_of(value).is_float() {
            n.constant_like(value, f64::NEG_INFINITY)
        } else {
            lowest(&mut n, value, of)
        };
        let value = n.select(member, value, infinity);
        let maximum = n.reduce(ReduceFn::Max, value);
        let fill = if self.lowest { lowest(&mut n, maximum, of) } else { n.constant_like(maximum, 0.0) };
        let value = n.select(empty, fill, maximum);
        n.store(out, &i, value);
        Ok(())
    }
}
