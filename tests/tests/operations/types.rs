//! Which element types an operation takes, and which of them take the same path: by lowering it with each.

use crate::cases::Use;
use include_ir_compiler::diag::Diagnostic;
use include_ir_compiler::dim::Dim;
use include_ir_compiler::element::ElementType;
use include_ir_compiler::fact::{Fact, Value};
use include_ir_compiler::graph::{Graph, Node, Origin};
use include_ir_compiler::lower::lower_node;
use include_ir_compiler::op::{InferContext, row};
use include_ir_compiler::program::edit::{Nodes, prune, replace_nodes};
use include_ir_compiler::program::interpret::interpret;
use include_ir_compiler::program::nest::{Nest, Scalar, ScalarType};
use include_ir_compiler::program::scalar_types;
use include_ir_compiler::program::{Program, StepKind};
use include_ir_compiler::read::{Attribute, Attributes, Layer};
use include_ir_compiler::tensor::Tensor;
use std::collections::BTreeMap;

/// How an operation is computed with one element type.
#[derive(Clone, PartialEq)]
pub struct Path {
    /// The program's text, in which every element type is the type that it is computed in.
    computed: String,
    /// The same with names for the lowest and the highest value of the element type.
    bounded: String,
    /// The same without any type, where elements are only moved.
    moved: Option<String>,
}

impl Path {
    /// Why a case of one path shows the other one too.
    pub fn same(&self, shown: &Path) -> Option<Alike> {
        match self.computed == shown.computed || self.bounded == shown.bounded {
            true => Some(Alike::Computed),
            false => (self.moved.is_some() && self.moved == shown.moved).then_some(Alike::Moved),
        }
    }
}

/// Why an element type needs no case of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Alike {
    /// The program is that of another type: only loads, stores and rounding differ.
    Computed,
    /// The program moves elements, and nothing in it depends on their type.
    Moved,
}

/// The programs of one layer for every element type of one group of operands that it takes.
pub struct Trial {
    /// The first operand of the group.
    pub operand: usize,
    /// The programs.
    pub paths: BTreeMap<ElementType, Path>,
}

/// Tries all element types of all operands of a layer.
pub fn trials(used: &Use) -> Vec<Trial> {
    if !used.plain || lowered(used, &used.layer, &used.operands).is_err() {
        return Vec::new();
    }
    let mut trials: Vec<Trial> = Vec::new();
    let mut grouped = vec![false; used.operands.len()];
    for operand in 0..used.operands.len() {
        if grouped[operand] {
            continue;
        }
        let group = group(used, operand);
        group.iter().for_each(|member| grouped[*member] = true);
        let path = |element: ElementType| {
            let program = lowered(used, &used.layer, &changed(used, &group, element)?).ok()?;
            Some((element, path(&program, element)))
        };
        trials.push(Trial { operand, paths: ElementType::all().filter_map(path).collect() });
    }
    trials
}

/// The program of a layer whose attribute says something else, or why there is none.
pub fn attempt(used: &Use, layer: &Layer, element: Option<ElementType>) -> Result<Path, String> {
    let program = lowered(used, layer, &used.operands).map_err(|diagnostic| diagnostic.message)?;
    Ok(path(&program, element.unwrap_or(ElementType::F32)))
}

/// Whether the layer's sizes follow from its operands' elements, which only a run tells.
pub fn finds_sizes(used: &Use) -> bool {
    let Ok(op) = (used.row.parse)(&Attributes::new(&used.layer)) else { return false };
    let mut context = InferContext { bounds: &used.options.bound, layer: &used.layer.name, ..InferContext::default() };
    context.variables = used.variables.to_vec();
    op.infer(&used.operands, &mut context).is_ok() && context.variables.len() > used.variables.len()
}

/// Why the layer is refused with its first operands only, if it is.
pub fn refusal(used: &Use, count: usize) -> Option<String> {
    lowered(used, &used.layer, &used.operands[..count]).err().map(|diagnostic| diagnostic.message)
}

/// The operands whose type changes with that of one operand: it alone, if that is possible.
fn group(used: &Use, operand: usize) -> Vec<usize> {
    let element = used.operands[operand].element;
    let takes = |group: &[usize]| {
        let others = ElementType::all().filter(|other| *other != element);
        others
            .filter_map(|other| changed(used, group, other))
            .any(|operands| lowered(used, &used.layer, &operands).is_ok())
    };
    let mut group = vec![operand];
    if takes(&group) {
        return group;
    }
    group = (0..used.operands.len()).filter(|i| used.operands[*i].element == element).collect();
    if !takes(&group) {
        return vec![operand];
    }
    for member in group.clone().into_iter().filter(|member| *member != operand) {
        let fewer: Vec<usize> = group.iter().copied().filter(|i| *i != member).collect();
        if takes(&fewer) {
            group = fewer;
        }
    }
    group
}

/// The operands with another element type for some; `None` where constants have no such values.
fn changed(used: &Use, group: &[usize], element: ElementType) -> Option<Vec<Fact>> {
    let fact = |(i, fact): (usize, &Fact)| match &fact.value {
        _ if !group.contains(&i) || fact.element == element => Some(fact.clone()),
        Value::Constant(tensor) => {
            let changed = converted(tensor, element)?;
            // Axes and sizes are meant: another number would be another operation.
            let exact = fact.element.is_float()
                || converted(&changed, fact.element)?.bytes.as_slice() == tensor.bytes.as_slice();
            exact.then(|| Fact::constant(changed))
        }
        // Strings are constants.
        _ => (element != ElementType::String).then(|| Fact { element, ..fact.clone() }),
    };
    used.operands.iter().enumerate().map(fact).collect()
}

/// The program of a layer with these operands.
fn lowered(used: &Use, layer: &Layer, operands: &[Fact]) -> Result<Program, Diagnostic> {
    let op = (used.row.parse)(&Attributes::new(layer))?;
    let mut context = InferContext {
        variables: used.variables.to_vec(),
        states: used.states.to_vec(),
        bounds: &used.options.bound,
        layer: &layer.name,
        ..InferContext::default()
    };
    let mut outputs = op.infer(operands, &mut context)?;
    outputs.truncate((used.row.outputs)(layer));
    let (inputs, regions) = Default::default();
    let (locals, reads) = (context.locals, context.reads);
    let node =
        Node { op, inputs, outputs: Vec::new(), regions, locals, reads, inline: None, origin: Origin::default() };
    lower_node(&Graph { variables: context.variables, ..Graph::new("") }, &node, operands, &outputs)
}

/// A constant in another element type, by the operation Convert itself.
fn converted(tensor: &Tensor, element: ElementType) -> Option<Tensor> {
    let attribute =
        Attribute { name: "destination_type".to_owned(), value: element.to_string(), ..Attribute::default() };
    let layer = Layer {
        kind: "Convert".to_owned(),
        opset: "opset1".to_owned(),
        attributes: vec![attribute],
        ..Layer::default()
    };
    let op = (row(&layer).ok()?.parse)(&Attributes::new(&layer)).ok()?;
    let operands = [Fact::constant(tensor.clone())];
    let outputs = op.infer(&operands, &mut InferContext::default()).ok()?;
    let mut graph = Graph::new("");
    let id = graph.add_node(include_ir_compiler::graph::ROOT, op, Vec::new(), 1, Origin::default());
    let program = lower_node(&graph, graph.node(id), &operands, &outputs).ok()?;
    interpret(&program, &[]).ok()?.into_iter().next()
}

/// How a program computes with an element type. Casts that only round are left out.
fn path(program: &Program, element: ElementType) -> Path {
    let mut changed = program.clone();
    let mut moves = ScalarType::of(element).is_some();
    for step in &mut changed.root.steps {
        match &mut step.kind {
            StepKind::Nest(nest) => {
                moves &= ScalarType::of(element).is_some_and(|scalar| !calculates(program, nest, scalar));
                without_rounding(program, nest);
            }
            StepKind::Reshape { .. } | StepKind::Size { .. } => {}
            _ => moves = false,
        }
    }
    let text = changed.to_string();
    let zeros = ["0.0f32", "0.0f64", "0i32", "0i64", "0u64", "false"];
    let untyped = || zeros.iter().fold(text.clone(), |text, zero| text.replace(&format!("= {zero}\n"), "= zero\n"));
    let scalars = |text: &str| with_types(text, &|element| Some(format!("{:?}", ScalarType::of(element)?)));
    Path {
        computed: scalars(&text),
        bounded: scalars(&with_bounds(text.clone(), element)),
        moved: moves.then(|| with_types(&untyped(), &|_| Some("T".to_owned()))),
    }
}

/// Whether a nest computes values of a type.
fn calculates(program: &Program, nest: &Nest, scalar: ScalarType) -> bool {
    let Ok(types) = scalar_types(program, nest) else { return true };
    let is = |node: &u32| types[*node as usize] == scalar;
    let operation = |node: &Scalar| match node {
        Scalar::Unary(_, a) => is(a),
        Scalar::Binary(_, a, b) => is(a) || is(b),
        _ => false,
    };
    nest.nodes.iter().any(operation) || nest.reduction.is_some_and(|reduction| is(&reduction.value))
}

/// The text with names for the lowest and the highest value of the element type: what reductions start with and what results
/// are limited to.
fn with_bounds(text: String, element: ElementType) -> String {
    let highest = match element.is_float() {
        true => element.largest_float(),
        false => 2f64.powi(element.bits() as i32 - i32::from(element.is_signed())) - 1.0,
    };
    let lowest = if element.is_float() { -highest } else { -highest - 1.0 };
    let bounds = [("lowest", lowest, element.is_signed()), ("highest", highest, true)];
    bounds.into_iter().filter(|(_, _, kept)| *kept).fold(text, |text, (name, bound, _)| {
        let (float, double, whole) = (bound as f32, bound, bound as i128);
        let forms = [format!("{float:?}f32"), format!("{double:?}f64"), format!("{whole}i32"), format!("{whole}i64")];
        forms.iter().fold(text, |text, form| text.replace(&format!("= {form}\n"), &format!("= {name}\n")))
    })
}

/// A text with other names for element types.
fn with_types(text: &str, name: &dyn Fn(ElementType) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        match c.is_alphanumeric() || c == '_' {
            true => word.push(c),
            false => {
                let element = ElementType::all().find(|element| element.name() == word);
                out += &element.and_then(name).unwrap_or(std::mem::take(&mut word));
                word.clear();
                out.push(c);
            }
        }
    }
    out
}

/// Drops casts between types that are computed alike.
fn without_rounding(program: &Program, nest: &mut Nest) {
    let Ok(types) = scalar_types(program, nest) else { return };
    let mut nodes = Nodes::default();
    let new = nodes.copy(nest, &Dim::axis, &mut |_, i, moved| match (&nest.nodes[i], moved) {
        (Scalar::Cast(element, old), Scalar::Cast(_, new))
            if ScalarType::of(*element) == Some(types[*old as usize]) =>
        {
            Some(*new)
        }
        _ => None,
    });
    replace_nodes(nest, nodes, &new);
    prune(nest);
}
