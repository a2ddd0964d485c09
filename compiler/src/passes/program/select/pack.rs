//! Weights in the order in which kernels read them.

use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::program::kernel::{Description, Kernel, KernelAxis, KernelKind};
use crate::program::{BufferId, Program, Role};
use crate::tensor::Tensor;
use include_ir_runtime::__private::v1 as runtime;

/// Panels of a contraction: a packed constant, or scratch for weights that are computed (then `true`).
pub(super) fn contraction(
    program: &mut Program,
    kernel: &Kernel,
    description: &Description,
    panel: usize,
) -> Option<(BufferId, bool)> {
    let KernelKind::Contraction { weights, .. } = &kernel.kind else { return None };
    let source = kernel.buffer_of(*weights)?;
    let extent = |axes: &[KernelAxis]| product(&axes.iter().map(|a| a.extent.clone()).collect::<Vec<_>>());
    let depth = description.depth.as_ref().map_or(Dim::constant(1), |axis| axis.extent.clone());
    let k = usize::try_from((extent(&description.taps) * &depth).upper_bound()).ok()?;
    let columns = usize::try_from(extent(&description.columns).upper_bound()).ok()?;
    let batches = usize::try_from(description.own_count().upper_bound()).ok()?;
    let one = runtime::packed_len(columns, k, panel);
    let length = one.checked_mul(batches)?;
    let name = program.buffer(source).name.clone();
    let Some(tensor) = program.buffer(source).constant().cloned() else {
        let scratch = program.add_buffer(&name, ElementType::F32, vec![Dim::from(length)], Role::Scratch);
        return Some((scratch, true));
    };
    let values = Values::new(&tensor)?;
    let reduction = flattened(description.taps.iter().chain(&description.depth))?;
    let column = Offsets::new(flattened(&description.columns)?);
    let (batch, offset) = (flattened(description.own_batches())?, description.weights_offset.as_const()?);
    let mut packed = vec![[0; 4]; length];
    for (b, part) in packed.chunks_exact_mut(one.max(1)).enumerate().take(batches) {
        let start = offset + batch.get(b).copied().unwrap_or(0);
        runtime::pack_lines(columns, k, panel, part, |k, n, line| values.read(start + reduction[k], &column, n, line));
    }
    Some((program.add_constant(&name, f32_tensor(packed)), false))
}

/// Depthwise weights as [tap][channel].
pub(super) fn depthwise(program: &mut Program, kernel: &Kernel, description: &Description) -> Option<BufferId> {
    let KernelKind::Window { weights: Some(weights), .. } = &kernel.kind else { return None };
    let source = kernel.buffer_of(*weights)?;
    let tensor = program.buffer(source).constant()?.clone();
    let values = Values::new(&tensor)?;
    let (taps, channels) = (flattened(&description.taps)?, Offsets::new(flattened(&description.columns)?));
    let offset = description.weights_offset.as_const()?;
    let mut packed = vec![[0; 4]; taps.len() * channels.list.len()];
    for (tap, line) in taps.iter().zip(packed.chunks_exact_mut(channels.list.len().max(1))) {
        values.read(offset + tap, &channels, 0, line);
    }
    let name = program.buffer(source).name.clone();
    Some(program.add_constant(&name, f32_tensor(packed)))
}

/// The buffer of depthwise weights that are computed as [tap][channel].
pub(super) fn in_place(program: &Program, kernel: &Kernel, description: &Description) -> Option<BufferId> {
    let KernelKind::Window { weights: Some(weights), .. } = &kernel.kind else { return None };
    let source = kernel.buffer_of(*weights)?;
    let buffer = program.buffer(source);
    let mut stride = Dim::constant(1);
    let in_order = description.taps.iter().chain(&description.columns).rev().all(|axis| {
        let follows = axis.extent.is(1) || axis.strides.weights == stride;
        stride = stride.clone() * &axis.extent;
        follows
    });
    let whole = buffer.layout.offset.is(0) && description.weights_offset.is(0) && buffer.len() == stride;
    (in_order && whole && buffer.element == ElementType::F32).then_some(source)
}

/// Element offsets in the weights of all points of some axes, slowest first.
pub(super) fn flattened<'a>(axes: impl IntoIterator<Item = &'a KernelAxis>) -> Option<Vec<i64>> {
    let mut offsets = vec![0];
    for axis in axes {
        let (extent, stride) = (axis.extent.as_const()?, axis.strides.weights.as_const()?);
        offsets = offsets.iter().flat_map(|offset| (0..extent).map(move |i| offset + i * stride)).collect();
    }
    Some(offsets)
}

/// Offsets of neighbours, and whether they follow each other.
pub(super) struct Offsets {
    pub list: Vec<i64>,
    contiguous: bool,
}

impl Offsets {
    pub fn new(list: Vec<i64>) -> Self {
        let contiguous = list.windows(2).all(|pair| pair[1] == pair[0] + 1);
        Offsets { list, contiguous }
    }
}

/// The elements of f32 weights.
///
/// Weights have a hundred million elements, and build scripts are not optimised: elements stay bytes, and inner loops call
/// nothing.
pub(in crate::passes) struct Values<'t> {
    chunks: &'t [[u8; 4]],
}

impl<'t> Values<'t> {
    pub(in crate::passes) fn new(tensor: &'t Tensor) -> Option<Self> {
        (tensor.element == ElementType::F32).then(|| Values { chunks: tensor.bytes.as_slice().as_chunks::<4>().0 })
    }

    /// The caller's indices lie inside: they come from the extents of the tensor's own nest.
    pub(in crate::passes) fn at(&self, index: i64) -> f32 {
        let at = index as usize;
        if at < self.chunks.len() { f32::from_le_bytes(self.chunks[at]) } else { 0.0 }
    }

    /// The elements at `start` and the offsets from `first` on; indices as for [`Values::at`].
    pub(super) fn read(&self, start: i64, offsets: &Offsets, first: usize, line: &mut [[u8; 4]]) {
        let (from, offsets, contiguous) =
            (self.chunks, offsets.list.get(first..).unwrap_or_default(), offsets.contiguous);
        if contiguous && let Some(at) = offsets.first().and_then(|offset| usize::try_from(start + offset).ok()) {
            if let Some(whole) = from.get(at..at.saturating_add(line.len())) {
                line.copy_from_slice(whole);
            }
            return;
        }
        let (count, length, mut i) = (line.len().min(offsets.len()), from.len(), 0);
        while i < count {
            let at = (start + offsets[i]) as usize;
            if at < length {
                line[i] = from[at];
            }
            i += 1;
        }
    }
}

/// A constant of the elements, in a row.
pub(super) fn f32_tensor(elements: Vec<[u8; 4]>) -> Tensor {
    Tensor { element: ElementType::F32, dims: vec![elements.len()], bytes: elements.into_flattened().into() }
}
