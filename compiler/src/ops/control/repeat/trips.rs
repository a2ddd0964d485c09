//! How often a loop runs.

use super::{Repeat, Source};
use crate::diag::{Diagnostic, codes, quote};
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::InferContext;
use crate::op::operands::{self, operand, require_equal};
use crate::read::Slice;

/// Trip counts from here on stand for "until the condition fails".
const ENDLESS: i64 = 1 << 31;

/// What is known of the number of iterations before the body is.
#[derive(Clone, Debug)]
pub(super) struct Trips {
    /// The largest number; exact unless a condition ends the loop before. `None` where only the condition ends it.
    pub count: Option<Dim>,
    /// The loop itself does not stop after `count` iterations: going on is an error of the run.
    pub assumed: bool,
    /// The count is an element of operand 0 that is known at run time only.
    pub read: bool,
    /// Whether the first iteration runs, where that is known.
    pub first: Option<bool>,
}

/// Where the parts of an operand lie along an axis.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// The axis.
    pub axis: usize,
    /// First element of the part of iteration 0.
    pub first: Dim,
    /// What one iteration adds.
    pub step: i64,
    /// Number of parts.
    pub count: Dim,
}

/// The parts into which a slice cuts dimensions.
///
/// # Errors
/// A range outside of the dimension, and steps that leave gaps or overlap.
pub(super) fn parts(slice: &Slice, dims: &[Dim]) -> Result<Parts, Diagnostic> {
    let axis = operands::axis(slice.axis, dims.len())?;
    let size = &dims[axis];
    let from_start = |at: i64| if at < 0 { size.clone() + at } else { Dim::constant(at) };
    let (start, end) = (from_start(slice.start), from_start(slice.end));
    if slice.stride.saturating_abs() != slice.part_size {
        let message = format!("parts of {} elements at a stride of {}", slice.part_size, slice.stride);
        return Err(Diagnostic::error(&codes::UNSUPPORTED, message)
            .note("only parts that follow each other without gaps or overlap have a meaning that is agreed on"));
    }
    let (low, high) = if slice.stride > 0 { (&start, &end) } else { (&end, &start) };
    let inside = |at: &Dim| at.range().max >= 0 && (size.clone() - at).range().max > 0;
    let within = size.is(0) || inside(low) && inside(high);
    if !within {
        let message = format!("parts from {start} to {end} of a dimension of size {size}");
        return Err(Diagnostic::error(&codes::VALUE, message));
    }
    let length = (high.clone() - low + 1).maximum(&Dim::constant(0));
    let count = length.floor_div(&Dim::constant(slice.part_size));
    let first = if slice.stride > 0 { start } else { start - (slice.part_size - 1) };
    Ok(Parts { axis, first, step: slice.stride, count })
}

/// The number of iterations as far as operands tell it.
///
/// # Errors
/// Operands that do not fit, and counts that are known at run time only and have no bound.
pub(super) fn trips(repeat: &Repeat, inputs: &[Fact], context: &mut InferContext) -> Result<Trips, Diagnostic> {
    let mut sliced: Option<Dim> = None;
    for entry in &repeat.entries {
        let Source::Part { operand: i, slice } = &entry.source else { continue };
        let count = parts(slice, &operand(inputs, *i)?.dims)?.count;
        match &sliced {
            Some(other) => require_equal(context, other, &count, "numbers of parts of all operands that are cut")?,
            None => sliced = Some(count),
        }
    }
    if !repeat.counted {
        let count = sliced.or(repeat.count.map(Dim::constant));
        let message = "neither an operand that is cut into parts nor a concatenation tells the number of iterations";
        let count = count.ok_or_else(|| Diagnostic::error(&codes::BODY, message))?;
        return Ok(Trips { count: Some(count), assumed: false, read: false, first: Some(true) });
    }
    let first = super::super::condition(operand(inputs, 1)?, "the initial condition of a Loop")?;
    if first == Some(false) {
        return Ok(Trips { count: Some(Dim::constant(0)), assumed: false, read: false, first });
    }
    let count = operand(inputs, 0)?;
    if !count.element.is_integer() || !count.dims.iter().all(|dim| dim.is(1)) {
        let message = format!("the trip count of a Loop must be one integer, not {count}");
        return Err(Diagnostic::error(&codes::TYPE, message));
    }
    let known = count.as_sizes().and_then(|sizes| sizes.into_iter().next());
    let given = context.bound(&repeat.name);
    match (known, sliced) {
        (Some(known), sliced) if known.range().max >= 0 && known.range().min < ENDLESS => {
            let count = known.maximum(&Dim::constant(0));
            if let Some(sliced) = sliced {
                require_parts(&count, &sliced, context)?;
            }
            Ok(Trips { count: Some(count), assumed: false, read: false, first })
        }
        (Some(_), Some(sliced)) => Ok(Trips { count: Some(sliced), assumed: true, read: false, first }),
        (Some(_), None) => Ok(Trips { count: given.map(Dim::constant), assumed: true, read: false, first }),
        (None, sliced) => {
            let bound = given.or(sliced.as_ref().map(Dim::upper_bound)).or(context.bound_of_others());
            let bound = bound.ok_or_else(|| unbounded(repeat))?;
            let count = context.fresh(&repeat.name, 0, bound);
            if let Some(sliced) = sliced {
                require_parts(&count, &sliced, context)?;
            }
            Ok(Trips { count: Some(count), assumed: false, read: true, first })
        }
    }
}

/// Demands a part for every iteration.
fn require_parts(count: &Dim, parts: &Dim, context: &mut InferContext) -> Result<(), Diagnostic> {
    require_equal(
        context,
        &count.maximum(parts),
        parts,
        "the number of parts and the larger one of it and the trip count",
    )
}

/// A loop of which nothing says how often it runs at most.
pub(super) fn unbounded(repeat: &Repeat) -> Diagnostic {
    let message = format!("the number of iterations of {} has no upper bound", quote(&repeat.name));
    Diagnostic::error(&codes::UNBOUNDED, message)
        .note("buffers are sized when the model is compiled")
        .help(format!("give a bound: --bound {}=100", repeat.name))
}
