//! Contractions of long sums and many columns read their left operand from working memory, where it is packed first: its rows
//! lie at distances at which they would push each other out of the nearest cache. Packed rows are multiplied in halves where that
//! saves products.

mod halves;

use super::blocks::for_each_step;
use crate::diag::Diagnostics;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::options::{Accuracy, Options};
use crate::program::kernel::{Description, Kernel, KernelAxis, KernelKind, Method};
use crate::program::{Program, Role, StepKind};
use include_ir_runtime::__private::v1 as runtime;

/// Elements are packed once and read once per panel of columns: so many columns make packing cheap.
const COLUMNS: i64 = 192;
/// Fewer are enough where sums are as long as this.
const FEW_COLUMNS: i64 = 128;
const VERY_LONG: i64 = 1024;
/// Rows of shorter sums do not get into each other's way.
const LONG: i64 = 192;
/// But products of wide panels make up for less than that.
const MEDIUM: i64 = 128;
const MANY_COLUMNS: i64 = 384;
/// Shorter runs are packed slowly.
const RUN: i64 = 16;
/// A single small tile of rows reads the weights at the speed of memory anyway.
const ROWS: i64 = 6;
/// Threads that find memory for rows of their own where these are few.
const THREADS: usize = 2;
/// Columns of a wide panel, and so many panels of them that what is left over does not count.
const WIDE: usize = 48;
const MANY: usize = 10;

/// Gives working memory to the contractions that gain by it.
pub fn pack_rows(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if !options.has_vector_kernels() {
        return;
    }
    for_each_step(program, &mut |program, step| {
        let StepKind::Kernel(kernel) = &mut step.kind else { return };
        let halves = (options.accuracy == Accuracy::Auto).then(|| halves::working_memory(program, kernel)).flatten();
        let Some(len) = halves.or_else(|| working_memory(program, kernel)) else { return };
        let scratch = program.add_buffer("rows", ElementType::F32, vec![Dim::from(len)], Role::Scratch);
        if let KernelKind::Contraction { method, .. } = &mut kernel.kind {
            *method = if halves.is_some() { Method::Strassen { scratch } } else { Method::PackedRows { scratch } };
        }
    });
}

/// Floats of working memory, where packing pays.
fn working_memory(program: &Program, kernel: &Kernel) -> Option<usize> {
    let KernelKind::Contraction { method: Method::Direct, panel, .. } = &kernel.kind else { return None };
    let sizes = sizes(&kernel.describe(program)?)?;
    Some(shape(sizes, *panel).packed_rows_len_apart(THREADS))
}

/// A product of matrices of these sizes.
fn shape((m, depth, cols): (usize, usize, usize), panel: usize) -> runtime::Contraction {
    let row = runtime::RowAxis { extent: m, ..runtime::RowAxis::ONE };
    let rows = [runtime::RowAxis::ONE, runtime::RowAxis::ONE, runtime::RowAxis::ONE, row];
    runtime::Contraction { rows, depth, cols, panel, ..runtime::Contraction::NEW }
}

/// Columns of a panel of constant weights that packed rows are multiplied with, if other than usual: three vectors of AVX-512
/// where few columns are left behind the last panel.
pub(super) fn panel(description: &Description) -> Option<usize> {
    let (_, _, cols) = sizes(description)?;
    (cols.is_multiple_of(WIDE) || cols >= MANY * WIDE).then_some(WIDE)
}

/// Rows, products of a sum, and columns, where packing pays.
fn sizes(description: &Description) -> Option<(usize, usize, usize)> {
    let depth = description.depth.as_ref()?.extent.as_const()?;
    let (m, (k, cols)) = (size(&description.rows).upper_bound(), products(description)?);
    let wide = cols % WIDE as i64 == 0;
    let gains = k >= LONG && cols >= COLUMNS
        || k >= VERY_LONG && cols >= FEW_COLUMNS
        || k >= MEDIUM && cols >= MANY_COLUMNS && wide;
    // Tiles of rows where they lie leave out what is in the padding.
    if !gains || depth < RUN || m < ROWS || !description.bounds.is_empty() {
        return None;
    }
    Some((usize::try_from(m).ok()?, usize::try_from(k).ok()?, usize::try_from(cols).ok()?))
}

/// Products of a sum, and columns.
fn products(description: &Description) -> Option<(i64, i64)> {
    let depth = description.depth.as_ref()?.extent.as_const()?;
    Some((size(&description.taps).as_const()?.checked_mul(depth)?, size(&description.columns).as_const()?))
}

fn size(axes: &[KernelAxis]) -> Dim {
    product(&axes.iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>())
}
