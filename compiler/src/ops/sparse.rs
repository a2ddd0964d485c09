//! Sparse matrices as lists of positions and values: SparseFillEmptyRows.

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::function;
use crate::op::operands::{self, operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support};
use crate::program::builder::Builder;
use crate::program::nest::{Binary, Const};
use crate::program::{Bound, BufferId, Call};
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "SparseFillEmptyRows",
    version: 16,
    opsets: 16..=17,
    inputs: 4..=4,
    outputs: |_| 3,
    parse: |_| Ok(Rc::new(FillEmptyRows)),
    ignorable: &[],
    support: Support::Full,
}];

/// Operands: values `[n]`, dense shape `[2]`, positions `[n, 2]`, default value. Results: positions `[m, 2]` and values `[m]`
/// ordered by row, with one element of the default value in column 0 of every row that had none; which rows these are.
#[derive(Debug)]
struct FillEmptyRows;

fn rows(inputs: &[Fact]) -> Result<Dim, Diagnostic> {
    let shape = operands::sizes(inputs, 1, "the dense shape of SparseFillEmptyRows")?;
    match shape.as_slice() {
        [rows, _] => Ok(rows.clone()),
        _ => Err(shape_error("the dense shape of SparseFillEmptyRows must have two elements")),
    }
}

impl Op for FillEmptyRows {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (values, positions) = (operand(inputs, 0)?, operand(inputs, 2)?);
        operands::same_element(inputs, 0, 3)?;
        if !positions.element.is_integer() {
            let message = format!("positions must be integers, not {}", positions.element);
            return Err(Diagnostic::error(&codes::TYPE, message));
        }
        let ([count], [listed, two]) = (values.dims.as_slice(), positions.dims.as_slice()) else {
            return Err(shape_error("values must be a vector and positions a matrix of two columns"));
        };
        require_equal(context, count, listed, "the numbers of values and positions")?;
        require_equal(context, two, &Dim::constant(2), "the columns of the positions")?;
        let rows = rows(inputs)?;
        let most = (count.clone() + &rows).upper_bound();
        let filled = context.fresh("filled", rows.range().min.max(0), most);
        Ok(vec![
            Fact::new(positions.element, vec![filled.clone(), Dim::constant(2)]),
            Fact::new(values.element, vec![filled]),
            Fact::new(ElementType::Boolean, vec![rows]),
        ])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (values, positions, default) = (builder.input(0)?, builder.input(2)?, builder.input(3)?);
        let count = builder.dims(values).first().cloned().unwrap_or_default();
        let (out_positions, out_values, empty) = (builder.output(0)?, builder.output(1)?, builder.output(2)?);
        let row_of = builder.temporary(ElementType::I64, vec![count.clone()]);
        builder.map(row_of, |n, i| n.load(positions, &[i, &[Dim::constant(0)]].concat()))?;
        let filled = builder.dims(out_values);
        let source = builder.temporary(ElementType::I64, filled.clone());
        let row = builder.temporary(ElementType::I64, filled);
        let order = builder.temporary(ElementType::I32, vec![count.clone() * 2]);
        let sizes = vec![builder.found(out_values, 0)?];
        builder.call(Call {
            function: function!(fill_empty_rows),
            inputs: vec![row_of],
            outputs: vec![source, row, empty, order],
            integers: Vec::new(),
            floats: Vec::new(),
            sizes,
        });
        builder.map(out_values, |n, i| {
            let origin = vec![Dim::constant(0); n.dims(default).len()];
            let otherwise = n.load(default, &origin)?;
            let at = n.load(source, i)?;
            let at = n.as_index(at);
            let bound = vec![Bound { value: at.clone(), limit: count.clone() }];
            n.load_within(values, &[at], bound, otherwise)
        })?;
        fill_positions(builder, [positions, source, row, out_positions], &count)
    }
}

/// Column 0 is the row, column 1 that of the old element, or 0.
fn fill_positions(builder: &mut Builder, buffers: [BufferId; 4], count: &Dim) -> Result<(), Diagnostic> {
    let [positions, source, row, out] = buffers;
    let element = builder.element(out);
    builder.map(out, |n, i| {
        let [at, column] = i else { return Err(Diagnostic::internal("positions have two dimensions")) };
        let zero = n.constant(Const::I64(0));
        let old = n.load(source, std::slice::from_ref(at))?;
        let old = n.as_index(old);
        let nothing = n.cast(element, zero);
        let bound = vec![Bound { value: old.clone(), limit: count.clone() }];
        let inside = n.load_within(positions, &[old, Dim::constant(1)], bound, nothing)?;
        let row = n.load(row, std::slice::from_ref(at))?;
        let row = n.cast(element, row);
        let column = n.index(column);
        let first = n.binary(Binary::Eq, column, zero);
        Ok(n.select(first, row, inside))
    })
}
