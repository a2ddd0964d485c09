//! Compares outputs: floats within a tolerance, everything else exactly.

use super::Tolerance;
use crate::cli::npz::{self, Array};
use crate::element::ElementType;
use include_ir_runtime::__private::v1::cast;

/// How far an output is from what was expected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distance {
    /// Largest absolute difference.
    pub max_abs: f64,
    /// Largest difference relative to the expected value, where that is not zero.
    pub max_rel: f64,
    /// Elements outside the tolerance.
    pub wrong: usize,
    /// The first of them.
    pub first: Option<String>,
}

/// Compares one output. NaN equals NaN; infinities must be equal.
///
/// # Errors
/// One line: types or shapes differ.
pub fn compare(element: ElementType, got: &Array, expected: &Array, tolerance: Tolerance) -> Result<Distance, String> {
    if npz::kind(element) != Some(expected.kind.as_str()) {
        return Err(format!("type is {element}, expected.npz holds numpy type `{}`", expected.kind));
    }
    if got.dims != expected.dims {
        return Err(format!("shape is {:?}, expected {:?}", got.dims, expected.dims));
    }
    let mut distance = Distance::default();
    for (index, (a, b)) in values(element, got).zip(values(element, expected)).enumerate() {
        distance.add(index, a, b, if element.is_float() { tolerance } else { Tolerance::EXACT });
    }
    Ok(distance)
}

impl Distance {
    fn add(&mut self, index: usize, got: Value, expected: Value, tolerance: Tolerance) {
        let (a, b) = (got.as_f64(), expected.as_f64());
        if got == expected || a.is_nan() && b.is_nan() {
            return;
        }
        let abs = (a - b).abs();
        // An infinity or NaN on one side only is infinitely far away.
        let abs = if abs.is_nan() { f64::INFINITY } else { abs };
        self.max_abs = self.max_abs.max(abs);
        if b != 0.0 && b.is_finite() {
            self.max_rel = self.max_rel.max(abs / b.abs());
        }
        let allowed = tolerance.abs + tolerance.rel * b.abs();
        let inside = abs.is_finite() && abs <= allowed && tolerance != Tolerance::EXACT;
        if !inside {
            self.wrong += 1;
            self.first.get_or_insert_with(|| format!("[{index}] is {a}, expected {b}"));
        }
    }
}

/// An element: integers are not rounded to floats.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Float(f64),
    Integer(i128),
}

impl Value {
    fn as_f64(self) -> f64 {
        match self {
            Value::Float(value) => value,
            Value::Integer(value) => value as f64,
        }
    }
}

fn values(element: ElementType, array: &Array) -> impl Iterator<Item = Value> + '_ {
    let size = array.kind.get(1..).and_then(|digits| digits.parse().ok()).unwrap_or(1);
    array.bytes.chunks_exact(size).map(move |bytes| value(element, bytes))
}

fn value(element: ElementType, bytes: &[u8]) -> Value {
    use ElementType::*;
    let mut wide = [0u8; 8];
    wide.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    let bits = u64::from_le_bytes(wide);
    let float = match element {
        F32 => f64::from(f32::from_bits(bits as u32)),
        F64 => f64::from_bits(bits),
        F16 => f64::from(cast::f16_bits_to_f32(bits as u16)),
        Bf16 => f64::from(cast::bf16_bits_to_f32(bits as u16)),
        F8e4m3 => f64::from(cast::f8e4m3_bits_to_f32(bits as u8)),
        F8e5m2 => f64::from(cast::f8e5m2_bits_to_f32(bits as u8)),
        F8e8m0 => f64::from(cast::f8e8m0_bits_to_f32(bits as u8)),
        Nf4 => f64::from(cast::nf4_bits_to_f32(bits as u8)),
        F4e2m1 => f64::from(cast::f4e2m1_bits_to_f32(bits as u8)),
        I4 | I8 => return Value::Integer(i128::from(bits as u8 as i8)),
        I16 => return Value::Integer(i128::from(bits as u16 as i16)),
        I32 => return Value::Integer(i128::from(bits as u32 as i32)),
        I64 => return Value::Integer(i128::from(bits as i64)),
        _ => return Value::Integer(i128::from(bits)),
    };
    Value::Float(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Array {
        Array {
            kind: "f4".into(),
            dims: vec![values.len()],
            bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    #[test]
    fn special_values_and_tolerance() {
        let tolerance = Tolerance { abs: 0.1, rel: 0.0 };
        let far = |a: f32, b: f32| compare(ElementType::F32, &floats(&[a]), &floats(&[b]), tolerance).unwrap().wrong;
        assert_eq!(far(f32::NAN, f32::NAN) + far(1.0, 1.05) + far(f32::INFINITY, f32::INFINITY), 0);
        assert_eq!(far(f32::NAN, 1.0) + far(1.0, f32::NAN) + far(1.0, 1.2), 3);
        assert_eq!(far(f32::INFINITY, f32::NEG_INFINITY) + far(f32::INFINITY, 1.0) + far(1.0, f32::INFINITY), 3);
    }

    #[test]
    fn integers_are_exact_and_shapes_matter() {
        let array = |v: i64| Array { kind: "i8".into(), dims: vec![], bytes: v.to_le_bytes().to_vec() };
        let wide = Tolerance { abs: 10.0, rel: 1.0 };
        assert_eq!(compare(ElementType::I64, &array(i64::MAX), &array(i64::MAX - 1), wide).unwrap().wrong, 1);
        assert_eq!(compare(ElementType::I64, &array(-3), &array(-3), wide).unwrap().wrong, 0);
        assert!(compare(ElementType::F32, &floats(&[1.0]), &floats(&[1.0, 2.0]), wide).is_err());
        assert!(compare(ElementType::F64, &floats(&[1.0]), &floats(&[1.0]), wide).is_err());
    }
}
