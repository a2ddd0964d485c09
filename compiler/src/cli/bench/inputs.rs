//! Inputs to run a model on: given arrays, or random ones.

use crate::cli::npz::{Array, Arrays, kind};
use crate::element::ElementType;
use crate::output::Port;

/// Most elements of a random input.
const MOST: usize = 1 << 32;

/// Random arrays `in0`, `in1`, ...: numbers around 0 of deviation 1; integers are 0 or 1, because they often are indices
/// or masks. A run-time size is at its bound.
///
/// # Errors
/// An input that no array can hold.
pub fn random(ports: &[Port]) -> Result<Arrays, String> {
    let mut bits = Bits(0x9E37_79B9_7F4A_7C15);
    let array = |(i, port): (usize, &Port)| {
        let problem = |what: &str| format!("input `{}` {what}; give `--inputs FILE` or `--shape`", port.name);
        let kind = kind(port.element).ok_or_else(|| problem("has a type that no array can hold"))?;
        let dims: Vec<usize> =
            port.dims.iter().map(|dim| usize::try_from(dim.upper_bound()).unwrap_or(usize::MAX)).collect();
        let count = dims.iter().try_fold(1usize, |n, dim| n.checked_mul(*dim)).filter(|count| *count <= MOST);
        let count = count.ok_or_else(|| problem("is too large at the bounds of its sizes"))?;
        let mut bytes = Vec::new();
        for _ in 0..count {
            bits.element(port.element, &mut bytes);
        }
        Ok((format!("in{i}"), Array { kind: kind.to_owned(), dims, bytes }))
    };
    ports.iter().enumerate().map(array).collect()
}

/// Random bits (xorshift), the same on every machine.
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The sum of four uniform numbers: near enough to a normal distribution of deviation 1.
    fn number(&mut self) -> f64 {
        let uniform = |part: u64| part as f64 / 65536.0 - 0.5;
        let bits = self.next();
        (0..4).map(|i| uniform((bits >> (16 * i)) & 0xFFFF)).sum::<f64>() * 3f64.sqrt()
    }

    fn element(&mut self, element: ElementType, out: &mut Vec<u8>) {
        use ElementType::*;
        match element {
            F64 => out.extend(self.number().to_le_bytes()),
            F32 => out.extend((self.number() as f32).to_le_bytes()),
            F16 => out.extend(half::f16::from_f64(self.number()).to_le_bytes()),
            Bf16 => out.extend(half::bf16::from_f64(self.number()).to_le_bytes()),
            // Positive numbers of at most a few units, whatever the split into exponent and mantissa.
            F8e4m3 | F8e5m2 => out.push((self.next() % 0x40) as u8),
            F8e8m0 => out.push(127),
            element => {
                let size = element.bits().div_ceil(8).max(1) as usize;
                out.extend((self.next() >> 40 & 1).to_le_bytes().into_iter().take(size));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Dim;

    #[test]
    fn every_element_type_has_random_arrays() {
        for element in ElementType::all().filter(|element| kind(*element).is_some()) {
            let dims = vec![Dim::constant(3), Dim::constant(5)];
            let (field, name) = ("x".to_owned(), "x".to_owned());
            let arrays = random(&[Port { field, name, tensor_names: Vec::new(), element, dims }]).unwrap();
            let tensor = arrays["in0"].to_tensor(element).unwrap();
            assert_eq!(tensor.len(), 15, "{element}");
        }
        let mut bits = Bits(1);
        let numbers: Vec<f64> = (0..10_000).map(|_| bits.number()).collect();
        let mean = numbers.iter().sum::<f64>() / 1e4;
        let variance = numbers.iter().map(|x| x * x).sum::<f64>() / 1e4;
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.1, "{mean} {variance}");
    }
}
