//! Control flow: branches, loops, and run-time sizes that steps find.

use super::dims::{self, Scope};
use super::steps::Steps;
use crate::diag::Diagnostic;
use crate::dim::{Dim, Variable};
use crate::program::{Block, BufferId, Loop, Program, Step, StepKind};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeSet;

impl Steps<'_> {
    /// One of two blocks.
    pub(super) fn branch(
        &mut self,
        condition: BufferId,
        then: &Block,
        otherwise: &Block,
    ) -> Result<TokenStream, Diagnostic> {
        let condition = self.scalar(condition)?;
        let (then, otherwise) = (self.block(then, "then")?, self.block(otherwise, "otherwise")?);
        Ok(quote!(if #condition { #then } else { #otherwise }))
    }

    /// A block again and again.
    pub(super) fn repeat(&mut self, step: &Loop) -> Result<TokenStream, Diagnostic> {
        let count = self.size(&step.count);
        let condition = step.condition.map(|condition| self.scalar(condition)).transpose()?;
        let body = self.block(&step.body, "body")?;
        let mut carry = TokenStream::new();
        for (end, start) in &step.carried {
            if let Some((views, copy)) = self.reshape(*end, *start)? {
                carry.extend(self.call(&views, &copy, "carry", "carried to the next iteration", false)?);
            }
        }
        let sizes = self.sizes(&step.sizes);
        let more = condition.as_ref().map(|condition| quote!(&& #condition));
        // A condition that holds behind the last iteration puts the number of iterations out of its bounds.
        let over =
            condition.filter(|_| step.assumed).map(|condition| quote!(+ usize::from(iteration == count && #condition)));
        let number = set(step.iteration, &quote!(iteration));
        let ran = step.ran.map(|ran| set(ran, &quote!(iteration #over)));
        Ok(quote! {{
            let count: usize = #count;
            let mut iteration = 0usize;
            while iteration < count #more {
                let cx = cx.in_iteration(iteration);
                #number #body #carry #sizes
                iteration += 1;
            }
            #ran
        }})
    }

    /// Gives run-time sizes their values, all at once.
    pub(super) fn sizes(&self, sizes: &[(Variable, Dim)]) -> TokenStream {
        if sizes.is_empty() {
            return TokenStream::new();
        }
        let name = |variable: &Variable| format_ident!("next{}", variable.id);
        let (names, values): (Vec<_>, Vec<_>) =
            sizes.iter().map(|(variable, value)| (name(variable), self.size(value))).unzip();
        let set = sizes.iter().map(|(variable, _)| {
            let name = name(variable);
            set(*variable, &quote!(#name))
        });
        quote!({ #(let #names: usize = #values;)* #(#set)* })
    }

    /// The value of a size where a block stands.
    fn size(&self, size: &Dim) -> TokenStream {
        if let Some(size) = size.as_usize() {
            let size = Literal::usize_unsuffixed(size);
            return quote!(#size);
        }
        let (unpacked, value) = (dims::unpacked(self.program), Scope::default().index(size));
        quote!({ let #unpacked = *dims; #value })
    }
}

/// Sizes that may get a value out of their bounds, so that a run may fail.
pub(super) fn doubtful(program: &Program) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut pending: Vec<&Step> = program.root.steps.iter().collect();
    while let Some(step) = pending.pop() {
        let mut check = |variable: &Variable, value: &Dim| {
            let range = value.range();
            if range.min < variable.min || range.max > variable.max {
                found.insert(variable.id);
            }
        };
        match &step.kind {
            StepKind::Size { variable, value } => check(variable, value),
            StepKind::Loop(step) => {
                step.sizes.iter().for_each(|(variable, next)| check(variable, next));
                found.extend(step.ran.filter(|_| step.assumed).map(|ran| ran.id));
            }
            StepKind::Call(call) => found.extend(call.sizes.iter().map(|size| size.id)),
            _ => {}
        }
        pending.extend(step.blocks().into_iter().flat_map(|block| &block.steps));
    }
    found
}

fn set(variable: Variable, value: &TokenStream) -> TokenStream {
    let at = Literal::u32_unsuffixed(variable.id);
    let bound = |bound: i64| Literal::i64_unsuffixed(bound.max(0));
    let (min, max) = (bound(variable.min), bound(variable.max));
    quote!(rt::calls::set_size(dims, #at, #value, #min, #max);)
}
