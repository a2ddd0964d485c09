//! Calls of runtime functions: tensors as typed elements, and the sizes that a function finds.

use super::Interpreter;
use crate::dim::Variable;
use crate::element::ElementType;
use crate::program::{BufferId, Call};
use crate::tensor::Tensor;
use include_ir_runtime::calls::{Arguments, Operand, Target};
use include_ir_runtime::cx::Cx;

/// The elements of a tensor, typed.
enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
}

impl Values {
    /// The elements of a tensor; for a result, which has none yet, zeros.
    fn read(element: ElementType, bytes: &[u8]) -> Result<Values, String> {
        macro_rules! wide {
            ($ty:ty, $variant:ident) => {{
                let (chunks, _) = bytes.as_chunks::<{ size_of::<$ty>() }>();
                Values::$variant(chunks.iter().map(|bytes| <$ty>::from_le_bytes(*bytes)).collect())
            }};
        }
        Ok(match element {
            ElementType::F32 => wide!(f32, F32),
            ElementType::F64 => wide!(f64, F64),
            ElementType::I32 => wide!(i32, I32),
            ElementType::I64 => wide!(i64, I64),
            ElementType::U8 | ElementType::Boolean => Values::U8(bytes.to_vec()),
            other => return Err(format!("no function takes elements of type {other}")),
        })
    }

    fn operand<'a>(&'a self, dims: &'a [usize]) -> Operand<'a> {
        match self {
            Values::F32(v) => Operand::new(v, dims),
            Values::F64(v) => Operand::new(v, dims),
            Values::I32(v) => Operand::new(v, dims),
            Values::I64(v) => Operand::new(v, dims),
            Values::U8(v) => Operand::new(v, dims),
        }
    }

    fn target<'a>(&'a mut self, dims: &'a [usize]) -> Target<'a> {
        match self {
            Values::F32(v) => Target::new(v, dims),
            Values::F64(v) => Target::new(v, dims),
            Values::I32(v) => Target::new(v, dims),
            Values::I64(v) => Target::new(v, dims),
            Values::U8(v) => Target::new(v, dims),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Values::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::F64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::I32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::I64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Values::U8(v) => v.clone(),
        }
    }
}

impl Interpreter<'_> {
    /// Runs a function of the runtime.
    pub(super) fn call(&mut self, call: &Call) -> Result<(), String> {
        for variable in &call.sizes {
            self.set_size(variable.id, variable.max);
        }
        let inputs: Vec<(Values, Vec<usize>)> =
            call.inputs.iter().map(|buffer| self.values(*buffer)).collect::<Result<_, _>>()?;
        let mut outputs: Vec<(Values, Vec<usize>)> =
            call.outputs.iter().map(|buffer| self.zeros(*buffer)).collect::<Result<_, _>>()?;
        let operands: Vec<Operand> = inputs.iter().map(|(values, dims)| values.operand(dims)).collect();
        let mut targets: Vec<Target> = outputs.iter_mut().map(|(values, dims)| values.target(dims)).collect();
        let integers: Vec<i64> = call.integers.iter().map(|dim| self.size(dim)).collect();
        let mut sizes = vec![0usize; call.sizes.len()];
        (call.function.run)(Arguments {
            cx: Cx::detect(),
            inputs: &operands,
            outputs: &mut targets,
            integers: &integers,
            floats: &call.floats,
            sizes: &mut sizes,
        });
        for (variable, found) in call.sizes.iter().zip(sizes) {
            let found = i64::try_from(found).unwrap_or(i64::MAX);
            let max = self.room(variable);
            if !(variable.min..=max).contains(&found) {
                let min = variable.min;
                self.refused = true;
                return Err(format!(
                    "a size that `{}` finds is {found}, compiled for {min} to {max}",
                    call.function.name
                ));
            }
            self.set_size(variable.id, found);
        }
        for (buffer, (values, _)) in call.outputs.iter().zip(outputs) {
            self.write_prefix(*buffer, &values)?;
        }
        Ok(())
    }

    /// The largest value of a size: what others leave of the capacity that they share.
    fn room(&self, variable: &Variable) -> i64 {
        let Some(shared) = variable.shared else { return variable.max };
        let before = self.variables.get(shared.first as usize..variable.id as usize).unwrap_or(&[]);
        before.iter().fold(shared.max, |room, size| room / (*size).max(1)).min(variable.max)
    }

    pub(super) fn set_size(&mut self, variable: u32, value: i64) {
        if let Some(slot) = self.variables.get_mut(variable as usize) {
            *slot = value;
        }
    }

    fn values(&self, buffer: BufferId) -> Result<(Values, Vec<usize>), String> {
        let tensor = self.tensor(buffer)?;
        Ok((Values::read(tensor.element, tensor.bytes.as_slice())?, tensor.dims))
    }

    fn zeros(&self, id: BufferId) -> Result<(Values, Vec<usize>), String> {
        let buffer = self.program.buffer(id);
        let dims: Vec<usize> = buffer.dims.iter().map(|d| self.extent(d)).collect::<Result<_, _>>()?;
        let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let bytes = count.and_then(|n| buffer.element.storage_bytes(n)).ok_or("a buffer does not fit memory")?;
        Ok((Values::read(buffer.element, &vec![0; bytes])?, dims))
    }

    /// Writes the elements that the buffer has under the present sizes: those behind them were capacity.
    fn write_prefix(&mut self, id: BufferId, values: &Values) -> Result<(), String> {
        let buffer = self.program.buffer(id);
        let dims: Vec<usize> = buffer.dims.iter().map(|d| self.extent(d)).collect::<Result<_, _>>()?;
        let tensor = Tensor::new(buffer.element, dims, values.bytes().into()).ok_or("a function wrote too little")?;
        self.write(id, &tensor)
    }
}
