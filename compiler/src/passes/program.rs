//! Passes over the loop program.

mod add_columns;
mod add_weights;
mod alias;
mod blocks;
mod cancel_reshapes;
mod chain;
mod divide_groups;
mod divide_reductions;
mod divide_windows;
mod embed;
mod fold_scale;
mod forward;
mod fuse;
mod fuse_attention;
mod fuse_rows;
mod hoist;
mod hoist_products;
mod images;
mod join;
mod layout;
mod leave_out;
mod loop_small_products;
mod merge_columns;
mod merge_groups;
mod narrow_tables;
mod pack_rows;
mod pad_data;
mod pool_lines;
mod repeat_channels;
mod scale_weights;
mod scatter_rows;
mod select;
mod short_rows;
mod spread_lookups;
mod spread_pixels;
mod spread_window;
mod square_windows;
mod trim_windows;
mod update;
pub(super) mod widen_halves;

use super::Pass;
use crate::program::Program;

/// The program passes.
pub const PASSES: &[Pass<Program>] = &[
    Pass {
        name: "widen_halves",
        reason: "every other pass and all kernels find f32 then",
        run: widen_halves::widen_halves,
    },
    Pass {
        name: "forward_outputs",
        reason: "results are written where the caller reads them",
        run: forward::forward_outputs,
    },
    Pass {
        name: "cancel_reshapes",
        reason: "reshapes would keep nests around them apart",
        run: cancel_reshapes::cancel_reshapes,
    },
    Pass {
        name: "hoist_functions",
        reason: "kernels take functions of what they compute, not of what it is reshaped to",
        run: hoist::hoist_functions,
    },
    Pass {
        name: "add_weights",
        reason: "products and sums are nests of their own until they are fused",
        run: add_weights::add_weights,
    },
    Pass {
        name: "fuse_nests",
        reason: "needs single readers, which outputs' copies would hide",
        run: fuse::fuse_nests,
    },
    Pass {
        name: "fold_scale",
        reason: "factors stand behind sums once nests are fused, and would hide the bias from kernels",
        run: fold_scale::fold_scale,
    },
    Pass {
        name: "scale_weights",
        reason: "weights are constants, as other factors of theirs need them, until they are multiplied by what is computed",
        run: scale_weights::scale_weights,
    },
    Pass {
        name: "repeat_channels",
        reason: "needs all factors in the weights; the repeated channels get a layout as everything else",
        run: repeat_channels::repeat_channels,
    },
    Pass {
        name: "add_columns",
        reason: "channels that were repeated for several results have no groups any more",
        run: add_columns::add_columns,
    },
    Pass {
        name: "merge_columns",
        reason: "biases stand beside their products once nests are fused; parts of the result are views, as layouts say them",
        run: merge_columns::merge_columns,
    },
    Pass {
        name: "leave_out",
        reason: "steps of slices are strides of what reads them once nests are fused; what is left is a window as any other",
        run: leave_out::leave_out,
    },
    Pass {
        name: "square_windows",
        reason: "squares must not be fused with what sums them up; what is left is a window as any other",
        run: square_windows::square_windows,
    },
    Pass {
        name: "scatter_rows",
        reason: "places are found by one nest once nests are fused; what scatters has no layout of its own",
        run: scatter_rows::scatter_rows,
    },
    Pass {
        name: "trim_windows",
        reason: "needs to know which sums are products; what is left is a window as any other",
        run: trim_windows::trim_windows,
    },
    Pass {
        name: "divide_windows",
        reason: "needs windows without what lies in the padding; the parts get a layout, and kernels, as everything else",
        run: divide_windows::divide_windows,
    },
    Pass {
        name: "spread_window",
        reason: "sums hold what follows them once nests are fused; the products get a layout, and kernels, as everything else",
        run: spread_window::spread_window,
    },
    Pass {
        name: "pad_data",
        reason: "needs divided windows, and to know which sums are products; the copy gets a layout as everything else",
        run: pad_data::pad_data,
    },
    Pass {
        name: "hoist_products",
        reason: "biases stand beside their products once nests are fused; loops over images, which come next, keep theirs",
        run: hoist_products::hoist_products,
    },
    Pass {
        name: "loop_over_images",
        reason: "needs to know what every step reads; what is left of a batch gets a layout, and kernels, as everything else",
        run: images::loop_over_images,
    },
    Pass {
        name: "choose_layout",
        reason: "orders follow the fused nests; kernels need contiguous channels",
        run: layout::choose_layout,
    },
    Pass { name: "alias", reason: "needs final orders; kernels take their strides from views", run: alias::alias },
    Pass {
        name: "embed_parts",
        reason: "concatenations of what is no view itself cost nothing",
        run: embed::embed_parts,
    },
    Pass {
        name: "divide_groups",
        reason: "needs to know what lies side by side; what runs along channels becomes kernels",
        run: divide_groups::divide_groups,
    },
    Pass {
        name: "merge_groups",
        reason: "needs to know along which channels data is contiguous; kernels take merged groups as they are",
        run: merge_groups::merge_groups,
    },
    Pass {
        name: "select_kernels",
        reason: "needs strides; packs the weights of the kernels it selects",
        run: select::select_kernels,
    },
    Pass {
        name: "fuse_attention",
        reason: "recognises kernels around a softmax; afterwards nothing else looks at their nests",
        run: fuse_attention::fuse_attention,
    },
    Pass {
        name: "loop_small_products",
        reason: "attention is recognised by its kernels; rows may hold loops",
        run: loop_small_products::loop_small_products,
    },
    Pass {
        name: "spread_pixels",
        reason: "needs to know what only kernels use; chains need to know how long lines are",
        run: spread_pixels::spread_pixels,
    },
    Pass {
        name: "chain_kernels",
        reason: "needs to know which steps are kernels; memory is planned for a few lines of what they hand on",
        run: chain::chain_kernels,
    },
    Pass {
        name: "spread_lookups",
        reason: "needs to know along what rows run, and which nests are no kernels; rows that are fused read tables, too",
        run: spread_lookups::spread_lookups,
    },
    Pass { name: "fuse_rows", reason: "takes what is left between kernels; needs strides", run: fuse_rows::fuse_rows },
    Pass { name: "short_rows", reason: "kernels take reductions whole", run: short_rows::short_rows },
    Pass {
        name: "divide_reductions",
        reason: "kernels and rows take reductions whole",
        run: divide_reductions::divide_reductions,
    },
    Pass { name: "pack_rows", reason: "kernels in chains see too few rows to gain by it", run: pack_rows::pack_rows },
    Pass {
        name: "update_in_place",
        reason: "chains compute lines twice, and packed rows may leave parts of sums in the result",
        run: update::update_in_place,
    },
    Pass {
        name: "narrow_tables",
        reason: "needs to know what is a table still: weights of kernels are packed",
        run: narrow_tables::narrow_tables,
    },
];
