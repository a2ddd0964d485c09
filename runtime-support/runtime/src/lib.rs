//! Kernels, arena and SIMD of compiled models.
#![no_std]
#![warn(missing_docs)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod arena;
pub mod attention;
pub mod bands;
pub mod blob;
mod blocks;
pub mod calls;
pub mod cast;
pub mod compact;
pub mod contraction;
pub mod cx;
pub mod info;
pub mod isa;
#[cfg(feature = "std")]
pub mod mapped;
pub mod math;
pub mod model;
pub mod nest;
mod order;
pub mod pages;
pub mod parts;
pub mod pod;
#[cfg(feature = "threads")]
mod portions;
pub mod raw;
pub mod shares;
pub mod simd;
#[cfg(feature = "threads")]
pub mod team;
pub mod tensor;
mod transpose;
pub mod view;
pub mod window;
pub mod winograd;

#[doc(hidden)]
pub mod __private;

pub use blob::LoadError;
pub use cast::{Bf16, F8e4m3, F8e5m2, F8e8m0, F16};
pub use info::{Element, RunError, TensorDim, TensorInfo};
pub use isa::Isa;
#[cfg(feature = "threads")]
pub use team::Team;
pub use tensor::TensorView;
