//! Random numbers: RandomUniform.

mod multinomial;
mod words;

use crate::diag::{Diagnostic, codes};
use crate::dim::{Dim, product};
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::{self, flatten, operand, shape_error};
use crate::op::{InferContext, Op, OpDef, Props, Support, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Const, Node};
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;
use words::{Seeds, Words};

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("Multinomial", 13..=17, 2, multinomial::parse),
    row("RandomUniform", 8..=17, 3, |a| {
        let element = a.element_type("output_type")?;
        use ElementType::*;
        if !matches!(element, F16 | Bf16 | F32 | F64 | I32 | I64) {
            return Err(a.invalid("output_type", "one of `f16`, `bf16`, `f32`, `f64`, `i32`, `i64`"));
        }
        let alignments = [("tensorflow", Alignment::TensorFlow), ("pytorch", Alignment::PyTorch)];
        let alignment = a.choice_or("alignment", &alignments, Alignment::TensorFlow)?;
        Ok(Rc::new(RandomUniform { element, seeds: Seeds::parse(a)?, alignment }))
    }),
];

const fn row(
    name: &'static str,
    opsets: RangeInclusive<u8>,
    inputs: usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name,
        version: *opsets.start(),
        opsets,
        inputs: inputs..=inputs,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// Whose random numbers these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alignment {
    /// Philox4x32-10: `global_seed` is the key, `op_seed` and the number of the block the counter.
    TensorFlow,
    /// Mersenne twister with the lower half of `global_seed`.
    PyTorch,
}

/// RandomUniform-8: numbers from operand 1 (inclusive) to operand 2 (exclusive) in the shape that operand 0 gives.
///
/// Philox goes on from run to run, 256 blocks for each that was used, as the reference does; a reset begins anew. The
/// Mersenne twister gives the same numbers in every run. Seeds that are both zero are seeds like others: the sequence,
/// which the specification leaves open, is always the same.
#[derive(Debug)]
struct RandomUniform {
    element: ElementType,
    seeds: Seeds,
    alignment: Alignment,
}

impl RandomUniform {
    /// How many words of 32 bits a result takes from the sequence; those of the Mersenne twister that take two, or one
    /// where both limits are small, are counted as two.
    fn words(&self) -> i64 {
        if matches!(self.element, ElementType::F64 | ElementType::I64) { 2 } else { 1 }
    }

    /// The only element of a limit.
    fn limit(n: &mut NestBuilder, limit: BufferId) -> Result<Node, Diagnostic> {
        let origin = vec![Dim::constant(0); n.dims(limit).len()];
        n.load(limit, &origin)
    }

    fn value(&self, n: &mut NestBuilder, words: &Words, at: &Dim, limits: [Node; 2]) -> Result<Node, Diagnostic> {
        match self.element {
            ElementType::I32 | ElementType::I64 => self.integer(n, words, at, limits),
            _ => {
                let unit = words.unit(n, at, self.element, self.alignment)?;
                Ok(self.scaled(n, unit, limits))
            }
        }
    }

    /// `unit * (high - low) + low`. TensorFlow's narrow numbers are rounded after every step, PyTorch's at the end.
    fn scaled(&self, n: &mut NestBuilder, unit: Node, [low, high]: [Node; 2]) -> Node {
        let range = n.binary(Binary::Sub, high, low);
        let range = n.cast(self.element, range);
        let mut value = n.binary(Binary::Mul, unit, range);
        if self.alignment == Alignment::TensorFlow {
            value = n.cast(self.element, value);
        }
        n.binary(Binary::Add, value, low)
    }

    /// `word mod (high - low) + low`, unsigned and wrapping.
    fn integer(&self, n: &mut NestBuilder, words: &Words, at: &Dim, limits: [Node; 2]) -> Result<Node, Diagnostic> {
        let [low, high] = limits.map(|limit| n.cast(ElementType::I64, limit));
        let range = n.binary(Binary::Sub, high, low);
        let mut range = n.cast(ElementType::U64, range);
        let word = match (self.element, self.alignment) {
            (ElementType::I32, _) => {
                let mask = n.constant(Const::U64(u64::from(u32::MAX)));
                range = n.binary(Binary::And, range, mask);
                words.word(n, at)?
            }
            (_, Alignment::TensorFlow) => words.pair(n, at, false)?,
            (_, Alignment::PyTorch) => {
                // Limits of 32 bits take one word.
                let largest = n.constant(Const::I64(i64::from(u32::MAX)));
                let [low, high] = [low, high].map(|limit| n.binary(Binary::Le, limit, largest));
                let short = n.binary(Binary::And, low, high);
                let (one, two) = (words.word(n, at)?, words.pair(n, at, true)?);
                n.select(short, one, two)
            }
        };
        let rest = n.binary(Binary::Rem, word, range);
        let rest = n.cast(ElementType::I64, rest);
        Ok(n.binary(Binary::Add, rest, low))
    }
}

impl Op for RandomUniform {
    fn props(&self) -> Props {
        Props { effect: self.alignment == Alignment::TensorFlow, ..Props::default() }
    }

    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let (shape, low, high) = (operand(inputs, 0)?, operand(inputs, 1)?, operand(inputs, 2)?);
        for limit in [low, high] {
            if limit.element != self.element {
                let message = format!("a limit is {}, the result {}", limit.element, self.element);
                return Err(Diagnostic::error(&codes::TYPE, message).help("insert a Convert layer"));
            }
            if !limit.dims.iter().all(|dim| dim.is(1)) {
                return Err(shape_error("limits must be one number each"));
            }
        }
        if let (Some([low]), Some([high])) = (number(low).as_deref(), number(high).as_deref())
            && low >= high
        {
            let message = format!("there is no number from {low} to {high}, which is left out");
            return Err(Diagnostic::error(&codes::VALUE, message));
        }
        typing::integer(shape.element, "the shape")?;
        if shape.rank() > 1 {
            return Err(shape_error(format!("the shape has {} dimensions, not 1", shape.rank())));
        }
        let inputs = &*context.sized(inputs, &[0], "the shape of random numbers", &Dim::constant(1))?;
        let dims = operands::sizes(inputs, 0, "the shape of random numbers")?;
        if let Some(dim) = dims.iter().find(|dim| dim.range().max < 0) {
            return Err(Diagnostic::error(&codes::VALUE, format!("the shape contains {dim}")));
        }
        Ok(vec![Fact::new(self.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (low, high, out) = (builder.input(1)?, builder.input(2)?, builder.output(0)?);
        let dims = builder.dims(out);
        let count = product(&dims) * self.words();
        let words = match self.alignment {
            Alignment::TensorFlow => {
                let passed = builder.memory(ElementType::U64, Vec::new());
                let words = Words::philox(builder, self.seeds, &count, Some(passed))?;
                skip(builder, passed, &words::blocks(&count))?;
                words
            }
            Alignment::PyTorch => Words::mersenne(builder, self.seeds, &count)?,
        };
        builder.map(out, |n, i| {
            let limits = [Self::limit(n, low)?, Self::limit(n, high)?];
            self.value(n, &words, &flatten(i, &dims), limits)
        })
    }
}

/// The elements of a constant.
fn number(fact: &Fact) -> Option<Vec<f64>> {
    fact.as_constant()?.to_f64s()
}

/// Notes that the blocks of a run have been used: 256 numbers are set aside for each.
fn skip(builder: &mut Builder, passed: BufferId, blocks: &Dim) -> Result<(), Diagnostic> {
    builder.map(passed, |n, i| {
        let (passed, used) = (n.load(passed, i)?, n.index(&(blocks.clone() * 256)));
        let used = n.cast(ElementType::U64, used);
        Ok(n.binary(Binary::Add, passed, used))
    })
}
