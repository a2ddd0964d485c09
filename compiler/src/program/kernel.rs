//! Nests for which a kernel of the runtime was selected, and the description that the kernel takes.
//!
//! The selection only assigns a part to every axis of the nest. Strides are derived from nest and layouts when asked
//! for, so a later change of a layout (an alias into a concatenation) needs no second look at the selection.

use super::nest::{Nest, Node, Scalar};
use super::{BufferId, Program};
use crate::dim::Dim;
use include_ir_runtime::__private::v1::{Activation, Form};

/// The part an axis plays in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Occurs in data, weights and output: groups, batched matrix products, channels of a depthwise convolution.
    Batch,
    /// Occurs in data and output: pixels, rows of a matrix.
    Row,
    /// Reduction axis that occurs in data: kernel positions.
    Tap,
    /// The reduction axis along which data is contiguous.
    Depth,
    /// Occurs in weights and output: output channels.
    Column,
}

/// A nest that a kernel computes.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The definition.
    pub nest: Nest,
    /// The part of every axis of the nest.
    pub parts: Vec<Part>,
    /// Which kernel.
    pub kind: KernelKind,
    /// The load of the data operand.
    pub data: Node,
    /// What happens to the accumulator before it is stored.
    pub epilogue: Epilogue,
}

/// The kernels.
#[derive(Clone, Debug)]
pub enum KernelKind {
    /// Sum of products, as an indirect matrix product.
    Contraction {
        /// The load of the weights operand (in its logical form).
        weights: Node,
        /// Where the packed panels lie: a constant, or scratch that is filled at run time.
        packed: BufferId,
        /// Columns of one panel.
        panel: usize,
        /// The weights are no constant: `packed` is scratch, filled before the product.
        at_run_time: bool,
        /// How the sums are computed.
        method: Method,
    },
    /// Window reduction, vectorised over the channels (the batch axis that is contiguous in data and output).
    Window {
        /// How values combine.
        op: WindowOp,
        /// The load of the weights of a depthwise convolution.
        weights: Option<Node>,
        /// The weights as `[tap][channel]`.
        packed: Option<BufferId>,
    },
}

impl KernelKind {
    /// Name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            KernelKind::Contraction { method: Method::Winograd(Winograd { tile: 2, .. }), .. } => "winograd-2",
            KernelKind::Contraction { method: Method::Winograd(Winograd { tile: 3, .. }), .. } => "winograd-3",
            KernelKind::Contraction { method: Method::Winograd(Winograd { tile: 5, .. }), .. } => "winograd-5",
            KernelKind::Contraction { method: Method::Winograd(_), .. } => "winograd-4",
            KernelKind::Contraction { method: Method::PackedRows { .. }, .. } => "packed contraction",
            KernelKind::Contraction { method: Method::Strassen { .. }, .. } => "strassen",
            KernelKind::Contraction { method: Method::Compact(compact), .. } => match compact.form {
                Form::Halves => "16-bit contraction",
                Form::Bytes => "8-bit contraction",
                Form::Nibbles => "4-bit contraction",
            },
            KernelKind::Contraction { method: Method::Direct, .. } => "contraction",
            KernelKind::Window { op: WindowOp::Depthwise, .. } => "depthwise",
            KernelKind::Window { op: WindowOp::Max, .. } => "max",
            KernelKind::Window { op: WindowOp::Sum, .. } => "sum",
            KernelKind::Window { op: WindowOp::Mean(_), .. } => "mean",
        }
    }
}

/// How the sums of a contraction are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From the data where it lies.
    Direct,
    /// From rows that are packed first.
    PackedRows {
        /// Working memory: the packed rows.
        scratch: BufferId,
    },
    /// From rows that are packed first, by Strassen's algorithm.
    Strassen {
        /// Working memory: the packed rows, their sums, and sums of weights.
        scratch: BufferId,
    },
    /// By minimal filtering; the packed weights are transformed.
    Winograd(Winograd),
    /// From rows that are packed first, with weights of fewer bits.
    Compact(Compact),
}

impl Method {
    /// Working memory.
    pub fn scratch(&self) -> Option<BufferId> {
        match self {
            Method::Direct => None,
            Method::PackedRows { scratch }
            | Method::Strassen { scratch }
            | Method::Winograd(Winograd { scratch, .. })
            | Method::Compact(Compact { scratch, .. }) => Some(*scratch),
        }
    }

    fn scratch_mut(&mut self) -> Option<&mut BufferId> {
        match self {
            Method::Direct => None,
            Method::PackedRows { scratch }
            | Method::Strassen { scratch }
            | Method::Winograd(Winograd { scratch, .. })
            | Method::Compact(Compact { scratch, .. }) => Some(scratch),
        }
    }
}

/// How the weights of a matrix product are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compact {
    /// The form of a weight.
    pub form: Form,
    /// Products of a sum that have one scale.
    pub group: usize,
    /// Working memory: the packed rows.
    pub scratch: BufferId,
}

/// How a convolution is computed by minimal filtering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Winograd {
    /// Positions among the row axes of the axes along which the window slides.
    pub axes: [usize; 2],
    /// For volumes: position of the axis of slices, and slices that are computed at once.
    pub slices: Option<(usize, usize)>,
    /// Output pixels of a tile along each axis.
    pub tile: usize,
    /// Tiles that are multiplied at once, in each slice.
    pub block: usize,
    /// Columns that are multiplied at once.
    pub chunk: usize,
    /// Working memory: transformed data and sums.
    pub scratch: BufferId,
}

/// What a window reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowOp {
    /// Sum of data times weights.
    Depthwise,
    /// Maximum.
    Max,
    /// Sum.
    Sum,
    /// Sum that is divided.
    Mean(Divisor),
}

/// What the sum of a mean is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The number of elements that are no padding, or 1 where there are none.
    InBounds,
    /// So many.
    Fixed(u32),
}

/// Epilogue of a kernel: in registers as data, or over the finished tile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// Load that is added, indexed by column (and batch) axes only.
    pub bias: Option<Node>,
    /// Load that is added, indexed like the output.
    pub residual: Option<Node>,
    /// Lower and upper limit.
    pub clamp: Option<(f32, f32)>,
    /// Load by which what is below zero of the above is multiplied, indexed by column axes only.
    pub slope: Option<Node>,
    /// A function of what the above gives, if there is no slope.
    pub activation: Option<Activation>,
    /// What the above gives; nodes that use nothing else are evaluated over the tile.
    pub function_of: Option<Node>,
    /// The nest's nodes after the reduction are evaluated over the tile; then the fields above are empty.
    pub general: bool,
}

/// Strides of one batch axis, in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchAxis {
    /// Number of iterations.
    pub extent: Dim,
    /// Data, weights in their logical form, output, residual, bias.
    pub strides: Strides,
}

/// Strides of one axis in every operand, in elements; zero where the axis does not occur.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Strides {
    /// Data operand.
    pub data: Dim,
    /// Weights operand, unpacked.
    pub weights: Dim,
    /// Output.
    pub out: Dim,
    /// Residual operand.
    pub residual: Dim,
    /// Bias operand.
    pub bias: Dim,
}

/// One axis of the nest as a kernel sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelAxis {
    /// Position in [`Nest::axes`].
    pub axis: usize,
    /// Number of iterations.
    pub extent: Dim,
    /// Its strides.
    pub strides: Strides,
}

/// `0 <= offset + row * stride + tap * dilation < limit`, else the data element counts as the padding value.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowBound {
    /// Position among the row axes, if a row axis occurs.
    pub row: Option<usize>,
    /// Position among the tap axes, if a tap axis occurs.
    pub tap: Option<usize>,
    /// Coefficient of the row axis.
    pub stride: i64,
    /// Coefficient of the tap axis.
    pub dilation: i64,
    /// Constant part (minus the padding).
    pub offset: Dim,
    /// Size of the data along the dimension.
    pub limit: Dim,
}

/// Everything a kernel needs to know, with strides from the present layouts.
#[derive(Clone, Debug)]
pub struct Description {
    /// Batch axes, slowest first.
    pub batches: Vec<KernelAxis>,
    /// Row axes, slowest first.
    pub rows: Vec<KernelAxis>,
    /// Tap axes, slowest first.
    pub taps: Vec<KernelAxis>,
    /// The contiguous reduction axis, if there is one.
    pub depth: Option<KernelAxis>,
    /// Column axes, slowest first; together contiguous in the output.
    pub columns: Vec<KernelAxis>,
    /// Padding.
    pub bounds: Vec<WindowBound>,
    /// Element of the data storage at which all axes are zero.
    pub data_offset: Dim,
    /// The same for the output.
    pub out_offset: Dim,
    /// The same for weights in their logical form, residual and bias.
    pub weights_offset: Dim,
    /// See above.
    pub residual_offset: Dim,
    /// See above.
    pub bias_offset: Dim,
}

impl Description {
    /// The batch axes along which weights change: along the others they are packed once.
    pub fn own_batches(&self) -> impl Iterator<Item = &KernelAxis> {
        self.batches.iter().filter(|axis| !axis.strides.weights.is(0))
    }

    /// Batches that have weights of their own.
    pub fn own_count(&self) -> Dim {
        self.own_batches().fold(Dim::constant(1), |n, axis| n * &axis.extent)
    }
}

impl Kernel {
    /// Appends the buffers that the kernel reads and writes.
    pub fn accesses(&self, reads: &mut Vec<BufferId>, writes: &mut Vec<BufferId>) {
        let replaced = match &self.kind {
            KernelKind::Contraction { weights, .. } => Some(*weights),
            KernelKind::Window { weights, .. } => *weights,
        };
        for (i, node) in self.nest.nodes.iter().enumerate() {
            if let Scalar::Load { access, .. } = node
                && Some(i as Node) != replaced
            {
                reads.push(access.buffer);
            }
        }
        writes.push(self.nest.store.buffer);
        match &self.kind {
            KernelKind::Contraction { packed, weights, at_run_time, method, .. } => {
                writes.extend(method.scratch());
                match at_run_time {
                    true => {
                        writes.push(*packed);
                        reads.extend(self.buffer_of(*weights));
                    }
                    false => reads.push(*packed),
                }
            }
            KernelKind::Window { packed, .. } => reads.extend(*packed),
        }
    }

    /// Replaces every buffer the kernel names.
    pub fn rename_buffers(&mut self, new: &dyn Fn(BufferId) -> BufferId) {
        self.nest.rename_buffers(new);
        match &mut self.kind {
            KernelKind::Contraction { packed, method, .. } => {
                *packed = new(*packed);
                method.scratch_mut().into_iter().for_each(|scratch| *scratch = new(*scratch));
            }
            KernelKind::Window { packed, .. } => packed.iter_mut().for_each(|b| *b = new(*b)),
        }
    }

    /// What the kernel is called in text forms.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            KernelKind::Window { op: WindowOp::Max, .. } => "window-max",
            KernelKind::Window { op: WindowOp::Sum, .. } => "window-sum",
            KernelKind::Window { op: WindowOp::Mean(_), .. } => "window-mean",
            kind => kind.name(),
        }
    }

    /// Working memory besides packed weights.
    pub fn scratch(&self) -> Option<BufferId> {
        match &self.kind {
            KernelKind::Contraction { method, .. } => method.scratch(),
            KernelKind::Window { .. } => None,
        }
    }

    /// The buffer of a load.
    pub fn buffer_of(&self, load: Node) -> Option<BufferId> {
        match self.nest.nodes.get(load as usize) {
            Some(Scalar::Load { access, .. }) => Some(access.buffer),
            _ => None,
        }
    }

    /// Strides, bounds and offsets for the present layouts; `None` where the nest is not of the kernel's form.
    pub fn describe(&self, program: &Program) -> Option<Description> {
        let weights = match &self.kind {
            KernelKind::Contraction { weights, .. } => Some(*weights),
            KernelKind::Window { weights, .. } => *weights,
        };
        let address = |load: Option<Node>| match load.and_then(|l| self.nest.nodes.get(l as usize)) {
            Some(Scalar::Load { access, .. }) => program.address(access.buffer, &access.index),
            _ => Dim::constant(0),
        };
        let data = address(Some(self.data));
        let operands = [
            data,
            address(weights),
            program.address(self.nest.store.buffer, &self.nest.store.index),
            address(self.epilogue.residual),
            address(self.epilogue.bias),
        ];
        let mut description = Description::with_offsets(&operands, self.nest.axes.len())?;
        for (axis, part) in self.parts.iter().enumerate() {
            let [data, weights, out, residual, bias] = stride_of(&operands, axis)?;
            let strides = Strides { data, weights, out, residual, bias };
            let one = KernelAxis { axis, extent: self.nest.axes.get(axis)?.extent.clone(), strides };
            match part {
                Part::Batch => description.batches.push(one),
                Part::Row => description.rows.push(one),
                Part::Tap => description.taps.push(one),
                Part::Depth => description.depth = Some(one),
                Part::Column => description.columns.push(one),
            }
        }
        description.bounds = self.window_bounds(&description)?;
        Some(description)
    }

    fn window_bounds(&self, description: &Description) -> Option<Vec<WindowBound>> {
        let Some(Scalar::Load { bounds, .. }) = self.nest.nodes.get(self.data as usize) else { return None };
        let position = |axes: &[KernelAxis], axis: usize| axes.iter().position(|a| a.axis == axis);
        let mut found = Vec::new();
        for bound in bounds {
            let (mut row, mut tap, mut offset) = (None, None, bound.value.clone());
            for axis in 0..self.nest.axes.len() {
                let factor = bound.value.coefficient(axis)?;
                if factor == 0 {
                    continue;
                }
                offset = offset.without(axis);
                let slot = match (position(&description.rows, axis), position(&description.taps, axis)) {
                    (Some(r), _) => row.replace((r, factor)).is_none(),
                    (_, Some(t)) => tap.replace((t, factor)).is_none(),
                    _ => false,
                };
                if !slot {
                    return None;
                }
            }
            found.push(WindowBound {
                row: row.map(|r| r.0),
                tap: tap.map(|t| t.0),
                stride: row.map_or(0, |r| r.1),
                dilation: tap.map_or(0, |t| t.1),
                offset,
                limit: bound.limit.clone(),
            });
        }
        Some(found)
    }
}

impl Description {
    fn with_offsets(operands: &[Dim; 5], axes: usize) -> Option<Self> {
        let mut offsets = operands.clone();
        for axis in 0..axes {
            for offset in &mut offsets {
                *offset = stride_free(offset, axis)?;
            }
        }
        let [data_offset, weights_offset, out_offset, residual_offset, bias_offset] = offsets;
        let empty = Vec::new;
        Some(Description {
            batches: empty(),
            rows: empty(),
            taps: empty(),
            depth: None,
            columns: empty(),
            bounds: Vec::new(),
            data_offset,
            out_offset,
            weights_offset,
            residual_offset,
            bias_offset,
        })
    }
}

fn stride_of(operands: &[Dim; 5], axis: usize) -> Option<[Dim; 5]> {
    let [a, b, c, d, e] = operands;
    Some([a.stride(axis)?, b.stride(axis)?, c.stride(axis)?, d.stride(axis)?, e.stride(axis)?])
}

fn stride_free(address: &Dim, axis: usize) -> Option<Dim> {
    Some(address.substitute(&|atom| match atom {
        crate::dim::Atom::Axis(a) if *a as usize == axis => Some(Dim::constant(0)),
        _ => None,
    }))
}
