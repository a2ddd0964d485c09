//! Operands that lie across the rows of a nest, element by element: a nest that reads copies of them, in which its rows are
//! contiguous, runs by vectors.

use super::orders::{VECTOR, channels_last};
use super::{Choosing, MANY};
use crate::graph::Origin;
use crate::passes::program::spread_lookups::axes_of_few;
use crate::program::nest::{Access, Axis, Bound, Nest, Node, Scalar};
use crate::program::{BufferId, Program, recognise};

/// A load, and the dimension of its buffer along which rows run.
struct Across {
    load: Node,
    buffer: BufferId,
    dim: usize,
    elements: i64,
}

/// The rows of a nest, or of what a kernel does with the sums of a product.
struct Rows<'a> {
    program: &'a Program,
    nest: &'a Nest,
    product: bool,
}

impl Choosing {
    /// Makes a nest read copies of what lies across its rows, along the axis for which least has to be copied.
    pub(super) fn turn_operands(&mut self, program: &mut Program, nest: &mut Nest, product: bool, origins: &[Origin]) {
        let rows = Rows { program, nest, product };
        if !self.vectors || !rows.are_worth_copies() {
            return;
        }
        let operands = rows.axes().into_iter().filter_map(|axis| rows.across(axis));
        for Across { load, dim, .. } in operands.min_by_key(|operands| self.copied(operands)).unwrap_or_default() {
            self.relayout(program, nest, load, dim, origins);
        }
    }

    /// The order of a result for which least has to be copied: that in which readers want it, or that of what is read.
    pub(super) fn cheaper_order(
        &self,
        program: &Program,
        nest: &Nest,
        wanted: Vec<usize>,
        read: Option<Vec<usize>>,
    ) -> Vec<usize> {
        match read.filter(|read| self.excess(program, nest, &wanted, read).is_some_and(|excess| excess > 0)) {
            Some(read) => read,
            None => wanted,
        }
    }

    /// Whether a row-major result takes less copies than one in the order of what is read, which is copied itself.
    pub(super) fn is_cheaper_at_once(&self, program: &Program, nest: &Nest, read: &[usize]) -> bool {
        let plain: Vec<usize> = (0..nest.store.index.len()).collect();
        self.excess(program, nest, &plain, read).is_some_and(|excess| excess < 0)
    }

    /// How many elements more are copied for one order of a result than for the other, and for a copy of the result.
    fn excess(&self, program: &Program, nest: &Nest, one: &[usize], other: &[usize]) -> Option<i64> {
        let rows = Rows { program, nest, product: false };
        if !self.vectors || !rows.are_worth_copies() {
            return None;
        }
        let cost = |order: &[usize]| {
            let index = nest.store.index.get(*order.last()?)?;
            let axis = (0..nest.maps).find(|axis| index.counts(*axis))?;
            Some(self.copied(&rows.across(axis)?))
        };
        let copy = program.buffer(nest.store.buffer).len().upper_bound();
        Some(cost(one)?.saturating_sub(cost(other)?.saturating_add(copy)))
    }

    /// Elements to be copied; copies that exist cost nothing.
    fn copied(&self, operands: &[Across]) -> i64 {
        let new = operands.iter().filter(|operand| !self.copies.contains_key(&(operand.buffer, operand.dim)));
        new.fold(0, |sum, operand| sum.saturating_add(operand.elements))
    }
}

/// By buffer, the dimensions along which a nest reads what lies along its rows, if nothing lies across them. Reductions of one
/// buffer have other forms where it lies across.
pub(in crate::passes::program) fn along_rows(program: &Program, nest: &Nest, product: bool) -> Vec<(BufferId, usize)> {
    let rows = Rows { program, nest, product };
    let whole = |axis: &usize| rows.across(*axis).is_some_and(|operands| operands.is_empty());
    let Some(axis) = rows.axes().into_iter().find(whole).filter(|_| rows.are_worth_copies()) else { return Vec::new() };
    let dim = |access: &Access| access.index.iter().position(|index| index.coefficient(axis) == Some(1));
    let loads = rows.loads().into_iter();
    let along: Vec<_> = loads.filter_map(|(_, access, _)| Some((access.buffer, dim(access)?))).collect();
    let several = along.windows(2).any(|pair| pair[0].0 != pair[1].0);
    if several || !rows.reduces() { along } else { Vec::new() }
}

impl Rows<'_> {
    /// The axes along which rows can run: where the result is contiguous, and the last that is reduced.
    fn axes(&self) -> Vec<usize> {
        let Rows { program, nest, product } = *self;
        let stored = program.address(nest.store.buffer, &nest.store.index);
        let results = (0..nest.maps).find(|axis| stored.coefficient(*axis) == Some(1));
        let reduced =
            (nest.maps..nest.axes.len()).next_back().filter(|_| !product && !self.are_windows_along_channels());
        let long = |axis: &usize| extent(&nest.axes[*axis]) >= VECTOR;
        results.into_iter().chain(reduced).filter(long).collect()
    }

    fn loads(&self) -> Vec<(Node, &Access, &[Bound])> {
        let nodes = match self.product {
            true => self.nest.needed(&[self.nest.result]),
            false => (0..self.nest.nodes.len()).collect(),
        };
        let load = |node: usize| match self.nest.nodes.get(node) {
            Some(Scalar::Load { access, bounds, .. }) => Some((node as Node, access, &bounds[..])),
            _ => None,
        };
        nodes.into_iter().filter_map(load).collect()
    }

    /// What lies across rows along an axis; `None` where copies of it would not make vectors of them. Reductions of what lies
    /// across alone have other forms: what they add up for each row follows each other.
    fn across(&self, axis: usize) -> Option<Vec<Across>> {
        let reduced = axis >= self.nest.maps;
        let (mut found, mut along) = (Vec::new(), false);
        for (load, access, bounds) in self.loads() {
            if reduced && bounds.iter().any(|bound| bound.value.uses_axis(axis)) {
                return None;
            }
            match self.program.address(access.buffer, &access.index).coefficient(axis) {
                Some(0) => {}
                Some(1) => along = true,
                Some(_) => found.push(self.turned(load, access, axis)?),
                // The few elements that are looked up become a table that lies as rows do.
                None if bounds.is_empty() && axes_of_few(self.nest, access).is_some() => {}
                None => return None,
            }
        }
        (along || !self.reduces() || found.is_empty()).then_some(found)
    }

    /// Whether rows are reduced.
    fn reduces(&self) -> bool {
        self.nest.reduction.is_some() && !self.product
    }

    fn turned(&self, load: Node, access: &Access, axis: usize) -> Option<Across> {
        let buffer = self.program.buffer(access.buffer);
        let mut along = access.index.iter().enumerate().filter(|(_, index)| index.uses_axis(axis));
        let (Some((dim, index)), None) = (along.next(), along.next()) else { return None };
        let mut strides = buffer.layout.strides.iter().zip(&buffer.dims).enumerate();
        // Copies run by vectors where elements follow each other along another dimension.
        let squares = strides.any(|(at, (stride, extent))| at != dim && stride.is(1) && !extent.is(1));
        let elements = buffer.len().as_const().filter(|elements| *elements <= self.points())?;
        let copies = index.coefficient(axis) == Some(1) && squares && buffer.constant().is_none();
        copies.then_some(Across { load, buffer: access.buffer, dim, elements })
    }

    /// Whether something is computed, for as many elements as are worth a buffer of their own.
    fn are_worth_copies(&self) -> bool {
        let moved = |node: &Scalar| matches!(node, Scalar::Load { bounds, .. } if bounds.is_empty());
        !self.nest.nodes.iter().all(moved) && self.nest.is_direct() && self.points() >= MANY
    }

    /// Whether kernels take windows whose channels follow each other.
    fn are_windows_along_channels(&self) -> bool {
        let window = recognise::window(self.program, self.nest);
        window.is_some_and(|window| channels_last(self.program, self.nest, &window).is_some())
    }

    /// Points that are visited; 0 where their number is not known.
    fn points(&self) -> i64 {
        let axes = if self.product { self.nest.maps } else { self.nest.axes.len() };
        self.nest.axes.iter().take(axes).map(extent).fold(1, i64::saturating_mul)
    }
}

fn extent(axis: &Axis) -> i64 {
    axis.extent.as_const().unwrap_or(0)
}
