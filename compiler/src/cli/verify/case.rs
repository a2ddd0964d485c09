//! Case directories: `model.xml`, `model.bin`, `inputs.npz`, `expected.npz` and optionally `case.json`.

use super::Tolerance;
use crate::cli::npz::{self, Array, Arrays};
use crate::diag::Diagnostics;
use crate::element::ElementType;
use crate::options::Options;
use crate::read;
use crate::source::Source;
use crate::tensor::Tensor;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A model with inputs and what it should give.
#[derive(Clone, Debug)]
pub struct Case {
    /// The path as the user gave it.
    pub name: String,
    /// How close is close enough.
    pub tolerance: Tolerance,
    /// Number of runs of one model with state; `None` for a single one, whose arrays have no step in their names.
    pub steps: Option<usize>,
    folder: PathBuf,
    /// Values of the option `shape`; one without an input's name is for the first input.
    shapes: Vec<String>,
    /// Names and values of other options.
    options: Vec<(&'static str, String)>,
    inputs: Arrays,
    /// `None`: whatever comes out is right.
    expected: Option<Arrays>,
}

/// What a case needs to know of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name of the layer, then the tensor names.
    pub names: Vec<String>,
    /// Element type.
    pub element: ElementType,
}

impl Case {
    /// Reads the files of a case, without the model.
    ///
    /// # Errors
    /// One line: which file is missing or not understood.
    pub fn load(folder: &Path) -> Result<Case, String> {
        if !folder.is_dir() {
            return Err(format!("`{}` is not a folder with a case", folder.display()));
        }
        let mut case = Case {
            name: folder.display().to_string(),
            tolerance: Tolerance::default(),
            steps: None,
            folder: folder.to_path_buf(),
            shapes: Vec::new(),
            options: Vec::new(),
            inputs: npz::read(&folder.join("inputs.npz"))?,
            expected: Some(npz::read(&folder.join("expected.npz"))?),
        };
        let json = folder.join("case.json");
        if json.exists() {
            let text =
                std::fs::read_to_string(&json).map_err(|error| format!("cannot read `{}`: {error}", json.display()))?;
            let value: Value = serde_json::from_str(&text).map_err(|error| format!("`{}`: {error}", json.display()))?;
            case.configure(&value).map_err(|problem| format!("`{}`: {problem}", json.display()))?;
        }
        Ok(case)
    }

    /// A single run whose outputs are not judged.
    pub fn without_expectation(name: &str, inputs: Arrays) -> Case {
        Case {
            name: name.to_owned(),
            tolerance: Tolerance::default(),
            steps: None,
            folder: PathBuf::new(),
            shapes: Vec::new(),
            options: Vec::new(),
            inputs,
            expected: None,
        }
    }

    /// `{"tolerance": {"abs": a, "rel": r}, "steps": n, "shape": "x=1..8,3", "value": "axes=0,2",
    /// "bound": "x_0=8"}`; options may be lists; other keys are remarks.
    fn configure(&mut self, value: &Value) -> Result<(), String> {
        let tolerance = &value["tolerance"];
        for (key, slot) in [("abs", &mut self.tolerance.abs), ("rel", &mut self.tolerance.rel)] {
            match &tolerance[key] {
                Value::Null => {}
                number => *slot = number.as_f64().ok_or_else(|| format!("`tolerance.{key}` is not a number"))?,
            }
        }
        if !value["steps"].is_null() {
            let steps = value["steps"].as_u64().filter(|steps| (1..=100_000).contains(steps));
            self.steps = Some(steps.ok_or("`steps` is not a number from 1 to 100000")? as usize);
        }
        self.shapes = texts(value, "shape")?;
        for option in ["value", "bound"] {
            self.options.extend(texts(value, option)?.into_iter().map(|text| (option, text)));
        }
        Ok(())
    }

    /// The model and the options that the case asks for, on top of the given ones.
    ///
    /// # Errors
    /// The model cannot be read, or an option is wrong.
    pub fn open(&self, base: &Options) -> Result<(Source, Options), Diagnostics> {
        let source = Source::from_path(&self.folder.join("model.xml"), None)?;
        let mut options = base.clone();
        for shape in &self.shapes {
            let named = if shape.contains('=') { shape.clone() } else { format!("{}={shape}", first_input(&source)) };
            options.set("shape", &named)?;
        }
        for (option, value) in &self.options {
            options.set(option, value)?;
        }
        Ok((source, options))
    }

    /// How often the model runs.
    pub fn runs(&self) -> usize {
        self.steps.unwrap_or(1)
    }

    /// The inputs of one run.
    ///
    /// # Errors
    /// One line: an array is missing or of another type.
    pub fn inputs(&self, ports: &[Port], step: usize) -> Result<Vec<Tensor>, String> {
        let input = |(i, port): (usize, &Port)| {
            let array = self.find(&self.inputs, "in", i, port, step);
            let array =
                array.ok_or_else(|| format!("inputs.npz has no array `{}` for input {i}", self.key("in", i, step)))?;
            array.to_tensor(port.element).map_err(|problem| format!("input {i}: {problem}"))
        };
        ports.iter().enumerate().map(input).collect()
    }

    /// The expected outputs of one run; `None` for outputs that the case says nothing about.
    ///
    /// # Errors
    /// One line: an array is for no output, or there is none at all.
    pub fn expected(&self, ports: &[Port], step: usize) -> Result<Vec<Option<&Array>>, String> {
        let Some(expected) = &self.expected else { return Ok(vec![None; ports.len()]) };
        let found: Vec<Option<&Array>> =
            ports.iter().enumerate().map(|(i, port)| self.find(expected, "out", i, port, step)).collect();
        if found.iter().all(Option::is_none) && !ports.is_empty() {
            return Err(format!("expected.npz has no array for any output, like `{}`", self.key("out", 0, step)));
        }
        if self.steps.is_none() && expected.len() > found.iter().flatten().count() {
            return Err(format!("expected.npz has {} arrays, the model has {} outputs", expected.len(), ports.len()));
        }
        Ok(found)
    }

    fn key(&self, kind: &str, index: usize, step: usize) -> String {
        match self.steps {
            Some(_) => format!("{kind}{index}_step{step}"),
            None => format!("{kind}{index}"),
        }
    }

    fn find<'a>(&self, arrays: &'a Arrays, kind: &str, index: usize, port: &Port, step: usize) -> Option<&'a Array> {
        let suffix = if self.steps.is_some() { format!("_step{step}") } else { String::new() };
        let by_name = || port.names.iter().find_map(|name| arrays.get(&format!("{name}{suffix}")));
        arrays.get(&self.key(kind, index, step)).or_else(by_name)
    }
}

/// The values of an option: a string, or a list of strings.
fn texts(value: &Value, key: &str) -> Result<Vec<String>, String> {
    let list: Vec<&Value> = match &value[key] {
        Value::Null => Vec::new(),
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    };
    list.into_iter().map(|one| Ok(one.as_str().ok_or(format!("`{key}` is not a string"))?.to_owned())).collect()
}

/// Name of the first Parameter, for shapes that name no input.
fn first_input(source: &Source) -> String {
    let net = read::read(source, &mut Diagnostics::new());
    let layer =
        net.and_then(|net| net.parameters.first().and_then(|i| net.layers.get(*i)).map(|layer| layer.name.clone()));
    layer.unwrap_or_default()
}
