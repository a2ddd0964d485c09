//! What is known of carried values at the start of any iteration: facts that stay, grow evenly, or are open.

use super::{Repeat, Source};
use crate::diag::{Diagnostic, codes, quote};
use crate::dim::{Atom, Dim};
use crate::fact::{Fact, MAX_SYMBOLIC, Value};
use crate::op::InferContext;
use crate::op::operands::operand;

/// Largest dimension that an unknown growth may lead to without a bound from the user.
const LARGEST: i64 = 1 << 31;

/// A value that one iteration hands to the next.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    /// Name of the body's parameter.
    name: String,
    /// Which parameter of the body it is.
    pub parameter: usize,
    /// Which result of the body the next iteration gets.
    pub result: usize,
    first: Fact,
    dims: Vec<Course>,
    elements: Elements,
}

/// How a dimension changes.
#[derive(Clone, Debug)]
enum Course {
    /// By so much with every iteration.
    Even(Dim),
    /// In a way that only a run-time size can say.
    Open { size: Option<Dim>, min: i64, max: i64, given: bool },
}

/// How elements change.
#[derive(Clone, Debug)]
enum Elements {
    /// Not at all.
    Fixed,
    /// Sizes, each by so much with every iteration.
    Even(Vec<Dim>),
    /// Nothing is known.
    Open,
}

/// Whether a size depends on one that is younger than the first `mark`: one that a body found.
pub(super) fn is_local(dim: &Dim, mark: usize) -> bool {
    let mut found = false;
    dim.for_each_atom(&mut |atom| found |= matches!(atom, Atom::Variable(v) if v.id as usize >= mark));
    found
}

/// All carried values of a loop as they enter the first iteration.
///
/// # Errors
/// An internal error where an operand is missing.
pub(super) fn all(repeat: &Repeat, inputs: &[Fact]) -> Result<Vec<Carried>, Diagnostic> {
    let mut list = Vec::new();
    for (parameter, entry) in repeat.entries.iter().enumerate() {
        let Source::Carried { operand: i, result } = entry.source else { continue };
        let first = operand(inputs, i)?.clone();
        let dims = vec![Course::Even(Dim::constant(0)); first.rank()];
        list.push(Carried { name: entry.name.clone(), parameter, result, first, dims, elements: Elements::Fixed });
    }
    Ok(list)
}

impl Carried {
    /// What is known at the start of an iteration, or after so many.
    pub fn at(&self, iteration: &Dim) -> Fact {
        let dim = |(first, course): (&Dim, &Course)| match course {
            Course::Even(growth) => first.clone() + &(growth.clone() * iteration),
            Course::Open { size, .. } => size.clone().unwrap_or_else(|| first.clone()),
        };
        let dims = self.first.dims.iter().zip(&self.dims).map(dim).collect();
        let value = match (&self.elements, self.first.as_sizes()) {
            (Elements::Fixed, _) => self.first.value.clone(),
            (Elements::Even(growth), Some(first)) => {
                Value::Sizes(first.into_iter().zip(growth).map(|(a, by)| a + &(by.clone() * iteration)).collect())
            }
            _ => Value::Unknown,
        };
        Fact { element: self.first.element, dims, value }
    }

    /// Guesses the course of everything from what the first iteration made of it.
    ///
    /// # Errors
    /// Another element type or number of dimensions.
    pub fn guess(&mut self, after: &Fact, mark: usize) -> Result<(), Diagnostic> {
        if after.element != self.first.element || after.rank() != self.first.rank() {
            let message = format!("{} is {} first and {after} after one iteration", quote(&self.name), self.first);
            return Err(Diagnostic::error(&codes::SHAPE, message)
                .note("element type and number of dimensions of a carried value must stay the same"));
        }
        for ((course, a), b) in self.dims.iter_mut().zip(&self.first.dims).zip(&after.dims) {
            let growth = b.clone() - a;
            *course = match is_local(&growth, mark) {
                true => Course::Open { size: None, min: 0, max: 0, given: false },
                false => Course::Even(growth),
            };
        }
        self.elements = self.guess_elements(after, mark);
        Ok(())
    }

    fn guess_elements(&self, after: &Fact, mark: usize) -> Elements {
        if self.first.value == after.value && after.value != Value::Unknown && self.first.dims == after.dims {
            return Elements::Fixed;
        }
        let sizes = |fact: &Fact| fact.as_sizes().filter(|sizes| sizes.len() <= MAX_SYMBOLIC);
        match (self.first.element.is_integer(), sizes(&self.first), sizes(after)) {
            (true, Some(a), Some(b)) if a.len() == b.len() => {
                let growth: Vec<Dim> = a.iter().zip(b).map(|(a, b)| b - a).collect();
                if growth.iter().any(|by| is_local(by, mark)) { Elements::Open } else { Elements::Even(growth) }
            }
            _ => Elements::Open,
        }
    }

    /// Whether a dimension has a run-time size of its own.
    pub fn is_open(&self) -> bool {
        self.dims.iter().any(|course| matches!(course, Course::Open { .. }))
    }

    /// Makes the run-time sizes that the courses need. `trips` bounds the number of iterations.
    ///
    /// # Errors
    /// A size for which there is no bound.
    pub fn declare(&mut self, context: &mut InferContext, trips: i64) -> Result<(), Diagnostic> {
        for (axis, (course, first)) in self.dims.iter_mut().zip(&self.first.dims).enumerate() {
            let Course::Open { size, min, max, given } = course else { continue };
            let (name, range) = (format!("{}_{axis}", self.name), first.range());
            let total = |by: i64| by.saturating_mul(trips);
            let low = range.min.saturating_add(total((*min).min(0))).max(0);
            let high = range.max.saturating_add(total((*max).max(0)));
            let follows = (high < LARGEST).then_some(high);
            let bound = context.bound(&name).or(if follows.is_some() { None } else { context.bound_of_others() });
            *given = bound.is_some();
            let high = bound.or(follows).ok_or_else(|| unbounded(&self.name, axis))?;
            *size = Some(context.fresh(&name, low.min(high), high));
        }
        Ok(())
    }

    /// Gives up the guess of how dimensions and elements change; whether there was one.
    pub fn weaken(&mut self) -> bool {
        let mut weakened = matches!(self.elements, Elements::Even(_));
        if weakened {
            self.elements = Elements::Open;
        }
        for course in &mut self.dims {
            if let Course::Even(growth) = course
                && !growth.is(0)
            {
                let range = growth.range();
                *course = Course::Open { size: None, min: range.min, max: range.max, given: false };
                weakened = true;
            }
        }
        weakened
    }

    /// Compares with what an iteration made of it, and weakens what does not hold; whether everything held.
    ///
    /// # Errors
    /// Sizes for which there is no bound.
    pub fn holds(&mut self, iteration: &Dim, after: &Fact) -> Result<bool, Diagnostic> {
        let (before, expected) = (self.at(iteration), self.at(&(iteration.clone() + 1)));
        let mut held = true;
        for (axis, course) in self.dims.iter_mut().enumerate() {
            let (Some(a), Some(b)) = (before.dims.get(axis), after.dims.get(axis)) else {
                return Err(Diagnostic::internal("a carried value changes its rank"));
            };
            let growth = (b.clone() - a).range();
            match course {
                Course::Even(_) if expected.dims.get(axis) == Some(b) => {}
                Course::Even(_) => {
                    *course = Course::Open { size: None, min: growth.min, max: growth.max, given: false };
                    held = false;
                }
                // A size with a bound from the user is checked while the model runs.
                Course::Open { given: true, .. } => {}
                Course::Open { min, max, .. } if growth.min >= *min && growth.max <= *max => {}
                Course::Open { size, min, max, .. } => {
                    // Growth that itself grows with the size has no end.
                    if *max > 0 && size.is_some() && growth.max > *max {
                        return Err(unbounded(&self.name, axis));
                    }
                    (*min, *max) = (growth.min.min(*min), growth.max.max(*max));
                    held = false;
                }
            }
        }
        let same = match &self.elements {
            Elements::Open => true,
            Elements::Fixed => after.value == expected.value && expected.value != Value::Unknown,
            Elements::Even(_) => after.as_sizes() == expected.as_sizes() && after.as_sizes().is_some(),
        };
        if !same {
            self.elements = Elements::Open;
        }
        Ok(held && same)
    }
}

fn unbounded(name: &str, axis: usize) -> Diagnostic {
    let message = format!("dimension {axis} of {}, which a loop carries, has no upper bound", quote(name));
    Diagnostic::error(&codes::UNBOUNDED, message)
        .note("it grows from iteration to iteration, and not always by the same size")
        .help(format!("give a bound: --bound {name}_{axis}=100"))
}
