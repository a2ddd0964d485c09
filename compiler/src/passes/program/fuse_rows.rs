//! Nests over the same rows become one step that runs them in turn for each row: what they compute once for a row (a mean, a
//! maximum) needs no memory, and the row itself stays in the near cache. This is what becomes of normalisations.

mod form;

use super::blocks::for_each_block;
use super::join::{Block, Names, join};
use crate::diag::Diagnostics;
use crate::options::Options;
use crate::program::edit::reorder_axes;
use crate::program::{BufferId, Program, Rows, Step, StepKind};
use form::Member;
pub(super) use form::reduces_neighbours;

/// Joins nests over the same rows.
pub fn fuse_rows(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    let fixed = program.fixed_layouts();
    let vectors = options.has_vector_kernels();
    for_each_block(program, &mut |program, steps, outside| {
        let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
        let (users, names) = (Block::users(program, &steps), Names::of(program, &fixed));
        // Backwards, since what a nest computes for each row belongs to the last one that needs it.
        for last in (0..steps.len()).rev() {
            let block = Block { program, steps: &steps, users: &users, names: &names, outside };
            let Some(members) = form::find(&block, last, vectors) else { continue };
            if vectors && form::short(&block, &members) {
                continue;
            }
            let found: Vec<usize> = members.iter().map(|member| member.step).collect();
            if block.may_run_last(&found) {
                let rows = written(&block, &members);
                join(&mut steps, &found, StepKind::Rows(rows));
            }
        }
        steps.into_iter().flatten().collect()
    });
}

/// The nests with axes that count rows first. Rows that one hands to another lie in the result of the last one.
fn written(block: &Block, members: &[Member]) -> Rows {
    let mut nests = Vec::with_capacity(members.len());
    for (member, nest) in members.iter().filter_map(|member| Some((member, block.nest(member.step)?))) {
        let rest = (0..nest.axes.len()).filter(|axis| !member.rows.contains(axis));
        let order: Vec<usize> = member.rows.iter().copied().chain(rest).collect();
        let mut nest = nest.clone();
        reorder_axes(&mut nest, &order);
        nests.push(nest);
    }
    let target = nests.last().map(|nest| nest.store.buffer);
    let whole = members.iter().filter(|member| member.whole).filter_map(|member| block.nest(member.step));
    let whole: Vec<BufferId> = whole.map(|nest| nest.store.buffer).collect();
    for nest in &mut nests {
        nest.rename_buffers(&|buffer| target.filter(|_| whole.contains(&buffer)).unwrap_or(buffer));
    }
    Rows { nests, outer: members.first().map_or(0, |member| member.rows.len()) }
}

#[cfg(test)]
mod tests;
