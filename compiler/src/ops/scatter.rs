//! Operations that write updates into a copy of a tensor: ScatterUpdate, ScatterElementsUpdate, ScatterNDUpdate.
//!
//! Nests compute the place of every update. Without a reduction a function finds the last update of every place, and a
//! nest picks update or data: any element type moves unchanged. With one, a function combines them.
//! Indices below zero count from the end of the dimension; an update outside of it goes nowhere.

mod elements;
mod nd;

use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::{self, operand};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node};
use crate::program::{Bound, BufferId, Call};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("ScatterElementsUpdate", 3, 3..=11, 4..=4, |_| Ok(Rc::new(elements::ScatterElements::without_reduction()))),
    row("ScatterElementsUpdate", 12, 12..=17, 4..=4, elements::parse),
    row("ScatterNDUpdate", 3, 4..=14, 3..=3, |_| Ok(Rc::new(nd::ScatterNd { reduction: None }))),
    row("ScatterNDUpdate", 15, 15..=17, 3..=3, nd::parse),
    row("ScatterUpdate", 3, 3..=17, 4..=4, |_| Ok(Rc::new(ScatterUpdate))),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: RangeInclusive<usize>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

/// How updates combine with what they meet; the order is that of the runtime's `scatter_reduce`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reduction {
    Sum,
    Sub,
    Prod,
    Min,
    Max,
    Mean,
}

/// Checks the types of data, indices and updates.
fn check_types(inputs: &[Fact], indices: usize, updates: usize) -> Result<&Fact, Diagnostic> {
    operands::same_element(inputs, 0, updates)?;
    let indices = operand(inputs, indices)?.element;
    match indices.is_integer() {
        true => operand(inputs, 0),
        false => Err(Diagnostic::error(&codes::TYPE, format!("indices must be integers, not {indices}"))),
    }
}

/// An index as i64, counted from the end of `size` where it is negative; -1 where it lies outside.
fn wrapped(n: &mut NestBuilder, index: Node, size: &Dim) -> Node {
    let index = n.cast(ElementType::I64, index);
    let (zero, size) = (n.constant(Const::I64(0)), n.index(size));
    let negative = n.binary(Binary::Lt, index, zero);
    let from_end = n.binary(Binary::Add, index, size);
    let index = n.select(negative, from_end, index);
    let (below, above) = (n.binary(Binary::Lt, index, zero), n.binary(Binary::Le, size, index));
    let outside = n.binary(Binary::Or, below, above);
    let nowhere = n.constant(Const::I64(-1));
    n.select(outside, nowhere, index)
}

/// `out = data` with blocks of `updates` at the given places. `places` is a vector with one element per update, `targets` are
/// the dimensions of the data that places count, and a block has the dimensions behind them.
struct Scattered {
    data: BufferId,
    places: BufferId,
    updates: BufferId,
    out: BufferId,
    /// Number of leading dimensions that places count.
    targets: usize,
}

impl Scattered {
    /// The last update of a place wins.
    fn replace(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let dims = builder.dims(self.data);
        let (targets, block) = dims.split_at(self.targets.min(dims.len()));
        let count = builder.dims(self.places).first().cloned().unwrap_or_default();
        let winners = builder.temporary(ElementType::I32, targets.to_vec());
        builder.call(Call {
            function: function!(last_writers),
            inputs: vec![self.places],
            outputs: vec![winners],
            integers: Vec::new(),
            floats: Vec::new(),
            sizes: Vec::new(),
        });
        let rows = builder.temporary(builder.element(self.updates), [std::slice::from_ref(&count), block].concat());
        builder.reshape(self.updates, rows);
        let (data, targets) = (self.data, self.targets);
        builder.map(self.out, |n, i| {
            let old = n.load(data, i)?;
            pick(n, winners, rows, &i[..targets.min(i.len())], &i[targets.min(i.len())..], old, &count)
        })
    }

    /// Updates of a place combine, with the data or (`keep` false) without it.
    fn reduce(&self, builder: &mut Builder, reduction: Reduction, keep: bool) -> Result<(), Diagnostic> {
        let dims = builder.dims(self.data);
        let (targets, block) = dims.split_at(self.targets.min(dims.len()));
        let (reduction, element) = match builder.element(self.data) {
            // Truth values are numbers 0 and 1: their sum is "or", their product "and".
            ElementType::Boolean => match reduction {
                Reduction::Sum | Reduction::Max => (Reduction::Max, ElementType::I32),
                Reduction::Prod | Reduction::Min => (Reduction::Min, ElementType::I32),
                other => (other, ElementType::I32),
            },
            ElementType::U64 => (reduction, ElementType::I64),
            _ => (reduction, builder.scalar_type(self.data)?.element()),
        };
        if builder.element(self.data) == ElementType::U64
            && matches!(reduction, Reduction::Min | Reduction::Max | Reduction::Mean)
        {
            let message = "minimum, maximum and mean of u64 updates are not supported";
            return Err(Diagnostic::error(&codes::UNSUPPORTED, message).help("convert the operands to i64"));
        }
        let (data, updates) = (builder.converted(self.data, element)?, builder.converted(self.updates, element)?);
        let result = builder.staged(self.out, element);
        let counts = builder.temporary(ElementType::I32, targets.to_vec());
        builder.call(Call {
            function: function!(scatter_reduce),
            inputs: vec![data, self.places, updates],
            outputs: vec![result, counts],
            integers: vec![product(block), Dim::constant(reduction as i64), Dim::constant(i64::from(keep))],
            floats: Vec::new(),
            sizes: Vec::new(),
        });
        builder.convert(result, self.out)
    }
}

/// Row `winners[at]` of `rows` at `inner`, or `old` where no update won.
fn pick(
    n: &mut NestBuilder,
    winners: BufferId,
    rows: BufferId,
    at: &[Dim],
    inner: &[Dim],
    old: Node,
    count: &Dim,
) -> Result<Node, Diagnostic> {
    let winner = n.load(winners, at)?;
    let winner = n.cast(ElementType::I64, winner);
    let row = n.as_index(winner);
    let index = [std::slice::from_ref(&row), inner].concat();
    n.load_within(rows, &index, vec![Bound { value: row, limit: count.clone() }], old)
}

/// `out = data`, and where `indices[j]` names a position along the axis, `updates` of `j`.
#[derive(Debug)]
struct ScatterUpdate;

impl ScatterUpdate {
    fn axis(inputs: &[Fact]) -> Result<usize, Diagnostic> {
        let axis = operands::integer(inputs, 3, "the axis of ScatterUpdate")?;
        operands::axis(axis, operand(inputs, 0)?.rank())
    }
}

impl Op for ScatterUpdate {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = check_types(inputs, 1, 2)?;
        let (indices, updates, axis) = (operand(inputs, 1)?, operand(inputs, 2)?, Self::axis(inputs)?);
        let (before, after) = (data.dims.iter().take(axis), data.dims.iter().skip(axis + 1));
        let expected: Vec<&Dim> = before.chain(&indices.dims).chain(after).collect();
        // A single update may come without the dimension of its index.
        let single = indices.dims.iter().all(|dim| dim.is(1))
            && product(&updates.dims) == expected.iter().fold(Dim::constant(1), |n, d| n * *d);
        if !single {
            if expected.len() != updates.rank() {
                return Err(operands::shape_error(format!(
                    "updates have {} dimensions, not {}",
                    updates.rank(),
                    expected.len()
                )));
            }
            for (a, b) in expected.into_iter().zip(&updates.dims) {
                operands::require_equal(context, a, b, "dimensions of data or indices and updates")?;
            }
        }
        Ok(vec![Fact::new(data.element, data.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (data, indices, updates) = (builder.input(0)?, builder.input(1)?, builder.input(2)?);
        let out = builder.output(0)?;
        let axis = Self::axis(builder.facts())?;
        let dims = builder.dims(data);
        let size = dims.get(axis).cloned().unwrap_or_default();
        let count = product(&builder.dims(indices));
        let found = builder.temporary(ElementType::I64, builder.dims(indices));
        builder.map(found, |n, i| {
            let index = n.load(indices, i)?;
            Ok(wrapped(n, index, &size))
        })?;
        let places = builder.temporary(ElementType::I64, vec![count.clone()]);
        builder.reshape(found, places);
        let winners = builder.temporary(ElementType::I32, vec![size]);
        builder.call(Call {
            function: function!(last_writers),
            inputs: vec![places],
            outputs: vec![winners],
            integers: Vec::new(),
            floats: Vec::new(),
            sizes: Vec::new(),
        });
        let (before, after) = (dims.get(..axis).unwrap_or(&[]), dims.get(axis + 1..).unwrap_or(&[]));
        let rows = builder.temporary(builder.element(updates), [before, std::slice::from_ref(&count), after].concat());
        builder.reshape(updates, rows);
        builder.map(out, |n, i| {
            let old = n.load(data, i)?;
            let winner = n.load(winners, i.get(axis..axis + 1).unwrap_or(&[]))?;
            let winner = n.cast(ElementType::I64, winner);
            let row = n.as_index(winner);
            let mut index = i.to_vec();
            if let Some(slot) = index.get_mut(axis) {
                *slot = row.clone();
            }
            n.load_within(rows, &index, vec![Bound { value: row, limit: count }], old)
        })
    }
}
