//! Sizes that operations read from data, and what bounds them.
//!
//! An operand that decides a shape is a constant or follows from shapes in most models. Where it is data, its elements
//! become run-time sizes that a step reads, and the rest of the model is compiled with these as with any others.

use super::InferContext;
use super::operands::{self, NOT_KNOWN};
use crate::diag::{Diagnostic, codes, quote};
use crate::dim::{Dim, Shared, Variable, product};
use crate::fact::{Fact, MAX_SYMBOLIC, Value};
use crate::graph::{Read, SizeSource, VariableInfo};
use std::borrow::Cow;

impl InferContext<'_> {
    /// Sizes that the operation finds in data, one for each of `largest`. The product of those that are not zero is at most
    /// `most`.
    pub fn found(&mut self, name: &str, largest: &[i64], most: i64) -> Vec<Dim> {
        let (first, most) = (self.variables.len() as u32, most.max(1));
        let name = if largest.len() > 1 { format!("{name} (all together)") } else { name.to_owned() };
        for (id, largest) in (first..).zip(largest) {
            let (max, shared) = ((*largest).clamp(0, most), Some(Shared { first, max: most }));
            let variable = Variable { id, min: 0, max, shared };
            self.variables.push(VariableInfo { variable, name: name.clone(), source: SizeSource::Step });
        }
        self.variables.iter().skip(first as usize).map(|info| Dim::variable(info.variable)).collect()
    }

    /// `count` sizes that the operation finds in data, `what`, as the user bounds them: each of them, or the number of
    /// elements of the result, which is `times` their product.
    ///
    /// # Errors
    /// Without a bound.
    pub fn bounded(&mut self, what: &str, count: usize, times: &Dim) -> Result<Vec<Dim>, Diagnostic> {
        let layer = self.layer;
        let each: Vec<Option<i64>> = (0..count).map(|i| self.bound(&format!("{layer}_{i}"))).collect();
        let product = each.iter().try_fold(1i64, |all, one| one.map(|one| all.saturating_mul(one)));
        let all = self.bound(layer).or(if product.is_some() { None } else { self.bound_of_others() });
        let most = all.map(|all| all / times.upper_bound().max(1)).into_iter().chain(product).min();
        let most = most.ok_or_else(|| {
            Diagnostic::error(&codes::UNBOUNDED, format!("{what} must be known or bounded when the model is compiled"))
                .note(format!("how much memory the result of {} needs depends on it", quote(layer)))
                .help(format!(
                    "give the largest number of elements of the result, --bound {layer}=1000, or {NOT_KNOWN}"
                ))
        })?;
        let largest: Vec<i64> = each.into_iter().map(|one| one.unwrap_or(most)).collect();
        Ok(self.found(what, &largest, most))
    }

    /// The operands, with run-time sizes as the elements of those with the numbers `which` that are not known: a step reads
    /// them before the operation runs. Its result has as many elements as the product of all of them says, `times` over.
    ///
    /// # Errors
    /// Operands of unknown length, and sizes without bound.
    pub fn sized<'f>(
        &mut self,
        inputs: &'f [Fact],
        which: &[usize],
        what: &str,
        times: &Dim,
    ) -> Result<Cow<'f, [Fact]>, Diagnostic> {
        self.filled(inputs, which, what, |context, count| context.bounded(what, count, times))
    }

    /// The same for one operand, of which -1 as an element stands for what `unsaid` has in its place.
    ///
    /// # Errors
    /// An operand of another length, and sizes without bound.
    pub fn sized_or<'f>(
        &mut self,
        inputs: &'f [Fact],
        operand: usize,
        what: &str,
        times: &Dim,
        unsaid: Vec<Dim>,
    ) -> Result<Cow<'f, [Fact]>, Diagnostic> {
        let before = self.reads.len();
        let inputs = self.sized(inputs, &[operand], what, times)?;
        for read in self.reads.iter_mut().skip(before) {
            if read.sizes.len() != unsaid.len() {
                let message = format!("{what} must be {} numbers, not {}", unsaid.len(), read.sizes.len());
                return Err(Diagnostic::error(&codes::SHAPE, message));
            }
            read.unsaid.clone_from(&unsaid);
        }
        Ok(inputs)
    }

    /// The same for sizes whose product is at most `most`, whatever the user says.
    ///
    /// # Errors
    /// Operands of unknown length.
    pub fn sized_within<'f>(
        &mut self,
        inputs: &'f [Fact],
        which: &[usize],
        what: &str,
        most: i64,
    ) -> Result<Cow<'f, [Fact]>, Diagnostic> {
        self.filled(inputs, which, what, |context, count| Ok(context.found(what, &vec![most; count], most)))
    }

    fn filled<'f>(
        &mut self,
        inputs: &'f [Fact],
        which: &[usize],
        what: &str,
        find: impl FnOnce(&mut Self, usize) -> Result<Vec<Dim>, Diagnostic>,
    ) -> Result<Cow<'f, [Fact]>, Diagnostic> {
        let mut open = Vec::new();
        for i in which {
            let fact = operands::operand(inputs, *i)?;
            if fact.as_sizes().is_none() && fact.element.is_integer() {
                open.push((*i, listed(fact, what)?));
            }
        }
        if open.is_empty() {
            return Ok(Cow::Borrowed(inputs));
        }
        let mut sizes = find(self, open.iter().map(|(_, count)| count).sum())?;
        let mut inputs = inputs.to_vec();
        for (operand, count) in open {
            let rest = sizes.split_off(count.min(sizes.len()));
            let sizes = std::mem::replace(&mut sizes, rest);
            if let Some(fact) = inputs.get_mut(operand) {
                fact.value = Value::Sizes(sizes.clone());
            }
            self.reads.push(Read { operand, sizes, unsaid: Vec::new() });
        }
        Ok(Cow::Owned(inputs))
    }
}

/// Number of elements of an operand that is read.
///
/// # Errors
/// A number that is a run-time size itself, or too large.
pub fn listed(fact: &Fact, what: &str) -> Result<usize, Diagnostic> {
    product(&fact.dims).as_usize().filter(|count| *count <= MAX_SYMBOLIC).ok_or_else(|| {
        let message = format!("{what} must be a list of at most {MAX_SYMBOLIC} numbers, not {fact}");
        Diagnostic::error(&codes::UNSUPPORTED, message).note("its length decides the number of dimensions")
    })
}
