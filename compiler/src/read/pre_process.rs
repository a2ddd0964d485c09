//! Mean subtraction that old files ask for beside the graph.

use super::xml::Element;
use super::{Layer, Net, fields, number, shape};
use crate::diag::{Diagnostic, Diagnostics, codes, quote};
use crate::element::ElementType;
use crate::source::Source;
use std::collections::BTreeMap;

/// Values to subtract from an input before anything else sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct PreProcess {
    /// Index of the Parameter in [`Net::layers`].
    pub layer: usize,
    /// What to subtract.
    pub mean: Mean,
}

/// Mean values; they are rounded to the element type of the input.
#[derive(Clone, PartialEq, Debug)]
pub enum Mean {
    /// One number per channel.
    Channels {
        /// `[C]` or `[C, 1, ...]`, broadcast against the input.
        dims: Vec<usize>,
        /// C numbers.
        values: Vec<f32>,
    },
    /// One image per channel, in the weights file and in the element type of the input.
    Images {
        /// `[C, H, W]` and the like, broadcast against the input.
        dims: Vec<usize>,
        /// The element type.
        element: ElementType,
        /// Where the image of each channel starts; the ranges are checked.
        offsets: Vec<usize>,
        /// Bytes of one image.
        len: usize,
    },
}

/// Reads `<pre-process>`, if there is one.
pub(super) fn read(root: Element<'_>, source: &Source, net: &mut Net, diagnostics: &mut Diagnostics) {
    if let Some(element) = root.child("pre-process") {
        let parsed = parse(element, source, net, diagnostics);
        net.pre_process.extend(diagnostics.ok(parsed).flatten());
    }
}

fn error(element: Element<'_>, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(&codes::PRE_PROCESS, message).at(element.span())
}

fn parse(
    element: Element<'_>,
    source: &Source,
    net: &Net,
    diagnostics: &mut Diagnostics,
) -> Result<Option<PreProcess>, Diagnostic> {
    let index = target(element, net)?;
    let layer = net.layers.get(index).ok_or_else(|| Diagnostic::internal("lost a Parameter"))?;
    let extents = extents(element, layer)?;
    let means = channels(element, diagnostics)?;
    let mut values = BTreeMap::new();
    let mut offsets = BTreeMap::new();
    for (&channel, &mean) in &means {
        match mean.attribute("value") {
            Some(value) => {
                let text = value.value();
                let parsed = number::float_prefix(&text).map_err(|_| {
                    error(element, format!("the mean value {} is not a number", quote(&text))).at(value.value_span())
                })?;
                values.insert(channel, parsed.0 as f32);
            }
            None => {
                offsets.insert(channel, mean);
            }
        }
    }
    let channels = extents.channels;
    let count = values.len() + offsets.len();
    if !values.is_empty() && !offsets.is_empty() {
        return Err(error(element, "some channels have a mean value and others a mean image"));
    }
    if count == 0 {
        return Ok(None);
    }
    if count != channels {
        return Err(error(element, format!("there are {count} means for {channels} channels")));
    }
    if let Some((&channel, _)) = means.last_key_value().filter(|(channel, _)| **channel >= channels as u64) {
        return Err(error(element, format!("channel {channel} does not exist, there are {channels}")));
    }
    let mean = if values.is_empty() {
        images(element, layer, &extents, offsets, source, diagnostics)?
    } else {
        let mut dims = vec![channels];
        dims.resize(1 + extents.image.len(), 1);
        Mean::Channels { dims, values: values.into_values().collect() }
    };
    Ok(Some(PreProcess { layer: index, mean }))
}

/// The Parameter that is meant: by name, else the first one with four dimensions, else the first one.
fn target(element: Element<'_>, net: &Net) -> Result<usize, Diagnostic> {
    let name = fields::text_or_empty(element, "reference-layer-name");
    let name = name.trim();
    let layer = |index: &usize| net.layers.get(*index);
    let found = if name.is_empty() {
        let has_rank_4 = |index: &&usize| {
            let attribute = layer(index).and_then(|layer| layer.attribute("shape"));
            attribute.and_then(|a| shape::parse(&a.value).ok()).is_some_and(|dims| dims.dims.len() == 4)
        };
        net.parameters.iter().find(has_rank_4).or(net.parameters.first())
    } else {
        net.parameters.iter().find(|index| layer(index).is_some_and(|layer| layer.name == name))
    };
    found.copied().ok_or_else(|| error(element, format!("there is no input named {}", quote(name))))
}

/// Number of channels, and dimensions of what each channel holds.
struct Extents {
    channels: usize,
    image: Vec<usize>,
}

fn extents(element: Element<'_>, layer: &Layer) -> Result<Extents, Diagnostic> {
    let name = quote(&layer.name);
    let fixed = layer
        .attribute("shape")
        .and_then(|attribute| shape::parse(&attribute.value).ok())
        .and_then(|dims| dims.fixed())
        .and_then(|dims| dims.into_iter().map(|d| usize::try_from(d).ok()).collect::<Option<Vec<_>>>());
    let (channels, image) = match fixed.as_deref() {
        None => return Err(error(element, format!("input {name} has no fixed shape"))),
        Some([_, channels]) => (*channels, Vec::new()),
        // Three dimensions are an image without a batch.
        Some([channels, image @ ..]) if image.len() == 2 => (*channels, image.to_vec()),
        Some([_, channels, image @ ..]) if (2..=3).contains(&image.len()) => (*channels, image.to_vec()),
        Some(dims) => {
            let rank = dims.len();
            return Err(error(element, format!("input {name} has {rank} dimensions instead of 2 to 5")));
        }
    };
    Ok(Extents { channels, image })
}

/// The `<mean>` of every channel that has one, by channel number.
fn channels<'a>(element: Element<'a>, diagnostics: &mut Diagnostics) -> Result<BTreeMap<u64, Element<'a>>, Diagnostic> {
    let mut means = BTreeMap::new();
    for (position, channel) in element.children_named("channel").enumerate() {
        let id = match channel.attribute("id") {
            Some(_) => fields::unsigned(channel, "id", diagnostics),
            None => u64::try_from(position).ok(),
        };
        let (Some(id), Some(mean)) = (id, channel.child("mean")) else {
            continue;
        };
        if mean.attribute("value").is_none() && mean.attribute("size").is_none() {
            return Err(error(mean, "a mean has neither `value` nor `size`"));
        }
        if means.insert(id, mean).is_some() {
            return Err(error(channel, format!("channel {id} has two means")));
        }
    }
    Ok(means)
}

fn images(
    element: Element<'_>,
    layer: &Layer,
    extents: &Extents,
    means: BTreeMap<u64, Element<'_>>,
    source: &Source,
    diagnostics: &mut Diagnostics,
) -> Result<Mean, Diagnostic> {
    let element_type = layer
        .attribute("element_type")
        .and_then(|attribute| ElementType::from_data(&attribute.value))
        .ok_or_else(|| error(element, format!("input {} has no element type", quote(&layer.name))))?;
    let len = extents
        .image
        .iter()
        .try_fold(1usize, |volume, &dim| volume.checked_mul(dim))
        .and_then(|volume| element_type.storage_bytes(volume))
        .ok_or_else(|| error(element, "the mean images are too large"))?;
    let file = source.weights.bytes().len();
    let mut offsets = Vec::new();
    for mean in means.into_values() {
        let offset = fields::unsigned(mean, "offset", diagnostics);
        let size = fields::unsigned(mean, "size", diagnostics);
        let (Some(offset), Some(size)) = (offset, size) else {
            return Err(error(mean, "a mean image has no place in the weights file"));
        };
        if size != len as u64 {
            return Err(error(mean, format!("a mean image has {size} bytes instead of {len}")));
        }
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        if offset.checked_add(len).is_none_or(|end| end > file) {
            return Err(error(mean, format!("a mean image lies outside the weights file of {file} bytes")));
        }
        offsets.push(offset);
    }
    let mut dims = vec![extents.channels];
    dims.extend(&extents.image);
    Ok(Mean::Images { dims, element: element_type, offsets, len })
}
