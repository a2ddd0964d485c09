//! What an operation is: parsed once, then asked for facts and for its defining loop nests.

pub mod axes;
pub mod broadcast;
pub mod operands;
pub mod reduction;
pub mod sampling;
mod table;
pub mod typing;
pub mod window;

pub use table::{OpDef, Support, lookup, one_output};

use crate::diag::Diagnostic;
use crate::dim::{Dim, Variable};
use crate::fact::Fact;
use crate::graph::{SizeSource, VariableInfo};
use crate::program::builder::Builder;
use crate::state::StateInfo;
use std::fmt::Debug;

/// One operation with its attributes.
///
/// There are three methods and no more: what an operation does is said by its nests, and everything else (folding,
/// fusion, kernels, the oracle) is derived from these.
pub trait Op: Debug {
    /// Properties that passes may ask for; they never ask for a name.
    fn props(&self) -> Props {
        Props::default()
    }

    /// Element type, dimensions and, where the operation itself knows them (ShapeOf), elements of every output.
    ///
    /// # Errors
    /// Where the operands do not fit the operation. The caller adds the layer's place.
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic>;

    /// The defining nests, in terms of the operands' and results' buffers.
    ///
    /// # Errors
    /// Where the operation or one of its modes cannot be lowered yet.
    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic>;
}

/// Properties of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Props {
    /// Runs in program order with other effects (state, random numbers) and is never folded, shared or dropped.
    pub effect: bool,
    /// Output 0 is input 0, unchanged, whenever their facts are equal (Reshape to the same shape, Convert to the same type).
    pub identity_if_same: bool,
}

/// What inference may ask for besides the operands.
#[derive(Debug, Default)]
pub struct InferContext {
    /// Run-time sizes; data-dependent operations add theirs.
    pub variables: Vec<VariableInfo>,
    /// Equalities that could not be proved: checked at run time.
    pub checks: Vec<(Dim, Dim)>,
    /// State variables that were read so far.
    pub states: Vec<StateInfo>,
    /// Facts of the results of the operation's bodies.
    pub bodies: Vec<Vec<Fact>>,
}

impl InferContext {
    /// A new run-time size between `min` and `max`.
    pub fn fresh(&mut self, name: &str, min: i64, max: i64) -> Dim {
        let variable = Variable { id: self.variables.len() as u32, min, max };
        self.variables.push(VariableInfo { variable, name: name.to_owned(), source: SizeSource::Step });
        Dim::variable(variable)
    }

    /// Demands that two sizes are equal: `false` where they cannot be; a run-time check where that is open.
    pub fn require_equal(&mut self, a: &Dim, b: &Dim) -> bool {
        let difference = (a.clone() - b).range();
        if a == b {
            return true;
        }
        if difference.min > 0 || difference.max < 0 {
            return false;
        }
        self.checks.push((a.clone(), b.clone()));
        true
    }
}
