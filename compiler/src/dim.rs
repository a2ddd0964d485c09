//! Integer expressions over run-time variables and loop axes, kept in a normal form so that equal sizes compare equal.
//!
//! One type serves dimensions of facts (variables only) and index expressions of nests (axes and loaded values too).

mod bounds;
mod fraction;
mod print;
#[cfg(test)]
mod tests;

pub use bounds::Interval;
pub use fraction::Fraction;

use std::collections::BTreeMap;

/// A run-time size: a dimension that the IR leaves open, with the interval it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable {
    /// Position in the program's list of variables.
    pub id: u32,
    /// Smallest value.
    pub min: i64,
    /// Largest value: the capacity of every buffer that depends on it.
    pub max: i64,
    /// The capacity that the size shares with others.
    pub shared: Option<Shared>,
}

/// A capacity that sizes share which are read from data, as those of a Reshape to a shape that an input gives: the product
/// of those that are not zero is at most `max`. Their own bounds would multiply to far more.
///
/// The sizes have ascending numbers. As their values say nothing about the model, each may be 1 where the operand of an
/// operation has to be stretched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared {
    /// Number of the first of the sizes.
    pub first: u32,
    /// The capacity in elements.
    pub max: i64,
}

impl Variable {
    /// A size between `min` and `max` with a capacity of its own.
    pub const fn new(id: u32, min: i64, max: i64) -> Self {
        Variable { id, min, max, shared: None }
    }
}

/// A factor that the normal form does not look into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A run-time size.
    Variable(Variable),
    /// A loop axis of the nest in which the expression stands.
    Axis(u32),
    /// An integer computed by a scalar node of the nest in which the expression stands.
    Scalar(u32),
    /// Quotient rounded to minus infinity.
    FloorDiv(Box<Dim>, Box<Dim>),
    /// Quotient rounded to plus infinity.
    CeilDiv(Box<Dim>, Box<Dim>),
    /// Remainder with the sign of the divisor.
    Mod(Box<Dim>, Box<Dim>),
    /// The smaller one.
    Min(Box<Dim>, Box<Dim>),
    /// The larger one.
    Max(Box<Dim>, Box<Dim>),
}

/// A polynomial with integer coefficients over atoms. Arithmetic saturates: a saturated size fails the size limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dim {
    /// Products of atoms (sorted) with their coefficient (never zero), sorted by product.
    terms: Vec<(Vec<Atom>, i64)>,
    constant: i64,
}

impl Dim {
    /// The constant `value`.
    pub const fn constant(value: i64) -> Self {
        Dim { terms: Vec::new(), constant: value }
    }

    /// A loop axis.
    pub fn axis(axis: usize) -> Self {
        Dim::atom(Atom::Axis(axis as u32))
    }

    /// A run-time size.
    pub fn variable(variable: Variable) -> Self {
        Dim::atom(Atom::Variable(variable))
    }

    /// The value of a scalar node.
    pub fn scalar(node: u32) -> Self {
        Dim::atom(Atom::Scalar(node))
    }

    fn atom(atom: Atom) -> Self {
        Dim { terms: vec![(vec![atom], 1)], constant: 0 }
    }

    /// The value, where no atom is left.
    pub fn as_const(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The value as an array size.
    pub fn as_usize(&self) -> Option<usize> {
        self.as_const().and_then(|v| usize::try_from(v).ok())
    }

    /// Whether this is the constant `value`.
    pub fn is(&self, value: i64) -> bool {
        self.terms.is_empty() && self.constant == value
    }

    /// The terms (product of atoms, coefficient) and the constant.
    pub fn parts(&self) -> (&[(Vec<Atom>, i64)], i64) {
        (&self.terms, self.constant)
    }

    /// Coefficient of `axis` where the expression is linear in it: `Some(0)` where the axis does not occur,
    /// `None` where it occurs inside a product or a division, or with a coefficient that is not a constant.
    pub fn coefficient(&self, axis: usize) -> Option<i64> {
        let me = Atom::Axis(axis as u32);
        let mut found = 0;
        for (product, factor) in &self.terms {
            if product.len() == 1 && product[0] == me {
                found = *factor;
            } else if product.iter().any(|atom| atom.mentions(&me)) {
                return None;
            }
        }
        Some(found)
    }

    /// What one step along `axis` adds, where the expression is linear in it: a size, zero where the axis does not occur.
    pub fn stride(&self, axis: usize) -> Option<Dim> {
        let me = Atom::Axis(axis as u32);
        let mut step = Dim::constant(0);
        for (product, factor) in &self.terms {
            let rest: Vec<Atom> = product.iter().filter(|atom| **atom != me).cloned().collect();
            if rest.iter().any(|atom| atom.mentions(&me)) || rest.len() + 1 < product.len() {
                return None;
            }
            if rest.len() < product.len() {
                step = step + &Dim::from_terms([(rest, *factor)], 0);
            }
        }
        (!step.is_index()).then_some(step)
    }

    /// Whether the expression counts with `axis`, from wherever it begins.
    pub fn counts(&self, axis: usize) -> bool {
        self.coefficient(axis) == Some(1) && self.without(axis).as_const().is_some()
    }

    /// The expression without its linear term in `axis`.
    pub fn without(&self, axis: usize) -> Dim {
        let me = [Atom::Axis(axis as u32)];
        let terms = self.terms.iter().filter(|(product, _)| product.as_slice() != me).cloned().collect();
        Dim { terms, constant: self.constant }
    }

    /// Whether `axis` occurs anywhere.
    pub fn uses_axis(&self, axis: usize) -> bool {
        let me = Atom::Axis(axis as u32);
        self.terms.iter().any(|(product, _)| product.iter().any(|atom| atom.mentions(&me)))
    }

    /// Whether one of these run-time sizes occurs anywhere.
    pub fn uses_any(&self, variables: &[Variable]) -> bool {
        let mut found = false;
        self.for_each_atom(&mut |atom| found |= matches!(atom, Atom::Variable(v) if variables.contains(v)));
        found
    }

    /// Calls `visit` for every atom, inner ones included.
    pub fn for_each_atom(&self, visit: &mut dyn FnMut(&Atom)) {
        for atom in self.terms.iter().flat_map(|(product, _)| product) {
            visit(atom);
            if let Some((a, b)) = atom.operands() {
                a.for_each_atom(visit);
                b.for_each_atom(visit);
            }
        }
    }

    /// Whether an axis or a scalar occurs: an index expression, not a size.
    pub fn is_index(&self) -> bool {
        let mut found = false;
        self.for_each_atom(&mut |atom| found |= matches!(atom, Atom::Axis(_) | Atom::Scalar(_)));
        found
    }

    /// The expression with every atom replaced (axes, scalars and variables only; the rest is rebuilt).
    pub fn substitute(&self, replace: &dyn Fn(&Atom) -> Option<Dim>) -> Dim {
        let mut sum = Dim::constant(self.constant);
        for (product, factor) in &self.terms {
            let mut value = Dim::constant(*factor);
            for atom in product {
                value = value * &atom.substitute(replace);
            }
            sum = sum + &value;
        }
        sum
    }

    /// Value under an assignment of its leaf atoms.
    pub fn evaluate(&self, leaf: &dyn Fn(&Atom) -> i64) -> i64 {
        let mut sum = self.constant;
        for (product, factor) in &self.terms {
            let value = product.iter().fold(*factor, |v, atom| v.saturating_mul(atom.evaluate(leaf)));
            sum = sum.saturating_add(value);
        }
        sum
    }

    /// Quotient rounded to minus infinity; a zero divisor gives zero.
    pub fn floor_div(&self, by: &Dim) -> Dim {
        self.divide(by, floor_div, Atom::FloorDiv)
    }

    /// Quotient rounded to plus infinity; a zero divisor gives zero.
    pub fn ceil_div(&self, by: &Dim) -> Dim {
        self.divide(by, |a, b| floor_div(a.saturating_neg(), b).saturating_neg(), Atom::CeilDiv)
    }

    /// Remainder of [`Dim::floor_div`].
    pub fn modulo(&self, by: &Dim) -> Dim {
        match (self.as_const(), by.as_const()) {
            (Some(a), Some(b)) => Dim::constant(floor_mod(a, b)),
            (_, Some(1)) => Dim::constant(0),
            _ if self == by => Dim::constant(0),
            _ if self.quotient(by).is_some() => Dim::constant(0),
            _ => Dim::atom(Atom::Mod(Box::new(self.clone()), Box::new(by.clone()))),
        }
    }

    /// The smaller of two sizes.
    pub fn minimum(&self, other: &Dim) -> Dim {
        self.extreme(other, true)
    }

    /// The larger of two sizes.
    pub fn maximum(&self, other: &Dim) -> Dim {
        self.extreme(other, false)
    }

    fn extreme(&self, other: &Dim, smaller: bool) -> Dim {
        let difference = (self.clone() - other).range();
        if difference.max <= 0 || difference.min >= 0 {
            return if (difference.max <= 0) == smaller { self.clone() } else { other.clone() };
        }
        let (a, b) = if self <= other { (self, other) } else { (other, self) };
        let pair = (Box::new(a.clone()), Box::new(b.clone()));
        Dim::atom(if smaller { Atom::Min(pair.0, pair.1) } else { Atom::Max(pair.0, pair.1) })
    }

    fn divide(&self, by: &Dim, exact: fn(i64, i64) -> i64, atom: fn(Box<Dim>, Box<Dim>) -> Atom) -> Dim {
        match (self.as_const(), by.as_const()) {
            (Some(a), Some(b)) => Dim::constant(exact(a, b)),
            (_, Some(1)) => self.clone(),
            _ if self == by && by.range().min > 0 => Dim::constant(1),
            _ => match self.quotient(by) {
                Some(quotient) => quotient,
                None => Dim::atom(atom(Box::new(self.clone()), Box::new(by.clone()))),
            },
        }
    }

    /// The exact quotient where every term is a multiple of `by`, which is a constant or one product.
    pub fn quotient(&self, by: &Dim) -> Option<Dim> {
        let (product, factor): (&[Atom], i64) = match (by.terms.as_slice(), by.constant) {
            ([], constant) => (&[], constant),
            ([(product, factor)], 0) => (product, *factor),
            _ => return None,
        };
        if factor == 0 || (!product.is_empty() && self.constant != 0) || self.constant % factor != 0 {
            return None;
        }
        if !product.is_empty() && by.range().min <= 0 {
            return None;
        }
        let mut terms = Vec::with_capacity(self.terms.len());
        for (atoms, coefficient) in &self.terms {
            let mut rest = atoms.clone();
            for atom in product {
                let at = rest.iter().position(|a| a == atom)?;
                rest.remove(at);
            }
            if coefficient % factor != 0 {
                return None;
            }
            terms.push((rest, coefficient / factor));
        }
        Some(Dim::from_terms(terms, self.constant / factor))
    }

    fn from_terms(terms: impl IntoIterator<Item = (Vec<Atom>, i64)>, mut constant: i64) -> Dim {
        let mut sum: BTreeMap<Vec<Atom>, i64> = BTreeMap::new();
        for (product, factor) in terms {
            if product.is_empty() {
                constant = constant.saturating_add(factor);
            } else {
                let slot = sum.entry(product).or_insert(0);
                *slot = slot.saturating_add(factor);
            }
        }
        Dim { terms: sum.into_iter().filter(|(_, factor)| *factor != 0).collect(), constant }
    }
}

impl Atom {
    fn operands(&self) -> Option<(&Dim, &Dim)> {
        match self {
            Atom::Variable(_) | Atom::Axis(_) | Atom::Scalar(_) => None,
            Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                Some((a, b))
            }
        }
    }

    fn mentions(&self, leaf: &Atom) -> bool {
        if self == leaf {
            return true;
        }
        let mut found = false;
        if let Some((a, b)) = self.operands() {
            a.for_each_atom(&mut |atom| found |= atom == leaf);
            b.for_each_atom(&mut |atom| found |= atom == leaf);
        }
        found
    }

    fn substitute(&self, replace: &dyn Fn(&Atom) -> Option<Dim>) -> Dim {
        match self {
            Atom::Variable(_) | Atom::Axis(_) | Atom::Scalar(_) => {
                replace(self).unwrap_or_else(|| Dim::atom(self.clone()))
            }
            Atom::FloorDiv(a, b) => a.substitute(replace).floor_div(&b.substitute(replace)),
            Atom::CeilDiv(a, b) => a.substitute(replace).ceil_div(&b.substitute(replace)),
            Atom::Mod(a, b) => a.substitute(replace).modulo(&b.substitute(replace)),
            Atom::Min(a, b) => a.substitute(replace).minimum(&b.substitute(replace)),
            Atom::Max(a, b) => a.substitute(replace).maximum(&b.substitute(replace)),
        }
    }

    fn evaluate(&self, leaf: &dyn Fn(&Atom) -> i64) -> i64 {
        match self {
            Atom::Variable(_) | Atom::Axis(_) | Atom::Scalar(_) => leaf(self),
            Atom::FloorDiv(a, b) => floor_div(a.evaluate(leaf), b.evaluate(leaf)),
            Atom::CeilDiv(a, b) => floor_div(a.evaluate(leaf).saturating_neg(), b.evaluate(leaf)).saturating_neg(),
            Atom::Mod(a, b) => floor_mod(a.evaluate(leaf), b.evaluate(leaf)),
            Atom::Min(a, b) => a.evaluate(leaf).min(b.evaluate(leaf)),
            Atom::Max(a, b) => a.evaluate(leaf).max(b.evaluate(leaf)),
        }
    }
}

/// Quotient rounded to minus infinity; a zero divisor gives zero.
pub fn floor_div(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && ((a < 0) != (b < 0)) { quotient - 1 } else { quotient }
}

/// Remainder of [`floor_div`]; a zero divisor gives zero.
pub fn floor_mod(a: i64, b: i64) -> i64 {
    if b == 0 {
        return 0;
    }
    let rest = a.wrapping_rem(b);
    if rest != 0 && ((rest < 0) != (b < 0)) { rest + b } else { rest }
}

impl std::ops::Add<&Dim> for Dim {
    type Output = Dim;
    fn add(self, other: &Dim) -> Dim {
        let constant = self.constant.saturating_add(other.constant);
        match (self.terms.is_empty(), other.terms.is_empty()) {
            (_, true) => Dim { terms: self.terms, constant },
            (true, _) => Dim { terms: other.terms.clone(), constant },
            _ => Dim::from_terms(self.terms.into_iter().chain(other.terms.iter().cloned()), constant),
        }
    }
}

impl std::ops::Add for Dim {
    type Output = Dim;
    fn add(self, other: Dim) -> Dim {
        self + &other
    }
}

impl std::ops::Add<i64> for Dim {
    type Output = Dim;
    fn add(mut self, other: i64) -> Dim {
        self.constant = self.constant.saturating_add(other);
        self
    }
}

#[allow(clippy::suspicious_arithmetic_impl)] // a - b is a + (-b): one normal form
impl std::ops::Sub<&Dim> for Dim {
    type Output = Dim;
    fn sub(self, other: &Dim) -> Dim {
        self + &(other.clone() * -1)
    }
}

impl std::ops::Sub for Dim {
    type Output = Dim;
    fn sub(self, other: Dim) -> Dim {
        self - &other
    }
}

impl std::ops::Sub<i64> for Dim {
    type Output = Dim;
    fn sub(self, other: i64) -> Dim {
        Dim { constant: self.constant.saturating_sub(other), ..self }
    }
}

impl std::ops::Mul<i64> for Dim {
    type Output = Dim;
    fn mul(mut self, by: i64) -> Dim {
        if by == 0 {
            return Dim::constant(0);
        }
        for (_, factor) in &mut self.terms {
            *factor = factor.saturating_mul(by);
        }
        self.constant = self.constant.saturating_mul(by);
        self
    }
}

impl std::ops::Mul<&Dim> for Dim {
    type Output = Dim;
    fn mul(self, other: &Dim) -> Dim {
        if let Some(by) = other.as_const() {
            return self * by;
        }
        if let Some(by) = self.as_const() {
            return other.clone() * by;
        }
        let mut terms = Vec::new();
        for (a, x) in self.terms.iter().chain([(Vec::new(), self.constant)].iter()) {
            for (b, y) in other.terms.iter().chain([(Vec::new(), other.constant)].iter()) {
                let mut product: Vec<Atom> = a.iter().chain(b).cloned().collect();
                product.sort();
                terms.push((product, x.saturating_mul(*y)));
            }
        }
        Dim::from_terms(terms, 0)
    }
}

impl std::ops::Mul for Dim {
    type Output = Dim;
    fn mul(self, other: Dim) -> Dim {
        self * &other
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Dim {
        Dim::constant(value)
    }
}

impl From<usize> for Dim {
    fn from(value: usize) -> Dim {
        Dim::constant(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// Number of elements of a tensor with these dimensions.
pub fn product(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::constant(1), |size, dim| size * dim)
}
