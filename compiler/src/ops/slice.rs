//! Operations on every n-th element of a range along each axis: Slice, StridedSlice read them, SliceScatter replaces them.

mod run_time;

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::fact::{Fact, Value};
use crate::op::operands::{self, operand, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::Bound;
use crate::program::builder::Builder;
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    OpDef {
        name: "Slice",
        version: 8,
        opsets: 8..=17,
        inputs: 4..=5,
        outputs: one_output,
        parse: |_| Ok(Rc::new(Slice)),
        ignorable: &[],
        support: Support::Full,
    },
    OpDef {
        name: "SliceScatter",
        version: 15,
        opsets: 15..=17,
        inputs: 5..=6,
        outputs: one_output,
        parse: |_| Ok(Rc::new(SliceScatter)),
        ignorable: &[],
        support: Support::Full,
    },
    OpDef {
        name: "StridedSlice",
        version: 1,
        opsets: 1..=17,
        inputs: 3..=4,
        outputs: one_output,
        parse: strided_slice,
        ignorable: &[],
        support: Support::Full,
    },
];

/// Elements `first`, `first + step`, ... of one dimension.
#[derive(Clone, Debug)]
struct Range {
    first: Dim,
    step: i64,
    count: Dim,
}

/// `at`, counted from the end where it is negative; works for run-time values of unknown sign.
fn from_end(at: &Dim, size: &Dim) -> Dim {
    let negative = (at.clone() * -1).maximum(&Dim::constant(0)).minimum(&Dim::constant(1));
    at.clone() + size.clone() * &negative
}

impl Range {
    fn all(size: &Dim) -> Range {
        Range { first: Dim::constant(0), step: 1, count: size.clone() }
    }

    /// From `begin` (`None`: the first element in the direction of `step`) up to and without `end` (`None`: to the last).
    /// Values beyond the ends are clamped.
    fn new(size: &Dim, begin: Option<&Dim>, end: Option<&Dim>, step: i64) -> Result<Range, Diagnostic> {
        let (zero, last) = (Dim::constant(0), size.clone() - 1);
        let wrapped = |at: Option<&Dim>| at.map(|at| from_end(at, size));
        let (begin, end) = (wrapped(begin), wrapped(end));
        let (first, length) = match step {
            0 => return Err(Diagnostic::error(&codes::VALUE, "the step of a slice is 0")),
            1.. => {
                let first = begin.map_or(zero.clone(), |at| at.maximum(&zero).minimum(size));
                let end = end.map_or(size.clone(), |at| at.maximum(&zero).minimum(size));
                (first.clone(), end - first)
            }
            _ => {
                let first = begin.map_or(last.clone(), |at| at.maximum(&zero).minimum(&last));
                let end = end.map_or(Dim::constant(-1), |at| at.maximum(&Dim::constant(-1)).minimum(size));
                (first.clone(), first - end)
            }
        };
        let count = length.maximum(&zero).ceil_div(&Dim::constant(step.saturating_abs()));
        Ok(Range { first, step, count })
    }

    fn at(&self, i: &Dim) -> Dim {
        i.clone() * self.step + &self.first
    }
}

/// Start, stop, step and axes are operands.
#[derive(Debug)]
struct Slice;

impl Slice {
    fn ranges(inputs: &[Fact]) -> Result<Vec<Range>, Diagnostic> {
        let data = operand(inputs, 0)?;
        let starts = operands::sizes(inputs, 1, "the starts of a slice")?;
        let stops = operands::sizes(inputs, 2, "the stops of a slice")?;
        let steps = operands::integers(inputs, 3, "the steps of a slice")?;
        let axes = match inputs.len() {
            4 => (0..starts.len() as i64).collect(),
            _ => operands::integers(inputs, 4, "the axes of a slice")?,
        };
        if [stops.len(), steps.len(), axes.len()] != [starts.len(); 3] {
            return Err(shape_error("starts, stops, steps and axes of a slice have different lengths"));
        }
        let mut ranges: Vec<Range> = data.dims.iter().map(Range::all).collect();
        for (((axis, start), stop), step) in
            operands::axes(&axes, data.rank())?.into_iter().zip(&starts).zip(&stops).zip(steps)
        {
            if let (Some(slot), Some(size)) = (ranges.get_mut(axis), data.dims.get(axis)) {
                *slot = Range::new(size, Some(start), Some(stop), step)?;
            }
        }
        Ok(ranges)
    }
}

/// Whether an operand of a slice, all of which come behind the data, is known only at run time.
fn is_open(inputs: &[Fact]) -> bool {
    inputs.iter().skip(1).any(|fact| fact.value == Value::Unknown && fact.element.is_integer())
}

impl Slice {
    /// For every dimension, where its start stands among the starts.
    fn open_items(inputs: &[Fact]) -> Result<Vec<Option<run_time::Item>>, Diagnostic> {
        let (data, count) = (operand(inputs, 0)?, run_time::entries(operand(inputs, 1)?)?);
        let axes = match inputs.get(4) {
            Some(fact) if fact.value == Value::Unknown => None,
            Some(_) => Some(operands::axes(&operands::integers(inputs, 4, "the axes of a slice")?, data.rank())?),
            None => Some((0..count).collect()),
        };
        let entry = |d: usize| match &axes {
            None => run_time::Entry::Named,
            Some(axes) => match axes.iter().position(|axis| *axis == d) {
                Some(place) => run_time::Entry::At { place, start: true, stop: true },
                None => run_time::Entry::None,
            },
        };
        Ok((0..data.rank()).map(|d| Some(run_time::Item::Range(entry(d)))).collect())
    }
}

impl Op for Slice {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        if is_open(inputs) {
            return Ok(run_time::infer(operand(inputs, 0)?, &Slice::open_items(inputs)?, context));
        }
        let dims = Slice::ranges(inputs)?.into_iter().map(|range| range.count).collect();
        Ok(vec![Fact::new(operand(inputs, 0)?.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        if is_open(builder.facts()) {
            let items = Slice::open_items(builder.facts())?;
            let axes = if builder.input_count() > 4 { Some(builder.input(4)?) } else { None };
            let (starts, stops, steps) = (builder.input(1)?, builder.input(2)?, Some(builder.input(3)?));
            return run_time::lower(builder, run_time::Lists { starts, stops, steps, axes }, &items, x, out);
        }
        let ranges = Slice::ranges(builder.facts())?;
        builder.map(out, |n, i| {
            let index: Vec<Dim> = ranges.iter().zip(i).map(|(range, i)| range.at(i)).collect();
            n.load(x, &index)
        })
    }
}

/// Data in which the elements that Slice would read are replaced by updates. Operands as of Slice, with the updates second.
#[derive(Debug)]
struct SliceScatter;

impl SliceScatter {
    fn ranges(inputs: &[Fact]) -> Result<Vec<Range>, Diagnostic> {
        let sliced: Vec<Fact> = inputs.iter().take(1).chain(inputs.iter().skip(2)).cloned().collect();
        Slice::ranges(&sliced)
    }
}

impl Op for SliceScatter {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let element = operands::same_element(inputs, 0, 1)?;
        let (data, updates) = (operand(inputs, 0)?, operand(inputs, 1)?);
        let ranges = SliceScatter::ranges(inputs)?;
        if updates.rank() != data.rank() {
            return Err(shape_error("updates have another number of dimensions than the data"));
        }
        for (range, dim) in ranges.iter().zip(&updates.dims) {
            operands::require_equal(
                context,
                &range.count,
                dim,
                "the length of a slice and a dimension of its updates",
            )?;
        }
        Ok(vec![Fact::new(element, data.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (data, updates, out) = (builder.input(0)?, builder.input(1)?, builder.output(0)?);
        let ranges = SliceScatter::ranges(builder.facts())?;
        builder.map(out, |n, i| {
            let old = n.load(data, i)?;
            let (mut index, mut bounds) = (Vec::new(), Vec::new());
            for (range, (i, size)) in ranges.iter().zip(i.iter().zip(n.dims(data))) {
                let (distance, step) = match range.step {
                    step if step < 0 => (range.first.clone() - i, Dim::constant(step.saturating_neg())),
                    step => (i.clone() - &range.first, Dim::constant(step)),
                };
                let at = distance.floor_div(&step);
                if range.count != size {
                    bounds.push(Bound { value: at.clone(), limit: range.count.clone() });
                }
                if !step.is(1) {
                    bounds.push(Bound { value: distance.modulo(&step), limit: Dim::constant(1) });
                }
                index.push(at);
            }
            n.load_within(updates, &index, bounds, old)
        })
    }
}

/// As numpy's indexing with slices, `...`, new axes and single elements; the masks say which is which.
#[derive(Debug)]
struct StridedSlice {
    begin: Vec<i64>,
    end: Vec<i64>,
    new_axis: Vec<i64>,
    shrink: Vec<i64>,
    ellipsis: Vec<i64>,
}

fn strided_slice(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let slice = StridedSlice {
        begin: attributes.ints("begin_mask")?,
        end: attributes.ints("end_mask")?,
        new_axis: attributes.ints_or("new_axis_mask", &[])?,
        shrink: attributes.ints_or("shrink_axis_mask", &[])?,
        ellipsis: attributes.ints_or("ellipsis_mask", &[])?,
    };
    if slice.ellipsis.iter().filter(|bit| **bit != 0).count() > 1 {
        return Err(attributes.invalid("ellipsis_mask", "a mask with at most one bit"));
    }
    Ok(Rc::new(slice))
}

fn bit(mask: &[i64], i: usize) -> bool {
    mask.get(i).is_some_and(|bit| *bit != 0)
}

/// What one dimension of the operand or of the result is.
#[derive(Clone, Debug)]
enum Item {
    /// A dimension of both.
    Range(Range),
    /// A dimension of the result only.
    New,
    /// A dimension of the operand only.
    One(Dim),
}

impl StridedSlice {
    /// What [`StridedSlice::items`] says, with begins and ends that are known at run time only.
    fn open_items(&self, inputs: &[Fact]) -> Result<Vec<Option<run_time::Item>>, Diagnostic> {
        use run_time::{Entry, Item};
        let (data, count) = (operand(inputs, 0)?, run_time::entries(operand(inputs, 1)?)?);
        let named = (0..count).filter(|i| !bit(&self.new_axis, *i) && !bit(&self.ellipsis, *i)).count();
        let Some(skipped) = data.rank().checked_sub(named) else {
            return Err(shape_error(format!("the slice names {named} dimensions, the tensor has {}", data.rank())));
        };
        let (mut left, mut items) = (data.rank(), Vec::new());
        for place in 0..count {
            if bit(&self.ellipsis, place) {
                items.extend(std::iter::repeat_n(Some(Item::Range(Entry::None)), skipped));
                left = left.saturating_sub(skipped);
            } else if bit(&self.new_axis, place) {
                items.push(None);
            } else if left > 0 {
                left -= 1;
                items.push(Some(match bit(&self.shrink, place) {
                    true => Item::One(place),
                    false => {
                        let (start, stop) = (!bit(&self.begin, place), !bit(&self.end, place));
                        Item::Range(Entry::At { place, start, stop })
                    }
                }));
            }
        }
        items.extend(std::iter::repeat_n(Some(Item::Range(Entry::None)), left));
        Ok(items)
    }

    fn items(&self, inputs: &[Fact]) -> Result<Vec<Item>, Diagnostic> {
        let data = operand(inputs, 0)?;
        let begins = operands::sizes(inputs, 1, "the begins of a slice")?;
        let ends = operands::sizes(inputs, 2, "the ends of a slice")?;
        let steps = match inputs.len() {
            3 => vec![1; begins.len()],
            _ => operands::integers(inputs, 3, "the strides of a slice")?,
        };
        if [ends.len(), steps.len()] != [begins.len(); 2] {
            return Err(shape_error("begins, ends and strides of a slice have different lengths"));
        }
        let named = (0..begins.len()).filter(|i| !bit(&self.new_axis, *i) && !bit(&self.ellipsis, *i)).count();
        let Some(skipped) = data.rank().checked_sub(named) else {
            return Err(shape_error(format!("the slice names {named} dimensions, the tensor has {}", data.rank())));
        };
        let (mut sizes, mut items) = (data.dims.iter(), Vec::new());
        for (i, ((begin, end), step)) in begins.iter().zip(&ends).zip(steps).enumerate() {
            if bit(&self.ellipsis, i) {
                items.extend(sizes.by_ref().take(skipped).map(|size| Item::Range(Range::all(size))));
                continue;
            }
            if bit(&self.new_axis, i) {
                items.push(Item::New);
                continue;
            }
            let Some(size) = sizes.next() else { break };
            if bit(&self.shrink, i) {
                items.push(Item::One(single(begin, size)?));
                continue;
            }
            let begin = (!bit(&self.begin, i)).then_some(begin);
            let end = (!bit(&self.end, i)).then_some(end);
            items.push(Item::Range(Range::new(size, begin, end, step)?));
        }
        items.extend(sizes.map(|size| Item::Range(Range::all(size))));
        Ok(items)
    }
}

fn single(begin: &Dim, size: &Dim) -> Result<Dim, Diagnostic> {
    let at = from_end(begin, size);
    if at.range().max < 0 || (at.clone() - size).range().min >= 0 {
        return Err(Diagnostic::error(
            &codes::VALUE,
            format!("index {begin} is outside of a dimension of size {size}"),
        ));
    }
    Ok(at)
}

impl Op for StridedSlice {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        if is_open(inputs) {
            return Ok(run_time::infer(operand(inputs, 0)?, &self.open_items(inputs)?, context));
        }
        let size = |item: Item| match item {
            Item::Range(range) => Some(range.count),
            Item::New => Some(Dim::constant(1)),
            Item::One(_) => None,
        };
        let dims = self.items(inputs)?.into_iter().filter_map(size).collect();
        Ok(vec![Fact::new(operand(inputs, 0)?.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        if is_open(builder.facts()) {
            let items = self.open_items(builder.facts())?;
            let steps = if builder.input_count() > 3 { Some(builder.input(3)?) } else { None };
            let lists = run_time::Lists { starts: builder.input(1)?, stops: builder.input(2)?, steps, axes: None };
            return run_time::lower(builder, lists, &items, x, out);
        }
        let items = self.items(builder.facts())?;
        builder.map(out, |n, i| {
            let mut i = i.iter();
            let mut next = || i.next().cloned().unwrap_or_default();
            let mut index = Vec::new();
            for item in &items {
                match item {
                    Item::Range(range) => index.push(range.at(&next())),
                    Item::New => drop(next()),
                    Item::One(at) => index.push(at.clone()),
                }
            }
            n.load(x, &index)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Variable;

    #[test]
    fn ranges_of_run_time_sizes_stay_exact() {
        let size = Dim::variable(Variable::new(0, 1, 512));
        let (zero, one, most) = (Dim::constant(0), Dim::constant(1), Dim::constant(i64::MAX));
        assert_eq!(Range::new(&size, Some(&zero), Some(&one), 1).unwrap().count, one);
        assert_eq!(Range::new(&size, Some(&zero), Some(&most), 1).unwrap().count, size);
        assert_eq!(Range::new(&size, Some(&one), None, 1).unwrap().count, size.clone() - 1);
        assert_eq!(Range::new(&size, None, None, -1).unwrap().count, size);
        assert_eq!(Range::new(&size, Some(&zero), Some(&size), 1).unwrap().count, size);
        assert!(Range::new(&size, None, None, 0).is_err());
    }
}
