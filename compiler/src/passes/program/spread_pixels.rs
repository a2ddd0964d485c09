//! Pixels whose channels would share few sets of the nearest cache lie a cache line further apart: 512 channels, for one. A window
//! over them finds its lines where they were.

use super::blocks::{Outside, Users, for_each_block};
use super::embed::may_be_view;
use crate::diag::Diagnostics;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::options::Options;
use crate::program::kernel::{Kernel, KernelKind, WindowOp};
use crate::program::{BufferId, Program, Step, StepKind};
use include_ir_runtime::__private::v1::shares_sets;

/// Floats of a cache line.
const LINE: usize = 16;

/// Spreads what windows read, where only kernels use it.
pub fn spread_pixels(program: &mut Program, options: &Options, _: &mut Diagnostics) {
    if !options.has_vector_kernels() {
        return;
    }
    let fixed = program.fixed_layouts();
    for_each_block(program, &mut |program, steps, outside| {
        let users = Users::of(program, steps.iter().enumerate());
        for step in &steps {
            if let Some(data) = crowded_data(program, step)
                && is_free(program, data, outside, &fixed)
                && users.readers(data).iter().chain(users.writers(data)).all(|at| is_kernel(&steps[*at]))
                && let Some(pixels) = Pixels::of(program, data)
            {
                pixels.spread(program, data);
            }
        }
        steps
    });
}

fn is_kernel(step: &Step) -> bool {
    matches!(step.kind, StepKind::Kernel(_))
}

/// Whether a buffer may lie as it likes: only steps of this block see it.
fn is_free(program: &Program, id: BufferId, outside: &Outside, fixed: &[bool]) -> bool {
    let f32 = program.buffer(id).element == ElementType::F32;
    f32 && may_be_view(program, id) && !fixed[id.0 as usize] && !outside.sees(program, id)
}

/// What a window reads, if its pixels get into each other's way.
fn crowded_data(program: &Program, step: &Step) -> Option<BufferId> {
    let StepKind::Kernel(kernel) = &step.kind else { return None };
    if !matches!(kernel.kind, KernelKind::Window { op: WindowOp::Depthwise, .. }) {
        return None;
    }
    let (pixels, distance) = window(program, kernel)?;
    shares_sets(pixels, distance).then(|| kernel.buffer_of(kernel.data)).flatten()
}

/// Pixels that the windows of a line read, and their distance.
fn window(program: &Program, kernel: &Kernel) -> Option<(usize, isize)> {
    let description = kernel.describe(program)?;
    let (along, across) = description.taps.split_last()?;
    let (row, step) = (description.rows.last()?, along.strides.data.as_const().filter(|step| *step > 0)?);
    let outputs = row.extent.as_usize()?.checked_sub(1)?;
    let stride = usize::try_from(row.strides.data.as_const()?.checked_div(step)?).ok()?;
    let taps = along.extent.as_usize()?;
    // Pixels of windows that do not overlap are read once.
    let pixels = outputs.checked_mul(stride).filter(|last| *last > 0 && stride < taps)?.checked_add(taps)?;
    let lines = across.iter().try_fold(1usize, |lines, tap| lines.checked_mul(tap.extent.as_usize()?))?;
    Some((lines.checked_mul(pixels)?, isize::try_from(step).ok()?))
}

/// Pixels that lie one behind the other.
struct Pixels {
    /// The dimension of the channels, and how many there are.
    dim: usize,
    channels: usize,
}

impl Pixels {
    fn of(program: &Program, id: BufferId) -> Option<Self> {
        let buffer = program.buffer(id);
        let dims = buffer.dims.iter().map(Dim::as_usize).collect::<Option<Vec<_>>>()?;
        let strides = buffer.layout.strides.iter().map(Dim::as_usize).collect::<Option<Vec<_>>>()?;
        let dim = strides.iter().zip(&dims).position(|(stride, dim)| *stride == 1 && *dim > 1)?;
        let channels = dims[dim];
        let mut others = strides.iter().zip(&dims).enumerate().filter(|(i, (_, extent))| *i != dim && **extent > 1);
        others.all(|(_, (stride, _))| stride % channels == 0).then_some(Pixels { dim, channels })
    }

    /// Gives the buffer wider pixels.
    fn spread(self, program: &mut Program, id: BufferId) {
        let wide = self.channels + LINE;
        for (i, stride) in program.buffer_mut(id).layout.strides.iter_mut().enumerate() {
            if let Some(distance) = stride.as_usize().filter(|_| i != self.dim) {
                *stride = Dim::from(distance / self.channels * wide);
            }
        }
    }
}
