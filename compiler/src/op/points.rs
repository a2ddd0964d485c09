//! Points at equal distances in the cells of regions, and the values of feature maps there.

use super::sampling::{self, Image, Sides, sides};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::program::builder::NestBuilder;
use crate::program::nest::{Binary, Const, Node, Unary};
use crate::read::Attributes;

/// Points along each side of a cell, from the attribute `sampling_ratio`; zero: as many as it has pixels.
///
/// # Errors
/// A number that is negative or very large, or none.
pub fn ratio(attributes: &Attributes) -> Result<i64, Diagnostic> {
    let ratio = attributes.int("sampling_ratio")?;
    let few = (0..=1 << 16).contains(&ratio);
    if few { Ok(ratio) } else { Err(attributes.invalid("sampling_ratio", "a number from 0 to 65536")) }
}

/// The points along one side of the cells of a region.
#[derive(Clone, Copy, Debug)]
pub struct Points {
    /// First coordinate of the region.
    pub start: Node,
    /// Extent of a cell.
    cell: Node,
    /// Number of points of a cell, an integer.
    count: Node,
    /// That number, where it is the same for all regions; else zero.
    ratio: i64,
}

impl Points {
    /// `ratio` points in every cell of a region that starts at `start`, or as many as a cell has pixels.
    pub fn new(n: &mut NestBuilder, start: Node, cell: Node, ratio: i64) -> Self {
        let count = if ratio > 0 {
            n.constant(Const::I64(ratio))
        } else {
            let count = n.unary(Unary::Ceil, cell);
            let (count, zero) = (n.cast(ElementType::I64, count), n.constant(Const::I64(0)));
            n.binary(Binary::Max, count, zero)
        };
        Points { start, cell, count, ratio }
    }

    /// The coordinate of the points of a cell along a new reduction axis; of points whose number depends on the region,
    /// those from coordinate `first` on, which are at most `most`.
    pub fn coordinate(self, n: &mut NestBuilder, cell: &Dim, first: Node, most: &Dim) -> Node {
        let element = n.type_of(self.start).element();
        let (count, cell) = (n.cast(element, self.count), n.index(cell));
        let (step, cell) = (n.binary(Binary::Div, self.cell, count), n.cast(element, cell));
        let moved = n.binary(Binary::Mul, cell, self.cell);
        let corner = n.binary(Binary::Add, self.start, moved);
        let point = match self.ratio {
            0 => {
                let distance = n.binary(Binary::Sub, first, corner);
                let steps = n.binary(Binary::Div, distance, step);
                let steps = n.unary(Unary::Floor, steps);
                // Two more for what rounding does.
                let (steps, two) = (n.cast(ElementType::I64, steps), n.constant(Const::I64(2)));
                let steps = n.binary(Binary::Max, steps, two);
                let skipped = n.binary(Binary::Sub, steps, two);
                let skipped = n.binary(Binary::Min, skipped, self.count);
                let rest = n.binary(Binary::Sub, self.count, skipped);
                let point = n.counted_axis(rest, most);
                let point = n.index(&point);
                n.binary(Binary::Add, point, skipped)
            }
            ratio => {
                let point = n.reduction_axis(&Dim::constant(ratio));
                n.index(&point)
            }
        };
        let (point, half) = (n.cast(element, point), n.constant_like(self.start, 0.5));
        let point = n.binary(Binary::Add, point, half);
        let inside = n.binary(Binary::Mul, step, point);
        n.binary(Binary::Add, corner, inside)
    }
}

/// The mean of the points of a cell, from their sum; zero where there are none.
pub fn mean(n: &mut NestBuilder, sum: Node, ys: Points, xs: Points) -> Node {
    let element = n.type_of(sum).element();
    let (rows, columns) = (n.cast(element, ys.count), n.cast(element, xs.count));
    let (count, one) = (n.binary(Binary::Mul, rows, columns), n.constant_like(sum, 1.0));
    let count = n.binary(Binary::Max, count, one);
    n.binary(Binary::Div, sum, count)
}

/// The value at a point; zero further than one pixel outside.
///
/// # Errors
/// An internal error where a buffer does not exist.
pub fn sampled(n: &mut NestBuilder, image: &Image, y: Node, x: Node) -> Result<Node, Diagnostic> {
    let near = |n: &mut NestBuilder, at: Node, size: &Dim| -> (Sides, Node) {
        let element = n.type_of(at).element();
        let (before, zero, end) = (n.constant_like(at, -1.0), n.constant_like(at, 0.0), n.index(size));
        let end = n.cast(element, end);
        let inside = sampling::inside(n, at, before, end);
        let at = n.binary(Binary::Max, at, zero);
        (sides(n, at, size), inside)
    };
    let ((y, y_inside), (x, x_inside)) = (near(n, y, image.height()), near(n, x, image.width()));
    let value = image.between(n, y, x)?;
    let (inside, zero) = (n.binary(Binary::And, y_inside, x_inside), n.constant_like(value, 0.0));
    Ok(n.select(inside, value, zero))
}
