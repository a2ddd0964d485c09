//! Index and size expressions as Rust expressions over `usize`, without overflow and without panics.

use crate::dim::{Atom, Dim, Interval};
use crate::graph::SizeSource;
use crate::program::Program;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeMap;

/// What the leaves of an expression are called, and which values they take.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Loop variables, of type `usize`; an axis that is missing is zero.
    pub axes: BTreeMap<usize, Ident>,
    /// Largest value of every axis.
    pub limits: Vec<i64>,
    /// Scalars in scope that expressions may use, as `i64` expressions.
    pub scalars: BTreeMap<u32, TokenStream>,
}

/// The parameter that holds a run-time size.
pub fn variable(id: u32) -> Ident {
    format_ident!("d{id}")
}

/// Whether steps find sizes while the model runs.
pub fn found(program: &Program) -> bool {
    program.variables.iter().any(|info| info.source == SizeSource::Step)
}

/// The type of the parameter `dims`: all run-time sizes. Where steps find some of them, two more values say which one was
/// out of its bounds.
pub fn ty(program: &Program, mutable: bool) -> TokenStream {
    let count = Literal::usize_unsuffixed(program.variables.len() + if found(program) { 2 } else { 0 });
    if mutable { quote!(&mut [usize; #count]) } else { quote!(&[usize; #count]) }
}

/// The pattern that names all run-time sizes in `dims`.
pub fn unpacked(program: &Program) -> TokenStream {
    let names = program.variables.iter().map(|info| variable(info.variable.id));
    let rest = found(program).then(|| quote!(..));
    quote!([#(#names,)* #rest])
}

impl Scope {
    /// The interval of an expression.
    pub fn range(&self, dim: &Dim) -> Interval {
        dim.range_with(&|atom| match atom {
            Atom::Axis(axis) => Interval { min: 0, max: self.limits.get(*axis as usize).copied().unwrap_or(i64::MAX) },
            _ => Interval::ALL,
        })
    }

    /// The expression as `usize`. A value below zero wraps, and is then larger than every size.
    pub fn index(&self, dim: &Dim) -> TokenStream {
        if !self.is_natural(dim) {
            let signed = self.signed(dim);
            return quote!((#signed as usize));
        }
        let (terms, constant) = dim.parts();
        let (mut plus, mut minus) = (Vec::new(), Vec::new());
        for (product, factor) in terms {
            let term = self.natural_term(product, factor.unsigned_abs());
            if let Some(term) = term {
                if *factor > 0 { plus.push(term) } else { minus.push(term) }
            }
        }
        if constant != 0 || plus.is_empty() {
            // A number alone has no type for the methods of wrapping arithmetic.
            let alone = plus.is_empty() && constant >= 0 && !minus.is_empty();
            let value = constant.unsigned_abs();
            let literal = match (alone, usize::try_from(value)) {
                (true, Ok(value)) => Literal::usize_suffixed(value),
                _ => Literal::u64_unsuffixed(value),
            };
            if constant >= 0 { plus.push(quote!(#literal)) } else { minus.push(quote!(#literal)) }
        }
        if plus.is_empty() {
            plus.push(quote!(0usize));
        }
        match (minus.is_empty(), plus.len(), self.range(dim).min >= 0) {
            (true, ..) => quote!(#(#plus)+*),
            (_, _, true) => quote!(#(#plus)+* #(- #minus)*),
            (_, 1, _)
                if plus
                    .iter()
                    .all(|p| p.clone().into_iter().count() == 1 && p.to_string().starts_with(char::is_alphabetic)) =>
            {
                quote!(#(#plus)*.wrapping_sub(#(#minus)+*))
            }
            _ => quote!((#(#plus)+*).wrapping_sub(#(#minus)+*)),
        }
    }

    /// The expression in parentheses where it has more than one token.
    pub fn factor(&self, dim: &Dim) -> TokenStream {
        let tokens = self.index(dim);
        if tokens.clone().into_iter().count() > 1 { quote!((#tokens)) } else { tokens }
    }

    /// Whether the expression can be computed in `usize`: no leaf and no intermediate value is below zero.
    fn is_natural(&self, dim: &Dim) -> bool {
        dim.parts().0.iter().all(|(product, _)| product.iter().all(|atom| self.is_natural_atom(atom)))
    }

    fn is_natural_atom(&self, atom: &Atom) -> bool {
        let never_negative = |dim: &Dim| self.is_natural(dim) && self.range(dim).min >= 0;
        match atom {
            Atom::Variable(_) | Atom::Axis(_) => true,
            Atom::Scalar(_) => false,
            Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) | Atom::Mod(a, b) => {
                never_negative(a) && never_negative(b) && self.range(b).min > 0
            }
            Atom::Min(a, b) | Atom::Max(a, b) => never_negative(a) && never_negative(b),
        }
    }

    /// `None` where the term is zero because one of its axes has a single value.
    fn natural_term(&self, product: &[Atom], factor: u64) -> Option<TokenStream> {
        let mut factors = Vec::with_capacity(product.len() + 1);
        for atom in product {
            factors.push(self.natural_atom(atom)?);
        }
        if factor != 1 {
            let literal = Literal::u64_unsuffixed(factor);
            factors.push(quote!(#literal));
        }
        let mut factors = factors.into_iter();
        let first = factors.next()?;
        Some(quote!(#first #(* #factors)*))
    }

    fn natural_atom(&self, atom: &Atom) -> Option<TokenStream> {
        Some(match atom {
            Atom::Variable(v) => {
                let name = variable(v.id);
                quote!(#name)
            }
            Atom::Axis(axis) => {
                let name = self.axes.get(&(*axis as usize))?;
                quote!(#name)
            }
            Atom::Scalar(_) => return None,
            Atom::FloorDiv(a, b) => {
                let quotient = self.quotient(self.factor(a), b);
                quote!((#quotient))
            }
            Atom::CeilDiv(a, b) => {
                let (a, b) = (self.index(a), self.index(b));
                quote!(rt::math::ceil_div_usize(#a, #b))
            }
            Atom::Mod(a, b) => {
                let remainder = self.remainder(self.factor(a), b);
                quote!((#remainder))
            }
            Atom::Min(a, b) => {
                let (a, b) = (self.index(a), self.index(b));
                quote!(usize::min(#a, #b))
            }
            Atom::Max(a, b) => {
                let (a, b) = (self.index(a), self.index(b));
                quote!(usize::max(#a, #b))
            }
        })
    }

    /// `a / b` for b > 0; what the optimiser may not know to be above zero is divided without a panic.
    pub fn quotient(&self, a: TokenStream, b: &Dim) -> TokenStream {
        let (factor, index) = (self.factor(b), self.index(b));
        if b.as_const().is_some() { quote!(#a / #factor) } else { quote!(rt::math::floor_div_usize(#a, #index)) }
    }

    /// `a % b` for b > 0, likewise.
    pub fn remainder(&self, a: TokenStream, b: &Dim) -> TokenStream {
        let (factor, index) = (self.factor(b), self.index(b));
        if b.as_const().is_some() { quote!(#a % #factor) } else { quote!(rt::math::floor_mod_usize(#a, #index)) }
    }

    /// The expression as `i64`; data-dependent ones wrap instead of overflowing.
    pub fn signed(&self, dim: &Dim) -> TokenStream {
        let mut hostile = false;
        dim.for_each_atom(&mut |atom| hostile |= matches!(atom, Atom::Scalar(_)));
        let (terms, constant) = dim.parts();
        let mut sum: Option<TokenStream> = None;
        let mut add = |term: TokenStream| {
            sum = Some(match sum.take() {
                None => term,
                Some(sum) if hostile => quote!(#sum.wrapping_add(#term)),
                Some(sum) => quote!((#sum + #term)),
            });
        };
        for (product, factor) in terms {
            let mut value: Option<TokenStream> = None;
            let literal = Literal::i64_suffixed(factor.saturating_abs());
            let factor_tokens = if *factor < 0 { quote!((-#literal)) } else { quote!(#literal) };
            let scale = (*factor != 1).then_some(factor_tokens);
            for one in product.iter().map(|atom| self.signed_atom(atom)).chain(scale) {
                value = Some(match value {
                    None => one,
                    Some(value) if hostile => quote!(#value.wrapping_mul(#one)),
                    Some(value) => quote!((#value * #one)),
                });
            }
            add(value.unwrap_or_else(|| quote!(1i64)));
        }
        if constant != 0 || terms.is_empty() {
            let literal = Literal::i64_suffixed(constant.saturating_abs());
            add(if constant < 0 { quote!((-#literal)) } else { quote!(#literal) });
        }
        sum.unwrap_or_else(|| quote!(0i64))
    }

    fn signed_atom(&self, atom: &Atom) -> TokenStream {
        let two = |a: &Dim, b: &Dim| (self.signed(a), self.signed(b));
        match atom {
            Atom::Variable(v) => {
                let name = variable(v.id);
                quote!((#name as i64))
            }
            Atom::Axis(axis) => match self.axes.get(&(*axis as usize)) {
                Some(name) => quote!((#name as i64)),
                None => quote!(0i64),
            },
            Atom::Scalar(node) => self.scalars.get(node).cloned().unwrap_or_else(|| quote!(0i64)),
            Atom::FloorDiv(a, b) => {
                let (a, b) = two(a, b);
                quote!(rt::math::floor_div_i64(#a, #b))
            }
            Atom::CeilDiv(a, b) => {
                let (a, b) = two(a, b);
                quote!(rt::math::floor_div_i64(#a.wrapping_neg(), #b).wrapping_neg())
            }
            Atom::Mod(a, b) => {
                let (a, b) = two(a, b);
                quote!(rt::math::floor_mod_i64(#a, #b))
            }
            Atom::Min(a, b) => {
                let (a, b) = two(a, b);
                quote!(i64::min(#a, #b))
            }
            Atom::Max(a, b) => {
                let (a, b) = two(a, b);
                quote!(i64::max(#a, #b))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_print_without_underflow() {
        let mut scope = Scope { limits: vec![7, 2], ..Scope::default() };
        scope.axes.insert(0, format_ident!("i0"));
        scope.axes.insert(1, format_ident!("i1"));
        let (a, b) = (Dim::axis(0), Dim::axis(1));
        let text = |dim: &Dim| scope.index(dim).to_string();
        assert_eq!(text(&(a.clone() * 3 + &b + 1)), "i0 * 3 + i1 + 1");
        assert_eq!(text(&(a.clone() * 2 + &b - 1)), "(i0 * 2 + i1) . wrapping_sub (1)");
        assert_eq!(text(&(a.clone() * -1 + 7)), "7usize - i0");
        assert_eq!(text(&a.floor_div(&Dim::constant(4))), "(i0 / 4)");
        assert_eq!(text(&Dim::constant(0)), "0");
        assert_eq!(
            text(&(a.clone() - 3).floor_div(&Dim::constant(2))),
            "(rt :: math :: floor_div_i64 (((i0 as i64) + (- 3i64)) , 2i64) as usize)"
        );
    }
}
