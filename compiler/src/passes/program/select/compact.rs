//! Weights that were stored in fewer bits keep them: 16-bit floats, and numbers on a grid of 4 or 8 bits, as compressed models
//! have them. They are found by value, so that it does not matter how the model computes them, nor what passes did to them.

mod grid;

use super::pack::{Offsets, Values, flattened};
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
    columns: Offsets,
}

impl Matrix<'_> {
    fn at(&self, product: usize, column: usize) -> f32 {
        self.values.at(self.offset + self.products[product] + self.columns.list[column])
    }
}

/// The bits of the 16-bit float that is the same number as one with these bits.
fn half(bits: u32) -> Option<u16> {
    // Exponents that both have, without a call: weights are many, and build scripts are not optimised.
    let magnitude = bits & 0x7FFF_FFFF;
    if magnitude & 0x1FFF == 0 && (113 << 23..143 << 23).contains(&magnitude) {
        return Some((bits >> 16 & 0x8000 | (magnitude - (112 << 23)) >> 13) as u16);
    }
    let number = f32::from_bits(bits);
    let narrow = runtime::cast::f32_to_f16_bits(number);
    (number.is_finite() && runtime::cast::f16_bits_to_f32(narrow).to_bits() == bits).then_some(narrow)
}

/// Whether 16-bit floats have all numbers of a tensor.
fn is_half(tensor: &Tensor) -> bool {
    let numbers = tensor.bytes.as_slice().as_chunks::<4>().0;
    let mut i = 0;
    while i < numbers.len() {
        if half(u32::from_le_bytes(numbers[i])).is_none() {
            return false;
        }
        i += 1;
    }
    true
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
    let (k, cols) = (products.len(), columns.len());
    let matrix = Matrix { values: Values::new(&tensor)?, offset, products, columns: Offsets::new(columns) };
    let found = grid::find(k, cols, &|product, column| matrix.at(product, column));
    let (form, group) = match &found {
        Some(grid) => (grid.form, grid.group),
        None if is_half(&tensor) => (Form::Halves, k),
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
    let mut line = [[0; 4]; PANEL];
    let line = line.get_mut(..codes.len()).unwrap_or_default();
    matrix.values.read(matrix.offset + matrix.products[product], &matrix.columns, first, line);
    let mut i = 0;
    while i < line.len() {
        codes[i] = match grid {
            Some(grid) => grid.code(product, first + i, f32::from_le_bytes(line[i])),
            None => half(u32::from_le_bytes(line[i])).unwrap_or(0),
        };
        i += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_halves_exactly_where_both_have_them() {
        for bits in 0..=u16::MAX {
            let number = runtime::cast::f16_bits_to_f32(bits);
            assert_eq!(half(number.to_bits()), number.is_finite().then_some(bits), "{bits:x}");
            let near = [number.to_bits() ^ 1, number.to_bits() ^ 0x1000];
            assert!(near.iter().all(|bits| half(*bits).is_none()), "{bits:x}");
        }
    }
}
