//! Interpolation that takes the nearest element: a move whose index is an expression, or stands in a table.

use super::sizes::{Plan, Resize, Scale, scaled};
use super::taps::Transform;
use super::unpadded;
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, Unary};

/// How a coordinate becomes an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    /// To the nearest integer, halves down.
    PreferFloor,
    /// To the nearest integer, halves up.
    PreferCeil,
    /// Down.
    Floor,
    /// Up.
    Ceil,
    /// Up where the size shrinks, else toward zero.
    Simple,
}

/// Where an index along a resized dimension comes from.
enum Index {
    /// `floor((step * i + offset) / divisor)`.
    Line { step: i64, offset: i64, divisor: i64 },
    /// Element `i` of a tensor.
    Table(BufferId),
}

/// One nest that moves elements.
pub fn lower(builder: &mut Builder, plan: &Plan, transform: Transform, rounding: Rounding) -> Result<(), Diagnostic> {
    let (x, out) = (builder.input(0)?, builder.output(0)?);
    let zero = Const::of(builder.scalar_type(x)?, 0.0);
    let mut indices = Vec::with_capacity(plan.resizes.len());
    for resize in &plan.resizes {
        indices.push((resize.axis, find(builder, resize, transform, rounding)?));
    }
    builder.map(out, |n, i| {
        let mut index = i.to_vec();
        for (axis, source) in indices {
            let Some(slot) = index.get_mut(axis) else { continue };
            *slot = match source {
                Index::Line { step, offset, divisor } => {
                    (slot.clone() * step + offset).floor_div(&Dim::constant(divisor))
                }
                Index::Table(table) => {
                    let at = n.load(table, std::slice::from_ref(slot))?;
                    n.as_index(at)
                }
            };
        }
        let (index, bounds) = unpadded(plan, &index);
        let zero = n.constant(zero);
        n.load_within(x, &index, bounds, zero)
    })
}

/// Largest run-time size for which an expression is derived from a table.
const PROBED: i64 = 1 << 16;

/// Indices come from coordinates in f32, whose rounding decides at ties. Where they lie on a line, the line is taken.
fn find(builder: &mut Builder, resize: &Resize, transform: Transform, rounding: Rounding) -> Result<Index, Diagnostic> {
    let table = |builder: &mut Builder, resize: &Resize| {
        let dims = std::slice::from_ref(&resize.out);
        builder.table(resize.index_type(), dims, |n, i| {
            let coordinate = transform.coordinate(n, resize, i.first().unwrap_or(&Dim::default()));
            Ok(rounded(n, resize, coordinate, rounding))
        })
    };
    let values = |builder: &Builder, table: BufferId| builder.as_constant(table).and_then(|tensor| tensor.to_i64s());
    let scale = match resize.scale {
        Scale::Known(scale) => scale,
        Scale::Quotient | Scale::Operand { .. } => return table(builder, resize).map(Index::Table),
    };
    if resize.size.as_const().is_some() {
        let table = table(builder, resize)?;
        let line = values(builder, table).and_then(|values| line(&values, scale));
        return Ok(line.unwrap_or(Index::Table(table)));
    }
    let size = resize.size.upper_bound();
    if transform != Transform::AlignCorners && size <= PROBED {
        let out = scaled(&Dim::constant(size), scale)?;
        let largest = Resize { size: Dim::constant(size), out, ..resize.clone() };
        let probe = table(builder, &largest)?;
        let line = values(builder, probe).and_then(|values| line(&values, scale));
        if let Some(line) = line.filter(|line| line.holds_up_to(size, scale, transform)) {
            return Ok(line);
        }
    }
    table(builder, resize).map(Index::Table)
}

/// The line through a table of indices, for scales that are whole or one over a whole number.
fn line(values: &[i64], scale: f32) -> Option<Index> {
    let whole = |scale: f32| (scale.round() as i64).max(1);
    let (step, divisor) = if scale >= 1.0 { (1, whole(scale)) } else { (whole(1.0 / scale), 1) };
    let (mut low, mut high) = (i64::MIN, i64::MAX);
    for (i, value) in values.iter().enumerate() {
        let rest = value.saturating_mul(divisor).saturating_sub((i as i64).saturating_mul(step));
        low = low.max(rest);
        high = high.min(rest.saturating_add(divisor - 1));
    }
    (low <= high).then(|| Index::Line { step, offset: 0i64.clamp(low, high), divisor })
}

impl Index {
    /// Whether a line found for a size holds for all smaller ones: it must not need clipping at the last element.
    fn holds_up_to(&self, size: i64, scale: f32, transform: Transform) -> bool {
        let Index::Line { step, offset, divisor } = self else { return false };
        // A result of one element has its coordinate at zero.
        let first = transform != Transform::PytorchHalfPixel || offset.div_euclid(*divisor) == 0;
        let inside = |size: i64| match scaled(&Dim::constant(size), scale).ok().and_then(|out| out.as_const()) {
            Some(out) => out != size && (step * (out - 1) + offset).div_euclid(*divisor) < size,
            None => false,
        };
        first && (1..=size).all(inside)
    }
}

fn rounded(n: &mut NestBuilder, resize: &Resize, coordinate: Node, rounding: Rounding) -> Node {
    let toward_zero = n.cast(ElementType::I64, coordinate);
    let index = match rounding {
        Rounding::Floor => n.unary(Unary::Floor, coordinate),
        Rounding::Ceil => n.unary(Unary::Ceil, coordinate),
        Rounding::PreferCeil => n.unary(Unary::RoundHalfAway, coordinate),
        Rounding::PreferFloor => {
            let half = n.constant(Const::F32(0.5));
            let whole = n.cast(ElementType::F32, toward_zero);
            let middle = n.binary(Binary::Add, whole, half);
            let tie = n.binary(Binary::Eq, coordinate, middle);
            let (down, nearest) = (n.unary(Unary::Floor, coordinate), n.unary(Unary::RoundHalfAway, coordinate));
            n.select(tie, down, nearest)
        }
        Rounding::Simple => {
            let (scale, one) = (resize.scale_node(n), n.constant(Const::F32(1.0)));
            let shrinks = n.binary(Binary::Lt, scale, one);
            let (up, whole) = (n.unary(Unary::Ceil, coordinate), n.cast(ElementType::F32, toward_zero));
            n.select(shrinks, up, whole)
        }
    };
    let index = n.cast(ElementType::I64, index);
    resize.clipped(n, index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_line(values: &[i64], scale: f32) -> Option<(i64, i64, i64)> {
        match line(values, scale)? {
            Index::Line { step, offset, divisor } => Some((step, offset, divisor)),
            Index::Table(_) => None,
        }
    }

    #[test]
    fn whole_scales_give_lines() {
        assert_eq!(on_line(&[0, 0, 1, 1, 2, 2], 2.0), Some((1, 0, 2)));
        assert_eq!(on_line(&[0, 1, 1, 1, 2, 2], 3.0), Some((1, 2, 3)));
        assert_eq!(on_line(&[1, 3, 5], 0.5), Some((2, 1, 1)));
        assert_eq!(on_line(&[0, 0, 1, 2, 2, 3], 1.5), None);
    }

    #[test]
    fn a_line_that_needs_clipping_holds_for_one_size_only() {
        let line = |offset| Index::Line { step: 1, offset, divisor: 2 };
        assert!(line(0).holds_up_to(100, 2.0, Transform::Asymmetric));
        assert!(!line(1).holds_up_to(100, 2.0, Transform::Asymmetric));
    }
}
