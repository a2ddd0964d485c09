//! Sums of all elements up to each one along an axis.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::function;
use crate::program::builder::Builder;
use crate::program::nest::{Bound, ReduceFn, ScalarType};
use crate::program::{BufferId, Call};

/// Sums along an axis of at most so many elements are one nest: it fuses with others, and the sums of sizes are sizes.
const SHORT: i64 = 16;

/// The axis along which sums run.
#[derive(Clone, Copy, Debug)]
pub enum Along {
    /// This one.
    Axis(usize),
    /// The one that a tensor of one element names when the model runs; below zero it counts from the last one.
    Named(BufferId),
}

/// `sum(x[0..=i])` along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// The axis.
    pub along: Along,
    /// Leaves `x[i]` out.
    pub exclusive: bool,
    /// Sums from the end.
    pub reverse: bool,
}

impl Running {
    /// Writes the sums of `from` to `out`, a buffer of the same dimensions.
    ///
    /// # Errors
    /// Strings.
    pub fn sum(&self, builder: &mut Builder, from: BufferId, out: BufferId) -> Result<(), Diagnostic> {
        if let Along::Axis(axis) = self.along
            && builder.dims(out).get(axis).is_none_or(|dim| dim.range().max <= SHORT)
        {
            return self.window(builder, axis, from, out);
        }
        // Integers wrap: signed ones have the same bits.
        let wide = match builder.scalar_type(out)? {
            ScalarType::U64 => ElementType::I64,
            scalar => scalar.element(),
        };
        let mut inputs = vec![builder.converted(from, wide)?];
        let mut integers = [0, i64::from(self.exclusive), i64::from(self.reverse)].map(Dim::constant);
        match self.along {
            Along::Axis(axis) => integers[0] = Dim::from(axis),
            Along::Named(axis) => inputs.push(builder.converted(axis, ElementType::I64)?),
        }
        let sums = builder.staged(out, wide);
        builder.call(Call {
            function: function!(running_sum),
            inputs,
            outputs: vec![sums],
            integers: integers.to_vec(),
            floats: Vec::new(),
            sizes: Vec::new(),
        });
        builder.convert(sums, out)
    }

    /// Every sum as one of its own; what lies outside is zero.
    fn window(&self, builder: &mut Builder, axis: usize, from: BufferId, to: BufferId) -> Result<(), Diagnostic> {
        let dims = builder.dims(to);
        let mut nest = builder.nest(&dims);
        let map = nest.map_axes();
        let longest = dims.get(axis).map_or(1, |dim| dim.range().max).max(1);
        let step = nest.reduction_axis(&Dim::constant(longest));
        let offset = step + i64::from(self.exclusive);
        let mut index = map.clone();
        let mut bounds = Vec::new();
        if let (Some(slot), Some(limit)) = (index.get_mut(axis), dims.get(axis)) {
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
