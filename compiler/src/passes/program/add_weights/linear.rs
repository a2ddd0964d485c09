//! Products of data with constants, and how one of them is part of another.

use crate::dim::Dim;
use crate::element::ElementType;
use crate::program::edit::renumber_dim;
use crate::program::nest::{Access, Binary, Bound, Const, Nest, Node, ReduceFn, Scalar};
use crate::program::{Layout, Program};
use crate::tensor::Tensor;

/// Most weights that are added: a second of an unoptimised compiler.
const WORK: i64 = 1 << 24;

/// `sum(data * weights)` over taps, or of none.
#[derive(Clone)]
pub(super) struct Linear {
    /// Extents of maps, then taps.
    axes: Vec<Dim>,
    maps: usize,
    pub data: Access,
    /// Where the data is not zero.
    bounds: Vec<Bound>,
    pub weights: Access,
    pub weights_node: usize,
    store: Vec<Dim>,
}

/// What a tap of a product is in one that is part of it: `at + by * axis`, an axis by the number that it has in the part.
struct Tap {
    at: i64,
    by: i64,
    axis: usize,
}

/// One axis along which weights are added: its extent, and its steps in both tensors.
struct Along {
    extent: i64,
    to: i64,
    from: i64,
}

/// The numbers of a tensor of type f32.
pub(super) fn floats(tensor: &Tensor) -> Option<impl Iterator<Item = f32>> {
    let (words, _) = tensor.bytes.as_slice().as_chunks::<4>();
    (tensor.element == ElementType::F32).then(|| words.iter().map(|word| f32::from_le_bytes(*word)))
}

impl Linear {
    /// A nest that stores nothing but a product.
    pub fn of(program: &Program, nest: &Nest) -> Option<Linear> {
        let value = match nest.reduction {
            Some(sum) if sum.function == ReduceFn::Sum => {
                (nest.nodes.get(nest.result as usize) == Some(&Scalar::Reduced)).then_some(sum.value)?
            }
            Some(_) => return None,
            None => nest.result,
        };
        let Scalar::Binary(Binary::Mul, a, b) = nest.nodes.get(value as usize)? else { return None };
        let load = |node: Node| match nest.nodes.get(node as usize)? {
            Scalar::Load { access, bounds, otherwise } if access.is_direct() => Some((access, bounds, *otherwise)),
            _ => None,
        };
        let constant = |access: &Access| program.buffer(access.buffer).constant().is_some();
        let (mut data, mut weights, mut node) = (load(*a)?, load(*b)?, *b);
        if constant(data.0) {
            (data, weights, node) = (weights, data, *a);
        }
        let zero = |node: Node| matches!(nest.nodes.get(node as usize), Some(Scalar::Const(Const::F32(0.0))));
        let buffer = program.buffer(weights.0.buffer);
        let plain = buffer.layout == Layout::row_major(weights.0.buffer, &buffer.dims);
        let elements = [data.0.buffer, weights.0.buffer, nest.store.buffer].map(|id| program.buffer(id).element);
        let fits = nest.is_direct()
            && constant(weights.0)
            && !constant(data.0)
            && weights.1.is_empty()
            && data.2.is_none_or(zero)
            && plain
            && elements == [ElementType::F32; 3];
        fits.then(|| Linear {
            axes: nest.axes.iter().map(|axis| axis.extent.clone()).collect(),
            maps: nest.maps,
            data: data.0.clone(),
            bounds: data.1.clone(),
            weights: weights.0.clone(),
            weights_node: node as usize,
            store: nest.store.index.clone(),
        })
    }

    /// The weights with which it is itself plus another product of the same data, if that has no taps but those of this one.
    pub fn with(&self, program: &Program, other: &Linear) -> Option<Tensor> {
        let other = other.moved(self)?;
        let taps: Vec<Tap> = (self.maps..self.axes.len()).map(|axis| self.tap(&other, axis)).collect::<Option<_>>()?;
        let moved = |dim: &Dim| {
            renumber_dim(dim, &[], &|axis| match axis.checked_sub(self.maps).and_then(|tap| taps.get(tap)) {
                Some(tap) => Dim::axis(tap.axis) * tap.by + &Dim::constant(tap.at),
                None => Dim::axis(axis),
            })
        };
        let index: Vec<Dim> = self.data.index.iter().map(moved).collect();
        let bounds = self.bounds.iter().map(|b| Bound { value: moved(&b.value), limit: moved(&b.limit) });
        let bounds: Vec<Bound> = bounds.collect();
        // What is read without this condition is there.
        let dims = &program.buffer(self.data.buffer).dims;
        let holds = |bound: &Bound| index.iter().zip(dims).any(|(at, dim)| (at, dim) == (&bound.value, &bound.limit));
        let same = bounds.iter().all(|bound| other.bounds.contains(bound) || holds(bound))
            && other.bounds.iter().all(|bound| bounds.contains(bound));
        if index != other.data.index || !same {
            return None;
        }
        self.sum(program, &other, &taps)
    }

    /// The same with the maps of another one, and taps behind all axes of that.
    fn moved(&self, host: &Linear) -> Option<Linear> {
        let alike = self.maps == host.maps
            && self.store == host.store
            && self.axes.get(..self.maps) == host.axes.get(..host.maps);
        // Element by element, maps are the dimensions of the result.
        let single = self.maps == host.store.len()
            && self.store.iter().enumerate().all(|(i, dim)| *dim == Dim::axis(i) || dim.is(0));
        if !alike && !single {
            return None;
        }
        let axis = |axis: usize| match axis.checked_sub(self.maps) {
            // A single tap is none.
            Some(_) if self.axes.get(axis).is_some_and(|extent| extent.is(1)) => Dim::constant(0),
            Some(tap) => Dim::axis(host.axes.len() + tap),
            None if alike => Dim::axis(axis),
            None => host.store.get(axis).cloned().unwrap_or_default(),
        };
        let moved = |dim: &Dim| renumber_dim(dim, &[], &axis);
        let access = |access: &Access| Access { index: access.index.iter().map(moved).collect(), ..access.clone() };
        let bounds = self.bounds.iter().map(|b| Bound { value: moved(&b.value), limit: moved(&b.limit) }).collect();
        let axes = host.axes.iter().chain(self.axes.iter().skip(self.maps)).cloned().collect();
        Some(Linear {
            axes,
            maps: host.maps,
            data: access(&self.data),
            bounds,
            weights: access(&self.weights),
            weights_node: self.weights_node,
            store: host.store.clone(),
        })
    }

    /// What a tap axis is in a part of this product that has the same maps.
    fn tap(&self, part: &Linear, axis: usize) -> Option<Tap> {
        let mut using = self.data.index.iter().zip(&part.data.index).filter(|(dim, _)| dim.uses_axis(axis));
        let (whole, index) = using.next().filter(|_| using.next().is_none())?;
        let step = whole.coefficient(axis)?;
        let exact = |value: i64| value.checked_div(step).filter(|taps| taps.checked_mul(step) == Some(value));
        let rest = index.clone() - &whole.without(axis);
        let other = (0..part.axes.len()).find(|other| rest.uses_axis(*other)).unwrap_or(0);
        let (at, by) = (exact(rest.without(other).as_const()?)?, exact(rest.coefficient(other)?)?);
        // All of them, from the first one to the last one.
        let count = if by == 0 { 1 } else { part.axes.get(other)?.as_const()? };
        let last = count.checked_sub(1)?.checked_mul(by)?.checked_add(at)?;
        let extent = self.axes.get(axis)?.as_const()?;
        (at >= 0 && by >= 0 && last < extent).then_some(Tap { at, by, axis: other })
    }

    /// Adds the weights of a part whose taps are these.
    fn sum(&self, program: &Program, part: &Linear, taps: &[Tap]) -> Option<Tensor> {
        // Every weight belongs to one index of every axis that it depends on.
        let pure = |dim: &Dim| dim.is(0) || (0..self.axes.len()).any(|axis| *dim == Dim::axis(axis));
        let once = |axis: usize| self.weights.index.iter().filter(|dim| dim.uses_axis(axis)).count() == 1;
        let whole = (self.maps..self.axes.len()).all(once) && self.weights.index.iter().all(pure);
        let to = Steps::of(program, &self.weights, self.axes.len())?;
        let from = Steps::of(program, &part.weights, part.axes.len())?;
        let (mut start, mut along) = (to.start, Vec::new());
        let mut moved = vec![0i64; part.axes.len()];
        for (tap, step) in taps.iter().zip(to.steps.iter().skip(self.maps)) {
            start = tap.at.checked_mul(*step)?.checked_add(start)?;
            let moved = moved.get_mut(tap.axis)?;
            *moved = tap.by.checked_mul(*step)?.checked_add(*moved)?;
        }
        for axis in (0..self.maps).chain(self.axes.len()..part.axes.len()) {
            let own = if axis < self.maps { *to.steps.get(axis)? } else { 0 };
            let (moved, from) = (*moved.get(axis)?, *from.steps.get(axis)?);
            if axis < self.maps && own == 0 && (moved, from) != (0, 0) {
                return None;
            }
            if (own, moved, from) != (0, 0, 0) {
                along.push(Along { extent: part.axes.get(axis)?.as_const()?, to: own + moved, from });
            }
        }
        let work = along.iter().try_fold(1i64, |work, axis| work.checked_mul(axis.extent)).filter(|work| *work <= WORK);
        let (true, Some(_)) = (whole, work) else { return None };
        let tensor = program.buffer(self.weights.buffer).constant()?;
        let mut sums: Vec<f32> = floats(tensor)?.collect();
        let added: Vec<f32> = floats(program.buffer(part.weights.buffer).constant()?)?.collect();
        add(&mut sums, &added, (start, from.start), &along)?;
        Some(Tensor::from_f32s(tensor.dims.clone(), &sums))
    }
}

/// How far apart the elements are along every axis.
struct Steps {
    start: i64,
    steps: Vec<i64>,
}

impl Steps {
    /// Of a constant in row-major order, if axes alone say which element it is.
    fn of(program: &Program, access: &Access, axes: usize) -> Option<Steps> {
        let dims = &program.buffer(access.buffer).dims;
        let (mut start, mut steps, mut pitch) = (0i64, vec![0i64; axes], 1i64);
        for (index, dim) in access.index.iter().zip(dims).rev() {
            let mut rest = index.clone();
            for (axis, step) in steps.iter_mut().enumerate() {
                *step = index.coefficient(axis)?.checked_mul(pitch)?.checked_add(*step)?;
                rest = rest.without(axis);
            }
            start += rest.as_const()?.checked_mul(pitch)?;
            pitch = dim.as_const()?.checked_mul(pitch)?;
        }
        Some(Steps { start, steps })
    }
}

/// Adds some elements of `from` to some of `to`, from these first ones on.
fn add(to: &mut [f32], from: &[f32], (mut at, mut of): (i64, i64), along: &[Along]) -> Option<()> {
    let mut index = vec![0; along.len()];
    loop {
        *to.get_mut(usize::try_from(at).ok()?)? += *from.get(usize::try_from(of).ok()?)?;
        let mut axes = index.iter_mut().zip(along).rev();
        loop {
            let Some((i, axis)) = axes.next() else { return Some(()) };
            *i += 1;
            (at, of) = (at + axis.to, of + axis.from);
            if *i < axis.extent {
                break;
            }
            (at, of) = (at - axis.to * axis.extent, of - axis.from * axis.extent);
            *i = 0;
        }
    }
}
