//! Interval arithmetic over expressions: what bounds a buffer and what proves an index in range.

use super::{Atom, Dim, Variable, floor_div};

/// A closed interval of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
}

impl Interval {
    /// Everything.
    pub const ALL: Interval = Interval { min: i64::MIN, max: i64::MAX };

    fn corners(self, other: Interval, f: impl Fn(i64, i64) -> i64) -> Interval {
        let all = [f(self.min, other.min), f(self.min, other.max), f(self.max, other.min), f(self.max, other.max)];
        Interval { min: all.into_iter().fold(i64::MAX, i64::min), max: all.into_iter().fold(i64::MIN, i64::max) }
    }

    fn plus(self, other: Interval) -> Interval {
        Interval { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Interval) -> Interval {
        self.corners(other, i64::saturating_mul)
    }

    fn at_most(self, max: i64) -> Interval {
        Interval { min: self.min.min(max), max: self.max.min(max) }
    }
}

impl Dim {
    /// The interval of a size. Axes and scalars count as unknown.
    pub fn range(&self) -> Interval {
        self.range_with(&|_| Interval::ALL)
    }

    /// The interval of an index expression; `leaf` gives that of axes and scalars.
    pub fn range_with(&self, leaf: &dyn Fn(&Atom) -> Interval) -> Interval {
        let (terms, constant) = self.parts();
        let mut sum = Interval { min: constant, max: constant };
        for (product, factor) in terms {
            let mut range = Interval { min: *factor, max: *factor };
            for run in product.chunk_by(shares_capacity) {
                let own = run.iter().map(|atom| atom.range_with(leaf)).reduce(Interval::times).unwrap_or(range);
                range = range.times(own.at_most(capacity(run)));
            }
            sum = sum.plus(range);
        }
        sum
    }

    /// Largest value of a size: the capacity of a buffer.
    pub fn upper_bound(&self) -> i64 {
        self.range().max
    }
}

impl Dim {
    /// The expression without minima, maxima and remainders of which the intervals say what they are.
    pub fn decided(&self, interval: &dyn Fn(&Dim) -> Interval) -> Dim {
        let (terms, constant) = self.parts();
        let mut sum = Dim::constant(constant);
        for (product, factor) in terms {
            let factors = product.iter().map(|atom| atom.decided(interval));
            sum = sum + factors.fold(Dim::constant(*factor), |value, atom| value * atom);
        }
        sum
    }
}

/// Whether two neighbours in a product are different sizes that share a capacity.
fn shares_capacity(a: &Atom, b: &Atom) -> bool {
    match (a, b) {
        (Atom::Variable(a), Atom::Variable(b)) => a.id != b.id && a.shared.is_some() && a.shared == b.shared,
        _ => false,
    }
}

/// What the product of sizes that share a capacity is at most.
fn capacity(sizes: &[Atom]) -> i64 {
    match sizes.first() {
        Some(Atom::Variable(Variable { shared: Some(shared), .. })) => shared.max,
        _ => i64::MAX,
    }
}

impl Atom {
    fn decided(&self, interval: &dyn Fn(&Dim) -> Interval) -> Dim {
        let Some((a, b)) = self.operands() else { return Dim::atom(self.clone()) };
        let (a, b) = (a.decided(interval), b.decided(interval));
        let smaller = match self {
            Atom::Variable(_) | Atom::Axis(_) | Atom::Scalar(_) => return Dim::atom(self.clone()),
            Atom::FloorDiv(..) => return a.floor_div(&b),
            Atom::CeilDiv(..) => return a.ceil_div(&b),
            Atom::Mod(..) => {
                let (Some(by), range) = (b.as_const().filter(|by| *by > 0), interval(&a)) else { return a.modulo(&b) };
                let turns = floor_div(range.min, by);
                return if turns == floor_div(range.max, by) { a - turns.saturating_mul(by) } else { a.modulo(&b) };
            }
            Atom::Min(..) => true,
            Atom::Max(..) => false,
        };
        let difference = interval(&(a.clone() - &b));
        if difference.max <= 0 || difference.min >= 0 {
            return if (difference.max <= 0) == smaller { a } else { b };
        }
        if smaller { a.minimum(&b) } else { a.maximum(&b) }
    }

    fn range_with(&self, leaf: &dyn Fn(&Atom) -> Interval) -> Interval {
        match self {
            Atom::Variable(variable) => Interval { min: variable.min, max: variable.max },
            Atom::Axis(_) | Atom::Scalar(_) => leaf(self),
            Atom::FloorDiv(a, b) => quotient(a.range_with(leaf), b.range_with(leaf), floor_div),
            Atom::CeilDiv(a, b) => quotient(a.range_with(leaf), b.range_with(leaf), |x, y| {
                floor_div(x.saturating_neg(), y).saturating_neg()
            }),
            Atom::Mod(a, b) => {
                let (a, b) = (a.range_with(leaf), b.range_with(leaf));
                match (a.min >= 0 && a.max < b.min, b.min > 0) {
                    (true, _) => a,
                    (_, true) => Interval { min: 0, max: b.max.saturating_sub(1) },
                    _ => Interval::ALL,
                }
            }
            Atom::Min(a, b) => {
                let (a, b) = (a.range_with(leaf), b.range_with(leaf));
                Interval { min: a.min.min(b.min), max: a.max.min(b.max) }
            }
            Atom::Max(a, b) => {
                let (a, b) = (a.range_with(leaf), b.range_with(leaf));
                Interval { min: a.min.max(b.min), max: a.max.max(b.max) }
            }
        }
    }
}

fn quotient(a: Interval, b: Interval, divide: fn(i64, i64) -> i64) -> Interval {
    if b.min > 0 {
        return a.corners(b, divide);
    }
    // A divisor that may be zero or negative: no larger than the dividend in magnitude, and zero for zero.
    let most = a.min.saturating_abs().max(a.max.saturating_abs());
    Interval { min: most.saturating_neg(), max: most }
}
