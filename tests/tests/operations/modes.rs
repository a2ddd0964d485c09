//! `docs/modes.md`: every mode of every operation version, and how many committed cases show it.

use crate::cases::Use;
use crate::questions::{self, Values};
use crate::types::{self, Alike};
use include_ir_compiler::element::ElementType;
use include_ir_compiler::op::OpDef;
use std::collections::{BTreeMap, BTreeSet};

/// Layers of an operation version that are lowered in every way.
const TRIED: usize = 6;

/// Numbers of the cases that show something.
type Cases = BTreeSet<usize>;

/// One value of something: its name, the number of cases that show it, and why there are none.
pub struct Value {
    pub name: String,
    pub cases: usize,
    pub reason: Option<Reason>,
}

/// Why a value has no case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The operation is the same as that of another value.
    Same(String),
    /// The program is the same as that of a value with cases, but for loads and stores.
    Computed(String),
    /// The program only moves elements, as that of a value with cases.
    Moved(String),
    /// The compiler refuses it.
    Refused(String),
}

impl Reason {
    fn alike(alike: Alike, name: &str) -> Self {
        match alike {
            Alike::Computed => Reason::Computed(name.to_owned()),
            Alike::Moved => Reason::Moved(name.to_owned()),
        }
    }
}

/// Everything about one operation version.
pub struct Modes {
    pub row: &'static OpDef,
    pub cases: usize,
    /// Every attribute that takes one of a few values.
    pub attributes: Vec<(String, Vec<Value>)>,
    /// Per operand that is the first of those whose types go together.
    pub types: Vec<(usize, Vec<Value>)>,
    /// Numbers of operands, where they vary.
    pub operands: Vec<Value>,
    /// Pairs of a value of an attribute and an element type of the first operand: with cases, and all.
    pub pairs: (usize, usize),
}

impl Modes {
    pub fn of(row: &'static OpDef, uses: &[&Use]) -> Self {
        let tried = tried(uses);
        let attributes = attributes(row, uses, &tried);
        let types = element_types(uses, &tried);
        let values: usize = attributes.iter().map(|(_, values)| values.iter().filter(|v| !v.refused()).count()).sum();
        let first = types.first().filter(|(operand, _)| *operand == 0).map_or(0, |(_, values)| values.len());
        let mut pairs = BTreeSet::new();
        for used in uses {
            let element = used.types.first();
            pairs.extend(answers(used).into_iter().flat_map(|answer| element.map(|element| (answer, *element))));
        }
        let shown = pairs.len();
        let cases: Cases = uses.iter().map(|used| used.case).collect();
        let operands = operands(row, uses, &tried);
        Modes { row, cases: cases.len(), attributes, types, operands, pairs: (shown, shown.max(values * first)) }
    }

    /// All values that have no case, with what they are values of.
    pub fn gaps(&self) -> Vec<(String, &Value)> {
        let attributes = self.attributes.iter().map(|(name, values)| (format!("`{name}`"), values));
        let types = self.types.iter().map(|(operand, values)| (format!("type of operand {operand}"), values));
        let operands = std::iter::once(("operands".to_owned(), &self.operands));
        let all = attributes.chain(types).chain(operands);
        all.flat_map(|(what, values)| values.iter().filter(|v| v.cases == 0).map(move |v| (what.clone(), v))).collect()
    }
}

impl Value {
    fn refused(&self) -> bool {
        matches!(self.reason, Some(Reason::Refused(_)))
    }
}

fn answers(used: &Use) -> BTreeSet<(String, String)> {
    questions::asked(used.row, &used.layer).map_or(BTreeSet::new(), |(questions, _)| questions::answers(&questions))
}

/// A few layers that differ in their attributes, in the types or in the ranks of their operands; if possible such whose
/// sizes are known.
fn tried<'a>(uses: &[&'a Use]) -> Vec<&'a Use> {
    let ranks = |used: &Use| used.operands.iter().map(|fact| fact.rank()).collect::<Vec<_>>();
    let mut seen = BTreeSet::new();
    let known = uses.iter().any(|used| used.plain && !types::finds_sizes(used));
    let plain = uses.iter().filter(|used| used.plain && !(known && types::finds_sizes(used)));
    let new = plain.filter(|used| seen.insert((answers(used), used.types.clone(), ranks(used))));
    new.take(TRIED).copied().collect()
}

fn attributes(row: &OpDef, uses: &[&Use], tried: &[&Use]) -> Vec<(String, Vec<Value>)> {
    let mut shown: BTreeMap<(String, String), Cases> = BTreeMap::new();
    for used in uses {
        for answer in answers(used) {
            shown.entry(answer).or_default().insert(used.case);
        }
    }
    let value = |values: &Values, word: &String| {
        let cases = |word: &str| shown.get(&(values.name.clone(), word.to_owned())).map_or(0, BTreeSet::len);
        let with: Vec<&String> = values.words.iter().filter(|word| cases(word) > 0).collect();
        let reason = || {
            let same = with.iter().find(|other| values.same(word, other)).map(|other| Reason::Same((*other).clone()));
            same.or_else(|| like_another(values, word, &with, tried))
        };
        Value { name: word.clone(), cases: cases(word), reason: if cases(word) == 0 { reason() } else { None } }
    };
    let found = questions::search(row, uses.iter().map(|used| &used.layer));
    found.iter().map(|values| (values.name.clone(), values.words.iter().map(|w| value(values, w)).collect())).collect()
}

/// Whether a value of an attribute is refused wherever it is tried, or takes the path of one with cases.
fn like_another(values: &Values, word: &str, with: &[&String], tried: &[&Use]) -> Option<Reason> {
    let element = |word: &str| ElementType::all().find(|element| element.name() == word);
    let attempt = |used: &Use, word: &str| {
        let layer = questions::with(&used.layer, &values.name, word);
        types::attempt(used, &layer, element(word))
    };
    let mut refusal = None;
    let mut paths = Vec::new();
    for used in tried {
        match attempt(used, word) {
            Ok(path) => paths.push((used, path)),
            Err(message) => refusal = Some(Reason::Refused(message)),
        }
    }
    element(word)?;
    if paths.is_empty() {
        return refusal;
    }
    let like = |other: &str| {
        let alike = paths.iter().map(|(used, path)| attempt(used, other).ok().and_then(|shown| path.same(&shown)));
        alike.collect::<Option<Vec<Alike>>>()?.into_iter().max()
    };
    with.iter().find_map(|other| Some(Reason::alike(like(other)?, other)))
}

fn element_types(uses: &[&Use], tried: &[&Use]) -> Vec<(usize, Vec<Value>)> {
    let mut shown: BTreeMap<(usize, ElementType), Cases> = BTreeMap::new();
    for used in uses {
        for (operand, element) in used.types.iter().enumerate() {
            shown.entry((operand, *element)).or_default().insert(used.case);
        }
    }
    let mut taken: BTreeMap<usize, BTreeSet<ElementType>> = BTreeMap::new();
    let mut alike: BTreeMap<(usize, ElementType, ElementType), Option<Alike>> = BTreeMap::new();
    for trial in tried.iter().flat_map(|used| types::trials(used)) {
        taken.entry(trial.operand).or_default().extend(trial.paths.keys());
        let open = |element: &&ElementType| !shown.contains_key(&(trial.operand, **element));
        for a in trial.paths.keys().filter(open) {
            for b in trial.paths.keys().filter(|element| !open(element)) {
                let same = trial.paths[a].same(&trial.paths[b]);
                let slot = alike.entry((trial.operand, *a, *b)).or_insert(same);
                *slot = (*slot).zip(same).map(|(a, b)| a.max(b));
            }
        }
    }
    if taken.is_empty() {
        // Operations with bodies, effects or sizes from data: what the cases show.
        for (operand, element) in shown.keys() {
            taken.entry(*operand).or_default().insert(*element);
        }
    }
    let value = |operand: usize, element: ElementType| {
        let reason = alike.iter().find_map(|((o, a, b), alike)| match (*o, *a) == (operand, element) {
            true => alike.map(|alike| Reason::alike(alike, b.name())),
            false => None,
        });
        let cases = shown.get(&(operand, element)).map_or(0, BTreeSet::len);
        Value { name: element.to_string(), cases, reason }
    };
    let values = |(operand, taken): (&usize, &BTreeSet<ElementType>)| {
        (*operand, taken.iter().map(|element| value(*operand, *element)).collect())
    };
    taken.iter().map(values).collect()
}

fn operands(row: &OpDef, uses: &[&Use], tried: &[&Use]) -> Vec<Value> {
    let (first, last) = (*row.inputs.start(), *row.inputs.end());
    let mut shown: BTreeMap<usize, Cases> = BTreeMap::new();
    for used in uses {
        shown.entry(used.layer.inputs.len()).or_default().insert(used.case);
    }
    if first == last {
        return Vec::new();
    }
    let value = |count: usize| {
        let longer = tried.iter().filter(|used| used.operands.len() > count);
        let attempts: Vec<Option<String>> = longer.map(|used| types::refusal(used, count)).collect();
        let refused = attempts.iter().all(Option::is_some).then(|| attempts.into_iter().flatten().next()).flatten();
        let cases = shown.get(&count).map_or(0, BTreeSet::len);
        Value { name: count.to_string(), cases, reason: refused.map(Reason::Refused).filter(|_| cases == 0) }
    };
    match last {
        usize::MAX => shown.keys().copied().map(value).collect(),
        _ => (first..=last).map(value).collect(),
    }
}
