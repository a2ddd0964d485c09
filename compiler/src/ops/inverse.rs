//! The inverse of matrices: Inverse.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::{operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::Call;
use crate::program::builder::Builder;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "Inverse",
    version: 14,
    opsets: 14..=17,
    inputs: 1..=1,
    outputs: one_output,
    parse: |a| Ok(Rc::new(Inverse { adjoint: a.bool("adjoint", false)? })),
    ignorable: &[],
    support: Support::Full,
}];

/// Inverses of the square matrices in the last two dimensions; with `adjoint` of the transposed (real adjoint) matrices.
#[derive(Debug)]
struct Inverse {
    adjoint: bool,
}

impl Op for Inverse {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = operand(inputs, 0)?;
        if !x.element.is_float() {
            let message = format!("the operand of Inverse has element type {}, not a floating-point type", x.element);
            return Err(Diagnostic::error(&codes::TYPE, message));
        }
        let [.., rows, columns] = x.dims.as_slice() else {
            return Err(shape_error("the operand of Inverse has fewer than 2 dimensions"));
        };
        require_equal(context, rows, columns, "the last two dimensions of the operand of Inverse")?;
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let element = builder.scalar_type(x)?.element();
        let (matrices, result) = (builder.converted(x, element)?, builder.staged(out, element));
        let n = builder.dims(x).last().cloned().unwrap_or_default();
        let rows = builder.temporary(ElementType::F64, vec![n.clone(), n * 2]);
        builder.call(Call {
            function: function!(inverse),
            inputs: vec![matrices],
            outputs: vec![result, rows],
            integers: vec![Dim::constant(i64::from(self.adjoint))],
            floats: Vec::new(),
            sizes: Vec::new(),
        });
        builder.convert(result, out)
    }
}
