//! Einsum: sums of products of tensors whose dimensions have labels.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::fact::Fact;
use crate::op::operands::{MapAxes, operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output, typing};
use crate::program::BufferId;
use crate::program::builder::Builder;
use crate::program::nest::{Binary, ReduceFn};
use crate::read::Attributes;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[OpDef {
    name: "Einsum",
    version: 7,
    opsets: 7..=17,
    inputs: 1..=usize::MAX,
    outputs: one_output,
    parse,
    ignorable: &[],
    support: Support::Full,
}];

/// Einsum-7: `out[labels] = sum over the other labels of the product of all operands`. A label that an operand repeats is
/// its diagonal; an ellipsis stands for any number of dimensions, aligned at the last one; a dimension of size 1
/// stretches to the size that the label has in another operand.
#[derive(Debug)]
struct Einsum {
    inputs: Vec<Vec<Symbol>>,
    output: Vec<Symbol>,
}

/// One item of a subscript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Symbol {
    Ellipsis,
    Letter(char),
}

/// One dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// A dimension under an ellipsis, counted from the last one.
    FromEnd(usize),
    Letter(char),
}

fn parse(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let bad = |why: &str| Err(attributes.invalid("equation", why));
    let text: String = attributes.string("equation")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let subscript = "an equation of letters with at most one `...` per operand, such as `ab,bc->ac`";
    let Some(inputs) = left.split(',').map(symbols).collect::<Option<Vec<_>>>() else { return bad(subscript) };
    let all: BTreeSet<Symbol> = inputs.iter().flatten().copied().collect();
    let Some(right) = right else {
        let once = |symbol: &Symbol| inputs.iter().flatten().filter(|other| *other == symbol).count() == 1;
        let output = all.iter().filter(|symbol| **symbol == Symbol::Ellipsis || once(symbol)).copied().collect();
        return Ok(Rc::new(Einsum { inputs, output }));
    };
    let Some(output) = symbols(right) else { return bad(subscript) };
    if output.iter().collect::<BTreeSet<_>>().len() < output.len() {
        return bad("an equation whose output names every label once");
    }
    if output.iter().any(|symbol| !all.contains(symbol)) {
        return bad("an equation whose output names labels of operands");
    }
    if all.contains(&Symbol::Ellipsis) && !output.contains(&Symbol::Ellipsis) {
        return bad("an equation whose output has a `...`, as an operand has");
    }
    Ok(Rc::new(Einsum { inputs, output }))
}

/// The items of a subscript; `None` where it is malformed.
fn symbols(text: &str) -> Option<Vec<Symbol>> {
    let mut found = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        found.push(match c {
            'a'..='z' | 'A'..='Z' => Symbol::Letter(c),
            '.' if rest.next() == Some('.') && rest.next() == Some('.') && !found.contains(&Symbol::Ellipsis) => {
                Symbol::Ellipsis
            }
            _ => return None,
        });
    }
    Some(found)
}

/// The labels of `symbols` where the ellipsis stands for `hidden` dimensions.
fn labels(symbols: &[Symbol], hidden: usize) -> Vec<Label> {
    let expand = |symbol: &Symbol| match symbol {
        Symbol::Letter(letter) => vec![Label::Letter(*letter)],
        Symbol::Ellipsis => (0..hidden).rev().map(Label::FromEnd).collect(),
    };
    symbols.iter().flat_map(expand).collect()
}

/// Number of dimensions that the ellipsis of a subscript stands for.
fn hidden(symbols: &[Symbol], rank: usize) -> Option<usize> {
    let hidden = rank.checked_sub(symbols.iter().filter(|symbol| **symbol != Symbol::Ellipsis).count())?;
    (hidden == 0 || symbols.contains(&Symbol::Ellipsis)).then_some(hidden)
}

/// The larger of the sizes that a label has in two operands: 1 stretches.
fn merged(a: Option<&Dim>, b: &Dim) -> Dim {
    match a {
        Some(a) if b.is(1) || a.as_const().is_some() && !a.is(1) => a.clone(),
        _ => b.clone(),
    }
}

impl Einsum {
    /// The labels of every operand and of the result.
    fn labels(&self, ranks: &[usize]) -> Result<(Vec<Vec<Label>>, Vec<Label>), Diagnostic> {
        if ranks.len() != self.inputs.len() {
            let message = format!("the equation has {} operands, the layer {}", self.inputs.len(), ranks.len());
            return Err(shape_error(message));
        }
        let (mut operands, mut most) = (Vec::new(), 0);
        for (i, (symbols, rank)) in self.inputs.iter().zip(ranks).enumerate() {
            let Some(hidden) = hidden(symbols, *rank) else {
                let message = format!("the equation has {} labels for operand {i} of rank {rank}", symbols.len());
                return Err(shape_error(message));
            };
            most = most.max(hidden);
            operands.push(labels(symbols, hidden));
        }
        Ok((operands, labels(&self.output, most)))
    }
}

impl Op for Einsum {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let element = operand(inputs, 0)?.element;
        typing::number(element, "operand 0")?;
        typing::equal(inputs)?;
        let ranks: Vec<usize> = inputs.iter().map(Fact::rank).collect();
        let (operands, output) = self.labels(&ranks)?;
        let mut sizes: BTreeMap<Label, Dim> = BTreeMap::new();
        for (labels, fact) in operands.iter().zip(inputs) {
            let mut own: BTreeMap<Label, &Dim> = BTreeMap::new();
            for (label, dim) in labels.iter().zip(&fact.dims) {
                if let Some(other) = own.insert(*label, dim) {
                    require_equal(context, other, dim, "dimensions on a diagonal")?;
                }
                let known = sizes.get(label);
                if let Some(known) = known.filter(|known| !known.is(1) && !dim.is(1)) {
                    require_equal(context, known, dim, "dimensions with one label")?;
                }
                let size = merged(known, dim);
                sizes.insert(*label, size);
            }
        }
        let dims = output.iter().filter_map(|label| sizes.get(label).cloned()).collect();
        Ok(vec![Fact::new(element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let buffers = (0..builder.input_count()).map(|i| builder.input(i)).collect::<Result<Vec<_>, _>>()?;
        let ranks: Vec<usize> = buffers.iter().map(|buffer| builder.dims(*buffer).len()).collect();
        let (operands, output) = self.labels(&ranks)?;
        let mut sum = Sum { terms: Vec::new(), sizes: BTreeMap::new(), output };
        for (buffer, labels) in buffers.into_iter().zip(operands) {
            let dims = builder.dims(buffer);
            for (label, dim) in labels.iter().zip(&dims) {
                let size = merged(sum.sizes.get(label), dim);
                sum.sizes.insert(*label, size);
            }
            sum.terms.push(Term { buffer, labels, dims });
        }
        sum.reduce_alone(builder)?;
        sum.contract_pairs(builder)?;
        let all: Vec<usize> = (0..sum.terms.len()).collect();
        let (out, output) = (builder.output(0)?, sum.output.clone());
        sum.nest(builder, &all, &output, out)
    }
}

/// A factor with its labels.
struct Term {
    buffer: BufferId,
    labels: Vec<Label>,
    dims: Vec<Dim>,
}

/// What is left to be computed.
struct Sum {
    terms: Vec<Term>,
    /// The size of every label.
    sizes: BTreeMap<Label, Dim>,
    output: Vec<Label>,
}

impl Sum {
    fn size(&self, label: &Label) -> Dim {
        self.sizes.get(label).cloned().unwrap_or(Dim::constant(1))
    }

    /// Number of points that a nest over some labels has, at most.
    fn points<'l>(&self, labels: impl IntoIterator<Item = &'l Label>) -> i64 {
        let sizes: Vec<Dim> = labels.into_iter().map(|label| self.size(label)).collect();
        product(&sizes).upper_bound()
    }

    /// The labels of the product of some factors that the result or another factor needs.
    fn kept(&self, chosen: &[usize]) -> Vec<Label> {
        let others = (0..self.terms.len()).filter(|i| !chosen.contains(i)).filter_map(|i| self.terms.get(i));
        let outside: BTreeSet<Label> = others.flat_map(|term| &term.labels).chain(&self.output).copied().collect();
        let mut kept = Vec::new();
        for label in self.labels(chosen) {
            if outside.contains(&label) && !kept.contains(&label) {
                kept.push(label);
            }
        }
        kept
    }

    /// The labels of some factors, with repetitions.
    fn labels(&self, chosen: &[usize]) -> Vec<Label> {
        chosen.iter().filter_map(|i| self.terms.get(*i)).flat_map(|term| term.labels.iter().copied()).collect()
    }

    /// Sums of one factor along labels that nothing else has come first: what is left is a product with fewer points.
    fn reduce_alone(&mut self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if self.terms.len() < 2 {
            return Ok(());
        }
        for i in 0..self.terms.len() {
            let (kept, own) = (self.kept(&[i]), self.sizes_in(&[i]));
            if own.iter().any(|(label, size)| !kept.contains(label) && !size.is(1)) {
                self.replace(builder, &[i], kept)?;
            }
        }
        Ok(())
    }

    /// Multiplies pairs of factors as long as that is cheaper than one nest over all labels. Sums of more than two factors
    /// have no kernel: a pair that leaves two may take a little more.
    fn contract_pairs(&mut self, builder: &mut Builder) -> Result<(), Diagnostic> {
        while self.terms.len() > 2 {
            let count = self.terms.len();
            let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| [a, b]));
            // Products of the pair and of what is left, and what is written between them.
            let cost = |pair: &[usize; 2]| {
                let kept = self.kept(pair);
                let others: Vec<usize> = (0..count).filter(|i| !pair.contains(i)).collect();
                let left: BTreeSet<Label> = self.labels(&others).into_iter().chain(kept.iter().copied()).collect();
                let own: BTreeSet<Label> = self.labels(pair).into_iter().collect();
                self.points(&kept).saturating_add(self.points(&own)).saturating_add(self.points(&left))
            };
            let Some(pair) = pairs.min_by_key(cost) else { return Ok(()) };
            let all: BTreeSet<Label> = self.terms.iter().flat_map(|term| term.labels.iter().copied()).collect();
            let alone = self.points(&all);
            let sums = all.iter().any(|label| !self.output.contains(label) && !self.size(label).is(1));
            if cost(&pair) >= alone.saturating_add(if sums { alone / 4 } else { 0 }) {
                return Ok(());
            }
            let kept = self.kept(&pair);
            self.replace(builder, &pair, kept)?;
        }
        Ok(())
    }

    /// Replaces factors by their product, in a buffer with dimensions `kept`.
    fn replace(&mut self, builder: &mut Builder, chosen: &[usize], kept: Vec<Label>) -> Result<(), Diagnostic> {
        let own: BTreeMap<Label, Dim> = self.sizes_in(chosen);
        let dims: Vec<Dim> = kept.iter().map(|label| own.get(label).cloned().unwrap_or_default()).collect();
        let element = match chosen.first().and_then(|i| self.terms.get(*i)) {
            Some(term) => builder.scalar_type(term.buffer)?.element(),
            None => return Err(Diagnostic::internal("a product without factors")),
        };
        let to = builder.temporary(element, dims.clone());
        self.nest(builder, chosen, &kept, to)?;
        let mut first = true;
        let terms = std::mem::take(&mut self.terms).into_iter().enumerate();
        for (i, term) in terms {
            if !chosen.contains(&i) {
                self.terms.push(term);
            } else if std::mem::take(&mut first) {
                self.terms.push(Term { buffer: to, labels: kept.clone(), dims: dims.clone() });
            }
        }
        Ok(())
    }

    /// The sizes of labels within some factors: 1 where the label is stretched by others only.
    fn sizes_in(&self, chosen: &[usize]) -> BTreeMap<Label, Dim> {
        let mut sizes: BTreeMap<Label, Dim> = BTreeMap::new();
        for term in chosen.iter().filter_map(|i| self.terms.get(*i)) {
            for (label, dim) in term.labels.iter().zip(&term.dims) {
                let size = merged(sizes.get(label), dim);
                sizes.insert(*label, size);
            }
        }
        sizes
    }

    /// The product of some factors, summed over all labels but `output`.
    fn nest(&self, builder: &mut Builder, chosen: &[usize], output: &[Label], to: BufferId) -> Result<(), Diagnostic> {
        let sizes = self.sizes_in(chosen);
        let mut maps = MapAxes::default();
        let mut axes: BTreeMap<Label, Dim> = BTreeMap::new();
        let mut index = Vec::with_capacity(output.len());
        for label in output {
            let axis = maps.axis(sizes.get(label).unwrap_or(&Dim::constant(1)));
            axes.insert(*label, axis.clone());
            index.push(axis);
        }
        let mut n = builder.nest(&maps.extents);
        let mut reduced = false;
        for label in self.labels(chosen) {
            axes.entry(label).or_insert_with(|| {
                let size = sizes.get(&label).cloned().unwrap_or(Dim::constant(1));
                let axis = if size.is(1) { Dim::constant(0) } else { n.reduction_axis(&size) };
                reduced |= !size.is(1);
                axis
            });
        }
        let mut value = None;
        for term in chosen.iter().filter_map(|i| self.terms.get(*i)) {
            let at = |(label, dim): (&Label, &Dim)| match axes.get(label) {
                Some(axis) if !dim.is(1) => axis.clone(),
                _ => Dim::constant(0),
            };
            let at: Vec<Dim> = term.labels.iter().zip(&term.dims).map(at).collect();
            let factor = n.load(term.buffer, &at)?;
            value = Some(match value {
                Some(value) => n.binary(Binary::Mul, value, factor),
                None => factor,
            });
        }
        let Some(value) = value else { return Err(Diagnostic::internal("a product without factors")) };
        let sum = if reduced { n.reduce(ReduceFn::Sum, value) } else { value };
        n.store(to, &index, sum);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscripts() {
        let letters = |text: &str| text.chars().map(Symbol::Letter).collect::<Vec<_>>();
        assert_eq!(symbols("aBa"), Some(letters("aBa")));
        assert_eq!(symbols(""), Some(Vec::new()));
        let with_ellipsis = [Symbol::Letter('a'), Symbol::Ellipsis, Symbol::Letter('b')];
        assert_eq!(symbols("a...b"), Some(with_ellipsis.to_vec()));
        for bad in ["a..", "....", "......", "a1", "a-b", "é", "."] {
            assert_eq!(symbols(bad), None, "{bad}");
        }
        assert_eq!(hidden(&with_ellipsis, 5), Some(3));
        assert_eq!(hidden(&with_ellipsis, 1), None);
        assert_eq!(hidden(&letters("ab"), 3), None);
        let expected = [Label::Letter('a'), Label::FromEnd(1), Label::FromEnd(0), Label::Letter('b')];
        assert_eq!(labels(&with_ellipsis, 2), expected);
    }
}
