//! The interpreter: what a program means. It folds constants, and it is the oracle of every kernel and emitted program.
//!
//! Nests run in blocks along one axis, so that even an unoptimised build of the compiler folds large constants in
//! reasonable time. Arithmetic is that of `include_ir_runtime::{math, cast}`, the same functions generated code calls;
//! sums of f32 are accumulated in f64. No host property (FMA, vector width, thread count) influences a result.

pub(crate) mod address;
mod call;
mod elements;
mod lanes;
mod nests;
mod scalar;
mod state;

use super::{Block, Buffer, BufferId, Loop, Program, Role, StepKind};
use crate::dim::{Atom, Dim, Variable};
use crate::graph::SizeSource;
use crate::tensor::{Bytes, Tensor};

/// The memory of a running program: one byte vector per storage.
pub struct Interpreter<'p> {
    program: &'p Program,
    variables: Vec<i64>,
    storages: Vec<Storage>,
    refused: bool,
}

/// Bytes of one storage.
enum Storage {
    Absent,
    Constant(Bytes),
    Owned(Vec<u8>),
}

impl Storage {
    fn bytes(&self) -> &[u8] {
        match self {
            Storage::Absent => &[],
            Storage::Constant(bytes) => bytes.as_slice(),
            Storage::Owned(bytes) => bytes,
        }
    }
}

/// Runs a program on the given inputs and returns its outputs in row-major order.
///
/// # Errors
/// Inputs that do not fit the program, and whatever shows a bug of the compiler (an index out of range).
pub fn interpret(program: &Program, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    Interpreter::new(program)?.run(inputs)
}

impl<'p> Interpreter<'p> {
    /// A program that has not run: its state is all zeros.
    ///
    /// # Errors
    /// State that does not fit memory.
    pub fn new(program: &'p Program) -> Result<Self, String> {
        let mut storages: Vec<Storage> = program.buffers.iter().map(|_| Storage::Absent).collect();
        for (i, buffer) in program.buffers.iter().enumerate() {
            if let Role::Constant(tensor) = &buffer.role {
                storages[i] = Storage::Constant(tensor.bytes.clone());
            }
        }
        let mut interpreter = Interpreter { program, variables: Vec::new(), storages, refused: false };
        for buffer in program.state.buffers() {
            let bytes = interpreter.take(buffer)?;
            interpreter.put_back(buffer, bytes);
        }
        Ok(interpreter)
    }

    /// Binds the inputs and the run-time sizes that follow from them and from the state.
    fn bind(&mut self, inputs: &[Tensor]) -> Result<(), String> {
        if inputs.len() != self.program.inputs.len() {
            return Err(format!("the model has {} inputs, not {}", self.program.inputs.len(), inputs.len()));
        }
        self.variables = bind_variables(self.program, inputs)?;
        self.bind_state()?;
        for ((buffer, interface), tensor) in self.program.inputs.iter().zip(inputs) {
            let expected = self.program.buffer(*buffer);
            let dims: Vec<i64> = expected.dims.iter().map(|d| self.size(d)).collect();
            let given: Vec<i64> = tensor.dims.iter().map(|d| *d as i64).collect();
            if tensor.element != expected.element || dims != given {
                let (want, got) = (expected.element, tensor.element);
                return Err(format!("input `{}` is {got}{given:?}, the model wants {want}{dims:?}", interface.name));
            }
            self.storages[buffer.0 as usize] = Storage::Constant(tensor.bytes.clone());
        }
        Ok(())
    }

    /// Runs all steps and returns the outputs. State lasts until the next run.
    ///
    /// # Errors
    /// Inputs that do not fit the program, and what shows a bug of the compiler.
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
        self.refused = false;
        self.bind(inputs)?;
        let program = self.program;
        let ran = self.block(&program.root);
        // Sizes that do not fit together are the reason of whatever else went wrong.
        if !self.refused {
            self.check_sizes()?;
        }
        ran?;
        program.outputs.iter().map(|(buffer, _)| self.tensor(*buffer)).collect()
    }

    /// Whether the last run failed because of the sizes of its data: generated code returns an error too.
    pub fn refused(&self) -> bool {
        self.refused
    }

    fn check_sizes(&mut self) -> Result<(), String> {
        match self.program.checks.iter().find(|(left, right)| self.size(left) != self.size(right)) {
            Some((left, right)) => {
                self.refused = true;
                Err(format!("{left} = {right} does not hold: {} and {}", self.size(left), self.size(right)))
            }
            None => Ok(()),
        }
    }

    /// The present elements of a buffer in row-major order.
    ///
    /// # Errors
    /// A size that does not fit memory, or an element outside its storage.
    pub fn tensor(&self, id: BufferId) -> Result<Tensor, String> {
        let buffer = self.program.buffer(id);
        let dims: Vec<usize> = buffer.dims.iter().map(|d| self.extent(d)).collect::<Result<_, _>>()?;
        let bytes = elements::gather(
            self.storage(id),
            buffer.element,
            &dims,
            self.strides(buffer),
            self.size(&buffer.layout.offset),
        )?;
        Tensor::new(buffer.element, dims, bytes.into()).ok_or_else(|| "a tensor does not fit memory".to_owned())
    }

    fn strides(&self, buffer: &Buffer) -> Vec<i64> {
        buffer.layout.strides.iter().map(|s| self.size(s)).collect()
    }

    fn storage(&self, id: BufferId) -> &[u8] {
        let storage = self.program.buffer(id).layout.storage;
        self.storages.get(storage.0 as usize).map_or(&[], Storage::bytes)
    }

    /// The bytes of the storage of `id`, taken out to be written; see [`Interpreter::put_back`].
    fn take(&mut self, id: BufferId) -> Result<Vec<u8>, String> {
        let storage = self.program.buffer(id).layout.storage;
        let owner = self.program.buffer(storage);
        let count = match owner.role {
            Role::State(_) => usize::try_from(owner.len().upper_bound()).map_err(|_| "a variable has no bound")?,
            // Steps may find another size while elements are there already.
            _ if self.is_found(&owner.len()) => {
                usize::try_from(owner.len().upper_bound()).map_err(|_| "a size has no bound")?
            }
            // Pixels may lie apart; chains keep all lines here.
            _ => self.extent(&owner.len())?.max(owner.reach().unwrap_or(0)),
        };
        let size = owner.element.storage_bytes(count).ok_or("a buffer does not fit memory")?;
        let slot = self.storages.get_mut(storage.0 as usize).ok_or("a buffer does not exist")?;
        match std::mem::replace(slot, Storage::Absent) {
            Storage::Owned(mut bytes) => {
                bytes.resize(size, 0);
                Ok(bytes)
            }
            Storage::Absent => Ok(vec![0; size]),
            Storage::Constant(_) => Err("a step writes into a constant or an input".to_owned()),
        }
    }

    /// Whether a size depends on one that steps find.
    fn is_found(&self, size: &Dim) -> bool {
        let mut found = false;
        size.for_each_atom(&mut |atom| {
            let info = match atom {
                Atom::Variable(variable) => self.program.variables.get(variable.id as usize),
                _ => None,
            };
            found |= info.is_some_and(|info| info.source == SizeSource::Step);
        });
        found
    }

    fn put_back(&mut self, id: BufferId, bytes: Vec<u8>) {
        let storage = self.program.buffer(id).layout.storage;
        if let Some(slot) = self.storages.get_mut(storage.0 as usize) {
            *slot = Storage::Owned(bytes);
        }
    }

    /// Value of a size under the present run-time variables.
    fn size(&self, dim: &Dim) -> i64 {
        dim.as_const().unwrap_or_else(|| dim.evaluate(&|atom| self.variable(atom)))
    }

    fn variable(&self, atom: &Atom) -> i64 {
        match atom {
            Atom::Variable(variable) => self.variables.get(variable.id as usize).copied().unwrap_or(0),
            _ => 0,
        }
    }

    fn extent(&self, dim: &Dim) -> Result<usize, String> {
        usize::try_from(self.size(dim)).map_err(|_| format!("the size {dim} is negative"))
    }

    fn block(&mut self, block: &'p Block) -> Result<(), String> {
        for step in &block.steps {
            match &step.kind {
                StepKind::Nest(nest) => self.nest(nest)?,
                StepKind::Kernel(kernel) => self.nest(&kernel.nest)?,
                StepKind::Chain(chain) => {
                    chain.stages.iter().try_for_each(|stage| self.nest(&stage.kernel.nest))?;
                }
                StepKind::Attention(attention) => attention.nests().try_for_each(|nest| self.nest(nest))?,
                StepKind::Rows(rows) => rows.nests.iter().try_for_each(|nest| self.nest(nest))?,
                StepKind::Reshape { from, to } => self.reshape(*from, *to)?,
                StepKind::Call(call) => self.call(call)?,
                StepKind::If { condition, then, otherwise } => {
                    let taken = if self.flag(*condition)? { then } else { otherwise };
                    self.block(taken)?;
                }
                StepKind::Size { variable, value } => self.find_size(*variable, self.size(value))?,
                StepKind::Loop(step) => self.repeat(step)?,
            }
        }
        Ok(())
    }

    fn flag(&self, id: BufferId) -> Result<bool, String> {
        Ok(self.tensor(id)?.to_i64s().and_then(|v| v.first().copied()).unwrap_or(0) != 0)
    }

    fn repeat(&mut self, step: &'p Loop) -> Result<(), String> {
        let count = self.size(&step.count);
        let mut ran = 0;
        while step.condition.map_or(Ok(true), |condition| self.flag(condition))? {
            if ran >= count {
                ran += i64::from(step.assumed);
                break;
            }
            self.find_size(step.iteration, ran)?;
            self.block(&step.body)?;
            let ends: Vec<Tensor> = step.carried.iter().map(|(end, _)| self.tensor(*end)).collect::<Result<_, _>>()?;
            for ((_, start), tensor) in step.carried.iter().zip(&ends) {
                self.write(*start, tensor)?;
            }
            let sizes: Vec<i64> = step.sizes.iter().map(|(_, next)| self.size(next)).collect();
            for ((size, _), value) in step.sizes.iter().zip(sizes) {
                self.find_size(*size, value)?;
            }
            ran += 1;
        }
        step.ran.map_or(Ok(()), |size| self.find_size(size, ran))
    }

    /// A run-time size gets its value.
    fn find_size(&mut self, size: Variable, value: i64) -> Result<(), String> {
        let info = self.program.variables.get(size.id as usize);
        let (Some(info), Some(slot)) = (info, self.variables.get_mut(size.id as usize)) else {
            return Err(format!("the size d{} does not exist", size.id));
        };
        *slot = value;
        if (size.min..=size.max).contains(&value) {
            return Ok(());
        }
        self.refused = true;
        Err(format!("`{}` is {value}, the model was compiled for {} to {}", info.name, size.min, size.max))
    }

    fn reshape(&mut self, from: BufferId, to: BufferId) -> Result<(), String> {
        let tensor = self.tensor(from)?;
        self.write(to, &tensor)
    }

    /// Writes row-major elements into a buffer.
    fn write(&mut self, to: BufferId, tensor: &Tensor) -> Result<(), String> {
        let buffer = self.program.buffer(to);
        let dims: Vec<usize> = buffer.dims.iter().map(|d| self.extent(d)).collect::<Result<_, _>>()?;
        let (strides, offset) = (self.strides(buffer), self.size(&buffer.layout.offset));
        let mut bytes = self.take(to)?;
        let result = elements::scatter(&mut bytes, buffer.element, &dims, strides, offset, tensor.bytes.as_slice());
        self.put_back(to, bytes);
        result
    }
}

/// The value of every run-time variable that is a dimension of an input.
fn bind_variables(program: &Program, inputs: &[Tensor]) -> Result<Vec<i64>, String> {
    let mut variables = vec![0; program.variables.len()];
    for (slot, info) in variables.iter_mut().zip(&program.variables) {
        // One operation on its own, with constant operands, has no inputs.
        let SizeSource::Input(input, axis) = info.source else { continue };
        if program.inputs.is_empty() {
            continue;
        }
        let size = inputs.get(input).and_then(|t| t.dims.get(axis)).ok_or("an input has too few dimensions")?;
        *slot = *size as i64;
        if *slot < info.variable.min || *slot > info.variable.max {
            let (min, max) = (info.variable.min, info.variable.max);
            return Err(format!("dimension `{}` is {size}, the model was compiled for {min} to {max}", info.name));
        }
    }
    Ok(variables)
}
