//! Passes over the loop program.

use super::Pass;
use crate::program::Program;

/// The program passes.
pub const PASSES: &[Pass<Program>] = &[];
