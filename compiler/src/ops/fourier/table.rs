//! Roots of unity as constant tables. They are computed in f64 by functions of the runtime, the same on every machine,
//! and rounded once.

use crate::diag::{Diagnostic, codes};
use crate::element::ElementType;
use crate::program::BufferId;
use crate::program::builder::Builder;
use crate::tensor::Tensor;
use include_ir_runtime::__private::v1::math;
use std::f64::consts::TAU;

/// Elements that a table may have.
const MAX_ELEMENTS: usize = 1 << 26;

/// Cosine and sine of `k / n` turns, from an angle of at most an eighth of a turn: exact for quarters of a turn.
pub(super) fn root(k: i64, n: i64) -> (f64, f64) {
    let (mut k, mut n) = (k.rem_euclid(n.max(1)), n.max(1));
    let lower = 2 * k > n;
    if lower {
        k = n - k;
    }
    let left = 4 * k > n;
    if left {
        (k, n) = (n - 2 * k, 2 * n);
    }
    let steep = 8 * k > n;
    if steep {
        (k, n) = (n - 4 * k, 4 * n);
    }
    let angle = TAU * k as f64 / n as f64;
    let (cos, sin) = (math::cos_f64(angle), math::sin_f64(angle));
    let (cos, sin) = if steep { (sin, cos) } else { (cos, sin) };
    (if left { -cos } else { cos }, if lower { -sin } else { sin })
}

/// The factor of part `from` (0: real, 1: imaginary) in part `to` of a product with the complex number `(re, im)`.
pub(super) fn rotation((re, im): (f64, f64), from: i64, to: i64) -> f64 {
    match (from, to) {
        (0, 0) | (1, 1) => re,
        (0, _) => im,
        _ => -im,
    }
}

/// A constant with the value of `value` at every index.
///
/// # Errors
/// A table that is too large.
pub(super) fn constant<const N: usize>(
    builder: &mut Builder,
    element: ElementType,
    dims: [i64; N],
    value: impl Fn([i64; N]) -> f64,
) -> Result<BufferId, Diagnostic> {
    let count = dims.iter().try_fold(1usize, |n, dim| n.checked_mul(usize::try_from(*dim).ok()?));
    let Some(count) = count.filter(|count| *count <= MAX_ELEMENTS) else {
        return Err(Diagnostic::error(&codes::LIMIT, "the table of a Fourier transform is too large"));
    };
    let mut bytes = Vec::with_capacity(count * 8);
    for flat in 0..count {
        let mut rest = flat as i64;
        let mut index = [0; N];
        for (slot, dim) in index.iter_mut().zip(dims).rev() {
            (*slot, rest) = (rest % dim, rest / dim);
        }
        let value = value(index);
        match element {
            ElementType::F64 => bytes.extend_from_slice(&value.to_le_bytes()),
            _ => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
        }
    }
    let dims = dims.iter().filter_map(|dim| usize::try_from(*dim).ok()).collect();
    let element = if element == ElementType::F64 { element } else { ElementType::F32 };
    Ok(builder.constant(Tensor { element, dims, bytes: bytes.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_exact_where_they_can_be_and_close_elsewhere() {
        for n in 1..40 {
            for k in -2 * n..2 * n {
                let (cos, sin) = root(k, n);
                let angle = TAU * k as f64 / n as f64;
                assert!((cos - angle.cos()).abs() < 1e-14 && (sin - angle.sin()).abs() < 1e-14, "{k}/{n}");
            }
        }
        assert_eq!(root(1, 4), (0.0, 1.0));
        assert_eq!(root(2, 4).0, -1.0);
        assert_eq!(root(6, 8), (0.0, -1.0));
        assert_eq!(root(5, 0).0, 1.0);
    }
}
