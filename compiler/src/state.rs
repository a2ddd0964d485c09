//! State variables: what ReadValue and Assign say of them, and which of their sizes change from run to run.
//!
//! Inference begins with the sizes of the first run and goes on until nothing new is found: a size that runs leave as it
//! was stays a constant, and sizes that begin alike and change alike are one run-time size (keys and values of a cache).

use crate::diag::{Diagnostic, codes, quote};
use crate::dim::{Dim, Variable};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::graph::{Graph, Origin, SizeSource, VariableInfo};
use crate::op::InferContext;
use crate::options::{Bound, Options};
use crate::read::DimRange;
use std::collections::BTreeMap;

/// A state variable: a tensor that lasts from run to run.
#[derive(Clone, Debug)]
pub struct StateInfo {
    /// The `variable_id` of the IR.
    pub id: String,
    /// Element type.
    pub element: ElementType,
    /// The sizes that the IR allows.
    pub declared: Vec<DimRange>,
    /// Dimensions at the start of the first run.
    pub initial: Vec<Dim>,
    /// The run-time sizes that replace what the first run begins with.
    pub sizes: Vec<Option<Variable>>,
    /// Dimensions that a run leaves behind; `None` where nothing is assigned.
    pub next: Option<Vec<Dim>>,
    /// The layer that reads it.
    pub origin: Origin,
}

/// What an operation asks for when it reads a variable.
#[derive(Clone, Debug)]
pub struct StateRequest<'a> {
    /// The `variable_id` of the IR.
    pub id: &'a str,
    /// Element type.
    pub element: ElementType,
    /// The sizes that the IR allows.
    pub declared: &'a [DimRange],
    /// Dimensions of the initial value.
    pub initial: Vec<Dim>,
}

impl StateInfo {
    /// Dimensions at the start of a run.
    pub fn dims(&self) -> Vec<Dim> {
        self.initial.iter().zip(&self.sizes).map(|(dim, size)| size.map_or(dim.clone(), Dim::variable)).collect()
    }
}

impl InferContext<'_> {
    /// The variable with this id as a run finds it.
    ///
    /// # Errors
    /// Another layer reads it with another type or shape.
    pub fn read_state(&mut self, request: StateRequest) -> Result<Fact, Diagnostic> {
        let known = self.states.iter_mut().find(|state| state.id == request.id);
        let state = match known {
            Some(state) if state.element == request.element && state.declared == request.declared => state,
            Some(_) => {
                let message = format!("variable {} is read with different types or shapes", quote(request.id));
                return Err(Diagnostic::error(&codes::STATE, message));
            }
            None => {
                self.states.push(StateInfo {
                    id: request.id.to_owned(),
                    element: request.element,
                    declared: request.declared.to_vec(),
                    initial: Vec::new(),
                    sizes: vec![None; request.declared.len()],
                    next: None,
                    origin: Origin::default(),
                });
                let last = self.states.len() - 1;
                &mut self.states[last]
            }
        };
        state.initial = request.initial;
        Ok(Fact::new(state.element, state.dims()))
    }

    /// Notes what a run leaves in the variable with this id.
    ///
    /// # Errors
    /// No layer reads the variable, or the value does not fit it.
    pub fn assign_state(&mut self, id: &str, value: &Fact) -> Result<(), Diagnostic> {
        let Some(at) = self.states.iter().position(|state| state.id == id) else {
            let message = format!("variable {} is assigned before anything reads it", quote(id));
            return Err(Diagnostic::error(&codes::STATE, message));
        };
        let state = self.states[at].clone();
        if state.element != value.element {
            let message = format!("variable {} is {}, the value is {}", quote(id), state.element, value.element);
            return Err(Diagnostic::error(&codes::STATE, message));
        }
        let fits = |(range, dim): (&DimRange, &Dim)| match range.fixed() {
            Some(size) => self.require_equal(&Dim::from(usize::try_from(size).unwrap_or(usize::MAX)), dim),
            None => true,
        };
        let same_rank = state.declared.len() == value.dims.len();
        if !same_rank || !state.declared.iter().zip(&value.dims).all(fits) {
            let shape: Vec<String> = state.declared.iter().map(show).collect();
            let message = format!("variable {} of shape [{}] cannot hold {value}", quote(id), shape.join(", "));
            return Err(Diagnostic::error(&codes::STATE, message)
                .help("a size that changes is `?` in the attribute `variable_shape` of the ReadValue"));
        }
        self.states[at].next = Some(value.dims.clone());
        Ok(())
    }
}

fn show(range: &DimRange) -> String {
    match (range.fixed(), range.min, range.max) {
        (Some(size), ..) => size.to_string(),
        (None, 0, None) => "?".to_owned(),
        (None, min, max) => format!("{min}..{}", max.map_or(String::new(), |max| max.to_string())),
    }
}

/// One dimension of one variable.
#[derive(Clone, Copy, Debug)]
struct Slot {
    state: usize,
    axis: usize,
}

/// Slots by what is known of their sizes.
type Alike = BTreeMap<Option<Dim>, Vec<Slot>>;

/// Compares what the last run of inference assumed of the variables' sizes with what it found; whether assumptions
/// changed and inference has to run again. `known` is the number of run-time sizes that do not come from inference.
///
/// # Errors
/// A size that changes and has no bound.
pub fn settle(graph: &mut Graph, known: usize, all: bool, options: &Options) -> Result<bool, Diagnostic> {
    // Sizes that were assumed equal, by what a run makes of them.
    let mut groups: BTreeMap<(Option<Variable>, Dim), Alike> = BTreeMap::new();
    for (state, info) in graph.states.iter().enumerate() {
        let open = (0..info.declared.len()).filter(|axis| info.declared[*axis].fixed().is_none());
        for axis in open {
            let (size, initial) = (info.sizes[axis], info.initial[axis].clone());
            let now = size.map_or(initial.clone(), Dim::variable);
            // Where inference failed, nothing is known of what was not reached.
            let next = info.next.as_ref().map(|dims| dims[axis].clone()).or_else(|| all.then_some(now));
            groups.entry((size, initial)).or_default().entry(next).or_default().push(Slot { state, axis });
        }
    }
    let before = graph.states.iter().flat_map(|state| state.sizes.iter().flatten()).map(|v| v.id as usize + 1);
    let mut end = before.max().unwrap_or(known);
    let mut new = Vec::new();
    for ((size, initial), parts) in groups {
        for (i, (next, slots)) in parts.into_iter().enumerate() {
            let stays = match size {
                Some(_) => i == 0,
                None => initial.as_const().is_some() && next.as_ref() == Some(&initial),
            };
            if !stays {
                new.push((bounded(graph, &slots, end, options)?, slots));
                end += 1;
            }
        }
    }
    if new.is_empty() {
        return Ok(false);
    }
    graph.variables.truncate(end - new.len());
    for (info, slots) in new {
        for slot in slots {
            graph.states[slot.state].sizes[slot.axis] = Some(info.variable);
        }
        graph.variables.push(info);
    }
    Ok(true)
}

/// A new run-time size for some dimensions, with the smallest of their bounds.
fn bounded(graph: &Graph, slots: &[Slot], id: usize, options: &Options) -> Result<VariableInfo, Diagnostic> {
    let name = |slot: &Slot| format!("{}_{}", graph.states[slot.state].id, slot.axis);
    let declared =
        |slot: &Slot| graph.states[slot.state].declared[slot.axis].max.and_then(|max| i64::try_from(max).ok());
    let given = |slot: &Slot| Bound::of(&options.bound, &name(slot));
    let max = slots.iter().filter_map(|slot| given(slot).or(declared(slot))).min().or(Bound::of_others(&options.bound));
    let Some(first) = slots.first() else { return Err(Diagnostic::internal("a size of no variable")) };
    let Some(max) = max else {
        let state = &graph.states[first.state];
        let message = format!("dimension {} of variable {} has no upper bound", first.axis, quote(&state.id));
        let mut diagnostic = Diagnostic::error(&codes::UNBOUNDED, message)
            .note("a run leaves it with another size than it finds, and memory is sized when the model is compiled")
            .help(format!("give a bound, like `--bound {}=1024`", name(first)));
        if let Some(span) = state.origin.span {
            diagnostic = diagnostic.at(span);
        }
        return Err(match slots.len() {
            1 => diagnostic,
            count => diagnostic.note(format!("it is the size of {} more dimensions of variables", count - 1)),
        });
    };
    let variable = Variable::new(id as u32, 0, max);
    Ok(VariableInfo { variable, name: name(first), source: SizeSource::State })
}
