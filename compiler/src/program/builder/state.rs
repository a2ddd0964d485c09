//! How operations reach memory that lasts from run to run.

use super::Builder;
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::program::state::is_zero;
use crate::program::{Block, BufferId, StepKind};

impl Builder<'_> {
    /// The memory of the state variable with this `variable_id`.
    ///
    /// # Errors
    /// An internal error where there is none: inference found it.
    pub fn state(&self, id: &str) -> Result<BufferId, Diagnostic> {
        let found = self.program.state.variables.iter().find(|(_, interface)| interface.name == id);
        found.map(|(buffer, _)| *buffer).ok_or_else(|| super::internal("a state variable is missing"))
    }

    /// New memory of this operation alone: zero before the first run, then what runs leave there.
    pub fn memory(&mut self, element: ElementType, dims: Vec<Dim>) -> BufferId {
        self.program.add_hidden_state(&self.origin.name, element, dims)
    }

    /// Whether the zeros that memory begins with are `value`.
    pub fn begins_as_zero(&self, value: BufferId) -> bool {
        let value = self.program.buffer(value);
        value.len().is(0) || value.constant().is_some_and(is_zero)
    }

    /// The steps that `body` adds run in the first run only.
    ///
    /// # Errors
    /// What `body` returns.
    pub fn at_first(&mut self, body: impl FnOnce(&mut Self) -> Result<(), Diagnostic>) -> Result<(), Diagnostic> {
        let condition = self.program.initialised();
        let before = std::mem::take(&mut self.steps);
        let result = body(self);
        let steps = std::mem::replace(&mut self.steps, before);
        self.push(StepKind::If { condition, then: Block::default(), otherwise: Block { steps } });
        result
    }

    /// The memory of a variable with the dimensions of the value that a run leaves there.
    pub fn resized(&mut self, memory: BufferId, value: BufferId) -> BufferId {
        let dims = self.dims(value);
        self.program.resized(memory, dims)
    }
}
