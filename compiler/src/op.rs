//! What an operation is: parsed once, then asked for facts and for its defining loop nests.

pub mod axes;
pub mod broadcast;
pub mod found;
pub mod open_axes;
pub mod operands;
pub mod points;
pub mod reduction;
pub mod running;
pub mod sampling;
mod table;
pub mod typing;
pub mod window;

pub use table::{Definition, OpDef, Support, lookup, one_output, opset, row};

use crate::diag::Diagnostic;
use crate::dim::{Dim, Variable};
use crate::fact::Fact;
use crate::graph::{Inline, Read, SizeSource, VariableInfo};
use crate::options::Bound;
use crate::program::builder::Builder;
use crate::state::StateInfo;
use std::any::Any;
use std::fmt::Debug;

/// One operation with its attributes.
///
/// There are three methods and no more: what an operation does is said by its nests, and everything else (folding,
/// fusion, kernels, the oracle) is derived from these.
pub trait Op: Debug + Any {
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
pub struct InferContext<'a> {
    /// Run-time sizes; data-dependent operations add theirs.
    pub variables: Vec<VariableInfo>,
    /// Equalities that could not be proved: checked at run time.
    pub checks: Vec<(Dim, Dim)>,
    /// State variables that were read so far.
    pub states: Vec<StateInfo>,
    /// Bounds that the user gave to sizes by name.
    pub bounds: &'a [Bound],
    /// Name of the operation's layer.
    pub layer: &'a str,
    /// Operands that the operation reads as sizes.
    pub reads: Vec<Read>,
    /// Sizes that only the operation itself knows of; it gets them back from [`Builder::locals`].
    pub locals: Vec<Dim>,
    /// Set by an operation that is just one of its bodies.
    pub inline: Option<Inline>,
    /// The operation's bodies.
    pub bodies: Bodies<'a>,
}

/// The bodies of an operation with control flow, while it is inferred.
#[derive(Default)]
pub struct Bodies<'a>(Option<&'a mut InferBody<'a>>);

/// Infers body number so-and-so with these facts of its parameters; returns those of its results.
pub type InferBody<'a> = dyn FnMut(usize, Vec<Fact>, &mut Vec<VariableInfo>) -> Result<Vec<Fact>, Diagnostic> + 'a;

impl<'a> Bodies<'a> {
    /// Bodies that `infer` infers.
    pub fn new(infer: &'a mut InferBody<'a>) -> Self {
        Bodies(Some(infer))
    }
}

impl std::fmt::Debug for Bodies<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Bodies" } else { "no bodies" })
    }
}

impl InferContext<'_> {
    /// Infers a body with these facts of its parameters, as often as needed: the last time counts.
    ///
    /// # Errors
    /// The first problem in the body; an internal error where there is no such body.
    pub fn body(&mut self, body: usize, parameters: Vec<Fact>) -> Result<Vec<Fact>, Diagnostic> {
        match &mut self.bodies.0 {
            Some(infer) => infer(body, parameters, &mut self.variables),
            None => Err(Diagnostic::internal("an operation without bodies infers one")),
        }
    }

    /// The bound that the user gave to the size of this name.
    pub fn bound(&self, name: &str) -> Option<i64> {
        Bound::of(self.bounds, name)
    }

    /// The bound that the user gave to all sizes that have no other.
    pub fn bound_of_others(&self) -> Option<i64> {
        Bound::of_others(self.bounds)
    }

    /// A new run-time size between `min` and `max`.
    pub fn fresh(&mut self, name: &str, min: i64, max: i64) -> Dim {
        let variable = Variable::new(self.variables.len() as u32, min, max);
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
