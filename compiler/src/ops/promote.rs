//! Conversion of two tensors to a type that holds both.

use crate::diag::{Diagnostic, codes};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::{InferContext, Op, OpDef, Support, typing};
use crate::program::builder::Builder;
use std::cmp::Ordering;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "ConvertPromoteTypes",
    version: 14,
    opsets: 14..=17,
    inputs: 2..=2,
    outputs: |_| 2,
    parse: |attributes| {
        let target = "u64_integer_promotion_target";
        let u64_with_signed = attributes.element_type_or(target, ElementType::F32)?;
        if u64_with_signed == ElementType::String {
            return Err(attributes.invalid(target, "a numeric type"));
        }
        Ok(Rc::new(Promote {
            allow_unsafe: attributes.bool("promote_unsafe", false)?,
            prefer_tensor: attributes.bool("pytorch_scalar_promotion", false)?,
            u64_with_signed,
        }))
    },
    ignorable: &[],
    support: Support::Full,
}];

/// ConvertPromoteTypes-14: both operands in their common type, which depends on their types (and, with
/// `prefer_tensor`, on which of them is a scalar), never on values.
#[derive(Debug)]
struct Promote {
    /// Whether a type may be chosen that is wider than both, or does not hold all values.
    allow_unsafe: bool,
    /// Whether a scalar takes the type of a tensor of the same class.
    prefer_tensor: bool,
    /// Common type of u64 and a signed integer.
    u64_with_signed: ElementType,
}

impl Op for Promote {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (a, b) = (typing::operand(inputs, 0)?, typing::operand(inputs, 1)?);
        let (common, safe) = self.common(a, b).ok_or_else(|| {
            Diagnostic::error(&codes::TYPE, format!("{} and {} have no common type", a.element, b.element))
        })?;
        if !safe && !self.allow_unsafe {
            let message = format!("promoting {} and {} to {common} is not safe", a.element, b.element);
            return Err(Diagnostic::error(&codes::TYPE, message)
                .help("`promote_unsafe=\"true\"` allows wider types and loss of precision"));
        }
        Ok(vec![Fact::new(common, a.dims.clone()), Fact::new(common, b.dims.clone())])
    }

    /// Storing casts to the element type of the result.
    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        for i in 0..2 {
            let (x, out) = (builder.input(i)?, builder.output(i)?);
            builder.map(out, |n, i| n.load(x, i))?;
        }
        Ok(())
    }
}

impl Promote {
    /// The common type, and whether it holds all values without being wider than both types.
    fn common(&self, a: &Fact, b: &Fact) -> Option<(ElementType, bool)> {
        let (class_a, class_b) = (class(a.element)?, class(b.element)?);
        if a.element == b.element {
            return Some((a.element, true));
        }
        match class_a.cmp(&class_b) {
            Ordering::Greater => Some(mixed(a.element, b.element)),
            Ordering::Less => Some(mixed(b.element, a.element)),
            Ordering::Equal if self.prefer_tensor && (a.rank() == 0) != (b.rank() == 0) => {
                let (scalar, tensor) = if a.rank() == 0 { (a, b) } else { (b, a) };
                Some((tensor.element, holds(tensor.element, scalar.element)))
            }
            Ordering::Equal if a.element.is_float() => floats(a.element, b.element),
            Ordering::Equal => Some(self.integers(a.element, b.element)),
        }
    }

    fn integers(&self, a: ElementType, b: ElementType) -> (ElementType, bool) {
        let wider = if a.bits() >= b.bits() { a } else { b };
        if a.is_signed() == b.is_signed() {
            return (wider, true);
        }
        let (signed, unsigned) = if a.is_signed() { (a, b) } else { (b, a) };
        match unsigned.bits() {
            64 => (self.u64_with_signed, false),
            bits if signed.bits() > bits => (signed, true),
            32.. => (ElementType::I64, false),
            16.. => (ElementType::I32, false),
            8.. => (ElementType::I16, false),
            _ => (ElementType::I8, false),
        }
    }
}

/// Booleans give way to integers and these to floats; the special formats take part in no promotion.
fn class(element: ElementType) -> Option<u8> {
    use ElementType::*;
    match element {
        Boolean => Some(0),
        String | Nf4 | F4e2m1 | F8e8m0 => None,
        _ if element.is_float() => Some(2),
        _ => Some(1),
    }
}

/// A type of a higher class with one of a lower class.
fn mixed(higher: ElementType, lower: ElementType) -> (ElementType, bool) {
    (higher, !(higher.is_float() && lower.is_integer()) || higher.bits() >= 2 * lower.bits())
}

/// Two different floating-point types.
fn floats(a: ElementType, b: ElementType) -> Option<(ElementType, bool)> {
    match a.bits().cmp(&b.bits()) {
        Ordering::Greater => Some((a, true)),
        Ordering::Less => Some((b, true)),
        Ordering::Equal if a.bits() == 16 => Some((ElementType::F32, false)),
        Ordering::Equal if a.bits() == 8 => Some((ElementType::F16, false)),
        Ordering::Equal => None,
    }
}

/// Whether every value of `inner`, a type of the same class, exists in `outer`.
fn holds(outer: ElementType, inner: ElementType) -> bool {
    if outer.is_float() {
        return outer == inner || outer.bits() > inner.bits();
    }
    match (outer.is_signed(), inner.is_signed()) {
        (a, b) if a == b => outer.bits() >= inner.bits(),
        (true, _) => outer.bits() > inner.bits(),
        (false, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Dim;
    use ElementType::*;

    fn common(a: ElementType, b: ElementType, ranks: (usize, usize)) -> Option<(ElementType, bool)> {
        let promote = Promote { allow_unsafe: false, prefer_tensor: true, u64_with_signed: F32 };
        let fact = |element, rank| Fact::new(element, vec![Dim::constant(1); rank]);
        let (a, b) = (fact(a, ranks.0), fact(b, ranks.1));
        assert_eq!(promote.common(&a, &b), promote.common(&b, &a), "the order of the operands does not matter");
        promote.common(&a, &b)
    }

    #[test]
    fn examples_of_the_specification() {
        let examples = [
            (I8, F32, F32, true),
            (I32, U8, I32, true),
            (F16, I64, F16, false),
            (F64, U64, F64, false),
            (I8, U8, I16, false),
            (F16, Bf16, F32, false),
            (F8e4m3, F8e5m2, F16, false),
            (U64, I8, F32, false),
            (I16, U32, I64, false),
            (F16, F32, F32, true),
            (Boolean, U8, U8, true),
        ];
        for (a, b, expected, safe) in examples {
            assert_eq!(common(a, b, (1, 1)), Some((expected, safe)), "{a} {b}");
        }
        assert_eq!(common(String, F32, (1, 1)), None);
    }

    #[test]
    fn a_scalar_takes_the_type_of_a_tensor_of_its_class() {
        assert_eq!(common(I64, U8, (0, 1)), Some((U8, false)));
        assert_eq!(common(U8, I64, (0, 1)), Some((I64, true)));
        assert_eq!(common(F16, I8, (0, 1)), Some((F16, true)));
    }
}
