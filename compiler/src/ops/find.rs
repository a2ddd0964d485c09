//! Operations whose result sizes depend on data: NonZero.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::operand;
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::Call;
use crate::program::builder::Builder;
use crate::program::nest::{Binary, ScalarType};
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "NonZero",
    version: 3,
    opsets: 3..=17,
    inputs: 1..=1,
    outputs: one_output,
    parse: |a| Ok(Rc::new(NonZero { output_type: a.index_type_or("output_type", ElementType::I64)? })),
    ignorable: &[],
    support: Support::Full,
}];

/// `[rank, count]`: the positions of all elements that are not zero, in row-major order.
#[derive(Debug)]
struct NonZero {
    output_type: ElementType,
}

impl Op for NonZero {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = operand(inputs, 0)?;
        let count = context.fresh("non_zero", 0, product(&x.dims).upper_bound());
        Ok(vec![Fact::new(self.output_type, vec![Dim::from(x.rank().max(1)), count])])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let flags = builder.temporary(ElementType::Boolean, builder.dims(x));
        builder.map(flags, |n, i| {
            let value = n.load(x, i)?;
            if n.type_of(value) == ScalarType::Bool {
                return Ok(value);
            }
            let zero = n.constant_like(value, 0.0);
            Ok(n.binary(Binary::Ne, value, zero))
        })?;
        let sizes = vec![builder.found(out, 1)?];
        let positions = builder.staged(out, ElementType::I64);
        builder.call(Call {
            function: function!(non_zero),
            inputs: vec![flags],
            outputs: vec![positions],
            integers: Vec::new(),
            floats: Vec::new(),
            sizes,
        });
        builder.convert(positions, out)
    }
}
