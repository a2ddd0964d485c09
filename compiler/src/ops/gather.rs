//! Operations that read the elements that indices name: Gather, GatherElements, GatherND.
//!
//! Indices below zero count from the end of the dimension; what is outside of it reads as zero.

use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, flatten, operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node};
use crate::program::{Bound, BufferId};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Gather", 1, 1..=6, 3, |_| Ok(Rc::new(Gather { batch_dims: 0 }))),
    row("Gather", 7, 7..=7, 3, gather),
    row("Gather", 8, 8..=17, 3, gather),
    row("GatherElements", 6, 6..=17, 2, |a| Ok(Rc::new(GatherElements { axis: a.int("axis")? }))),
    row("GatherND", 5, 5..=7, 2, |a| gather_nd(a, true)),
    row("GatherND", 8, 8..=17, 2, |a| gather_nd(a, false)),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name,
        version,
        opsets,
        inputs: inputs..=inputs,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

fn require_integers(indices: &Fact) -> Result<(), Diagnostic> {
    if indices.element.is_integer() {
        return Ok(());
    }
    Err(Diagnostic::error(&codes::TYPE, format!("indices must be integers, not {}", indices.element)))
}

/// The index in element `at` of `indices`, made non-negative, and the condition that it is inside `size`.
fn looked_up(n: &mut NestBuilder, indices: BufferId, at: &[Dim], size: &Dim) -> Result<(Dim, Bound), Diagnostic> {
    let index = n.load(indices, at)?;
    let index = n.cast(ElementType::I64, index);
    let from_end = n.index(size);
    let wrapped = n.binary(Binary::Add, index, from_end);
    let zero = n.constant(Const::I64(0));
    let negative = n.binary(Binary::Lt, index, zero);
    let index = n.select(negative, wrapped, index);
    let index = n.as_index(index);
    Ok((index.clone(), Bound { value: index, limit: size.clone() }))
}

fn load_or_zero(
    n: &mut NestBuilder,
    x: BufferId,
    index: &[Dim],
    bounds: Vec<Bound>,
    zero: Const,
) -> Result<Node, Diagnostic> {
    let zero = n.constant(zero);
    n.load_within(x, index, bounds, zero)
}

/// `out[.., i.., ..] = x[.., indices[i..], ..]` along an axis; the first `batch_dims` dimensions are shared.
#[derive(Debug)]
struct Gather {
    batch_dims: i64,
}

fn gather(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Gather { batch_dims: attributes.int_or("batch_dims", 0)? }))
}

impl Gather {
    /// Axis and number of batch dimensions.
    fn axis(&self, inputs: &[Fact]) -> Result<(usize, usize), Diagnostic> {
        let (data, indices) = (operand(inputs, 0)?, operand(inputs, 1)?);
        let axis = operands::axis(operands::integer(inputs, 2, "the axis of a Gather")?, data.rank())?;
        // The number may be that of all dimensions of the indices, so it counts from one after the last.
        let batch = operands::axis(self.batch_dims, indices.rank() + 1);
        let batch = if self.batch_dims < 0 { operands::axis(self.batch_dims, indices.rank()) } else { batch }?;
        if batch > axis {
            return Err(shape_error(format!("{batch} batch dimensions, but the axis is {axis}")));
        }
        Ok((axis, batch))
    }
}

impl Op for Gather {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (data, indices) = (operand(inputs, 0)?, operand(inputs, 1)?);
        require_integers(indices)?;
        let (axis, batch) = self.axis(inputs)?;
        for (a, b) in data.dims.iter().zip(&indices.dims).take(batch) {
            require_equal(context, a, b, "batch dimensions of data and indices")?;
        }
        let (before, after) = (data.dims.iter().take(axis), data.dims.iter().skip(axis + 1));
        let dims = before.chain(indices.dims.iter().skip(batch)).chain(after).cloned().collect();
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, indices, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let (axis, batch) = self.axis(builder.facts())?;
        let zero = Const::of(builder.scalar_type(x)?, 0.0);
        builder.map(out, |n, i| {
            let count = n.dims(indices).len().saturating_sub(batch);
            let size = n.dims(x).get(axis).cloned().unwrap_or_default();
            let at: Vec<Dim> = i.iter().take(batch).chain(i.iter().skip(axis).take(count)).cloned().collect();
            let (index, bound) = looked_up(n, indices, &at, &size)?;
            let before = i.iter().take(axis).cloned();
            let from: Vec<Dim> = before.chain([index]).chain(i.iter().skip(axis + count).cloned()).collect();
            load_or_zero(n, x, &from, vec![bound], zero)
        })
    }
}

/// `out[i] = x[i with indices[i] along the axis]`.
#[derive(Debug)]
struct GatherElements {
    axis: i64,
}

impl Op for GatherElements {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (data, indices) = (operand(inputs, 0)?, operand(inputs, 1)?);
        require_integers(indices)?;
        let axis = operands::axis(self.axis, data.rank())?;
        if indices.rank() != data.rank() {
            return Err(shape_error(format!("indices have {} dimensions, data {}", indices.rank(), data.rank())));
        }
        for (i, (a, b)) in data.dims.iter().zip(&indices.dims).enumerate() {
            if i != axis {
                require_equal(context, a, b, &format!("dimensions {i} of data and indices"))?;
            }
        }
        Ok(vec![Fact::new(data.element, indices.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, indices, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let axis = operands::axis(self.axis, builder.dims(x).len())?;
        let zero = Const::of(builder.scalar_type(x)?, 0.0);
        builder.map(out, |n, i| {
            let size = n.dims(x).get(axis).cloned().unwrap_or_default();
            let (index, bound) = looked_up(n, indices, i, &size)?;
            let mut from = i.to_vec();
            if let Some(slot) = from.get_mut(axis) {
                *slot = index;
            }
            load_or_zero(n, x, &from, vec![bound], zero)
        })
    }
}

/// The last dimension of the indices holds the first indices into the data after the batch dimensions.
#[derive(Debug)]
struct GatherNd {
    batch_dims: i64,
    /// Version 5 merges the batch dimensions of the result.
    merge: bool,
}

fn gather_nd(attributes: &Attributes, merge: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(GatherNd { batch_dims: attributes.int_or("batch_dims", 0)?, merge }))
}

impl GatherNd {
    /// Number of batch dimensions, number of indices into the data, and the result's dimensions before merging.
    fn shape(&self, inputs: &[Fact]) -> Result<(usize, usize, Vec<Dim>), Diagnostic> {
        let (data, indices) = (operand(inputs, 0)?, operand(inputs, 1)?);
        let batch = usize::try_from(self.batch_dims).unwrap_or(usize::MAX);
        let Some(last) = indices.dims.last() else {
            return Err(shape_error("the indices of a GatherND must not be a scalar"));
        };
        let depth = last.as_usize().ok_or_else(|| {
            Diagnostic::error(
                &codes::UNSUPPORTED,
                format!("the last dimension of the indices must be a constant, not {last}"),
            )
        })?;
        if batch >= indices.rank() || batch.saturating_add(depth) > data.rank() {
            let message =
                format!("{batch} batch dimensions and {depth} indices for data with {} dimensions", data.rank());
            return Err(shape_error(message));
        }
        let slices = indices.dims.iter().take(indices.rank() - 1);
        Ok((batch, depth, slices.chain(data.dims.iter().skip(batch + depth)).cloned().collect()))
    }

    fn merged(&self, dims: &[Dim], batch: usize) -> bool {
        self.merge && batch > 1 && batch <= dims.len()
    }
}

impl Op for GatherNd {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (data, indices) = (operand(inputs, 0)?, operand(inputs, 1)?);
        require_integers(indices)?;
        let (batch, _, mut dims) = self.shape(inputs)?;
        for (a, b) in data.dims.iter().zip(&indices.dims).take(batch) {
            require_equal(context, a, b, "batch dimensions of data and indices")?;
        }
        if self.merged(&dims, batch) {
            let rest = dims.split_off(batch);
            dims = [product(&dims)].into_iter().chain(rest).collect();
        }
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, indices, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let (batch, depth, dims) = self.shape(builder.facts())?;
        let zero = Const::of(builder.scalar_type(x)?, 0.0);
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        let slices = n.dims(indices).len().saturating_sub(1);
        let sizes = n.dims(x);
        let (mut from, mut bounds): (Vec<Dim>, _) = (i.iter().take(batch).cloned().collect(), Vec::new());
        for (k, size) in sizes.iter().skip(batch).take(depth).enumerate() {
            let at: Vec<Dim> = i.iter().take(slices).cloned().chain([Dim::from(k)]).collect();
            let (index, bound) = looked_up(&mut n, indices, &at, size)?;
            from.push(index);
            bounds.push(bound);
        }
        from.extend(i.iter().skip(slices).cloned());
        let value = load_or_zero(&mut n, x, &from, bounds, zero)?;
        let index = match self.merged(&dims, batch) {
            true => [flatten(&i, dims.get(..batch).unwrap_or(&[]))]
                .into_iter()
                .chain(i.iter().skip(batch).cloned())
                .collect(),
            false => i,
        };
        n.store(out, &index, value);
        Ok(())
    }
}
