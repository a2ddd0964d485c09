//! Which values the attributes of an operation take: by asking its parse function, again and again.

use include_ir_compiler::op::OpDef;
use include_ir_compiler::read::attributes::{Accepts, Question};
use include_ir_compiler::read::{Attribute, Attributes, Layer};
use std::collections::BTreeSet;

/// What the operation of a layer asked, or nothing if the layer is refused.
pub fn asked(row: &OpDef, layer: &Layer) -> Option<(Vec<Question>, String)> {
    let attributes = Attributes::recording(layer);
    let op = (row.parse)(&attributes).ok()?;
    Some((attributes.questions(), format!("{op:?}")))
}

/// The values in effect: one pair per attribute, or per word of a list.
pub fn answers(questions: &[Question]) -> BTreeSet<(String, String)> {
    let words = |question: &Question| -> Vec<(String, String)> {
        let answer = question.answer.clone().unwrap_or_default();
        let pair = |word: &str| (question.name.clone(), word.to_owned());
        match question.accepts {
            Accepts::Words(_) => vec![pair(&answer)],
            Accepts::Lists(_) => answer.split(',').map(pair).collect(),
        }
    };
    questions.iter().flat_map(words).collect()
}

/// A layer with one attribute changed.
pub fn with(layer: &Layer, name: &str, value: &str) -> Layer {
    let mut layer = layer.clone();
    layer.attributes.retain(|attribute| attribute.name != name);
    layer.attributes.push(Attribute { name: name.to_owned(), value: value.to_owned(), ..Attribute::default() });
    layer
}

/// What one attribute may say.
#[derive(Default)]
pub struct Values {
    pub name: String,
    /// In the order of the operation's own list.
    pub words: Vec<String>,
    /// Pairs of words that made different operations.
    distinct: BTreeSet<(String, String)>,
}

impl Values {
    /// Whether two words always mean the same operation.
    pub fn same(&self, a: &str, b: &str) -> bool {
        a == b || !self.distinct.contains(&(a.to_owned(), b.to_owned()))
    }

    /// Notes the operations, as text, that the words make of one layer.
    fn note(&mut self, made: &[(String, String)]) {
        for (word, form) in made {
            if !self.words.contains(word) {
                self.words.push(word.clone());
            }
            let others = made.iter().filter(|(_, other)| other != form);
            self.distinct.extend(others.map(|(other, _)| (word.clone(), other.clone())));
        }
    }
}

/// All values of all attributes of an operation version. The search starts from layers of cases, which give the attributes
/// that take any number: every value of every attribute is tried in each, and what is asked only then is tried in turn.
pub fn search<'a>(row: &OpDef, layers: impl Iterator<Item = &'a Layer>) -> Vec<Values> {
    let (mut all, mut tried, mut seen) = (Vec::<Values>::new(), BTreeSet::new(), BTreeSet::new());
    let mut pending: Vec<Layer> = layers.cloned().collect();
    pending.reverse();
    while let Some(layer) = pending.pop() {
        let Some((questions, form)) = asked(row, &layer) else { continue };
        if !seen.insert((answers(&questions), form)) {
            continue;
        }
        for question in &questions {
            let (words, count) = match &question.accepts {
                Accepts::Words(words) => (words, 1),
                Accepts::Lists(words) => (words, question.answer.iter().flat_map(|a| a.split(',')).count()),
            };
            let mut made = Vec::new();
            for word in words {
                let changed = with(&layer, &question.name, &vec![word.as_str(); count].join(","));
                let Some((_, form)) = asked(row, &changed) else { continue };
                made.push((word.clone(), form));
                if tried.insert((question.name.clone(), word.clone())) {
                    pending.push(changed);
                }
            }
            let known = all.iter().position(|values| values.name == question.name).unwrap_or(all.len());
            if known == all.len() {
                all.push(Values { name: question.name.clone(), ..Values::default() });
            }
            all[known].note(&made);
        }
    }
    all
}
