//! Short rows of a nest as longer ones: four heads or three colours alone do not fill a vector.
//!
//! An operand that has one short row for all rows (a bias), or one element for each (what a row is divided by), is laid out
//! like the others first.

use super::nodes::is_hoisted;
use super::physical::{Physical, stride, with_axis};
use super::views::Views;
use crate::dim::{Atom, Dim};
use crate::plan::element_bytes;
use crate::program::Program;
use crate::program::nest::Scalar;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// Longest row that is short: the compiler unrolls loops over these, and then gathers elements of many rows at once.
const SHORT: i64 = 48;
/// Elements of a long row, and bytes of all that is laid out for it: twice the stack of a row of accumulators.
const LONG: i64 = 256;
pub const BYTES: usize = 2048;
/// A vector, which rows of a multiple of it fill.
pub(super) const VECTOR: i64 = 16;

/// How an operand is read along a row: a short row again and again, or each of its elements for several of the row.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The address but for what changes along the row.
    pub start: Dim,
    /// Elements of the short row, or how often each is read.
    by: usize,
    repeats: bool,
    /// Elements from one that is read to the next.
    step: usize,
}

impl Lookup {
    /// The lookup behind an address along `axis`.
    fn of(address: &Dim, axis: usize) -> Option<Self> {
        let along = |(product, step): &(Vec<Atom>, i64)| match product.as_slice() {
            [Atom::Mod(of, by)] if **of == Dim::axis(axis) => Some((true, by.as_usize()?, *step)),
            [Atom::FloorDiv(of, by)] if **of == Dim::axis(axis) => Some((false, by.as_usize()?, *step)),
            _ => None,
        };
        let (repeats, by, step) = address.parts().0.iter().find_map(along)?;
        let step = usize::try_from(step).ok().filter(|step| *step == 1 || *step > 1 && !repeats && by > 1)?;
        let lookup = Lookup { start: Dim::constant(0), by, repeats, step };
        let start = address.clone() - &lookup.along(axis);
        (!start.uses_axis(axis)).then_some(Lookup { start, ..lookup })
    }

    /// The same along a row that is short enough to be laid out.
    pub fn along_row(address: &Dim, axis: usize, width: usize) -> Option<Self> {
        let lookup = Lookup::of(address, axis)?;
        (width.is_multiple_of(lookup.by) && width <= LONG as usize).then_some(lookup)
    }

    /// What changes along the row.
    fn along(&self, axis: usize) -> Dim {
        let by = Dim::constant(self.by as i64);
        if self.repeats { Dim::axis(axis).modulo(&by) } else { Dim::axis(axis).floor_div(&by) * self.step as i64 }
    }

    /// Elements of which it reads some for a row.
    pub fn reach(&self, width: usize) -> usize {
        if self.repeats { self.by } else { reach(width / self.by, self.step) }
    }

    /// What lays out the same elements once for several rows, if they may be the same: a type of the runtime.
    pub fn kept(&self, width: usize) -> Option<TokenStream> {
        let [read, width] = [self.reach(width), width].map(Literal::usize_unsuffixed);
        self.repeats.then(|| quote!(rt::nest::Repeated::<_, #read, #width>))
    }

    /// The call of the runtime's function that lays `elements` out for a row.
    pub fn laid_out(&self, width: usize, elements: &TokenStream) -> TokenStream {
        let [read, step] = [self.reach(width), self.step].map(Literal::usize_unsuffixed);
        let width = Literal::usize_unsuffixed(width);
        match (self.repeats, self.step) {
            (true, _) => quote!(rt::nest::repeat::<_, #read, #width>(#elements)),
            (false, 1) => quote!(rt::nest::spread::<_, #read, #width>(#elements)),
            (false, _) => quote!(rt::nest::spread_every::<_, #read, #width, #step>(#elements)),
        }
    }
}

/// Elements from the first to the last of so many at a distance.
fn reach(count: usize, step: usize) -> usize {
    count.saturating_sub(1).saturating_mul(step).saturating_add(1)
}

/// How many elements at a distance have this reach, at most.
fn rows_of(reach: usize, step: usize) -> usize {
    reach.checked_sub(1).map_or(0, |last| last / step.max(1) + 1)
}

/// Splits long rows along which something is looked up into shorter ones, for which it can be laid out.
pub fn shorten(physical: &mut Physical) {
    let Some(axis) = physical.maps.last().copied().filter(|_| physical.reduction.is_none()) else { return };
    let Some(width) = physical.extents.get(axis).and_then(Dim::as_usize).filter(|n| *n > LONG as usize) else { return };
    let lookup = |node: &Scalar| match node {
        Scalar::Load { access, .. } => Lookup::of(access.index.first()?, axis),
        _ => None,
    };
    let lookups: Vec<Option<Lookup>> = physical.nodes.iter().map(lookup).collect();
    let fits = |block: &usize| {
        let divides = |lookup: &Lookup| block.is_multiple_of(lookup.by);
        width.is_multiple_of(*block) && lookups.iter().flatten().all(divides)
    };
    let block = (2 * VECTOR as usize..=LONG as usize).rev().find(fits);
    let Some(block) = block.filter(|_| lookups.iter().any(Option::is_some)) else { return };
    let blocks = Dim::axis(physical.extents.len());
    physical.split(axis, block as i64);
    for (node, lookup) in physical.nodes.iter_mut().zip(lookups) {
        if let (Scalar::Load { access, .. }, Some(lookup)) = (node, lookup)
            && let Some(address) = access.index.first_mut()
        {
            let before = if lookup.repeats { 0 } else { block / lookup.by * lookup.step };
            *address = lookup.along(axis) + &lookup.start + &(blocks.clone() * before as i64);
        }
    }
}

/// How an expression walks through rows.
#[derive(Clone, Copy, PartialEq)]
enum Walk {
    /// Through all elements.
    Through,
    /// Stays where it is.
    Stays,
    /// Through the same short row again and again.
    Repeats,
    /// So many elements from row to row.
    Steps(usize),
}

/// The axes of rows and of their elements.
struct Axes {
    rows: usize,
    elements: usize,
    width: i64,
}

impl Axes {
    fn walk(&self, dim: &Dim) -> Option<Walk> {
        let along = |axis| stride(dim, axis).and_then(|step| step.as_const());
        match (along(self.rows)?, along(self.elements)?) {
            (rows, 1) if rows == self.width => Some(Walk::Through),
            (0, 0) => Some(Walk::Stays),
            (0, 1) => Some(Walk::Repeats),
            (step, 0) => Some(Walk::Steps(usize::try_from(step).ok()?)),
            _ => None,
        }
    }

    /// Elements of a row.
    fn length(&self) -> usize {
        usize::try_from(self.width).unwrap_or(0)
    }

    fn uses(&self, dim: &Dim) -> bool {
        dim.uses_axis(self.rows) || dim.uses_axis(self.elements)
    }
}

/// Joins the rows of a nest without reduction, if they are short and all operands can be laid out like the result.
pub fn join(program: &Program, views: &Views, physical: &mut Physical) {
    let Some((axes, rows)) = joinable(program, views, physical) else { return };
    let count = physical.extents.get(axes.rows).and_then(Dim::as_const);
    if count != Some(rows) {
        physical.split(axes.rows, rows);
    }
    let (none, along, width) = (Dim::constant(0), Dim::axis(axes.elements), Dim::constant(axes.width));
    let (element, row) = (along.modulo(&width), along.floor_div(&width));
    for node in &mut physical.nodes {
        let Scalar::Load { access, .. } = node else { continue };
        for address in &mut access.index {
            *address = match axes.walk(address) {
                Some(Walk::Repeats) => with_axis(address, axes.elements, &element),
                Some(Walk::Steps(_)) => with_axis(address, axes.rows, &row),
                _ => with_axis(address, axes.rows, &none),
            };
        }
    }
    physical.store = with_axis(&physical.store, axes.rows, &none);
    physical.maps.retain(|axis| *axis != axes.rows);
    if let Some(extent) = physical.extents.get_mut(axes.elements) {
        *extent = Dim::constant(rows * axes.width);
    }
}

/// The axes, and how many rows become one.
fn joinable(program: &Program, views: &Views, physical: &Physical) -> Option<(Axes, i64)> {
    let [.., rows, elements] = physical.maps[..] else { return None };
    let extent = |axis: usize| physical.extents.get(axis).and_then(Dim::as_const);
    let (count, width) = (extent(rows)?, extent(elements)?);
    let axes = Axes { rows, elements, width };
    let short = (2..=SHORT).contains(&width);
    if physical.reduction.is_some() || !short || axes.walk(&physical.store) != Some(Walk::Through) {
        return None;
    }
    let (mut run, mut bytes) = (views.param(physical.target)?.run(), 0);
    let varying = physical.depends_on(&[rows, elements]);
    for (i, node) in physical.nodes.iter().enumerate() {
        match node {
            Scalar::Index(dim) if axes.uses(dim) => return None,
            Scalar::Load { access, bounds, .. } if physical.literals.get(i).is_none_or(Option::is_none) => {
                let param = views.param(access.buffer)?;
                let address = access.index.first()?;
                let guarded = bounds.iter().any(|bound| axes.uses(&bound.value) || axes.uses(&bound.limit));
                if guarded || param.is_slice() || !is_hoisted(address, &varying) {
                    return None;
                }
                match axes.walk(address)? {
                    Walk::Through => run = run.min(param.run()),
                    Walk::Stays => {}
                    _ if param.written => return None,
                    walk => {
                        bytes += element_bytes(program.buffer(access.buffer).element)?;
                        if let Walk::Steps(step) = walk {
                            run = run.min(rows_of(param.run(), step).saturating_mul(axes.length()));
                        }
                        if walk == Walk::Repeats && param.run() < axes.length() {
                            return None;
                        }
                    }
                }
            }
            _ => {}
        }
    }
    let longest = LONG.min(i64::try_from(run.min(BYTES.checked_div(bytes)?)).unwrap_or(LONG));
    let together = (1..=longest / width).rev().find(|together| count % together == 0)?;
    (together * width >= 2 * VECTOR).then_some((axes, together))
}
