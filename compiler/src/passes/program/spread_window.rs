//! Convolutions with few results per pixel would leave most columns of a kernel empty. Instead every pixel is multiplied with the
//! weights of several places of the window at once, and results are sums of these products.

use super::blocks::split_nests;
use super::pad_data::{borders, sides};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::options::Options;
use crate::program::edit::{prune, renumber_dim};
use crate::program::nest::{Access, Axis, Binary, Bound, Const, Nest, Node, ReduceFn, Reduction, Scalar};
use crate::program::{BufferId, Program, Role};

/// Columns that a kernel computes at least, where its time is estimated.
const VECTOR: i64 = 8;
/// Results of a pixel, at most.
const RESULTS: i64 = 4;
/// What it takes to read and add a product, as many of a kernel's instructions.
const ADDITION: i64 = 2;
/// Products, at most: more would leave the cache before they are added.
const PRODUCTS: i64 = 1024 * 1024;

/// Divides such convolutions.
pub fn spread_window(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    // Where there are no vectors, memory counts more.
    if !options.has_vector_kernels() {
        return;
    }
    split_nests(program, |program, nest| {
        let window = Window::of(program, nest)?;
        let taps = window.taps();
        let last = taps.len().checked_sub(1)?;
        let spreads = [taps.as_slice(), taps.get(last..)?].map(|taps| Spread::of(&window, taps));
        let spread = spreads.into_iter().flatten().min_by_key(|spread| spread.cost)?;
        (spread.cost < window.cost()).then(|| spread.divide(program))?
    });
}

/// A sum of products of data and constants.
struct Window<'a> {
    nest: &'a Nest,
    access: &'a Access,
    bounds: &'a [Bound],
    factors: &'a Access,
    /// Map axes that the constants alone use.
    columns: Vec<usize>,
    /// The sizes of the data.
    sizes: Vec<i64>,
}

impl<'a> Window<'a> {
    fn of(program: &Program, nest: &'a Nest) -> Option<Self> {
        let reduction = nest.reduction.filter(|r| r.function == ReduceFn::Sum && nest.is_direct())?;
        let Scalar::Binary(Binary::Mul, a, b) = nest.nodes.get(reduction.value as usize)? else { return None };
        let constant = |node: Node| program.buffer(load(program, nest, node)?.0.buffer).constant();
        let (data, weights) = match (constant(*a).is_some(), constant(*b).is_some()) {
            (false, true) => (*a, *b),
            (true, false) => (*b, *a),
            _ => return None,
        };
        let ((access, bounds), (factors, unbounded)) = (load(program, nest, data)?, load(program, nest, weights)?);
        let uses = |access: &Access, axis: usize| access.index.iter().any(|dim| dim.uses_axis(axis));
        let columns: Vec<usize> = (0..nest.maps).filter(|axis| uses(factors, *axis)).collect();
        let shared = columns.iter().any(|axis| uses(access, *axis));
        let known = nest.axes.iter().all(|axis| axis.extent.as_const().is_some_and(|extent| extent > 0));
        let sizes = program.buffer(access.buffer).dims.iter().map(Dim::as_const).collect::<Option<_>>()?;
        let window = Window { nest, access, bounds, factors, columns, sizes };
        let few = window.product(window.columns.iter().copied()) <= RESULTS;
        (few && known && !shared && unbounded.is_empty()).then_some(window)
    }

    /// The reduction axes that move along a dimension of the data with a map axis.
    fn taps(&self) -> Vec<usize> {
        let slides = |axis: &usize| self.access.index.iter().any(|dim| dim.uses_axis(*axis) && self.rows(dim) > 0);
        (self.nest.maps..self.nest.axes.len()).filter(slides).collect()
    }

    /// How many map axes an index uses.
    fn rows(&self, index: &Dim) -> usize {
        (0..self.nest.maps).filter(|axis| index.uses_axis(*axis)).count()
    }

    fn extent(&self, axis: usize) -> i64 {
        self.nest.axes.get(axis).and_then(|axis| axis.extent.as_const()).unwrap_or(1)
    }

    fn product(&self, mut axes: impl Iterator<Item = usize>) -> i64 {
        axes.try_fold(1i64, |product, axis| product.checked_mul(self.extent(axis))).unwrap_or(i64::MAX)
    }

    /// The instructions for the results of a pixel in columns of their own.
    fn cost(&self) -> i64 {
        self.product(self.nest.maps..self.nest.axes.len())
    }

    /// The axes that become columns of products, with these taps.
    fn columns<'b>(&'b self, taps: &'b [usize]) -> impl Iterator<Item = usize> + 'b {
        taps.iter().chain(&self.columns).copied()
    }
}

/// An f32 load and its bounds, outside of which it is zero.
fn load<'n>(program: &Program, nest: &'n Nest, node: Node) -> Option<(&'n Access, &'n [Bound])> {
    let Scalar::Load { access, bounds, otherwise } = nest.nodes.get(node as usize)? else { return None };
    let zero = |node: &Node| nest.nodes.get(*node as usize) == Some(&Scalar::Const(Const::F32(0.0)));
    let plain = access.is_direct() && program.buffer(access.buffer).element == ElementType::F32;
    (plain && otherwise.iter().all(zero)).then_some((access, bounds.as_slice()))
}

/// What becomes of a dimension of the data.
enum Place {
    /// The products are sums over it.
    Summed,
    /// One for every index of a map axis, as in the result.
    Row { axis: usize },
    /// One for every pixel, and zeros where windows reach beyond them.
    Pixel { before: i64, behind: i64 },
}

/// A window some taps of which become columns.
struct Spread<'a> {
    window: &'a Window<'a>,
    taps: &'a [usize],
    /// Of every dimension of the data.
    places: Vec<Place>,
    cost: i64,
}

impl<'a> Spread<'a> {
    fn of(window: &'a Window<'a>, taps: &'a [usize]) -> Option<Self> {
        let indices = window.access.index.iter().zip(&window.sizes);
        let places = indices.map(|(index, size)| place(window, taps, index, *size)).collect::<Option<_>>()?;
        let mut spread = Spread { window, taps, places, cost: 0 };
        let products = spread.dims().iter().try_fold(1i64, |n, (.., all)| n.checked_mul(*all))?;
        let others = taps.len() < window.nest.axes.len() - window.nest.maps;
        if products > PRODUCTS || !others {
            return None;
        }
        let columns = window.product(window.columns(taps));
        let vectors = (columns + VECTOR - 1) / VECTOR;
        let sums = (products / columns).checked_mul(window.cost() / window.product(taps.iter().copied()))?;
        let pixels = window.product((0..window.nest.maps).filter(|axis| !window.columns.contains(axis)));
        spread.cost = sums.checked_mul(vectors)? / pixels + ADDITION * columns;
        Some(spread)
    }

    /// The dimensions of the products: where those that are computed begin, how many these are, and the size.
    fn dims(&self) -> Vec<(i64, i64, i64)> {
        let dims = self.places.iter().zip(&self.window.sizes).filter_map(|(place, size)| match place {
            Place::Summed => None,
            Place::Row { axis } => Some((0, self.window.extent(*axis), self.window.extent(*axis))),
            Place::Pixel { before, behind } => {
                Some((*before, *size, before.saturating_add(*size).saturating_add(*behind)))
            }
        });
        let columns = self.window.columns(self.taps).map(|axis| self.window.extent(axis));
        dims.chain(columns.map(|columns| (0, columns, columns))).collect()
    }

    /// The nests that compute the products, and the one that adds them.
    fn divide(&self, program: &mut Program) -> Option<(Vec<Nest>, Nest)> {
        let dims = self.dims();
        let sizes = dims.iter().map(|(.., all)| Dim::constant(*all)).collect();
        let name = program.buffer(self.window.nest.store.buffer).name.clone();
        let to = program.add_buffer(&name, ElementType::F32, sizes, Role::Temporary);
        let mut nests = borders(Scalar::Const(Const::F32(0.0)), &dims, to);
        nests.push(self.products(&dims, to)?);
        Some((nests, self.sums(to)?))
    }

    /// The products, summed over all that is not spread.
    fn products(&self, dims: &[(i64, i64, i64)], to: BufferId) -> Option<Nest> {
        let Window { nest, access, bounds, factors, .. } = self.window;
        let rest: Vec<usize> = (nest.maps..nest.axes.len()).filter(|axis| !self.taps.contains(axis)).collect();
        let columns: Vec<usize> = self.window.columns(self.taps).collect();
        let pixels = dims.len() - columns.len();
        // What takes the place of every axis.
        let mut new = vec![None; nest.axes.len()];
        columns.iter().chain(&rest).zip(pixels..).for_each(|(old, axis)| new[*old] = Some(Dim::axis(axis)));
        let mut at = 0;
        let mut own = Vec::new();
        for place in &self.places {
            if let Place::Row { axis } = place {
                new[*axis] = Some(Dim::axis(at));
            }
            own.push(at);
            at += usize::from(!matches!(place, Place::Summed));
        }
        let places = || access.index.iter().zip(&self.places);
        let index = places().zip(own).map(|((index, place), own)| match place {
            Place::Pixel { .. } => Some(Dim::axis(own)),
            _ => renamed(index, &new),
        });
        let data = Access { buffer: access.buffer, index: index.collect::<Option<_>>()? };
        let beyond = |bound: &&Bound| {
            !places().any(|(index, place)| *index == bound.value && matches!(place, Place::Pixel { .. }))
        };
        let bounds = bounds.iter().filter(beyond);
        let bounds = bounds.map(|b| Some(Bound { value: renamed(&b.value, &new)?, limit: renamed(&b.limit, &new)? }));
        let bounds: Vec<Bound> = bounds.collect::<Option<_>>()?;
        let weights = factors.index.iter().map(|dim| renamed(dim, &new)).collect::<Option<_>>()?;
        let weights = Access { buffer: factors.buffer, index: weights };
        let extents =
            dims.iter().map(|(_, extent, _)| *extent).chain(rest.iter().map(|axis| self.window.extent(*axis)));
        Some(Nest {
            axes: extents.map(|extent| Axis { extent: Dim::constant(extent) }).collect(),
            maps: dims.len(),
            nodes: vec![
                Scalar::Const(Const::F32(0.0)),
                Scalar::Load { access: data, otherwise: (!bounds.is_empty()).then_some(0), bounds },
                Scalar::Load { access: weights, bounds: Vec::new(), otherwise: None },
                Scalar::Binary(Binary::Mul, 1, 2),
                Scalar::Reduced,
            ],
            reduction: Some(Reduction { function: ReduceFn::Sum, value: 3 }),
            result: 4,
            store: Access {
                buffer: to,
                index: dims.iter().enumerate().map(|(axis, (first, ..))| Dim::axis(axis) + *first).collect(),
            },
        })
    }

    /// The results: sums of the products of every tap.
    fn sums(&self, from: BufferId) -> Option<Nest> {
        let Window { nest, access, .. } = self.window;
        let mut new: Vec<Option<Dim>> =
            (0..nest.axes.len()).map(|axis| (axis < nest.maps).then(|| Dim::axis(axis))).collect();
        self.taps.iter().zip(nest.maps..).for_each(|(old, axis)| new[*old] = Some(Dim::axis(axis)));
        let index = access.index.iter().zip(&self.places).filter_map(|(index, place)| match place {
            Place::Summed => None,
            Place::Row { axis } => Some(Some(Dim::axis(*axis))),
            Place::Pixel { before, .. } => Some(renamed(index, &new).map(|index| index + *before)),
        });
        let columns = self.window.columns(self.taps).map(|axis| new.get(axis).cloned().flatten());
        let access = Access { buffer: from, index: index.chain(columns).collect::<Option<_>>()? };
        let mut sums = Nest::clone(nest);
        let kept = |axis: &usize| *axis < nest.maps || self.taps.contains(axis);
        sums.axes = (0..nest.axes.len()).filter(kept).map(|axis| nest.axes[axis].clone()).collect();
        let value = nest.reduction?.value;
        *sums.nodes.get_mut(value as usize)? = Scalar::Load { access, bounds: Vec::new(), otherwise: None };
        prune(&mut sums);
        Some(sums)
    }
}

/// What becomes of a dimension of the data where these taps become columns.
fn place(window: &Window, taps: &[usize], index: &Dim, size: i64) -> Option<Place> {
    let nest = window.nest;
    let mut rows = (0..nest.maps).filter(|axis| index.uses_axis(*axis));
    let Some(axis) = rows.next() else { return Some(Place::Summed) };
    let spread = taps.iter().any(|tap| index.uses_axis(*tap));
    let others = (nest.maps..nest.axes.len()).any(|tap| !taps.contains(&tap) && index.uses_axis(tap));
    match (rows.next(), spread) {
        (Some(_), _) => None,
        (None, false) => Some(Place::Row { axis }),
        (None, true) if others || index.coefficient(axis) != Some(1) => None,
        (None, true) => sides(nest, index, &Dim::constant(size), window.bounds)
            .map(|(before, behind)| Place::Pixel { before, behind }),
    }
}

/// An index with other axes. None if it uses one that has no place.
fn renamed(index: &Dim, new: &[Option<Dim>]) -> Option<Dim> {
    let known = (0..new.len()).all(|axis| new[axis].is_some() || !index.uses_axis(axis));
    known.then(|| renumber_dim(index, &[], &|axis| new.get(axis).cloned().flatten().unwrap_or_default()))
}
