//! Sizes divided by powers of two: what float arithmetic on sizes gives, where it is exact.

use super::Dim;

/// `numerator / 2^shift`. Every value that it takes is one that f32 holds exactly, and so did all steps on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Fraction {
    numerator: Dim,
    shift: u32,
}

/// Numerators are smaller than this in magnitude: integers that f32 holds exactly.
const EXACT: i64 = 1 << 24;
/// Largest power of two of a denominator, far from the smallest numbers of f32.
const SHIFTS: u32 = 24;

impl Fraction {
    fn checked(numerator: Dim, shift: u32) -> Option<Fraction> {
        let range = numerator.range();
        let fits = range.min > -EXACT && range.max < EXACT && shift <= SHIFTS;
        fits.then_some(Fraction { numerator, shift })
    }

    /// An integer.
    pub fn integer(value: &Dim) -> Option<Fraction> {
        Fraction::checked(value.clone(), 0)
    }

    /// A number; `None` unless it is a small multiple of a power of two.
    pub fn number(value: f64) -> Option<Fraction> {
        let shift = (0..=SHIFTS).find(|shift| (value * f64::from(1u32 << shift)).fract() == 0.0)?;
        let numerator = value * f64::from(1u32 << shift);
        (numerator.abs() < EXACT as f64).then(|| Fraction { numerator: Dim::constant(numerator as i64), shift })
    }

    fn over(&self, shift: u32) -> Dim {
        self.numerator.clone() * (1i64 << shift.saturating_sub(self.shift))
    }

    /// The sum.
    pub fn plus(&self, other: &Fraction) -> Option<Fraction> {
        let shift = self.shift.max(other.shift);
        Fraction::checked(self.over(shift) + &other.over(shift), shift)
    }

    /// The negated value.
    #[must_use]
    pub fn negated(&self) -> Fraction {
        Fraction { numerator: self.numerator.clone() * -1, shift: self.shift }
    }

    /// The product.
    pub fn times(&self, other: &Fraction) -> Option<Fraction> {
        Fraction::checked(self.numerator.clone() * &other.numerator, self.shift + other.shift)
    }

    /// The quotient by a power of two, or by what divides the numerator.
    pub fn over_by(&self, other: &Fraction) -> Option<Fraction> {
        let scaled = self.numerator.clone() * (1i64 << other.shift);
        if let Some(quotient) = scaled.quotient(&other.numerator) {
            return Fraction::checked(quotient, self.shift);
        }
        let divisor = other.numerator.as_const().filter(|by| *by > 0 && by.count_ones() == 1)?;
        Fraction::checked(scaled, self.shift + divisor.trailing_zeros())
    }

    /// Rounded to minus infinity.
    #[must_use]
    pub fn floor(&self) -> Fraction {
        Fraction { numerator: self.numerator.floor_div(&Dim::constant(1 << self.shift)), shift: 0 }
    }

    /// Rounded to plus infinity.
    #[must_use]
    pub fn ceil(&self) -> Fraction {
        Fraction { numerator: self.numerator.ceil_div(&Dim::constant(1 << self.shift)), shift: 0 }
    }

    /// Rounded to zero, as conversions to integers do.
    pub fn truncated(&self) -> Option<Dim> {
        let range = self.numerator.range();
        match self.shift {
            0 => Some(self.numerator.clone()),
            _ if range.min >= 0 => Some(self.floor().numerator),
            _ if range.max <= 0 => Some(self.ceil().numerator),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Variable;

    #[test]
    fn half_a_size_is_rounded_down() {
        let size = Dim::variable(Variable::new(0, 1, 100));
        let half = Fraction::integer(&size).unwrap().times(&Fraction::number(0.5).unwrap()).unwrap();
        assert_eq!(half.truncated(), Some(size.floor_div(&Dim::constant(2))));
        assert_eq!(half.ceil().truncated(), Some(size.ceil_div(&Dim::constant(2))));
        let whole = half.over_by(&Fraction::number(0.25).unwrap()).unwrap();
        assert_eq!(whole.truncated(), Some(size.clone() * 2));
        assert_eq!(half.plus(&half.negated()).unwrap().truncated(), Some(Dim::constant(0)));
    }

    #[test]
    fn what_floats_do_not_hold_is_no_fraction() {
        let size = Dim::variable(Variable::new(0, 1, 1 << 23));
        assert!(Fraction::integer(&size).is_some());
        assert!(Fraction::integer(&(size.clone() * 4)).is_none());
        assert!(Fraction::integer(&size).unwrap().times(&Fraction::number(1.5).unwrap()).is_none());
        assert!(Fraction::number(0.1).is_none() && Fraction::number(f64::NAN).is_none());
        assert!(Fraction::number(f64::INFINITY).is_none());
    }
}
