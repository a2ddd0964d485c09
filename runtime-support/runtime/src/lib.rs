//! Kernels, arena and SIMD of compiled models.
#![no_std]
