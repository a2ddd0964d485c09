//! Multiplies factors of a product's data into its weights where these are far fewer: the scales of squeeze and excitation.

use super::blocks::{Outside, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::options::{Accuracy, Options};
use crate::program::edit::renumber_dim;
use crate::program::kernel::Part;
use crate::program::nest::{Access, Axis, Binary, Nest, Scalar};
use crate::program::recognise::{self, Product};
use crate::program::{BufferId, Program, Role, Step, StepKind};

/// Weights are multiplied, and packed whenever the model runs: data of fewer elements for each of them is multiplied as fast.
const GAIN: usize = 4;

/// Replaces products `sum((data * scale) * weights)` over all pixels by `sum(data * (scale * weights))`.
pub fn scale_weights(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Scale times weight may overflow where scale times datum does not.
    if options.accuracy == Accuracy::Exact {
        return;
    }
    for_each_block(program, &mut |program, mut steps, outside| {
        for at in 0..steps.len() {
            if let Some(change) = steps.get(at).and_then(|step| change(program, &steps, at, step, outside)) {
                change.make(program, &mut steps, at);
            }
        }
        steps
    });
}

/// A nest that stores a buffer times a factor, element by element.
struct Scaling {
    from: BufferId,
    factor: Access,
    to: BufferId,
}

impl Scaling {
    fn of(program: &Program, nest: &Nest) -> Option<Scaling> {
        let to = nest.store.buffer;
        let dims = &program.buffer(to).dims;
        let same = |access: &Access| {
            let mut indices = access.index.iter().zip(dims).enumerate();
            let own = indices.all(|(axis, (index, dim))| *index == Dim::axis(axis) || index.is(0) && dim.is(1));
            own && program.buffer(access.buffer).dims == *dims
        };
        let whole = same(&nest.store) && dims.len() == nest.axes.len() && nest.nodes.len() == 3;
        let Scalar::Binary(Binary::Mul, a, b) = nest.nodes.get(nest.result as usize)? else { return None };
        let load = |node: u32| match nest.nodes.get(node as usize) {
            Some(Scalar::Load { access, bounds, .. }) if bounds.is_empty() && access.is_direct() => Some(access),
            _ => None,
        };
        let (first, second) = (load(*a)?, load(*b)?);
        let (from, factor) = if same(first) { (first, second) } else { (second, first) };
        let floats = [from.buffer, factor.buffer, to].map(|buffer| program.buffer(buffer).element == ElementType::F32);
        let fits = nest.reduction.is_none() && whole && same(from) && floats == [true; 3];
        fits.then(|| Scaling { from: from.buffer, factor: factor.clone(), to })
    }
}

/// What replaces a scaling and the product that reads its result.
struct Change {
    /// The step of the product, and what it becomes.
    reader: usize,
    product: Nest,
    /// Weights times factor, by the dimensions of the weights.
    weights: BufferId,
    factor: Access,
}

fn change(program: &Program, steps: &[Step], at: usize, step: &Step, outside: &Outside) -> Option<Change> {
    let StepKind::Nest(nest) = &step.kind else { return None };
    let scaling = Scaling::of(program, nest)?;
    let own = program.buffer(scaling.to);
    let alone = own.role == Role::Temporary && own.layout.storage == scaling.to && !outside.sees(program, scaling.to);
    let users = |i: &usize| *i != at && touches(program, &steps[*i], scaling.to, true);
    let mut readers = (0..steps.len()).filter(users);
    let (reader, None, true) = (readers.next()?, readers.next(), alone) else { return None };
    let kept = |buffer: BufferId| {
        !steps.get(at..=reader).unwrap_or_default().iter().any(|s| touches(program, s, buffer, false))
    };
    let StepKind::Nest(consumer) = &steps.get(reader)?.kind else { return None };
    if !(kept(scaling.from) && kept(scaling.factor.buffer)) {
        return None;
    }
    let product = recognise::product(program, consumer)?;
    let (Scalar::Load { access: data, bounds, .. }, Scalar::Load { access: weights, .. }) =
        (consumer.nodes.get(product.data as usize)?, consumer.nodes.get(product.weights as usize)?)
    else {
        return None;
    };
    let loads = consumer.loads().filter(|access| access.buffer == scaling.to).count();
    let elements = |buffer: BufferId| program.buffer(buffer).len().as_usize();
    let pays = elements(weights.buffer)?.checked_mul(GAIN)? <= elements(scaling.to)?;
    let constant = program.buffer(weights.buffer).constant().is_some();
    if !(pays && constant && data.buffer == scaling.to && bounds.is_empty() && loads == 1) {
        return None;
    }
    let factor = factor_of_weights(program, consumer, &product, (data, weights), &scaling)?;
    let mut product_nest = consumer.clone();
    let Some(Scalar::Load { access, .. }) = product_nest.nodes.get_mut(product.data as usize) else { return None };
    access.buffer = scaling.from;
    Some(Change { reader, product: product_nest, weights: weights.buffer, factor })
        .filter(|_| product.parts.contains(&Part::Column))
}

/// Whether a step accesses memory of a buffer; with `reads`, also by reading.
fn touches(program: &Program, step: &Step, buffer: BufferId, reads: bool) -> bool {
    let storage = |buffer: BufferId| program.buffer(buffer).layout.storage;
    let (read, written) = step.accesses();
    let read = if reads { read } else { Vec::new() };
    read.into_iter().chain(written).any(|other| storage(other) == storage(buffer))
}

/// The factor as indexed by the dimensions of the weights, if it depends on them only.
fn factor_of_weights(
    program: &Program,
    consumer: &Nest,
    product: &Product,
    (data, weights): (&Access, &Access),
    scaling: &Scaling,
) -> Option<Access> {
    let dims = &program.buffer(weights.buffer).dims;
    let position = |axis: usize| {
        let at = weights.index.iter().position(|index| *index == Dim::axis(axis))?;
        (dims.get(at) == consumer.axes.get(axis).map(|axis| &axis.extent)).then_some(at)
    };
    let ones = &program.buffer(scaling.to).dims;
    let in_consumer = |axis: usize| match ones.get(axis) {
        Some(dim) if !dim.is(1) => data.index.get(axis).cloned().unwrap_or_default(),
        _ => Dim::constant(0),
    };
    let moved: Vec<Dim> = scaling.factor.index.iter().map(|dim| renumber_dim(dim, &[], &in_consumer)).collect();
    let used = (0..consumer.axes.len()).filter(|axis| moved.iter().any(|dim| dim.uses_axis(*axis)));
    for axis in used {
        if product.parts.get(axis) != Some(&Part::Tap) || position(axis).is_none() {
            return None;
        }
    }
    let in_weights = |axis: usize| position(axis).map(Dim::axis).unwrap_or_default();
    let index = moved.iter().map(|dim| renumber_dim(dim, &[], &in_weights)).collect();
    Some(Access { buffer: scaling.factor.buffer, index })
}

impl Change {
    /// The step that scaled the data scales the weights.
    fn make(self, program: &mut Program, steps: &mut [Step], at: usize) {
        let (name, dims) = (program.buffer(self.weights).name.clone(), program.buffer(self.weights).dims.clone());
        let scaled = program.add_buffer(&name, ElementType::F32, dims.clone(), Role::Temporary);
        let index: Vec<Dim> = (0..dims.len()).map(Dim::axis).collect();
        let load = |access: Access| Scalar::Load { access, bounds: Vec::new(), otherwise: None };
        let nest = Nest {
            axes: dims.iter().map(|extent| Axis { extent: extent.clone() }).collect(),
            maps: dims.len(),
            nodes: vec![
                load(Access { buffer: self.weights, index: index.clone() }),
                load(self.factor),
                Scalar::Binary(Binary::Mul, 0, 1),
            ],
            reduction: None,
            result: 2,
            store: Access { buffer: scaled, index },
        };
        let mut product = self.product;
        for node in &mut product.nodes {
            if let Scalar::Load { access, .. } = node
                && access.buffer == self.weights
            {
                access.buffer = scaled;
            }
        }
        if let Some(step) = steps.get_mut(at) {
            step.kind = StepKind::Nest(nest);
        }
        if let Some(step) = steps.get_mut(self.reader) {
            step.kind = StepKind::Nest(product);
        }
    }
}
