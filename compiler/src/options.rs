//! Options of a compilation: one struct whose fields are the macro's keys, the builder's methods and the command's flags.

mod values;

pub use values::{
    Accuracy, Bound, DimRange, Emit, InputValue, Isa, IsaSet, Kernels, OptionValue, Shape, WeightsFile, WeightsMode,
};

use crate::diag::{Diagnostic, codes, quote};
use crate::extension::Extension;
use std::path::PathBuf;

/// One row of [`Options::TABLE`]: what the fronts need in order to offer an option.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// Name of the field, of the macro's key and of the builder's method; the flag has hyphens for underscores.
    pub name: &'static str,
    /// Form of the value, like `NAME=SIZE`; empty for a switch.
    pub value: &'static str,
    /// Whether the option may be given several times, adding up.
    pub repeats: bool,
    /// One paragraph of documentation.
    pub doc: &'static str,
    set: fn(&mut Options, &str) -> Result<(), String>,
}

/// Declares the fields once: the struct, the builder methods and the table that the other fronts are made from.
macro_rules! options {
    ($( $(#[doc = $doc:literal])+ $name:ident: $kind:ident<$type:ty>, $value:literal; )+) => {
        /// What to compile to. `Options::default()` suits most models.
        ///
        /// The same options and the same model give the same bytes on every machine.
        #[non_exhaustive]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Options {
            $( $(#[doc = $doc])+ pub $name: options!(@type $kind $type), )+
            /// Operations that are added to the compiler's own: no key and no flag, because they are code.
            pub extensions: Vec<Extension>,
            /// Where the generated code finds its weights; set by the fronts, which know where they write.
            #[doc(hidden)]
            pub weights_file: WeightsFile,
            /// Path of a function that every step calls with its number before it runs; set for measurements.
            #[doc(hidden)]
            pub step_hook: Option<String>,
        }

        impl Options {
            /// All options, in the order of the documentation.
            pub const TABLE: &'static [OptionInfo] = &[$( OptionInfo {
                name: stringify!($name),
                value: $value,
                repeats: options!(@repeats $kind),
                doc: concat!($($doc, "\n"),+),
                set: |options, text| {
                    let value = <$type as OptionValue>::parse(text)?;
                    options!(@assign $kind options.$name, value);
                    Ok(())
                },
            }, )+];

            $( $(#[doc = $doc])+ #[must_use] pub fn $name(mut self, value: impl Into<$type>) -> Self {
                let value = value.into();
                options!(@assign $kind self.$name, value);
                self
            } )+
        }
    };
    (@type one $type:ty) => { $type };
    (@type maybe $type:ty) => { Option<$type> };
    (@type many $type:ty) => { Vec<$type> };
    (@repeats many) => { true };
    (@repeats $kind:ident) => { false };
    (@assign one $field:expr, $value:ident) => { $field = $value };
    (@assign maybe $field:expr, $value:ident) => { $field = Some($value) };
    (@assign many $field:expr, $value:ident) => { $field.push($value) };
}

options! {
    /// Instruction sets to generate for, separated by commas: `scalar`, `sse2`, `avx2`, `avx512`, `neon`, `wasm128`.
    /// The best one that the processor has is selected at run time. Default: all of the target's architecture.
    /// `scalar` alone suits microcontrollers.
    isa: one<IsaSet>, "ISA,..";
    /// Where the weights go: `embed` puts them into the program, `external` leaves them in a file that is loaded at
    /// run time, `auto` (the default) embeds.
    weights: one<WeightsMode>, "auto|embed|external";
    /// The file with the model's constants. Default: the file beside the `.xml` with the extension `.bin`.
    bin: maybe<PathBuf>, "PATH";
    /// Sizes of an input, by name of its layer or tensor: `x=1,3,224,224`. `1..8` is a run-time size between these
    /// bounds, `?` keeps what the model says.
    shape: many<Shape>, "INPUT=DIM,..";
    /// The largest value of a run-time size that has no upper bound, or the largest number of elements of a layer's result
    /// whose size depends on data: `NAME=SIZE`. The error about a missing bound says the name; `SIZE` alone is for all
    /// that have none.
    bound: many<Bound>, "[NAME=]SIZE";
    /// Fixes an input, by name of its layer or tensor: `axes=0,2`. It becomes a constant and is no input any more, for
    /// inputs that decide shapes, like axes, sizes or a number of results.
    value: many<InputValue>, "INPUT=NUMBER,..";
    /// Exposes the results of a layer (or the tensor with this name) as additional outputs, behind the model's own.
    output: many<String>, "LAYER";
    /// Which implementations to use: `auto` selects kernels, `reference` compiles every operation as the loops that
    /// define it, slow but simple.
    kernels: one<Kernels>, "auto|reference";
    /// How exact results are: `auto` computes convolutions of small windows by minimal filtering (Winograd) where that is faster, with
    /// rounding errors several times those of the plain sum and up to four times the weights, several narrow groups of a
    /// convolution as one, multiplies scales that are computed (squeeze and excitation) into weights where these are fewer,
    /// and what is computed of 16-bit floats in f32; `exact` does none of it.
    accuracy: one<Accuracy>, "auto|exact";
    /// Name of the generated module. Default: the name of the `.xml` file.
    module: maybe<String>, "NAME";
    /// What to produce: `rust`, or the text form of a stage: `graph`, `program`, `plan`.
    emit: one<Emit>, "rust|graph|program|plan";
    /// Stops after the pass with this name (`irc passes` lists them) and produces the text form of its stage.
    stop_after: maybe<String>, "PASS";
    /// Measures how long each pass takes.
    time_passes: one<bool>, "";
}

impl Options {
    /// Adds an operation to the compiler's own.
    #[must_use]
    pub fn operation(mut self, extension: Extension) -> Self {
        self.extensions.push(extension);
        self
    }

    /// Whether kernels that compute with vectors are chosen: they are not the reference, and an instruction set has vectors.
    pub(crate) fn has_vector_kernels(&self) -> bool {
        self.kernels != Kernels::Reference && self.isa.has_vectors()
    }

    /// Sets an option from text, as in `options.set("shape", "x=1..8,3,224,224")`. A switch takes `true` or `false`.
    ///
    /// # Errors
    /// No option has this name, or the value is not of its form.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Diagnostic> {
        let Some(row) = Self::TABLE.iter().find(|row| row.name == name) else {
            let names: Vec<&str> = Self::TABLE.iter().map(|row| row.name).collect();
            return Err(Diagnostic::error(&codes::OPTION, format!("unknown option {}", quote(name)))
                .help(format!("the options are {}", names.join(", "))));
        };
        (row.set)(self, value).map_err(|problem| {
            let form = if row.value.is_empty() { "true|false" } else { row.value };
            Diagnostic::error(&codes::OPTION, format!("option `{name}`: {problem}"))
                .help(format!("its form is `{form}`"))
        })
    }
}

impl OptionInfo {
    /// The name as a flag of the command: `stop-after`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The documentation as one line of text.
    pub fn text(&self) -> String {
        self.doc.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Result<Options, Diagnostic> {
        let mut options = Options::default();
        pairs.iter().try_for_each(|(name, value)| options.set(name, value))?;
        Ok(options)
    }

    #[test]
    fn text_and_builder_agree() {
        let parsed = set(&[
            ("isa", "avx2,scalar"),
            ("weights", "external"),
            ("shape", "x=1..8,3,?,-2.."),
            ("bound", "x_1=40"),
            ("output", "conv1"),
            ("output", "conv2"),
            ("kernels", "reference"),
            ("module", "net"),
            ("stop_after", "fold"),
            ("time_passes", "true"),
        ]);
        assert!(parsed.is_err(), "negative sizes do not exist");
        let parsed = set(&[
            ("isa", "avx2,scalar"),
            ("weights", "external"),
            ("shape", "x=1..8,3,?,2.."),
            ("bound", "x_1=40"),
            ("output", "conv1"),
            ("output", "conv2"),
            ("kernels", "reference"),
            ("accuracy", "exact"),
            ("stop_after", "fold"),
            ("time_passes", "true"),
        ])
        .unwrap();
        let shape = Shape {
            input: "x".into(),
            dims: vec![DimRange::Between(1, Some(8)), DimRange::Fixed(3), DimRange::Keep, DimRange::Between(2, None)],
        };
        let built = Options::default()
            .isa([Isa::Scalar, Isa::Avx2])
            .weights(WeightsMode::External)
            .shape(shape)
            .bound(Bound { name: "x_1".into(), max: 40 })
            .output("conv1")
            .output("conv2")
            .kernels(Kernels::Reference)
            .accuracy(Accuracy::Exact)
            .stop_after("fold")
            .time_passes(true);
        assert_eq!(parsed, built);
    }

    #[test]
    fn wrong_names_and_values_say_what_is_accepted() {
        let unknown = set(&[("weigths", "embed")]).unwrap_err();
        assert!(unknown.message.contains("`weigths`") && unknown.help.unwrap().contains("weights"));
        for (name, value) in [
            ("isa", "mmx"),
            ("isa", ""),
            ("weights", "inline"),
            ("shape", "1,2"),
            ("shape", "x=3..1"),
            ("shape", "=1"),
            ("shape", "x=99999999999999999999"),
            ("bound", "n=0"),
            ("emit", "llvm"),
            ("accuracy", "fast"),
            ("time_passes", "maybe"),
            ("output", ""),
            ("value", "axes"),
            ("value", "axes=one"),
        ] {
            let error = set(&[(name, value)]).unwrap_err();
            assert_eq!(error.code.id, codes::OPTION.id, "{name} = {value}");
            assert!(error.message.contains(name) && error.help.is_some(), "{error}");
        }
    }

    #[test]
    fn table_has_documentation_for_every_row() {
        for row in Options::TABLE {
            assert!(row.text().ends_with('.'), "{}", row.name);
            assert!(!row.flag().contains('_'));
        }
    }
}
