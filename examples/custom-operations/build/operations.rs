//! The operations of the model that the compiler does not know.

use crate::median;
use include_ir_compiler::extension::{
    Attributes, Binary, Builder, Call, Diagnostic, Dim, ElementType, Extension, Fact, Function, InferContext, Op,
    Unary, codes,
};

/// `exp(-x^2 / (2 sigma^2))`, element by element: a loop nest, which the compiler fuses, vectorises and folds.
#[derive(Debug)]
struct Gaussian {
    sigma: f64,
}

/// `<layer type="Gaussian" version="extension"><data sigma="0.5"/>`; sigma is 1 by default.
pub fn gaussian() -> Extension {
    Extension::new("Gaussian", |attributes: &Attributes| {
        let sigma = attributes.float_or("sigma", 1.0)?;
        if sigma > 0.0 { Ok(Gaussian { sigma }) } else { Err(attributes.invalid("sigma", "greater than 0")) }
    })
}

impl Op for Gaussian {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        Ok(inputs.iter().map(|x| Fact::new(x.element, x.dims.clone())).collect())
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, y) = (builder.input(0)?, builder.output(0)?);
        builder.map(y, |nest, index| {
            let x = nest.load(x, index)?;
            let square = nest.binary(Binary::Mul, x, x);
            let factor = nest.constant_like(x, -0.5 / (self.sigma * self.sigma));
            let exponent = nest.binary(Binary::Mul, square, factor);
            Ok(nest.unary(Unary::Exp, exponent))
        })
    }
}

/// The median of a window around every element of the last dimension: no loop nest, so the program's own function
/// computes it. The build script includes the same file, for constants that it folds.
#[derive(Debug)]
struct Median {
    window: i64,
}

/// `<layer type="Median" version="filters"><data window="5"/>`.
pub fn median() -> Extension {
    let parse = |attributes: &Attributes| match attributes.int("window")? {
        window if (1..=99).contains(&window) && window % 2 == 1 => Ok(Median { window }),
        _ => Err(attributes.invalid("window", "an odd number from 1 to 99")),
    };
    Extension::new("Median", parse).opset("filters")
}

impl Op for Median {
    fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        match inputs {
            [x] if x.element == ElementType::F32 && x.rank() > 0 => Ok(vec![Fact::new(x.element, x.dims.clone())]),
            _ => Err(Diagnostic::error(&codes::TYPE, "the median of f32 along at least one dimension is supported")),
        }
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let sorted = builder.temporary(ElementType::F32, vec![Dim::constant(self.window)]);
        builder.call(Call {
            function: Function { name: "crate::median::median", run: median::median },
            inputs: vec![builder.input(0)?],
            outputs: vec![builder.output(0)?, sorted],
            integers: vec![Dim::constant(self.window)],
            floats: Vec::new(),
            sizes: Vec::new(),
        });
        Ok(())
    }
}
