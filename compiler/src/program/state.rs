//! What lasts from run to run: state variables, whether they have been initialised, and their run-time sizes.

use super::{Access, BufferId, Layout, Nest, Program, Role, Step, StepKind};
use crate::dim::{Dim, Variable};
use crate::element::ElementType;
use crate::graph::{Graph, Interface, Origin, SizeSource};
use crate::program::nest::{Const, Scalar};
use crate::tensor::Tensor;

/// The state of a program. All of it is zero bits before the first run.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The variables: memory, and name as the user sees it.
    pub variables: Vec<(BufferId, Interface)>,
    /// A boolean scalar that the first run sets; `None` where zeros are all that the first run needs.
    pub initialised: Option<BufferId>,
    /// The run-time sizes among the dimensions of variables.
    pub sizes: Vec<StateSize>,
    /// An i64 vector with the present value of every size.
    pub kept_sizes: Option<BufferId>,
    /// Memory of operations, which users do not see: how far a sequence of random numbers has come.
    pub hidden: Vec<BufferId>,
}

/// A run-time size that one run leaves to the next one.
#[derive(Clone, Debug)]
pub struct StateSize {
    /// Which one.
    pub variable: Variable,
    /// Its value in the first run.
    pub initial: Dim,
    /// Its value after a run.
    pub next: Dim,
}

impl State {
    /// All buffers that last.
    pub fn buffers(&self) -> impl Iterator<Item = BufferId> {
        let variables = self.variables.iter().map(|(buffer, _)| *buffer);
        variables.chain(self.initialised).chain(self.kept_sizes).chain(self.hidden.iter().copied())
    }
}

impl Program {
    /// Adds the state variables of a graph.
    pub fn add_states(&mut self, graph: &Graph) {
        for (i, info) in graph.states.iter().enumerate() {
            let buffer = self.add_buffer(&info.id, info.element, info.dims(), Role::State(i));
            let interface = Interface { name: info.id.clone(), tensor_names: Vec::new(), span: info.origin.span };
            self.state.variables.push((buffer, interface));
        }
        let sizes = graph.variables.iter().filter(|info| info.source == SizeSource::State).map(|info| info.variable);
        self.state.sizes = sizes.filter_map(|variable| size(graph, variable)).collect();
        if !self.state.sizes.is_empty() {
            let dims = vec![Dim::from(self.state.sizes.len())];
            let role = Role::State(self.state.variables.len());
            self.state.kept_sizes = Some(self.add_buffer("sizes", ElementType::I64, dims, role));
            self.initialised();
        }
    }

    /// The flag that tells the first run from the others.
    pub fn initialised(&mut self) -> BufferId {
        if let Some(buffer) = self.state.initialised {
            return buffer;
        }
        let role = Role::State(self.state.variables.len() + 1);
        let buffer = self.add_buffer("initialised", ElementType::Boolean, Vec::new(), role);
        self.state.initialised = Some(buffer);
        buffer
    }

    /// Adds memory that is zero before the first run and that users do not see.
    pub fn add_hidden_state(&mut self, name: &str, element: ElementType, dims: Vec<Dim>) -> BufferId {
        let role = Role::State(self.state.variables.len() + 2 + self.state.hidden.len());
        let buffer = self.add_buffer(name, element, dims, role);
        self.state.hidden.push(buffer);
        buffer
    }

    /// What a run does last: keeps the sizes that it leaves behind, and that there was a run.
    pub fn keep_state(&mut self) {
        if let Some(buffer) = self.state.kept_sizes {
            for (i, size) in self.state.sizes.clone().iter().enumerate() {
                self.keep(buffer, vec![Dim::from(i)], Scalar::Index(size.next.clone()));
            }
        }
        if let Some(buffer) = self.state.initialised {
            self.keep(buffer, Vec::new(), Scalar::Const(Const::Bool(true)));
        }
    }

    fn keep(&mut self, buffer: BufferId, index: Vec<Dim>, value: Scalar) {
        let nest = Nest {
            axes: Vec::new(),
            maps: 0,
            nodes: vec![value],
            reduction: None,
            result: 0,
            store: Access { buffer, index },
        };
        let origin = Origin { name: "state".to_owned(), kind: "Assign".to_owned(), span: None };
        self.root.steps.push(Step { kind: StepKind::Nest(nest), origins: vec![origin] });
    }

    /// The memory of a variable with other dimensions: those that a run leaves behind.
    pub fn resized(&mut self, memory: BufferId, dims: Vec<Dim>) -> BufferId {
        let buffer = self.buffer(memory).clone();
        if buffer.dims == dims {
            return memory;
        }
        let view = self.add_buffer(&buffer.name, buffer.element, dims.clone(), buffer.role);
        self.buffer_mut(view).layout = Layout::row_major(buffer.layout.storage, &dims);
        view
    }
}

/// The first dimension of a variable that is this size says how it begins and goes on; the others do the same.
fn size(graph: &Graph, variable: Variable) -> Option<StateSize> {
    let found = graph.states.iter().find_map(|state| {
        let axis = state.sizes.iter().position(|size| *size == Some(variable))?;
        Some((state, axis))
    });
    let (state, axis) = found?;
    let initial = state.initial.get(axis)?.clone();
    let next = state.next.as_ref().and_then(|dims| dims.get(axis)).cloned().unwrap_or(Dim::variable(variable));
    Some(StateSize { variable, initial, next })
}

/// Whether all bytes of a tensor are zero.
pub fn is_zero(tensor: &Tensor) -> bool {
    tensor.bytes.as_slice().iter().all(|byte| *byte == 0)
}
