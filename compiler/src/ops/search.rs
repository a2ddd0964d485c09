//! Places of values in sorted lists: Bucketize, SearchSorted.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, require_equal, same_element, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, Unary};
use crate::program::{Bound, BufferId};
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Bucketize", 3, |a| {
        Ok(Rc::new(Bucketize {
            element: a.index_type_or("output_type", ElementType::I64)?,
            right: a.bool("with_right_bound", true)?,
        }))
    }),
    row("SearchSorted", 15, |a| {
        // The specification and the files spell the attribute differently.
        let name = if a.has("right_mode") { "right_mode" } else { "right" };
        Ok(Rc::new(SearchSorted {
            element: a.index_type_or("output_type", ElementType::I64)?,
            right: a.bool(name, false)?,
        }))
    }),
];

const fn row(name: &'static str, version: u8, parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>) -> OpDef {
    let opsets = version..=17;
    OpDef { name, version, opsets, inputs: 2..=2, outputs: one_output, parse, ignorable: &[], support: Support::Full }
}

/// The number of elements in front of the first one for which `before` does not hold: it takes at most as many steps as
/// `size` has bits.
fn search(
    n: &mut NestBuilder,
    size: &Dim,
    before: &mut dyn FnMut(&mut NestBuilder, Dim) -> Result<Node, Diagnostic>,
) -> Result<Node, Diagnostic> {
    let (mut count, limit) = (n.constant(Const::I64(0)), n.index(size));
    let most = size.upper_bound().max(0);
    let bits = i64::BITS - most.leading_zeros();
    for bit in (0..bits).rev() {
        let step = n.constant(Const::I64(1 << bit));
        let next = n.binary(Binary::Add, count, step);
        let inside = n.binary(Binary::Le, next, limit);
        let last = n.as_index(next) - 1;
        let all_before = before(n, last)?;
        let more = n.binary(Binary::And, inside, all_before);
        count = n.select(more, next, count);
    }
    Ok(count)
}

/// Element `last` of a list, whose other indices are `at`; zero where there is none.
fn element(n: &mut NestBuilder, list: BufferId, at: &[Dim], last: Dim, size: &Dim) -> Result<Node, Diagnostic> {
    let zero = n.zero_of(list)?;
    let bound = Bound { value: last.clone(), limit: size.clone() };
    let at: Vec<Dim> = at.iter().cloned().chain([last]).collect();
    n.load_within(list, &at, vec![bound], zero)
}

/// Bucketize-3: the number of the interval in which each element of operand 0 lies, when the ascending list of
/// operand 1 divides the numbers. Its elements belong to the interval on their left (`right`: they are its right
/// bounds), or else on their right.
#[derive(Debug)]
struct Bucketize {
    element: ElementType,
    right: bool,
}

impl Op for Bucketize {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (x, bounds) = (operand(inputs, 0)?, operand(inputs, 1)?);
        typing::number(x.element, "the data")?;
        typing::number(bounds.element, "the list of bounds")?;
        if bounds.rank() != 1 {
            return Err(shape_error(format!("bounds have {} dimensions, not 1", bounds.rank())));
        }
        Ok(vec![Fact::new(self.element, x.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, bounds, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let size = builder.dims(bounds).first().cloned().unwrap_or_default();
        let (a, b) = (builder.scalar_type(x)?, builder.scalar_type(bounds)?);
        // Numbers of different types are compared as the one that holds both, or nearly so.
        let common = match (a == b, a.is_float() || b.is_float()) {
            (true, _) => a.element(),
            (false, true) => ElementType::F64,
            (false, false) => ElementType::I64,
        };
        builder.map(out, |n, i| {
            let value = n.load(x, i)?;
            let value = n.cast(common, value);
            search(n, &size, &mut |n, last| {
                let bound = element(n, bounds, &[], last, &size)?;
                let bound = n.cast(common, bound);
                if self.right {
                    return Ok(n.binary(Binary::Lt, bound, value));
                }
                let below = n.binary(Binary::Lt, value, bound);
                Ok(n.unary(Unary::Not, below))
            })
        })
    }
}

/// SearchSorted-15: where each value (operand 1) would stand in the ascending row of operand 0 that has the same
/// leading indices, or in its only row: in front of its equals or (`right`) behind them.
#[derive(Debug)]
struct SearchSorted {
    element: ElementType,
    right: bool,
}

impl Op for SearchSorted {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (sorted, values) = (operand(inputs, 0)?, operand(inputs, 1)?);
        typing::number(sorted.element, "the sorted sequence")?;
        same_element(inputs, 0, 1)?;
        match sorted.dims.as_slice() {
            [_] => {}
            [leading @ .., _] if values.rank() == sorted.rank() => {
                for (a, b) in leading.iter().zip(&values.dims) {
                    require_equal(context, a, b, "dimensions of the sorted sequences and of the values")?;
                }
            }
            dims => {
                let message = format!("sorted sequences with {} dimensions, values with {}", dims.len(), values.rank());
                return Err(shape_error(message));
            }
        }
        Ok(vec![Fact::new(self.element, values.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (sorted, values, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let dims = builder.dims(sorted);
        let size = dims.last().cloned().unwrap_or_default();
        builder.map(out, |n, i| {
            let value = n.load(values, i)?;
            let leading = i.get(..dims.len().saturating_sub(1)).unwrap_or(&[]);
            search(n, &size, &mut |n, last| {
                let element = element(n, sorted, leading, last, &size)?;
                Ok(n.binary(if self.right { Binary::Le } else { Binary::Lt }, element, value))
            })
        })
    }
}
