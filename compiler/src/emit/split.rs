//! Loops of a nest in parts for threads, where its slowest iterations store elements that follow each other.

use super::nodes::Nodes;
use super::physical::{Physical, stride, with_axis};
use crate::dim::{Dim, product};
use crate::program::Shape;
use crate::program::nest::Scalar;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

/// Cost from which a nest is written in parts: some microseconds.
const LEAST: i64 = 64 * 1024;
/// Elements of a row that one iteration of a nest over one contiguous axis stores.
const ROW: usize = 4096;

/// The slowest axes, as one.
pub(super) struct Parts {
    /// How many of the axes.
    pub axes: usize,
    /// Elements that one iteration stores.
    stride: usize,
    /// Iterations.
    count: Dim,
    /// Cost of one iteration.
    cost: i64,
}

/// Into what a row of `width` elements is split so that there are iterations to divide.
pub(super) fn row(width: usize) -> Option<usize> {
    (256..=ROW.min(width / 2)).rev().find(|row| width.is_multiple_of(*row))
}

/// About how many operations one iteration of all loops takes.
fn cost_of_nodes(nodes: &[Scalar]) -> i64 {
    let cost = |node: &Scalar| match node {
        // Most are functions such as exp.
        Scalar::Unary(..) => 6,
        Scalar::Binary(..) | Scalar::Load { .. } | Scalar::Select(..) | Scalar::Cast(..) => 1,
        _ => 0,
    };
    nodes.iter().map(cost).sum::<i64>().max(1)
}

/// About how many operations all iterations of a nest take.
pub(super) fn cost_of(physical: &Physical) -> i64 {
    let axes = physical.maps.iter().chain(&physical.reduces);
    let extents: Vec<Dim> = axes.filter_map(|axis| physical.extents.get(*axis).cloned()).collect();
    product(&extents).upper_bound().saturating_mul(cost_of_nodes(&physical.nodes))
}

/// Whether a step of this cost is worth dividing.
pub(super) fn worthwhile(cost: i64) -> bool {
    cost >= LEAST
}

impl Parts {
    /// How to divide the loops over `axes`, slowest first, if that is possible and worth while. `rows` says that there are
    /// further loops inside, `total` what all iterations cost.
    pub fn of(nodes: &Nodes, axes: &[usize], rows: bool, total: i64) -> Option<Parts> {
        let physical = nodes.physical;
        let param = nodes.views.param(physical.target)?;
        let Shape::Run(len) = param.shape else { return None };
        if !worthwhile(total) {
            return None;
        }
        // The last loop stays one over a plain range if it is the innermost.
        let most = if rows || axes.len() == 1 { axes.len() } else { axes.len().saturating_sub(1) };
        let mut found = None;
        let (mut rest, mut count, mut step) = (physical.store.clone(), Dim::constant(1), None::<Dim>);
        for (i, axis) in axes.iter().take(most).enumerate() {
            let extent = physical.extents.get(*axis)?;
            let own = stride(&physical.store, *axis)?;
            // As one with the axes before: an iteration of the axis before is all iterations of this one.
            if step.is_some_and(|step| step != own.clone() * extent) {
                break;
            }
            rest = with_axis(&rest, *axis, &Dim::constant(0));
            count = count * extent;
            let (inside, bound) = (physical.range(&rest), count.upper_bound());
            if let Some(stride) = own.as_usize().filter(|stride| *stride > 0)
                && inside.min >= 0
                && usize::try_from(inside.max).is_ok_and(|max| max < stride)
                && usize::try_from(bound).ok().and_then(|n| n.checked_mul(stride)).is_some_and(|end| end <= len)
                && bound > 1
            {
                found = Some(Parts { axes: i + 1, stride, count: count.clone(), cost: (total / bound).max(1) });
            }
            step = Some(own);
        }
        found
    }

    /// The divided loops; `body` runs in each iteration, with `prefix` and the axes' numbers as names.
    pub fn around(&self, nodes: &Nodes, axes: &[usize], prefix: &str, body: &TokenStream) -> TokenStream {
        let axes = axes.get(..self.axes).unwrap_or_default();
        let name = nodes.views.name(nodes.physical.target);
        let (stride, cost) = (Literal::usize_unsuffixed(self.stride), Literal::i64_unsuffixed(self.cost));
        let (count, before) = (nodes.scope.index(&self.count), nodes.before_loops());
        let names: Vec<_> = axes.iter().map(|axis| format_ident!("{prefix}{axis}")).collect();
        let loops = match names.as_slice() {
            [name] => quote!(for #name in part { #body }),
            _ => {
                let extents = axes.iter().filter_map(|axis| nodes.physical.extents.get(*axis));
                let extents = extents.map(|extent| nodes.scope.index(extent));
                quote!(rt::parts::for_each(part, [#(#extents),*], #[inline(always)] |[#(#names),*]| { #body });)
            }
        };
        quote! {
            rt::parts::split::<_, #stride>(cx, #count, #cost, #name.dst(), #[inline(always)] |part, #name| {
                cx.vectorize(#[inline(always)] || { #before #loops });
            });
        }
    }
}
