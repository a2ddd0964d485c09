//! Tensors whose dimensions are known at run time: elements in row-major order, and sizes.
use crate::pod::Pod;

/// A borrowed tensor of `RANK` dimensions.
///
/// `TensorView::new(&data, [batch, 3, 224, 224])`; a model checks that sizes and length fit when it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorView<'a, T, const RANK: usize> {
    data: &'a [T],
    dims: [usize; RANK],
}

impl<'a, T: Pod, const RANK: usize> TensorView<'a, T, RANK> {
    /// A tensor with these elements in row-major order.
    #[inline]
    #[must_use]
    pub const fn new(data: &'a [T], dims: [usize; RANK]) -> Self {
        TensorView { data, dims }
    }

    /// The elements in row-major order.
    #[inline]
    #[must_use]
    pub const fn data(&self) -> &'a [T] {
        self.data
    }

    /// The dimensions, outermost first.
    #[inline]
    #[must_use]
    pub const fn dims(&self) -> [usize; RANK] {
        self.dims
    }
}
