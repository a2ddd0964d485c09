//! How operations write their defining nests.

mod blocks;
mod calls;
mod state;

pub use blocks::{Bodies, as_variable};

use super::interpret::interpret;
use super::nest::{Access, Axis, Binary, Bound, Const, Nest, Node, ReduceFn, Reduction, Scalar, ScalarType, Unary};
use super::{Buffer, BufferId, Program, Role, Step, StepKind};
use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::graph::{Interface, Origin};
use crate::tensor::Tensor;

/// A table is folded if that takes at most this many iterations.
const FOLDED: i64 = 1 << 20;

/// Appends the steps of one operation to a program.
pub struct Builder<'a> {
    program: &'a mut Program,
    steps: Vec<Step>,
    inputs: &'a [BufferId],
    outputs: &'a [BufferId],
    facts: &'a [Fact],
    origin: &'a Origin,
    locals: &'a [Dim],
    bodies: Option<&'a mut dyn Bodies>,
}

impl<'a> Builder<'a> {
    /// A builder for an operation with these operands (`facts` are theirs) and results.
    pub fn new(
        program: &'a mut Program,
        inputs: &'a [BufferId],
        outputs: &'a [BufferId],
        facts: &'a [Fact],
        origin: &'a Origin,
    ) -> Self {
        Builder { program, steps: Vec::new(), inputs, outputs, facts, origin, locals: &[], bodies: None }
    }

    /// The steps written so far.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    /// Number of operands.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Buffer of operand `i`.
    ///
    /// # Errors
    /// An internal error where the operand is missing: the table's arity was checked before.
    pub fn input(&self, i: usize) -> Result<BufferId, Diagnostic> {
        self.inputs.get(i).copied().ok_or_else(|| internal(&format!("operand {i} is missing")))
    }

    /// Buffer of result `i`.
    ///
    /// # Errors
    /// An internal error where the result is missing.
    pub fn output(&self, i: usize) -> Result<BufferId, Diagnostic> {
        self.outputs.get(i).copied().ok_or_else(|| internal(&format!("result {i} is missing")))
    }

    /// What is known of operand `i`.
    ///
    /// # Errors
    /// An internal error where the operand is missing.
    pub fn fact(&self, i: usize) -> Result<&'a Fact, Diagnostic> {
        self.facts.get(i).ok_or_else(|| internal(&format!("operand {i} is missing")))
    }

    /// What is known of all operands.
    pub fn facts(&self) -> &'a [Fact] {
        self.facts
    }

    /// Dimensions of a buffer.
    pub fn dims(&self, buffer: BufferId) -> Vec<Dim> {
        self.program.buffer(buffer).dims.clone()
    }

    /// Element type of a buffer.
    pub fn element(&self, buffer: BufferId) -> ElementType {
        self.program.buffer(buffer).element
    }

    /// Type in which elements of a buffer are computed.
    ///
    /// # Errors
    /// Strings, which have no scalar type.
    pub fn scalar_type(&self, buffer: BufferId) -> Result<ScalarType, Diagnostic> {
        ScalarType::of(self.element(buffer)).ok_or_else(|| {
            Diagnostic::error(&codes::TYPE, "strings cannot be computed with")
                .help("supported are numbers and booleans")
        })
    }

    /// A new intermediate buffer.
    pub fn temporary(&mut self, element: ElementType, dims: Vec<Dim>) -> BufferId {
        self.program.add_buffer(&self.origin.name, element, dims, Role::Temporary)
    }

    /// A new constant.
    pub fn constant(&mut self, tensor: Tensor) -> BufferId {
        self.program.add_constant(&self.origin.name, tensor)
    }

    /// A tensor whose elements depend on nothing but their index: a constant, where its dimensions and what `body` uses
    /// are known at compile time and the tensor is small, else a temporary and the step that fills it.
    ///
    /// # Errors
    /// What `body` returns.
    pub fn table(
        &mut self,
        element: ElementType,
        dims: &[Dim],
        body: impl FnOnce(&mut NestBuilder<'_, 'a>, &[Dim]) -> Result<Node, Diagnostic>,
    ) -> Result<BufferId, Diagnostic> {
        let table = self.temporary(element, dims.to_vec());
        self.map(table, body)?;
        let known = match self.steps.last() {
            Some(Step { kind: StepKind::Nest(nest), .. }) if nest.is_closed() && points(nest) <= FOLDED => {
                Some(self.evaluate(nest, table)?)
            }
            _ => None,
        };
        if let Some(tensor) = known {
            self.steps.pop();
            self.program.buffer_mut(table).role = Role::Constant(tensor);
        }
        Ok(table)
    }

    /// The elements of a constant.
    pub fn as_constant(&self, buffer: BufferId) -> Option<&Tensor> {
        self.program.buffer(buffer).constant()
    }

    /// The tensor that a nest without operands stores.
    fn evaluate(&self, nest: &Nest, target: BufferId) -> Result<Tensor, Diagnostic> {
        let mut program = Program::default();
        let Buffer { element, dims, .. } = self.program.buffer(target).clone();
        let to = program.add_buffer("", element, dims, Role::Output(0));
        program.outputs.push((to, Interface::default()));
        let mut nest = nest.clone();
        nest.store.buffer = to;
        program.root.steps.push(Step { kind: StepKind::Nest(nest), origins: Vec::new() });
        let mut tensors = interpret(&program, &[]).map_err(Diagnostic::internal)?;
        tensors.pop().ok_or_else(|| internal("a nest has no result"))
    }

    /// `to` becomes the row-major elements of `from` under its own dimensions.
    pub fn reshape(&mut self, from: BufferId, to: BufferId) {
        self.push(StepKind::Reshape { from, to });
    }

    /// Appends a step.
    pub fn push(&mut self, kind: StepKind) {
        self.steps.push(Step { kind, origins: vec![self.origin.clone()] });
    }

    /// Starts a nest with the given map axes; finish it with [`NestBuilder::store`].
    pub fn nest(&mut self, map: &[Dim]) -> NestBuilder<'_, 'a> {
        let axes = map.iter().map(|extent| Axis { extent: extent.clone() }).collect();
        NestBuilder {
            nest: Nest {
                axes,
                maps: map.len(),
                nodes: Vec::new(),
                reduction: None,
                result: 0,
                store: Access { buffer: BufferId(0), index: Vec::new() },
            },
            domains: Vec::new(),
            builder: self,
        }
    }

    /// One nest over all elements of `out`: `body` gets their logical index and returns the value to store.
    ///
    /// # Errors
    /// What `body` returns.
    pub fn map(
        &mut self,
        out: BufferId,
        body: impl FnOnce(&mut NestBuilder<'_, 'a>, &[Dim]) -> Result<Node, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let dims = self.dims(out);
        let mut nest = self.nest(&dims);
        let index = nest.map_axes();
        let value = body(&mut nest, &index)?;
        nest.store(out, &index, value);
        Ok(())
    }
}

/// A nest under construction. Nodes are typed as they are added; equal nodes are shared.
pub struct NestBuilder<'b, 'a> {
    nest: Nest,
    /// The element type whose values a node is known to lie in.
    domains: Vec<ElementType>,
    builder: &'b mut Builder<'a>,
}

impl NestBuilder<'_, '_> {
    /// The map axes as index expressions.
    pub fn map_axes(&self) -> Vec<Dim> {
        (0..self.nest.maps).map(Dim::axis).collect()
    }

    /// Adds a reduction axis.
    pub fn reduction_axis(&mut self, extent: &Dim) -> Dim {
        self.nest.axes.push(Axis { extent: extent.clone() });
        Dim::axis(self.nest.axes.len() - 1)
    }

    /// Adds a reduction axis that runs `count` times, an integer node: not less than zero, not more than `most` times.
    pub fn counted_axis(&mut self, count: Node, most: &Dim) -> Dim {
        self.reduction_axis(&Dim::scalar(count).minimum(most).maximum(&Dim::constant(0)))
    }

    /// Dimensions of a buffer.
    pub fn dims(&self, buffer: BufferId) -> Vec<Dim> {
        self.builder.dims(buffer)
    }

    /// Type of a node.
    pub fn type_of(&self, node: Node) -> ScalarType {
        ScalarType::of(self.domain(node)).unwrap_or(ScalarType::F32)
    }

    fn domain(&self, node: Node) -> ElementType {
        self.domains.get(node as usize).copied().unwrap_or(ElementType::F32)
    }

    fn add(&mut self, scalar: Scalar, domain: ElementType) -> Node {
        if let Some(same) = self.nest.nodes.iter().position(|node| *node == scalar) {
            return same as Node;
        }
        self.nest.nodes.push(scalar);
        self.domains.push(domain);
        self.nest.nodes.len() as Node - 1
    }

    /// A constant of any scalar type.
    pub fn constant(&mut self, value: Const) -> Node {
        self.add(Scalar::Const(value), value.scalar_type().element())
    }

    /// `value` in the type of `like`.
    pub fn constant_like(&mut self, like: Node, value: f64) -> Node {
        let ty = self.type_of(like);
        self.constant(Const::of(ty, value))
    }

    /// Zero in the type in which elements of a buffer are computed: the usual padding.
    ///
    /// # Errors
    /// Strings.
    pub fn zero_of(&mut self, buffer: BufferId) -> Result<Node, Diagnostic> {
        let ty = self.builder.scalar_type(buffer)?;
        Ok(self.constant(Const::of(ty, 0.0)))
    }

    /// An index expression as an i64 scalar.
    pub fn index(&mut self, index: &Dim) -> Node {
        self.add(Scalar::Index(index.clone()), ElementType::I64)
    }

    /// An integer node as an index expression, for data-dependent loads.
    pub fn as_index(&mut self, node: Node) -> Dim {
        Dim::scalar(node)
    }

    /// An element, widened to its scalar type.
    ///
    /// # Errors
    /// Strings.
    pub fn load(&mut self, buffer: BufferId, index: &[Dim]) -> Result<Node, Diagnostic> {
        self.builder.scalar_type(buffer)?;
        let element = self.builder.element(buffer);
        let access = Access { buffer, index: index.to_vec() };
        Ok(self.add(Scalar::Load { access, bounds: Vec::new(), otherwise: None }, element))
    }

    /// An element where all bounds hold, else `otherwise`: padding.
    ///
    /// # Errors
    /// Strings.
    pub fn load_within(
        &mut self,
        buffer: BufferId,
        index: &[Dim],
        bounds: Vec<Bound>,
        otherwise: Node,
    ) -> Result<Node, Diagnostic> {
        if bounds.is_empty() {
            return self.load(buffer, index);
        }
        self.builder.scalar_type(buffer)?;
        let element = self.builder.element(buffer);
        let access = Access { buffer, index: index.to_vec() };
        Ok(self.add(Scalar::Load { access, bounds, otherwise: Some(otherwise) }, element))
    }

    /// A function of one scalar.
    pub fn unary(&mut self, function: Unary, a: Node) -> Node {
        let domain = match function {
            Unary::IsNan | Unary::IsFinite | Unary::IsPosInf | Unary::IsNegInf => ElementType::Boolean,
            _ => self.type_of(a).element(),
        };
        self.add(Scalar::Unary(function, a), domain)
    }

    /// A function of one scalar that integers have no closed form of: these are computed in f64 and converted back to
    /// `element`. Neg, Abs, Sign are closed, and rounding leaves integers as they are.
    pub fn unary_in_float(&mut self, function: Unary, a: Node, element: ElementType) -> Node {
        let closed = matches!(function, Unary::Neg | Unary::Abs | Unary::Sign);
        let rounding = matches!(function, Unary::Floor | Unary::Ceil | Unary::Round | Unary::RoundHalfAway);
        match self.type_of(a) {
            ScalarType::F32 | ScalarType::F64 => self.unary(function, a),
            _ if closed => self.unary(function, a),
            _ if rounding => a,
            _ => {
                let wide = self.cast(ElementType::F64, a);
                let value = self.unary(function, wide);
                self.cast(element, value)
            }
        }
    }

    /// A function of two scalars of one type.
    pub fn binary(&mut self, function: Binary, a: Node, b: Node) -> Node {
        let domain = match function {
            _ if function.is_comparison() => ElementType::Boolean,
            Binary::Min | Binary::Max => self.shared_domain(a, b),
            _ => self.type_of(a).element(),
        };
        self.add(Scalar::Binary(function, a, b), domain)
    }

    /// `a` where `condition` holds, else `b`.
    pub fn select(&mut self, condition: Node, a: Node, b: Node) -> Node {
        let domain = self.shared_domain(a, b);
        self.add(Scalar::Select(condition, a, b), domain)
    }

    fn shared_domain(&self, a: Node, b: Node) -> ElementType {
        let same = self.domain(a) == self.domain(b);
        if same { self.domain(a) } else { self.type_of(a).element() }
    }

    /// Converts to the domain of an element type, as Convert does. A conversion that changes nothing adds no node.
    pub fn cast(&mut self, element: ElementType, a: Node) -> Node {
        if self.domain(a) == element || ScalarType::of(element).is_none() {
            return a;
        }
        self.add(Scalar::Cast(element, a), element)
    }

    /// The reduction of `value` over the reduction axes. A nest has at most one.
    pub fn reduce(&mut self, function: ReduceFn, value: Node) -> Node {
        self.nest.reduction = Some(Reduction { function, value });
        let domain = match function {
            ReduceFn::Max | ReduceFn::Min => self.domain(value),
            _ => self.type_of(value).element(),
        };
        self.add(Scalar::Reduced, domain)
    }

    /// Stores `value`, cast to the buffer's element type, and ends the nest.
    pub fn store(mut self, buffer: BufferId, index: &[Dim], value: Node) {
        let value = self.cast(self.builder.element(buffer), value);
        self.nest.result = value;
        self.nest.store = Access { buffer, index: index.to_vec() };
        self.builder.push(StepKind::Nest(self.nest));
    }
}

/// Number of iterations of all loops.
fn points(nest: &Nest) -> i64 {
    nest.axes.iter().fold(1i64, |points, axis| points.saturating_mul(axis.extent.upper_bound().max(0)))
}

fn internal(message: &str) -> Diagnostic {
    Diagnostic::error(&codes::INTERNAL, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{edit, interpret::interpret, verify};

    /// `out[i]` is the sum of 0, 1, ... with as many terms as `counts` says.
    fn triangles(counts: &[i64], most: i64) -> Program {
        let mut program = Program::default();
        let counts = program.add_constant("counts", Tensor::from_i64s(counts));
        let dims = program.buffer(counts).dims.clone();
        let out = program.add_buffer("out", ElementType::I64, dims.clone(), Role::Output(0));
        program.outputs.push((out, Default::default()));
        let origin = Origin::default();
        let mut builder = Builder::new(&mut program, &[], &[], &[], &origin);
        let mut n = builder.nest(&dims);
        let i = n.map_axes();
        n.constant(Const::I64(7));
        let count = n.load(counts, &i).unwrap();
        let k = n.counted_axis(count, &Dim::constant(most));
        let k = n.index(&k);
        let sum = n.reduce(ReduceFn::Sum, k);
        n.store(out, &i, sum);
        program.root.steps = builder.into_steps();
        program
    }

    fn nest(program: &mut Program) -> &mut Nest {
        match program.root.steps.first_mut().map(|step| &mut step.kind) {
            Some(StepKind::Nest(nest)) => nest,
            _ => panic!("a nest was expected"),
        }
    }

    #[test]
    fn counted_axes_run_as_often_as_their_scalar_says() {
        let mut program = triangles(&[0, 1, 4, -3, 90, i64::MIN, 3], 5);
        verify(&program).unwrap();
        let expected = Some(vec![0, 0, 6, 0, 10, 0, 3]);
        assert_eq!(interpret(&program, &[]).unwrap()[0].to_i64s(), expected);
        edit::prune(nest(&mut program));
        assert_eq!(nest(&mut program).counts(), [0], "the count is the first node that is left");
        verify(&program).unwrap();
        assert_eq!(interpret(&program, &[]).unwrap()[0].to_i64s(), expected);
    }

    #[test]
    fn counts_are_bounded_and_known_before_the_reduction() {
        let mut program = triangles(&[1, 2], 5);
        nest(&mut program).axes[1].extent = Dim::scalar(1);
        assert!(verify(&program).unwrap_err().contains("no bounds"));
        nest(&mut program).axes[1].extent = Dim::scalar(2).minimum(&Dim::constant(3)).maximum(&Dim::constant(0));
        assert!(verify(&program).is_err(), "node 2 is the reduction axis itself");
        nest(&mut program).axes.swap(0, 1);
        assert!(verify(&program).is_err(), "a map axis");
    }
}
