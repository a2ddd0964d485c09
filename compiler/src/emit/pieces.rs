//! Rows in pieces: where an index is clamped, mirrored or wrapped around, or leaves a tensor, only near the ends of a row,
//! elements between them follow each other. And rows of which every n-th element is another: a whole row, then those.

use super::physical::{Physical, stride};
use crate::dim::{Atom, Dim, Interval};
use crate::program::nest::{Bound, Node, Scalar};

/// Shortest row that is divided.
const LEAST: i64 = 16;
/// Most pieces of a row.
const MOST: usize = 6;
/// Most nodes of which there are several copies then.
const NODES: usize = 24;

/// The nest for every piece of its rows along `axis`, in their order; none if the rows are best left whole.
pub fn of(physical: &Physical, axis: usize) -> Vec<Physical> {
    let long = physical.extents.get(axis).is_some_and(|extent| extent.upper_bound() >= LEAST);
    let nodes = physical.stored().into_iter().filter(|needed| *needed).count();
    let pieces = if long && nodes <= NODES { divided(physical, axis) } else { Vec::new() };
    if pieces.len() > 1 { pieces } else { Vec::new() }
}

/// The pieces; none if there are too many.
fn divided(physical: &Physical, axis: usize) -> Vec<Physical> {
    let (mut done, mut open) = (Vec::new(), vec![physical.clone()]);
    while let Some(piece) = open.pop() {
        match cut(&piece, axis) {
            Some((at, extent)) => {
                open.push(part(&piece, axis, &at, extent - &at));
                open.push(part(&piece, axis, &Dim::constant(0), at));
            }
            None => done.push(piece),
        }
        if done.len() + open.len() > MOST {
            return Vec::new();
        }
    }
    done
}

/// Where a row takes another form, and its length.
fn cut(physical: &Physical, axis: usize) -> Option<(Dim, Dim)> {
    let extent = physical.extents.get(axis)?;
    let falls = |dim: &Dim| stride(dim, axis).and_then(|step| step.as_const()).is_some_and(|step| step < 0);
    let mut found = None;
    let mut sign = |difference: Dim, strictly: bool| {
        if found.is_none() {
            found = turn(&difference, axis, strictly).filter(|at| {
                let rest = extent.clone() - at;
                !at.is(0) && !rest.is(0) && at.range().min >= 0 && rest.range().min >= 0
            });
        }
    };
    for (_, node) in loads(physical) {
        let Scalar::Load { access, bounds, .. } = node else { continue };
        for dim in access.index.iter().chain(bounds.iter().map(|bound| &bound.value)) {
            dim.for_each_atom(&mut |atom| match atom {
                // Where both are equal, the one that rises along the row stands for both.
                Atom::Min(a, b) => sign((**a).clone() - &**b, true),
                Atom::Max(a, b) => sign((**a).clone() - &**b, false),
                // Around once.
                Atom::Mod(of, by) if let (Some(by), false) = (by.as_const(), **of == Dim::axis(axis)) => {
                    let range = along(physical, axis, of);
                    let turns = range.min.div_euclid(by.max(1)).checked_add(1);
                    if let Some(turn) = turns.filter(|turn| turn.saturating_add(1).saturating_mul(by) > range.max) {
                        sign((**of).clone() - turn.saturating_mul(by), falls(of));
                    }
                }
                _ => {}
            });
        }
        for bound in bounds {
            sign(bound.value.clone(), falls(&bound.value));
            sign(bound.value.clone() - &bound.limit, falls(&bound.value));
        }
    }
    found.map(|at| (at, extent.clone()))
}

/// Loads that the result needs.
fn loads(physical: &Physical) -> impl Iterator<Item = (usize, &Scalar)> {
    let used =
        physical.stored().into_iter().zip(&physical.literals).map(|(needed, literal)| needed && literal.is_none());
    physical.nodes.iter().enumerate().zip(used).filter(|(_, used)| *used).map(|(node, _)| node)
}

/// The first place along an axis from which a linear expression has another sign; with `strictly`, where it is no longer zero.
fn turn(difference: &Dim, axis: usize, strictly: bool) -> Option<Dim> {
    let step = stride(difference, axis)?.as_const().filter(|step| *step != 0)?;
    let (rest, by) = (difference.without(axis) * -step.signum(), Dim::constant(step.checked_abs()?));
    let at = if strictly { rest.floor_div(&by) + 1 } else { rest.ceil_div(&by) };
    (!rest.is_index()).then_some(at)
}

/// The values of an expression in a row. Its ends are those of a linear one, whatever the size of the row.
fn along(physical: &Physical, axis: usize, dim: &Dim) -> Interval {
    let step = stride(dim, axis).and_then(|step| step.as_const());
    let (Some(step), Some(extent)) = (step, physical.extents.get(axis)) else { return physical.range(dim) };
    let first = dim.without(axis);
    let last = (extent.clone() - 1) * step + &first;
    let (first, last) = (physical.range(&first), physical.range(&last));
    Interval { min: first.min.min(last.min), max: first.max.max(last.max) }
}

/// The nest over a part of its rows.
fn part(physical: &Physical, axis: usize, from: &Dim, extent: Dim) -> Physical {
    let mut part = physical.clone();
    part.substitute(axis, &(Dim::axis(axis) + from));
    if let Some(slot) = part.extents.get_mut(axis) {
        *slot = extent;
    }
    let known = part.clone();
    part.map_dims(&|dim| dim.decided(&|dim| along(&known, axis, dim)));
    for i in 0..part.nodes.len() {
        decide(&mut part, axis, i);
    }
    part
}

/// Drops bounds within which a row lies; what is never read becomes what stands for it.
fn decide(part: &mut Physical, axis: usize, i: usize) {
    let Some(Scalar::Load { bounds, otherwise, .. }) = part.nodes.get(i) else { return };
    let (mut open, mut never) = (Vec::new(), false);
    for bound in bounds {
        let (value, over) = (along(part, axis, &bound.value), along(part, axis, &(bound.value.clone() - &bound.limit)));
        never |= value.max < 0 || over.min >= 0;
        if value.min < 0 || over.max >= 0 {
            open.push(bound.clone());
        }
    }
    if let (true, Some(otherwise)) = (never, *otherwise) {
        return replace(part, i, otherwise);
    }
    if let Some(Scalar::Load { bounds, otherwise, .. }) = part.nodes.get_mut(i) {
        *otherwise = otherwise.filter(|_| !open.is_empty());
        *bounds = open;
    }
}

/// Makes a node the same as one before it.
fn replace(physical: &mut Physical, i: usize, by: Node) {
    let by = by as usize;
    if let (Some(node), Some(literal)) = (physical.nodes.get(by).cloned(), physical.literals.get(by).copied())
        && let (Some(slot), Some(own)) = (physical.nodes.get_mut(i), physical.literals.get_mut(i))
    {
        (*slot, *own) = (node, literal);
    }
}

/// A row of which every n-th element is another.
pub struct Overlay {
    /// The nest of all elements, as if there were no others.
    pub all: Physical,
    /// The nests of the others: their axis counts those alone.
    pub others: Vec<Physical>,
    /// From one of the others to the next.
    pub step: usize,
    /// In which rows there are others.
    pub rows: Vec<Bound>,
}

/// What overlays the rows of a nest along `axis`, where a load has a bound that holds for every n-th of their elements only.
pub fn overlay(physical: &Physical, axis: usize) -> Option<Overlay> {
    let extent = physical.extents.get(axis)?.as_const().filter(|extent| *extent >= LEAST)?;
    let (i, step, first) = loads(physical).find_map(|(i, node)| {
        let Scalar::Load { bounds, otherwise: Some(_), .. } = node else { return None };
        let (step, first) = bounds.iter().find_map(|bound| every(bound, axis))?;
        Some((i, step, first))
    })?;
    let Scalar::Load { access, otherwise: Some(otherwise), .. } = physical.nodes.get(i)? else { return None };
    let reads = |part: &Physical, node: usize| match part.nodes.get(node) {
        Some(Scalar::Load { access: own, .. }) => own.buffer == access.buffer,
        _ => false,
    };
    if reads(physical, *otherwise as usize) {
        return None;
    }
    let mut all = physical.clone();
    replace(&mut all, i, *otherwise);
    let mut spread = physical.clone();
    spread.substitute(axis, &(Dim::axis(axis) * step + first));
    let count = Dim::constant((extent - first + step - 1).div_euclid(step));
    let spread = part(&spread, axis, &Dim::constant(0), count);
    let mut others: Vec<Physical> = divided(&spread, axis).into_iter().filter(|part| reads(part, i)).collect();
    let mut rows: Option<Vec<Bound>> = None;
    for other in &mut others {
        let Some(Scalar::Load { bounds, otherwise, .. }) = other.nodes.get_mut(i) else { return None };
        *otherwise = None;
        let own = std::mem::take(bounds);
        let varies = own.iter().any(|bound| bound.value.uses_axis(axis) || bound.limit.uses_axis(axis));
        if varies || rows.as_ref().is_some_and(|rows| *rows != own) {
            return None;
        }
        rows = Some(own);
    }
    Some(Overlay { all, others, step: usize::try_from(step).ok()?, rows: rows? })
}

/// The step and the first place where a bound holds that does so at every n-th place along an axis.
fn every(bound: &Bound, axis: usize) -> Option<(i64, i64)> {
    let mut found = None;
    bound.value.for_each_atom(&mut |atom| {
        let Atom::Mod(of, by) = atom else { return };
        if bound.value == of.modulo(by) && bound.limit.is(1) {
            let (own, step) = (of.coefficient(axis), by.as_const().filter(|step| *step > 1));
            let rest = of.without(axis).as_const();
            found = match (own, rest, step) {
                (Some(1), Some(rest), Some(step)) => Some((step, rest.saturating_neg().rem_euclid(step))),
                (Some(-1), Some(rest), Some(step)) => Some((step, rest.rem_euclid(step))),
                _ => found,
            };
        }
    });
    found
}
