//! Operations that repeat elements: Broadcast and Tile.

use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::fact::Fact;
use crate::op::broadcast::{Broadcast as Rule, along, stretches};
use crate::op::operands::{self, operand, shape_error, text};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::builder::Builder;
use crate::read::Attributes;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    OpDef {
        name: "Broadcast",
        version: 1,
        opsets: 1..=2,
        inputs: 2..=3,
        outputs: one_output,
        parse: |a| {
            parse(
                a,
                &[
                    ("numpy", Mode::Numpy),
                    ("explicit", Mode::Explicit),
                    ("none", Mode::Explicit),
                    ("pdpd", Mode::Pdpd(-1)),
                ],
            )
        },
        ignorable: &[],
        support: Support::Full,
    },
    OpDef {
        name: "Broadcast",
        version: 3,
        opsets: 3..=17,
        inputs: 2..=3,
        outputs: one_output,
        parse: |a| {
            let modes = [
                ("numpy", Mode::Numpy),
                ("explicit", Mode::Explicit),
                ("pdpd", Mode::Pdpd(-1)),
                ("bidirectional", Mode::Bidirectional),
            ];
            parse(a, &modes)
        },
        ignorable: &[],
        support: Support::Full,
    },
    OpDef {
        name: "Tile",
        version: 1,
        opsets: 1..=17,
        inputs: 2..=2,
        outputs: one_output,
        parse: |_| Ok(Rc::new(Tile)),
        ignorable: &[],
        support: Support::Full,
    },
];

/// How the data's dimensions are matched with the target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Aligned at the last dimension.
    Numpy,
    /// The third operand gives the target dimension of every dimension of the data.
    Explicit,
    /// Aligned at this dimension of the target (-1: at the last).
    Pdpd(i64),
    /// As Numpy, and the target stretches too.
    Bidirectional,
}

fn parse(attributes: &Attributes, modes: &[(&str, Mode)]) -> Result<Rc<dyn Op>, Diagnostic> {
    let axis = attributes.int_or("mode.auto_broadcast_axis", -1)?;
    let mode = match attributes.choice_or("mode", modes, Mode::Numpy)? {
        Mode::Pdpd(_) => Mode::Pdpd(axis),
        mode => mode,
    };
    Ok(Rc::new(Broadcast { mode }))
}

/// Repeats the data along dimensions of size 1 and new ones until it has the shape of the second operand.
#[derive(Debug)]
struct Broadcast {
    mode: Mode,
}

impl Broadcast {
    /// The dimension of the result for every dimension of the data.
    fn mapping(&self, inputs: &[Fact], out: usize) -> Result<Vec<usize>, Diagnostic> {
        let rank = operand(inputs, 0)?.rank();
        let mismatch = || shape_error(format!("data with {rank} dimensions cannot be broadcast to {out} dimensions"));
        let start = match self.mode {
            Mode::Explicit => {
                let axes = operands::axes(&operands::integers(inputs, 2, "the axes of a Broadcast")?, out)?;
                if axes.len() != rank || !axes.is_sorted() {
                    return Err(shape_error(format!("the axes of a Broadcast must be {rank} ascending numbers")));
                }
                return Ok(axes);
            }
            Mode::Pdpd(axis) if axis >= 0 => usize::try_from(axis).map_err(|_| mismatch())?,
            _ => out.checked_sub(rank).ok_or_else(mismatch)?,
        };
        if start.saturating_add(rank) > out {
            return Err(mismatch());
        }
        Ok((start..start + rank).collect())
    }
}

impl Op for Broadcast {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let inputs = &*context.sized(inputs, &[1], "the target shape", &Dim::constant(1))?;
        let data = operand(inputs, 0)?;
        let target = operands::sizes(inputs, 1, "the target shape")?;
        if target.iter().any(|d| d.as_const().is_some_and(|d| d < 0)) {
            return Err(shape_error(format!("the target shape {} has a negative size", text(&target))));
        }
        if self.mode == Mode::Bidirectional {
            return Ok(vec![Fact::new(data.element, Rule::Numpy.dims(&data.dims, &target, context)?)]);
        }
        for (dim, axis) in data.dims.iter().zip(self.mapping(inputs, target.len())?) {
            let Some(wanted) = target.get(axis) else { continue };
            if !stretches(dim, wanted, context) {
                let message =
                    format!("a dimension of the data and of the target shape must be equal: {dim} and {wanted}");
                return Err(shape_error(message));
            }
        }
        Ok(vec![Fact::new(data.element, target)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let mapping = self.mapping(builder.facts(), builder.dims(out).len())?;
        builder.map(out, |n, i| {
            let zero = Dim::constant(0);
            let from = |(dim, axis): (&Dim, &usize)| along(dim, i.get(*axis).unwrap_or(&zero));
            let index: Vec<Dim> = n.dims(x).iter().zip(&mapping).map(from).collect();
            n.load(x, &index)
        })
    }
}

/// Repeats the data as a whole along every dimension. Missing dimensions and missing repeats count as 1.
#[derive(Debug)]
struct Tile;

impl Op for Tile {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let inputs = &*context.sized(inputs, &[1], "the repeats", &product(&operand(inputs, 0)?.dims))?;
        let data = operand(inputs, 0)?;
        let repeats = operands::sizes(inputs, 1, "the repeats")?;
        let rank = data.rank().max(repeats.len());
        let aligned = |list: &[Dim], i: usize| {
            (i + list.len()).checked_sub(rank).and_then(|i| list.get(i)).cloned().unwrap_or(Dim::constant(1))
        };
        let size = |i| aligned(&data.dims, i) * aligned(&repeats, i).maximum(&Dim::constant(0));
        Ok(vec![Fact::new(data.element, (0..rank).map(size).collect())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let sizes = builder.dims(out);
        builder.map(out, |n, i| {
            let dims = n.dims(x);
            let new = i.len().saturating_sub(dims.len());
            let from = |(dim, (i, size)): (&Dim, (&Dim, &Dim))| match dim {
                _ if dim.is(1) => Dim::constant(0),
                _ if dim == size => i.clone(),
                _ => i.modulo(dim),
            };
            let index: Vec<Dim> = dims.iter().zip(i.iter().zip(&sizes).skip(new)).map(from).collect();
            n.load(x, &index)
        })
    }
}
