//! Nests over the same rows: one loop over the rows, with the loops of every nest inside. A number that a nest has for each row
//! is a variable.

use super::nest::{self, Written};
use super::nodes::Nodes;
use super::physical::Physical;
use super::split::cost_of;
use super::views::Views;
use crate::diag::Diagnostic;
use crate::program::{Program, Rows};
use proc_macro2::TokenStream;
use quote::quote;

/// The body of a function that computes rows; `views` knows the variables.
///
/// # Errors
/// A nest that the verifier would refuse.
pub fn body(program: &Program, views: &Views, rows: &Rows) -> Result<TokenStream, Diagnostic> {
    let mut nests = Vec::with_capacity(rows.nests.len());
    for nest in &rows.nests {
        nests.push(Physical::unfused(program, views, nest)?);
    }
    let outer = fuse(&mut nests, rows.outer);
    let (mut body, mut cost) = (TokenStream::new(), 0i64);
    for physical in &nests {
        let mut inner = physical.clone();
        inner.maps.retain(|axis| !outer.contains(axis));
        inner.fuse_axes();
        let Written { nodes, axes, body: one, .. } = nest::written(program, views, &mut inner, &outer)?;
        let (before, one) = (nodes.before_loops(), nest::around(&nodes, &axes, "i", &one));
        cost = cost.saturating_add(cost_of(physical));
        body.extend(match views.number(physical.target) {
            Some(name) => quote!(let #name = { #before #one };),
            None => quote!({ #before #one }),
        });
    }
    let Some(last) = nests.last_mut() else { return Ok(TokenStream::new()) };
    last.maps.retain(|axis| !outer.contains(axis));
    last.maps.splice(0..0, outer.iter().copied());
    let mut nodes = Nodes::new(program, views, last);
    nest::name_axes(&mut nodes, &outer, "i");
    Ok(nest::loops(&nodes, &outer, true, cost, &body))
}

/// The axes that count rows, fused where all nests walk through them as if they were one.
fn fuse(nests: &mut [Physical], outer: usize) -> Vec<usize> {
    let first = nests.first().map_or(&[][..], |nest| &nest.maps);
    let mut axes: Vec<usize> = first.iter().copied().filter(|axis| *axis < outer).collect();
    let mut at = 0;
    while let Some([slow, fast]) = axes.get(at..at + 2).and_then(|pair| <[usize; 2]>::try_from(pair).ok()) {
        if nests.iter().all(|nest| nest.fusable(slow, fast)) {
            nests.iter_mut().for_each(|nest| nest.fuse_pair(slow, fast));
            axes.remove(at);
        } else {
            at += 1;
        }
    }
    axes
}
