//! Sequences: the product of the input with the weights for all time steps at once, then a loop over the states.

use super::cell::{State, Step, project};
use super::time::{Direction, Time};
use super::{Cell, check, element};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{MapAxes, operand, shape_error};
use crate::op::{InferContext, Op, typing};
use crate::program::BufferId;
use crate::program::builder::Builder;
use crate::program::nest::{Binary, Const};
use crate::read::Attributes;

/// RNNSequence-5, GRUSequence-5 and LSTMSequence-5. Operands: input `[batch, time, input size]`, hidden state
/// `[batch, directions, hidden size]`, for an LSTM the cell state, lengths `[batch]`, weights
/// `[directions, gates * hidden size, input size]`, recurrence weights, biases. Results: all hidden states
/// `[batch, directions, time, hidden size]`, zero behind the end of a row, the last hidden state and, for an LSTM, the
/// last cell state. A row without any step has states of zero.
#[derive(Debug)]
pub(super) struct Sequence {
    cell: Cell,
    direction: Direction,
}

impl Sequence {
    pub fn parse(attributes: &Attributes, cell: Cell) -> Result<Self, Diagnostic> {
        let directions = [
            ("forward", Direction::Forward),
            ("reverse", Direction::Reverse),
            ("bidirectional", Direction::Bidirectional),
        ];
        Ok(Sequence { cell, direction: attributes.choice("direction", &directions)? })
    }

    /// The operand that holds the lengths: states stand between it and the input.
    fn lengths(&self) -> usize {
        2 + usize::from(self.cell.kind.has_cell_state())
    }
}

impl Op for Sequence {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let at = self.lengths();
        let element = element(inputs, Some(at))?;
        let [batch, steps, width] = operand(inputs, 0)?.dims.as_slice() else {
            return Err(shape_error("the input of a sequence has three dimensions: batch, time and input size"));
        };
        let (directions, hidden) = (Dim::constant(self.direction.count()), Dim::constant(self.cell.hidden));
        let state = vec![batch.clone(), directions.clone(), hidden.clone()];
        for i in 1..at {
            check(context, operand(inputs, i)?, &state, "the elements of a state")?;
        }
        typing::integer(operand(inputs, at)?.element, "the list of lengths")?;
        check(context, operand(inputs, at)?, std::slice::from_ref(batch), "the lengths")?;
        let weights = [operand(inputs, at + 1)?, operand(inputs, at + 2)?, operand(inputs, at + 3)?];
        self.cell.check_weights(context, std::slice::from_ref(&directions), weights, width)?;
        let all = Fact::new(element, vec![batch.clone(), directions, steps.clone(), hidden]);
        let mut results = vec![Fact::new(element, state); at];
        if let Some(first) = results.first_mut() {
            *first = all;
        }
        Ok(results)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let at = self.lengths();
        let (x, weights, recurrence) = (builder.input(0)?, builder.input(at + 1)?, builder.input(at + 2)?);
        let bias = builder.input(at + 3)?;
        let dims = builder.dims(x);
        let [batch, steps, _] = dims.as_slice() else {
            return Err(Diagnostic::internal("the input of a sequence lacks dimensions"));
        };
        let lengths = self.row_lengths(builder, batch, steps)?;
        let step = Step {
            cell: &self.cell,
            rows: vec![batch.clone(), Dim::constant(self.direction.count())],
            input: project(builder, &self.cell, x, weights, bias)?,
            recurrence,
            bias,
            peepholes: None,
            time: Some(Time { direction: self.direction, steps, lengths, iteration: &Dim::constant(0) }),
        };
        let initial = self.initial_state(builder, &step, lengths)?;
        let last = if steps.is(1) {
            let next = step.advance(builder, initial)?;
            self.collect(builder, &step, next)?;
            next
        } else {
            self.repeat(builder, step, initial)?;
            initial
        };
        let finals = [Some((last.hidden, 1)), last.memory.map(|memory| (memory, 2))];
        for (state, output) in finals.into_iter().flatten() {
            let out = builder.output(output)?;
            builder.convert(state, out)?;
        }
        Ok(())
    }
}

impl Sequence {
    /// The lengths of all rows, kept within the time dimension; `None` where all rows are known to fill it.
    fn row_lengths(&self, builder: &mut Builder, batch: &Dim, steps: &Dim) -> Result<Option<BufferId>, Diagnostic> {
        let known = builder.fact(self.lengths())?.as_sizes();
        if known.is_some_and(|known| known.iter().all(|length| length == steps)) {
            return Ok(None);
        }
        let given = builder.input(self.lengths())?;
        let lengths = builder.temporary(ElementType::I64, vec![batch.clone()]);
        builder.map(lengths, |n, i| {
            let length = n.load(given, i)?;
            let length = n.cast(ElementType::I64, length);
            let (zero, most) = (n.constant(Const::I64(0)), n.index(steps));
            let length = n.binary(Binary::Max, length, zero);
            Ok(n.binary(Binary::Min, length, most))
        })?;
        Ok(Some(lengths))
    }

    /// Copies of the initial states, which the loop changes; zero for rows without any step.
    fn initial_state(
        &self,
        builder: &mut Builder,
        step: &Step,
        lengths: Option<BufferId>,
    ) -> Result<State, Diagnostic> {
        let mut copy = |input: usize| -> Result<BufferId, Diagnostic> {
            let (from, to) = (builder.input(input)?, step.state_buffer(builder));
            builder.map(to, |n, i| {
                let state = n.load(from, i)?;
                let (Some(lengths), Some(batch)) = (lengths, i.first()) else { return Ok(state) };
                let length = n.load(lengths, std::slice::from_ref(batch))?;
                let (none, zero) = (n.constant(Const::I64(0)), n.constant_like(state, 0.0));
                let some = n.binary(Binary::Lt, none, length);
                Ok(n.select(some, state, zero))
            })?;
            Ok(to)
        };
        let hidden = copy(1)?;
        let memory = if self.cell.kind.has_cell_state() { Some(copy(2)?) } else { None };
        Ok(State { hidden, memory })
    }

    /// The loop over time; `state` is carried and holds the last state afterwards.
    fn repeat(&self, builder: &mut Builder, step: Step, state: State) -> Result<(), Diagnostic> {
        let Some(time) = step.time else { return Err(Diagnostic::internal("a sequence without time")) };
        builder.repeat(time.steps, |builder, iteration| {
            let step = Step { time: Some(Time { iteration, ..time }), ..step };
            let next = step.advance(builder, state)?;
            self.collect(builder, &step, next)?;
            let pairs = [Some((next.hidden, state.hidden)), next.memory.zip(state.memory)];
            Ok(pairs.into_iter().flatten().collect())
        })
    }

    /// Writes the hidden state of one step to its position in the result.
    fn collect(&self, builder: &mut Builder, step: &Step, state: State) -> Result<(), Diagnostic> {
        let Some(time) = step.time else { return Err(Diagnostic::internal("a sequence without time")) };
        let (out, dims) = (builder.output(0)?, builder.dims(state.hidden));
        let mut maps = MapAxes::default();
        let index = maps.axes(&dims);
        let [batch, direction, unit] = index.as_slice() else {
            return Err(Diagnostic::internal("a state lacks dimensions"));
        };
        let mut n = builder.nest(&maps.extents);
        let mut value = n.load(state.hidden, &index)?;
        if let Some(inside) = time.is_inside(&mut n, batch)? {
            let zero = n.constant_like(value, 0.0);
            value = n.select(inside, value, zero);
        }
        let position = time.position(&mut n, batch, direction)?;
        n.store(out, &[batch.clone(), direction.clone(), position, unit.clone()], value);
        Ok(())
    }
}
