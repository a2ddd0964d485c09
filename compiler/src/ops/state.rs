//! State that lasts from run to run: ReadValue and Assign.

use crate::diag::{Diagnostic, codes, quote};
use crate::dim::Dim;
use crate::element::ElementType;
use crate::fact::Fact;
use crate::op::operands::operand;
use crate::op::{InferContext, Op, OpDef, Props, Support, one_output};
use crate::program::BufferId;
use crate::program::builder::Builder;
use crate::read::{Attributes, DimRange, Dims};
use crate::state::StateRequest;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] =
    &[OpDef { inputs: 1..=1, ..read_value(3, 3..=5) }, read_value(6, 6..=17), assign(3, 3..=5), assign(6, 6..=17)];

const fn read_value(version: u8, opsets: RangeInclusive<u8>) -> OpDef {
    OpDef {
        name: "ReadValue",
        version,
        opsets,
        inputs: 0..=1,
        outputs: one_output,
        parse: |a| Ok(Rc::new(ReadValue::parse(a)?)),
        ignorable: &[],
        support: Support::Full,
    }
}

const fn assign(version: u8, opsets: RangeInclusive<u8>) -> OpDef {
    OpDef {
        name: "Assign",
        version,
        opsets,
        inputs: 1..=1,
        outputs: |_| 0,
        parse: |a| Ok(Rc::new(Assign { id: a.string("variable_id")?.to_owned() })),
        ignorable: &["variable_type", "variable_shape"],
        support: Support::Full,
    }
}

/// ReadValue-3, -6: what the last run left in a variable; before there was one, the operand, or zeros without it.
/// The shape is that of the variable: the operand's, with the sizes that `variable_shape` leaves open.
#[derive(Debug)]
struct ReadValue {
    id: String,
    element: Option<ElementType>,
    shape: Option<Dims>,
}

impl ReadValue {
    fn parse(attributes: &Attributes) -> Result<Self, Diagnostic> {
        let element = attributes.element_type_if_known("variable_type")?;
        if element == Some(ElementType::String) {
            return Err(attributes.invalid("variable_type", "a type of numbers or booleans"));
        }
        Ok(ReadValue {
            id: attributes.string("variable_id")?.to_owned(),
            element,
            shape: attributes.dims_if_present("variable_shape")?.filter(|shape| !shape.dynamic_rank),
        })
    }

    /// The sizes that the variable may have: as declared, otherwise those of the initial value.
    fn declared(&self, initial: Option<&Fact>) -> Result<Vec<DimRange>, Diagnostic> {
        let of_value = |dim: &Dim| dim.as_usize().map_or(DimRange::ANY, |size| DimRange::exactly(size as u64));
        match (&self.shape, initial) {
            (Some(shape), _) => Ok(shape.dims.clone()),
            (None, Some(initial)) => Ok(initial.dims.iter().map(of_value).collect()),
            (None, None) => {
                let message = format!("variable {} has neither a shape nor an initial value", quote(&self.id));
                Err(Diagnostic::error(&codes::STATE, message))
            }
        }
    }
}

impl Op for ReadValue {
    fn props(&self) -> Props {
        Props { effect: true, ..Props::default() }
    }

    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let initial = inputs.first();
        let declared = self.declared(initial)?;
        let Some(element) = self.element.or(initial.map(|value| value.element)) else {
            let message = format!("variable {} has neither a type nor an initial value", quote(&self.id));
            return Err(Diagnostic::error(&codes::STATE, message));
        };
        let mut dims: Vec<Dim> = Vec::with_capacity(declared.len());
        for (axis, range) in declared.iter().enumerate() {
            let given = initial.and_then(|value| value.dims.get(axis));
            let smallest = Dim::from(usize::try_from(range.min).unwrap_or(usize::MAX));
            let fits = match (given, range.fixed()) {
                (Some(given), Some(_)) => context.require_equal(&smallest, given),
                (Some(given), None) => allows(range, given),
                (None, _) => initial.is_none(),
            };
            if !fits || initial.is_some_and(|value| value.element != element || value.dims.len() != declared.len()) {
                let message =
                    format!("the initial value of variable {} does not fit its type and shape", quote(&self.id));
                return Err(Diagnostic::error(&codes::STATE, message));
            }
            dims.push(if range.fixed().is_some() { smallest } else { given.cloned().unwrap_or(smallest) });
        }
        Ok(vec![context.read_state(StateRequest { id: &self.id, element, declared: &declared, initial: dims })?])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (memory, out) = (builder.state(&self.id)?, builder.output(0)?);
        if builder.input_count() > 0 && !builder.begins_as_zero(builder.input(0)?) {
            let initial = builder.input(0)?;
            builder.at_first(|builder| copy(builder, initial, memory))?;
        }
        copy(builder, memory, out)
    }
}

/// Whether a size can lie in a range.
fn allows(range: &DimRange, dim: &Dim) -> bool {
    let size = dim.range();
    let at_least = |limit: u64, size: i64| i64::try_from(limit).is_ok_and(|limit| limit <= size);
    at_least(range.min, size.max) && range.max.is_none_or(|max| i64::try_from(max).is_ok_and(|max| size.min <= max))
}

/// Assign-3, -6: leaves the operand in a variable for the next run.
#[derive(Debug)]
struct Assign {
    id: String,
}

impl Op for Assign {
    fn props(&self) -> Props {
        Props { effect: true, ..Props::default() }
    }

    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        context.assign_state(&self.id, operand(inputs, 0)?)?;
        Ok(Vec::new())
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let value = builder.input(0)?;
        let memory = builder.state(&self.id)?;
        let memory = builder.resized(memory, value);
        copy(builder, value, memory)
    }
}

/// Copies all elements; the loops run over the dimensions of the source.
fn copy(builder: &mut Builder, from: BufferId, to: BufferId) -> Result<(), Diagnostic> {
    let dims = builder.dims(from);
    let mut nest = builder.nest(&dims);
    let index = nest.map_axes();
    let value = nest.load(from, &index)?;
    nest.store(to, &index, value);
    Ok(())
}
