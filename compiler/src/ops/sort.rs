//! Operations that order elements: TopK, Unique.

mod unique;

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::{Fact, Value};
use crate::function;
use crate::op::operands::{self, operand};
use crate::op::reduction::{self, pinned};
use crate::op::{InferContext, Op, OpDef, Support};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, ReduceFn, ScalarType, Unary};
use crate::program::{BufferId, Call};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    top_k_row(1, 1..=2, &[]),
    top_k_row(3, 3..=10, &[]),
    top_k_row(11, 11..=17, &["stable"]), // equal elements always keep their order
    unique::ROW,
];

const fn top_k_row(version: u8, opsets: RangeInclusive<u8>, ignorable: &'static [&'static str]) -> OpDef {
    OpDef {
        name: "TopK",
        version,
        opsets,
        inputs: 2..=2,
        outputs: |_| 2,
        parse: |a| Ok(Rc::new(TopK::parse(a)?)),
        ignorable,
        support: Support::Full,
    }
}

/// The elements of a tensor in a type that functions compare, in the same order of values.
fn keys(builder: &mut Builder, x: BufferId) -> Result<BufferId, Diagnostic> {
    match builder.scalar_type(x)? {
        ScalarType::U64 => {
            // Without its highest bit's meaning as a sign, the order of u64 is that of i64.
            let keys = builder.temporary(ElementType::I64, builder.dims(x));
            builder.map(keys, |n, i| {
                let value = n.load(x, i)?;
                let sign = n.constant(Const::U64(1 << 63));
                Ok(n.binary(Binary::Xor, value, sign))
            })?;
            Ok(keys)
        }
        ScalarType::Bool => Ok(x),
        scalar => builder.converted(x, scalar.element()),
    }
}

/// How the selected elements are ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Value,
    Position,
}

/// The `k` largest or smallest elements along an axis and their positions: `k` in place of that dimension.
#[derive(Debug)]
struct TopK {
    axis: i64,
    smallest: bool,
    order: Order,
    index: ElementType,
}

impl TopK {
    fn parse(attributes: &Attributes) -> Result<TopK, Diagnostic> {
        // Without an order asked for, that of the values is as good as any.
        let orders = [("none", Order::Value), ("value", Order::Value), ("index", Order::Position)];
        Ok(TopK {
            axis: attributes.int("axis")?,
            smallest: attributes.choice("mode", &[("max", false), ("min", true)])?,
            order: attributes.choice("sort", &orders)?,
            index: attributes.index_type_or("index_element_type", ElementType::I32)?,
        })
    }
}

impl Op for TopK {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (x, k) = (operand(inputs, 0)?, operand(inputs, 1)?);
        let axis = operands::axis(self.axis, x.rank())?;
        let mut dims = x.dims.clone();
        let Some(slot) = dims.get_mut(axis) else { return Err(Diagnostic::internal("the axis was checked")) };
        if !k.dims.iter().all(|dim| dim.is(1)) {
            return Err(operands::shape_error("k of TopK must be one number"));
        }
        *slot = match &k.value {
            Value::Unknown => context.fresh("k", 0, slot.upper_bound()),
            _ => chosen(&operands::sizes(inputs, 1, "k of TopK")?, slot)?,
        };
        Ok(vec![Fact::new(x.element, dims.clone()), Fact::new(self.index, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, values, indices) = (builder.input(0)?, builder.output(0)?, builder.output(1)?);
        let dims = builder.dims(x);
        let axis = operands::axis(self.axis, dims.len())?;
        if builder.fact(1)?.value == Value::Unknown {
            let sizes = vec![builder.found(values, axis)?];
            builder.read_sizes(builder.input(1)?, sizes)?;
        }
        if is_single(builder, axis)? {
            return self.lower_single(builder, axis);
        }
        let keys = keys(builder, x)?;
        let positions = builder.staged(indices, ElementType::I32);
        let count = dims.get(axis).cloned().unwrap_or_default();
        let order = builder.temporary(ElementType::I32, vec![count * 2]);
        let flags = [self.smallest, self.order == Order::Position].map(|flag| Dim::constant(i64::from(flag)));
        // Elements of a column are far apart: the call looks them up while they are near.
        let columns = dims.iter().skip(axis + 1).any(|dim| !dim.is(1));
        let looked_up = columns && keys == x && builder.scalar_type(x)? != ScalarType::Bool;
        let mut outputs = vec![positions, order];
        outputs.extend(looked_up.then_some(values));
        builder.call(Call {
            function: function!(top_k),
            inputs: vec![keys],
            outputs,
            integers: [vec![Dim::from(axis)], flags.to_vec()].concat(),
            floats: Vec::new(),
            sizes: Vec::new(),
        });
        if looked_up {
            return builder.convert(positions, indices);
        }
        builder.map(values, |n, i| {
            let at = n.load(positions, i)?;
            let at = n.cast(ElementType::I64, at);
            let mut from = i.to_vec();
            if let Some(slot) = from.get_mut(axis) {
                *slot = n.as_index(at);
            }
            n.load(x, &from)
        })?;
        builder.convert(positions, indices)
    }
}

impl TopK {
    /// The first of the best elements along an axis that has some. NaN is better than any number, as for maximum and minimum.
    fn lower_single(&self, builder: &mut Builder, axis: usize) -> Result<(), Diagnostic> {
        let (x, values, indices) = (builder.input(0)?, builder.output(0)?, builder.output(1)?);
        let (dims, along, zero) = (builder.dims(x), [axis], Dim::constant(0));
        let (space, count) = ((dims.as_slice(), along.as_slice()), dims.get(axis).unwrap_or(&zero));
        let (scalar, function) = (builder.scalar_type(x)?, if self.smallest { ReduceFn::Min } else { ReduceFn::Max });
        let best = reduction::along(builder, space, scalar.element(), function, |n, i| n.load(x, i), |_, best| best)?;
        let position = |n: &mut NestBuilder<'_, '_>, i: &[Dim]| {
            let (value, best) = (n.load(x, i)?, n.load(best, &pinned(i, &along))?);
            let mut found = n.binary(Binary::Eq, value, best);
            if scalar.is_float() {
                let unordered = n.unary(Unary::IsNan, value);
                found = n.binary(Binary::Or, found, unordered);
            }
            let at = n.index(i.get(axis).unwrap_or(&zero));
            let at = n.cast(ElementType::I32, at);
            let end = n.index(count);
            let end = n.cast(ElementType::I32, end);
            Ok(n.select(found, at, end))
        };
        let first = reduction::along(builder, space, ElementType::I32, ReduceFn::Min, position, |_, first| first)?;
        builder.convert(best, values)?;
        builder.convert(first, indices)
    }
}

/// Whether one element is asked for, of at least one, and numbers are compared: booleans have no maximum.
fn is_single(builder: &Builder, axis: usize) -> Result<bool, Diagnostic> {
    let (x, values) = (builder.input(0)?, builder.output(0)?);
    let (dims, kept) = (builder.dims(x), builder.dims(values));
    let some = kept.get(axis).is_some_and(|k| k.is(1)) && dims.get(axis).is_some_and(|n| n.range().min > 0);
    Ok(some && builder.scalar_type(x)? != ScalarType::Bool)
}

/// `k`, which no dimension may fall short of.
fn chosen(k: &[Dim], dim: &Dim) -> Result<Dim, Diagnostic> {
    let [k] = k else { return Err(operands::shape_error("k of TopK must be one number")) };
    let room = (dim.clone() - k).range();
    if k.range().max < 0 || room.max < 0 {
        return Err(Diagnostic::error(&codes::VALUE, format!("k of TopK is {k}, and the axis has {dim} elements")));
    }
    Ok(if room.min >= 0 { k.clone() } else { k.minimum(dim) })
}
