//! BatchToSpace and SpaceToBatch whose blocks, pads or crops are known only when the model runs.
//!
//! The dimensions of the result are run-time sizes that nests compute; elements are found by the same arithmetic as for
//! constants, on numbers that are looked up.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, shape_error};
use crate::op::{InferContext, found};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Bound, Const, Node};

/// Whether blocks, pads or crops are data.
pub(super) fn is_open(inputs: &[Fact]) -> bool {
    inputs.iter().skip(1).any(|fact| fact.as_sizes().is_none() && fact.element.is_integer())
}

fn check(inputs: &[Fact]) -> Result<&Fact, Diagnostic> {
    let data = operand(inputs, 0)?;
    for list in inputs.iter().skip(1) {
        if data.rank() < 2 || list.rank() != 1 || found::listed(list, "block shape and pads")? != data.rank() {
            let message =
                format!("block shape and pads must have one element for each of the {} dimensions", data.rank());
            return Err(shape_error(message));
        }
    }
    Ok(data)
}

/// The result of a BatchToSpace, which has no more elements than the data.
pub(super) fn unblocked(inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
    let data = check(inputs)?;
    let batch = data.dims.first().map_or(0, Dim::upper_bound);
    let mut largest: Vec<i64> = data.dims.iter().map(|dim| dim.upper_bound().saturating_mul(batch)).collect();
    if let Some(slot) = largest.first_mut() {
        *slot = batch;
    }
    let dims = context.found("unblocked", &largest, product(&data.dims).upper_bound());
    Ok(vec![Fact::new(data.element, dims)])
}

/// The result of a SpaceToBatch, which the user bounds.
pub(super) fn blocked(inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
    let data = check(inputs)?;
    let dims = context.bounded("the blocks and pads", data.rank(), &Dim::constant(1))?;
    Ok(vec![Fact::new(data.element, dims)])
}

/// The operands behind the data.
#[derive(Clone, Copy)]
struct Lists {
    block: BufferId,
    begin: BufferId,
    end: BufferId,
}

impl Lists {
    fn of(builder: &Builder) -> Result<Self, Diagnostic> {
        Ok(Lists { block: builder.input(1)?, begin: builder.input(2)?, end: builder.input(3)? })
    }

    /// Product of the blocks: -1 unless these are positive, pads are not negative, and those of the batch 1 and 0.
    fn volume(self, builder: &mut Builder, rank: usize) -> Result<BufferId, Diagnostic> {
        let volume = builder.temporary(ElementType::I64, Vec::new());
        let mut nest = builder.nest(&[]);
        let n = &mut nest;
        let [none, zero, one, most] = [-1, 0, 1, i64::from(i32::MAX)].map(|value| n.constant(Const::I64(value)));
        let (mut all, mut fits) = (one, n.constant(Const::Bool(true)));
        for d in 0..rank {
            let block = element(n, self.block, d)?;
            all = n.binary(Binary::Mul, all, block);
            let last = if d == 0 { one } else { most };
            let pads = if d == 0 { zero } else { most };
            let [begin, end] = [element(n, self.begin, d)?, element(n, self.end, d)?];
            for (low, value, high) in [(one, block, last), (one, all, most), (zero, begin, pads), (zero, end, pads)] {
                let (above, below) = (n.binary(Binary::Le, low, value), n.binary(Binary::Le, value, high));
                let inside = n.binary(Binary::And, above, below);
                fits = n.binary(Binary::And, fits, inside);
            }
        }
        let value = n.select(fits, all, none);
        nest.store(volume, &[], value);
        Ok(volume)
    }

    /// Finds the dimensions of the result. `size` has the one of a dimension from that of the data, its block, and what
    /// is added to it or removed.
    fn find(
        self,
        builder: &mut Builder,
        batch: impl Fn(&mut NestBuilder, Node, Node) -> Node,
        size: impl Fn(&mut NestBuilder, Node, Node, Node) -> Node,
    ) -> Result<(), Diagnostic> {
        let (dims, out) = (builder.dims(builder.input(0)?), builder.output(0)?);
        let sizes = (0..dims.len()).map(|d| builder.found(out, d)).collect::<Result<_, _>>()?;
        let volume = self.volume(builder, dims.len())?;
        builder.find_sizes(sizes, |n, d| {
            let (volume, none) = (n.load(volume, &[])?, n.constant(Const::I64(-1)));
            let from = n.index(dims.get(d).unwrap_or(&Dim::constant(0)));
            let value = match d {
                0 => batch(n, from, volume),
                _ => {
                    let (begin, end) = (element(n, self.begin, d)?, element(n, self.end, d)?);
                    let (block, both) = (element(n, self.block, d)?, n.binary(Binary::Add, begin, end));
                    size(n, from, block, both)
                }
            };
            let refused = n.binary(Binary::Eq, volume, none);
            Ok(n.select(refused, none, value))
        })
    }
}

/// `a / b`, or -1 where it leaves a rest.
fn whole(n: &mut NestBuilder, a: Node, b: Node) -> Node {
    let (zero, none) = (n.constant(Const::I64(0)), n.constant(Const::I64(-1)));
    let (quotient, rest) = (n.binary(Binary::FloorDiv, a, b), n.binary(Binary::FloorMod, a, b));
    let exact = n.binary(Binary::Eq, rest, zero);
    n.select(exact, quotient, none)
}

fn element(n: &mut NestBuilder, list: BufferId, d: usize) -> Result<Node, Diagnostic> {
    let value = n.load(list, &[Dim::from(d)])?;
    Ok(n.cast(ElementType::I64, value))
}

/// Looked up as a number of index expressions.
fn number(n: &mut NestBuilder, list: BufferId, d: usize) -> Result<Dim, Diagnostic> {
    let value = element(n, list, d)?;
    Ok(n.as_index(value))
}

/// BatchToSpace.
pub(super) fn batch_to_space(builder: &mut Builder) -> Result<(), Diagnostic> {
    let lists = Lists::of(builder)?;
    lists.find(builder, whole, |n, size, block, crops| {
        let grown = n.binary(Binary::Mul, size, block);
        n.binary(Binary::Sub, grown, crops)
    })?;
    let (x, out) = (builder.input(0)?, builder.output(0)?);
    let batch = builder.dims(out).first().cloned().unwrap_or_default();
    builder.map(out, |n, i| {
        let (mut from, mut flat) = (vec![Dim::constant(0)], Dim::constant(0));
        for (d, i) in i.iter().enumerate().skip(1) {
            let (block, crop) = (number(n, lists.block, d)?, number(n, lists.begin, d)?);
            let at = i.clone() + crop;
            flat = flat * &block + at.modulo(&block);
            from.push(at.floor_div(&block));
        }
        if let (Some(slot), Some(b)) = (from.first_mut(), i.first()) {
            *slot = flat * &batch + b;
        }
        n.load(x, &from)
    })
}

/// SpaceToBatch.
pub(super) fn space_to_batch(builder: &mut Builder) -> Result<(), Diagnostic> {
    let lists = Lists::of(builder)?;
    lists.find(
        builder,
        |n, batch, volume| n.binary(Binary::Mul, batch, volume),
        |n, size, block, pads| {
            let padded = n.binary(Binary::Add, size, pads);
            whole(n, padded, block)
        },
    )?;
    let (x, out) = (builder.input(0)?, builder.output(0)?);
    let sizes = builder.dims(x);
    let zero = Const::of(builder.scalar_type(x)?, 0.0);
    builder.map(out, |n, i| {
        let batch = sizes.first().cloned().unwrap_or_default();
        let first = i.first().cloned().unwrap_or_default();
        let (mut from, mut bounds) = (vec![first.modulo(&batch)], Vec::new());
        // Which element of the blocks it is, the last dimension first.
        let mut rest = first.floor_div(&batch);
        for (d, (i, size)) in i.iter().zip(&sizes).enumerate().skip(1).rev() {
            let (block, pad) = (number(n, lists.block, d)?, number(n, lists.begin, d)?);
            let at = i.clone() * &block + rest.modulo(&block) - pad;
            rest = rest.floor_div(&block);
            bounds.push(Bound { value: at.clone(), limit: size.clone() });
            from.insert(1, at);
        }
        let zero = n.constant(zero);
        n.load_within(x, &from, bounds, zero)
    })
}
