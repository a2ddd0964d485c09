//! Sizes and scales of an Interpolate that are data.

use super::Interpolate;
use super::sizes::Open;
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{operand, shape_error};
use crate::op::{InferContext, found};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node};
use std::borrow::Cow;

/// Operands with sizes in place of those that are data, and scales that are data.
type Opened<'f> = (Cow<'f, [Fact]>, Option<Open>);

impl Interpolate {
    /// Whether the scales decide on sizes and are data.
    fn has_open_scales(&self, inputs: &[Fact]) -> bool {
        let scales = inputs.get(self.scales_operand());
        self.scales && scales.is_some_and(|fact| fact.as_constant().is_none() && fact.element.is_float())
    }

    /// Sizes of the result for sizes or scales that are data.
    pub(super) fn open<'f>(&self, inputs: &'f [Fact], context: &mut InferContext) -> Result<Opened<'f>, Diagnostic> {
        let data = operand(inputs, 0)?;
        let axes = self.axes(inputs, data.rank())?;
        let (before, after) = self.pads(data.rank(), &axes)?;
        let padded = data.dims.iter().zip(before.iter().zip(&after)).map(|(dim, (a, b))| dim.clone() + *a + *b);
        let kept = padded.enumerate().filter(|(axis, _)| !axes.contains(axis));
        let times = kept.fold(Dim::constant(1), |times, (_, dim)| times * &dim);
        if !self.scales {
            return Ok((context.sized(inputs, &[1], "the sizes of an Interpolate", &times)?, None));
        }
        if !self.has_open_scales(inputs) {
            return Ok((Cow::Borrowed(inputs), None));
        }
        let what = "the scales of an Interpolate";
        if found::listed(operand(inputs, self.scales_operand())?, what)? < axes.len() {
            return Err(shape_error(format!("not a scale for every one of {} axes", axes.len())));
        }
        let sizes = context.bounded(what, axes.len(), &times)?;
        Ok((Cow::Borrowed(inputs), Some((BufferId(0), sizes))))
    }

    /// Finds the sizes of the result for scales that are data: `floor(size * scale)` as for constant ones. Scales that are
    /// not positive are out of all bounds.
    pub(super) fn find_sizes(&self, builder: &mut Builder) -> Result<Option<Open>, Diagnostic> {
        if !self.has_open_scales(builder.facts()) {
            return Ok(None);
        }
        let (x, out, list) = (builder.input(0)?, builder.output(0)?, builder.input(self.scales_operand())?);
        let dims = builder.dims(x);
        let axes = self.axes(builder.facts(), dims.len())?;
        let (before, after) = self.pads(dims.len(), &axes)?;
        let variables = axes.iter().map(|axis| builder.found(out, *axis)).collect::<Result<Vec<_>, _>>()?;
        let sizes = variables.iter().map(|size| Dim::variable(*size)).collect();
        builder.find_sizes(variables, |n, i| {
            let axis = axes.get(i).copied().unwrap_or_default();
            let pads = [&before, &after].map(|list| list.get(axis).copied().unwrap_or(0));
            let size = n.index(&(dims.get(axis).cloned().unwrap_or_default() + pads[0] + pads[1]));
            let scale = scale(n, list, i);
            let (one, zero) = (n.constant(Const::F32(1.0)), n.constant(Const::F32(0.0)));
            let (tiny, most) = (n.constant(Const::F32(1e-6)), n.constant(Const::F32(i32::MAX as f32)));
            let (wide, larger) = (n.cast(ElementType::F32, size), n.binary(Binary::Add, scale, tiny));
            let scaled = n.binary(Binary::Mul, wide, larger);
            let scaled = n.binary(Binary::Min, scaled, most);
            let scaled = n.cast(ElementType::I64, scaled);
            let (same, positive) = (n.binary(Binary::Eq, scale, one), n.binary(Binary::Lt, zero, scale));
            let (scaled, nowhere) = (n.select(same, size, scaled), n.constant(Const::I64(-1)));
            Ok(n.select(positive, scaled, nowhere))
        })?;
        Ok(Some((list, sizes)))
    }
}

/// Scale `place` of a list, in f32.
pub(super) fn scale(n: &mut NestBuilder, list: BufferId, place: usize) -> Node {
    match n.load(list, &[Dim::from(place)]) {
        Ok(scale) => n.cast(ElementType::F32, scale),
        Err(_) => n.constant(Const::F32(1.0)), // scales are numbers, which can be loaded
    }
}
