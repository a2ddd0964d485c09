//! Passes over the graph.

mod dead_code;
mod fold;
mod infer;
mod inline;
mod share;
mod simplify;

use super::Pass;
use crate::graph::Graph;

/// The graph passes.
pub const PASSES: &[Pass<Graph>] = &[
    Pass {
        name: "infer",
        reason: "everything else needs element types, dimensions and known sizes",
        run: infer::infer,
    },
    Pass {
        name: "inline_bodies",
        reason: "branches that are decided hide their operations from the passes behind",
        run: inline::inline,
    },
    Pass {
        name: "remove_dead_code",
        reason: "shape chains are dead once their values are known",
        run: dead_code::remove,
    },
    Pass { name: "share", reason: "equal decompressions of one constant are folded once", run: share::share },
    Pass { name: "fold", reason: "constants become weights, f16 storage becomes f32", run: fold::fold },
    Pass {
        name: "simplify",
        reason: "operations that change nothing hide producers from consumers",
        run: simplify::simplify,
    },
    Pass { name: "share_again", reason: "folding and simplifying make more operations equal", run: share::share },
    Pass { name: "remove_dead_code_again", reason: "only what an output needs is lowered", run: dead_code::remove },
];
