//! Products of small matrices that are computed run as the loops that define them: a kernel would pack every one of them first,
//! which takes longer than the product.

use super::blocks::for_each_step;
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::kernel::{Description, Kernel, KernelAxis, KernelKind};
use crate::program::{Program, StepKind};

/// Products of a column, at most, where loops run along columns, or rows where there are more.
const ALONG_COLUMNS: i64 = 512;
const FEW_ROWS: i64 = 4;
/// Columns then, at most: more sums than that do not stay in registers. Of two rows, packing takes half of the time.
const COLUMNS: i64 = 32;
const COLUMNS_OF_TWO: i64 = 128;
/// Sums, at most, where loops run along the terms of each.
const ALONG_TERMS: i64 = 64;
/// Terms so few that sums are computed side by side: products, at most, of as many columns as fill vectors.
const FEW_TERMS: i64 = 4;
const OF_FEW_TERMS: i64 = 1024;
const FILLED: i64 = 16;

/// Makes loops of such kernels.
pub fn loop_small_products(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, kernels pack next to nothing.
    if !options.has_vector_kernels() {
        return;
    }
    for_each_step(program, &mut |program, step| {
        if let StepKind::Kernel(kernel) = &step.kind
            && is_small(program, kernel) == Some(true)
        {
            step.kind = StepKind::Nest(kernel.nest.clone());
        }
    });
}

/// Whether loops take less time than the kernel of a product.
fn is_small(program: &Program, kernel: &Kernel) -> Option<bool> {
    let KernelKind::Contraction { at_run_time: true, .. } = kernel.kind else { return None };
    let description = kernel.describe(program).filter(|description| description.bounds.is_empty())?;
    let Description { batches, rows, taps, depth, columns, .. } = &description;
    // Rows that share packed weights.
    let shared = batches.iter().filter(|axis| axis.strides.weights.is(0));
    let (rows, columns_all) = (extent(shared.chain(rows))?, extent(columns)?);
    let terms = extent(taps.iter().chain(depth))?;
    let follows = |stride: &Dim| stride.is(1);
    let along_columns = columns.last().is_some_and(|axis| follows(&axis.strides.weights));
    let along_terms = depth.as_ref().is_some_and(|axis| follows(&axis.strides.weights) && follows(&axis.strides.data));
    let few = columns_all <= COLUMNS && (rows <= FEW_ROWS || rows.checked_mul(terms)? <= ALONG_COLUMNS)
        || columns_all <= COLUMNS_OF_TWO && rows <= 2;
    let sums = rows.checked_mul(columns_all)?;
    let beside = terms <= FEW_TERMS && columns_all >= FILLED && sums.checked_mul(terms)? <= OF_FEW_TERMS;
    let short = taps.is_empty() && (sums <= ALONG_TERMS || beside);
    Some(along_columns && few || along_terms && short)
}

/// The number of points of some axes.
fn extent<'a>(axes: impl IntoIterator<Item = &'a KernelAxis>) -> Option<i64> {
    axes.into_iter().try_fold(1i64, |points, axis| points.checked_mul(axis.extent.as_const()?))
}
