//! Values of options and how they are read from text.

use crate::diag::quote;
use std::path::PathBuf;

/// A type of option value: read from the text of a flag or of a macro key.
pub trait OptionValue: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// One line, lower-case, that says what is wrong with the text.
    fn parse(text: &str) -> Result<Self, String>;
}

/// Declares an enumeration whose variants are written as words.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $( $(#[$inner:meta])* $variant:ident = $word:literal, )+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$inner])* $variant, )+ }

        impl $name {
            /// All values with the words that stand for them.
            pub const WORDS: &'static [(&'static str, Self)] = &[$( ($word, Self::$variant), )+];

            /// The word for this value.
            pub fn word(self) -> &'static str {
                Self::WORDS.iter().find(|row| row.1 == self).map_or("", |row| row.0)
            }
        }

        impl OptionValue for $name {
            fn parse(text: &str) -> Result<Self, String> {
                let found = Self::WORDS.iter().find(|row| row.0 == text).map(|row| row.1);
                found.ok_or_else(|| {
                    let words: Vec<&str> = Self::WORDS.iter().map(|row| row.0).collect();
                    format!("{} is none of {}", quote(text), words.join(", "))
                })
            }
        }
    };
}

words! {
    /// An instruction set.
    Isa {
        /// Plain Rust, any processor.
        Scalar = "scalar",
        /// The base line of x86-64.
        Sse2 = "sse2",
        /// x86-64 with AVX2 and FMA.
        Avx2 = "avx2",
        /// x86-64 with AVX-512 F, VL, BW and DQ.
        Avx512 = "avx512",
        /// The base line of AArch64.
        Neon = "neon",
        /// WebAssembly with 128-bit vectors.
        Wasm128 = "wasm128",
    }
}

words! {
    /// Where the weights go.
    #[derive(Default)]
    WeightsMode {
        /// Embedded, in the way that compiles fastest for their size.
        #[default]
        Auto = "auto",
        /// In the program.
        Embed = "embed",
        /// In a file that is loaded at run time.
        External = "external",
    }
}

words! {
    /// Which implementations to use.
    #[derive(Default)]
    Kernels {
        /// Kernels of the runtime where they apply.
        #[default]
        Auto = "auto",
        /// The defining loops of every operation.
        Reference = "reference",
    }
}

words! {
    /// How far results may be from the plain sums.
    #[derive(Default)]
    Accuracy {
        /// Faster algorithms whose rounding errors are a small multiple of the plain sum's, where they pay.
        #[default]
        Auto = "auto",
        /// Every sum of products is computed as such.
        Exact = "exact",
    }
}

words! {
    /// What to produce.
    #[derive(Default)]
    Emit {
        /// A Rust module.
        #[default]
        Rust = "rust",
        /// The text form of the graph after its passes.
        Graph = "graph",
        /// The text form of the loop program after its passes.
        Program = "program",
        /// The text form of the memory plan.
        Plan = "plan",
    }
}

/// A set of instruction sets; the empty one stands for all of the target's architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IsaSet(Vec<Isa>);

impl IsaSet {
    /// The members, sorted; empty for "all of the target's architecture".
    pub fn members(&self) -> &[Isa] {
        &self.0
    }

    /// Whether an instruction set of the target's architecture may be used.
    pub fn allows(&self, isa: Isa) -> bool {
        self.0.is_empty() || self.0.contains(&isa)
    }

    /// Whether the code may use vectors: false for `scalar` alone.
    pub fn has_vectors(&self) -> bool {
        self.0 != [Isa::Scalar]
    }
}

impl<const N: usize> From<[Isa; N]> for IsaSet {
    fn from(isas: [Isa; N]) -> Self {
        isas.into_iter().collect()
    }
}

impl FromIterator<Isa> for IsaSet {
    fn from_iter<I: IntoIterator<Item = Isa>>(isas: I) -> Self {
        let mut members: Vec<Isa> = isas.into_iter().collect();
        members.sort();
        members.dedup();
        IsaSet(members)
    }
}

impl OptionValue for IsaSet {
    fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(|word| Isa::parse(word.trim())).collect()
    }
}

/// A dimension of [`Shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimRange {
    /// As in the model.
    Keep,
    /// This size.
    Fixed(i64),
    /// A run-time size from the first to the second number, both included; `None` needs an upper bound from elsewhere.
    Between(i64, Option<i64>),
}

/// The sizes of one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Name of the Parameter layer or one of its tensor names.
    pub input: String,
    /// One entry per dimension.
    pub dims: Vec<DimRange>,
}

impl OptionValue for Shape {
    fn parse(text: &str) -> Result<Self, String> {
        // Tensor names may hold `=`, dimensions cannot.
        let (input, dims) = text.rsplit_once('=').ok_or_else(|| format!("{} has no `=`", quote(text)))?;
        if input.is_empty() {
            return Err("the name of the input is missing".into());
        }
        let dims = match dims.trim() {
            "" => Vec::new(),
            dims => dims.split(',').map(|dim| dim_range(dim.trim())).collect::<Result<_, _>>()?,
        };
        Ok(Shape { input: input.to_owned(), dims })
    }
}

fn dim_range(text: &str) -> Result<DimRange, String> {
    if text == "?" {
        return Ok(DimRange::Keep);
    }
    let Some((min, max)) = text.split_once("..") else {
        return size(text).map(DimRange::Fixed);
    };
    let min = size(min)?;
    let max = if max.is_empty() { None } else { Some(size(max)?) };
    if max.is_some_and(|max| max < min) {
        return Err(format!("{} is an empty range", quote(text)));
    }
    Ok(DimRange::Between(min, max))
}

fn size(text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().ok_or_else(|| format!("{} is not a size", quote(text)))
}

/// The largest value of a run-time size, or the largest number of elements of a result whose size depends on data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Name of the size, like `x_0` for dimension 0 of input `x`, or of the layer; empty for all that have no bound.
    pub name: String,
    /// Its largest value, at least 1.
    pub max: i64,
}

impl Bound {
    /// The bound with this name.
    pub fn of(bounds: &[Bound], name: &str) -> Option<i64> {
        bounds.iter().find(|bound| !name.is_empty() && bound.name == name).map(|bound| bound.max)
    }

    /// The bound of all that have no other.
    pub fn of_others(bounds: &[Bound]) -> Option<i64> {
        bounds.iter().find(|bound| bound.name.is_empty()).map(|bound| bound.max)
    }
}

impl OptionValue for Bound {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, max) = text.rsplit_once('=').unwrap_or(("", text));
        match size(max.trim())? {
            0 => Err("the bound must be at least 1".into()),
            max => Ok(Bound { name: name.to_owned(), max }),
        }
    }
}

/// The values of one input, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct InputValue {
    /// Name of the Parameter layer or one of its tensor names.
    pub input: String,
    /// Integers and truth values are whole numbers.
    pub numbers: Vec<f64>,
}

impl InputValue {
    /// The values, if all of them are integers that f64 holds exactly.
    pub fn integers(&self) -> Option<Vec<i64>> {
        let exact = |value: &f64| (value.fract() == 0.0 && value.abs() < 2f64.powi(53)).then_some(*value as i64);
        self.numbers.iter().map(exact).collect()
    }
}

impl OptionValue for InputValue {
    fn parse(text: &str) -> Result<Self, String> {
        let (input, numbers) = text.rsplit_once('=').ok_or_else(|| format!("{} has no `=`", quote(text)))?;
        let number = |text: &str| text.trim().parse().map_err(|_| format!("{} is not a number", quote(text)));
        let numbers = match numbers.trim() {
            "" => Vec::new(),
            numbers => numbers.split(',').map(number).collect::<Result<_, _>>()?,
        };
        Ok(InputValue { input: input.to_owned(), numbers })
    }
}

/// Where the generated code finds the file with the packed weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsFile {
    /// A file name beside the generated source; `None` derives it from the module's name: `<module>.weights.bin`.
    Beside(Option<String>),
    /// A file beside the generated source, which lies in `folder` of a package (relative, with `/`): large weights can
    /// then go through the assembler, which needs a path from the package's root.
    InPackage {
        /// Folder of the generated source, relative to the package; empty for the package itself.
        folder: String,
        /// File name; `None` derives it from the module's name.
        name: Option<String>,
    },
    /// An absolute path.
    At(PathBuf),
}

impl Default for WeightsFile {
    fn default() -> Self {
        WeightsFile::Beside(None)
    }
}

impl OptionValue for bool {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{} is neither true nor false", quote(text))),
        }
    }
}

impl OptionValue for String {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("the value is empty".into()) } else { Ok(text.to_owned()) }
    }
}

impl OptionValue for PathBuf {
    fn parse(text: &str) -> Result<Self, String> {
        String::parse(text).map(PathBuf::from)
    }
}
