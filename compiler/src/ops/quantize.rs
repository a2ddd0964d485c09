//! Quantisation that stays in floating point: values are rounded to the levels that a narrow type would have.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::broadcast::{self, Broadcast};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, Unary};
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    OpDef {
        name: "FakeConvert",
        version: 13,
        opsets: 13..=17,
        inputs: 2..=3,
        outputs: one_output,
        parse: |attributes| {
            let types = [("f8e4m3", ElementType::F8e4m3), ("f8e5m2", ElementType::F8e5m2)];
            Ok(Rc::new(FakeConvert { to: attributes.choice("destination_type", &types)? }))
        },
        ignorable: &[],
        support: Support::Full,
    },
    OpDef {
        name: "FakeQuantize",
        version: 1,
        opsets: 1..=17,
        inputs: 5..=5,
        outputs: one_output,
        parse: |attributes| {
            let levels = attributes.int("levels")?;
            match levels {
                2.. => Ok(Rc::new(FakeQuantize { levels, broadcast: Broadcast::parse(attributes)? })),
                _ => Err(attributes.invalid("levels", "a number of at least 2")),
            }
        },
        ignorable: &[],
        support: Support::Full,
    },
];

/// Demands that operand `i` stretches to the shape of operand 0.
fn check_stretches(inputs: &[Fact], i: usize, b: Broadcast, context: &mut InferContext) -> Result<(), Diagnostic> {
    let (x, parameter) = (typing::operand(inputs, 0)?, typing::operand(inputs, i)?);
    broadcast::stretches_to(&parameter.dims, &x.dims, b, &format!("operand {i}"), context)
}

/// An element of a parameter for element `index` of the result.
fn load(n: &mut NestBuilder, buffer: BufferId, b: Broadcast, index: &[Dim]) -> Result<Node, Diagnostic> {
    let dims = n.dims(buffer);
    n.load(buffer, &broadcast::padded(b.index(&dims, index), &dims))
}

/// FakeQuantize-1: x is clipped to the input interval, rounded (ties to even) to one of `levels` equidistant values,
/// and moved to the output interval. Operands: x and the lower and upper ends of both intervals, which stretch to x.
///
/// An empty input interval makes a step: up to it the lower end of the output, above it the upper one.
#[derive(Debug)]
struct FakeQuantize {
    levels: i64,
    broadcast: Broadcast,
}

impl Op for FakeQuantize {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::equal(inputs)?;
        typing::float(x.element, "the operand of FakeQuantize")?;
        // Without broadcasting the ends still are scalars or have the shape of x.
        for i in 1..5 {
            check_stretches(inputs, i, self.stretch(), context)?;
        }
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let (low, high) = (builder.input(1)?, builder.input(2)?);
        let (out_low, out_high) = (builder.input(3)?, builder.input(4)?);
        let b = self.stretch();
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            let (low, high) = (load(n, low, b, i)?, load(n, high, b, i)?);
            let (out_low, out_high) = (load(n, out_low, b, i)?, load(n, out_high, b, i)?);
            let steps = n.constant_like(x, (self.levels - 1) as f64);
            let offset = n.binary(Binary::Sub, x, low);
            let width = n.binary(Binary::Sub, high, low);
            let ratio = n.binary(Binary::Div, offset, width);
            let position = n.binary(Binary::Mul, ratio, steps);
            let level = n.unary(Unary::Round, position);
            let out_width = n.binary(Binary::Sub, out_high, out_low);
            // The distance of levels is the same for many elements.
            let step = n.binary(Binary::Div, out_width, steps);
            let moved = n.binary(Binary::Mul, level, step);
            let inner = n.binary(Binary::Add, moved, out_low);
            let (first, last) = (n.binary(Binary::Min, low, high), n.binary(Binary::Max, low, high));
            let above = n.binary(Binary::Lt, last, x);
            let clipped = n.select(above, out_high, inner);
            let below = n.binary(Binary::Le, x, first);
            Ok(n.select(below, out_low, clipped))
        })
    }
}

impl FakeQuantize {
    fn stretch(&self) -> Broadcast {
        if self.broadcast == Broadcast::None { Broadcast::Numpy } else { self.broadcast }
    }
}

/// FakeConvert-13: `(round(x * scale - shift) + shift) / scale`, rounded to an 8-bit floating-point type: ties to even,
/// what is too large becomes the largest finite value.
#[derive(Debug)]
struct FakeConvert {
    to: ElementType,
}

impl Op for FakeConvert {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let x = typing::operand(inputs, 0)?;
        typing::equal(inputs)?;
        if ![ElementType::F32, ElementType::F16, ElementType::Bf16].contains(&x.element) {
            let message = format!("the operand of FakeConvert has element type {}, not f32, f16 or bf16", x.element);
            return Err(Diagnostic::error(&codes::TYPE, message));
        }
        for i in 1..inputs.len() {
            check_stretches(inputs, i, Broadcast::Numpy, context)?;
        }
        Ok(vec![Fact::new(x.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, scale, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let shift = (builder.input_count() > 2).then(|| builder.input(2)).transpose()?;
        let wide = builder.scalar_type(x)?.element();
        let largest = if self.to == ElementType::F8e4m3 { 448.0 } else { 57344.0 };
        builder.map(out, |n, i| {
            let x = n.load(x, i)?;
            let scale = load(n, scale, Broadcast::Numpy, i)?;
            let shift = shift.map(|shift| load(n, shift, Broadcast::Numpy, i)).transpose()?;
            let scaled = n.binary(Binary::Mul, x, scale);
            let moved = shift.map_or(scaled, |shift| n.binary(Binary::Sub, scaled, shift));
            let (low, high) = (n.constant_like(x, -largest), n.constant_like(x, largest));
            let raised = n.binary(Binary::Max, moved, low);
            let clipped = n.binary(Binary::Min, raised, high);
            let narrow = n.cast(self.to, clipped);
            let rounded = n.cast(wide, narrow);
            let back = shift.map_or(rounded, |shift| n.binary(Binary::Add, rounded, shift));
            Ok(n.binary(Binary::Div, back, scale))
        })
    }
}
