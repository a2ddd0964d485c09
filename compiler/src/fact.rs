//! What is known of a value: element type, dimensions, and its elements where these are known at compile time.

use crate::dim::{Dim, Fraction};
use crate::element::ElementType;
use crate::tensor::Tensor;
use std::fmt;

/// The elements of a value, as far as they are known.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Value {
    /// Nothing is known.
    #[default]
    Unknown,
    /// All elements.
    Constant(Tensor),
    /// One size expression per element (integer tensors of at most [`MAX_SYMBOLIC`] elements): what ShapeOf chains compute.
    Sizes(Vec<Dim>),
    /// The same for f32 and f64, where the arithmetic on sizes is exact.
    Fractions(Vec<Fraction>),
}

/// Longest tensor whose elements are tracked as size expressions.
pub const MAX_SYMBOLIC: usize = 64;

/// Element type, dimensions and value of one SSA value. Never guessed: what is not known is [`Value::Unknown`].
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Element type.
    pub element: ElementType,
    /// Dimensions, as expressions over the run-time variables; none for a scalar.
    pub dims: Vec<Dim>,
    /// Elements.
    pub value: Value,
}

impl Fact {
    /// A value of which the elements are unknown.
    pub fn new(element: ElementType, dims: Vec<Dim>) -> Self {
        Fact { element, dims, value: Value::Unknown }
    }

    /// A constant.
    pub fn constant(tensor: Tensor) -> Self {
        let dims = tensor.dims.iter().map(|d| Dim::from(*d)).collect();
        Fact { element: tensor.element, dims, value: Value::Constant(tensor) }
    }

    /// A scalar or vector of size expressions.
    pub fn sizes(element: ElementType, dims: Vec<Dim>, sizes: Vec<Dim>) -> Self {
        Fact { element, dims, value: Value::Sizes(sizes) }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The constant elements.
    pub fn as_constant(&self) -> Option<&Tensor> {
        match &self.value {
            Value::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The elements as size expressions: constant integers or tracked sizes.
    pub fn as_sizes(&self) -> Option<Vec<Dim>> {
        match &self.value {
            Value::Unknown | Value::Fractions(_) => None,
            Value::Constant(tensor) => Some(tensor.to_i64s()?.into_iter().map(Dim::constant).collect()),
            Value::Sizes(sizes) => Some(sizes.clone()),
        }
    }

    /// The elements as integers.
    pub fn as_i64s(&self) -> Option<Vec<i64>> {
        self.as_sizes()?.iter().map(Dim::as_const).collect()
    }

    /// Dimensions as array sizes, where all are static.
    pub fn static_dims(&self) -> Option<Vec<usize>> {
        self.dims.iter().map(Dim::as_usize).collect()
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element)?;
        for (i, dim) in self.dims.iter().enumerate() {
            write!(f, "{}{dim}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}
