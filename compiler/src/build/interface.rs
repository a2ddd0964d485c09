//! The model's inputs and outputs: Parameters with their run-time sizes, Results, and what version 10 makes of them.

use super::{Building, origin};
use crate::diag::{Diagnostic, codes, quote};
use crate::dim::{Dim, Variable};
use crate::fact::Fact;
use crate::graph::{Interface, Origin, ROOT, SizeSource, VariableInfo};
use crate::ops::convert;
use crate::options::{self, Bound, Options};
use crate::read::{Attributes, DimRange, Layer};
use std::rc::Rc;

impl Building<'_> {
    pub(super) fn parameters(&mut self, options: &Options) {
        let net = self.net;
        for (position, index) in net.parameters.iter().enumerate() {
            let Some(layer) = net.layers.get(*index) else { continue };
            let names: Vec<String> = net.input_names(position).into_iter().map(str::to_owned).collect();
            if let Err(diagnostic) = self.parameter(*index, layer, names, options) {
                self.diagnostics.push(diagnostic);
            }
        }
        self.check_input_options(options);
        if let Err(diagnostic) = self.pre_process() {
            self.diagnostics.push(diagnostic);
        }
    }

    fn parameter(
        &mut self,
        index: usize,
        layer: &Layer,
        tensor_names: Vec<String>,
        options: &Options,
    ) -> Result<(), Diagnostic> {
        let attributes = Attributes::new(layer);
        let declared = attributes.element_type("element_type")?;
        let shape = attributes.dims("shape")?;
        let shape_span = layer.attribute("shape").map_or(layer.span, |a| a.value_span);
        self.diagnostics.extend(attributes.finish(&["layout"]));
        let named = |input: &String| *input == layer.name || tensor_names.contains(input);
        if let Some(given) = options.value.iter().find(|value| named(&value.input)) {
            self.outputs[index] = self.fixed_input(layer, given, declared, &shape)?.into_iter().collect();
            return Ok(());
        }
        let over = options.shape.iter().find(|s| named(&s.input));
        let ranges: Vec<DimRange> = match over {
            Some(over) if shape.dynamic_rank || over.dims.len() == shape.dims.len() => {
                (0..over.dims.len()).map(|i| override_dim(over.dims[i], shape.dims.get(i))).collect()
            }
            Some(over) => {
                let message = format!("option `shape` gives {} {} dimensions", quote(&over.input), over.dims.len());
                return Err(Diagnostic::error(&codes::OPTION, message)
                    .at(shape_span)
                    .note(format!("the model has {}", shape.dims.len())));
            }
            None if shape.dynamic_rank => {
                return Err(Diagnostic::error(
                    &codes::UNBOUNDED,
                    format!("the rank of input {} is unknown", quote(&layer.name)),
                )
                .at(shape_span)
                .help(format!("give its shape: --shape {}=1,3,224,224", layer.name)));
            }
            None => shape.dims.clone(),
        };
        let dims = self.dims(layer, shape_span, &ranges, options)?;
        let element = self.net.legacy_input_type(declared);
        let value = self.graph.add_value(&layer.name, Some(Fact::new(element, dims)));
        self.graph.region_mut(ROOT).parameters.push(value);
        self.graph.inputs.push(Interface { name: layer.name.clone(), tensor_names, span: Some(layer.span) });
        let inside = match element == declared {
            true => Some(value),
            false => self.add(convert::to(declared), vec![value], origin(layer)),
        };
        self.outputs[index] = inside.into_iter().collect();
        Ok(())
    }

    /// Dimensions of an input; every open one becomes a run-time size, which needs an upper bound.
    fn dims(
        &mut self,
        layer: &Layer,
        span: crate::diag::Span,
        ranges: &[DimRange],
        options: &Options,
    ) -> Result<Vec<Dim>, Diagnostic> {
        let (position, mut dims) = (self.graph.inputs.len(), Vec::with_capacity(ranges.len()));
        for (axis, range) in ranges.iter().enumerate() {
            let name = format!("{}_{axis}", layer.name);
            let bound = Bound::of(&options.bound, &name);
            let too_large = || {
                Diagnostic::error(
                    &codes::LIMIT,
                    format!("dimension {axis} of input {} is too large", quote(&layer.name)),
                )
                .at(span)
            };
            let min = i64::try_from(range.min).map_err(|_| too_large())?;
            if let Some(size) = range.fixed() {
                dims.push(Dim::constant(i64::try_from(size).map_err(|_| too_large())?));
                continue;
            }
            let max = match (range.max, bound) {
                (_, Some(bound)) => bound,
                (Some(max), None) => i64::try_from(max).map_err(|_| too_large())?,
                (None, None) => match Bound::of_others(&options.bound) {
                    Some(bound) => bound,
                    None => return Err(unbounded(layer, axis, ranges, &name).at(span)),
                },
            };
            let variable = Variable::new(self.graph.variables.len() as u32, min.min(max), max);
            self.graph.variables.push(VariableInfo { variable, name, source: SizeSource::Input(position, axis) });
            dims.push(Dim::variable(variable));
        }
        Ok(dims)
    }

    /// Options that belong to an input name one.
    fn check_input_options(&mut self, options: &Options) {
        let net = self.net;
        let inputs = || net.parameters.iter().enumerate();
        let layer = |index: &usize| net.layers.get(*index).map(|layer| layer.name.as_str());
        let named = |(position, index): (usize, &usize), name: &str| {
            layer(index) == Some(name) || net.input_names(position).contains(&name)
        };
        let shapes = options.shape.iter().map(|shape| ("shape", &shape.input));
        for (option, name) in shapes.chain(options.value.iter().map(|value| ("value", &value.input))) {
            if !inputs().any(|input| named(input, name)) {
                let names: Vec<String> = net.parameters.iter().filter_map(layer).map(quote).collect();
                let message = format!("option `{option}` names {}, which is no input", quote(name));
                self.diagnostics.push(
                    Diagnostic::error(&codes::OPTION, message).help(format!("the inputs are {}", names.join(", "))),
                );
            }
        }
    }

    pub(super) fn results(&mut self, options: &Options) {
        let net = self.net;
        for (position, index) in net.results.iter().enumerate() {
            let Some(layer) = net.layers.get(*index) else { continue };
            let names = net.output_names(position).into_iter().map(str::to_owned).collect();
            if let Err(diagnostic) = self.result(layer, names) {
                self.report(diagnostic);
            }
        }
        for name in &options.output {
            if let Err(diagnostic) = self.extra_output(name) {
                self.diagnostics.push(diagnostic);
            }
        }
    }

    fn result(&mut self, layer: &Layer, tensor_names: Vec<String>) -> Result<(), Diagnostic> {
        let value = self.result_value(layer)?;
        let value = match self.net.legacy_io {
            true => self.add(Rc::new(convert::LegacyOutput), vec![value], origin(layer)),
            false => Some(value),
        };
        self.graph.region_mut(ROOT).results.extend(value);
        self.graph.outputs.push(Interface { name: layer.name.clone(), tensor_names, span: Some(layer.span) });
        Ok(())
    }

    /// Option `output`: the first result of a layer, or the value with a tensor name.
    fn extra_output(&mut self, name: &str) -> Result<(), Diagnostic> {
        let find = |layer: &Layer| match layer.name == name {
            true => Some(0),
            false => (0..layer.output_ports.len()).find(|port| layer.tensor_names(*port).contains(&name)),
        };
        let found = self.net.order.iter().find_map(|index| {
            let port = find(self.net.layers.get(*index)?)?;
            self.outputs.get(*index)?.get(port).copied()
        });
        let value = found.ok_or_else(|| {
            Diagnostic::error(
                &codes::OPTION,
                format!("option `output` names {}, which is no layer or tensor", quote(name)),
            )
            .help("`irc inspect` lists the layers")
        })?;
        self.graph.region_mut(ROOT).results.push(value);
        let interface = Interface { name: name.to_owned(), tensor_names: vec![name.to_owned()], span: None };
        self.graph.outputs.push(interface);
        Ok(())
    }

    pub(super) fn internal_origin(name: &str, kind: &str) -> Origin {
        Origin { name: name.to_owned(), kind: kind.to_owned(), span: None }
    }
}

fn override_dim(over: options::DimRange, model: Option<&DimRange>) -> DimRange {
    match over {
        options::DimRange::Keep => model.copied().unwrap_or(DimRange::ANY),
        options::DimRange::Fixed(size) => DimRange::exactly(size.max(0) as u64),
        options::DimRange::Between(min, max) => DimRange { min: min.max(0) as u64, max: max.map(|m| m.max(0) as u64) },
    }
}

fn unbounded(layer: &Layer, axis: usize, ranges: &[DimRange], name: &str) -> Diagnostic {
    let dims: Vec<String> =
        ranges.iter().map(|r| r.fixed().map_or("1..8".to_owned(), |size| size.to_string())).collect();
    Diagnostic::error(&codes::UNBOUNDED, format!("dimension {axis} of input {} has no upper bound", quote(&layer.name)))
        .note("buffers are sized when the model is compiled")
        .help(format!("give a shape, like --shape {}={}, or a bound, --bound {name}=8", layer.name, dims.join(",")))
}
