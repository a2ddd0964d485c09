//! Operations that users add: layers of types and opsets of their own, defined by an implementation of [`Op`].
//!
//! An operation says how it reads its attributes, what it infers about its results, and how its elements are computed: as
//! loop nests, which are then folded, fused and vectorised like those of the compiler's own operations, or as a call of a
//! Rust function. It is registered in a build script with [`Build::operation`](crate::Build::operation); the command and
//! the macro know the compiler's own operations only.
//!
//! ```
//! use include_ir_compiler::extension::{
//!     Attributes, Binary, Builder, Diagnostic, Extension, Fact, InferContext, Op, Unary,
//! };
//!
//! /// `exp(-x^2 / (2 sigma^2))`: `<layer type="Gaussian" version="extension"><data sigma="0.5"/>`.
//! #[derive(Debug)]
//! struct Gaussian {
//!     sigma: f64,
//! }
//!
//! impl Op for Gaussian {
//!     fn infer(&self, inputs: &[Fact], _: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
//!         Ok(inputs.iter().map(|x| Fact::new(x.element, x.dims.clone())).collect())
//!     }
//!
//!     fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
//!         let (x, y) = (builder.input(0)?, builder.output(0)?);
//!         builder.map(y, |nest, index| {
//!             let x = nest.load(x, index)?;
//!             let square = nest.binary(Binary::Mul, x, x);
//!             let factor = nest.constant_like(x, -0.5 / (self.sigma * self.sigma));
//!             let exponent = nest.binary(Binary::Mul, square, factor);
//!             Ok(nest.unary(Unary::Exp, exponent))
//!         })
//!     }
//! }
//!
//! // In `build.rs`: Build::new("model.xml").operation(gaussian()).run()
//! fn gaussian() -> Extension {
//!     Extension::new("Gaussian", |a: &Attributes| Ok(Gaussian { sigma: a.float_or("sigma", 1.0)? }))
//! }
//! # gaussian();
//! ```

pub use crate::diag::{Diagnostic, codes};
pub use crate::dim::Dim;
pub use crate::element::ElementType;
pub use crate::fact::Fact;
pub use crate::op::{InferContext, Op, Props};
pub use crate::program::builder::{Builder, NestBuilder};
pub use crate::program::nest::{Binary, Const, ReduceFn, ScalarType, Unary};
pub use crate::program::{BufferId, Call, Function};
pub use crate::read::Attributes;

use crate::read::Layer;
use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;

/// Reads the attributes of a layer.
type Parse = dyn Fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic> + Send + Sync;

/// An operation to add to the compiler's own.
#[derive(Clone)]
pub struct Extension {
    kind: String,
    opset: String,
    pub(crate) inputs: RangeInclusive<usize>,
    pub(crate) outputs: usize,
    pub(crate) parse: Arc<Parse>,
}

impl Extension {
    /// An operation with one operand and one result, for layers with this `type` and the `version` `extension`.
    ///
    /// `parse` reads the attributes; those that it does not ask for are reported. The debug form of the operation tells all
    /// of them: operations are computed once if these and their operands are equal.
    pub fn new<O: Op>(
        kind: impl Into<String>,
        parse: impl Fn(&Attributes) -> Result<O, Diagnostic> + Send + Sync + 'static,
    ) -> Self {
        Extension {
            kind: kind.into(),
            opset: "extension".to_owned(),
            inputs: 1..=1,
            outputs: 1,
            parse: Arc::new(move |attributes| Ok(Rc::new(parse(attributes)?))),
        }
    }

    /// The `version` of the layers. One of the standard opsets is possible: the extension then takes the place of what the
    /// compiler knows under this type.
    #[must_use]
    pub fn opset(mut self, opset: impl Into<String>) -> Self {
        self.opset = opset.into();
        self
    }

    /// How many operands a layer may have.
    #[must_use]
    pub fn inputs(mut self, inputs: RangeInclusive<usize>) -> Self {
        self.inputs = inputs;
        self
    }

    /// How many results a layer has.
    #[must_use]
    pub fn outputs(mut self, outputs: usize) -> Self {
        self.outputs = outputs;
        self
    }

    /// Whether this is the operation of a layer.
    pub(crate) fn is_for(&self, layer: &Layer) -> bool {
        self.kind == layer.kind && self.opset == layer.opset
    }
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?} -> {}", self.opset, self.kind, self.inputs, self.outputs)
    }
}

impl PartialEq for Extension {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &Self, b: &Self| a.kind == b.kind && a.opset == b.opset && a.outputs == b.outputs;
        same(self, other) && self.inputs == other.inputs && Arc::ptr_eq(&self.parse, &other.parse)
    }
}
