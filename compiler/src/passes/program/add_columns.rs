//! Convolutions of groups with one result each have no axis of columns, and no window has their channels: with a column, they are
//! products that kernels take.

use super::blocks::for_each_step;
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::edit::move_axes;
use crate::program::kernel::Part;
use crate::program::nest::{Axis, Nest, Scalar};
use crate::program::{Program, StepKind, recognise};

/// Gives such sums a column.
pub fn add_columns(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Without vectors, loops over the channels of a group are as good.
    if !options.has_vector_kernels() {
        return;
    }
    for_each_step(program, &mut |program, step| {
        if let StepKind::Nest(nest) = &mut step.kind
            && let Some(with_column) = Groups::of(program, nest).and_then(|groups| groups.with_column(program, nest))
        {
            *nest = with_column;
        }
    });
}

/// A convolution of groups of several channels and one result each.
struct Groups {
    /// The map axis that counts them.
    group: usize,
    /// The load of the weights.
    weights: usize,
}

impl Groups {
    fn of(program: &Program, nest: &Nest) -> Option<Groups> {
        let product = recognise::product(program, nest).filter(|product| !product.parts.contains(&Part::Column))?;
        let Scalar::Load { access, bounds, .. } = nest.nodes.get(product.data as usize)? else { return None };
        let used = |dim: &Dim, part: Part| {
            let mut axes = nest.axes.iter().zip(&product.parts).enumerate();
            axes.find(|(at, (axis, of))| **of == part && !axis.extent.is(1) && dim.uses_axis(*at)).map(|(at, _)| at)
        };
        let slides = |dim: &Dim| used(dim, Part::Row).is_some() && used(dim, Part::Tap).is_some();
        let channels = |dim: &Dim| used(dim, Part::Tap).and(used(dim, Part::Batch).filter(|_| !slides(dim)));
        let group = access.index.iter().find_map(channels)?;
        let convolution = !bounds.is_empty() || access.index.iter().any(slides);
        convolution.then_some(Groups { group, weights: product.weights as usize })
    }

    /// The nest with one more map axis, along which weights and result have one element.
    fn with_column(&self, program: &Program, nest: &Nest) -> Option<Nest> {
        let (mut with, column) = (nest.clone(), nest.maps);
        with.axes.insert(column, Axis { extent: Dim::constant(1) });
        with.maps += 1;
        move_axes(&mut with, &|axis| Dim::axis(axis + usize::from(axis >= column)));
        let Scalar::Load { access, .. } = with.nodes.get_mut(self.weights)? else { return None };
        let dims = &program.buffer(access.buffer).dims;
        let single = access.index.iter().zip(dims).position(|(index, dim)| index.is(0) && dim.is(1))?;
        *access.index.get_mut(single)? = Dim::axis(column);
        let stored = with.store.index.iter_mut().find(|dim| dim.counts(self.group))?;
        *stored = stored.clone() + &Dim::axis(column);
        Some(with)
    }
}
