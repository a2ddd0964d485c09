//! Windows that slide over spatial dimensions: strides, dilations, padding and rounding of convolutions and pooling.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::op::operands::{shape_error, text};
use crate::program::Bound;
use crate::program::builder::NestBuilder;
use crate::program::nest::{Binary, Const, Node, ReduceFn, ScalarType};
use crate::read::Attributes;

/// Where the padding comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoPad {
    /// From the attributes.
    Explicit,
    /// As much as makes ceil(size / stride) results; an odd element goes to the end.
    SameUpper,
    /// The same, an odd element goes to the beginning.
    SameLower,
    /// None.
    Valid,
}

/// What happens to a last window that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// It is dropped.
    Floor,
    /// It counts.
    Ceil,
    /// It counts unless it starts in the padding at the end.
    CeilTorch,
}

/// The attributes of a sliding window, one element per spatial dimension.
#[derive(Debug)]
pub struct Window {
    /// Distance of neighbouring windows.
    pub strides: Vec<i64>,
    /// Distance of neighbouring taps; empty: 1.
    pub dilations: Vec<i64>,
    /// Padding before the first element; negative padding removes elements. Empty: none.
    pub pads_begin: Vec<i64>,
    /// Padding after the last element. Empty: none.
    pub pads_end: Vec<i64>,
    /// Where the padding comes from.
    pub auto_pad: AutoPad,
    /// Rounding of the number of windows, with explicit or no padding.
    pub rounding: Rounding,
}

/// The windows along one dimension.
#[derive(Clone, Debug)]
pub struct Slide {
    /// Elements of the data.
    pub size: Dim,
    /// Taps of a window.
    pub kernel: Dim,
    /// Distance of neighbouring windows.
    pub stride: i64,
    /// Distance of neighbouring taps.
    pub dilation: i64,
    /// Padding before the first element.
    pub before: Dim,
    /// Padding after the last element.
    pub after: Dim,
    /// Number of windows.
    pub out: Dim,
}

impl Window {
    /// Reads strides, pads and `auto_pad`; dilations and rounding stay at their defaults.
    ///
    /// # Errors
    /// Values that cannot be read, and strides below 1.
    pub fn parse(attributes: &Attributes) -> Result<Self, Diagnostic> {
        let modes = [
            ("explicit", AutoPad::Explicit),
            ("same_upper", AutoPad::SameUpper),
            ("same_lower", AutoPad::SameLower),
            ("valid", AutoPad::Valid),
            ("notset", AutoPad::Explicit),
        ];
        let auto_pad = attributes.choice_or("auto_pad", &modes, AutoPad::Explicit)?;
        let pads = |name: &str| match auto_pad {
            AutoPad::Explicit => attributes.ints(name),
            _ => attributes.ints_or(name, &[]),
        };
        let (pads_begin, pads_end) = (pads("pads_begin")?, pads("pads_end")?);
        let strides = positive(attributes, "strides", attributes.ints("strides")?)?;
        Ok(Window { strides, dilations: Vec::new(), pads_begin, pads_end, auto_pad, rounding: Rounding::Floor })
    }

    /// The windows along all spatial dimensions.
    ///
    /// # Errors
    /// Attributes of another length than the number of spatial dimensions, and windows larger than the padded data.
    pub fn slides(&self, sizes: &[Dim], kernel: &[Dim]) -> Result<Vec<Slide>, Diagnostic> {
        self.check_lengths(sizes.len())?;
        if kernel.len() != sizes.len() {
            return Err(shape_error(format!(
                "the window {} is not one for spatial dimensions {}",
                text(kernel),
                text(sizes)
            )));
        }
        sizes.iter().zip(kernel).enumerate().map(|(i, (size, kernel))| self.slide(i, size, kernel)).collect()
    }

    /// Checks that every attribute has one element per spatial dimension (or is left out, where that is allowed).
    ///
    /// # Errors
    /// Other lengths.
    pub fn check_lengths(&self, spatial: usize) -> Result<(), Diagnostic> {
        let lists = [("dilations", &self.dilations), ("pads_begin", &self.pads_begin), ("pads_end", &self.pads_end)];
        let wrong = lists.into_iter().find(|(_, list)| !list.is_empty() && list.len() != spatial);
        let wrong = wrong.or((self.strides.len() != spatial).then_some(("strides", &self.strides)));
        match wrong {
            Some((name, list)) => {
                Err(shape_error(format!("`{name}` has {} elements for {spatial} spatial dimensions", list.len())))
            }
            None => Ok(()),
        }
    }

    /// Element `i` of a list of attributes that may be left out.
    pub fn element(list: &[i64], i: usize, default: i64) -> i64 {
        list.get(i).copied().unwrap_or(default)
    }

    fn slide(&self, i: usize, size: &Dim, kernel: &Dim) -> Result<Slide, Diagnostic> {
        let stride = Window::element(&self.strides, i, 1);
        let dilation = Window::element(&self.dilations, i, 1);
        let step = Dim::constant(stride);
        let reach = (kernel.clone() - 1) * dilation + 1;
        let (before, after, out) = match self.auto_pad {
            AutoPad::SameUpper | AutoPad::SameLower => {
                let out = size.ceil_div(&step);
                let total = ((out.clone() - 1) * stride + &reach - size).maximum(&Dim::constant(0));
                let less = total.floor_div(&Dim::constant(2));
                let more = total.clone() - &less;
                let upper = self.auto_pad == AutoPad::SameUpper;
                let (before, after) = if upper { (less, more) } else { (more, less) };
                let out = match self.rounding {
                    Rounding::Floor => out,
                    // Where the stride is larger than the window, rounding up adds one that starts behind the data.
                    _ => self.windows(&(size.clone() + &total - &reach), &step, &(size.clone() + &before)),
                };
                (before, after, out)
            }
            _ => {
                let pad = |list: &[i64]| match self.auto_pad {
                    AutoPad::Explicit => Dim::constant(Window::element(list, i, 0)),
                    _ => Dim::constant(0),
                };
                let (before, after) = (pad(&self.pads_begin), pad(&self.pads_end));
                let room = size.clone() + &before + &after - &reach;
                if room.range().max < 0 {
                    return Err(shape_error(format!(
                        "a window of {reach} elements does not fit into {size} elements padded by {before} and {after}"
                    )));
                }
                let out = self.windows(&room, &step, &(size.clone() + &before));
                (before, after, out)
            }
        };
        Ok(Slide { size: size.clone(), kernel: kernel.clone(), stride, dilation, before, after, out })
    }

    /// Number of windows where the first one leaves `room`; none starts at `end` or later with `ceil_torch`.
    fn windows(&self, room: &Dim, step: &Dim, end: &Dim) -> Dim {
        let zero = Dim::constant(0);
        let out = match self.rounding {
            Rounding::Floor => room.floor_div(step) + 1,
            Rounding::Ceil => room.ceil_div(step) + 1,
            Rounding::CeilTorch => {
                let last = room.ceil_div(step);
                let beyond = (last.clone() * step - end + 1).maximum(&zero).minimum(&Dim::constant(1));
                last + 1 - beyond
            }
        };
        out.maximum(&zero)
    }
}

/// A list of attributes that must be at least 1.
///
/// # Errors
/// Smaller ones.
pub fn positive(attributes: &Attributes, name: &str, list: Vec<i64>) -> Result<Vec<i64>, Diagnostic> {
    if list.iter().all(|v| *v >= 1) { Ok(list) } else { Err(attributes.invalid(name, "a list of positive numbers")) }
}

impl Slide {
    /// Position in the data of tap `k` of window `o`.
    pub fn position(&self, o: &Dim, k: &Dim) -> Dim {
        o.clone() * self.stride + &(k.clone() * self.dilation) - &self.before
    }

    /// The window that has position `y` of the data as its tap `k`, and the conditions that there is one: it exists, and
    /// the distance is a multiple of the stride.
    pub fn window_of(&self, y: &Dim, k: &Dim) -> (Dim, Vec<Bound>) {
        let distance = y.clone() + &self.before - &(k.clone() * self.dilation);
        let stride = Dim::constant(self.stride);
        let at = distance.floor_div(&stride);
        let mut bounds = Vec::new();
        let lowest = self.before.clone() - &((self.kernel.clone() - 1) * self.dilation);
        let highest = (self.size.clone() - 1 + &self.before).floor_div(&stride);
        if lowest.range().min < 0 || (highest - &self.out).range().max >= 0 {
            bounds.push(Bound { value: at.clone(), limit: self.out.clone() });
        }
        let rest = distance.modulo(&stride);
        if !rest.is(0) {
            bounds.push(Bound { value: rest, limit: Dim::constant(1) });
        }
        (at, bounds)
    }

    /// Whether a window can reach beyond the data.
    pub fn padded(&self) -> bool {
        let reach = (self.out.clone() - 1) * self.stride + &((self.kernel.clone() - 1) * self.dilation) - &self.before;
        let beyond = match self.out.as_const().and(self.size.as_const()) {
            Some(_) => (reach - &self.size).range().max >= 0,
            // The rounding of run-time sizes hides that floor never reaches beyond the padding.
            None => self.after.range().max > 0 || (reach.clone() - &self.size).range().max >= 0 && !self.floors(),
        };
        self.before.range().max > 0 || beyond
    }

    fn floors(&self) -> bool {
        let room = self.size.clone() + &self.before + &self.after - &((self.kernel.clone() - 1) * self.dilation + 1);
        self.out == (room.floor_div(&Dim::constant(self.stride)) + 1).maximum(&Dim::constant(0))
    }

    /// Whether all taps of some window may lie beyond the data; errs towards yes.
    pub fn may_be_empty(&self) -> bool {
        let last = (self.out.clone() - 1) * self.stride - &self.before;
        let reach = (self.kernel.clone() - 1) * self.dilation + 1;
        let beyond = (self.before.clone() - reach).range().max >= 0 || (last - &self.size).range().max >= 0;
        self.padded() && (beyond || self.dilation > 1)
    }

    /// The bound of position `at`, if a window can reach beyond the data.
    pub fn bound(&self, at: &Dim) -> Option<Bound> {
        self.padded().then(|| Bound { value: at.clone(), limit: self.size.clone() })
    }

    /// Number of taps of window `o` that lie in the data.
    pub fn taps_inside(&self, o: &Dim) -> Dim {
        if !self.padded() {
            return self.kernel.clone();
        }
        let (zero, dilation) = (Dim::constant(0), Dim::constant(self.dilation));
        let start = self.position(o, &zero);
        let first = (start.clone() * -1).maximum(&zero).ceil_div(&dilation);
        let end = (self.size.clone() - &start).ceil_div(&dilation).minimum(&self.kernel);
        (end - &first).maximum(&zero)
    }
}

/// One more reduction axis, or the constant zero for an extent of one.
pub fn reduction_axis(n: &mut NestBuilder, extent: &Dim) -> Dim {
    if extent.is(1) { Dim::constant(0) } else { n.reduction_axis(extent) }
}

/// The reduction of `value` over the reduction axes `axes`; `value` itself where these were all left out.
pub fn reduce(n: &mut NestBuilder, function: ReduceFn, axes: &[Dim], value: Node) -> Node {
    if axes.iter().all(|axis| axis.as_const().is_some()) { value } else { n.reduce(function, value) }
}

/// The identity of the maximum in the values of an element type.
pub fn lowest(element: ElementType, scalar: ScalarType) -> Const {
    match scalar {
        ScalarType::F32 => Const::F32(f32::NEG_INFINITY),
        ScalarType::F64 => Const::F64(f64::NEG_INFINITY),
        _ if !element.is_signed() => Const::of(scalar, 0.0),
        ScalarType::I32 => Const::I32((-1i32) << (element.bits().clamp(1, 32) - 1)),
        ScalarType::I64 => Const::I64(i64::MIN),
        ScalarType::U64 | ScalarType::Bool => Const::of(scalar, 0.0),
    }
}

/// `condition`, and that an index expression is inside its limit.
pub fn within(n: &mut NestBuilder, condition: Node, bound: &Bound) -> Node {
    let (at, limit, zero) = (n.index(&bound.value), n.index(&bound.limit), n.constant(Const::I64(0)));
    let above = n.binary(Binary::Le, zero, at);
    let below = n.binary(Binary::Lt, at, limit);
    let inside = n.binary(Binary::And, above, below);
    n.binary(Binary::And, condition, inside)
}
