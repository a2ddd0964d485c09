//! What memory a buffer takes within its storage, as steps borrow it.

use crate::dim::Dim;

/// The elements of a region, in elements of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A run.
    Run(usize),
    /// Runs of `row` elements, `stride` apart.
    Rows {
        /// Elements of one run.
        row: usize,
        /// Distance of runs.
        stride: usize,
        /// Number of runs.
        rows: usize,
    },
}

/// The shape of constant dimensions: sorted by stride, they collapse into runs that lie at equal distances, or do not.
pub fn shape_of(dims: &[Dim], strides: &[Dim]) -> Option<Shape> {
    let mut axes: Vec<(usize, usize)> = Vec::with_capacity(dims.len());
    for (dim, stride) in dims.iter().zip(strides) {
        let (dim, stride) = (dim.as_usize()?, stride.as_usize()?);
        match dim {
            0 => return Some(Shape::Run(0)),
            1 => {}
            _ => axes.push((stride, dim)),
        }
    }
    axes.sort_unstable();
    let (mut row, mut stride, mut rows) = (1usize, 0usize, 1usize);
    for (step, dim) in axes {
        if rows == 1 && step == row {
            row *= dim;
        } else if rows == 1 && step > row {
            (stride, rows) = (step, dim);
        } else if rows > 1 && step == stride * rows {
            rows *= dim;
        } else {
            return None;
        }
    }
    Some(if rows == 1 { Shape::Run(row) } else { Shape::Rows { row, stride, rows } })
}
