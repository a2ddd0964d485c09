//! Which dimensions an Interpolate resizes, and to which sizes.

use super::{Interpolate, Version};
use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, operand, shape_error};
use crate::program::BufferId;

/// The quotient of the sizes of result and data along a dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// A number that does not depend on run-time sizes.
    Known(f32),
    /// The quotient of the run-time sizes.
    Quotient,
    /// An element of the list of scales, which is data.
    Operand {
        /// The list.
        list: BufferId,
        /// Position in it.
        place: usize,
    },
}

/// Sizes of the result that the operation finds where scales or axes are data, and the list of scales, if these decide.
pub type Open = (Option<BufferId>, Vec<Dim>);

/// One dimension that changes its size.
#[derive(Clone, Debug)]
pub struct Resize {
    /// Number of the dimension.
    pub axis: usize,
    /// Size in the padded data.
    pub size: Dim,
    /// Size in the result.
    pub out: Dim,
    /// What coordinates are divided by.
    pub scale: Scale,
}

/// Dimensions before, between and after the steps of an Interpolate.
#[derive(Debug)]
pub struct Plan {
    /// Of the data.
    pub data: Vec<Dim>,
    /// Zeros before every dimension of the data.
    pub pads_begin: Vec<i64>,
    /// Zeros after every dimension of the data.
    pub pads_end: Vec<i64>,
    /// Of the padded data.
    pub padded: Vec<Dim>,
    /// Of the result.
    pub out: Vec<Dim>,
    /// The dimensions that differ, in the order of the axes.
    pub resizes: Vec<Resize>,
}

impl Plan {
    /// Whether there are zeros around the data.
    pub fn padded(&self) -> bool {
        self.pads_begin.iter().chain(&self.pads_end).any(|pad| *pad > 0)
    }
}

impl Resize {
    /// Size of the result per element of the data, as far as it can be told: what passes are ordered by.
    pub fn growth(&self) -> f64 {
        self.out.upper_bound() as f64 / self.size.upper_bound().max(1) as f64
    }

    /// A type that holds every index into the data.
    pub fn index_type(&self) -> ElementType {
        if self.size.upper_bound() <= i64::from(i32::MAX) { ElementType::I32 } else { ElementType::I64 }
    }

    /// Whether the scale may be below one.
    pub fn may_shrink(&self) -> bool {
        !matches!(self.scale, Scale::Known(scale) if scale >= 1.0)
    }
}

impl Interpolate {
    /// Everything that follows from the operands.
    pub(super) fn plan(&self, inputs: &[Fact], open: Option<Open>) -> Result<Plan, Diagnostic> {
        let data = operand(inputs, 0)?;
        let axes = self.axes(inputs, data.rank())?;
        let (pads_begin, pads_end) = self.pads(data.rank(), &axes)?;
        let pads = pads_begin.iter().zip(&pads_end);
        let padded: Vec<Dim> =
            data.dims.iter().zip(pads).map(|(dim, (before, after))| dim.clone() + *before + *after).collect();
        let (mut out, mut resizes) = (padded.clone(), Vec::new());
        for (axis, (new, scale)) in axes.iter().zip(self.targets(inputs, &axes, &padded, open)?) {
            let (Some(slot), Some(size)) = (out.get_mut(*axis), padded.get(*axis)) else { continue };
            *slot = new.clone();
            // Coordinates are kept where sizes are, whatever the scale.
            if new != *size {
                resizes.push(Resize { axis: *axis, size: size.clone(), out: new, scale });
            }
        }
        Ok(Plan { data: data.dims.clone(), pads_begin, pads_end, padded, out, resizes })
    }

    /// Number of the operand with the scales.
    pub(super) fn scales_operand(&self) -> usize {
        if matches!(self.version, Version::Fourth) { 2 } else { 1 }
    }

    /// Number of the operand with the axes.
    pub(super) fn axes_operand(&self) -> usize {
        if matches!(self.version, Version::Fourth) { 3 } else { 2 }
    }

    /// The axes that are resized: all, where there is no list, or where it is data.
    pub(super) fn axes(&self, inputs: &[Fact], rank: usize) -> Result<Vec<usize>, Diagnostic> {
        if let Version::First { axes, .. } = &self.version {
            return operands::axes(axes, rank);
        }
        let at = self.axes_operand();
        if inputs.len() <= at || self.has_open_axes(inputs) {
            return Ok((0..rank).collect());
        }
        operands::axes(&operands::integers(inputs, at, "the axes of an Interpolate")?, rank)
    }

    /// One number for every dimension. Lists that are too short go on with zeros; a single number of the first version
    /// stands for all axes.
    pub(super) fn pads(&self, rank: usize, axes: &[usize]) -> Result<(Vec<i64>, Vec<i64>), Diagnostic> {
        let first = matches!(self.version, Version::First { .. });
        let full = |list: &[i64]| {
            let full: Vec<i64> = (0..rank)
                .map(|axis| match list {
                    [one] if first => *one * i64::from(axes.contains(&axis)),
                    list => list.get(axis).copied().unwrap_or(0),
                })
                .collect();
            match (0..rank).find(|axis| first && !axes.contains(axis) && full.get(*axis) != Some(&0)) {
                Some(axis) => Err(shape_error(format!("dimension {axis} is padded but not interpolated"))),
                None => Ok(full),
            }
        };
        Ok((full(&self.pads_begin)?, full(&self.pads_end)?))
    }

    /// New size and scale of every axis.
    fn targets(
        &self,
        inputs: &[Fact],
        axes: &[usize],
        padded: &[Dim],
        open: Option<Open>,
    ) -> Result<Vec<(Dim, Scale)>, Diagnostic> {
        if let Some((list, sizes)) = open {
            let scale = |place| list.map_or(Scale::Quotient, |list| Scale::Operand { list, place });
            let place = |(place, size)| (size, scale(place));
            return Ok(sizes.into_iter().enumerate().map(place).collect());
        }

        let size = |axis: &usize| padded.get(*axis).cloned().unwrap_or_default();
        let enough = |count: usize, what: &str| match count < axes.len() {
            true => Err(shape_error(format!("{count} {what} for {} axes", axes.len()))),
            false => Ok(()),
        };
        if !self.scales {
            let sizes = operands::sizes(inputs, 1, "the sizes of an Interpolate")?;
            enough(sizes.len(), "sizes")?;
            let targets = axes.iter().zip(sizes).map(|(axis, new)| {
                let scale = quotient(&size(axis), &new);
                (new, scale)
            });
            return Ok(targets.collect());
        }
        let scales = scales(inputs, self.scales_operand())?;
        enough(scales.len(), "scales")?;
        let scaled = |(axis, scale): (&usize, f32)| Ok((scaled(&size(axis), scale)?, Scale::Known(scale)));
        axes.iter().zip(scales).map(scaled).collect()
    }
}

/// `out / size`, rounded to f32.
fn quotient(size: &Dim, out: &Dim) -> Scale {
    if let (Some(size), Some(out)) = (size.as_const(), out.as_const()) {
        return Scale::Known(out as f32 / size as f32);
    }
    let factor = |a: &Dim, b: &Dim| a.quotient(b).and_then(|factor| factor.as_const());
    match (factor(out, size), factor(size, out)) {
        (Some(factor), _) => Scale::Known(factor as f32),
        (_, Some(factor)) => Scale::Known(1.0 / factor as f32),
        _ => Scale::Quotient,
    }
}

fn scales(inputs: &[Fact], at: usize) -> Result<Vec<f32>, Diagnostic> {
    let fact = operand(inputs, at)?;
    if !fact.element.is_float() {
        let message = format!("the scales of an Interpolate must be floating-point numbers, not {}", fact.element);
        return Err(Diagnostic::error(&codes::TYPE, message));
    }
    let scales = fact.as_constant().and_then(crate::tensor::Tensor::to_f64s).ok_or_else(|| {
        Diagnostic::error(&codes::UNSUPPORTED, "the scales of an Interpolate must be constant")
            .help("use `shape_calculation_mode=\"sizes\"` for sizes that are computed from shapes")
    })?;
    let scales: Vec<f32> = scales.into_iter().map(|scale| scale as f32).collect();
    match scales.iter().find(|scale| !(**scale > 0.0 && scale.is_finite())) {
        Some(scale) => Err(Diagnostic::error(&codes::VALUE, format!("{scale} is no scale: it must be positive"))),
        None => Ok(scales),
    }
}

/// `floor(size * scale)`, in f32 with a scale that is a little larger, so that 10 times 0.7 is 7.
fn scaled_size(size: i64, scale: f32) -> i64 {
    (size as f32 * (scale + 1e-6)) as i64
}

/// Largest denominator of a scale that is taken for a fraction.
const DENOMINATORS: i64 = 1000;
/// Largest run-time size that is checked.
const CHECKED: i64 = 1 << 20;

/// `floor(size * scale)`: for run-time sizes as a fraction that gives what [`scaled_size`] does.
pub fn scaled(size: &Dim, scale: f32) -> Result<Dim, Diagnostic> {
    if scale == 1.0 {
        return Ok(size.clone());
    }
    if let Some(size) = size.as_const() {
        return Ok(Dim::constant(scaled_size(size, scale)));
    }
    let range = size.range();
    // A scale such as 0.7 is a little more or less than the fraction that was meant.
    let fraction = (1..=DENOMINATORS).find_map(|by| {
        let factor = (f64::from(scale) * by as f64).round();
        let same = (factor / by as f64) as f32 == scale && (1.0..1e9).contains(&factor);
        same.then_some((factor as i64, by))
    });
    let fits = |(factor, by): (i64, i64)| {
        let agrees = |n: i64| (n * factor).div_euclid(by) == scaled_size(n, scale);
        (range.min.max(0)..=range.max).all(agrees).then(|| (size.clone() * factor).floor_div(&Dim::constant(by)))
    };
    let found = if range.max <= CHECKED { fraction.and_then(fits) } else { None };
    found.ok_or_else(|| {
        let message = format!("a scale of {scale} for the run-time size {size} is no simple fraction");
        Diagnostic::error(&codes::UNSUPPORTED, message).help("give the sizes of the result instead of scales")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Variable;

    #[test]
    fn run_time_sizes_scale_as_static_ones_do() {
        let size = Dim::variable(Variable::new(0, 1, 500));
        for scale in [2.0, 0.5, 1.5, 0.7, 1.0 / 3.0, 2.6] {
            let out = scaled(&size, scale).unwrap();
            for n in 1..=500 {
                assert_eq!(out.evaluate(&|_| n), scaled_size(n, scale), "{n} times {scale}");
            }
        }
        assert_eq!(scaled(&size, 2.0).unwrap(), size.clone() * 2);
        assert!(scaled(&size, 0.123_456_7).is_err());
    }

    #[test]
    fn scales_follow_from_multiples() {
        let size = Dim::variable(Variable::new(0, 1, 9));
        assert_eq!(quotient(&size, &(size.clone() * 3)), Scale::Known(3.0));
        assert_eq!(quotient(&(size.clone() * 4), &size), Scale::Known(0.25));
        assert_eq!(quotient(&size, &Dim::constant(5)), Scale::Quotient);
    }
}
