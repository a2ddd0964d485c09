//! Kernels, arena and SIMD of compiled models.
#![no_std]

#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "std")]
pub mod mapped;
