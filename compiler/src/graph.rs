//! Typed operations in regions: the form that shape inference, folding and simplification work on.
//!
//! A region is a list of nodes in execution order with explicit parameters and results; the bodies of If, Loop and
//! TensorIterator are regions whose captures are parameters. Values are in single-assignment form and carry a [`Fact`].

mod print;
mod verify;

pub use verify::verify;

use crate::diag::Span;
use crate::dim::{Dim, Variable};
use crate::fact::Fact;
use crate::op::Op;
use crate::state::StateInfo;
use std::rc::Rc;

/// A value: one output of a node, or a parameter of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

/// The layer of the IR from which something was made: what diagnostics and comments name.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// Name of the layer, as hostile as the file.
    pub name: String,
    /// Type of the layer.
    pub kind: String,
    /// Where the layer stands in the XML.
    pub span: Option<Span>,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it computes.
    pub op: Rc<dyn Op>,
    /// Operands.
    pub inputs: Vec<ValueId>,
    /// Results; at least one for a pure operation.
    pub outputs: Vec<ValueId>,
    /// Bodies of a control-flow operation.
    pub regions: Vec<RegionId>,
    /// Sizes that inference found for the operation's own use.
    pub locals: Vec<Dim>,
    /// Operands that are read before the operation runs, because their elements are sizes.
    pub reads: Vec<Read>,
    /// The body that runs once in place of the operation, where inference found that out.
    pub inline: Option<Inline>,
    /// Where it came from.
    pub origin: Origin,
}

/// Run-time sizes that are the elements of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Number of the operand.
    pub operand: usize,
    /// One size per element.
    pub sizes: Vec<Dim>,
    /// What an element of -1 stands for, where it stands for something: one size per element.
    pub unsaid: Vec<Dim>,
}

/// One body of an operation that stands for the whole operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inline {
    /// Position among the operation's bodies.
    pub body: usize,
    /// The operand that each parameter of the body is.
    pub operands: Vec<usize>,
    /// The result of the body that each result of the operation is.
    pub results: Vec<usize>,
}

/// A value with what is known of it.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// Type, dimensions, elements; `None` until inferred.
    pub fact: Option<Fact>,
    /// A readable name: that of the layer that produces it.
    pub name: String,
}

/// A list of nodes in execution order.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Values that enter.
    pub parameters: Vec<ValueId>,
    /// Operations in execution order.
    pub nodes: Vec<NodeId>,
    /// Values that leave.
    pub results: Vec<ValueId>,
    /// Pairs of sizes that must be equal whenever the region runs and could not be proved so: checked at run time.
    pub checks: Vec<(Dim, Dim)>,
}

/// An input or output of the model as its user sees it.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// Name of the Parameter or Result layer.
    pub name: String,
    /// Tensor names from the IR; the first one names the field of the generated structure.
    pub tensor_names: Vec<String>,
    /// Where it stands in the XML.
    pub span: Option<Span>,
}

/// A whole model.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// All nodes; those in no region are dead.
    pub nodes: Vec<Node>,
    /// All values.
    pub values: Vec<ValueInfo>,
    /// All regions; the first is the model itself.
    pub regions: Vec<Region>,
    /// Run-time sizes.
    pub variables: Vec<VariableInfo>,
    /// State variables, in the order in which they are read.
    pub states: Vec<StateInfo>,
    /// Inputs, in the order of the root region's parameters.
    pub inputs: Vec<Interface>,
    /// Outputs, in the order of the root region's results.
    pub outputs: Vec<Interface>,
    /// Name of the model.
    pub name: String,
}

/// A run-time size and where its value comes from.
#[derive(Clone, Debug)]
pub struct VariableInfo {
    /// Number and interval.
    pub variable: Variable,
    /// How it is called in generated code, like `x_0` for dimension 0 of input `x`.
    pub name: String,
    /// Where its value comes from.
    pub source: SizeSource,
}

/// What gives a run-time size its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeSource {
    /// The dimension of a model input: number of the input, axis.
    Input(usize, usize),
    /// The state that the last run left behind.
    State,
    /// A step of the run itself.
    Step,
}

/// The region of the model itself.
pub const ROOT: RegionId = RegionId(0);

impl Graph {
    /// An empty model with its root region.
    pub fn new(name: &str) -> Self {
        Graph { regions: vec![Region::default()], name: name.to_owned(), ..Graph::default() }
    }

    /// Adds a value.
    pub fn add_value(&mut self, name: &str, fact: Option<Fact>) -> ValueId {
        self.values.push(ValueInfo { fact, name: name.to_owned() });
        ValueId(self.values.len() as u32 - 1)
    }

    /// Adds a constant. No node defines it, and every region may use it.
    pub fn add_constant(&mut self, name: &str, tensor: crate::tensor::Tensor) -> ValueId {
        self.add_value(name, Some(Fact::constant(tensor)))
    }

    /// Appends a node with `outputs` new values to a region.
    pub fn add_node(
        &mut self,
        region: RegionId,
        op: Rc<dyn Op>,
        inputs: Vec<ValueId>,
        outputs: usize,
        origin: Origin,
    ) -> NodeId {
        let outputs = (0..outputs).map(|_| self.add_value(&origin.name, None)).collect();
        self.nodes.push(Node {
            op,
            inputs,
            outputs,
            regions: Vec::new(),
            locals: Vec::new(),
            reads: Vec::new(),
            inline: None,
            origin,
        });
        let id = NodeId(self.nodes.len() as u32 - 1);
        self.region_mut(region).nodes.push(id);
        id
    }

    /// Adds an empty region.
    pub fn add_region(&mut self) -> RegionId {
        self.regions.push(Region::default());
        RegionId(self.regions.len() as u32 - 1)
    }

    /// The node with this number.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The node with this number, to change.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// The region with this number.
    pub fn region(&self, id: RegionId) -> &Region {
        &self.regions[id.0 as usize]
    }

    /// The region with this number, to change.
    pub fn region_mut(&mut self, id: RegionId) -> &mut Region {
        &mut self.regions[id.0 as usize]
    }

    /// The value with this number.
    pub fn value(&self, id: ValueId) -> &ValueInfo {
        &self.values[id.0 as usize]
    }

    /// What is known of a value, once inferred.
    pub fn fact(&self, id: ValueId) -> Option<&Fact> {
        self.value(id).fact.as_ref()
    }

    /// All regions that are part of the model, outer before inner.
    pub fn live_regions(&self) -> Vec<RegionId> {
        let mut found = vec![ROOT];
        let mut next = 0;
        while let Some(region) = found.get(next).copied() {
            next += 1;
            for node in &self.region(region).nodes {
                found.extend(&self.node(*node).regions);
            }
        }
        found
    }

    /// Whether a node, or one in its bodies, must run in program order and may not be dropped.
    pub fn has_effect(&self, node: &Node) -> bool {
        let mut pending = vec![node];
        while let Some(node) = pending.pop() {
            if node.op.props().effect {
                return true;
            }
            let inner = node.regions.iter().flat_map(|region| &self.region(*region).nodes);
            pending.extend(inner.map(|id| self.node(*id)));
        }
        false
    }

    /// Replaces values everywhere: operands and region results. `replacement[v]` is the value to use instead of `v`.
    pub fn replace_values(&mut self, replacement: &[ValueId]) {
        let resolve = |value: &mut ValueId| {
            if let Some(new) = replacement.get(value.0 as usize) {
                *value = *new;
            }
        };
        self.nodes.iter_mut().for_each(|node| node.inputs.iter_mut().for_each(resolve));
        self.regions.iter_mut().for_each(|region| region.results.iter_mut().for_each(resolve));
    }
}
