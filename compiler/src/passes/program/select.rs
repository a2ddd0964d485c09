//! Replaces recognised nests by kernels of the runtime; the others are emitted as loops.

mod bias;
mod compact;
pub(super) mod epilogue;
pub(super) mod pack;
mod winograd;

use super::blocks::for_each_step;
use super::{pack_rows, pool_lines};
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::options::{Accuracy, Kernels, Options};
use crate::program::kernel::{Description, Kernel, KernelAxis, KernelKind, Method, Part};
use crate::program::nest::{Nest, Node, Scalar};
use crate::program::recognise::{self, FEWEST_COLUMNS, Product, Window, run_of_columns};
use crate::program::{Program, StepKind};

/// What the runtime's descriptors hold.
const MAX_BATCHES: usize = 2;
const MAX_ROWS: usize = 4;
const MAX_TAPS: usize = 4;
pub(super) const MAX_BOUNDS: usize = 3;

/// Columns of a panel: two AVX-512 vectors; one small tile where code size counts.
const HOST_PANEL: usize = 32;
const SCALAR_PANEL: usize = 4;

/// Most columns of a product of one row that loops compute, and least products of a sum.
const NARROW: i64 = 24;
const LONG: i64 = 256;

/// Selects kernels and packs their constant weights.
pub fn select_kernels(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if options.kernels == Kernels::Reference {
        return;
    }
    let vectors = options.isa.has_vectors();
    let panel = if vectors { HOST_PANEL } else { SCALAR_PANEL };
    // Where there are no vectors, memory counts more than speed.
    let filtering = vectors && options.accuracy == Accuracy::Auto;
    let mut found = Vec::new();
    for_each_step(program, &mut |program, step| {
        if let StepKind::Nest(nest) = &mut step.kind {
            if vectors {
                bias::close_gaps(program, nest);
            }
            found.push(contraction(program, nest, vectors));
        }
    });
    let forms: Vec<_> = found.iter().map(|found| found.as_ref().filter(|_| filtering)?.form()).collect();
    let tiles = winograd::choose(program, &forms);
    let mut found = found.into_iter().zip(tiles);
    for_each_step(program, &mut |program, step| {
        if let StepKind::Nest(nest) = &step.kind
            && let Some((contraction, tile)) = found.next()
        {
            let packed =
                contraction.and_then(|contraction| contraction.packed(program, (panel, vectors, filtering), tile));
            if let Some(kernel) = packed.or_else(|| window(program, nest, vectors)) {
                step.kind = StepKind::Kernel(Box::new(kernel));
            }
        }
    });
}

/// A contraction whose weights are not packed yet.
pub(super) struct Contraction {
    pub kernel: Kernel,
    pub description: Description,
    /// Where minimal filtering is possible.
    form: Option<winograd::Form>,
    /// The same with rows in another order, lines along another axis than the last, where it is possible for these.
    rearranged: Option<Box<Contraction>>,
}

/// The contraction that a nest becomes, if it does.
pub(super) fn contraction(program: &Program, nest: &Nest, vectors: bool) -> Option<Contraction> {
    let product = recognise::product(program, nest)?;
    if !product.parts.contains(&Part::Column) || program.buffer(nest.store.buffer).element != ElementType::F32 {
        return None;
    }
    let mut kernel = Kernel {
        nest: nest.clone(),
        parts: with_depth(program, nest, &product)?,
        kind: KernelKind::Contraction {
            weights: product.weights,
            packed: nest.store.buffer,
            panel: 0,
            at_run_time: false,
            method: Method::Direct,
        },
        data: product.data,
        epilogue: Default::default(),
    };
    kernel.parts = with_one_run_of_columns(program, &kernel);
    let mut found = described(program, kernel, vectors)?;
    let (kernel, description) = (&found.kernel, &found.description);
    let rearranged = winograd::by_lines(kernel, description).and_then(|kernel| described(program, kernel, vectors));
    found.rearranged = rearranged.filter(|found| found.form.is_some()).map(Box::new);
    Some(found)
}

fn described(program: &Program, mut kernel: Kernel, vectors: bool) -> Option<Contraction> {
    let description = kernel.describe(program)?;
    if !fits(&description) || !columns_are_contiguous(&description) || packing_is_dear(program, &kernel, &description) {
        return None;
    }
    if vectors && is_long_and_narrow(program, &kernel, &description) {
        return None;
    }
    kernel.epilogue = epilogue::find(program, &kernel, &description, vectors);
    let form = winograd::form(program, &kernel, &description);
    Some(Contraction { kernel, description, form, rearranged: None })
}

impl Contraction {
    fn form(&self) -> Option<&winograd::Form> {
        self.form.as_ref().or_else(|| self.rearranged.as_ref()?.form())
    }

    /// The kernel with its weights, transformed for tiles of minimal filtering if there are any.
    fn packed(
        self,
        program: &mut Program,
        (panel, vectors, compacts): (usize, bool, bool),
        tile: Option<i64>,
    ) -> Option<Kernel> {
        let Contraction { mut kernel, description, form, rearranged } = self;
        if let (Some(rearranged), Some(_)) = (rearranged, tile) {
            return rearranged.packed(program, (panel, vectors, compacts), tile);
        }
        let KernelKind::Contraction { weights, .. } = kernel.kind else { return None };
        if let (Some(form), Some(tile)) = (form, tile)
            && let Some((packed, winograd)) =
                winograd::contraction(program, &kernel, (&description, &form), panel, tile)
        {
            let method = Method::Winograd(winograd);
            kernel.kind = KernelKind::Contraction { weights, packed, panel, at_run_time: false, method };
            return Some(kernel);
        }
        if compacts && let Some((packed, compact)) = compact::contraction(program, &kernel, &description) {
            let (panel, method) = (compact::PANEL, Method::Compact(compact));
            kernel.kind = KernelKind::Contraction { weights, packed, panel, at_run_time: false, method };
            return Some(kernel);
        }
        let panel = if vectors && !are_computed(program, &kernel, weights) {
            pack_rows::panel(&description).unwrap_or(panel)
        } else {
            panel
        };
        let (packed, at_run_time) = pack::contraction(program, &kernel, &description, panel)?;
        kernel.kind = KernelKind::Contraction { weights, packed, panel, at_run_time, method: Method::Direct };
        Some(kernel)
    }
}

/// Weights that are computed would be packed for a single row: the loops read them once where they lie.
fn packing_is_dear(program: &Program, kernel: &Kernel, description: &Description) -> bool {
    let KernelKind::Contraction { weights, .. } = &kernel.kind else { return false };
    are_computed(program, kernel, *weights) && description.rows.iter().all(|axis| axis.extent.is(1))
}

/// A row times weights of few columns, whose lines lie one after the other: a kernel would have one or two sums, each product of
/// which waits for the one before, and padding for columns. Loops add a line with vectors, and threads share the lines.
fn is_long_and_narrow(program: &Program, kernel: &Kernel, description: &Description) -> bool {
    let KernelKind::Contraction { weights, .. } = &kernel.kind else { return false };
    let columns = description.columns.iter().map(|axis| axis.extent.as_const()).product::<Option<i64>>();
    let others = [&description.batches, &description.rows, &description.taps].into_iter().flatten();
    let depth = description.depth.as_ref().filter(|depth| depth.strides.weights.is(1));
    let element = kernel.buffer_of(*weights).map(|buffer| program.buffer(buffer).element);
    columns.is_some_and(|columns| columns <= NARROW)
        && others.map(|axis| &axis.extent).all(|extent| extent.is(1))
        && depth.is_some_and(|depth| depth.extent.range().min >= LONG)
        && element == Some(ElementType::F32)
}

fn are_computed(program: &Program, kernel: &Kernel, weights: Node) -> bool {
    kernel.buffer_of(weights).is_some_and(|buffer| program.buffer(buffer).constant().is_none())
}

/// The reduction axis along which data is contiguous becomes the depth: the longest one without bounds.
fn with_depth(program: &Program, nest: &Nest, product: &Product) -> Option<Vec<Part>> {
    let Scalar::Load { access, bounds, .. } = nest.nodes.get(product.data as usize)? else { return None };
    let address = program.address(access.buffer, &access.index);
    let mut parts = product.parts.clone();
    let candidate = |axis: &usize| {
        let bounded = bounds.iter().any(|bound| bound.value.uses_axis(*axis));
        product.parts[*axis] == Part::Tap && !bounded && address.coefficient(*axis) == Some(1)
    };
    let depth = (0..nest.axes.len()).filter(candidate).max_by_key(|axis| nest.axes[*axis].extent.upper_bound());
    if let Some(depth) = depth {
        parts[depth] = Part::Depth;
    }
    Some(parts)
}

/// Columns that do not lie side by side in the output with those behind them become batches, which read the same data:
/// where runs are not so short that panels would be empty for the most part, or pixels of a transposed convolution.
fn with_one_run_of_columns(program: &Program, kernel: &Kernel) -> Vec<Part> {
    let mut parts = kernel.parts.clone();
    let (run, elsewhere) = run_of_columns(program, &kernel.nest, &parts);
    let is_row = |axis: usize| kernel.parts[axis] == Part::Row;
    let is_pixel = |column: &usize| {
        let mut dims = kernel.nest.store.index.iter().filter(|dim| dim.uses_axis(*column));
        dims.any(|dim| (0..kernel.nest.maps).any(|axis| is_row(axis) && dim.uses_axis(axis)))
    };
    if run.range().min >= FEWEST_COLUMNS || elsewhere.iter().all(is_pixel) {
        elsewhere.into_iter().for_each(|axis| parts[axis] = Part::Batch);
    }
    parts
}

fn fits(description: &Description) -> bool {
    let plain = |axes: &[KernelAxis]| {
        let strides = |axis: &KernelAxis| {
            [&axis.strides.data, &axis.strides.out, &axis.strides.residual].map(|s| s.range().min >= 0)
        };
        axes.iter().all(|axis| strides(axis).iter().all(|ok| *ok))
    };
    description.batches.len() <= MAX_BATCHES
        && description.rows.len() <= MAX_ROWS
        && description.taps.len() <= MAX_TAPS
        && description.bounds.len() <= MAX_BOUNDS
        && plain(&description.batches)
        && plain(&description.rows)
        && plain(&description.columns)
}

/// Column axes together are one contiguous run of the output.
fn columns_are_contiguous(description: &Description) -> bool {
    let mut stride = Dim::constant(1);
    description.columns.iter().rev().filter(|axis| !axis.extent.is(1)).all(|axis| {
        let matches = axis.strides.out == stride;
        stride = stride.clone() * &axis.extent;
        matches
    })
}

fn window(program: &mut Program, nest: &Nest, vectors: bool) -> Option<Kernel> {
    let window = recognise::any_window(program, nest)?;
    if program.buffer(nest.store.buffer).element != ElementType::F32 {
        return None;
    }
    let Some(channel) = channel_axis(program, nest, &window) else {
        return window_along_lines(program, nest, &window).filter(|_| vectors);
    };
    if nest.axes.get(channel)?.extent.is(1) && has_long_lines(program, nest, &window) {
        return None;
    }
    let columns = run_of_channels(program, nest, &window, channel);
    let part = |axis: usize| match axis {
        _ if columns.contains(&axis) => Part::Column,
        _ if axis < nest.maps => Part::Row,
        _ => Part::Tap,
    };
    let mut kernel = Kernel {
        nest: nest.clone(),
        parts: (0..nest.axes.len()).map(part).collect(),
        kind: KernelKind::Window { op: window.op, weights: window.weights, packed: None },
        data: window.data,
        epilogue: Default::default(),
    };
    let description = kernel.describe(program)?;
    if !fits(&description) {
        return None;
    }
    kernel.epilogue = epilogue::find(program, &kernel, &description, vectors);
    if let Some(weights) = window.weights {
        let packed = match are_computed(program, &kernel, weights) {
            true => pack::in_place(program, &kernel, &description)?,
            false => pack::depthwise(program, &kernel, &description)?,
        };
        kernel.kind = KernelKind::Window { op: window.op, weights: Some(weights), packed: Some(packed) };
    }
    Some(kernel)
}

/// The kernel for pooling along lines, of no channels, where elements of these follow each other.
fn window_along_lines(program: &Program, nest: &Nest, window: &Window) -> Option<Kernel> {
    let op = pool_lines::operation(nest, window)?;
    let Scalar::Load { access, .. } = nest.nodes.get(window.data as usize)? else { return None };
    let (line, tap) = (nest.maps.checked_sub(1)?, nest.axes.len().checked_sub(1)?);
    let dense = program.address(access.buffer, &access.index).coefficient(tap) == Some(1)
        && program.address(nest.store.buffer, &nest.store.index).coefficient(line) == Some(1);
    let part = |axis: usize| if axis < nest.maps { Part::Row } else { Part::Tap };
    let kernel = Kernel {
        nest: nest.clone(),
        parts: (0..nest.axes.len()).map(part).collect(),
        kind: KernelKind::Window { op, weights: None, packed: None },
        data: window.data,
        epilogue: Default::default(),
    };
    (dense && fits(&kernel.describe(program)?)).then_some(kernel)
}

/// The channel axis, slowest first behind those with which it is one run in data and output: as pixels, of which channels are summed.
fn run_of_channels(program: &Program, nest: &Nest, window: &Window, channel: usize) -> Vec<usize> {
    let mut run = vec![channel];
    let Some(Scalar::Load { access, .. }) = nest.nodes.get(window.data as usize) else { return run };
    let data = program.address(access.buffer, &access.index);
    let out = program.address(nest.store.buffer, &nest.store.index);
    let extent = |axis: usize| nest.axes[axis].extent.as_const();
    let mut length = extent(channel);
    // Weights have one dimension of channels.
    while let Some(stride) = length.filter(|_| window.weights.is_none()) {
        let follows = |axis: &&usize| {
            data.coefficient(**axis) == Some(stride) && out.coefficient(**axis) == Some(stride) && !run.contains(*axis)
        };
        let Some(axis) = window.channels.iter().find(follows).copied() else { break };
        run.insert(0, axis);
        length = extent(axis).and_then(|extent| extent.checked_mul(stride));
    }
    run
}

/// Whether windows have lines of elements that follow each other: loops add such a line with vectors.
fn has_long_lines(program: &Program, nest: &Nest, window: &Window) -> bool {
    let Some(Scalar::Load { access, .. }) = nest.nodes.get(window.data as usize) else { return false };
    let data = program.address(access.buffer, &access.index);
    let mut taps = nest.axes.iter().enumerate().skip(nest.maps);
    taps.any(|(axis, tap)| data.coefficient(axis) == Some(1) && tap.extent.range().min >= 8)
}

/// The channel axis that is contiguous in data and output.
fn channel_axis(program: &Program, nest: &Nest, window: &Window) -> Option<usize> {
    let Scalar::Load { access, .. } = nest.nodes.get(window.data as usize)? else { return None };
    let data = program.address(access.buffer, &access.index);
    let out = program.address(nest.store.buffer, &nest.store.index);
    let contiguous = |axis: &&usize| data.coefficient(**axis) == Some(1) && out.coefficient(**axis) == Some(1);
    window.channels.iter().filter(contiguous).max_by_key(|axis| nest.axes[**axis].extent.upper_bound()).copied()
}
