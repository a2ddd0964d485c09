//! Tables of the elements that an element of the result is made of, and of their weights.
//!
//! Coordinates are computed in f32, as the indices of the nearest elements depend on their rounding.

use super::run_time;
use super::sizes::{Resize, Scale};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::op::sampling::{cubic_far, cubic_near};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn, Unary};

/// How a position in the result becomes a coordinate in the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transform {
    /// `(i + 0.5) / scale - 0.5`.
    HalfPixel,
    /// The same; 0 for a result of one element.
    PytorchHalfPixel,
    /// `i / scale`.
    Asymmetric,
    /// `(i + 0.5) / scale`.
    TfHalfPixelForNn,
    /// `i * (size - 1) / (out - 1)`; 0 for a result of one element.
    AlignCorners,
}

/// The weights of elements by their distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    /// Equal weights of the elements that are covered.
    Mean,
    /// The two neighbours of a coordinate that is clipped to the data.
    Corners,
    /// `1 - |d|`, of the elements that there are.
    Triangle,
    /// The same with distances times the scales: a wider triangle where the size shrinks.
    Stretched,
    /// Keys' function with this parameter, of four elements clipped to the data.
    Cubic(f64),
    /// A triangle as wide as an element of the result, of the elements that there are.
    PillowTriangle,
    /// Keys' function with this parameter, as wide as four elements of the result.
    PillowCubic(f64),
}

/// What the elements of the result are made of along one dimension. Both tables have the dimensions [taps, positions].
pub struct Taps {
    /// Number of elements that are summed.
    pub count: Dim,
    /// Which.
    pub index: BufferId,
    /// Their weights.
    pub weight: BufferId,
}

fn size(n: &mut NestBuilder, dim: &Dim, element: ElementType) -> Node {
    let size = n.index(dim);
    n.cast(element, size)
}

/// Arithmetic on nodes with numbers of the same type.
fn with(n: &mut NestBuilder, function: Binary, a: Node, b: f64) -> Node {
    let b = n.constant_like(a, b);
    n.binary(function, a, b)
}

impl Resize {
    /// The scale in f32.
    pub fn scale_node(&self, n: &mut NestBuilder) -> Node {
        match self.scale {
            Scale::Known(scale) => n.constant(Const::F32(scale)),
            Scale::Quotient => {
                let (out, from) = (size(n, &self.out, ElementType::F32), size(n, &self.size, ElementType::F32));
                n.binary(Binary::Div, out, from)
            }
            Scale::Operand { list, place } => run_time::scale(n, list, place),
        }
    }

    /// An index (i64) moved to the nearest one that there is.
    pub fn clipped(&self, n: &mut NestBuilder, index: Node) -> Node {
        let last = n.index(&(self.size.clone() - 1));
        let below = n.binary(Binary::Min, index, last);
        with(n, Binary::Max, below, 0.0)
    }

    /// `of` where index (i64) exists, else 0.
    fn inside(&self, n: &mut NestBuilder, index: Node, of: Node) -> Node {
        let (zero, limit, nothing) = (n.constant(Const::I64(0)), n.index(&self.size), n.constant_like(of, 0.0));
        let (above, below) = (n.binary(Binary::Le, zero, index), n.binary(Binary::Lt, index, limit));
        let inside = n.binary(Binary::And, above, below);
        n.select(inside, of, nothing)
    }
}

impl Transform {
    /// The coordinate (f32) of position `i`.
    pub fn coordinate(self, n: &mut NestBuilder, resize: &Resize, i: &Dim) -> Node {
        let position = size(n, i, ElementType::F32);
        let scale = resize.scale_node(n);
        let zero = n.constant(Const::F32(0.0));
        let coordinate = match self {
            Transform::Asymmetric => n.binary(Binary::Div, position, scale),
            Transform::HalfPixel | Transform::PytorchHalfPixel | Transform::TfHalfPixelForNn => {
                let middle = with(n, Binary::Add, position, 0.5);
                let middle = n.binary(Binary::Div, middle, scale);
                if self == Transform::TfHalfPixelForNn { middle } else { with(n, Binary::Sub, middle, 0.5) }
            }
            Transform::AlignCorners => {
                let last = size(n, &(resize.size.clone() - 1), ElementType::F32);
                let steps = size(n, &(resize.out.clone() - 1), ElementType::F32);
                let product = n.binary(Binary::Mul, position, last);
                n.binary(Binary::Div, product, steps)
            }
        };
        let coordinate = match self {
            Transform::PytorchHalfPixel | Transform::AlignCorners => {
                let (one, out) = (n.constant(Const::I64(1)), n.index(&resize.out));
                let several = n.binary(Binary::Lt, one, out);
                n.select(several, coordinate, zero)
            }
            _ => coordinate,
        };
        // Run-time sizes may turn out equal: then nothing moves.
        let (from, to) = (n.index(&resize.size), n.index(&resize.out));
        let same = n.binary(Binary::Eq, from, to);
        n.select(same, position, coordinate)
    }
}

impl Kernel {
    /// Whether integers are rounded after every pass.
    pub fn rounds_each_pass(self) -> bool {
        matches!(self, Kernel::PillowTriangle | Kernel::PillowCubic(_))
    }

    /// The tables for one dimension; `all` are all that are resized.
    pub fn taps(
        self,
        builder: &mut Builder,
        resize: &Resize,
        all: &[Resize],
        transform: Transform,
        wide: ElementType,
    ) -> Result<Taps, Diagnostic> {
        let count = self.count(resize);
        let dims = [count.clone(), resize.out.clone()];
        let index = builder.table(resize.index_type(), &dims, |n, i| {
            let [tap, position] = i else { return Err(Diagnostic::internal("a table without taps")) };
            let index = self.index(n, resize, transform, (tap, position));
            Ok(resize.clipped(n, index))
        })?;
        let weight = builder.table(wide, &dims, |n, i| {
            let [tap, position] = i else { return Err(Diagnostic::internal("a table without taps")) };
            if !self.normalises() {
                return Ok(self.weight(n, resize, all, transform, (tap, position)));
            }
            let other = n.reduction_axis(&count);
            let term = self.weight(n, resize, all, transform, (&other, position));
            let sum = n.reduce(ReduceFn::Sum, term);
            let weight = self.weight(n, resize, all, transform, (tap, position));
            let (share, zero) = (n.binary(Binary::Div, weight, sum), n.constant_like(sum, 0.0));
            let nothing = n.binary(Binary::Eq, sum, zero);
            Ok(n.select(nothing, zero, share))
        })?;
        Ok(Taps { count, index, weight })
    }

    /// Whether weights are divided by their sum.
    fn normalises(self) -> bool {
        matches!(self, Kernel::Triangle | Kernel::Stretched | Kernel::PillowTriangle | Kernel::PillowCubic(_))
    }

    /// How far the function reaches, in elements of the result or the data, whatever is larger.
    fn support(self) -> i64 {
        if matches!(self, Kernel::Cubic(_) | Kernel::PillowCubic(_)) { 2 } else { 1 }
    }

    /// How many elements of the data the triangle reaches to either side.
    fn radius(resize: &Resize) -> Dim {
        let limit = resize.size.upper_bound().max(1);
        match resize.scale {
            Scale::Known(scale) => Dim::constant(((1.0 / f64::from(scale)).ceil() as i64).clamp(1, limit)),
            // Sizes of results are rounded down, so their quotient reaches as far as the scale.
            Scale::Quotient | Scale::Operand { .. } => resize.size.ceil_div(&resize.out).maximum(&Dim::constant(1)),
        }
    }

    fn count(self, resize: &Resize) -> Dim {
        let Resize { size, out, .. } = resize;
        match self {
            Kernel::Mean => size.floor_div(out).maximum(&Dim::constant(1)),
            Kernel::Corners | Kernel::Triangle => Dim::constant(2),
            Kernel::Stretched => Kernel::radius(resize) * 2,
            Kernel::Cubic(_) => Dim::constant(4),
            Kernel::PillowTriangle | Kernel::PillowCubic(_) => {
                (size.maximum(out) * self.support()).ceil_div(out) * 2 + 1
            }
        }
    }

    /// The index (i64) of a tap, which may lie outside of the data.
    fn index(self, n: &mut NestBuilder, resize: &Resize, transform: Transform, (tap, i): (&Dim, &Dim)) -> Node {
        let first = match self {
            Kernel::Mean => {
                let start = (i.clone() * &resize.size).floor_div(&resize.out);
                return n.index(&(start + tap));
            }
            Kernel::PillowTriangle | Kernel::PillowCubic(_) => {
                let (start, _) = self.pillow_span(n, resize, i);
                start
            }
            Kernel::Corners => {
                let clipped = clipped_coordinate(n, resize, transform, i);
                n.cast(ElementType::I64, clipped)
            }
            Kernel::Triangle | Kernel::Stretched | Kernel::Cubic(_) => {
                let coordinate = transform.coordinate(n, resize, i);
                let below = n.unary(Unary::Floor, coordinate);
                let below = n.cast(ElementType::I64, below);
                let reach = match self {
                    Kernel::Stretched => Kernel::radius(resize),
                    Kernel::Cubic(_) => Dim::constant(2),
                    _ => Dim::constant(1),
                };
                let back = n.index(&(reach - 1));
                n.binary(Binary::Sub, below, back)
            }
        };
        let tap = n.index(tap);
        n.binary(Binary::Add, first, tap)
    }

    /// The weight of a tap, before it is divided by the sum.
    fn weight(
        self,
        n: &mut NestBuilder,
        resize: &Resize,
        all: &[Resize],
        transform: Transform,
        at: (&Dim, &Dim),
    ) -> Node {
        let index = self.index(n, resize, transform, at);
        match self {
            Kernel::Mean => {
                let (one, count) = (n.constant(Const::F32(1.0)), size(n, &self.count(resize), ElementType::F32));
                n.binary(Binary::Div, one, count)
            }
            Kernel::Corners => {
                let coordinate = clipped_coordinate(n, resize, transform, at.1);
                // The last element has no neighbour: it counts twice by half.
                let distance = distance(n, coordinate, index);
                let weight = falling(n, distance);
                let (last, whole) =
                    (size(n, &(resize.size.clone() - 1), ElementType::F32), n.constant_like(weight, 0.5));
                let at_end = n.binary(Binary::Le, last, coordinate);
                n.select(at_end, whole, weight)
            }
            Kernel::Triangle | Kernel::Stretched => {
                let coordinate = transform.coordinate(n, resize, at.1);
                let mut distance = distance(n, coordinate, index);
                if self == Kernel::Stretched {
                    let stretch = stretch(n, resize, all);
                    distance = n.binary(Binary::Mul, distance, stretch);
                }
                let weight = falling(n, distance);
                resize.inside(n, index, weight)
            }
            Kernel::Cubic(parameter) => {
                let coordinate = transform.coordinate(n, resize, at.1);
                let distance = distance(n, coordinate, index);
                keys(n, distance, parameter)
            }
            Kernel::PillowTriangle | Kernel::PillowCubic(_) => self.pillow_weight(n, resize, index, at.1),
        }
    }

    /// Centre and width of the window in the data, in f64, of a position in the result.
    fn pillow_window(self, n: &mut NestBuilder, resize: &Resize, i: &Dim) -> (Node, Node) {
        let f64 = ElementType::F64;
        let (from, to) = (size(n, &resize.size, f64), size(n, &resize.out, f64));
        let scale = n.binary(Binary::Div, from, to);
        let position = size(n, i, f64);
        let middle = with(n, Binary::Add, position, 0.5);
        (n.binary(Binary::Mul, middle, scale), with(n, Binary::Max, scale, 1.0))
    }

    /// First index and end (i64) of the window.
    fn pillow_span(self, n: &mut NestBuilder, resize: &Resize, i: &Dim) -> (Node, Node) {
        let (centre, width) = self.pillow_window(n, resize, i);
        let reach = with(n, Binary::Mul, width, self.support() as f64);
        let (first, end) = (n.binary(Binary::Sub, centre, reach), n.binary(Binary::Add, centre, reach));
        let (first, end) = (with(n, Binary::Add, first, 0.5), with(n, Binary::Add, end, 0.5));
        let (first, end) = (n.cast(ElementType::I64, first), n.cast(ElementType::I64, end));
        (with(n, Binary::Max, first, 0.0), end)
    }

    fn pillow_weight(self, n: &mut NestBuilder, resize: &Resize, index: Node, i: &Dim) -> Node {
        let ((centre, width), (_, end)) = (self.pillow_window(n, resize, i), self.pillow_span(n, resize, i));
        let at = n.cast(ElementType::F64, index);
        let at = n.binary(Binary::Sub, at, centre);
        let at = with(n, Binary::Add, at, 0.5);
        let distance = n.binary(Binary::Div, at, width);
        let distance = n.unary(Unary::Abs, distance);
        let weight = match self {
            Kernel::PillowCubic(parameter) => keys(n, distance, parameter),
            _ => falling(n, distance),
        };
        let (zero, before) = (n.constant_like(weight, 0.0), n.binary(Binary::Lt, index, end));
        let weight = n.select(before, weight, zero);
        resize.inside(n, index, weight)
    }
}

/// The coordinate within the data.
fn clipped_coordinate(n: &mut NestBuilder, resize: &Resize, transform: Transform, i: &Dim) -> Node {
    let coordinate = transform.coordinate(n, resize, i);
    let last = size(n, &(resize.size.clone() - 1), ElementType::F32);
    let below = n.binary(Binary::Min, coordinate, last);
    with(n, Binary::Max, below, 0.0)
}

fn distance(n: &mut NestBuilder, coordinate: Node, index: Node) -> Node {
    let index = n.cast(ElementType::F32, index);
    let difference = n.binary(Binary::Sub, coordinate, index);
    n.unary(Unary::Abs, difference)
}

/// `max(0, 1 - d)`.
fn falling(n: &mut NestBuilder, distance: Node) -> Node {
    let one = n.constant_like(distance, 1.0);
    let rest = n.binary(Binary::Sub, one, distance);
    with(n, Binary::Max, rest, 0.0)
}

/// What distances are multiplied with where any of the sizes shrinks: the scale.
fn stretch(n: &mut NestBuilder, resize: &Resize, all: &[Resize]) -> Node {
    let (scale, one) = (resize.scale_node(n), n.constant(Const::F32(1.0)));
    let mut shrinks = n.constant(Const::Bool(false));
    for other in all {
        let other = other.scale_node(n);
        let less = n.binary(Binary::Lt, other, one);
        shrinks = n.binary(Binary::Or, shrinks, less);
    }
    n.select(shrinks, scale, one)
}

/// Keys' cubic function with parameter `a` at a distance.
fn keys(n: &mut NestBuilder, distance: Node, a: f64) -> Node {
    let (one, two) = (n.constant_like(distance, 1.0), n.constant_like(distance, 2.0));
    let (near, far) = (cubic_near(n, distance, a), cubic_far(n, distance, a));
    let (is_near, is_far) = (n.binary(Binary::Le, distance, one), n.binary(Binary::Lt, distance, two));
    let nothing = n.constant_like(distance, 0.0);
    let outer = n.select(is_far, far, nothing);
    n.select(is_near, near, outer)
}
