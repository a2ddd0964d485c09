//! Facts of a loop: those of its body hold in every iteration.

use super::carried::{self, Carried, is_local};
use super::trips::{self, Trips, parts};
use super::{Entry, Exit, Repeat, Source};
use crate::diag::{Diagnostic, codes, quote};
use crate::dim::{Atom, Dim};
use crate::fact::{Fact, Value};
use crate::op::InferContext;
use crate::op::operands::{self, operand};

/// Searching for the end of a loop stops at so many iterations.
const SEARCHED: i64 = 1 << 24;

/// What inference found of a loop: how often and with which run-time sizes it runs.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Number of the iteration, inside of the body.
    pub iteration: Dim,
    /// Largest number of iterations.
    pub count: Dim,
    /// Number of iterations that run: `count`, or what the condition leaves of it.
    pub ran: Dim,
    /// A condition may end the loop.
    pub conditional: bool,
    /// Going on behind `count` is an error of the run.
    pub assumed: bool,
    /// `count` is read from operand 0.
    pub read: bool,
}

impl Run {
    fn to_locals(&self) -> Vec<Dim> {
        let flags = [self.conditional, self.assumed, self.read].map(|flag| Dim::constant(i64::from(flag)));
        [self.iteration.clone(), self.count.clone(), self.ran.clone()].into_iter().chain(flags).collect()
    }

    /// The same from [`InferContext::locals`].
    pub fn from_locals(locals: &[Dim]) -> Option<Run> {
        let [iteration, count, ran, conditional, assumed, read] = locals else { return None };
        Some(Run {
            iteration: iteration.clone(),
            count: count.clone(),
            ran: ran.clone(),
            conditional: conditional.is(1),
            assumed: assumed.is(1),
            read: read.is(1),
        })
    }
}

/// A loop while it is inferred.
struct Inference<'a> {
    repeat: &'a Repeat,
    inputs: &'a [Fact],
    /// Sizes from here on belong to the body.
    mark: usize,
    carried: Vec<Carried>,
}

pub(super) fn infer(repeat: &Repeat, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
    let trips = trips::trips(repeat, inputs, context)?;
    let mark = context.variables.len();
    let mut inference = Inference { repeat, inputs, mark, carried: carried::all(repeat, inputs)? };
    let (run, results) = inference.run(trips, context)?;
    let outputs = repeat.exits.iter().map(|exit| inference.output(exit, &run, &results)).collect();
    context.locals = run.to_locals();
    outputs
}

impl Inference<'_> {
    /// Facts of the body's results, whichever iteration runs.
    fn run(&mut self, trips: Trips, context: &mut InferContext) -> Result<(Run, Vec<Fact>), Diagnostic> {
        let mut iteration = Dim::constant(0);
        let mut results = self.attempt(&iteration, context)?;
        for carried in &mut self.carried {
            carried.guess(operand(&results, carried.result)?, self.mark)?;
        }
        let again = self.again(&results)?;
        let mut count = trips.count.clone();
        if again == Some(false) {
            count = Some(count.unwrap_or(Dim::constant(1)).minimum(&Dim::constant(1)));
        }
        let mut exact = again == Some(false);
        let open = self.carried.iter().any(Carried::is_open);
        while count.as_ref().is_none_or(|count| count.upper_bound() > 1 || (open && !count.is(1))) {
            let (limit, ends) = match &count {
                Some(count) => (count.upper_bound(), exact),
                None => match (self.search(context), context.bound_of_others()) {
                    (Err(_), Some(bound)) => (bound, false),
                    (found, _) => found?,
                },
            };
            let held;
            (iteration, results, held) = self.settle(limit, context)?;
            if held || count.is_some() {
                // The limit rests on facts that hold in every iteration.
                count.get_or_insert(Dim::constant(limit));
                exact |= ends;
                break;
            }
        }
        let count = count.unwrap_or_default();
        let endless = trips.assumed && trips.count.is_none_or(|assumed| assumed == count);
        let conditional = trips.first.is_none() || !(exact || self.again(&results)? == Some(true));
        if endless && !conditional && !exact {
            let message = format!("{} never ends", quote(&self.repeat.name));
            return Err(Diagnostic::error(&codes::VALUE, message)
                .note("its trip count does not end it, and its condition is always true"));
        }
        let name = &self.repeat.name;
        if iteration.as_const().is_some() && (conditional || !count.is(1)) {
            iteration = context.fresh(&format!("{name} iteration"), 0, 0);
        }
        let least = if trips.first == Some(true) { count.range().min.clamp(0, 1) } else { 0 };
        let most = count.upper_bound().max(0);
        let ran = if conditional { context.fresh(name, least.min(most), most) } else { count.clone() };
        let assumed = endless && !exact;
        Ok((Run { iteration, count, ran, conditional, assumed, read: trips.read }, results))
    }

    /// Infers the body for an iteration.
    fn attempt(&mut self, iteration: &Dim, context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let mut parameters = Vec::with_capacity(self.repeat.entries.len());
        for (i, entry) in self.repeat.entries.iter().enumerate() {
            parameters.push(match &entry.source {
                Source::Invariant(operand) => operands::operand(self.inputs, *operand)?.clone(),
                Source::Counter { element, dims } => Fact::sizes(*element, dims.clone(), vec![iteration.clone()]),
                Source::Part { operand, slice } => {
                    let whole = operands::operand(self.inputs, *operand)?;
                    let mut dims = whole.dims.clone();
                    if let Some(dim) = dims.get_mut(parts(slice, &whole.dims)?.axis) {
                        *dim = Dim::constant(slice.part_size);
                    }
                    Fact::new(whole.element, dims)
                }
                Source::Carried { .. } => {
                    let carried = self.carried.iter().find(|carried| carried.parameter == i);
                    carried.ok_or_else(|| Diagnostic::internal("a carried value is missing"))?.at(iteration)
                }
            });
        }
        let wrong = |(entry, fact): &(&Entry, &Fact)| entry.element.is_some_and(|element| element != fact.element);
        if let Some((entry, fact)) = self.repeat.entries.iter().zip(&parameters).find(wrong) {
            let element = entry.element.unwrap_or(fact.element);
            let message =
                format!("parameter {} of the body is {element}, but gets {}", quote(&entry.name), fact.element);
            return Err(Diagnostic::error(&codes::TYPE, message).help("insert a Convert layer in front of the loop"));
        }
        context.body(0, parameters)
    }

    /// Whether another iteration follows, where that is known: always, if nothing but the count ends the loop.
    fn again(&self, results: &[Fact]) -> Result<Option<bool>, Diagnostic> {
        match self.repeat.next {
            None => Ok(Some(true)),
            Some(next) => super::super::condition(operand(results, next)?, "the condition of a Loop"),
        }
    }

    /// Facts that hold in all of `limit` iterations: what does not hold is weakened until the rest does. Also returns
    /// the number of the iteration, and whether the first guess held.
    fn settle(&mut self, limit: i64, context: &mut InferContext) -> Result<(Dim, Vec<Fact>, bool), Diagnostic> {
        let mut first = true;
        loop {
            context.variables.truncate(self.mark);
            let name = format!("{} iteration", self.repeat.name);
            let iteration = context.fresh(&name, 0, limit.saturating_sub(1).max(0));
            for carried in &mut self.carried {
                carried.declare(context, limit)?;
            }
            let mut held = true;
            match self.attempt(&iteration, context) {
                Ok(results) => {
                    for carried in &mut self.carried {
                        held &= carried.holds(&iteration, operand(&results, carried.result)?)?;
                    }
                    if held {
                        return Ok((iteration, results, first));
                    }
                }
                // Shapes that were guessed wrong may not fit the body.
                Err(diagnostic) => {
                    self.carried.iter_mut().for_each(|carried| held &= !carried.weaken());
                    if held {
                        return Err(diagnostic);
                    }
                }
            }
            first = false;
        }
    }

    /// The number of iterations after which the condition certainly fails, and whether it certainly holds before: by
    /// inferring the body for single iterations, in which carried counters and conditions are constants.
    fn search(&mut self, context: &mut InferContext) -> Result<(i64, bool), Diagnostic> {
        if self.carried.iter().any(Carried::is_open) {
            return Err(trips::unbounded(self.repeat));
        }
        let mut exact = true;
        let (mut low, mut high) = (0, 1);
        while self.ends_at(high, &mut exact, context)? != Some(true) {
            (low, high) = (high, high * 2 + 1);
            if high > SEARCHED {
                return Err(trips::unbounded(self.repeat));
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.ends_at(middle, &mut exact, context)? {
                Some(true) => high = middle,
                _ => low = middle,
            }
        }
        // In all iterations before the last one, the condition must hold.
        context.variables.truncate(self.mark);
        if exact {
            let before = context.fresh(&self.repeat.name, 0, high - 1);
            let results = self.attempt(&before, context)?;
            exact = self.again(&results)? == Some(true);
        }
        Ok((high + 1, exact))
    }

    fn ends_at(&mut self, at: i64, exact: &mut bool, context: &mut InferContext) -> Result<Option<bool>, Diagnostic> {
        context.variables.truncate(self.mark);
        let results = self.attempt(&Dim::constant(at), context)?;
        let again = self.again(&results)?;
        *exact &= again.is_some();
        Ok(again.map(|again| !again))
    }

    fn output(&self, exit: &Exit, run: &Run, results: &[Fact]) -> Result<Fact, Diagnostic> {
        let result = operand(results, exit.result)?;
        let once = run.ran.is(1);
        let Some((axis, _)) = exit.concat else {
            let carried = self.carried.iter().find(|carried| carried.result == exit.result);
            return Ok(match carried {
                _ if once => result.clone(),
                Some(carried) => carried.at(&run.ran),
                None => last(result, run),
            });
        };
        let mut dims = if result.rank() == 0 { vec![Dim::constant(1)] } else { result.dims.clone() };
        let axis = operands::axis(axis, dims.len())?;
        if dims.iter().any(|dim| is_local(dim, self.mark)) {
            let message = format!("parts of {result} are concatenated, but their shape changes between iterations");
            return Err(Diagnostic::error(&codes::UNSUPPORTED, message));
        }
        let dim = &mut dims[axis];
        if let (Some(part), Some(size)) = (exit.part, dim.as_const())
            && part != size
        {
            let message = format!("parts of {part} elements are concatenated, but the body gives {size}");
            return Err(Diagnostic::error(&codes::BODY, message));
        }
        *dim = dim.clone() * &run.ran;
        Ok(Fact::new(result.element, dims))
    }
}

/// A result of the last iteration that is not carried.
fn last(result: &Fact, run: &Run) -> Fact {
    let iteration = (run.ran.clone() - 1).maximum(&Dim::constant(0));
    let number = match run.iteration.parts().0 {
        [(product, 1)] => product.first().cloned(),
        _ => None,
    };
    let at_end = |dim: &Dim| {
        dim.substitute(&|atom| match number.as_ref() == Some(atom) && matches!(atom, Atom::Variable(_)) {
            true => Some(iteration.clone()),
            false => None,
        })
    };
    // Without any iteration the result is zero.
    let value = match &result.value {
        _ if run.ran.range().min < 1 => Value::Unknown,
        Value::Sizes(sizes) => Value::Sizes(sizes.iter().map(at_end).collect()),
        Value::Fractions(_) => Value::Unknown,
        other => other.clone(),
    };
    Fact { element: result.element, dims: result.dims.iter().map(at_end).collect(), value }
}
