//! The nests of one time step. Products with weights are sums of products of two loads, all gates in one.

use super::time::Time;
use super::{Cell, Kind};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::op::operands::MapAxes;
use crate::op::window::{reduce, reduction_axis};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, ReduceFn};
use std::ops::Range;

/// What a cell carries from step to step.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub hidden: BufferId,
    /// The cell state of an LSTM.
    pub memory: Option<BufferId>,
}

/// One time step of all rows. A row is an element of the batch or, in a sequence, an element and a direction.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub cell: &'a Cell,
    /// Dimensions in front of the hidden dimension of a state.
    pub rows: Vec<Dim>,
    /// Contribution of the input to all gates, biases included: `[batch, (time, direction,) gates * hidden size]`.
    pub input: BufferId,
    pub recurrence: BufferId,
    pub bias: BufferId,
    pub peepholes: Option<BufferId>,
    /// The place of the step in a sequence.
    pub time: Option<Time<'a>>,
}

/// Products of a state with the recurrence weights of some gates.
struct Products {
    buffer: BufferId,
    first_gate: i64,
}

/// One element of a state: its row and its place in the hidden dimension.
struct At<'i> {
    row: &'i [Dim],
    unit: &'i Dim,
}

impl At<'_> {
    fn state(&self) -> Vec<Dim> {
        self.row.iter().chain([self.unit]).cloned().collect()
    }

    fn batch(&self) -> Dim {
        self.row.first().cloned().unwrap_or_default()
    }

    /// The index of weights of the row's direction.
    fn weights(&self, tail: &[Dim]) -> Vec<Dim> {
        self.row.iter().skip(1).chain(tail).cloned().collect()
    }
}

/// `x[.., k] * weights[(direction,) gate, k] + bias[(direction,) gate]` for all rows, time steps and directions.
pub(super) fn project(
    builder: &mut Builder,
    cell: &Cell,
    x: BufferId,
    weights: BufferId,
    bias: BufferId,
) -> Result<BufferId, Diagnostic> {
    let (mut dims, weight_dims) = (builder.dims(x), builder.dims(weights));
    let width = dims.pop().unwrap_or_default();
    let directions = weight_dims.get(..weight_dims.len().saturating_sub(2)).unwrap_or(&[]);
    let rows = dims.len();
    dims.extend(directions.iter().cloned());
    dims.push(Dim::constant(cell.kind.gates() * cell.hidden));
    let out = builder.temporary(builder.scalar_type(x)?.element(), dims.clone());
    let mut maps = MapAxes::default();
    let index = maps.axes(&dims);
    let mut n = builder.nest(&maps.extents);
    let k = reduction_axis(&mut n, &width);
    let (row, column) = index.split_at(rows.min(index.len()));
    let left = n.load(x, &[row, std::slice::from_ref(&k)].concat())?;
    let right = n.load(weights, &[column, std::slice::from_ref(&k)].concat())?;
    let product = n.binary(Binary::Mul, left, right);
    let sum = reduce(&mut n, ReduceFn::Sum, &[k], product);
    let bias = n.load(bias, column)?;
    let sum = n.binary(Binary::Add, sum, bias);
    n.store(out, &index, sum);
    Ok(out)
}

impl Step<'_> {
    fn hidden(&self) -> Dim {
        Dim::constant(self.cell.hidden)
    }

    /// A new buffer of the form of a state.
    pub fn state_buffer(&self, builder: &mut Builder) -> BufferId {
        let element = builder.element(self.input);
        builder.temporary(element, [self.rows.as_slice(), &[self.hidden()]].concat())
    }

    /// `state[row, k] * recurrence[gate, k]` for some gates.
    fn products(&self, builder: &mut Builder, state: BufferId, gates: Range<i64>) -> Result<Products, Diagnostic> {
        let columns = Dim::constant((gates.end - gates.start) * self.cell.hidden);
        let dims: Vec<Dim> = self.rows.iter().chain([&columns]).cloned().collect();
        let out = builder.temporary(builder.element(self.input), dims.clone());
        let mut maps = MapAxes::default();
        let index = maps.axes(&dims);
        let mut n = builder.nest(&maps.extents);
        let k = reduction_axis(&mut n, &self.hidden());
        let (row, column) = index.split_at(self.rows.len().min(index.len()));
        let column = column.first().cloned().unwrap_or_default() + gates.start * self.cell.hidden;
        let left = n.load(state, &[row, std::slice::from_ref(&k)].concat())?;
        let at = At { row, unit: &column };
        let right = n.load(self.recurrence, &at.weights(&[column.clone(), k.clone()]))?;
        let product = n.binary(Binary::Mul, left, right);
        let sum = reduce(&mut n, ReduceFn::Sum, &[k], product);
        n.store(out, &index, sum);
        Ok(Products { buffer: out, first_gate: gates.start })
    }

    /// The contribution of the input to a gate.
    fn input_part(&self, n: &mut NestBuilder, at: &At, gate: i64) -> Result<Node, Diagnostic> {
        let column = at.unit.clone() + gate * self.cell.hidden;
        let direction = at.row.get(1).cloned().unwrap_or_default();
        let position = self.time.map(|time| time.position(n, &at.batch(), &direction)).transpose()?;
        let index: Vec<Dim> = [at.batch()].into_iter().chain(position).chain(at.weights(&[column])).collect();
        n.load(self.input, &index)
    }

    /// The contribution of the state to a gate.
    fn state_part(&self, n: &mut NestBuilder, at: &At, gate: i64, products: &Products) -> Result<Node, Diagnostic> {
        let column = at.unit.clone() + (gate - products.first_gate) * self.cell.hidden;
        n.load(products.buffer, &At { row: at.row, unit: &column }.state())
    }

    /// The sum that a gate's activation function gets.
    fn sum(&self, n: &mut NestBuilder, at: &At, gate: i64, products: &Products) -> Result<Node, Diagnostic> {
        let (input, state) = (self.input_part(n, at, gate)?, self.state_part(n, at, gate, products)?);
        Ok(n.binary(Binary::Add, input, state))
    }

    /// A nest over the elements of a state; rows whose sequence has ended keep those of `old`.
    fn update(
        &self,
        builder: &mut Builder,
        out: BufferId,
        old: Option<BufferId>,
        value: impl FnOnce(&mut NestBuilder, &At) -> Result<Node, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let dims = builder.dims(out);
        let mut maps = MapAxes::default();
        let index = maps.axes(&dims);
        let mut n = builder.nest(&maps.extents);
        let (row, unit) = index.split_at(self.rows.len().min(index.len()));
        let at = At { row, unit: &unit.first().cloned().unwrap_or_default() };
        let mut result = value(&mut n, &at)?;
        if let (Some(old), Some(time)) = (old, self.time)
            && let Some(inside) = time.is_inside(&mut n, &at.batch())?
        {
            let old = n.load(old, &index)?;
            result = n.select(inside, result, old);
        }
        n.store(out, &index, result);
        Ok(())
    }

    /// The state after the step, in buffers of the type in which the step computes.
    pub fn advance(&self, builder: &mut Builder, before: State) -> Result<State, Diagnostic> {
        let hidden = self.state_buffer(builder);
        let memory = before.memory.map(|_| self.state_buffer(builder));
        let after = State { hidden, memory };
        self.fill(builder, before, after)?;
        Ok(after)
    }

    /// The state after the step, in given buffers.
    pub fn advance_into(&self, builder: &mut Builder, before: State, out: State) -> Result<(), Diagnostic> {
        if builder.element(out.hidden) == builder.element(self.input) {
            return self.fill(builder, before, out);
        }
        // Narrow types are rounded once, at the end.
        let after = self.advance(builder, before)?;
        let pairs = [Some((after.hidden, out.hidden)), after.memory.zip(out.memory)];
        pairs.into_iter().flatten().try_for_each(|(from, to)| builder.convert(from, to))
    }

    fn fill(&self, builder: &mut Builder, before: State, after: State) -> Result<(), Diagnostic> {
        match (self.cell.kind, before.memory.zip(after.memory)) {
            (Kind::Rnn, _) => self.rnn(builder, before.hidden, after.hidden),
            (Kind::Gru { linear_before_reset }, _) => {
                self.gru(builder, before.hidden, after.hidden, linear_before_reset)
            }
            (Kind::Lstm { coupled }, Some(memory)) => {
                self.lstm(builder, (before.hidden, after.hidden), memory, coupled)
            }
            (Kind::Lstm { .. }, None) => Err(Diagnostic::internal("an LSTM lacks its cell state")),
        }
    }

    fn rnn(&self, builder: &mut Builder, before: BufferId, after: BufferId) -> Result<(), Diagnostic> {
        let products = self.products(builder, before, 0..1)?;
        self.update(builder, after, Some(before), |n, at| {
            let sum = self.sum(n, at, 0, &products)?;
            Ok(self.cell.gate(n, 0, sum))
        })
    }

    /// `(1 - z) * g + z * state` with gates z (update), r (reset) and g (hidden).
    fn gru(
        &self,
        builder: &mut Builder,
        before: BufferId,
        after: BufferId,
        linear_before_reset: bool,
    ) -> Result<(), Diagnostic> {
        let gates = self.products(builder, before, 0..if linear_before_reset { 3 } else { 2 })?;
        let reset = |n: &mut NestBuilder, at: &At| -> Result<Node, Diagnostic> {
            let sum = self.sum(n, at, 1, &gates)?;
            Ok(self.cell.gate(n, 0, sum))
        };
        let hidden = if linear_before_reset {
            None
        } else {
            let kept = self.state_buffer(builder);
            self.update(builder, kept, None, |n, at| {
                let (reset, state) = (reset(n, at)?, n.load(before, &at.state())?);
                Ok(n.binary(Binary::Mul, reset, state))
            })?;
            Some(self.products(builder, kept, 2..3)?)
        };
        self.update(builder, after, Some(before), |n, at| {
            let sum = match &hidden {
                Some(hidden) => self.sum(n, at, 2, hidden)?,
                None => {
                    let (product, reset) = (self.state_part(n, at, 2, &gates)?, reset(n, at)?);
                    let bias = n.load(self.bias, &at.weights(&[at.unit.clone() + 3 * self.cell.hidden]))?;
                    let product = n.binary(Binary::Add, product, bias);
                    let (product, input) = (n.binary(Binary::Mul, reset, product), self.input_part(n, at, 2)?);
                    n.binary(Binary::Add, input, product)
                }
            };
            let candidate = self.cell.gate(n, 1, sum);
            let update = self.sum(n, at, 0, &gates)?;
            let update = self.cell.gate(n, 0, update);
            let (state, one) = (n.load(before, &at.state())?, n.constant_like(update, 1.0));
            let rest = n.binary(Binary::Sub, one, update);
            let (new, old) = (n.binary(Binary::Mul, rest, candidate), n.binary(Binary::Mul, update, state));
            Ok(n.binary(Binary::Add, new, old))
        })
    }

    /// Adds peephole weights (forget, input, output) times the cell state.
    fn peep(&self, n: &mut NestBuilder, at: &At, which: i64, sum: Node, memory: Node) -> Result<Node, Diagnostic> {
        let Some(peepholes) = self.peepholes else { return Ok(sum) };
        let weight = n.load(peepholes, &[at.unit.clone() + which * self.cell.hidden])?;
        let seen = n.binary(Binary::Mul, weight, memory);
        Ok(n.binary(Binary::Add, sum, seen))
    }

    /// Cell state `f * memory + i * g` and hidden state `o * h(cell state)` with gates f, i, g (cell) and o.
    fn lstm(
        &self,
        builder: &mut Builder,
        hidden: (BufferId, BufferId),
        memory: (BufferId, BufferId),
        coupled: bool,
    ) -> Result<(), Diagnostic> {
        let products = self.products(builder, hidden.0, 0..4)?;
        self.update(builder, memory.1, Some(memory.0), |n, at| {
            let old = n.load(memory.0, &at.state())?;
            let forget = self.sum(n, at, 0, &products)?;
            let forget = self.peep(n, at, 0, forget, old)?;
            let forget = self.cell.gate(n, 0, forget);
            let input = if coupled {
                let one = n.constant_like(forget, 1.0);
                n.binary(Binary::Sub, one, forget)
            } else {
                let input = self.sum(n, at, 1, &products)?;
                let input = self.peep(n, at, 1, input, old)?;
                self.cell.gate(n, 0, input)
            };
            let candidate = self.sum(n, at, 2, &products)?;
            let candidate = self.cell.gate(n, 1, candidate);
            let (kept, new) = (n.binary(Binary::Mul, forget, old), n.binary(Binary::Mul, input, candidate));
            Ok(n.binary(Binary::Add, kept, new))
        })?;
        self.update(builder, hidden.1, Some(hidden.0), |n, at| {
            let memory = n.load(memory.1, &at.state())?;
            let output = self.sum(n, at, 3, &products)?;
            let output = self.peep(n, at, 2, output, memory)?;
            let (output, shown) = (self.cell.gate(n, 0, output), self.cell.activation(2).value(n, memory));
            Ok(n.binary(Binary::Mul, output, shown))
        })
    }
}
