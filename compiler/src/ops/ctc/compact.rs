//! Lists that lose some of their elements: what is kept moves to the front.

use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::op::running::{Along, Running};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Bound, Const, Node, ReduceFn};

/// Integers `[batch, place]`, which of them are kept, and how many are kept in front of each of them.
pub(super) struct Listed {
    values: BufferId,
    kept: BufferId,
    before: BufferId,
    /// Number of those that are kept: `[batch]`.
    pub count: BufferId,
}

/// Whether the value in front of `at` is another one than `value`; true for the first place.
pub(super) fn differs(n: &mut NestBuilder, values: BufferId, at: &[Dim], value: Node) -> Result<Node, Diagnostic> {
    let Some((place, batch)) = at.split_last() else { return Err(Diagnostic::internal("a list lacks dimensions")) };
    let (before, zero) = (place.clone() - 1, n.constant(Const::I64(0)));
    let bound = Bound { value: before.clone(), limit: n.dims(values).last().cloned().unwrap_or_default() };
    let previous = n.load_within(values, &[batch, std::slice::from_ref(&before)].concat(), vec![bound], zero)?;
    let (place, differs) = (n.index(place), n.binary(Binary::Ne, previous, value));
    let first = n.binary(Binary::Eq, place, zero);
    Ok(n.binary(Binary::Or, first, differs))
}

impl Listed {
    /// `keep` says whether the value at an index is kept.
    pub fn new<'a>(
        builder: &mut Builder<'a>,
        values: BufferId,
        keep: impl FnOnce(&mut NestBuilder<'_, 'a>, &[Dim]) -> Result<Node, Diagnostic>,
    ) -> Result<Self, Diagnostic> {
        let dims = builder.dims(values);
        let batch: Vec<Dim> = dims.iter().take(1).cloned().collect();
        let kept = builder.temporary(ElementType::I64, dims.clone());
        let before = builder.temporary(ElementType::I64, dims.clone());
        let count = builder.temporary(ElementType::I64, batch.clone());
        builder.map(kept, |n, i| {
            let keep = keep(n, i)?;
            Ok(n.cast(ElementType::I64, keep))
        })?;
        Running { along: Along::Axis(1), exclusive: true, reverse: false }.sum(builder, kept, before)?;
        let mut n = builder.nest(&batch);
        let i = n.map_axes();
        let place = n.reduction_axis(&dims.get(1).cloned().unwrap_or_default());
        let one = n.load(kept, &[i.as_slice(), &[place]].concat())?;
        let sum = n.reduce(ReduceFn::Sum, one);
        n.store(count, &i, sum);
        Ok(Listed { values, kept, before, count })
    }

    /// Writes what is kept to the front of `out`, -1 to the places that are left, and the numbers to `counts`. `index`
    /// turns batch and place into an index of `out`.
    pub fn scatter(
        &self,
        builder: &mut Builder,
        out: BufferId,
        counts: Option<BufferId>,
        index: &dyn Fn(&[Dim]) -> Vec<Dim>,
    ) -> Result<(), Diagnostic> {
        let dims = builder.dims(self.values);
        let mut n = builder.nest(&dims);
        let at = n.map_axes();
        let [batch, place] = at.as_slice() else { return Err(Diagnostic::internal("a list lacks dimensions")) };
        let (kept, before, value) = (n.load(self.kept, &at)?, n.load(self.before, &at)?, n.load(self.values, &at)?);
        let (zero, none) = (n.constant(Const::I64(0)), n.constant(Const::I64(-1)));
        let dropped = n.binary(Binary::Eq, kept, zero);
        // Those that are dropped follow in their order, so that every place is written once.
        let (count, place) = (n.load(self.count, std::slice::from_ref(batch))?, n.index(place));
        let rest = n.binary(Binary::Sub, place, before);
        let behind = n.binary(Binary::Add, count, rest);
        let (to, value) = (n.select(dropped, behind, before), n.select(dropped, none, value));
        let to = n.as_index(to);
        n.store(out, &index(&[batch.clone(), to]), value);
        match counts {
            Some(counts) => builder.convert(self.count, counts),
            None => Ok(()),
        }
    }
}
