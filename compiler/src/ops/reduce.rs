//! Reductions over axes that an operand names.

mod run_time;

use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::{Fact, Value};
use crate::op::{InferContext, Op, OpDef, Support, axes, one_output, reduction, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Node, ReduceFn, Unary};
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("ReduceL1", 4, |a| reduce(a, Function::L1)),
    row("ReduceL2", 4, |a| reduce(a, Function::L2)),
    row("ReduceLogicalAnd", 1, |a| reduce(a, Function::All)),
    row("ReduceLogicalOr", 1, |a| reduce(a, Function::Any)),
    row("ReduceMax", 1, |a| reduce(a, Function::Max)),
    row("ReduceMean", 1, |a| reduce(a, Function::Mean)),
    row("ReduceMin", 1, |a| reduce(a, Function::Min)),
    row("ReduceProd", 1, |a| reduce(a, Function::Prod)),
    row("ReduceSum", 1, |a| reduce(a, Function::Sum)),
];

const fn row(name: &'static str, version: u8, parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>) -> OpDef {
    OpDef {
        name,
        version,
        opsets: version..=17,
        inputs: 2..=2,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// What is computed of the elements along the axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    /// Sum of absolute values.
    L1,
    /// Square root of the sum of squares.
    L2,
    /// Whether all are true.
    All,
    /// Whether one is true.
    Any,
    /// Largest element; the lowest finite value of nothing.
    Max,
    /// Arithmetic mean; integers round toward zero; zero of nothing.
    Mean,
    /// Smallest element; the largest finite value of nothing.
    Min,
    /// Product; one of nothing.
    Prod,
    /// Sum; zero of nothing.
    Sum,
}

/// One of these functions along the axes of operand 1 (none: of every single element). Dimensions of these axes become
/// 1 with `keep_dims`, else they go.
#[derive(Debug)]
struct Reduce {
    function: Function,
    keep_dims: bool,
}

fn reduce(attributes: &Attributes, function: Function) -> Result<Rc<dyn Op>, Diagnostic> {
    Ok(Rc::new(Reduce { function, keep_dims: attributes.bool("keep_dims", false)? }))
}

impl Op for Reduce {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (x, named) = (typing::operand(inputs, 0)?, typing::operand(inputs, 1)?);
        match self.function {
            Function::All | Function::Any => typing::boolean(x.element, "the operand of a logical reduction")?,
            _ => typing::number(x.element, "the operand of a reduction")?,
        }
        if named.value == Value::Unknown {
            return Ok(vec![Fact::new(x.element, self.open_dims(x, named, context)?)]);
        }
        let axes = axes::constant(named, "the list of axes", x.rank())?;
        let mut dims = Vec::with_capacity(x.rank());
        for (i, dim) in x.dims.iter().enumerate() {
            match axes.contains(&i) {
                true if self.keep_dims => dims.push(Dim::constant(1)),
                true => {}
                false => dims.push(dim.clone()),
            }
        }
        Ok(vec![Fact::new(x.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if builder.fact(1)?.value == Value::Unknown {
            return self.lower_open(builder);
        }
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let (fact, dims) = (builder.fact(0)?, builder.dims(out));
        let axes = axes::constant(builder.fact(1)?, "the list of axes", fact.rank())?;
        let mut nest = builder.nest(&dims);
        let map = nest.map_axes();
        let mut kept = map.iter();
        let mut index = Vec::with_capacity(fact.rank());
        let mut extents = Vec::with_capacity(axes.len());
        for (i, dim) in fact.dims.iter().enumerate() {
            if axes.contains(&i) {
                index.push(nest.reduction_axis(dim));
                extents.push(dim.clone());
                if self.keep_dims {
                    kept.next();
                }
            } else {
                index.push(kept.next().cloned().ok_or_else(|| {
                    Diagnostic::error(&codes::INTERNAL, "a reduction has fewer results than remaining dimensions")
                })?);
            }
        }
        let value = nest.load(x, &index)?;
        let value = self.before(&mut nest, value);
        let value = if axes.is_empty() { value } else { nest.reduce(self.reduction(), value) };
        let value = self.after(&mut nest, value, &product(&extents), fact.element);
        nest.store(out, &map, value);
        Ok(())
    }
}

impl Reduce {
    fn reduction(&self) -> ReduceFn {
        match self.function {
            Function::L1 | Function::L2 | Function::Mean | Function::Sum => ReduceFn::Sum,
            Function::All => ReduceFn::All,
            Function::Any => ReduceFn::Any,
            Function::Max => ReduceFn::Max,
            Function::Min => ReduceFn::Min,
            Function::Prod => ReduceFn::Prod,
        }
    }

    /// What is reduced.
    fn before(&self, n: &mut NestBuilder, x: Node) -> Node {
        match self.function {
            Function::L1 => n.unary(Unary::Abs, x),
            Function::L2 => {
                // Squares of integers overflow their type sooner than their norm does.
                let wide = if n.type_of(x).is_float() { x } else { n.cast(ElementType::F64, x) };
                n.binary(Binary::Mul, wide, wide)
            }
            _ => x,
        }
    }

    /// What becomes of the reduced value of `count` elements of type `element`.
    fn after(&self, n: &mut NestBuilder, value: Node, count: &Dim, element: ElementType) -> Node {
        match self.function {
            Function::L2 => n.unary(Unary::Sqrt, value),
            Function::Mean => reduction::mean(n, value, count),
            Function::Max | Function::Min if count.range().min <= 0 => {
                let (lowest, highest) = limits(element);
                let limit = n.constant_like(value, if self.function == Function::Max { lowest } else { highest });
                match count.is(0) {
                    true => limit,
                    false => {
                        let (count, zero) = (n.index(count), n.index(&Dim::constant(0)));
                        let nothing = n.binary(Binary::Eq, count, zero);
                        n.select(nothing, limit, value)
                    }
                }
            }
            _ => value,
        }
    }
}

/// Lowest and highest finite value of a type; the limits of 64 bits are rounded, and saturate when they become integers.
fn limits(element: ElementType) -> (f64, f64) {
    let count = (1u128 << element.bits().min(64)) as f64;
    match (element.is_float(), element.is_signed()) {
        (true, _) => (-element.largest_float(), element.largest_float()),
        (false, true) => (-count / 2.0, count / 2.0 - 1.0),
        (false, false) => (0.0, count - 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    fn infer(x: Fact, axes: &[i64], keep_dims: bool) -> Result<Vec<Fact>, Diagnostic> {
        let axes = Fact::constant(Tensor::from_i64s(axes));
        Reduce { function: Function::Sum, keep_dims }.infer(&[x, axes], &mut InferContext::default())
    }

    #[test]
    fn run_time_sizes_stay_where_they_are_kept() {
        let batch = InferContext::default().fresh("x_0", 1, 8);
        let x = Fact::new(ElementType::F32, vec![batch.clone(), Dim::constant(3), Dim::constant(4)]);
        assert_eq!(infer(x.clone(), &[-1, 1], false).unwrap()[0].dims, std::slice::from_ref(&batch));
        assert_eq!(
            infer(x.clone(), &[0], true).unwrap()[0].dims,
            [Dim::constant(1), Dim::constant(3), Dim::constant(4)]
        );
        assert_eq!(infer(x, &[], false).unwrap()[0].dims, [batch, Dim::constant(3), Dim::constant(4)]);
    }

    #[test]
    fn bad_operands_are_errors() {
        let x = Fact::new(ElementType::F32, vec![Dim::constant(2), Dim::constant(3)]);
        assert_eq!(infer(x.clone(), &[2], false).unwrap_err().code.id, codes::SHAPE.id);
        assert_eq!(infer(x.clone(), &[i64::MIN], false).unwrap_err().code.id, codes::SHAPE.id);
        let open = Fact::new(ElementType::I64, vec![InferContext::default().fresh("axes_0", 1, 2)]);
        let sum = Reduce { function: Function::Sum, keep_dims: false };
        let error = sum.infer(&[x, open.clone()], &mut InferContext::default()).unwrap_err();
        assert_eq!(error.code.id, codes::UNSUPPORTED.id);
        let flags = Fact::new(ElementType::Boolean, vec![Dim::constant(2)]);
        let error = sum.infer(&[flags, open], &mut InferContext::default()).unwrap_err();
        assert_eq!(error.code.id, codes::TYPE.id);
    }
}
