//! Conversion between element types.

use crate::diag::{Diagnostic, codes};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::{InferContext, Op, OpDef, Props, Support, one_output};
use crate::program::builder::Builder;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    OpDef {
        name: "Convert",
        version: 1,
        opsets: 1..=17,
        inputs: 1..=1,
        outputs: one_output,
        parse: |attributes| Ok(to(attributes.element_type("destination_type")?)),
        ignorable: &["no_clamp", "use_rounding"],
        support: Support::Full,
    },
    OpDef {
        name: "ConvertLike",
        version: 1,
        opsets: 1..=17,
        inputs: 2..=2,
        outputs: one_output,
        parse: |_| Ok(Rc::new(ConvertLike)),
        ignorable: &[],
        support: Support::Full,
    },
];

/// Convert-1: every element in the domain of another type. Floats become integers by truncation toward zero and
/// wrap modulo 2^N; narrow floats round to nearest even.
#[derive(Debug)]
struct Convert {
    to: ElementType,
}

/// A conversion to `element`.
pub fn to(element: ElementType) -> Rc<dyn Op> {
    Rc::new(Convert { to: element })
}

impl Op for Convert {
    fn props(&self) -> Props {
        Props { identity_if_same: true, ..Props::default() }
    }

    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        converted(inputs, self.to)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        copy(builder)
    }
}

/// ConvertLike-1: to the element type of the second operand.
#[derive(Debug)]
struct ConvertLike;

impl Op for ConvertLike {
    fn props(&self) -> Props {
        Props { identity_if_same: true, ..Props::default() }
    }

    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        converted(inputs, inputs.get(1).map_or(ElementType::F32, |like| like.element))
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        copy(builder)
    }
}

/// What version 10 files promise their users: outputs are i32 (from wider integers) or f32 (from everything else).
#[derive(Debug)]
pub struct LegacyOutput;

impl Op for LegacyOutput {
    fn props(&self) -> Props {
        Props { identity_if_same: true, ..Props::default() }
    }

    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        use ElementType::{F32, I32, I64, U32, U64};
        let element = match inputs.first().map(|x| x.element) {
            Some(I32 | I64 | U32 | U64) => I32,
            _ => F32,
        };
        converted(inputs, element)
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        copy(builder)
    }
}

fn converted(inputs: &[Fact], element: ElementType) -> Result<Vec<Fact>, Diagnostic> {
    let Some(x) = inputs.first() else {
        return Err(Diagnostic::error(&codes::INTERNAL, "a conversion has an operand"));
    };
    if (x.element == ElementType::String) != (element == ElementType::String) {
        return Err(Diagnostic::error(&codes::TYPE, format!("{} cannot be converted to {element}", x.element)));
    }
    Ok(vec![Fact::new(element, x.dims.clone())])
}

/// Storing casts to the element type of the result, which is all a conversion is.
fn copy(builder: &mut Builder) -> Result<(), Diagnostic> {
    let (x, out) = (builder.input(0)?, builder.output(0)?);
    builder.map(out, |n, i| n.load(x, i))
}
