//! Functions that are no loop nests: sorting, scattering, suppression, and sizes that depend on data.
//!
//! Every function takes the same [`Arguments`], so that generated code and the interpreter call the very same code. Tensors
//! are row-major and compact in their actual dimensions. No function panics or allocates: working memory is among the
//! results. A tensor of another element type than a function expects counts as empty.
//!
//! Few models call any of them: all are `#[inline]`, or generic, so that each is compiled where a model calls it and costs
//! no other build.

pub mod boxes;
pub mod find;
pub mod matrix;
mod rank;
pub mod running;
pub mod scatter;
pub mod size;
pub mod sort;
pub mod sparse;
pub mod top_k;
pub mod unique;

pub use boxes::{
    detection_output, detectron_detection_output, generate_proposals, matrix_nms, multiclass_nms, non_max_suppression,
    proposal,
};
pub use find::non_zero;
pub use matrix::inverse;
pub use running::running_sum;
pub use scatter::{last_writers, scatter_reduce};
pub use size::{read_sizes, set_shared_size, set_size};
pub use sparse::fill_empty_rows;
pub use top_k::top_k;
pub use unique::unique;

use crate::cx::Cx;

/// The elements of a tensor, of one of the types that functions take; operations convert the others before and after.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// f32.
    F32(&'a [f32]),
    /// f64.
    F64(&'a [f64]),
    /// i32.
    I32(&'a [i32]),
    /// i64.
    I64(&'a [i64]),
    /// u8 and boolean.
    U8(&'a [u8]),
}

/// The elements of a result.
#[derive(Debug)]
pub enum ElementsMut<'a> {
    /// f32.
    F32(&'a mut [f32]),
    /// f64.
    F64(&'a mut [f64]),
    /// i32.
    I32(&'a mut [i32]),
    /// i64.
    I64(&'a mut [i64]),
    /// u8 and boolean.
    U8(&'a mut [u8]),
}

/// A tensor that a function reads.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// In row-major order.
    pub elements: Elements<'a>,
    /// Actual dimensions, outermost first.
    pub dims: &'a [usize],
}

/// A tensor that a function writes. A dimension that the function itself finds is given as its bound.
#[derive(Debug)]
pub struct Target<'a> {
    /// In row-major order.
    pub elements: ElementsMut<'a>,
    /// Dimensions, outermost first.
    pub dims: &'a [usize],
}

/// Everything that a function is called with.
#[derive(Debug)]
pub struct Arguments<'a> {
    /// The instruction set, and the threads that help.
    pub cx: Cx<'a>,
    /// Tensors to read.
    pub inputs: &'a [Operand<'a>],
    /// Tensors to write, working memory last.
    pub outputs: &'a mut [Target<'a>],
    /// Attributes that are integers.
    pub integers: &'a [i64],
    /// Attributes that are numbers.
    pub floats: &'a [f32],
    /// Sizes that the function finds.
    pub sizes: &'a mut [usize],
}

/// A function of this module.
pub type Function = fn(Arguments<'_>);

/// An element type that functions take.
pub trait Element: Copy + 'static {
    /// Names the type of the elements.
    fn wrap(elements: &[Self]) -> Elements<'_>;
    /// Names the type of the elements.
    fn wrap_mut(elements: &mut [Self]) -> ElementsMut<'_>;
    /// The elements, if they are of this type.
    fn of(elements: Elements<'_>) -> Option<&[Self]>;
    /// The elements, if they are of this type.
    fn of_mut<'a>(elements: &'a mut ElementsMut<'_>) -> Option<&'a mut [Self]>;
}

macro_rules! element {
    ($($ty:ty => $variant:ident),*) => {$(
        impl Element for $ty {
            #[inline]
            fn wrap(elements: &[Self]) -> Elements<'_> {
                Elements::$variant(elements)
            }
            #[inline]
            fn wrap_mut(elements: &mut [Self]) -> ElementsMut<'_> {
                ElementsMut::$variant(elements)
            }
            #[inline]
            fn of(elements: Elements<'_>) -> Option<&[Self]> {
                match elements {
                    Elements::$variant(elements) => Some(elements),
                    _ => None,
                }
            }
            #[inline]
            fn of_mut<'a>(elements: &'a mut ElementsMut<'_>) -> Option<&'a mut [Self]> {
                match elements {
                    ElementsMut::$variant(elements) => Some(elements),
                    _ => None,
                }
            }
        }
    )*};
}

element!(f32 => F32, f64 => F64, i32 => I32, i64 => I64, u8 => U8);

impl<'a> Operand<'a> {
    /// A tensor with these elements.
    #[inline]
    pub fn new<T: Element>(elements: &'a [T], dims: &'a [usize]) -> Self {
        Operand { elements: T::wrap(elements), dims }
    }

    /// The elements; none if they are of another type.
    #[inline]
    #[must_use]
    pub fn get<T: Element>(&self) -> &'a [T] {
        T::of(self.elements).unwrap_or(&[])
    }

    /// Dimension `axis`; 1 if there is none.
    #[inline]
    #[must_use]
    pub fn dim(&self, axis: usize) -> usize {
        self.dims.get(axis).copied().unwrap_or(1)
    }
}

impl<'a> Target<'a> {
    /// A tensor with these elements.
    #[inline]
    pub fn new<T: Element>(elements: &'a mut [T], dims: &'a [usize]) -> Self {
        Target { elements: T::wrap_mut(elements), dims }
    }

    /// The elements; none if they are of another type.
    #[inline]
    pub fn get<T: Element>(&mut self) -> &mut [T] {
        T::of_mut(&mut self.elements).unwrap_or(&mut [])
    }

    /// Dimension `axis`; 1 if there is none.
    #[inline]
    #[must_use]
    pub fn dim(&self, axis: usize) -> usize {
        self.dims.get(axis).copied().unwrap_or(1)
    }
}

impl<'a> Arguments<'a> {
    /// Operand `i`; an empty one if there is none.
    #[inline]
    #[must_use]
    pub fn input(&self, i: usize) -> Operand<'a> {
        self.inputs.get(i).copied().unwrap_or(Operand { elements: Elements::U8(&[]), dims: &[0] })
    }

    /// Integer attribute `i`; 0 if there is none.
    #[inline]
    #[must_use]
    pub fn integer(&self, i: usize) -> i64 {
        self.integers.get(i).copied().unwrap_or(0)
    }

    /// Integer attribute `i` as a size; 0 if it is negative.
    #[inline]
    #[must_use]
    pub fn size(&self, i: usize) -> usize {
        usize::try_from(self.integer(i)).unwrap_or(0)
    }

    /// Number attribute `i`; 0 if there is none.
    #[inline]
    #[must_use]
    pub fn float(&self, i: usize) -> f32 {
        self.floats.get(i).copied().unwrap_or(0.0)
    }
}
