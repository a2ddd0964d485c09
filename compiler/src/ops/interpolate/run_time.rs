//! Sizes, scales and axes of an Interpolate that are data.

use super::Interpolate;
use super::sizes::Open;
use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::open_axes::{OpenAxes, names};
use crate::op::operands::{operand, shape_error, unflatten};
use crate::op::{InferContext, found};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node};
use std::borrow::Cow;

/// Operands with sizes in place of those that are data, and what the operation finds for scales and axes that are data.
type Opened<'f> = (Cow<'f, [Fact]>, Option<Open>);

impl Interpolate {
    /// Whether the scales decide on sizes and are data.
    fn has_open_scales(&self, inputs: &[Fact]) -> bool {
        let scales = inputs.get(self.scales_operand());
        self.scales && scales.is_some_and(|fact| fact.as_constant().is_none() && fact.element.is_float())
    }

    /// Whether the axes are data.
    pub(super) fn has_open_axes(&self, inputs: &[Fact]) -> bool {
        let axes = inputs.get(self.axes_operand());
        axes.is_some_and(|fact| fact.as_sizes().is_none() && fact.element.is_integer())
    }

    /// Number of the operand that says how large the result is, and what that is.
    fn target(&self) -> (usize, &'static str) {
        match self.scales {
            true => (self.scales_operand(), "the scales of an Interpolate"),
            false => (1, "the sizes of an Interpolate"),
        }
    }

    /// Sizes of the result for sizes, scales or axes that are data.
    pub(super) fn open<'f>(&self, inputs: &'f [Fact], context: &mut InferContext) -> Result<Opened<'f>, Diagnostic> {
        let data = operand(inputs, 0)?;
        let axes = self.axes(inputs, data.rank())?;
        let (before, after) = self.pads(data.rank(), &axes)?;
        let padded = data.dims.iter().zip(before.iter().zip(&after)).map(|(dim, (a, b))| dim.clone() + *a + *b);
        let kept = padded.enumerate().filter(|(axis, _)| !axes.contains(axis));
        let times = kept.fold(Dim::constant(1), |times, (_, dim)| times * &dim);
        let ((target, what), open_axes) = (self.target(), self.has_open_axes(inputs));
        if !self.scales && !open_axes {
            return Ok((context.sized(inputs, &[1], what, &times)?, None));
        }
        if !self.has_open_scales(inputs) && !open_axes {
            return Ok((Cow::Borrowed(inputs), None));
        }
        let count = match open_axes {
            true => found::listed(operand(inputs, self.axes_operand())?, "the axes of an Interpolate")?,
            false => axes.len(),
        };
        let list = operand(inputs, target)?;
        if list.element.is_float() != self.scales {
            return Err(Diagnostic::error(&codes::TYPE, format!("{what} cannot be {list}")));
        }
        if found::listed(list, what)? < count {
            return Err(shape_error(format!("{what} are {list} for {count} axes")));
        }
        let sizes = context.bounded(what, axes.len(), &times)?;
        Ok((Cow::Borrowed(inputs), Some((self.scales.then_some(BufferId(0)), sizes))))
    }

    /// Finds the sizes of the result where scales or axes are data, as for constant ones.
    pub(super) fn find_sizes(&self, builder: &mut Builder) -> Result<Option<Open>, Diagnostic> {
        let open_axes = self.has_open_axes(builder.facts());
        if !self.has_open_scales(builder.facts()) && !open_axes {
            return Ok(None);
        }
        let (x, out, mut list) = (builder.input(0)?, builder.output(0)?, builder.input(self.target().0)?);
        let dims = builder.dims(x);
        let axes = self.axes(builder.facts(), dims.len())?;
        let (before, after) = self.pads(dims.len(), &axes)?;
        let variables = axes.iter().map(|axis| builder.found(out, *axis)).collect::<Result<Vec<_>, _>>()?;
        let sizes = variables.iter().map(|size| Dim::variable(*size)).collect();
        let padded: Vec<Dim> =
            dims.iter().zip(before.iter().zip(&after)).map(|(dim, (a, b))| dim.clone() + *a + *b).collect();
        let mut named = None;
        if open_axes {
            let given = builder.input(self.axes_operand())?;
            list = spread(builder, (given, list), &padded)?;
            named = Some(OpenAxes::read(builder, given, dims.len())?);
        }
        let size = |n: &mut NestBuilder, i: usize| {
            let size = axes.get(i).and_then(|axis| padded.get(*axis)).cloned().unwrap_or_default();
            if self.scales { Ok(scaled(n, &size, (list, i))) } else { n.load(list, &[Dim::from(i)]) }
        };
        match named {
            Some(named) => named.find_sizes(builder, variables, size)?,
            None => builder.find_sizes(variables, size)?,
        }
        Ok(Some((self.scales.then_some(list), sizes)))
    }
}

/// Sizes (i64) or scales (f32) of all dimensions, from those of the axes in `given`; dimensions that these do not name
/// keep theirs.
fn spread(builder: &mut Builder, (given, list): (BufferId, BufferId), padded: &[Dim]) -> Result<BufferId, Diagnostic> {
    let (axes, rank) = (builder.dims(given), padded.len());
    let is_scale = builder.element(list).is_float();
    let element = if is_scale { ElementType::F32 } else { ElementType::I64 };
    let all = builder.temporary(element, vec![Dim::from(rank)]);
    let count = product(&axes).as_usize().unwrap_or_default();
    for (d, size) in padded.iter().enumerate() {
        let mut n = builder.nest(&[]);
        let mut value = if is_scale { n.constant(Const::F32(1.0)) } else { n.index(size) };
        for k in (0..count).map(Dim::from) {
            let axis = n.load(given, &unflatten(&k, &axes))?;
            let (is_it, wanted) = (names(&mut n, axis, &Dim::from(d), rank), n.load(list, &[k])?);
            let wanted = n.cast(element, wanted);
            value = n.select(is_it, wanted, value);
        }
        n.store(all, &[Dim::from(d)], value);
    }
    Ok(all)
}

/// `floor(size * scale)` as for constant scales. Scales that are not positive are out of all bounds.
fn scaled(n: &mut NestBuilder, size: &Dim, (list, place): (BufferId, usize)) -> Node {
    let (size, scale) = (n.index(size), scale(n, list, place));
    let (one, zero) = (n.constant(Const::F32(1.0)), n.constant(Const::F32(0.0)));
    let (tiny, most) = (n.constant(Const::F32(1e-6)), n.constant(Const::F32(i32::MAX as f32)));
    let (wide, larger) = (n.cast(ElementType::F32, size), n.binary(Binary::Add, scale, tiny));
    let scaled = n.binary(Binary::Mul, wide, larger);
    let scaled = n.binary(Binary::Min, scaled, most);
    let scaled = n.cast(ElementType::I64, scaled);
    let (same, positive) = (n.binary(Binary::Eq, scale, one), n.binary(Binary::Lt, zero, scale));
    let (scaled, nowhere) = (n.select(same, size, scaled), n.constant(Const::I64(-1)));
    n.select(positive, scaled, nowhere)
}

/// Scale `place` of a list, in f32.
pub(super) fn scale(n: &mut NestBuilder, list: BufferId, place: usize) -> Node {
    match n.load(list, &[Dim::from(place)]) {
        Ok(scale) => n.cast(ElementType::F32, scale),
        Err(_) => n.constant(Const::F32(1.0)), // scales are numbers, which can be loaded
    }
}
