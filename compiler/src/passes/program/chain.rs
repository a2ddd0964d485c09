//! Large results that only the next kernel reads are handed on a few lines at a time: they never leave the cache, and
//! need no more memory than those lines.

use super::blocks::{Users, for_each_block};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::Options;
use crate::program::bands::Stage;
use crate::program::kernel::{Description, KernelKind, Method};
use crate::program::nest::{Access, Scalar};
use crate::program::{BufferId, Chain, Kernel, Program, Role, Step, StepKind};
use include_ir_runtime::bands::{Bands, Lines, STAGES};
use include_ir_runtime::shares::Share;

/// Results of at least this many elements are worth it: a share of the second-level cache.
const LEAST: usize = 96 * 1024;
/// Elements that the lines of all stages may take together.
const BUDGET: usize = 128 * 1024;
/// Bands of fewer lines than this move too much.
const LOW: usize = 3;
/// What the first stage reads is whole.
const WHOLE: Lines = Lines { count: 0, stride: 1, first: 0, span: 1 };
/// Packed weights of one kernel, in elements: they are read again for every band.
const MOST_WEIGHTS: usize = 64 * 1024;

/// Joins kernels that follow each other into chains.
pub fn chain_kernels(program: &mut Program, _: &Options, _: &mut Diagnostics) {
    let fixed = program.fixed_layouts();
    for_each_block(program, &mut |program, steps, outside| {
        let users = Users::of(program, steps.iter().enumerate());
        let mut out = Vec::with_capacity(steps.len());
        let mut open: Vec<(Step, Stage)> = Vec::new();
        for step in steps {
            let stage = stage_of(program, &step);
            let free = |buffer: BufferId| !fixed[buffer.0 as usize] && !outside.sees(program, buffer);
            let link = match (open.last(), &stage) {
                (Some((_, last)), Some(stage)) if open.len() < STAGES => link(program, &last.kernel, &stage.kernel)
                    .filter(|link| is_handed_on(program, &users, link.buffer) && free(link.buffer)),
                _ => None,
            };
            match (link, stage) {
                (Some(link), Some(mut stage)) => {
                    (stage.lines, stage.operand_line) = (link.lines, link.line);
                    if let Some((_, last)) = open.last_mut() {
                        last.line = Some(link.line);
                    }
                    open.push((step, stage));
                }
                (_, stage) => {
                    close(program, &mut open, &mut out);
                    match stage {
                        Some(stage) => open.push((step, stage)),
                        None => out.push(step),
                    }
                }
            }
        }
        close(program, &mut open, &mut out);
        out
    });
}

/// Whether one step writes the buffer, one reads it, and nothing is a view of it.
fn is_handed_on(program: &Program, users: &Users, buffer: BufferId) -> bool {
    let views = program.buffers.iter().filter(|b| b.layout.storage == buffer).count();
    users.writers(buffer).len() == 1 && users.readers(buffer).len() == 1 && views == 1
}

/// A kernel that can run in bands, on its own: static, with constant weights, few of them.
fn stage_of(program: &Program, step: &Step) -> Option<Stage> {
    let StepKind::Kernel(kernel) = &step.kind else { return None };
    let packed = match &kernel.kind {
        KernelKind::Contraction { packed, at_run_time: false, method: Method::Direct, .. } => Some(*packed),
        KernelKind::Window { packed, .. } => *packed,
        KernelKind::Contraction { .. } => return None,
    };
    let few = packed
        .is_none_or(|packed| program.buffer(packed).len().as_usize().is_some_and(|elements| elements <= MOST_WEIGHTS));
    let known = kernel.nest.axes.iter().all(|axis| axis.extent.as_usize().is_some_and(|extent| extent > 0));
    let description = kernel.describe(program).filter(|_| few && known)?;
    // Threads divide results by lines, which must lie at known places.
    description.out_offset.as_usize()?;
    let count = description.rows.first()?.extent.as_usize()?;
    let lines = Lines { count, ..WHOLE };
    Some(Stage { kernel: (**kernel).clone(), lines, operand_line: 0, line: None })
}

/// What connects two stages.
struct Link {
    buffer: BufferId,
    /// Elements of a line of the buffer.
    line: usize,
    lines: Lines,
}

/// The result of `before` is the data of `after`, both go through it line by line, `after` writes lines as well, and it is large.
fn link(program: &Program, before: &Kernel, after: &Kernel) -> Option<Link> {
    let id = before.nest.store.buffer;
    let loads = after.nest.loads().filter(|access| access.buffer == id).count();
    let buffer = program.buffer(id);
    let own = buffer.role == Role::Temporary && buffer.layout.storage == id && buffer.layout.offset.is(0);
    if after.buffer_of(after.data) != Some(id) || loads != 1 || !own || buffer.len().as_usize()? < LEAST {
        return None;
    }
    let (first, second) = (before.describe(program)?, after.describe(program)?);
    let dim = line_dimension(&before.nest.store, &first)?;
    let line = buffer.layout.strides.get(dim)?.as_usize()?;
    let count = buffer.dims.get(dim)?.as_usize()?;
    let in_order = buffer.reach()? <= count.checked_mul(line)?;
    if !in_order || first.rows.first()?.extent.as_usize()? != count || !in_lines(&second)? {
        return None;
    }
    let Some(Scalar::Load { access, .. }) = after.nest.nodes.get(after.data as usize) else { return None };
    let lines = lines_read(access, dim, after, &second)?;
    // Where a line needs most lines of the data, nearly all of them would be kept, and moved from band to band.
    (lines.span <= count / 2).then_some(Link { buffer: id, line, lines })
}

/// Whether a line of the result ends before the next one begins, so that threads may divide it by lines.
fn in_lines(description: &Description) -> Option<bool> {
    let (line, within) = description.rows.split_first()?;
    let others = within.iter().chain(&description.batches).chain(&description.columns);
    let mut reach =
        others.map(|axis| axis.extent.as_usize()?.checked_sub(1)?.checked_mul(axis.strides.out.as_usize()?));
    let reach = reach.try_fold(0usize, |sum, reach| sum.checked_add(reach?))?;
    Some(reach < line.strides.out.as_usize()?)
}

/// The dimension that the first row axis, alone, indexes.
fn line_dimension(store: &Access, description: &Description) -> Option<usize> {
    let axis = description.rows.first()?.axis;
    let mut using = store.index.iter().enumerate().filter(|(_, index)| index.uses_axis(axis));
    let (dim, index) = using.next()?;
    (*index == Dim::axis(axis) && using.next().is_none()).then_some(dim)
}

/// Which lines of dimension `dim` a line of the kernel's result needs.
fn lines_read(access: &Access, dim: usize, kernel: &Kernel, description: &Description) -> Option<Lines> {
    let row = description.rows.first()?;
    let elsewhere = access.index.iter().enumerate().any(|(at, index)| at != dim && index.uses_axis(row.axis));
    let mut rest = access.index.get(dim)?.clone();
    let stride = usize::try_from(rest.coefficient(row.axis)?).ok().filter(|stride| *stride > 0)?;
    let (mut low, mut high) = (0i64, 0i64);
    for (axis, size) in kernel.nest.axes.iter().enumerate() {
        let factor = rest.coefficient(axis)?;
        rest = rest.without(axis);
        if axis != row.axis && factor != 0 {
            let reach = factor.checked_mul(size.extent.as_const()? - 1)?;
            (low, high) = (low.checked_add(reach.min(0))?, high.checked_add(reach.max(0))?);
        }
    }
    let first = isize::try_from(rest.as_const()?.checked_add(low)?).ok()?;
    let span = usize::try_from(high.checked_sub(low)?.checked_add(1)?).ok()?;
    let count = row.extent.as_usize()?;
    (!elsewhere).then_some(Lines { count, stride, first, span })
}

/// Ends a chain: its stages become one step if there are several and bands of them fit the budget. A chain of low bands
/// falls apart where it hands on the least.
fn close(program: &mut Program, open: &mut Vec<(Step, Stage)>, out: &mut Vec<Step>) {
    let mut pending = vec![std::mem::take(open)];
    while let Some(mut stages) = pending.pop() {
        match height(&stages) {
            Some((height, capacities)) if stages.len() > 1 && (height >= LOW || stages.len() == 2) => {
                out.push(join(program, stages, height, &capacities));
            }
            _ if stages.len() > 2 => {
                let handed =
                    |at: usize| stages.get(at).map_or(0, |(_, stage)| stage.lines.count * stage.line.unwrap_or(0));
                let weakest = (0..stages.len() - 1).min_by_key(|at| handed(*at)).unwrap_or(0);
                let mut rest = stages.split_off(weakest + 1);
                if let Some((_, last)) = stages.last_mut() {
                    last.line = None;
                }
                if let Some((_, first)) = rest.first_mut() {
                    first.operand_line = 0;
                    first.lines = Lines { count: first.lines.count, ..WHOLE };
                }
                pending.extend([rest, stages]);
            }
            _ => out.extend(stages.into_iter().map(|(step, _)| step)),
        }
    }
}

fn join(program: &mut Program, stages: Vec<(Step, Stage)>, height: usize, capacities: &[usize]) -> Step {
    let (steps, stages): (Vec<Step>, Vec<Stage>) = stages.into_iter().unzip();
    for (stage, capacity) in stages.iter().zip(capacities) {
        if let Some(line) = stage.line {
            program.buffer_mut(stage.kernel.nest.store.buffer).kept = Some(capacity * line);
        }
    }
    let origins = steps.into_iter().flat_map(|step| step.origins).collect();
    let shares = [2, 4, 8].into_iter().filter_map(|parts| share(&stages, capacities, parts)).collect();
    Step { kind: StepKind::Chain(Chain { stages, height, shares }), origins }
}

/// The greatest height within the budget, and the lines that each stage keeps. Bands are about as high as each other, and of
/// an even number of lines: two threads, or four, divide them by lines.
fn height(stages: &[(Step, Stage)]) -> Option<(usize, Vec<usize>)> {
    let stages: Vec<&Stage> = stages.iter().map(|(_, stage)| stage).collect();
    let count = stages.last()?.lines.count;
    let mut best = None;
    for height in 1..=count {
        let capacities = capacities(&stages, height);
        let used: usize = stages.iter().zip(&capacities).map(|(s, lines)| s.line.unwrap_or(0) * lines).sum();
        if used > BUDGET && best.is_some() {
            break;
        }
        if used <= 2 * BUDGET {
            best = Some(height);
        }
    }
    let height = count.div_ceil(count.div_ceil(best?)).next_multiple_of(2);
    (height < count).then(|| (height, divisible(&stages, height)))
}

/// Most lines that each stage holds at one time.
fn capacities(stages: &[&Stage], height: usize) -> Vec<usize> {
    most_lines(bands(stages, height), stages.len())
}

/// The same, and enough for two threads that each hold bands of half the height.
fn divisible(stages: &[&Stage], height: usize) -> Vec<usize> {
    let (bands, share) = (bands(stages, height), Share { parts: 2, height: height.div_ceil(2) });
    let mut most = most_lines(bands, stages.len());
    for part in 0..share.parts {
        let own = most_lines(share.bands(&bands, part), stages.len());
        most.iter_mut().zip(own).for_each(|(most, own)| *most = own.saturating_mul(share.parts).max(*most));
    }
    most
}

fn bands(stages: &[&Stage], height: usize) -> Bands {
    let lines: Vec<Lines> = stages.iter().map(|stage| stage.lines).collect();
    Bands::new(&lines, height)
}

fn most_lines(mut bands: Bands, stages: usize) -> Vec<usize> {
    let mut most = vec![0; stages];
    while let Some(band) = bands.advance() {
        most.iter_mut().zip(&band).for_each(|(most, band)| *most = (*most).max(band.end - band.base));
    }
    most
}

/// The greatest height with which so many parts keep their lines in their portions of the buffers, which hold `capacities`
/// lines in all. `None` if bands would move more lines than they compute.
fn share(stages: &[Stage], capacities: &[usize], parts: usize) -> Option<Share> {
    let lines: Vec<Lines> = stages.iter().map(|stage| stage.lines).collect();
    let count = lines.last()?.count.div_ceil(parts);
    let bands = Bands::new(&lines, 1);
    let fits = |share: &Share| {
        (0..parts).all(|part| {
            let most = most_lines(share.bands(&bands, part), stages.len());
            let sizes = stages.iter().zip(capacities).map(|(stage, lines)| (stage.line.unwrap_or(0), lines));
            most.iter().zip(sizes).all(|(most, (line, lines))| most * line <= share.portion(lines * line))
        })
    };
    let height = (1..=count).take_while(|height| fits(&Share { parts, height: *height })).last()?;
    let height = count.div_ceil(count.div_ceil(height));
    let stride: usize = lines.iter().map(|lines| lines.stride).product();
    (height * stride >= LOW.min(count) - 1).then_some(Share { parts, height })
}
