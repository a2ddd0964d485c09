//! Orders the layers that are needed so that each stands behind its inputs.

use super::{Layer, Net};
use crate::diag::{Diagnostic, Diagnostics, codes, quote};

/// Layers of a cycle that a message names.
const SHOWN: usize = 8;

/// Cycles that are reported; describing one takes time in the length of the path.
const REPORTED: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    /// On the path from a root.
    Open,
    Done,
}

/// Fills [`Net::order`]: parameters in file order, then a depth-first post-order from results and sinks in file
/// order, following edges in file order.
pub(super) fn sort(net: &mut Net, sources: &[Vec<usize>], diagnostics: &mut Diagnostics) {
    let mut marks = vec![Mark::New; net.layers.len()];
    let mut order = Vec::new();
    let mut cycles = Vec::new();
    for &parameter in &net.parameters {
        set(&mut marks, parameter, Mark::Done);
        order.push(parameter);
    }
    let mut roots: Vec<usize> = net.results.iter().chain(&net.sinks).copied().collect();
    roots.sort_unstable();
    for root in roots {
        visit(root, sources, &mut marks, &mut order, &net.layers, &mut cycles);
    }
    diagnostics.extend(cycles);
    net.order = order;
}

fn set(marks: &mut [Mark], index: usize, mark: Mark) {
    if let Some(slot) = marks.get_mut(index) {
        *slot = mark;
    }
}

fn visit(
    root: usize,
    sources: &[Vec<usize>],
    marks: &mut [Mark],
    order: &mut Vec<usize>,
    layers: &[Layer],
    cycles: &mut Vec<Diagnostic>,
) {
    if marks.get(root) != Some(&Mark::New) {
        return;
    }
    // Layer and how many of its sources are visited.
    let mut path = vec![(root, 0)];
    set(marks, root, Mark::Open);
    while let Some((layer, next)) = path.last_mut() {
        let source = sources.get(*layer).and_then(|list| list.get(*next)).copied();
        *next += 1;
        let Some(source) = source else {
            set(marks, *layer, Mark::Done);
            order.push(*layer);
            path.pop();
            continue;
        };
        match marks.get(source) {
            Some(Mark::New) => {
                set(marks, source, Mark::Open);
                path.push((source, 0));
            }
            Some(Mark::Open) if cycles.len() < REPORTED => cycles.push(cycle(source, &path, layers)),
            _ => {}
        }
    }
}

fn cycle(start: usize, path: &[(usize, usize)], layers: &[Layer]) -> Diagnostic {
    let from = path.iter().position(|&(layer, _)| layer == start).unwrap_or(0);
    // The path runs against the edges.
    let members: Vec<&Layer> = path.iter().skip(from).rev().filter_map(|&(layer, _)| layers.get(layer)).collect();
    let mut names: Vec<String> = members.iter().take(SHOWN).map(|layer| quote(&layer.name)).collect();
    if members.len() > SHOWN {
        names.push(format!("{} more", members.len() - SHOWN));
    }
    let name = layers.get(start).map_or(String::new(), Layer::describe);
    let diagnostic = Diagnostic::error(&codes::CYCLE, format!("{name} depends on itself"))
        .note(format!("the cycle is {}, and back", names.join(" to ")));
    match layers.get(start) {
        Some(layer) => diagnostic.at(layer.span),
        None => diagnostic,
    }
}
