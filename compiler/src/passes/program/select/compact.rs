//! Weights that were stored in fewer bits keep them: 16-bit floats, and numbers on a grid of 4 or 8 bits, as compressed models
//! have them. They are found by value, so that it does not matter how the model computes them, nor what passes did to them.

mod grid;

use super::pack::{Values, flattened};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::program::kernel::{Compact, Description, Kernel, KernelAxis, KernelKind};
use crate::program::{BufferId, Program, Role};
use crate::tensor::Tensor;
use grid::Grid;
use include_ir_runtime::__private::v1 as runtime;
use runtime::{Form, RowAxis};

/// Fewer weights than this stay in a near cache: reading them takes no time.
const LEAST: usize = 64 * 1024;
/// Columns of a panel.
pub(super) const PANEL: usize = 32;

/// The weights of a contraction as rows of products and columns.
struct Matrix<'t> {
    values: Values<'t>,
    offset: i64,
    products: Vec<i64>,
    columns: Vec<i64>,
}

impl Matrix<'_> {
    fn at(&self, product: usize, column: usize) -> f32 {
        self.values.at(self.offset + self.products[product] + self.columns[column])
    }

    /// Whether all are numbers that 16-bit floats have.
    fn is_half(&self) -> bool {
        let has = |x: f32| {
            let bits = x.to_bits();
            bits & 0x1FFF == 0 && x.is_finite() && half(x).is_some()
        };
        (0..self.columns.len()).all(|column| (0..self.products.len()).all(|product| has(self.at(product, column))))
    }
}

/// The bits of a 16-bit float.
fn half(x: f32) -> Option<u16> {
    let bits = runtime::cast::f32_to_f16_bits(x);
    (runtime::cast::f16_bits_to_f32(bits).to_bits() == x.to_bits()).then_some(bits)
}

/// The weights in fewer bits, where the contraction is a matrix product with the same weights for all rows, and they have as few.
pub(super) fn contraction(
    program: &mut Program,
    kernel: &Kernel,
    description: &Description,
) -> Option<(BufferId, Compact)> {
    let KernelKind::Contraction { weights, .. } = &kernel.kind else { return None };
    let source = kernel.buffer_of(*weights)?;
    let tensor: Tensor = program.buffer(source).constant()?.clone();
    let plain = description.taps.iter().all(|axis| axis.extent.is(1)) && description.bounds.is_empty();
    if !plain || description.own_batches().next().is_some() {
        return None;
    }
    let products = flattened(&description.depth)?;
    let columns = flattened(&description.columns)?;
    if products.len().checked_mul(columns.len())? < LEAST {
        return None;
    }
    let offset = description.weights_offset.as_const()?;
    let matrix = Matrix { values: Values::new(&tensor)?, offset, products, columns };
    let (k, cols) = (matrix.products.len(), matrix.columns.len());
    let found = grid::find(k, cols, &|product, column| matrix.at(product, column));
    let (form, group) = match &found {
        Some(grid) => (grid.form, grid.group),
        None if matrix.is_half() => (Form::Halves, k),
        None => return None,
    };
    let shape = shape(description, (k, cols), form, group)?;
    let mut packed = vec![0u8; shape.weights_len()];
    runtime::pack_compact(
        &shape,
        &mut packed,
        |group, column| found.as_ref().map_or((0.0, 0.0), |grid| grid.scale_and_zero(group, column)),
        |product, first, codes| codes_of(&matrix, found.as_ref(), (product, first), codes),
    );
    let name = program.buffer(source).name.clone();
    let packed = Tensor { element: ElementType::U8, dims: vec![packed.len()], bytes: packed.into() };
    let packed = program.add_constant(&name, packed);
    let scratch = vec![Dim::from(shape.scratch_len())];
    let scratch = program.add_buffer("rows", ElementType::F32, scratch, Role::Scratch);
    Some((packed, Compact { form, group, scratch }))
}

/// The codes of a product, from a column on.
fn codes_of(matrix: &Matrix, grid: Option<&Grid>, (product, first): (usize, usize), codes: &mut [u16]) {
    for (i, code) in codes.iter_mut().enumerate() {
        let value = matrix.at(product, first + i);
        *code = match grid {
            Some(grid) => grid.code(product, first + i, value),
            None => half(value).unwrap_or(0),
        };
    }
}

/// The descriptor as far as packing and sizes need it.
fn shape(
    description: &Description,
    (depth, cols): (usize, usize),
    form: Form,
    group: usize,
) -> Option<runtime::Compact> {
    let extents = |axes: &[KernelAxis]| product(&axes.iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>());
    let m = usize::try_from(extents(&description.rows).upper_bound()).ok()?;
    let rows = [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, RowAxis { extent: m, ..RowAxis::ONE }];
    let product = runtime::Contraction { rows, depth, cols, panel: PANEL, ..runtime::Contraction::NEW };
    Some(runtime::Compact { product, form, group })
}
