//! What generated code tells about a model: inputs, outputs, errors at run time.
use crate::blob::LoadError;

/// Element type of a tensor, as named in OpenVINO IR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Element {
    Bool,
    U1,
    U2,
    U3,
    U4,
    U6,
    U8,
    U16,
    U32,
    U64,
    I4,
    I8,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
    F8e4m3,
    F8e5m2,
    F8e8m0,
    F4e2m1,
    Nf4,
    String,
}

/// One dimension of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorDim {
    /// Known when the model was compiled.
    Fixed(usize),
    /// Known at run time, up to this bound.
    AtMost(usize),
}

/// An input or output of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name of the Parameter or Result in the IR.
    pub name: &'static str,
    /// Tensor names of its port.
    pub tensor_names: &'static [&'static str],
    /// Element type.
    pub element: Element,
    /// Dimensions, outermost first.
    pub dims: &'static [TensorDim],
}

/// Why a model with run-time dimensions or external weights did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The weights do not fit.
    Weights(LoadError),
    /// A slice does not have the number of elements that its dimensions ask for.
    Length {
        /// Which input or value.
        name: &'static str,
        /// Elements expected.
        expected: usize,
        /// Elements found.
        found: usize,
    },
    /// A run-time dimension exceeds the bound that the model was compiled for.
    Bound {
        /// Which dimension.
        name: &'static str,
        /// The greatest value possible.
        bound: usize,
        /// The value met.
        found: usize,
    },
    /// Two run-time dimensions that must agree do not.
    Mismatch {
        /// Where.
        name: &'static str,
        /// One.
        left: usize,
        /// The other.
        right: usize,
    },
}

impl From<LoadError> for RunError {
    fn from(error: LoadError) -> Self {
        RunError::Weights(error)
    }
}

impl core::fmt::Display for RunError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RunError::Weights(error) => error.fmt(f),
            RunError::Length { name, expected, found } => {
                write!(f, "`{name}` needs {expected} elements, found {found}")
            }
            RunError::Bound { name, bound, found } => {
                write!(f, "`{name}` is {found}, compiled for at most {bound}")
            }
            RunError::Mismatch { name, left, right } => {
                write!(f, "`{name}`: {left} and {right} must be equal")
            }
        }
    }
}

impl core::error::Error for RunError {}
