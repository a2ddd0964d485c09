//! How operations with bodies write their steps: blocks, copies, and run-time sizes.

use super::{Builder, internal};
use crate::diag::Diagnostic;
use crate::dim::{Atom, Dim, Variable};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::program::nest::Const;
use crate::program::{Block, BufferId, Layout, Loop, Program, Role, Step, StepKind};

/// The bodies of an operation with control flow, while it is lowered.
pub trait Bodies {
    /// What is known of the parameters and of the results of a body.
    fn facts(&self, body: usize) -> Option<(Vec<Fact>, Vec<Fact>)>;

    /// The steps of a body whose parameters lie in these buffers, and the buffers of its results.
    fn lower(&mut self, program: &mut Program, body: usize, parameters: &[BufferId]) -> (Vec<Step>, Vec<BufferId>);
}

/// The run-time size that an expression is, if it is nothing else.
pub fn as_variable(dim: &Dim) -> Option<Variable> {
    match dim.parts() {
        ([(product, 1)], 0) => match product.as_slice() {
            [Atom::Variable(variable)] => Some(*variable),
            _ => None,
        },
        _ => None,
    }
}

impl<'a> Builder<'a> {
    /// The same for an operation with bodies; `locals` are the sizes that its inference kept.
    #[must_use]
    pub fn with_bodies(self, locals: &'a [Dim], bodies: &'a mut dyn Bodies) -> Self {
        Builder { locals, bodies: Some(bodies), ..self }
    }

    /// Sizes that inference kept for the operation.
    pub fn locals(&self) -> &[Dim] {
        self.locals
    }

    /// What is known of the parameters and of the results of a body.
    ///
    /// # Errors
    /// An internal error where there is no such body, or it was not inferred.
    pub fn body_facts(&self, body: usize) -> Result<(Vec<Fact>, Vec<Fact>), Diagnostic> {
        let facts = self.bodies.as_ref().and_then(|bodies| bodies.facts(body));
        facts.ok_or_else(|| internal("a body was not inferred"))
    }

    /// The steps of a body whose parameters lie in these buffers, and the buffers of its results.
    ///
    /// # Errors
    /// An internal error for an operation without bodies.
    pub fn body(&mut self, body: usize, parameters: &[BufferId]) -> Result<(Vec<Step>, Vec<BufferId>), Diagnostic> {
        let bodies = self.bodies.as_mut().ok_or_else(|| internal("an operation without bodies lowers one"))?;
        Ok(bodies.lower(self.program, body, parameters))
    }

    /// The steps that `write` appends, for a block of their own.
    ///
    /// # Errors
    /// What `write` returns.
    pub fn inner(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Diagnostic>) -> Result<Vec<Step>, Diagnostic> {
        let outer = std::mem::take(&mut self.steps);
        let result = write(self);
        let inner = std::mem::replace(&mut self.steps, outer);
        result.map(|()| inner)
    }

    /// Appends a loop. `body` appends the steps of one iteration: it gets the number of the iteration, and returns the
    /// carried pairs (value at the end of an iteration, value at the start of the next one).
    ///
    /// # Errors
    /// What `body` returns.
    pub fn repeat(
        &mut self,
        count: &Dim,
        body: impl FnOnce(&mut Self, &Dim) -> Result<Vec<(BufferId, BufferId)>, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let iteration = self.fresh("iteration", 0, count.upper_bound().saturating_sub(1).max(0));
        let mut carried = Vec::new();
        let steps = self.inner(|builder| {
            carried = body(builder, &Dim::variable(iteration))?;
            Ok(())
        })?;
        let count = count.clone();
        self.push(StepKind::Loop(Box::new(Loop { carried, ..Loop::counted(iteration, count, Block { steps }) })));
        Ok(())
    }

    /// Appends steps that are there already.
    pub fn append(&mut self, steps: Vec<Step>) {
        self.steps.extend(steps);
    }

    /// Copies all elements of `from` to the same places of `to`.
    ///
    /// # Errors
    /// Strings.
    pub fn copy(&mut self, from: BufferId, to: BufferId) -> Result<(), Diagnostic> {
        let dims = self.dims(from);
        let mut nest = self.nest(&dims);
        let index = nest.map_axes();
        let value = nest.load(from, &index)?;
        nest.store(to, &index, value);
        Ok(())
    }

    /// Stores zero in all elements.
    ///
    /// # Errors
    /// Strings.
    pub fn clear(&mut self, buffer: BufferId) -> Result<(), Diagnostic> {
        let zero = Const::of(self.scalar_type(buffer)?, 0.0);
        self.map(buffer, |nest, _| Ok(nest.constant(zero)))
    }

    /// The first elements of the memory of `storage`, row-major, under other dimensions.
    pub fn view(&mut self, storage: BufferId, dims: Vec<Dim>) -> BufferId {
        let element = self.element(storage);
        let view = self.program.add_buffer(&self.origin.name, element, dims.clone(), Role::Temporary);
        self.program.buffer_mut(view).layout = Layout::row_major(storage, &dims);
        view
    }

    /// Gives a run-time size that steps find its value; nothing to do for a size that is known otherwise.
    pub fn set_size(&mut self, size: &Dim, value: Dim) {
        if let Some(variable) = as_variable(size)
            && *size != value
        {
            self.push(StepKind::Size { variable, value });
        }
    }

    /// Gives a run-time size the value of the only element of a tensor. A negative one is out of all bounds.
    ///
    /// # Errors
    /// Strings.
    pub fn read_size(&mut self, from: BufferId, size: &Dim) -> Result<(), Diagnostic> {
        let Some(variable) = as_variable(size) else { return Ok(()) };
        let zeros = vec![Dim::constant(0); self.dims(from).len()];
        self.find_sizes(vec![variable], |nest, _| {
            let value = nest.load(from, &zeros)?;
            Ok(nest.cast(ElementType::I64, value))
        })
    }

    /// Demands that two sizes are equal when the model runs.
    pub fn check_equal(&mut self, left: &Dim, right: &Dim) {
        let variable = self.fresh(&format!("difference of {left} and {right}"), 0, 0);
        let value = (left.clone() - right).maximum(&(right.clone() - left));
        self.push(StepKind::Size { variable, value });
    }
}
