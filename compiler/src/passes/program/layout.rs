//! Chooses the order of dimensions in memory: channels last where kernels run along channels, and views instead of
//! copies where elements already lie as a reshape or a permutation wants them.

mod across;
mod copies;
mod gathered;
mod orders;
mod parts;
mod planes;
mod views;

use super::blocks::{Outside, Users, Uses, has_blocks};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::options::{Isa, Options};
use crate::program::kernel::Part;
use crate::program::nest::{Nest, Node, Scalar};
use crate::program::recognise::{self, Product};
use crate::program::{BufferId, Call, Layout, Program, Role, Step, StepKind};
pub(super) use across::along_rows;
use copies::Slice;
pub(super) use copies::copy_nest;
pub(super) use gathered::looked_up;
use orders::{along_lines, channels_last, follow, sliding_channel, walk_in_order, wanted_orders};
pub(super) use orders::{product_of_columns, runs_along_lines};
use parts::Parts;
use std::collections::{BTreeMap, BTreeSet};

/// Elements from which a copy is worth a buffer of its own.
const MANY: i64 = 4096;
/// How many times longer runs of the data have to be than they are, to be worth a copy.
const LONGER_RUNS: i64 = 4;

/// Walks over the steps in execution order; every buffer gets its layout where it is first written.
pub fn choose_layout(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    let has_planes = options.has_vector_kernels() && options.isa.allows(Isa::Avx512);
    let mut choosing = Choosing {
        vectors: options.has_vector_kernels(),
        decided: vec![false; program.buffers.len()],
        wanted: wanted_orders(program, has_planes),
        copies: BTreeMap::new(),
        slices: Vec::new(),
        planes: BTreeMap::new(),
        products: BTreeSet::new(),
        uses: Uses::of(program),
        block: Surroundings::default(),
        depth: 0,
        out: Vec::new(),
    };
    // Memory with views into it is as they say.
    for i in 0..program.buffers.len() as u32 {
        let storage = program.buffer(BufferId(i)).layout.storage;
        if storage != BufferId(i) {
            choosing.decide(storage);
        }
    }
    let steps = std::mem::take(&mut program.root.steps);
    program.root.steps = choosing.block(program, steps);
}

struct Choosing {
    /// Whether there are vectors: without them, what lies across rows is read as fast as what lies along them.
    vectors: bool,
    decided: Vec<bool>,
    /// Orders that the readers of a buffer would like.
    wanted: BTreeMap<BufferId, Vec<usize>>,
    /// Copies made for kernels: (source, dimension that is contiguous) -> copy.
    copies: BTreeMap<(BufferId, usize), BufferId>,
    /// Copies of what one iteration of a loop reads.
    slices: Vec<Slice>,
    /// What is read in planes, where such a copy exists: the dimension that is contiguous.
    planes: BTreeMap<BufferId, usize>,
    /// Results of products with constant weights, as of convolutions; attention takes the others in rows.
    products: BTreeSet<BufferId>,
    uses: Uses,
    block: Surroundings,
    /// How many blocks are around each other here: one at the root.
    depth: usize,
    out: Vec<Step>,
}

/// What the steps of one block do, and where the walk is among them.
#[derive(Default)]
struct Surroundings {
    outside: Outside,
    users: Users,
    /// By buffer: number of steps that write it.
    writers: BTreeMap<BufferId, usize>,
    /// By storage: the last step that writes it.
    last_write: BTreeMap<BufferId, usize>,
    parts: Parts,
    at: usize,
}

impl Choosing {
    /// The steps of a block. Copies that stand in it are of no use outside.
    fn block(&mut self, program: &mut Program, steps: Vec<Step>) -> Vec<Step> {
        let (outside, users) = (self.uses.outside(program, &steps), Users::of(program, steps.iter().enumerate()));
        let mut inner = Surroundings { outside, users, ..Surroundings::default() };
        for (at, step) in steps.iter().enumerate() {
            for buffer in step.accesses().1 {
                *inner.writers.entry(buffer).or_default() += 1;
                inner.last_write.insert(program.buffer(buffer).layout.storage, at);
            }
        }
        let (outer, out) = (std::mem::replace(&mut self.block, inner), std::mem::take(&mut self.out));
        let (copies, slices) = (self.copies.clone(), self.slices.clone());
        self.depth += 1;
        for (at, step) in steps.into_iter().enumerate() {
            self.block.at = at;
            self.copy_parts_before(program, &step);
            self.step(program, step);
            self.copy_parts_after(program);
        }
        self.depth -= 1;
        (self.block, self.copies, self.slices) = (outer, copies, slices);
        std::mem::replace(&mut self.out, out)
    }

    fn step(&mut self, program: &mut Program, mut step: Step) {
        let written: Vec<BufferId> = step.accesses().1;
        let again: Vec<BufferId> = written.into_iter().filter(|buffer| self.is_decided(*buffer)).collect();
        if has_blocks(&step) {
            self.forget(program, &again);
        }
        match step.kind {
            StepKind::Nest(nest) => self.nest(program, nest, step.origins),
            StepKind::Reshape { from, to } => self.reshape(program, from, to, step.origins),
            StepKind::Call(call) => self.call(program, call, step.origins),
            StepKind::If { .. } | StepKind::Loop(_) => {
                for block in step.blocks_mut() {
                    block.steps = self.block(program, std::mem::take(&mut block.steps));
                }
                self.out.push(step);
            }
            StepKind::Kernel(_)
            | StepKind::Chain(_)
            | StepKind::Attention(_)
            | StepKind::Rows(_)
            | StepKind::Size { .. } => self.out.push(step),
        }
        self.forget(program, &again);
    }

    /// Copies of what is written again are out of date.
    fn forget(&mut self, program: &Program, written: &[BufferId]) {
        let storage = |buffer: BufferId| program.buffer(buffer).layout.storage;
        let stale = |source: BufferId| written.iter().any(|buffer| storage(*buffer) == storage(source));
        if !written.is_empty() {
            self.copies.retain(|(source, _), _| !stale(*source));
            self.slices.retain(|slice| !stale(slice.source));
        }
    }

    /// Whether a buffer may be a view of memory that keeps its elements as long as this block looks at them.
    fn may_view(&self, program: &Program, buffer: BufferId, memory: BufferId) -> bool {
        self.keeps(program, buffer, memory) && !self.block.outside.sees(program, buffer)
    }

    /// Whether memory that only this block looks at may become that of a buffer with the same elements.
    fn may_join(&self, program: &Program, memory: BufferId, buffer: BufferId) -> bool {
        self.keeps(program, buffer, memory) && !self.block.outside.sees(program, memory)
    }

    /// Whether `buffer` has one writer, and `memory` none behind it.
    fn keeps(&self, program: &Program, buffer: BufferId, memory: BufferId) -> bool {
        let memory = program.buffer(memory).layout.storage;
        let changes = self.block.last_write.get(&memory).is_some_and(|last| *last > self.block.at);
        !changes && self.block.writers.get(&buffer).is_none_or(|writers| *writers == 1)
    }

    fn nest(&mut self, program: &mut Program, mut nest: Nest, origins: Vec<crate::graph::Origin>) {
        let product = product_of_columns(program, &nest);
        let (order, insists) = match &product {
            Some(product) => {
                self.note_product(program, &nest, product);
                self.contiguous_data(program, &mut nest, product, &origins);
                (Some(columns_last(&nest, product)), true)
            }
            None => {
                walk_in_order(program, &mut nest);
                self.in_planes(program, &mut nest, &origins);
                match self.gather_channels(program, &mut nest, &origins) {
                    Some(order) => (Some(order), true),
                    None => self.other_order(program, &mut nest, &origins),
                }
            }
        };
        let buffer = nest.store.buffer;
        let elsewhere = order.is_some_and(|order| self.order_output(program, &mut nest, order, insists));
        self.turn_operands(program, &mut nest, product.is_some(), &origins);
        if !elsewhere {
            self.copy_parts(program, buffer);
            self.decide(buffer);
            self.push_nest(nest, origins);
            return;
        }
        self.push_nest(nest.clone(), origins.clone());
        self.copy_later(&nest, buffer, &origins);
    }

    fn push_nest(&mut self, nest: Nest, origins: Vec<crate::graph::Origin>) {
        self.out.push(Step { kind: StepKind::Nest(nest), origins });
    }

    /// Functions read and write row-major tensors.
    fn call(&mut self, program: &mut Program, mut call: Call, origins: Vec<crate::graph::Origin>) {
        for input in &mut call.inputs {
            let buffer = program.buffer(*input).clone();
            let plain = Layout::row_major(buffer.layout.storage, &buffer.dims);
            if same_memory(&Layout { offset: plain.offset.clone(), ..buffer.layout.clone() }, &plain, &buffer.dims) {
                continue;
            }
            let copy = program.add_buffer(&buffer.name, buffer.element, buffer.dims.clone(), Role::Temporary);
            let kind = StepKind::Nest(copy_nest(&buffer.dims, *input, copy));
            self.out.push(Step { kind, origins: origins.clone() });
            self.decide(copy);
            *input = copy;
        }
        call.outputs.iter().for_each(|output| self.decide(*output));
        self.out.push(Step { kind: StepKind::Call(call), origins });
    }

    fn decide(&mut self, buffer: BufferId) {
        let index = buffer.0 as usize;
        if self.decided.len() <= index {
            self.decided.resize(index + 1, false);
        }
        self.decided[index] = true;
    }

    fn is_decided(&self, buffer: BufferId) -> bool {
        self.decided.get(buffer.0 as usize).copied().unwrap_or(false)
    }

    fn is_free(&self, program: &Program, buffer: BufferId) -> bool {
        !self.is_decided(buffer)
            && program.buffer(buffer).role == Role::Temporary
            && program.buffer(buffer).layout.storage == buffer
    }

    /// Window reductions run along channels; everything else follows the operand it reads most of. The second result says
    /// that writing another order takes longer than a copy.
    fn other_order(
        &mut self,
        program: &mut Program,
        nest: &mut Nest,
        origins: &[crate::graph::Origin],
    ) -> (Option<Vec<usize>>, bool) {
        if let Some(line) = along_lines(program, nest) {
            // An input may lie so already.
            let layout = &program.buffer(line.from.0).layout;
            if !layout.strides.get(line.dim).is_some_and(|stride| stride.is(1)) {
                self.relayout(program, nest, line.data, line.dim, origins);
            }
            return (Some(line.order), true);
        }
        if let Some(window) = recognise::window(program, nest) {
            if channels_last(program, nest, &window).is_none()
                && let Some(channel) = sliding_channel(program, nest, &window)
            {
                self.relayout(program, nest, window.data, channel, origins);
            }
            if let Some(order) = channels_last(program, nest, &window) {
                self.computed_weights(program, nest, window.weights, origins);
                return (Some(order), true);
            }
        }
        let read = follow(program, nest);
        match self.wanted.get(&nest.store.buffer) {
            Some(wanted) => (Some(self.cheaper_order(program, nest, wanted.clone(), read)), false),
            None => {
                let at_once = read.as_ref().is_some_and(|read| self.is_cheaper_at_once(program, nest, read));
                (read, reads_much(program, nest) && !at_once)
            }
        }
    }

    /// Windows read weights that are computed as they read constants: channel by channel of a tap after the other.
    fn computed_weights(
        &mut self,
        program: &mut Program,
        nest: &mut Nest,
        weights: Option<Node>,
        origins: &[crate::graph::Origin],
    ) {
        let Some(load) = weights else { return };
        let Some(Scalar::Load { access, .. }) = nest.nodes.get(load as usize) else { return };
        let channel = access.index.iter().position(|dim| (0..nest.maps).any(|axis| dim.counts(axis)));
        if let (Some(dim), None) = (channel, program.buffer(access.buffer).constant()) {
            self.relayout(program, nest, load, dim, origins);
        }
    }

    /// Gives the output its order. An output of the model is row-major: a nest that `insists` on another order writes a
    /// temporary, which is copied once all of it is there; then the result is true.
    fn order_output(&mut self, program: &mut Program, nest: &mut Nest, order: Vec<usize>, insists: bool) -> bool {
        let buffer = nest.store.buffer;
        let dims = program.buffer(buffer).dims.clone();
        if self.is_free(program, buffer) {
            program.buffer_mut(buffer).layout = Layout::ordered(buffer, &dims, &order);
            return false;
        }
        let layout = Layout::ordered(buffer, &dims, &order);
        let differs = !same_memory(&program.buffer(buffer).layout, &layout, &dims);
        if !insists || !differs || program.buffer(buffer).layout.storage != buffer {
            return false;
        }
        let lies_so = |other: BufferId| {
            same_memory(&program.buffer(other).layout, &Layout { storage: other, ..layout.clone() }, &dims)
        };
        nest.store.buffer = match self.block.parts.temporary(buffer).filter(|other| lies_so(*other)) {
            Some(other) => other,
            None => {
                self.copy_parts(program, buffer);
                let (element, name) = (program.buffer(buffer).element, program.buffer(buffer).name.clone());
                let temporary = program.add_buffer(&name, element, dims.clone(), Role::Temporary);
                program.buffer_mut(temporary).layout = Layout { storage: temporary, ..layout };
                self.decide(temporary);
                temporary
            }
        };
        true
    }

    /// A contraction needs a reduction axis along which its data is contiguous.
    fn contiguous_data(
        &mut self,
        program: &mut Program,
        nest: &mut Nest,
        product: &Product,
        origins: &[crate::graph::Origin],
    ) {
        let Some(Scalar::Load { access, bounds, .. }) = nest.nodes.get(product.data as usize) else { return };
        let taps: Vec<usize> = (0..nest.axes.len()).filter(|axis| product.parts[*axis] == Part::Tap).collect();
        let bounded = |axis: usize| bounds.iter().any(|bound| bound.value.uses_axis(axis));
        let address = program.address(access.buffer, &access.index);
        if taps.iter().all(|axis| nest.axes[*axis].extent.is(1)) {
            return;
        }
        let extent = |axis: usize| nest.axes[axis].extent.upper_bound();
        let free = || taps.iter().copied().filter(|axis| !bounded(*axis));
        let present = free().filter(|axis| address.coefficient(*axis) == Some(1)).map(extent).max();
        let dim_of = |axis: usize| access.index.iter().position(|dim| product.counts(dim, axis));
        let best = free().filter(|axis| dim_of(*axis).is_some()).max_by_key(|axis| extent(*axis));
        // A window's line of pixels is a fair run where channels are as few.
        let wanted = best.filter(|axis| present.is_none_or(|run| extent(*axis) >= run.saturating_mul(LONGER_RUNS)));
        if let Some(dim) = wanted.and_then(dim_of) {
            self.relayout(program, nest, product.data, dim, origins);
        }
    }
}

/// Whether two layouts place every element alike: strides of dimensions with one element do not matter.
pub(super) fn same_memory(a: &Layout, b: &Layout, dims: &[Dim]) -> bool {
    a.offset == b.offset && a.strides.iter().zip(&b.strides).zip(dims).all(|((x, y), dim)| x == y || dim.is(1))
}

/// Whether a nest computes so many elements that a loop across the order of its operand takes longer than a copy, which is not
/// what it is itself.
fn reads_much(program: &Program, nest: &Nest) -> bool {
    let copies = matches!(nest.nodes[..], [Scalar::Load { .. }]);
    let elements = program.buffer(nest.store.buffer).len();
    !copies && nest.is_direct() && elements.as_const().is_some_and(|n| n >= MANY)
}

/// Dimensions of the output without columns in their logical order, then those with columns; of several, those without rows.
fn columns_last(nest: &Nest, product: &Product) -> Vec<usize> {
    let uses = |dim: usize, part: Part| {
        let index = &nest.store.index[dim];
        (0..nest.maps).any(|axis| product.parts[axis] == part && index.uses_axis(axis))
    };
    let alone = (0..nest.store.index.len()).any(|dim| uses(dim, Part::Column) && !uses(dim, Part::Row));
    let is_column = |dim: &usize| uses(*dim, Part::Column) && !(alone && uses(*dim, Part::Row));
    let (last, first): (Vec<usize>, Vec<usize>) = (0..nest.store.index.len()).partition(is_column);
    first.into_iter().chain(last).collect()
}
