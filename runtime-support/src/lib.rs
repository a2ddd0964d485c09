//! OpenVINO IR models compiled into your Rust binary.
//!
//! ```ignore
//! include_ir::include_ir!("models/mnist.xml"); // gives `pub mod mnist`
//!
//! let mut model = mnist::Model::boxed();
//! let probabilities = model.run(&image).probabilities;
//! ```
//!
//! Three fronts give the same module: the macro [`include_ir!`] (feature `macros`), a build script with
//! `include_ir_compiler::build` and [`include_model!`], and the command `irc compile`.
//!
//! Kernels are generic over nothing and compiled with this crate: `[profile.dev.package."*"] opt-level = 3` makes debug
//! builds of your program run models at full speed.
//!
//! # Features
//! - `std` (default): memory-mapped external weights, processor detection through the standard library.
//! - `alloc`: `Model::boxed()`; part of `std`.
//! - `threads`: `set_threads` and `set_team` of a model split its steps among threads, with the same bits for every number.
//! - `macros` (default): [`include_ir!`].
#![no_std]
#![forbid(unsafe_code)]

pub use include_ir_runtime::*;

#[cfg(feature = "macros")]
pub use include_ir_macros::include_ir;

/// Includes a model that the build script has compiled: `include_model!("mnist")` for `include_ir_compiler::build("models/mnist.xml")`.
///
/// Gives `pub mod mnist`.
#[macro_export]
macro_rules! include_model {
    ($name:literal $(,)?) => {
        ::core::include!(::core::concat!(
            ::core::env!("OUT_DIR", "`include_model!` needs a build script that compiles the model"),
            "/",
            $name,
            ".rs"
        ));
    };
}
