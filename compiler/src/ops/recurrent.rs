//! Recurrent cells (RNN, GRU, LSTM) and the sequences that run them along a time dimension.

mod cell;
mod sequence;
mod time;

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, shape_error, text};
use crate::op::{InferContext, Op, OpDef, Support, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, Unary};
use crate::read::{Attributes, Layer};
use cell::{State, Step};
use sequence::Sequence;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("GRUCell", 3, 3..=17, 5..=5, one, |a| cell_of(a, gru(a)?)),
    row("GRUSequence", 5, 5..=17, 6..=6, two, |a| sequence_of(a, gru(a)?)),
    row("LSTMCell", 1, 1..=3, 6..=7, two, |a| cell_of(a, Kind::Lstm { coupled: a.bool("input_forget", false)? })),
    row("LSTMCell", 4, 4..=17, 6..=6, two, |a| cell_of(a, LSTM)),
    row("LSTMSequence", 5, 5..=17, 7..=7, three, |a| sequence_of(a, LSTM)),
    row("RNNCell", 1, 1..=1, 5..=5, one, |a| cell_of(a, Kind::Rnn)),
    row("RNNCell", 1, 3..=17, 5..=5, one, |a| cell_of(a, Kind::Rnn)),
    row("RNNSequence", 5, 5..=17, 6..=6, two, |a| sequence_of(a, Kind::Rnn)),
];

const LSTM: Kind = Kind::Lstm { coupled: false };

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: RangeInclusive<usize>,
    outputs: fn(&Layer) -> usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    // The order of gates is the same whatever LSTMCell-1 calls its format.
    OpDef { name, version, opsets, inputs, outputs, parse, ignorable: &["weights_format"], support: Support::Full }
}

fn one(_: &Layer) -> usize {
    1
}

fn two(_: &Layer) -> usize {
    2
}

fn three(_: &Layer) -> usize {
    3
}

/// Which cell: what a gate is, and how gates make the next state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One gate.
    Rnn,
    /// Update, reset and hidden gate. The reset gate acts on the state, or on the hidden gate's product with the state.
    Gru { linear_before_reset: bool },
    /// Forget, input, cell and output gate; `coupled`: the input gate is 1 minus the forget gate.
    Lstm { coupled: bool },
}

impl Kind {
    fn gates(self) -> i64 {
        match self {
            Kind::Rnn => 1,
            Kind::Gru { .. } => 3,
            Kind::Lstm { .. } => 4,
        }
    }

    /// Number of bias vectors: a hidden gate that is reset after its product has one for each of its parts.
    fn biases(self) -> i64 {
        self.gates() + i64::from(self == Kind::Gru { linear_before_reset: true })
    }

    /// Whether a cell state is kept besides the hidden state.
    fn has_cell_state(self) -> bool {
        matches!(self, Kind::Lstm { .. })
    }

    fn default_activations(self) -> &'static [&'static str] {
        match self {
            Kind::Rnn => &["tanh"],
            Kind::Gru { .. } => &["sigmoid", "tanh"],
            Kind::Lstm { .. } => &["sigmoid", "tanh", "tanh"],
        }
    }
}

fn gru(attributes: &Attributes) -> Result<Kind, Diagnostic> {
    Ok(Kind::Gru { linear_before_reset: attributes.bool("linear_before_reset", false)? })
}

/// The function of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Activation {
    Sigmoid,
    Tanh,
    Relu,
    /// `min(max(alpha * x + beta, 0), 1)`.
    HardSigmoid {
        alpha: f64,
        beta: f64,
    },
}

impl Activation {
    fn value(self, n: &mut NestBuilder, x: Node) -> Node {
        match self {
            Activation::Sigmoid => n.unary(Unary::Sigmoid, x),
            Activation::Tanh => n.unary(Unary::Tanh, x),
            Activation::Relu => {
                let zero = n.constant_like(x, 0.0);
                n.binary(Binary::Max, x, zero)
            }
            Activation::HardSigmoid { alpha, beta } => {
                let (alpha, beta) = (n.constant_like(x, alpha), n.constant_like(x, beta));
                let scaled = n.binary(Binary::Mul, alpha, x);
                let line = n.binary(Binary::Add, scaled, beta);
                limited(n, line, 0.0, 1.0)
            }
        }
    }
}

fn limited(n: &mut NestBuilder, x: Node, low: f64, high: f64) -> Node {
    let (low, high) = (n.constant_like(x, low), n.constant_like(x, high));
    let raised = n.binary(Binary::Max, x, low);
    n.binary(Binary::Min, raised, high)
}

/// The attributes that cells and sequences share.
#[derive(Clone, Debug)]
struct Cell {
    kind: Kind,
    hidden: i64,
    /// Of the gates (f), the hidden or cell gate (g), and the cell state (h).
    activations: Vec<Activation>,
    /// Limit of what activation functions of gates get.
    clip: Option<f64>,
}

impl Cell {
    fn parse(a: &Attributes, kind: Kind) -> Result<Self, Diagnostic> {
        let hidden = a.int("hidden_size")?;
        if !(1..=i64::from(i32::MAX)).contains(&hidden) {
            return Err(a.invalid("hidden_size", "a positive number"));
        }
        let clip = a.float_or("clip", 0.0)?;
        if clip.is_nan() || clip < 0.0 {
            return Err(a.invalid("clip", "a number that is at least 0"));
        }
        let clip = (clip > 0.0 && clip.is_finite()).then_some(clip);
        Ok(Cell { kind, hidden, activations: activations(a, kind.default_activations())?, clip })
    }

    fn activation(&self, i: usize) -> Activation {
        self.activations.get(i).copied().unwrap_or(Activation::Tanh)
    }

    /// Activation function `i` of a clipped gate.
    fn gate(&self, n: &mut NestBuilder, i: usize, x: Node) -> Node {
        let x = self.clip.map_or(x, |clip| limited(n, x, -clip, clip));
        self.activation(i).value(n, x)
    }

    /// Checks weights, recurrence weights and biases, which have `leading` dimensions in front, and further operands.
    fn check_weights(
        &self,
        context: &mut InferContext,
        leading: &[Dim],
        [weights, recurrence, bias]: [&Fact; 3],
        width: &Dim,
    ) -> Result<(), Diagnostic> {
        let (gates, biases) = (self.kind.gates() * self.hidden, self.kind.biases() * self.hidden);
        let dims = |tail: &[Dim]| -> Vec<Dim> { leading.iter().chain(tail).cloned().collect() };
        let (gates, hidden) = (Dim::constant(gates), Dim::constant(self.hidden));
        check(context, weights, &dims(&[gates.clone(), width.clone()]), "the weights")?;
        check(context, recurrence, &dims(&[gates, hidden]), "the recurrence weights")?;
        check(context, bias, &dims(&[Dim::constant(biases)]), "the biases")
    }
}

/// The activation functions. Lists for two directions may repeat those of the first one.
fn activations(a: &Attributes, defaults: &[&str]) -> Result<Vec<Activation>, Diagnostic> {
    let names = a.words_or("activations", &["sigmoid", "tanh", "relu", "hardsigmoid"], defaults)?;
    let count = defaults.len();
    let repeated = names.chunks(count).all(|chunk| names.starts_with(chunk));
    if names.len() % count != 0 || names.len() > 2 * count || !repeated {
        return Err(a.invalid("activations", &format!("a list of {count} functions, the same in both directions")));
    }
    let (alpha, beta) = (a.floats_or("activations_alpha", &[])?, a.floats_or("activations_beta", &[])?);
    let one = |(i, name): (usize, &&str)| match *name {
        "sigmoid" => Activation::Sigmoid,
        "tanh" => Activation::Tanh,
        "relu" => Activation::Relu,
        _ => Activation::HardSigmoid {
            alpha: alpha.get(i).copied().unwrap_or(0.2),
            beta: beta.get(i).copied().unwrap_or(0.5),
        },
    };
    Ok(names.iter().take(count).enumerate().map(one).collect())
}

/// Demands dimensions; sizes that may or may not be equal are compared at run time.
fn check(context: &mut InferContext, fact: &Fact, dims: &[Dim], what: &str) -> Result<(), Diagnostic> {
    if fact.rank() != dims.len() {
        let message = format!("{what} have dimensions {} instead of {}", text(&fact.dims), text(dims));
        return Err(shape_error(message));
    }
    for (i, (found, wanted)) in fact.dims.iter().zip(dims).enumerate() {
        require_equal(context, found, wanted, &format!("dimension {i} of {what} and what it belongs to"))?;
    }
    Ok(())
}

/// One floating-point type for all operands but `skip`.
fn element(inputs: &[Fact], skip: Option<usize>) -> Result<ElementType, Diagnostic> {
    let element = operand(inputs, 0)?.element;
    typing::float(element, "the input of a recurrent cell")?;
    let other = |(i, fact): &(usize, &Fact)| Some(*i) != skip && fact.element != element;
    match inputs.iter().enumerate().find(other) {
        None => Ok(element),
        Some((i, fact)) => Err(Diagnostic::error(
            &codes::TYPE,
            format!("operand {i} has element type {}, operand 0 has {element}", fact.element),
        )
        .help("insert a Convert layer: operands are never converted silently")),
    }
}

/// RNNCell-1, GRUCell-3, LSTMCell-1 and LSTMCell-4: one step. Operands: input `[batch, input size]`, hidden state
/// `[batch, hidden size]`, for an LSTM the cell state, weights `[gates * hidden size, input size]`, recurrence weights
/// `[gates * hidden size, hidden size]`, biases `[gates * hidden size]`, for LSTMCell-1 peephole weights
/// `[3 * hidden size]` (forget, input, output). Results: the next hidden state and, for an LSTM, the next cell state.
#[derive(Debug)]
struct CellOp {
    cell: Cell,
}

fn cell_of(attributes: &Attributes, kind: Kind) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(CellOp { cell: Cell::parse(attributes, kind)? }))
}

impl CellOp {
    /// Number of states, which follow the input.
    fn states(&self) -> usize {
        1 + usize::from(self.cell.kind.has_cell_state())
    }
}

impl Op for CellOp {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let element = element(inputs, None)?;
        let [batch, width] = operand(inputs, 0)?.dims.as_slice() else {
            return Err(shape_error("the input of a cell has two dimensions: batch and input size"));
        };
        let state = vec![batch.clone(), Dim::constant(self.cell.hidden)];
        let first = 1 + self.states();
        for i in 1..first {
            check(context, operand(inputs, i)?, &state, "the elements of a state")?;
        }
        let weights = [operand(inputs, first)?, operand(inputs, first + 1)?, operand(inputs, first + 2)?];
        self.cell.check_weights(context, &[], weights, width)?;
        if let Some(peepholes) = inputs.get(first + 3) {
            check(context, peepholes, &[Dim::constant(3 * self.cell.hidden)], "the peephole weights")?;
        }
        Ok(vec![Fact::new(element, state); self.states()])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let first = 1 + self.states();
        let peepholes = (builder.input_count() > first + 3).then(|| builder.input(first + 3)).transpose()?;
        let (x, weights, bias) = (builder.input(0)?, builder.input(first)?, builder.input(first + 2)?);
        let rows: Vec<Dim> = builder.dims(x).into_iter().take(1).collect();
        let step = Step {
            cell: &self.cell,
            input: cell::project(builder, &self.cell, x, weights, bias)?,
            rows,
            recurrence: builder.input(first + 1)?,
            bias,
            peepholes,
            time: None,
        };
        let memory = if self.states() > 1 { Some(builder.input(2)?) } else { None };
        let before = State { hidden: builder.input(1)?, memory };
        let memory = if self.states() > 1 { Some(builder.output(1)?) } else { None };
        let out = State { hidden: builder.output(0)?, memory };
        step.advance_into(builder, before, out)
    }
}

fn sequence_of(attributes: &Attributes, kind: Kind) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Sequence::parse(attributes, Cell::parse(attributes, kind)?)?))
}
