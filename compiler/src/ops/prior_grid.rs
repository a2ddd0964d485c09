//! Boxes moved to every cell of a feature map: ExperimentalDetectronPriorGridGenerator.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{flatten, operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node};
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "ExperimentalDetectronPriorGridGenerator",
    version: 6,
    opsets: 6..=17,
    inputs: 3..=3,
    outputs: one_output,
    parse: grid,
    ignorable: &[],
    support: Support::Full,
}];

/// ExperimentalDetectronPriorGridGenerator-6: boxes (operand 0, `[boxes, 4]`) moved to every cell of a feature map
/// (operand 1), whose cells divide an image (operand 2): `[rows, columns, boxes, 4]`, or `[rows * columns * boxes, 4]`.
#[derive(Debug)]
struct Grid {
    flatten: bool,
    /// Rows and columns; zero: those of the feature map.
    cells: [i64; 2],
    /// Distance of rows and columns; zero: the extent of the image by their number.
    steps: [f32; 2],
}

fn grid(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let cells = [attributes.int_or("h", 0)?, attributes.int_or("w", 0)?];
    for (size, name) in cells.iter().zip(["h", "w"]) {
        if !(0..=i64::from(i32::MAX)).contains(size) {
            return Err(attributes.invalid(name, "a number that is not negative"));
        }
    }
    let steps = [attributes.float_or("stride_y", 0.0)? as f32, attributes.float_or("stride_x", 0.0)? as f32];
    Ok(Rc::new(Grid { flatten: attributes.bool("flatten", true)?, cells, steps }))
}

impl Grid {
    /// Rows and columns.
    fn cells(&self, inputs: &[Fact]) -> Result<[Dim; 2], Diagnostic> {
        let [_, _, rows, columns] = operand(inputs, 1)?.dims.as_slice() else {
            return Err(shape_error(format!("the feature map has {} dimensions, not 4", operand(inputs, 1)?.rank())));
        };
        let [h, w] = self.cells;
        let or = |size: i64, own: &Dim| if size == 0 { own.clone() } else { Dim::constant(size) };
        Ok([or(h, rows), or(w, columns)])
    }
}

impl Op for Grid {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (priors, image) = (operand(inputs, 0)?, operand(inputs, 2)?);
        typing::float(priors.element, "the list of boxes")?;
        typing::equal(inputs)?;
        let [boxes, size] = priors.dims.as_slice() else {
            return Err(shape_error(format!("boxes have {} dimensions, not 2", priors.rank())));
        };
        require_equal(context, size, &Dim::constant(4), "the numbers of a box and four")?;
        if image.rank() != 4 {
            return Err(shape_error(format!("the image has {} dimensions, not 4", image.rank())));
        }
        let [rows, columns] = self.cells(inputs)?;
        let dims = match self.flatten {
            true => vec![rows * &columns * boxes, Dim::constant(4)],
            false => vec![rows, columns, boxes.clone(), Dim::constant(4)],
        };
        Ok(vec![Fact::new(priors.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (priors, image, out) = (builder.input(0)?, builder.input(2)?, builder.output(0)?);
        let cells = self.cells(builder.facts())?;
        let boxes = builder.dims(priors).first().cloned().unwrap_or_default();
        let extents = builder.dims(image);
        let dims: Vec<Dim> = cells.iter().cloned().chain([boxes, Dim::constant(2)]).collect();
        for axis in [0, 1] {
            let mut n = builder.nest(&dims);
            let i = n.map_axes();
            let [row, column, prior, corner] = i.as_slice() else {
                return Err(Diagnostic::internal("boxes lack dimensions"));
            };
            // Coordinates are x, y; dimensions are rows, columns.
            let k = 1 - axis;
            let [extent, count] = [extents.get(k + 2), cells.get(k)].map(|size| size.cloned().unwrap_or_default());
            let step = match self.steps.get(k) {
                Some(step) if *step != 0.0 => n.constant(Const::F32(*step)),
                _ => {
                    let [extent, count] = [extent, count].map(|size| float(&mut n, &size));
                    n.binary(Binary::Div, extent, count)
                }
            };
            let (place, half) = (float(&mut n, if axis == 0 { column } else { row }), n.constant(Const::F32(0.5)));
            let place = n.binary(Binary::Add, place, half);
            let centre = n.binary(Binary::Mul, step, place);
            let coordinate = corner.clone() * 2 + Dim::from(axis);
            let value = n.load(priors, &[prior.clone(), coordinate.clone()])?;
            let centre = n.cast(n.type_of(value).element(), centre);
            let value = n.binary(Binary::Add, value, centre);
            let place = [row.clone(), column.clone(), prior.clone()];
            match self.flatten {
                true => n.store(out, &[flatten(&place, &dims), coordinate], value),
                false => n.store(out, &place.into_iter().chain([coordinate]).collect::<Vec<_>>(), value),
            }
        }
        Ok(())
    }
}

/// A size or an index as f32.
fn float(n: &mut NestBuilder, dim: &Dim) -> Node {
    let value = n.index(dim);
    n.cast(ElementType::F32, value)
}
