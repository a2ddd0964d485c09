//! Slices whose starts, stops, steps or axes are known only when the model runs.
//!
//! Nests compute the first element, the step and the number of elements of every dimension from the operands; the numbers
//! become run-time sizes, the others are looked up where elements are read.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::InferContext;
use crate::op::operands::shape_error;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node, ReduceFn};
use crate::program::{Bound, BufferId};

/// What a dimension of the operand becomes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// A range of it.
    Range(Entry),
    /// Its element at the start of the entry: no dimension of the result.
    One(usize),
}

/// Which elements of starts, stops and steps belong to a dimension.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    /// None: all elements.
    None,
    /// These; the flags say whether start and stop count.
    At { place: usize, start: bool, stop: bool },
    /// Those beside which the list of axes names the dimension.
    Named,
}

/// The dimensions of the result of `items`, one per dimension of the operand; new axes are `None`.
pub(super) fn infer(x: &Fact, items: &[Option<Item>], context: &mut InferContext) -> Vec<Fact> {
    let is_cut = |item: &Item| matches!(item, Item::Range(entry) if *entry != Entry::None);
    let of_data = items.iter().flatten().zip(&x.dims);
    let largest: Vec<i64> = of_data.filter(|(item, _)| is_cut(item)).map(|(_, dim)| dim.upper_bound()).collect();
    let each = x.dims.iter().fold(1i64, |all, dim| all.saturating_mul(dim.upper_bound()));
    let most = product(&x.dims).upper_bound();
    let cut = match each > most {
        // Parts of sizes that share a capacity share it too.
        true => context.found("slice", &largest, most),
        false => largest.iter().map(|largest| context.fresh("slice", 0, *largest)).collect(),
    };
    let (mut sizes, mut cut) = (x.dims.iter(), cut.into_iter());
    let mut dims = Vec::with_capacity(items.len());
    for item in items {
        let size = item.as_ref().and_then(|_| sizes.next());
        match item {
            None => dims.push(Dim::constant(1)),
            Some(Item::One(_)) => {}
            Some(item) if is_cut(item) => dims.extend(cut.next()),
            Some(_) => dims.extend(size.cloned()),
        }
    }
    vec![Fact::new(x.element, dims)]
}

/// Number of entries of a list of starts.
pub(super) fn entries(starts: &Fact) -> Result<usize, Diagnostic> {
    let [count] = starts.dims.as_slice() else { return Err(shape_error("the starts of a slice are no list")) };
    count.as_usize().ok_or_else(|| shape_error("the number of starts of a slice must be known"))
}

/// The operands, as i64.
pub(super) struct Lists {
    pub(super) starts: BufferId,
    pub(super) stops: BufferId,
    pub(super) steps: Option<BufferId>,
    pub(super) axes: Option<BufferId>,
}

/// Writes `out`, which has the dimensions that [`infer`] gave it.
pub(super) fn lower(
    builder: &mut Builder,
    lists: Lists,
    items: &[Option<Item>],
    x: BufferId,
    out: BufferId,
) -> Result<(), Diagnostic> {
    let dims = builder.dims(x);
    let mut reading = Reading { lists: lists.wide(builder)?, places: None };
    reading.places = reading.places_of(builder, dims.len())?;
    let rank = Dim::from(dims.len());
    let [firsts, steps, counts] = [(); 3].map(|()| builder.temporary(ElementType::I64, vec![rank.clone()]));
    let (mut found, mut sizes) = (Vec::new(), dims.iter().enumerate());
    for (place, item) in items.iter().filter(|item| !matches!(item, Some(Item::One(_)))).enumerate() {
        if matches!(item, Some(Item::Range(entry)) if *entry != Entry::None) {
            found.push(builder.found(out, place)?);
        }
    }
    let mut read = Vec::new();
    for item in items.iter().flatten() {
        let Some((d, size)) = sizes.next() else { break };
        let entry = match item {
            Item::One(place) => Entry::At { place: *place, start: true, stop: false },
            Item::Range(entry) => entry.clone(),
        };
        for (which, to) in [firsts, steps, counts].into_iter().enumerate() {
            let mut nest = builder.nest(&[]);
            let values = reading.range(&mut nest, &entry, d, size)?;
            nest.store(to, &[Dim::from(d)], values[which]);
        }
        if matches!(item, Item::Range(entry) if *entry != Entry::None) {
            read.push(d);
        }
    }
    let listed = builder.temporary(ElementType::I64, vec![Dim::from(read.len())]);
    for (to, d) in read.iter().enumerate() {
        let mut nest = builder.nest(&[]);
        let count = nest.load(counts, &[Dim::from(*d)])?;
        nest.store(listed, &[Dim::from(to)], count);
    }
    builder.read_sizes(listed, found)?;
    builder.map(out, |n, i| {
        let (mut i, mut index) = (i.iter(), Vec::with_capacity(dims.len()));
        for item in items {
            let d = Dim::from(index.len());
            match item {
                None => drop(i.next()),
                Some(Item::One(_)) => index.push(looked_up(n, firsts, &d)?),
                Some(Item::Range(Entry::None)) => index.push(i.next().cloned().unwrap_or_default()),
                Some(Item::Range(_)) => {
                    let (first, step) = (looked_up(n, firsts, &d)?, looked_up(n, steps, &d)?);
                    index.push(first + step * i.next().unwrap_or(&Dim::constant(0)));
                }
            }
        }
        n.load(x, &index)
    })
}

fn looked_up(n: &mut NestBuilder, list: BufferId, at: &Dim) -> Result<Dim, Diagnostic> {
    let value = n.load(list, std::slice::from_ref(at))?;
    Ok(n.as_index(value))
}

impl Lists {
    fn wide(self, builder: &mut Builder) -> Result<Lists, Diagnostic> {
        let mut wide = |list: BufferId| builder.converted(list, ElementType::I64);
        Ok(Lists {
            starts: wide(self.starts)?,
            stops: wide(self.stops)?,
            steps: self.steps.map(&mut wide).transpose()?,
            axes: self.axes.map(&mut wide).transpose()?,
        })
    }
}

struct Reading {
    lists: Lists,
    /// For every dimension, where the list of axes names it; -1 where it does not.
    places: Option<BufferId>,
}

impl Reading {
    fn places_of(&self, builder: &mut Builder, rank: usize) -> Result<Option<BufferId>, Diagnostic> {
        let Some(axes) = self.lists.axes else { return Ok(None) };
        let (places, listed) = (builder.temporary(ElementType::I64, vec![Dim::from(rank)]), builder.dims(axes));
        let mut nest = builder.nest(&[Dim::from(rank)]);
        let map = nest.map_axes();
        let at = listed.first().map(|count| nest.reduction_axis(count)).unwrap_or_default();
        let axis = nest.load(axes, std::slice::from_ref(&at))?;
        let (from_start, from_end) = (nest.index(&Dim::axis(0)), nest.index(&(Dim::axis(0) - rank as i64)));
        let (a, b) = (nest.binary(Binary::Eq, axis, from_start), nest.binary(Binary::Eq, axis, from_end));
        let named = nest.binary(Binary::Or, a, b);
        let (place, nowhere) = (nest.index(&at), nest.constant(Const::I64(-1)));
        let place = nest.select(named, place, nowhere);
        let place = nest.reduce(ReduceFn::Max, place);
        nest.store(places, &map, place);
        Ok(Some(places))
    }

    /// First element, step and number of elements along dimension `d`.
    fn range(&self, n: &mut NestBuilder, entry: &Entry, d: usize, size: &Dim) -> Result<[Node; 3], Diagnostic> {
        let (zero, one, all) = (n.constant(Const::I64(0)), n.constant(Const::I64(1)), n.index(size));
        let (place, start, stop) = match (entry, self.places) {
            (Entry::None, _) => return Ok([zero, one, all]),
            (Entry::At { place, start, stop }, _) => (Dim::from(*place), *start, *stop),
            (Entry::Named, Some(places)) => (looked_up(n, places, &Dim::from(d))?, true, true),
            (Entry::Named, None) => (Dim::from(d), true, true),
        };
        let step = match self.lists.steps {
            Some(steps) => element(n, steps, &place, one)?,
            None => one,
        };
        let back = n.binary(Binary::Lt, step, zero);
        let (last, before) = (n.binary(Binary::Sub, all, one), n.constant(Const::I64(-1)));
        // Without a start or stop, the ends of the dimension in the direction of the step.
        let (first_of_all, end_of_all) = (n.select(back, last, zero), n.select(back, before, all));
        let first = match start {
            true => {
                let start = element(n, self.lists.starts, &place, zero)?;
                let (start, highest) = (from_end(n, start, all), n.select(back, last, all));
                clamp(n, start, zero, highest)
            }
            false => first_of_all,
        };
        let end = match stop {
            true => {
                let stop = element(n, self.lists.stops, &place, all)?;
                let (stop, lowest) = (from_end(n, stop, all), n.select(back, before, zero));
                clamp(n, stop, lowest, all)
            }
            false => end_of_all,
        };
        let (forward, backward) = (n.binary(Binary::Sub, end, first), n.binary(Binary::Sub, first, end));
        let distance = n.select(back, backward, forward);
        let negated = n.binary(Binary::Sub, zero, step);
        let size = n.select(back, negated, step);
        let room = n.binary(Binary::Sub, size, one);
        let reach = n.binary(Binary::Add, distance, room);
        let count = n.binary(Binary::FloorDiv, reach, size);
        Ok([first, step, n.binary(Binary::Max, count, zero)])
    }
}

/// Element `place` of a list, or `otherwise` where there is none.
fn element(n: &mut NestBuilder, list: BufferId, place: &Dim, otherwise: Node) -> Result<Node, Diagnostic> {
    let limit = n.dims(list).first().cloned().unwrap_or(Dim::constant(1));
    let bound = Bound { value: place.clone(), limit };
    let index = if n.dims(list).is_empty() { Vec::new() } else { vec![place.clone()] };
    n.load_within(list, &index, vec![bound], otherwise)
}

fn from_end(n: &mut NestBuilder, at: Node, size: Node) -> Node {
    let zero = n.constant(Const::I64(0));
    let (negative, wrapped) = (n.binary(Binary::Lt, at, zero), n.binary(Binary::Add, at, size));
    n.select(negative, wrapped, at)
}

fn clamp(n: &mut NestBuilder, value: Node, low: Node, high: Node) -> Node {
    let value = n.binary(Binary::Max, value, low);
    n.binary(Binary::Min, value, high)
}
