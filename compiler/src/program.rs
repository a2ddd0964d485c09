//! The loop program: buffers and steps. Every operation is a list of loop nests over scalar expressions, its definition.
//!
//! Nests name elements by logical index, in the dimensions of the IR. Where an element lies is the business of the
//! buffer's [`Layout`] alone, so a pass that changes a layout changes no nest. A step for which a kernel was selected
//! keeps its nest: interpreting the nest is what the kernel is tested against.

pub mod attention;
pub mod bands;
pub mod builder;
pub mod edit;
pub mod interpret;
pub mod kernel;
pub mod nest;
mod print;
pub mod recognise;
mod rename;
pub mod reshape;
pub mod rows;
mod shape;
pub mod state;
pub mod symbolic;
mod verify;

pub use attention::Attention;
pub use bands::Chain;
pub use kernel::Kernel;
pub use nest::{Access, Axis, Bound, Nest, Reduction};
pub use rows::Rows;
pub use shape::{Shape, shape_of};
pub use verify::{scalar_types, verify};

use crate::dim::{Dim, Variable, product};
use crate::element::ElementType;
use crate::graph::{Interface, Origin, SizeSource, VariableInfo};
use crate::tensor::Tensor;
use include_ir_runtime::calls;

/// A buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

/// What a buffer is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Role {
    /// Lives in the arena between the step that writes it and the last one that reads it.
    Temporary,
    /// Belongs to the caller: model input with this number.
    Input(usize),
    /// Lives in the arena until the next run: model output with this number.
    Output(usize),
    /// Lies in the weights.
    Constant(Tensor),
    /// Survives from run to run: state variable with this number.
    State(usize),
    /// Working memory of one kernel.
    Scratch,
}

/// Where the elements of a buffer lie: `offset + sum(index[i] * strides[i])` elements into the storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The buffer that owns the memory: the buffer itself, or the one into which this is a view.
    pub storage: BufferId,
    /// First element, counted in elements of the storage.
    pub offset: Dim,
    /// Distance of neighbours along each logical dimension, in elements.
    pub strides: Vec<Dim>,
}

/// A tensor in memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Element type as stored.
    pub element: ElementType,
    /// Logical dimensions, as in the IR.
    pub dims: Vec<Dim>,
    /// What it is for.
    pub role: Role,
    /// Where its elements lie.
    pub layout: Layout,
    /// A readable name.
    pub name: String,
    /// Elements that memory is needed for, where that is not all of them: a chain keeps a few lines only.
    pub kept: Option<usize>,
}

/// One unit of work.
#[derive(Clone, Debug)]
pub struct Step {
    /// The work.
    pub kind: StepKind,
    /// The layers it computes; the first one gives the generated function its name.
    pub origins: Vec<Origin>,
}

/// The kinds of work.
#[derive(Clone, Debug)]
pub enum StepKind {
    /// A loop nest, emitted as loops.
    Nest(Nest),
    /// A loop nest that a kernel of the runtime computes.
    Kernel(Box<Kernel>),
    /// Kernels that run in turn, a few lines at a time.
    Chain(Chain),
    /// Products, their softmax, and the sums that it weighs, a few rows at a time.
    Attention(Box<Attention>),
    /// Nests that run in turn, row by row.
    Rows(Rows),
    /// `to` holds the elements of `from` in the same row-major order under other dimensions.
    Reshape {
        /// Source.
        from: BufferId,
        /// Destination.
        to: BufferId,
    },
    /// A runtime function that is no loop nest (sort, non-maximum suppression, ...).
    Call(Call),
    /// One of two blocks runs.
    If {
        /// A boolean scalar.
        condition: BufferId,
        /// Runs where it is true.
        then: Block,
        /// Runs where it is false.
        otherwise: Block,
    },
    /// A block runs again and again.
    Loop(Box<Loop>),
    /// A run-time size gets its value. A value out of its bounds is an error of the run.
    Size {
        /// The size.
        variable: Variable,
        /// Its value.
        value: Dim,
    },
}

impl StepKind {
    /// What computes the step: a kernel, loops, a function.
    pub fn name(&self) -> &'static str {
        match self {
            StepKind::Kernel(kernel) => kernel.kind.name(),
            kind => kind.definition(),
        }
    }

    /// The same where kernels are not used.
    pub fn definition(&self) -> &'static str {
        match self {
            StepKind::Nest(_) | StepKind::Kernel(_) => "nest",
            StepKind::Chain(_) => "chain",
            StepKind::Attention(_) => "attention",
            StepKind::Rows(_) => "rows",
            StepKind::Reshape { .. } => "copy",
            StepKind::Call(call) => call.function.name,
            StepKind::If { .. } => "if",
            StepKind::Loop(_) => "loop",
            StepKind::Size { .. } => "size",
        }
    }
}

/// A counted or conditional loop with carried values.
///
/// Before an iteration the condition is looked at and `iteration` gets its number; behind it all carried values and sizes
/// change at once. Steps of the body read carried values at the start of the iteration and never write them.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The number of the iteration, for index expressions of the body.
    pub iteration: Variable,
    /// Largest number of iterations.
    pub count: Dim,
    /// A boolean scalar that ends the loop where it is false; usually carried.
    pub condition: Option<BufferId>,
    /// The size that gets the number of iterations that ran. `None`: it is `count`.
    pub ran: Option<Variable>,
    /// A condition that still holds after `count` iterations is an error of the run: `ran` gets a value out of its bounds.
    pub assumed: bool,
    /// (value at the end of an iteration, value at the start of the next one): tensors of the same dimensions.
    pub carried: Vec<(BufferId, BufferId)>,
    /// Sizes and their values in the next iteration.
    pub sizes: Vec<(Variable, Dim)>,
    /// The steps of one iteration.
    pub body: Block,
}

impl Loop {
    /// A loop that runs `count` times and carries nothing.
    pub fn counted(iteration: Variable, count: Dim, body: Block) -> Self {
        let (carried, sizes) = (Vec::new(), Vec::new());
        Loop { iteration, count, condition: None, ran: None, assumed: false, carried, sizes, body }
    }
}

/// A function that is no loop nest, of the runtime or of the user.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name in the runtime's module `calls`, or the path of the user's function in the crate that includes the generated
    /// code: `crate::filters::median`.
    pub name: &'static str,
    /// The function itself: the interpreter calls what generated code calls.
    pub run: calls::Function,
}

/// The function of this name in the runtime's module `calls`.
#[macro_export]
macro_rules! function {
    ($name:ident) => {
        $crate::program::Function { name: stringify!($name), run: ::include_ir_runtime::calls::$name }
    };
}

/// A call of a runtime function. Its tensors are row-major, of the element types f32, f64, i32, i64, u8 or boolean.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called.
    pub function: Function,
    /// Tensors it reads.
    pub inputs: Vec<BufferId>,
    /// Tensors it writes, working memory last.
    pub outputs: Vec<BufferId>,
    /// Attributes that are integers, and sizes, in the order that the function documents.
    pub integers: Vec<Dim>,
    /// Attributes that are numbers, in the order that the function documents.
    pub floats: Vec<f32>,
    /// Run-time sizes that the function finds.
    pub sizes: Vec<Variable>,
}

/// Steps in execution order.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The steps.
    pub steps: Vec<Step>,
}

/// A whole model as loops.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All buffers; those no step names are dead.
    pub buffers: Vec<Buffer>,
    /// The steps.
    pub root: Block,
    /// Run-time sizes.
    pub variables: Vec<VariableInfo>,
    /// Pairs of sizes that a run must find equal.
    pub checks: Vec<(Dim, Dim)>,
    /// Inputs: buffer and how the user sees it.
    pub inputs: Vec<(BufferId, Interface)>,
    /// Outputs: buffer and how the user sees it.
    pub outputs: Vec<(BufferId, Interface)>,
    /// What lasts from run to run.
    pub state: state::State,
    /// Name of the model.
    pub name: String,
}

impl Layout {
    /// Own memory, row-major.
    pub fn row_major(buffer: BufferId, dims: &[Dim]) -> Self {
        let order: Vec<usize> = (0..dims.len()).collect();
        Layout::ordered(buffer, dims, &order)
    }

    /// Own memory without gaps; `order` lists the logical dimensions from the slowest to the fastest.
    pub fn ordered(buffer: BufferId, dims: &[Dim], order: &[usize]) -> Self {
        let mut strides = vec![Dim::constant(1); dims.len()];
        let mut stride = Dim::constant(1);
        for axis in order.iter().rev() {
            strides[*axis] = stride.clone();
            stride = stride * &dims[*axis];
        }
        Layout { storage: buffer, offset: Dim::constant(0), strides }
    }
}

impl Buffer {
    /// Number of elements.
    pub fn len(&self) -> Dim {
        product(&self.dims)
    }

    /// From the first element to behind the last one: more than there are, where they lie apart. `None` if a size is not known.
    pub fn reach(&self) -> Option<usize> {
        let mut each = self.dims.iter().zip(&self.layout.strides);
        each.try_fold(1usize, |reach, (dim, stride)| {
            reach.checked_add(dim.as_usize()?.checked_sub(1)?.checked_mul(stride.as_usize()?)?)
        })
    }

    /// The constant elements.
    pub fn constant(&self) -> Option<&Tensor> {
        match &self.role {
            Role::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl Program {
    /// Adds a row-major buffer with its own memory.
    pub fn add_buffer(&mut self, name: &str, element: ElementType, dims: Vec<Dim>, role: Role) -> BufferId {
        let id = BufferId(self.buffers.len() as u32);
        let layout = Layout::row_major(id, &dims);
        self.buffers.push(Buffer { element, dims, role, layout, name: name.to_owned(), kept: None });
        id
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: &str, tensor: Tensor) -> BufferId {
        let dims = tensor.dims.iter().map(|d| Dim::from(*d)).collect();
        self.add_buffer(name, tensor.element, dims, Role::Constant(tensor))
    }

    /// Adds a run-time size that steps find.
    pub fn add_size(&mut self, name: &str, min: i64, max: i64) -> Variable {
        let variable = Variable::new(self.variables.len() as u32, min, max);
        self.variables.push(VariableInfo { variable, name: name.to_owned(), source: SizeSource::Step });
        variable
    }

    /// The buffer with this number.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// The buffer with this number, to change.
    pub fn buffer_mut(&mut self, id: BufferId) -> &mut Buffer {
        &mut self.buffers[id.0 as usize]
    }

    /// By buffer, whether its layout is final: functions and control flow take tensors as they are.
    pub fn fixed_layouts(&self) -> Vec<bool> {
        let mut fixed = vec![false; self.buffers.len()];
        let mut blocks = vec![&self.root];
        while let Some(block) = blocks.pop() {
            for step in &block.steps {
                let mut fix = |buffer: &BufferId| fixed[buffer.0 as usize] = true;
                match &step.kind {
                    StepKind::Nest(_)
                    | StepKind::Kernel(_)
                    | StepKind::Chain(_)
                    | StepKind::Attention(_)
                    | StepKind::Rows(_)
                    | StepKind::Reshape { .. }
                    | StepKind::Size { .. } => {}
                    StepKind::Call(call) => call.inputs.iter().chain(&call.outputs).for_each(fix),
                    StepKind::If { condition, then, otherwise } => {
                        fix(condition);
                        blocks.extend([then, otherwise]);
                    }
                    StepKind::Loop(step) => {
                        let carried = step.carried.iter().flat_map(|(end, start)| [end, start]);
                        carried.chain(&step.condition).for_each(fix);
                        blocks.push(&step.body);
                    }
                }
            }
        }
        fixed
    }

    /// Physical element index of a logical one, relative to the start of the storage.
    pub fn address(&self, id: BufferId, index: &[Dim]) -> Dim {
        let layout = &self.buffer(id).layout;
        index.iter().zip(&layout.strides).fold(layout.offset.clone(), |sum, (i, stride)| sum + &(i.clone() * stride))
    }
}

impl Step {
    /// Buffers that the step reads and buffers that it writes, inner blocks included.
    pub fn accesses(&self) -> (Vec<BufferId>, Vec<BufferId>) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let mut pending = vec![self];
        while let Some(step) = pending.pop() {
            let (more_reads, more_writes) = step.own_accesses();
            reads.extend(more_reads);
            writes.extend(more_writes);
            pending.extend(step.blocks().into_iter().flat_map(|block| &block.steps));
        }
        for list in [&mut reads, &mut writes] {
            list.sort();
            list.dedup();
        }
        (reads, writes)
    }

    /// The same without inner blocks: of a branch or a loop, what it does itself between them.
    pub fn own_accesses(&self) -> (Vec<BufferId>, Vec<BufferId>) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        match &self.kind {
            StepKind::Nest(nest) => nest.accesses(&mut reads, &mut writes),
            StepKind::Kernel(kernel) => kernel.accesses(&mut reads, &mut writes),
            StepKind::Chain(chain) => chain.accesses(&mut reads, &mut writes),
            StepKind::Attention(attention) => attention.accesses(&mut reads, &mut writes),
            StepKind::Rows(rows) => rows.accesses(&mut reads, &mut writes),
            StepKind::Reshape { from, to } => {
                reads.push(*from);
                writes.push(*to);
            }
            StepKind::Call(call) => {
                reads.extend(&call.inputs);
                writes.extend(&call.outputs);
            }
            StepKind::Size { .. } => {}
            StepKind::If { condition, .. } => reads.push(*condition),
            StepKind::Loop(step) => {
                reads.extend(&step.condition);
                for (end, start) in &step.carried {
                    reads.push(*end);
                    writes.push(*start);
                }
            }
        }
        for list in [&mut reads, &mut writes] {
            list.sort();
            list.dedup();
        }
        (reads, writes)
    }

    /// Run-time sizes that the step sets, inner blocks included.
    pub fn sets(&self) -> Vec<Variable> {
        let mut sizes = Vec::new();
        let mut pending = vec![self];
        while let Some(step) = pending.pop() {
            match &step.kind {
                StepKind::Size { variable, .. } => sizes.push(*variable),
                StepKind::Call(call) => sizes.extend(&call.sizes),
                StepKind::Loop(step) => {
                    sizes.extend(step.sizes.iter().map(|(variable, _)| *variable));
                    sizes.extend(step.ran.iter().chain([&step.iteration]));
                }
                _ => {}
            }
            pending.extend(step.blocks().into_iter().flat_map(|block| &block.steps));
        }
        sizes
    }

    /// The blocks in the step.
    pub fn blocks(&self) -> Vec<&Block> {
        match &self.kind {
            StepKind::If { then, otherwise, .. } => vec![then, otherwise],
            StepKind::Loop(step) => vec![&step.body],
            _ => Vec::new(),
        }
    }

    /// The blocks in the step, to change.
    pub fn blocks_mut(&mut self) -> Vec<&mut Block> {
        match &mut self.kind {
            StepKind::If { then, otherwise, .. } => vec![then, otherwise],
            StepKind::Loop(step) => vec![&mut step.body],
            _ => Vec::new(),
        }
    }
}
