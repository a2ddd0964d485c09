//! The steps of a loop.
//!
//! A part of an operand is read by a nest that the number of the iteration indexes, and a nest stores the part of a
//! concatenation where it belongs: both fuse with their neighbours. A carried value whose dimensions change from
//! iteration to iteration lies row-major in memory for its largest form.

use super::infer::Run;
use super::trips::{Parts, parts};
use super::{Exit, Repeat, Source};
use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands;
use crate::program::builder::{Builder, as_variable};
use crate::program::{Block, BufferId, Loop, Step, StepKind};
use std::collections::BTreeSet;

pub(super) fn lower(repeat: &Repeat, builder: &mut Builder) -> Result<(), Diagnostic> {
    let run = Run::from_locals(builder.locals()).ok_or_else(|| internal("a loop was not inferred"))?;
    let (parameters, results) = builder.body_facts(0)?;
    let mut lowering = Lowering { repeat, run, parameters, results, starts: Vec::new(), outputs: BTreeSet::new() };
    match lowering.run.ran.as_const() {
        Some(0) => lowering.never(builder),
        Some(1) => lowering.once(builder),
        _ => lowering.again(builder),
    }
}

fn internal(message: &str) -> Diagnostic {
    Diagnostic::internal(message)
}

struct Lowering<'a> {
    repeat: &'a Repeat,
    run: Run,
    /// What is known of the body's parameters.
    parameters: Vec<Fact>,
    /// What is known of the body's results.
    results: Vec<Fact>,
    starts: Vec<Start>,
    /// Results of the operation that need nothing more.
    outputs: BTreeSet<usize>,
}

/// Where a carried value lies at the start of an iteration.
struct Start {
    parameter: usize,
    /// The body's result that follows it.
    result: usize,
    /// The value.
    value: BufferId,
    /// The memory behind it, for a value whose dimensions change.
    storage: Option<BufferId>,
}

impl Lowering<'_> {
    /// No iteration runs.
    fn never(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        for (i, exit) in self.repeat.exits.iter().enumerate() {
            let output = builder.output(i)?;
            match self.operand_of(exit) {
                Some(operand) => builder.copy(builder.input(operand)?, output)?,
                None if exit.concat.is_none() => builder.clear(output)?,
                None => {}
            }
        }
        Ok(())
    }

    /// The operand with which a carried result starts.
    fn operand_of(&self, exit: &Exit) -> Option<usize> {
        self.repeat.entries.iter().find_map(|entry| match entry.source {
            Source::Carried { operand, result } if result == exit.result && exit.concat.is_none() => Some(operand),
            _ => None,
        })
    }

    /// One iteration runs: the body in place of the loop.
    fn once(&mut self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let mut buffers = Vec::with_capacity(self.repeat.entries.len());
        for (i, entry) in self.repeat.entries.iter().enumerate() {
            buffers.push(match entry.source {
                Source::Carried { operand, .. } => builder.input(operand)?,
                _ => self.parameter(i, builder)?,
            });
        }
        let (steps, results) = builder.body(0, &buffers)?;
        builder.append(steps);
        for (i, exit) in self.repeat.exits.iter().enumerate() {
            let from = *results.get(exit.result).ok_or_else(|| internal("a loop lacks a result"))?;
            let to = builder.output(i)?;
            if exit.concat.is_some() { self.store_part(exit, from, to, builder)? } else { builder.copy(from, to)? }
        }
        Ok(())
    }

    fn again(&mut self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if self.run.read {
            builder.read_size(builder.input(0)?, &self.run.count)?;
        }
        let mut buffers = vec![None; self.repeat.entries.len()];
        for (i, entry) in self.repeat.entries.iter().enumerate() {
            let Source::Carried { operand, result } = entry.source else { continue };
            let start = self.start(i, operand, result, builder)?;
            buffers[i] = Some(start.value);
            self.starts.push(start);
        }
        let condition = match self.run.conditional {
            true => Some(self.condition(builder)?),
            false => None,
        };
        let targets = self.targets(builder)?;
        let mut steps = builder.inner(|builder| {
            for (i, buffer) in buffers.iter_mut().enumerate() {
                if buffer.is_none() {
                    *buffer = Some(self.parameter(i, builder)?);
                }
            }
            Ok(())
        })?;
        let buffers: Vec<BufferId> = buffers.into_iter().flatten().collect();
        let (body, results) = builder.body(0, &buffers)?;
        steps.extend(body);
        let mut carried = Vec::new();
        steps.extend(builder.inner(|builder| {
            self.store(&results, &targets, builder)?;
            carried = self.ends(&results, &steps, builder)?;
            if let (Some(condition), Some(next)) = (condition, self.repeat.next) {
                carried.push((scalar_copy(result(&results, next)?, builder)?, condition));
            }
            Ok(())
        })?);
        let iteration = as_variable(&self.run.iteration).ok_or_else(|| internal("a loop without counter"))?;
        builder.push(StepKind::Loop(Box::new(Loop {
            iteration,
            count: self.run.count.clone(),
            condition,
            ran: as_variable(&self.run.ran).filter(|_| self.run.conditional),
            assumed: self.run.assumed,
            carried,
            sizes: self.sizes(),
            body: Block { steps },
        })));
        self.finish(&targets, builder)
    }

    /// A parameter that every iteration finds anew.
    fn parameter(&self, i: usize, builder: &mut Builder) -> Result<BufferId, Diagnostic> {
        let (Some(entry), Some(fact)) = (self.repeat.entries.get(i), self.parameters.get(i)) else {
            return Err(internal("a loop lacks a parameter"));
        };
        match &entry.source {
            Source::Invariant(operand) => builder.input(*operand),
            Source::Part { operand, slice } => {
                let from = builder.input(*operand)?;
                let Parts { axis, first, step, .. } = parts(slice, &builder.dims(from))?;
                let first = first + &(self.run.iteration.clone() * step);
                let to = builder.temporary(fact.element, fact.dims.clone());
                builder.map(to, |nest, index| nest.load(from, &shifted(index, axis, &first)))?;
                Ok(to)
            }
            Source::Counter { .. } => {
                let to = builder.temporary(fact.element, fact.dims.clone());
                let number = self.run.iteration.clone();
                builder.map(to, |nest, _| Ok(nest.index(&number)))?;
                Ok(to)
            }
            Source::Carried { .. } => Err(internal("a carried value has no memory")),
        }
    }

    /// Memory for a carried value, with what the first iteration finds there.
    fn start(
        &mut self,
        parameter: usize,
        operand: usize,
        result: usize,
        builder: &mut Builder,
    ) -> Result<Start, Diagnostic> {
        let (Some(before), Some(after)) = (self.parameters.get(parameter), self.results.get(result)) else {
            return Err(internal("a loop lacks a parameter"));
        };
        let from = builder.input(operand)?;
        let first = builder.dims(from);
        if before.dims == after.dims && before.dims == first {
            // Where the last value is a result of the loop, it is already there at the end.
            let exit = self.repeat.exits.iter().position(|exit| exit.result == result && exit.concat.is_none());
            let value = match exit {
                Some(i) if self.outputs.insert(i) => builder.output(i)?,
                _ => builder.temporary(before.element, first),
            };
            builder.copy(from, value)?;
            return Ok(Start { parameter, result, value, storage: None });
        }
        let largest = |forms: [&[Dim]; 3], axis: usize| {
            forms.iter().filter_map(|dims| dims.get(axis)).map(Dim::upper_bound).max().unwrap_or(1)
        };
        let largest = |axis: usize| Dim::constant(largest([&first, &before.dims, &after.dims], axis));
        let storage = builder.temporary(before.element, (0..first.len()).map(largest).collect());
        let at_first = builder.view(storage, first.clone());
        for (open, size) in before.dims.iter().zip(&first) {
            builder.set_size(open, size.clone());
        }
        builder.copy(from, at_first)?;
        let value = builder.view(storage, before.dims.clone());
        Ok(Start { parameter, result, value, storage: Some(storage) })
    }

    /// The condition, as a boolean scalar of its own.
    fn condition(&self, builder: &mut Builder) -> Result<BufferId, Diagnostic> {
        match self.repeat.counted {
            true => scalar_copy(builder.input(1)?, builder),
            false => Err(internal("a condition without operand")),
        }
    }

    /// Where every result of the operation is written inside of the loop; carried ones are not.
    fn targets(&mut self, builder: &mut Builder) -> Result<Vec<Option<BufferId>>, Diagnostic> {
        let mut targets = Vec::with_capacity(self.repeat.exits.len());
        for (i, exit) in self.repeat.exits.iter().enumerate() {
            let (output, fact) = (builder.output(i)?, self.results.get(exit.result));
            let dims = &fact.ok_or_else(|| internal("a loop lacks a result"))?.dims;
            targets.push(match exit.concat {
                // How many parts there will be is not known yet: memory for all of them.
                Some((axis, _)) if self.run.conditional => {
                    let mut dims = builder.dims(output);
                    let axis = operands::axis(axis, dims.len())?;
                    dims[axis] = Dim::constant(dims[axis].upper_bound());
                    Some(builder.temporary(builder.element(output), dims))
                }
                Some(_) => Some(output),
                None if self.starts.iter().any(|start| start.result == exit.result) => None,
                None => {
                    let whole = builder.dims(output);
                    let target = if whole == *dims { output } else { builder.view(output, dims.clone()) };
                    if self.run.ran.range().min < 1 {
                        let all = product(&whole).upper_bound();
                        let all = builder.view(output, vec![Dim::constant(all)]);
                        builder.clear(if whole == *dims { output } else { all })?;
                    }
                    Some(target)
                }
            });
        }
        Ok(targets)
    }

    /// Stores the results of one iteration that are results of the operation.
    fn store(
        &self,
        results: &[BufferId],
        targets: &[Option<BufferId>],
        builder: &mut Builder,
    ) -> Result<(), Diagnostic> {
        for (exit, target) in self.repeat.exits.iter().zip(targets) {
            let (from, Some(to)) = (result(results, exit.result)?, *target) else { continue };
            if exit.concat.is_some() { self.store_part(exit, from, to, builder)? } else { builder.copy(from, to)? }
        }
        Ok(())
    }

    /// Stores the part of one iteration where it belongs in a concatenation.
    fn store_part(&self, exit: &Exit, from: BufferId, to: BufferId, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (dims, whole) = (builder.dims(from), builder.dims(to));
        let Some((axis, backwards)) = exit.concat else { return Ok(()) };
        let axis = operands::axis(axis, whole.len())?;
        let part = dims.get(axis).cloned().unwrap_or(Dim::constant(1));
        let place = match backwards {
            false => self.run.iteration.clone(),
            true => self.total() - 1 - &self.run.iteration,
        };
        let mut nest = builder.nest(&dims);
        let index = nest.map_axes();
        let value = nest.load(from, &index)?;
        let index = if index.is_empty() { vec![Dim::constant(0)] } else { index };
        nest.store(to, &shifted(&index, axis, &(place * &part)), value);
        Ok(())
    }

    /// Number of parts for which the target of a concatenation has memory.
    fn total(&self) -> Dim {
        if self.run.conditional { Dim::constant(self.run.count.upper_bound()) } else { self.run.count.clone() }
    }

    /// The values that the next iteration gets, each in memory of its own that the iteration wrote.
    fn ends(
        &self,
        results: &[BufferId],
        steps: &[Step],
        builder: &mut Builder,
    ) -> Result<Vec<(BufferId, BufferId)>, Diagnostic> {
        let mut own: BTreeSet<BufferId> = steps.iter().flat_map(|step| step.accesses().1).collect();
        let mut carried = Vec::new();
        for start in &self.starts {
            let mut end = result(results, start.result)?;
            if end == start.value {
                continue;
            }
            if !own.remove(&end) {
                let copy = builder.temporary(builder.element(end), builder.dims(end));
                builder.copy(end, copy)?;
                end = copy;
            }
            carried.push(match start.storage {
                None => (end, start.value),
                Some(storage) => {
                    let all = vec![product(&builder.dims(end))];
                    (builder.view(end, all.clone()), builder.view(storage, all))
                }
            });
        }
        Ok(carried)
    }

    /// Run-time sizes of carried values that no formula gives, and their next values.
    fn sizes(&self) -> Vec<(crate::dim::Variable, Dim)> {
        let mut sizes = Vec::new();
        for start in &self.starts {
            let (Some(before), Some(after)) = (self.parameters.get(start.parameter), self.results.get(start.result))
            else {
                continue;
            };
            for (size, next) in before.dims.iter().zip(&after.dims) {
                let own = as_variable(size).filter(|size| Some(*size) != as_variable(&self.run.iteration));
                if let Some(size) = own.filter(|_| size != next) {
                    sizes.push((size, next.clone()));
                }
            }
        }
        sizes
    }

    /// After the loop: what is left to copy.
    fn finish(&self, targets: &[Option<BufferId>], builder: &mut Builder) -> Result<(), Diagnostic> {
        for (i, (exit, target)) in self.repeat.exits.iter().zip(targets).enumerate() {
            let output = builder.output(i)?;
            match (exit.concat, target) {
                (Some((axis, backwards)), Some(staged)) if *staged != output => {
                    let axis = operands::axis(axis, builder.dims(output).len())?;
                    let unused = builder.dims(*staged)[axis].clone() - &builder.dims(output)[axis];
                    let first = if backwards { unused } else { Dim::constant(0) };
                    builder.map(output, |nest, index| nest.load(*staged, &shifted(index, axis, &first)))?;
                }
                (None, None) if !self.outputs.contains(&i) => {
                    let start = self.starts.iter().find(|start| start.result == exit.result);
                    let start = start.ok_or_else(|| internal("a carried value is missing"))?;
                    let from = match start.storage {
                        None => start.value,
                        Some(storage) => builder.view(storage, builder.dims(output)),
                    };
                    builder.copy(from, output)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn result(results: &[BufferId], i: usize) -> Result<BufferId, Diagnostic> {
    results.get(i).copied().ok_or_else(|| internal("a loop lacks a result"))
}

/// An index moved along one axis.
fn shifted(index: &[Dim], axis: usize, by: &Dim) -> Vec<Dim> {
    index.iter().enumerate().map(|(i, at)| if i == axis { at.clone() + by } else { at.clone() }).collect()
}

/// A scalar with the only element of a tensor.
fn scalar_copy(from: BufferId, builder: &mut Builder) -> Result<BufferId, Diagnostic> {
    let to = builder.temporary(ElementType::Boolean, Vec::new());
    let zeros = vec![Dim::constant(0); builder.dims(from).len()];
    builder.map(to, |nest, _| nest.load(from, &zeros))?;
    Ok(to)
}
