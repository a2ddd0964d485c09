//! Sums of all elements up to each one along an axis.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::program::BufferId;
use crate::program::builder::Builder;
use crate::program::nest::{Bound, ReduceFn};

/// Windows are widened by this factor from one nest to the next.
const RADIX: i64 = 16;

/// `sum(x[0..=i])` along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// The axis.
    pub axis: usize,
    /// Leaves `x[i]` out.
    pub exclusive: bool,
    /// Sums from the end.
    pub reverse: bool,
}

/// `to[i] = sum of from[i - shift - j * stride]` for j in `0..parts`, what lies outside being zero.
struct Window {
    parts: i64,
    stride: i64,
    shift: i64,
}

impl Running {
    /// Writes the sums of `from` to `to`, a buffer of the same dimensions. A window sum of at most 16 elements, then
    /// sums of 16 such windows, and so on until a window holds the whole axis: n log n additions in nests without a
    /// dependency from element to element.
    ///
    /// # Errors
    /// Strings.
    pub fn sum(&self, builder: &mut Builder, mut from: BufferId, out: BufferId) -> Result<(), Diagnostic> {
        let dims = builder.dims(out);
        let longest = dims.get(self.axis).map_or(1, |dim| dim.range().max).max(1);
        let wide = builder.scalar_type(out)?.element();
        let mut window = 1;
        let mut shift = i64::from(self.exclusive);
        loop {
            let parts = RADIX.min((longest - 1) / window + 1);
            let reach = window.saturating_mul(RADIX);
            let to = if reach >= longest { out } else { builder.temporary(wide, dims.clone()) };
            self.window(builder, from, to, Window { parts, stride: window, shift })?;
            if reach >= longest {
                return Ok(());
            }
            (from, window, shift) = (to, reach, 0);
        }
    }

    fn window(&self, builder: &mut Builder, from: BufferId, to: BufferId, window: Window) -> Result<(), Diagnostic> {
        let dims = builder.dims(to);
        let mut nest = builder.nest(&dims);
        let map = nest.map_axes();
        let step = nest.reduction_axis(&Dim::constant(window.parts));
        let offset = step * window.stride + window.shift;
        let mut index = map.clone();
        let mut bounds = Vec::new();
        if let (Some(slot), Some(limit)) = (index.get_mut(self.axis), dims.get(self.axis)) {
            *slot = if self.reverse { slot.clone() + &offset } else { slot.clone() - &offset };
            bounds.push(Bound { value: slot.clone(), limit: limit.clone() });
        }
        let zero = nest.zero_of(from)?;
        let value = nest.load_within(from, &index, bounds, zero)?;
        let sum = nest.reduce(ReduceFn::Sum, value);
        nest.store(to, &map, sum);
        Ok(())
    }
}
