//! Which nests run over the same rows, from what they hand to each other.

use super::super::fuse::covers;
use super::super::join::Block;
use super::super::short_rows::are_short;
use crate::dim::{Dim, product};
use crate::program::nest::{Access, Axis, Nest, Scalar, place_depends};
use crate::program::{BufferId, Program};

/// Elements of a row: more do not stay in the near caches.
const LONGEST: i64 = 64 * 1024;
/// Rows from which threads find enough to divide, and elements up to which a row needs no dividing.
const FEW: i64 = 16;
const SHORT: i64 = 8 * 1024;

/// A nest of the rows.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its step.
    pub step: usize,
    /// The axes that count rows, in the same order for all members.
    pub rows: Vec<usize>,
    /// Whether it hands on a whole row instead of one number.
    pub whole: bool,
}

/// Nests over the same rows of which the last one is the nest of this step; in order. Where there are `vectors`, windows stay
/// apart: neighbours share elements, and a vector takes several windows at once.
pub(super) fn find(block: &Block, last: usize, vectors: bool) -> Option<Vec<Member>> {
    let nest = block.nest(last).filter(|nest| nest.is_direct())?;
    for rows in candidates(block, last, nest) {
        let mut members = vec![Member { step: last, rows, whole: false }];
        while let Some(member) = next(block, &members, vectors) {
            members.push(member);
        }
        members.sort_by_key(|member| member.step);
        if members.len() > 1 && rows_in_turn(block, &members) && worthwhile(block, &members) {
            return Some(members);
        }
    }
    None
}

/// The step that alone writes a buffer which only steps of this block read, and only under this name.
fn writer(block: &Block, buffer: BufferId) -> Option<usize> {
    block.writer(buffer).filter(|_| block.is_only_name(buffer))
}

/// Axes that may count rows, slowest first: those along which a nest has one number for each.
fn candidates(block: &Block, last: usize, nest: &Nest) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    for access in nest.loads() {
        let writer = writer(block, access.buffer).filter(|writer| *writer < last);
        let Some(from) = writer.and_then(|writer| block.nest(writer)) else { continue };
        let axes = moving(nest);
        let mut rows: Vec<usize> =
            axes.iter().copied().filter(|axis| access.index.contains(&Dim::axis(*axis))).collect();
        rows.sort_by_key(|axis| std::cmp::Reverse(stride(block.program, &nest.store, *axis)));
        let slowest = axes.iter().filter(|axis| !rows.contains(axis)).all(|inner| {
            let inner = stride(block.program, &nest.store, *inner);
            rows.iter().all(|row| stride(block.program, &nest.store, *row) >= inner)
        });
        let single = nest.reduction.is_none() || rows.len() == axes.len();
        // Else each row is one element, and a loop over these is no row of neighbours.
        let inside = from.reduction.is_some() || rows.len() < axes.len();
        if slowest && single && inside && rows.len() == moving(from).len() && !found.contains(&rows) {
            found.push(rows);
        }
    }
    found.sort_by_key(|rows| std::cmp::Reverse(rows.len()));
    found
}

/// Map axes with more than one iteration.
fn moving(nest: &Nest) -> Vec<usize> {
    (0..nest.maps).filter(|axis| nest.axes.get(*axis).is_some_and(|axis| !axis.extent.is(1))).collect()
}

/// The largest distance of neighbours along an axis.
fn stride(program: &Program, access: &Access, axis: usize) -> i64 {
    program.address(access.buffer, &access.index).stride(axis).map_or(i64::MAX, |stride| stride.range().max)
}

/// A nest whose result nothing but the members reads, each row of it in its own row.
fn next(block: &Block, members: &[Member], vectors: bool) -> Option<Member> {
    let loads = members.iter().filter_map(|member| block.nest(member.step)).flat_map(|nest| nest.loads());
    loads.into_iter().find_map(|access| handed_on(block, members, access.buffer, vectors))
}

fn handed_on(block: &Block, members: &[Member], buffer: BufferId, vectors: bool) -> Option<Member> {
    let last = members.first()?;
    let step = writer(block, buffer).filter(|step| *step < last.step)?;
    let nest = block.nest(step).filter(|nest| nest.is_direct())?;
    let known = |step: &usize| members.iter().any(|member| member.step == *step);
    if known(&step) || !block.readers(buffer).iter().all(known) || !covers(block.program, nest) {
        return None;
    }
    let rows = rows_of(block, members, nest)?;
    let whole = moving(nest).len() > rows.len();
    let fits = match whole {
        true => lies_in_result(block, last, nest, &rows),
        false => reduces_neighbours(block.program, nest) && !(vectors && has_window(nest)),
    };
    fits.then_some(Member { step, rows, whole })
}

/// The axes of a nest that count the members' rows, if all members read its result in their own row only.
fn rows_of(block: &Block, members: &[Member], nest: &Nest) -> Option<Vec<usize>> {
    let mut found: Option<Vec<usize>> = None;
    for member in members {
        let reader = block.nest(member.step)?;
        for node in &reader.nodes {
            let Scalar::Load { access, bounds, .. } = node else { continue };
            if access.buffer != nest.store.buffer {
                continue;
            }
            let own = |row: &usize| {
                let at = access.index.iter().position(|index| *index == Dim::axis(*row))?;
                let axis = (0..nest.maps).find(|axis| nest.store.index.get(at) == Some(&Dim::axis(*axis)))?;
                (nest.axes.get(axis)?.extent == reader.axes.get(*row)?.extent).then_some(axis)
            };
            let rows: Vec<usize> = member.rows.iter().map(own).collect::<Option<_>>()?;
            if !bounds.is_empty() || found.as_ref().is_some_and(|found| *found != rows) {
                return None;
            }
            found = Some(rows);
        }
    }
    found
}

/// Whether a whole row of the nest can lie where the last nest stores the same row.
fn lies_in_result(block: &Block, last: &Member, nest: &Nest, rows: &[usize]) -> bool {
    let Some(result) = block.nest(last.step) else { return false };
    let (from, to) = (block.program.buffer(nest.store.buffer), block.program.buffer(result.store.buffer));
    let place = |nest: &Nest, axis: usize| nest.store.index.iter().position(|index| *index == Dim::axis(axis));
    let mut pairs = rows.iter().zip(&last.rows);
    nest.reduction.is_none()
        && covers(block.program, result)
        && (&from.dims, from.element, &from.layout.strides) == (&to.dims, to.element, &to.layout.strides)
        && pairs.all(|(a, b)| place(nest, *a).is_some() && place(nest, *a) == place(result, *b))
}

/// Whether a reduction runs over neighbours, so that it needs no other rows to be fast.
pub(in super::super) fn reduces_neighbours(program: &Program, nest: &Nest) -> bool {
    let axes = nest.maps..nest.axes.len();
    let last = axes.rev().find(|axis| nest.axes.get(*axis).is_some_and(|axis| !axis.extent.is(1)));
    let Some(axis) = last else { return true };
    let depends = nest.depends_on(axis);
    nest.nodes.iter().all(|node| match node {
        Scalar::Load { access, bounds, .. } => {
            let stride = program.address(access.buffer, &access.index).stride(axis);
            let uniform = bounds.iter().all(|bound| !bound.value.uses_axis(axis) && !bound.limit.uses_axis(axis));
            let looked_up = access.index.iter().any(|dim| !dim.uses_axis(axis) && place_depends(&depends, dim, axis));
            uniform && !looked_up && stride.is_some_and(|stride| stride.is(0) || stride.is(1))
        }
        _ => true,
    })
}

/// Whether a reduction runs over windows.
fn has_window(nest: &Nest) -> bool {
    let slides = |dim: &Dim| {
        (0..nest.maps).any(|axis| dim.uses_axis(axis))
            && (nest.maps..nest.axes.len()).any(|axis| dim.uses_axis(axis) && !nest.axes[axis].extent.is(1))
    };
    nest.loads().any(|access| access.index.iter().any(slides))
}

/// Whether rows that lie in the result are read before the next ones lie there: by those that put them there element by
/// element, by others earlier.
fn rows_in_turn(block: &Block, members: &[Member]) -> bool {
    let Some(last) = members.last() else { return false };
    let places: Vec<&Member> = members.iter().filter(|member| member.whole).chain([last]).collect();
    places.windows(2).all(|pair| {
        let [from, to] = pair else { return false };
        let (Some(before), Some(after)) = (block.nest(from.step), block.nest(to.step)) else { return false };
        let buffer = before.store.buffer;
        let in_place = after.loads().filter(|access| access.buffer == buffer).all(|a| a.index == after.store.index);
        in_place && block.readers(buffer).iter().all(|step| *step <= to.step)
    })
}

/// Whether a row stays in the near caches, and there are rows enough to divide among threads.
fn worthwhile(block: &Block, members: &[Member]) -> bool {
    members.iter().all(|member| {
        let Some((row, rows)) = extents(block, member) else { return false };
        let longest = row.upper_bound();
        longest <= SHORT || (longest <= LONGEST && rows.range().min >= FEW)
    })
}

/// Whether rows are so short that a vector should take several at once, which it does not where they run one after the other.
pub(super) fn short(block: &Block, members: &[Member]) -> bool {
    members.iter().all(|member| extents(block, member).is_some_and(|(row, rows)| are_short(&row, &rows)))
}

/// Elements of a row of a member, and how many rows there are.
fn extents(block: &Block, member: &Member) -> Option<(Dim, Dim)> {
    let (rows, row): (Vec<_>, Vec<_>) =
        block.nest(member.step)?.axes.iter().enumerate().partition(|(axis, _)| member.rows.contains(axis));
    let extent =
        |axes: Vec<(usize, &Axis)>| product(&axes.iter().map(|(_, axis)| axis.extent.clone()).collect::<Vec<_>>());
    Some((extent(row), extent(rows)))
}
