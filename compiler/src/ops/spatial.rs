//! Operations that move elements between channels or batch and spatial dimensions.

mod run_time;

use crate::diag::{Diagnostic, codes};
use crate::dim::Dim;
use crate::fact::Fact;
use crate::op::operands::{self, MapAxes, flatten, operand, require_equal, shape_error};
use crate::op::{InferContext, Op, OpDef, Support, one_output};
use crate::program::Bound;
use crate::program::builder::Builder;
use crate::program::nest::Const;
use crate::read::Attributes;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The operations of this family.
pub const OPS: &[OpDef] = &[
    row("BatchToSpace", 2, 2..=17, 4, |_| Ok(Rc::new(BatchToSpace))),
    row("DepthToSpace", 1, 1..=17, 1, |a| depth(a, true)),
    row("ShuffleChannels", 1, 1..=1, 1, shuffle),
    row("ShuffleChannels", 1, 3..=17, 1, shuffle),
    row("SpaceToBatch", 2, 2..=17, 4, |_| Ok(Rc::new(SpaceToBatch))),
    row("SpaceToDepth", 1, 1..=17, 1, |a| depth(a, false)),
];

const fn row(
    name: &'static str,
    version: u8,
    opsets: RangeInclusive<u8>,
    inputs: usize,
    parse: fn(&Attributes) -> Result<Rc<dyn Op>, Diagnostic>,
) -> OpDef {
    OpDef {
        name,
        version,
        opsets,
        inputs: inputs..=inputs,
        outputs: one_output,
        parse,
        ignorable: &[],
        support: Support::Full,
    }
}

/// DepthToSpace and SpaceToDepth: blocks of `block` elements in every spatial dimension lie in the channels of the deep
/// tensor, which come before (`blocks_first`) or after the channels of the wide one.
#[derive(Debug)]
struct Depth {
    block: i64,
    blocks_first: bool,
    /// From channels to space, else from space to channels.
    to_space: bool,
}

fn depth(attributes: &Attributes, to_space: bool) -> Result<Rc<dyn Op>, Diagnostic> {
    let block = attributes.int_or("block_size", 1)?;
    if block < 1 {
        return Err(attributes.invalid("block_size", "a positive number"));
    }
    let blocks_first = attributes.choice("mode", &[("blocks_first", true), ("depth_first", false)])?;
    Ok(Rc::new(Depth { block, blocks_first, to_space }))
}

impl Depth {
    /// Elements of a block with `spatial` dimensions.
    fn volume(&self, spatial: usize) -> Result<i64, Diagnostic> {
        let volume = u32::try_from(spatial).ok().and_then(|n| self.block.checked_pow(n));
        volume.ok_or_else(|| {
            shape_error(format!("a block of {} elements in {spatial} dimensions is too large", self.block))
        })
    }
}

impl Op for Depth {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        let [batch, channels, spatial @ ..] = data.dims.as_slice() else {
            return Err(shape_error("batch, channels and spatial dimensions are required"));
        };
        if spatial.is_empty() {
            return Err(shape_error("a spatial dimension is required"));
        }
        let (volume, block) = (self.volume(spatial.len())?, self.block);
        let mut dims = vec![batch.clone()];
        if self.to_space {
            dims.push(channels.floor_div(&Dim::constant(volume)));
            require_equal(
                context,
                &(channels.floor_div(&Dim::constant(volume)) * volume),
                channels,
                "channels and a multiple of the block's volume",
            )?;
            dims.extend(spatial.iter().map(|size| size.clone() * block));
        } else {
            dims.push(channels.clone() * volume);
            for size in spatial {
                let blocks = size.floor_div(&Dim::constant(block));
                require_equal(
                    context,
                    &(blocks.clone() * block),
                    size,
                    "a spatial dimension and a multiple of the block size",
                )?;
                dims.push(blocks);
            }
        }
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let (wide, deep) =
            if self.to_space { (builder.dims(out), builder.dims(x)) } else { (builder.dims(x), builder.dims(out)) };
        let ([batch, channels, ..], [_, _, blocks @ ..]) = (wide.as_slice(), deep.as_slice()) else {
            return Err(Diagnostic::internal("a tensor without channels"));
        };
        let volume = self.volume(blocks.len())?;
        let mut maps = MapAxes::default();
        let (b, c) = (maps.axis(batch), maps.axis(channels));
        let block = Dim::constant(self.block);
        let (mut places, mut within) = (Vec::new(), Vec::new());
        for size in blocks {
            places.push(maps.axis(size));
            within.push(maps.axis(&block));
        }
        let offset = flatten(&within, &vec![block; blocks.len()]);
        let channel = if self.blocks_first { offset * channels + &c } else { c.clone() * volume + &offset };
        let in_wide: Vec<Dim> = [b.clone(), c]
            .into_iter()
            .chain(places.iter().zip(&within).map(|(at, i)| at.clone() * self.block + i))
            .collect();
        let in_deep: Vec<Dim> = [b, channel].into_iter().chain(places).collect();
        let (from, to) = if self.to_space { (in_deep, in_wide) } else { (in_wide, in_deep) };
        let mut n = builder.nest(&maps.extents);
        let value = n.load(x, &from)?;
        n.store(out, &to, value);
        Ok(())
    }
}

/// Writes channel `g * (C / groups) + i` to channel `i * groups + g`.
#[derive(Debug)]
struct ShuffleChannels {
    axis: i64,
    groups: i64,
}

fn shuffle(attributes: &Attributes) -> Result<Rc<dyn Op>, Diagnostic> {
    let (axis, groups) = (attributes.int_or("axis", 1)?, attributes.int_or("group", 1)?);
    match groups < 1 {
        true => Err(attributes.invalid("group", "a positive number")),
        false => Ok(Rc::new(ShuffleChannels { axis, groups })),
    }
}

impl Op for ShuffleChannels {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        let data = operand(inputs, 0)?;
        let axis = operands::axis(self.axis, data.rank())?;
        let size = data.dims.get(axis).cloned().unwrap_or_default();
        let whole = size.floor_div(&Dim::constant(self.groups)) * self.groups;
        require_equal(context, &whole, &size, "channels and a multiple of the groups")?;
        Ok(vec![Fact::new(data.element, data.dims.clone())])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let dims = builder.dims(x);
        let axis = operands::axis(self.axis, dims.len())?;
        let (mut maps, mut from, mut to) = (MapAxes::default(), Vec::new(), Vec::new());
        for (i, size) in dims.iter().enumerate() {
            if i != axis {
                let at = maps.axis(size);
                from.push(at.clone());
                to.push(at);
                continue;
            }
            let groups = Dim::constant(self.groups);
            let members = size.floor_div(&groups);
            let (group, member) = (maps.axis(&groups), maps.axis(&members));
            from.push(group.clone() * &members + &member);
            to.push(member * self.groups + &group);
        }
        let mut n = builder.nest(&maps.extents);
        let value = n.load(x, &from)?;
        n.store(out, &to, value);
        Ok(())
    }
}

/// Block sizes and two lists of numbers per dimension: the operands of BatchToSpace and SpaceToBatch. The first element
/// of each belongs to the batch, whose block size is 1 and whose pads are 0.
struct Blocks {
    block: Vec<i64>,
    begin: Vec<Dim>,
    end: Vec<Dim>,
}

fn blocks(inputs: &[Fact]) -> Result<Blocks, Diagnostic> {
    let rank = operand(inputs, 0)?.rank();
    let block = operands::integers(inputs, 1, "the block shape")?;
    let begin = operands::sizes(inputs, 2, "the pads or crops at the beginning")?;
    let end = operands::sizes(inputs, 3, "the pads or crops at the end")?;
    if rank < 2 || [block.len(), begin.len(), end.len()] != [rank; 3] {
        return Err(shape_error(format!(
            "block shape and pads must have one element for each of the {rank} dimensions"
        )));
    }
    let plain = block.first() == Some(&1) && [&begin, &end].iter().all(|list| list.first().is_some_and(|d| d.is(0)));
    if !plain || block.iter().any(|b| *b < 1) || begin.iter().chain(&end).any(|d| d.range().max < 0) {
        return Err(Diagnostic::error(
            &codes::VALUE,
            "blocks must be positive, pads not negative, and those of the batch 1 and 0",
        ));
    }
    Ok(Blocks { block, begin, end })
}

/// Moves blocks from the batch into the other dimensions and crops the result.
#[derive(Debug)]
struct BatchToSpace;

impl Op for BatchToSpace {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        if run_time::is_open(inputs) {
            return run_time::unblocked(inputs, context);
        }
        let data = operand(inputs, 0)?;
        let Blocks { block, begin, end } = blocks(inputs)?;
        let volume = block.iter().fold(1i64, |v, b| v.saturating_mul(*b));
        let mut dims = Vec::new();
        for (i, (size, block)) in data.dims.iter().zip(&block).enumerate() {
            if i == 0 {
                let batch = size.floor_div(&Dim::constant(volume));
                require_equal(context, &(batch.clone() * volume), size, "the batch and a multiple of the blocks")?;
                dims.push(batch);
                continue;
            }
            let crops = begin.iter().zip(&end).nth(i).map(|(a, b)| a.clone() + b).unwrap_or_default();
            let cropped = size.clone() * *block - crops;
            if cropped.range().max < 0 {
                return Err(shape_error(format!("the crops remove more than dimension {i} has")));
            }
            dims.push(cropped);
        }
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if run_time::is_open(builder.facts()) {
            return run_time::batch_to_space(builder);
        }
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let Blocks { block, begin, .. } = blocks(builder.facts())?;
        let batch = builder.dims(out).first().cloned().unwrap_or_default();
        builder.map(out, |n, i| {
            let (mut from, mut flat) = (vec![Dim::constant(0)], Dim::constant(0));
            for ((i, block), crop) in i.iter().zip(&block).zip(&begin).skip(1) {
                let (at, size) = (i.clone() + crop, Dim::constant(*block));
                flat = flat * *block + at.modulo(&size);
                from.push(at.floor_div(&size));
            }
            if let (Some(slot), Some(b)) = (from.first_mut(), i.first()) {
                *slot = flat * &batch + b;
            }
            n.load(x, &from)
        })
    }
}

/// Pads with zeros and moves blocks from the other dimensions into the batch.
#[derive(Debug)]
struct SpaceToBatch;

impl Op for SpaceToBatch {
    fn infer(&self, inputs: &[Fact], context: &mut InferContext) -> Result<Vec<Fact>, Diagnostic> {
        if run_time::is_open(inputs) {
            return run_time::blocked(inputs, context);
        }
        let data = operand(inputs, 0)?;
        let Blocks { block, begin, end } = blocks(inputs)?;
        let volume = block.iter().fold(1i64, |v, b| v.saturating_mul(*b));
        let mut dims = Vec::new();
        for (i, (((size, block), begin), end)) in data.dims.iter().zip(&block).zip(&begin).zip(&end).enumerate() {
            if i == 0 {
                dims.push(size.clone() * volume);
                continue;
            }
            let padded = size.clone() + begin + end;
            let places = padded.floor_div(&Dim::constant(*block));
            require_equal(
                context,
                &(places.clone() * *block),
                &padded,
                "a padded dimension and a multiple of its block",
            )?;
            dims.push(places);
        }
        Ok(vec![Fact::new(data.element, dims)])
    }

    fn lower(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        if run_time::is_open(builder.facts()) {
            return run_time::space_to_batch(builder);
        }
        let (x, out) = (builder.input(0)?, builder.output(0)?);
        let Blocks { block, begin, .. } = blocks(builder.facts())?;
        let (sizes, places) = (builder.dims(x), builder.dims(out));
        let zero = Const::of(builder.scalar_type(x)?, 0.0);
        let batch = sizes.first().cloned().unwrap_or_default();
        let mut maps = MapAxes::default();
        let within: Vec<Dim> = block.iter().skip(1).map(|b| maps.axis(&Dim::constant(*b))).collect();
        let b = maps.axis(&batch);
        let blocks: Vec<Dim> = block.iter().skip(1).map(|b| Dim::constant(*b)).collect();
        let (mut from, mut to) = (vec![b.clone()], vec![flatten(&within, &blocks) * &batch + &b]);
        let mut bounds = Vec::new();
        for (i, within) in within.iter().enumerate() {
            let element = |list: &[Dim]| list.get(i + 1).cloned().unwrap_or_default();
            let (place, pad, size) = (maps.axis(&element(&places)), element(&begin), element(&sizes));
            let at = place.clone() * block.get(i + 1).copied().unwrap_or(1) + within - &pad;
            let padded = element(&places) * block.get(i + 1).copied().unwrap_or(1);
            if padded != size {
                bounds.push(Bound { value: at.clone(), limit: size });
            }
            from.push(at);
            to.push(place);
        }
        let mut n = builder.nest(&maps.extents);
        let zero = n.constant(zero);
        let value = n.load_within(x, &from, bounds, zero)?;
        n.store(out, &to, value);
        Ok(())
    }
}
