//! Calls of runtime functions: run-time sizes and conversions to the element types that functions take.

use super::{Builder, NestBuilder, as_variable, internal};
use crate::diag::Diagnostic;
use crate::dim::{Dim, Variable};
use crate::element::ElementType;
use crate::graph::Read;
use crate::op::operands::unflatten;
use crate::program::nest::{Binary, Const, Node};
use crate::program::{BufferId, Call, StepKind};

impl Builder<'_> {
    /// Calls a function of the runtime. Its results are row-major; `sizes` are those that it finds.
    pub fn call(&mut self, call: Call) {
        self.push(StepKind::Call(call));
    }

    /// A new run-time size between `min` and `max`, for an intermediate.
    pub fn fresh(&mut self, name: &str, min: i64, max: i64) -> Variable {
        self.program.add_size(name, min, max)
    }

    /// Run-time sizes become the elements of an integer tensor.
    ///
    /// # Errors
    /// Strings.
    pub fn read_sizes(&mut self, values: BufferId, sizes: Vec<Variable>) -> Result<(), Diagnostic> {
        let values = self.converted(values, ElementType::I64)?;
        self.call(Call {
            function: crate::function!(read_sizes),
            inputs: vec![values],
            outputs: Vec::new(),
            integers: Vec::new(),
            floats: Vec::new(),
            sizes,
        });
        Ok(())
    }

    /// Run-time sizes become what nests compute: `value` gives the one with this number. A negative one is out of all
    /// bounds.
    ///
    /// # Errors
    /// What `value` returns.
    pub fn find_sizes(
        &mut self,
        sizes: Vec<Variable>,
        mut value: impl FnMut(&mut NestBuilder, usize) -> Result<Node, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let values = self.temporary(ElementType::I64, vec![Dim::from(sizes.len())]);
        for i in 0..sizes.len() {
            let mut nest = self.nest(&[]);
            let value = value(&mut nest, i)?;
            // What fits into every target's `usize`.
            let (zero, most) = (nest.constant(Const::I64(0)), nest.constant(Const::I64(i64::from(i32::MAX))));
            let (negative, value) = (nest.binary(Binary::Lt, value, zero), nest.binary(Binary::Min, value, most));
            let value = nest.select(negative, most, value);
            nest.store(values, &[Dim::from(i)], value);
        }
        self.read_sizes(values, sizes)
    }

    /// Run-time sizes become the elements of an operand.
    ///
    /// # Errors
    /// An internal error where they are no variables.
    pub fn read_operand(&mut self, read: &Read) -> Result<(), Diagnostic> {
        let list = self.input(read.operand)?;
        let sizes: Option<Vec<Variable>> = read.sizes.iter().map(as_variable).collect();
        let sizes = sizes.ok_or_else(|| internal("a size that is read is no variable"))?;
        let dims = self.dims(list);
        self.find_sizes(sizes, |n, i| {
            let value = n.load(list, &unflatten(&Dim::from(i), &dims))?;
            let value = n.cast(ElementType::I64, value);
            let Some(unsaid) = read.unsaid.get(i) else { return Ok(value) };
            let (unsaid, none) = (n.index(unsaid), n.constant(Const::I64(-1)));
            let is_unsaid = n.binary(Binary::Eq, value, none);
            Ok(n.select(is_unsaid, unsaid, value))
        })
    }

    /// The run-time size that dimension `axis` of a result is: one that only the operation itself can find.
    ///
    /// # Errors
    /// An internal error where the dimension is no variable.
    pub fn found(&self, result: BufferId, axis: usize) -> Result<Variable, Diagnostic> {
        let size = self.program.buffer(result).dims.get(axis).and_then(as_variable);
        size.ok_or_else(|| internal("a size that a function finds is no variable"))
    }

    /// Operand or intermediate `from` with elements of type `element`: itself, or a converted copy.
    ///
    /// # Errors
    /// Strings.
    pub fn converted(&mut self, from: BufferId, element: ElementType) -> Result<BufferId, Diagnostic> {
        if self.element(from) == element {
            return Ok(from);
        }
        let to = self.temporary(element, self.dims(from));
        self.convert(from, to)?;
        Ok(to)
    }

    /// A buffer for a result of a function that has elements of type `element`: result `to` itself where it is of this
    /// type, else an intermediate that [`Builder::convert`] takes to it.
    pub fn staged(&mut self, to: BufferId, element: ElementType) -> BufferId {
        if self.element(to) == element { to } else { self.temporary(element, self.dims(to)) }
    }

    /// Converts all elements of `from` to the element type of `to`; nothing to do where they are the same buffer.
    ///
    /// # Errors
    /// Strings.
    pub fn convert(&mut self, from: BufferId, to: BufferId) -> Result<(), Diagnostic> {
        if from == to {
            return Ok(());
        }
        self.map(to, |n, i| n.load(from, i))
    }
}
