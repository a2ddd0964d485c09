//! Interpretation of nests over size expressions: how ShapeOf -> Gather -> Concat chains become dimensions.
//!
//! Integers are [`Dim`]s, so the same definition that folds constants also propagates run-time sizes. Whatever cannot be
//! said as a size expression is unknown, never guessed. Arithmetic is taken not to wrap: sizes are far from the limits.

use super::interpret::interpret;
use super::nest::{Access, Binary, Bound, Const, Nest, ReduceFn, Scalar, Unary};
use super::{BufferId, Call, Program, Role, Step, StepKind};
use crate::dim::{Atom, Dim, Fraction};
use crate::element::ElementType;
use crate::fact::{Fact, Value};
use crate::graph::Interface;
use crate::tensor::Tensor;

/// A scalar as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Symbol {
    /// Of any integer type.
    Integer(Dim),
    /// Of f32 or f64, where all arithmetic is exact.
    Float(Fraction),
    /// A truth value.
    Boolean(bool),
    /// Anything.
    Unknown,
}

impl Symbol {
    /// The elements of a value, where all are known.
    pub fn all(fact: &Fact) -> Option<Vec<Symbol>> {
        match &fact.value {
            Value::Fractions(fractions) => Some(fractions.iter().cloned().map(Symbol::Float).collect()),
            _ => Some(fact.as_sizes()?.into_iter().map(Symbol::Integer).collect()),
        }
    }

    fn float(value: Option<Fraction>) -> Symbol {
        value.map_or(Symbol::Unknown, Symbol::Float)
    }

    fn integer(value: Option<Dim>) -> Symbol {
        value.map_or(Symbol::Unknown, Symbol::Integer)
    }
}

/// Integers and truth values as sizes.
pub fn sizes(elements: Vec<Symbol>) -> Option<Vec<Dim>> {
    let size = |symbol| match symbol {
        Symbol::Integer(dim) => Some(dim),
        Symbol::Boolean(value) => Some(Dim::constant(i64::from(value))),
        Symbol::Float(_) | Symbol::Unknown => None,
    };
    elements.into_iter().map(size).collect()
}

/// Floats.
pub fn fractions(elements: Vec<Symbol>) -> Option<Vec<Fraction>> {
    let fraction = |symbol| match symbol {
        Symbol::Float(fraction) => Some(fraction),
        _ => None,
    };
    elements.into_iter().map(fraction).collect()
}

/// Longest buffer that is followed.
const MAX_ELEMENTS: i64 = 4096;

/// Runs a program on size expressions: `known` gives those of its operands, in row-major order. Returns the elements of
/// `output`.
pub fn evaluate(program: &Program, known: &[(BufferId, Vec<Symbol>)], output: BufferId) -> Option<Vec<Symbol>> {
    let mut memory: Vec<Option<Vec<Symbol>>> = vec![None; program.buffers.len()];
    for (buffer, sizes) in known {
        *memory.get_mut(buffer.0 as usize)? = Some(sizes.clone());
    }
    for step in &program.root.steps {
        match &step.kind {
            StepKind::Nest(nest) => run(program, nest, &mut memory)?,
            StepKind::Reshape { from, to } => {
                let elements = memory.get(from.0 as usize)?.clone();
                *memory.get_mut(to.0 as usize)? = elements;
            }
            StepKind::Call(call) => run_call(program, call, &mut memory)?,
            _ => return None,
        }
    }
    memory.get(output.0 as usize)?.clone()
}

/// Runs a function of the runtime, where its operands are integers that are all known.
fn run_call(program: &Program, call: &Call, memory: &mut [Option<Vec<Symbol>>]) -> Option<()> {
    let known = call.integers.iter().all(|dim| dim.as_const().is_some());
    if !known || !call.sizes.is_empty() {
        return None;
    }
    let mut alone = Program::default();
    let mut inputs = Vec::with_capacity(call.inputs.len());
    for id in &call.inputs {
        let buffer = program.buffer(*id);
        let tensor = match buffer.constant() {
            Some(tensor) => tensor.clone(),
            None => {
                let dims: Option<Vec<usize>> = buffer.dims.iter().map(Dim::as_usize).collect();
                let elements: Option<Vec<i64>> = memory.get(id.0 as usize)?.as_ref()?.iter().map(constant).collect();
                Tensor::from_integers(buffer.element, dims?, &elements?)?
            }
        };
        inputs.push(alone.add_constant(&buffer.name, tensor));
    }
    let mut outputs = Vec::with_capacity(call.outputs.len());
    for (i, id) in call.outputs.iter().enumerate() {
        let buffer = program.buffer(*id);
        buffer.len().as_const().filter(|n| *n <= MAX_ELEMENTS)?;
        let output = alone.add_buffer(&buffer.name, buffer.element, buffer.dims.clone(), Role::Output(i));
        alone.outputs.push((output, Interface::default()));
        outputs.push(output);
    }
    let kind = StepKind::Call(Call { inputs, outputs, ..call.clone() });
    alone.root.steps.push(Step { kind, origins: Vec::new() });
    for (id, tensor) in call.outputs.iter().zip(interpret(&alone, &[]).ok()?) {
        let elements = tensor.to_i64s()?.into_iter().map(|v| Symbol::Integer(Dim::constant(v))).collect();
        *memory.get_mut(id.0 as usize)? = Some(elements);
    }
    Some(())
}

fn constant(symbol: &Symbol) -> Option<i64> {
    match symbol {
        Symbol::Integer(dim) => dim.as_const(),
        _ => None,
    }
}

fn extents(nest: &Nest) -> Option<Vec<i64>> {
    let extents: Vec<i64> = nest.axes.iter().map(|axis| axis.extent.as_const()).collect::<Option<_>>()?;
    let points = extents.iter().try_fold(1i64, |n, e| n.checked_mul(*e))?;
    (points <= MAX_ELEMENTS).then_some(extents)
}

fn run(program: &Program, nest: &Nest, memory: &mut [Option<Vec<Symbol>>]) -> Option<()> {
    let extents = extents(nest)?;
    let (maps, reductions) = extents.split_at(nest.maps);
    let size = program.buffer(nest.store.buffer).len().as_const().filter(|n| *n <= MAX_ELEMENTS)?;
    let mut out = match memory.get_mut(nest.store.buffer.0 as usize)?.take() {
        Some(elements) => elements,
        None => vec![Symbol::Unknown; size as usize],
    };
    for_each_point(maps, |map| {
        let mut reduced = None;
        if let Some(reduction) = nest.reduction {
            for_each_point(reductions, |inner| {
                let point: Vec<i64> = map.iter().chain(inner).copied().collect();
                let values = nodes(program, nest, memory, &point, &Symbol::Unknown);
                let value = values.get(reduction.value as usize).cloned().unwrap_or(Symbol::Unknown);
                reduced = Some(match reduced.take() {
                    None => value,
                    Some(before) => combine(reduction.function, before, value),
                });
            });
        }
        let mut point = map.to_vec();
        point.resize(extents.len(), 0);
        let values = nodes(program, nest, memory, &point, reduced.as_ref().unwrap_or(&Symbol::Unknown));
        match (position(program, &nest.store, &point, &values), values.get(nest.result as usize)) {
            (Some(at), Some(value)) => out.get_mut(at).into_iter().for_each(|slot| *slot = value.clone()),
            // Any element may be the one that is stored.
            _ => out.fill(Symbol::Unknown),
        }
    });
    *memory.get_mut(nest.store.buffer.0 as usize)? = Some(out);
    Some(())
}

fn for_each_point(extents: &[i64], mut visit: impl FnMut(&[i64])) {
    if extents.contains(&0) {
        return;
    }
    let mut point = vec![0; extents.len()];
    loop {
        visit(&point);
        let next = (0..extents.len()).rev().find(|axis| point[*axis] + 1 < extents[*axis]);
        let Some(axis) = next else { return };
        point[axis] += 1;
        point[axis + 1..].fill(0);
    }
}

fn nodes(
    program: &Program,
    nest: &Nest,
    memory: &[Option<Vec<Symbol>>],
    point: &[i64],
    reduced: &Symbol,
) -> Vec<Symbol> {
    let mut values: Vec<Symbol> = Vec::with_capacity(nest.nodes.len());
    for node in &nest.nodes {
        let of = |node: &u32| values.get(*node as usize).cloned().unwrap_or(Symbol::Unknown);
        let value = match node {
            Scalar::Const(Const::I32(v)) => Symbol::Integer(Dim::constant(i64::from(*v))),
            Scalar::Const(Const::I64(v)) => Symbol::Integer(Dim::constant(*v)),
            Scalar::Const(Const::Bool(v)) => Symbol::Boolean(*v),
            Scalar::Const(Const::F32(v)) => Symbol::float(Fraction::number(f64::from(*v))),
            Scalar::Const(Const::F64(v)) => Symbol::float(Fraction::number(*v)),
            Scalar::Const(_) => Symbol::Unknown,
            Scalar::Index(dim) => index(dim, point, &values).map_or(Symbol::Unknown, Symbol::Integer),
            Scalar::Load { access, bounds, otherwise } => match inside(bounds, point, &values) {
                Some(true) => load(program, access, memory, point, &values),
                Some(false) => otherwise.as_ref().map_or(Symbol::Unknown, of),
                None => Symbol::Unknown,
            },
            Scalar::Unary(function, a) => unary(*function, of(a)),
            Scalar::Binary(function, a, b) => binary(*function, of(a), of(b)),
            Scalar::Select(c, a, b) => match of(c) {
                Symbol::Boolean(true) => of(a),
                Symbol::Boolean(false) => of(b),
                _ if of(a) == of(b) => of(a),
                _ => Symbol::Unknown,
            },
            Scalar::Cast(element, a) if element.is_integer() && element.bits() >= 32 => match of(a) {
                Symbol::Boolean(value) => Symbol::Integer(Dim::constant(i64::from(value))),
                Symbol::Float(fraction) => Symbol::integer(fraction.truncated()),
                other => other,
            },
            Scalar::Cast(ElementType::F32 | ElementType::F64, a) => match of(a) {
                Symbol::Integer(dim) => Symbol::float(Fraction::integer(&dim)),
                Symbol::Float(fraction) => Symbol::Float(fraction),
                Symbol::Boolean(_) | Symbol::Unknown => Symbol::Unknown,
            },
            Scalar::Cast(ElementType::Boolean, a) => match of(a) {
                Symbol::Integer(dim) => truth(&dim),
                Symbol::Float(_) => Symbol::Unknown,
                other => other,
            },
            Scalar::Cast(..) => Symbol::Unknown,
            Scalar::Reduced => reduced.clone(),
        };
        values.push(value);
    }
    values
}

/// An index expression at a point, as a size expression.
fn index(dim: &Dim, point: &[i64], values: &[Symbol]) -> Option<Dim> {
    let mut known = true;
    dim.for_each_atom(&mut |atom| {
        if let Atom::Scalar(node) = atom {
            known &= matches!(values.get(*node as usize), Some(Symbol::Integer(_)));
        }
    });
    known.then(|| {
        dim.substitute(&|atom| match atom {
            Atom::Axis(axis) => point.get(*axis as usize).map(|v| Dim::constant(*v)),
            Atom::Scalar(node) => match values.get(*node as usize) {
                Some(Symbol::Integer(dim)) => Some(dim.clone()),
                _ => None,
            },
            _ => None,
        })
    })
}

fn inside(bounds: &[Bound], point: &[i64], values: &[Symbol]) -> Option<bool> {
    let mut all = true;
    for bound in bounds {
        let value = index(&bound.value, point, values)?.as_const()?;
        let limit = index(&bound.limit, point, values)?.as_const()?;
        all &= value >= 0 && value < limit;
    }
    Some(all)
}

fn position(program: &Program, access: &Access, point: &[i64], values: &[Symbol]) -> Option<usize> {
    let mut at = 0i64;
    for (i, dim) in access.index.iter().zip(&program.buffer(access.buffer).dims) {
        at = at.checked_mul(dim.as_const()?)?.checked_add(index(i, point, values)?.as_const()?)?;
    }
    usize::try_from(at).ok()
}

fn load(
    program: &Program,
    access: &Access,
    memory: &[Option<Vec<Symbol>>],
    point: &[i64],
    values: &[Symbol],
) -> Symbol {
    let constant = program.buffer(access.buffer).constant();
    let Some(at) = position(program, access, point, values) else { return Symbol::Unknown };
    if let Some(elements) = constant.and_then(Tensor::to_i64s) {
        return elements.get(at).map_or(Symbol::Unknown, |v| Symbol::Integer(Dim::constant(*v)));
    }
    if let Some(elements) = constant.filter(|tensor| tensor.element.is_float()).and_then(Tensor::to_f64s) {
        return Symbol::float(elements.get(at).and_then(|v| Fraction::number(*v)));
    }
    match memory.get(access.buffer.0 as usize) {
        Some(Some(elements)) => elements.get(at).cloned().unwrap_or(Symbol::Unknown),
        _ => Symbol::Unknown,
    }
}

fn truth(dim: &Dim) -> Symbol {
    let range = dim.range();
    match dim.as_const() {
        Some(value) => Symbol::Boolean(value != 0),
        None if range.min > 0 || range.max < 0 => Symbol::Boolean(true),
        None => Symbol::Unknown,
    }
}

fn unary(function: Unary, a: Symbol) -> Symbol {
    match (function, a) {
        (Unary::Neg, Symbol::Integer(a)) => Symbol::Integer(a * -1),
        (Unary::Abs, Symbol::Integer(a)) if a.range().min >= 0 => Symbol::Integer(a),
        (Unary::Not, Symbol::Boolean(a)) => Symbol::Boolean(!a),
        (Unary::Neg, Symbol::Float(a)) => Symbol::Float(a.negated()),
        (Unary::Floor, Symbol::Float(a)) => Symbol::Float(a.floor()),
        (Unary::Ceil, Symbol::Float(a)) => Symbol::Float(a.ceil()),
        _ => Symbol::Unknown,
    }
}

fn binary(function: Binary, a: Symbol, b: Symbol) -> Symbol {
    match (a, b) {
        (Symbol::Integer(a), Symbol::Integer(b)) => integers(function, &a, &b),
        (Symbol::Float(a), Symbol::Float(b)) => match function {
            Binary::Add => Symbol::float(a.plus(&b)),
            Binary::Sub => Symbol::float(a.plus(&b.negated())),
            Binary::Mul => Symbol::float(a.times(&b)),
            Binary::Div => Symbol::float(a.over_by(&b)),
            _ => Symbol::Unknown,
        },
        (Symbol::Boolean(a), Symbol::Boolean(b)) => match function {
            Binary::And => Symbol::Boolean(a & b),
            Binary::Or => Symbol::Boolean(a | b),
            Binary::Xor | Binary::Ne => Symbol::Boolean(a != b),
            Binary::Eq => Symbol::Boolean(a == b),
            _ => Symbol::Unknown,
        },
        _ => Symbol::Unknown,
    }
}

fn integers(function: Binary, a: &Dim, b: &Dim) -> Symbol {
    let difference = (a.clone() - b).range();
    let positive = a.range().min >= 0 && b.range().min > 0;
    let decided = |yes: bool, no: bool| match (yes, no) {
        (true, _) => Symbol::Boolean(true),
        (_, true) => Symbol::Boolean(false),
        _ => Symbol::Unknown,
    };
    let (apart, equal) = (difference.min > 0 || difference.max < 0, difference.min == 0 && difference.max == 0);
    match function {
        Binary::Add => Symbol::Integer(a.clone() + b),
        Binary::Sub => Symbol::Integer(a.clone() - b),
        Binary::Mul => Symbol::Integer(a.clone() * b),
        Binary::FloorDiv => Symbol::Integer(a.floor_div(b)),
        Binary::Div if positive => Symbol::Integer(a.floor_div(b)),
        Binary::FloorMod => Symbol::Integer(a.modulo(b)),
        Binary::Rem if positive => Symbol::Integer(a.modulo(b)),
        Binary::Min => Symbol::Integer(a.minimum(b)),
        Binary::Max => Symbol::Integer(a.maximum(b)),
        Binary::Eq => decided(equal, apart),
        Binary::Ne => decided(apart, equal),
        Binary::Lt => decided(difference.max < 0, difference.min >= 0),
        Binary::Le => decided(difference.max <= 0, difference.min > 0),
        _ => Symbol::Unknown,
    }
}

fn combine(function: ReduceFn, a: Symbol, b: Symbol) -> Symbol {
    match function {
        ReduceFn::Sum => binary(Binary::Add, a, b),
        ReduceFn::Prod => binary(Binary::Mul, a, b),
        ReduceFn::Max => binary(Binary::Max, a, b),
        ReduceFn::Min => binary(Binary::Min, a, b),
        ReduceFn::All => binary(Binary::And, a, b),
        ReduceFn::Any => binary(Binary::Or, a, b),
    }
}
