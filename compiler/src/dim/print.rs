//! Text form of expressions.

use super::{Atom, Dim};
use std::fmt;

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (terms, constant) = self.parts();
        let mut first = true;
        for (product, factor) in terms {
            let sign = if *factor < 0 { "-" } else { "+" };
            match (first, sign) {
                (true, "-") => f.write_str("-")?,
                (true, _) => {}
                _ => write!(f, " {sign} ")?,
            }
            first = false;
            if factor.unsigned_abs() != 1 {
                write!(f, "{}*", factor.unsigned_abs())?;
            }
            for (i, atom) in product.iter().enumerate() {
                if i > 0 {
                    f.write_str("*")?;
                }
                write!(f, "{atom}")?;
            }
        }
        match (first, constant) {
            (true, _) => write!(f, "{constant}"),
            (_, 0) => Ok(()),
            (_, c) => write!(f, " {} {}", if c < 0 { "-" } else { "+" }, c.unsigned_abs()),
        }
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Variable(variable) => write!(f, "d{}", variable.id),
            Atom::Axis(axis) => write!(f, "i{axis}"),
            Atom::Scalar(node) => write!(f, "%{node}"),
            Atom::FloorDiv(a, b) => write!(f, "floordiv({a}, {b})"),
            Atom::CeilDiv(a, b) => write!(f, "ceildiv({a}, {b})"),
            Atom::Mod(a, b) => write!(f, "mod({a}, {b})"),
            Atom::Min(a, b) => write!(f, "min({a}, {b})"),
            Atom::Max(a, b) => write!(f, "max({a}, {b})"),
        }
    }
}
