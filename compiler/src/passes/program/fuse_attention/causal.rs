//! Causal masks: where it is known, whatever the inputs are, that a row sees only keys up to its own, or up to some keys further.

use crate::dim::{Atom, Dim};
use crate::program::edit::{Nodes, prune, replace_nodes};
use crate::program::interpret::address::Address;
use crate::program::kernel::{Kernel, KernelKind, Part};
use crate::program::nest::{Access, Binary, Const, Nest, Node, Scalar};
use crate::program::{Program, recognise};

/// Addends below this hide a key from a row that also sees others: their scores are far above.
const LOW: f32 = -1e30;
/// Addends up to this leave scores what they are.
const MOST: f32 = 1024.0;
/// Most nodes that are evaluated for one mask: one to two seconds of an unoptimised compiler.
const WORK: usize = 1 << 25;

/// What is known of a scalar at one score.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Boolean(bool),
    Integer(i64),
    Number(f32),
    /// The sum of products, times and plus numbers of usual size.
    Score,
    /// Minus infinity, or the sum of it and anything.
    Never,
    /// A sum of a score and a number that hides it.
    Hidden,
    Anything,
}

/// Masks that were looked at: what happens to scores, over which axes, and what was found. Layers have them in common.
pub(super) type Masks = Vec<(Scores, Option<Causal>)>;

/// The nodes behind sums, all extents, and the axes of rows and columns.
type Scores = (Vec<(usize, Scalar)>, Vec<Dim>, [usize; 2]);

/// A causal mask.
#[derive(Clone, Debug)]
pub(super) struct Causal {
    /// How many keys the first row sees; every next one sees one more.
    keys: usize,
    /// What every node is wherever a row sees a key, if it is the same there.
    settled: Vec<Option<Known>>,
}

/// How many keys the first row sees, if not all. A mask that says nothing else is written as `column < row + keys`.
pub(super) fn find(program: &Program, kernel: &mut Kernel, masks: &mut Masks) -> Option<Dim> {
    let nest = &kernel.nest;
    let (row, column) = (axis(kernel, Part::Row)?, axis(kernel, Part::Column)?);
    if [row, column].iter().any(|axis| nest.axes[*axis].extent.as_const().is_none()) {
        return selected(nest, row, column);
    }
    let extents: Vec<Dim> = nest.axes.iter().map(|axis| axis.extent.clone()).collect();
    let nodes = nest.needed(&[nest.result]).into_iter().filter_map(|i| Some((i, nest.nodes.get(i)?.clone()))).collect();
    let scores = (nodes, extents, [row, column]);
    let known = masks.iter().find(|(other, _)| *other == scores).map(|(_, found)| found.clone());
    let found = known.unwrap_or_else(|| {
        let found = look(program, nest, row, column);
        masks.push((scores, found.clone()));
        found
    })?;
    if let Some(neutral) = neutral(nest, &found.settled) {
        write(kernel, &neutral, seen(row, column, &Dim::from(found.keys)));
    }
    Some(Dim::from(found.keys))
}

/// How many keys the first row sees of a number that is known when the model runs: the last node selects scores where
/// `column <= row + keys - 1`, perhaps among other conditions.
fn selected(nest: &Nest, row: usize, column: usize) -> Option<Dim> {
    let node = |at: Node| nest.nodes.get(at as usize);
    let Scalar::Select(condition, _, otherwise) = node(nest.result)? else { return None };
    if node(*otherwise) != Some(&Scalar::Const(Const::F32(f32::NEG_INFINITY))) {
        return None;
    }
    let mut conditions = vec![*condition];
    let mut next = 0;
    while let Some(condition) = conditions.get(next) {
        match node(*condition)? {
            Scalar::Binary(Binary::And, a, b) => {
                let new = [*a, *b].into_iter().filter(|at| !conditions.contains(at)).collect::<Vec<_>>();
                conditions.extend(new);
            }
            Scalar::Binary(Binary::Le, a, b) => {
                if let (Some(Scalar::Index(a)), Some(Scalar::Index(b))) = (node(*a), node(*b)) {
                    let more = b.clone() - a + &Dim::axis(column) - &Dim::axis(row);
                    if !more.is_index() && more.range().min >= 0 {
                        return Some(more + 1);
                    }
                }
            }
            _ => {}
        }
        next += 1;
    }
    None
}

/// Whether this node is the mask that `find` writes.
pub(super) fn is_mask(kernel: &Kernel, condition: Node, keys: &Dim) -> bool {
    let nest = &kernel.nest;
    let (Some(row), Some(column)) = (axis(kernel, Part::Row), axis(kernel, Part::Column)) else { return false };
    let node = |at: Node| nest.nodes.get(at as usize);
    let [first, second] = seen(row, column, keys);
    matches!(node(condition), Some(Scalar::Binary(Binary::Le, a, b)) if node(*a) == Some(&first) && node(*b) == Some(&second))
}

/// What is at most the other where a row sees a key.
fn seen(row: usize, column: usize, keys: &Dim) -> [Scalar; 2] {
    [Scalar::Index(Dim::axis(column)), Scalar::Index(Dim::axis(row) + keys - 1)]
}

/// The only axis of this part with more than one index.
fn axis(kernel: &Kernel, part: Part) -> Option<usize> {
    let nest = &kernel.nest;
    let is = |axis: &usize| kernel.parts.get(*axis) == Some(&part) && !nest.axes[*axis].extent.is(1);
    let mut axes = (0..nest.maps).filter(is);
    axes.next().filter(|_| axes.next().is_none())
}

/// A node that is ready to be evaluated at many scores.
enum Form<'a> {
    Is(Known),
    Index(Address),
    Element(Address, Vec<Known>),
    Function(&'a Scalar),
}

struct Mask<'a> {
    forms: Vec<(usize, Form<'a>)>,
    result: usize,
}

impl<'a> Mask<'a> {
    fn of(program: &Program, nest: &'a Nest, (row, column): (usize, usize)) -> Option<Self> {
        let address = |dim: &Dim| {
            let mut known = true;
            dim.for_each_atom(&mut |atom| {
                known &= match atom {
                    Atom::Axis(axis) => {
                        [row, column].contains(&(*axis as usize)) || nest.axes[*axis as usize].extent.is(1)
                    }
                    _ => false,
                }
            });
            known.then(|| Address::new(dim, &|_| 0))
        };
        let form = |node: &'a Scalar| match node {
            Scalar::Const(value) => Form::Is(constant(*value)),
            Scalar::Reduced => Form::Is(Known::Score),
            Scalar::Index(dim) => address(dim).map_or(Form::Is(Known::Anything), Form::Index),
            Scalar::Load { access, bounds, .. } if bounds.is_empty() => {
                let element = || Some(Form::Element(address(&position(program, access)?)?, elements(program, access)?));
                element().unwrap_or(Form::Is(Known::Anything))
            }
            Scalar::Load { .. } => Form::Is(Known::Anything),
            _ => Form::Function(node),
        };
        let forms = nest
            .needed(&[nest.result])
            .into_iter()
            .map(|i| Some((i, form(nest.nodes.get(i)?))))
            .collect::<Option<_>>()?;
        Some(Mask { forms, result: nest.result as usize })
    }

    /// Evaluates all nodes at a point; `values` has one for each.
    fn at(&self, point: &[i64], values: &mut [Known]) -> Known {
        for (i, form) in &self.forms {
            values[*i] = match form {
                Form::Is(known) => *known,
                Form::Index(address) => Known::Integer(address.at(point, &|_| 0)),
                Form::Element(address, elements) => {
                    let at = usize::try_from(address.at(point, &|_| 0)).ok();
                    at.and_then(|at| elements.get(at)).copied().unwrap_or(Known::Anything)
                }
                Form::Function(node) => function(node, values),
            };
        }
        values[self.result]
    }
}

/// Where an element lies among those of a constant, in the order of its dimensions.
fn position(program: &Program, access: &Access) -> Option<Dim> {
    let dims = &program.buffer(access.buffer).dims;
    access
        .index
        .iter()
        .zip(dims)
        .try_fold(Dim::constant(0), |at, (i, dim)| dim.as_const().map(|extent| at * &Dim::constant(extent) + i))
}

fn elements(program: &Program, access: &Access) -> Option<Vec<Known>> {
    let tensor = program.buffer(access.buffer).constant().filter(|tensor| tensor.len() <= WORK)?;
    if tensor.element == crate::element::ElementType::Boolean {
        return Some(tensor.to_i64s()?.into_iter().map(|value| Known::Boolean(value != 0)).collect());
    }
    tensor.element.is_float().then_some(())?;
    Some(tensor.to_f64s()?.into_iter().map(|value| number(value as f32)).collect())
}

fn constant(value: Const) -> Known {
    match value {
        Const::F32(value) => number(value),
        Const::I32(value) => Known::Integer(i64::from(value)),
        Const::I64(value) => Known::Integer(value),
        Const::Bool(value) => Known::Boolean(value),
        Const::F64(_) | Const::U64(_) => Known::Anything,
    }
}

fn number(value: f32) -> Known {
    if value == f32::NEG_INFINITY { Known::Never } else { Known::Number(value) }
}

fn function(node: &Scalar, values: &[Known]) -> Known {
    let of = |node: &Node| values[*node as usize];
    match node {
        Scalar::Binary(function, a, b) => binary(*function, of(a), of(b)),
        Scalar::Select(c, a, b) => match (of(c), of(a), of(b)) {
            (Known::Boolean(true), a, _) => a,
            (Known::Boolean(false), _, b) => b,
            (_, a, b) if a == b => a,
            _ => Known::Anything,
        },
        Scalar::Unary(crate::program::nest::Unary::Not, a) => match of(a) {
            Known::Boolean(a) => Known::Boolean(!a),
            _ => Known::Anything,
        },
        _ => Known::Anything,
    }
}

fn binary(function: Binary, a: Known, b: Known) -> Known {
    use Known::{Anything, Boolean, Hidden, Integer, Never, Number, Score};
    match (function, a, b) {
        (Binary::Add, Never, _) | (Binary::Add, _, Never) => Never,
        (Binary::Add, Score | Hidden, Number(x)) | (Binary::Add, Number(x), Score | Hidden) if x <= LOW => Hidden,
        (Binary::Add | Binary::Mul, Score, Number(x)) | (Binary::Add | Binary::Mul, Number(x), Score)
            if x.abs() <= MOST =>
        {
            Score
        }
        (Binary::Div, Score, Number(x)) if x.abs() >= 1.0 / MOST => Score,
        (Binary::Lt, Integer(a), Integer(b)) => Boolean(a < b),
        (Binary::Le, Integer(a), Integer(b)) => Boolean(a <= b),
        (Binary::Eq, Integer(a), Integer(b)) => Boolean(a == b),
        (Binary::And, Boolean(false), _) | (Binary::And, _, Boolean(false)) => Boolean(false),
        (Binary::And, Boolean(true), x) | (Binary::And, x, Boolean(true)) => x,
        (Binary::Or, Boolean(true), _) | (Binary::Or, _, Boolean(true)) => Boolean(true),
        (Binary::Or, Boolean(false), x) | (Binary::Or, x, Boolean(false)) => x,
        _ => Anything,
    }
}

/// Looks at all scores.
fn look(program: &Program, nest: &Nest, row: usize, column: usize) -> Option<Causal> {
    let (rows, keys) = (nest.axes[row].extent.as_usize()?, nest.axes[column].extent.as_usize()?);
    let mask = Mask::of(program, nest, (row, column))?;
    let work = rows.checked_mul(keys)?.checked_mul(mask.forms.len())?;
    let (mut point, mut values) = (vec![0; nest.axes.len()], vec![Known::Anything; nest.nodes.len()]);
    let mut at = |r: usize, c: usize, values: &mut [Known]| {
        (point[row], point[column]) = (r as i64, c as i64);
        mask.at(&point, values)
    };
    let hides = |known: Known| matches!(known, Known::Never | Known::Hidden);
    if work > WORK || !hides(at(0, keys.checked_sub(1)?, &mut values)) {
        return None;
    }
    let mut first = 1;
    for r in 0..rows {
        let last = (first + r..keys).rev().find(|c| !hides(at(r, *c, &mut values)));
        first = last.map_or(first, |last| last + 1 - r);
    }
    if first >= keys {
        return None;
    }
    at(0, 0, &mut values);
    let mut settled: Vec<Option<Known>> = values.iter().copied().map(Some).collect();
    for r in 0..rows {
        let end = keys.min(first + r);
        let mut sees = false;
        for c in 0..end {
            sees |= at(r, c, &mut values) == Known::Score;
            settled.iter_mut().zip(&values).for_each(|(all, value)| *all = all.filter(|all| all == value));
        }
        // A row of nothing but numbers that hide would weigh all keys alike.
        if !sees && (end..keys).any(|c| at(r, c, &mut values) == Known::Hidden) {
            return None;
        }
    }
    Some(Causal { keys: first, settled })
}

/// The nodes between sums and result that are their first (else second) operand wherever a row sees a key; `None` where there is none.
fn neutral(nest: &Nest, settled: &[Option<Known>]) -> Option<Vec<(usize, bool)>> {
    let settled = |node: Node| settled.get(node as usize).copied().flatten();
    let mut current = nest.nodes.iter().position(|node| *node == Scalar::Reduced)? as Node;
    let mut neutral = Vec::new();
    while current != nest.result {
        let (next, node) = recognise::only_use(nest, current)?;
        let (first, keeps) = match node {
            Scalar::Select(condition, a, _) => {
                (*a == current, settled(*condition) == Some(Known::Boolean(*a == current)))
            }
            Scalar::Binary(Binary::Add, a, b) => {
                (*a == current, settled(if *a == current { *b } else { *a }) == Some(Known::Number(0.0)))
            }
            _ => (false, false),
        };
        if keeps {
            neutral.push((next as usize, first));
        }
        current = next;
    }
    (!neutral.is_empty()).then_some(neutral)
}

/// Leaves these nodes out, and selects behind everything else.
fn write(kernel: &mut Kernel, neutral: &[(usize, bool)], [column, last]: [Scalar; 2]) {
    let KernelKind::Contraction { weights, .. } = &mut kernel.kind else { return };
    let nest = &mut kernel.nest;
    let operands = [kernel.data, *weights].map(|node| nest.nodes.get(node as usize).cloned());
    let mut nodes = Nodes::default();
    let new = nodes.copy(nest, &Dim::axis, &mut |_, i, node| {
        let (_, first) = neutral.iter().find(|(at, _)| *at == i)?;
        match node {
            Scalar::Select(_, a, b) | Scalar::Binary(_, a, b) => Some(if *first { *a } else { *b }),
            _ => None,
        }
    });
    let Some(score) = new.get(nest.result as usize).copied() else { return };
    let (column, last) = (nodes.add(column), nodes.add(last));
    let sees = nodes.add(Scalar::Binary(Binary::Le, column, last));
    let never = nodes.add(Scalar::Const(Const::F32(f32::NEG_INFINITY)));
    let result = nodes.add(Scalar::Select(sees, score, never));
    replace_nodes(nest, nodes, &new);
    nest.result = result;
    prune(nest);
    let place = |operand: &Option<Scalar>| nest.nodes.iter().position(|node| Some(node) == operand.as_ref());
    if let [Some(data), Some(other)] = operands.each_ref().map(place) {
        (kernel.data, *weights) = (data as Node, other as Node);
    }
}
