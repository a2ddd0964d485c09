//! What happens to scores before the softmax, as data: a factor, and a mask or bias that is added.

use super::causal;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::plan::inline_constant;
use crate::program::kernel::{Epilogue, Kernel, Part};
use crate::program::nest::{Access, Binary, Const, Node, Scalar};
use crate::program::{Program, recognise};

/// Factors up to this keep products of keys finite, and addends up to this leave scores as they are but for rounding: a huge one
/// makes all scores equal.
const MOST: f32 = 1024.0;

/// Makes the epilogue of scores data where it is a factor, an addend, and a mask of which all is said by how many keys the first
/// row sees, and returns the factor; else it stays as it is.
/// Small numbers that are added to all scores change nothing: the softmax takes differences.
pub(super) fn simplify(program: &Program, kernel: &mut Kernel, seen: Option<&Dim>) -> f32 {
    match follow(program, kernel, seen) {
        Some((scale, residual)) => {
            kernel.epilogue = Epilogue { residual, ..Epilogue::default() };
            scale
        }
        None => 1.0,
    }
}

fn follow(program: &Program, kernel: &Kernel, seen: Option<&Dim>) -> Option<(f32, Option<Node>)> {
    let nest = &kernel.nest;
    let mut current = nest.nodes.iter().position(|node| *node == Scalar::Reduced)? as Node;
    let after = nest.after_reduction();
    let (mut scale, mut residual) = (1.0f32, None);
    while current != nest.result {
        let (next, node) = recognise::only_use(nest, current)?;
        if let (Scalar::Select(condition, a, _), Some(keys)) = (node, seen)
            && *a == current
            && causal::is_mask(kernel, *condition, keys)
        {
            current = next;
            continue;
        }
        let Scalar::Binary(function, a, b) = node else { return None };
        let other = if *a == current { *b } else { *a };
        if other == current || after.get(other as usize).copied().unwrap_or(true) {
            return None;
        }
        let scalar = nest.nodes.get(other as usize)?;
        let number = match scalar {
            Scalar::Const(Const::F32(value)) => Some(*value),
            scalar => match inline_constant(program, scalar) {
                Some(Const::F32(value)) => Some(value),
                _ => None,
            },
        };
        match (function, number, scalar) {
            (Binary::Mul, Some(factor), _) if residual.is_none() => scale *= factor,
            (Binary::Div, Some(divisor), _) if residual.is_none() && *a == current => scale /= divisor,
            (Binary::Add, Some(number), _) if number.abs() <= MOST => {}
            (Binary::Add, None, Scalar::Load { access, bounds, .. })
                if residual.is_none()
                    && bounds.is_empty()
                    && access.is_direct()
                    && is_addend(program, kernel, access) =>
            {
                residual = Some(other);
            }
            _ => return None,
        }
        current = next;
    }
    (scale.is_finite() && scale.abs() <= MOST).then_some((scale, residual))
}

/// Numbers that are contiguous along the columns.
fn is_addend(program: &Program, kernel: &Kernel, access: &Access) -> bool {
    let address = program.address(access.buffer, &access.index);
    let mut axes = kernel.nest.axes.iter().enumerate().take(kernel.nest.maps);
    program.buffer(access.buffer).element == ElementType::F32
        && axes.all(|(axis, size)| match (address.stride(axis), kernel.parts.get(axis)) {
            _ if size.extent.is(1) => true,
            (Some(stride), Some(Part::Column)) => stride.is(1),
            (Some(stride), _) => stride.range().min >= 0,
            (None, _) => false,
        })
}
