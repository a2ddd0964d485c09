//! Tensors made from a few numbers: ranges, one-hot codes, identity matrices.

use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::{InferContext, Op, OpDef, Support, axes, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, Unary};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Eye", 9, 9..=17, 3..=4, |a| Ok(Rc::new(Eye { element: a.element_type("output_type")? }))),
    row("OneHot", 1, 1..=15, 4..=4, |a| Ok(Rc::new(OneHot { axis: a.int("axis")?, from_end: false }))),
    row("OneHot", 16, 16..=17, 4..=4, |a| {
        let modes = [("ignore_negative", false), ("ignore-negative", false), ("normalize", true)];
        let from_end = a.choice_or("negative_indices_mode", &modes, false)?;
        Ok(Rc::new(OneHot { axis: a.int("axis")?, from_end }))
    }),
    row("Range", 1, 1..=3, 3..=3, |_| Ok(Rc::new(Range { element: None }))),
    row("Range", 4, 4..=17, 3..=3, |a| Ok(Rc::new(Range { element: Some(a.element_type("output_type")?) }))),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: RangeInclusive<usize>,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef { name, version, opsets, inputs, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

/// Demands a single element.
fn check_single(fact: &Fact, what: &str) -> Result<(), Diagnostic> {
    match fact.dims.iter().all(|dim| dim.is(1)) {
        true => Ok(()),
        false => Err(Diagnostic::error(&codes::SHAPE, format!("{what} is not a scalar"))),
    }
}

/// The single element of a buffer.
fn single(n: &mut NestBuilder, buffer: BufferId) -> Result<Node, Diagnostic> {
    let origin = vec![Dim::constant(0); n.dims(buffer).len()];
    n.load(buffer, &origin)
}

fn not_constant(what: &str) -> Diagnostic {
    Diagnostic::error(&codes::UNSUPPORTED, format!("{what} must be a constant or computed from shapes"))
        .help("it decides the size of the result, for which memory is planned when the model is compiled")
}

/// The single element of a size operand.
fn size(fact: &Fact, what: &str) -> Result<Dim, Diagnostic> {
    typing::integer(fact.element, what)?;
    check_single(fact, what)?;
    let sizes = fact.as_sizes().ok_or_else(|| not_constant(what))?;
    let [size] = sizes.as_slice() else { return Err(not_constant(what)) };
    if size.range().max < 0 {
        return Err(Diagnostic::error(&codes::VALUE, format!("{what} is {size}")));
    }
    Ok(size.maximum(&Dim::constant(0)))
}

/// Range: `start, start + step, ...` up to, not including, `stop`. Operands start, stop, step are first converted to
/// the element type of the result.
#[derive(Debug)]
struct Range {
    /// Element type of the result; `None` is that of the operands.
    element: Option<ElementType>,
}

impl Range {
    fn element(&self, start: &Fact) -> ElementType {
        self.element.unwrap_or(start.element)
    }

    /// Number of elements, where it is known or follows from shapes.
    fn count(&self, inputs: &[Fact], element: ElementType) -> Result<Option<Dim>, Diagnostic> {
        let (start, stop, step) =
            (typing::operand(inputs, 0)?, typing::operand(inputs, 1)?, typing::operand(inputs, 2)?);
        let zero_step = || Diagnostic::error(&codes::VALUE, "the step of Range is zero");
        if let (Some(start), Some(stop), Some(step)) =
            (number(start, element), number(stop, element), number(step, element))
        {
            let count = ((stop - start) / step).ceil();
            return match (step == 0.0, count.is_finite()) {
                (true, _) => Err(zero_step()),
                (_, true) => Ok(Some(Dim::constant(count.max(0.0) as i64))),
                (_, false) => Err(Diagnostic::error(&codes::VALUE, "the length of Range is not finite")),
            };
        }
        let sizes = |fact: &Fact| fact.as_sizes().and_then(|sizes| sizes.first().cloned());
        let (Some(start), Some(stop), Some(step)) = (sizes(start), sizes(stop), sizes(step)) else { return Ok(None) };
        let Some(step) = step.as_const() else { return Ok(None) };
        let (distance, step) = if step < 0 { (start - stop, step.saturating_neg()) } else { (stop - start, step) };
        match step {
            0 => Err(zero_step()),
            _ => Ok(Some(distance.ceil_div(&Dim::constant(step)).maximum(&Dim::constant(0)))),
        }
    }
}

/// Finds the number of elements of a Range: `ceil((stop - start) / step)`, of the operands after their conversion. A step
/// of zero makes it infinite, which is out of all bounds.
fn find_count(builder: &mut Builder, element: ElementType) -> Result<(), Diagnostic> {
    let operands = [builder.input(0)?, builder.input(1)?, builder.input(2)?];
    let count = builder.found(builder.output(0)?, 0)?;
    builder.find_sizes(vec![count], |n, _| {
        let mut number = |buffer| {
            let value = single(n, buffer)?;
            let value = n.cast(element, value);
            Ok::<Node, Diagnostic>(n.cast(ElementType::F64, value))
        };
        let [start, stop, step] = [number(operands[0])?, number(operands[1])?, number(operands[2])?];
        let distance = n.binary(Binary::Sub, stop, start);
        let steps = n.binary(Binary::Div, distance, step);
        let (steps, zero) = (n.unary(Unary::Ceil, steps), n.constant(Const::F64(0.0)));
        let forward = n.binary(Binary::Lt, zero, steps);
        let steps = n.select(forward, steps, zero);
        let most = n.constant(Const::F64(f64::from(i32::MAX)));
        let steps = n.binary(Binary::Min, steps, most);
        Ok(n.cast(ElementType::I64, steps))
    })
}

/// A constant scalar after its conversion to `element`.
fn number(fact: &Fact, element: ElementType) -> Option<f64> {
    use include_ir_runtime::__private::v1::cast;
    let value = fact.as_constant()?.to_f64s()?.first().copied()?;
    Some(match element {
        ElementType::F64 => value,
        ElementType::F16 => f64::from(cast::f16_bits_to_f32(cast::f32_to_f16_bits(value as f32))),
        ElementType::Bf16 => f64::from(cast::bf16_bits_to_f32(cast::f32_to_bf16_bits(value as f32))),
        _ if element.is_float() => f64::from(value as f32),
        _ => value.trunc(),
    })
}

impl Op for Range {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        for (fact, what) in inputs.iter().zip(["start", "stop", "step"]) {
            check_single(fact, what)?;
            typing::number(fact.element, what)?;
        }
        if self.element.is_none() {
            typing::equal(inputs)?;
        }
        let element = self.element(typing::operand(inputs, 0)?);
        typing::number(element, "the result of Range")?;
        let count = match self.count(inputs, element)? {
            Some(count) => vec![count],
            None => context.bounded("start, stop and step of a Range", 1, &Dim::constant(1))?,
        };
        Ok(vec![Fact::new(element, count)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (start, step, out) = (builder.input(0)?, builder.input(2)?, builder.output(0)?);
        let element = builder.element(out);
        let wide = builder.scalar_type(out)?.element();
        if self.count(builder.facts(), element)?.is_none() {
            find_count(builder, element)?;
        }
        builder.map(out, |n, i| {
            let (start, step) = (single(n, start)?, single(n, step)?);
            let (start, step) = (n.cast(element, start), n.cast(element, step));
            let (start, step) = (n.cast(wide, start), n.cast(wide, step));
            let position = n.index(i.first().unwrap_or(&Dim::constant(0)));
            let position = n.cast(wide, position);
            let distance = n.binary(Binary::Mul, position, step);
            Ok(n.binary(Binary::Add, start, distance))
        })
    }
}

/// OneHot: a new dimension `axis` of size depth, with `on` where its index is the element of the indices and `off`
/// elsewhere. Operands indices, depth, on, off.
#[derive(Debug)]
struct OneHot {
    axis: i64,
    /// Negative indices count from the end; else they are nowhere.
    from_end: bool,
}

impl Op for OneHot {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let inputs = &*context.sized(inputs, &[1], "the depth", &product(&typing::operand(inputs, 0)?.dims))?;
        let (indices, on) = (typing::operand(inputs, 0)?, typing::operand(inputs, 2)?);
        typing::integer(indices.element, "the list of indices")?;
        typing::equal(inputs.get(2..).unwrap_or(&[]))?;
        check_single(on, "the value for the index")?;
        check_single(typing::operand(inputs, 3)?, "the value elsewhere")?;
        let depth = size(typing::operand(inputs, 1)?, "the depth")?;
        let axis = axes::normalize(self.axis, indices.rank() + 1)?;
        let mut dims = indices.dims.clone();
        dims.insert(axis.min(dims.len()), depth);
        Ok(vec![Fact::new(on.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (indices, on, off) = (builder.input(0)?, builder.input(2)?, builder.input(3)?);
        let out = builder.output(0)?;
        let axis = axes::normalize(self.axis, builder.dims(out).len())?;
        builder.map(out, |n, i| {
            let mut rest = i.to_vec();
            if axis >= rest.len() {
                return Err(Diagnostic::error(&codes::INTERNAL, "a one-hot code lacks its axis"));
            }
            let place = rest.remove(axis);
            let place = n.index(&place);
            let index = n.load(indices, &rest)?;
            let mut index = n.cast(ElementType::I64, index);
            if self.from_end {
                let depth = n.dims(out).get(axis).cloned().unwrap_or(Dim::constant(0));
                let (depth, zero) = (n.index(&depth), n.constant(Const::I64(0)));
                let negative = n.binary(Binary::Lt, index, zero);
                let wrapped = n.binary(Binary::Add, index, depth);
                index = n.select(negative, wrapped, index);
            }
            let here = n.binary(Binary::Eq, index, place);
            let (on, off) = (single(n, on)?, single(n, off)?);
            Ok(n.select(here, on, off))
        })
    }
}

/// Eye-9: matrices with ones on a diagonal (above the main one by operand 2). Operands rows, columns, diagonal and,
/// optionally, the batch dimensions that stand in front.
#[derive(Debug)]
struct Eye {
    element: ElementType,
}

impl Op for Eye {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let shape: Vec<usize> = [0, 1, 3].into_iter().filter(|i| *i < inputs.len()).collect();
        let inputs = &*context.sized(inputs, &shape, "the shape of the matrices", &Dim::constant(1))?;
        let rows = size(typing::operand(inputs, 0)?, "the number of rows")?;
        let columns = size(typing::operand(inputs, 1)?, "the number of columns")?;
        let diagonal = typing::operand(inputs, 2)?;
        check_single(diagonal, "the diagonal")?;
        typing::integer(diagonal.element, "the diagonal")?;
        if self.element == ElementType::String {
            return Err(Diagnostic::error(&codes::TYPE, "a matrix cannot be made of strings"));
        }
        let mut dims = match inputs.get(3) {
            Some(batch) if batch.rank() == 1 => batch.as_sizes().ok_or_else(|| not_constant("the batch shape"))?,
            Some(_) => return Err(Diagnostic::error(&codes::SHAPE, "the batch shape is not a vector")),
            None => Vec::new(),
        };
        if let Some(dim) = dims.iter().find(|dim| dim.range().max < 0) {
            return Err(Diagnostic::error(&codes::VALUE, format!("the batch shape contains {dim}")));
        }
        dims.extend([rows, columns]);
        Ok(vec![Fact::new(self.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (diagonal, out) = (builder.input(2)?, builder.output(0)?);
        builder.map(out, |n, i| {
            let [.., row, column] = i else {
                return Err(Diagnostic::error(&codes::INTERNAL, "a matrix lacks dimensions"));
            };
            let offset = n.index(&(column.clone() - row));
            let diagonal = single(n, diagonal)?;
            let diagonal = n.cast(ElementType::I64, diagonal);
            Ok(n.binary(Binary::Eq, offset, diagonal))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    fn scalar(value: i64) -> Fact {
        let mut fact = Fact::constant(Tensor::from_i64s(&[value]));
        fact.dims.clear();
        fact
    }

    fn range(operands: [Fact; 3]) -> Result<Vec<Fact>, Diagnostic> {
        Range { element: Some(ElementType::I64) }.infer(&operands, &mut InferContext::default())
    }

    #[test]
    fn a_range_may_end_at_a_run_time_size() {
        let length = InferContext::default().fresh("x_0", 1, 8);
        let stop = Fact::sizes(ElementType::I64, vec![], vec![length.clone()]);
        let facts = range([scalar(0), stop.clone(), scalar(1)]).unwrap();
        assert_eq!(facts[0].dims, std::slice::from_ref(&length));
        let facts = range([scalar(0), stop, scalar(2)]).unwrap();
        assert_eq!(facts[0].dims, [length.ceil_div(&Dim::constant(2))]);
    }

    #[test]
    fn bad_ranges_are_errors() {
        assert_eq!(range([scalar(0), scalar(4), scalar(0)]).unwrap_err().code.id, codes::VALUE.id);
        let open = Fact::new(ElementType::I64, vec![]);
        assert_eq!(range([scalar(0), open, scalar(1)]).unwrap_err().code.id, codes::UNBOUNDED.id);
        let vector = Fact::constant(Tensor::from_i64s(&[1, 2]));
        assert_eq!(range([vector, scalar(4), scalar(1)]).unwrap_err().code.id, codes::SHAPE.id);
    }

    #[test]
    fn a_depth_below_zero_is_an_error() {
        let on = Fact::new(ElementType::F32, vec![]);
        let indices = Fact::new(ElementType::I64, vec![Dim::constant(3)]);
        let operands = [indices, scalar(-1), on.clone(), on];
        let error = OneHot { axis: 0, from_end: false }.infer(&operands, &mut InferContext::default()).unwrap_err();
        assert_eq!(error.code.id, codes::VALUE.id);
    }
}
